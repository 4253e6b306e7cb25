"""What the paper says, what was measured, and whether it holds."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

Verdict = Literal["yes", "no", "in part", "not testable"]


@dataclass(frozen=True)
class Claim:
    """One claim of the paper.

    Attributes
    ----------
    paper : str
        What the paper says.
    where : str
        Section or figure of the paper.
    measured : str
        What was measured, with numbers.
    holds : {"yes", "no", "in part", "not testable"}
    """

    paper: str
    where: str
    measured: str
    holds: Verdict

    def as_dict(self) -> dict[str, str]:
        """Return the claim as JSON can hold it."""
        return asdict(self)


def verdict(*parts: bool) -> Verdict:
    """Return "yes" if all parts hold, "no" if none does, "in part" otherwise."""
    if all(parts):
        return "yes"
    return "in part" if any(parts) else "no"


def value_range(values: Sequence[int]) -> str:
    """Smallest and largest value, or the one that there is."""
    low, high = min(values), max(values)
    return f"{low}" if low == high else f"{low} to {high}"


def claims_table(claims: Iterable[Claim]) -> str:
    """Markdown table of claims."""
    rows = [(c.paper, c.where, c.measured, f"**{c.holds}**") for c in claims]
    return markdown_table(("the paper says", "where", "we measured", "holds?"), rows)


def markdown_table(header: Iterable[str], rows: Iterable[Iterable[Any]]) -> str:
    """Markdown table; floats with three digits after the point, bars escaped."""
    names = [str(name) for name in header]
    lines = ["| " + " | ".join(names) + " |", "|" + "---|" * len(names)]
    lines += ["| " + " | ".join(_cell(value) for value in row) + " |" for row in rows]
    return "\n".join(lines) + "\n"


def _cell(value: Any) -> str:
    if value is None:
        return "–"
    text = f"{value:.3f}" if isinstance(value, float) else str(value)
    return text.replace("|", "\\|").replace("\n", " ")
