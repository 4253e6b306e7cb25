"""Ratios measured side by side in one process; see __main__."""
