"""CSV that no spreadsheet runs: names that look like formulas are shown as text."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Sequence

_FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n")


def escaped(name: str) -> str:
    """Put an apostrophe before what a spreadsheet would take for a formula."""
    return f"'{name}" if name.lstrip(" ").startswith(_FORMULA) or name[:1] in _FORMULA else name


def to_csv(header: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """Write a table; text is escaped, numbers are as exact as they are."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(header)
    for row in rows:
        writer.writerow([escaped(cell) if isinstance(cell, str) else cell for cell in row])
    return text.getvalue()
