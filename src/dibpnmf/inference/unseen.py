"""Columns that the data do not see: where one side of a column is empty, the other is free.

If column k of X is empty, column k of A touches no cell: its mask can be summed out, and drawn
from the prior afterwards. Done for each side in turn, sticks, θ and the free masks move
together; one at a time they would hold each other in place for hundreds of sweeps.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dibpnmf._compile import kernel
from dibpnmf.loadings.base import Slab, draw_from_slab, slab_of
from dibpnmf.priors.base import Prior
from dibpnmf.random import Stream, uniform

Floats = NDArray[np.float64]

_ROUNDS = 2


@kernel
def binomial(s: Stream, size: int, log_odds: float) -> float:
    """Draw the number of successes by the gaps between them: cheap for a rare success."""
    flip = log_odds > 0.0
    # log(1 − π) of the rarer outcome
    log_rest = -math.log1p(math.exp(-abs(log_odds)))
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


@kernel
def draw_counts(s: Stream, log_odds: Floats, size: float, free, counts: Floats) -> None:  # type: ignore[no-untyped-def]
    """Draw the counts of free columns from the prior, in place."""
    for k in range(counts.size):
        if free[k]:
            counts[k] = binomial(s, int(size), log_odds[k])


@kernel
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
def place_all(s: Stream, A: Floats, free, before: Floats, counts: Floats, slabs: Floats) -> None:  # type: ignore[no-untyped-def]
    """Redraw every free column that has or had an entry on, in place."""
    for k in range(counts.size):
        if free[k] and (before[k] > 0.0 or counts[k] > 0.0):
            place(s, A, k, counts[k], slab_of(slabs, k))


def update_with_unseen(
    s: Stream,
    prior: Prior[Any],
    state: Any,
    loadings: tuple[Floats, Floats],
    counts: Floats,
    slabs: Floats,
) -> Any:
    """Move sticks and θ with the free masks of one side, then of the other, summed out.

    ``loadings`` and ``counts`` are updated in place: a column that is in use on both sides
    stays, every other is redrawn. Returns the new state of the prior.
    """
    sizes = np.array([float(side.shape[0]) for side in loadings])
    before = counts.copy()
    for _ in range(_ROUNDS):
        for t in range(2):
            free = counts[1 - t] == 0.0
            trials = np.repeat(sizes[:, None], counts.shape[1], axis=1)
            counts[t, free] = 0.0
            trials[t, free] = 0.0
            state = prior.update(s, state, counts, trials)
            draw_counts(s, prior.log_odds(state)[t], sizes[t], free, counts[t])
    unseen = np.any(before == 0.0, axis=0)
    for t in range(2):
        place_all(s, loadings[t], unseen, before[t], counts[t], slabs[t])
    return state
