"""Columns that the data do not see: where one side of a column is empty, the other is free.

If column k of X is empty, column k of A touches no cell, and vice versa. Sticks and θ move with
the masks of all such columns summed out, given only that each has an empty side; the masks are
drawn from the prior afterwards. One at a time they would hold each other in place for hundreds
of sweeps.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dibpnmf._compile import kernel, part
from dibpnmf.loadings.base import Slab, draw_from_slab, slab_of
from dibpnmf.priors.base import Prior
from dibpnmf.random import Stream, uniform
from dibpnmf.special import log1mexp

Floats = NDArray[np.float64]


@part
def log_off(log_odds: float) -> float:
    """Log of 1 − π, from the log odds of π."""
    if log_odds > 0.0:
        return -log_odds - math.log1p(math.exp(-log_odds))
    return -math.log1p(math.exp(log_odds))


@part
def binomial(s: Stream, size: int, log_odds: float) -> float:
    """Draw the number of successes by the gaps between them: cheap for a rare success."""
    flip = log_odds > 0.0
    # log(1 − π) of the rarer outcome
    log_rest = log_off(-abs(log_odds))
    count = 0
    at = 0
    if log_rest < 0.0:
        while True:
            gap = math.log(uniform(s)) / log_rest
            if gap >= size - at:
                break
            at += int(gap) + 1
            count += 1
    return float(size - count if flip else count)


@part
def positive_binomial(s: Stream, size: int, log_odds: float) -> float:
    """Draw the number of successes given that there is one: the first of them, then the rest."""
    log_rest = log_off(log_odds)
    first = int(math.log1p(uniform(s) * math.expm1(size * log_rest)) / log_rest)
    return 1.0 + binomial(s, size - 1 - min(first, size - 1), log_odds)


@part
def draw_unseen(s: Stream, log_odds: Floats, sizes: Floats, k: int, counts: Floats) -> None:
    """Draw the counts of a column from the prior, given that one of its sides is empty, Eq. (37).

    Both are empty, or the rows only, or the columns only.
    """
    empty0 = sizes[0] * log_off(log_odds[0, k])
    empty1 = sizes[1] * log_off(log_odds[1, k])
    rows_only = log1mexp(empty0) - empty0  # relative to both being empty
    columns_only = log1mexp(empty1) - empty1
    top = max(0.0, rows_only, columns_only)
    neither, rows, columns = (
        math.exp(-top), math.exp(rows_only - top), math.exp(columns_only - top)
    )  # fmt: skip
    u = uniform(s) * (neither + rows + columns)
    counts[0, k] = 0.0
    counts[1, k] = 0.0
    if u < rows:
        counts[0, k] = positive_binomial(s, int(sizes[0]), log_odds[0, k])
    elif u < rows + columns:
        counts[1, k] = positive_binomial(s, int(sizes[1]), log_odds[1, k])


@part
def place(s: Stream, A: Floats, k: int, count: float, slab: Slab) -> None:
    """Switch on ``count`` entries of column k at random, with loadings from their prior."""
    M = A.shape[0]
    need = count
    for i in range(M):
        A[i, k] = 0.0
        if need > 0.0 and uniform(s) * (M - i) < need:
            A[i, k] = draw_from_slab(s, slab)
            need -= 1.0


@kernel
def redraw_unseen(s: Stream, log_odds: Floats, A: Floats, X: Floats, counts, slabs) -> None:  # type: ignore[no-untyped-def]
    """Draw every column that has an empty side from the prior given that it has, in place."""
    sizes = np.array([float(A.shape[0]), float(X.shape[0])])
    for k in range(counts.shape[1]):
        before0, before1 = counts[0, k], counts[1, k]
        if before0 > 0.0 and before1 > 0.0:
            continue
        draw_unseen(s, log_odds, sizes, k, counts)
        if before0 > 0.0 or counts[0, k] > 0.0:
            place(s, A, k, counts[0, k], slab_of(slabs[0], k))
        if before1 > 0.0 or counts[1, k] > 0.0:
            place(s, X, k, counts[1, k], slab_of(slabs[1], k))


def update_with_unseen(
    s: Stream,
    prior: Prior[Any],
    state: Any,
    loadings: tuple[Floats, Floats],
    counts: Floats,
    slabs: Floats,
    move: Callable[[Any, Floats], None] | None = None,
) -> tuple[Any, Floats]:
    """Move sticks and θ with the masks of unseen columns summed out, then draw these.

    ``move`` is for moves of factors, given the new state and log odds, which change in place; these
    masks are summed out of them as well.

    ``loadings`` and ``counts`` are updated in place: a column that is in use on both sides
    stays, every other is redrawn. Returns the new state of the prior, and its log odds.
    """
    sizes = np.array([float(side.shape[0]) for side in loadings])
    state = prior.update(s, state, counts, sizes)
    log_odds = prior.log_odds(state)
    if move is not None:
        move(state, log_odds)
    redraw_unseen(s, log_odds, *loadings, counts, slabs)
    return state, log_odds
