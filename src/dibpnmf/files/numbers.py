"""Cells of text that are numbers, missing, or neither."""

from __future__ import annotations

import math
from collections.abc import Set

MISSING = frozenset({"", "na", "n/a", "nan", "null", "none", "?", "missing", "#n/a"})


def to_number(text: str, missing: Set[str] = MISSING) -> float | None:
    """Value of a cell, NaN if it is missing, None if it is no number."""
    stripped = text.strip()
    if stripped.casefold() in missing:
        return math.nan
    try:
        # Python reads 1_000 as a thousand; in a data file it is a slip.
        return None if "_" in stripped else float(stripped)
    except ValueError:
        return None
