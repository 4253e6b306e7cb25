"""Columns with an empty side, as the sticks see them: their masks are summed out."""

from __future__ import annotations

import math

from dibpnmf._compile import part
from dibpnmf.priors.base import Floats

TAIL_TRIES = 2


@part
def log_unseen(empty: float, other_empty: float) -> float:
    """Log of q + q' − q q', the probability of a column with an empty side, from log q, log q'."""
    both_used = math.expm1(empty) * math.expm1(other_empty)
    if both_used < 0.9:
        return math.log1p(-both_used)
    return log_rarely_unseen(empty, other_empty)


@part
def log_rarely_unseen(empty: float, other_empty: float) -> float:
    """Do as `log_unseen` does, without cancellation where q and q' are small."""
    low, high = min(empty, other_empty), max(empty, other_empty)
    if high == -math.inf:
        return high
    return high + math.log1p(math.exp(low - high) - math.exp(low))


@part
def is_unseen(counts: Floats, k: int) -> bool:
    """Whether a side of column k is empty, so that the data say nothing of the other."""
    return counts[0, k] == 0.0 or counts[1, k] == 0.0


@part
def first_of_tail(counts: Floats) -> int:
    """Index from which on all columns are unseen."""
    first = counts.shape[1]
    while first > 0 and is_unseen(counts, first - 1):
        first -= 1
    return first
