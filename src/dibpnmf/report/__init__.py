"""The report: one HTML file that says what was learned, and lets one look at it."""

from dibpnmf.report.page import write_report

__all__ = ["write_report"]
