"""Merge doubled factors during warm-up.

An overcomplete start may give one factor's rows to two columns that divide its columns among
them (or the other way round). Entry by entry no sweep gets out of that, if the noise is small:
all entries of one column would have to move to the other at once. So the two columns whose sum
is nearest to a single factor are replaced by that factor, and kept so if a few sweeps later the
fit is as good, allowing for the entries that were saved. No exact move, so for warm-up only.
"""

from __future__ import annotations

import copy
import math

import numpy as np
from numpy.typing import NDArray

from dibpnmf.inference.gibbs import Info, Problem, State, summarise, sweep_joint
from dibpnmf.likelihoods.lists import list_entries

Floats = NDArray[np.float64]

EVERY = 5  # sweeps between two tries
_TRIAL_SWEEPS = 3
_TRIAL_STREAMS = 1 << 30  # added to the number of a sweep: trials have streams of their own
_CANDIDATES = 4  # pairs that are tried in turn
_ALIKE = 0.2  # a pair further from a single factor than this share of the lesser is not tried


def _distances(grams: tuple[Floats, Floats]) -> Floats:
    """Squared distance of a_j x_jᵀ + a_k x_kᵀ from the nearest single factor, for all j < k.

    As a share of the lesser of the two; infinite for the other j and k.
    """
    own = [gram.diagonal() for gram in grams]
    size = own[0] * own[1]
    total = size[:, None] + size + 2.0 * grams[0] * grams[1]
    # The two squared singular values have this sum and the product of both determinants.
    product = np.prod([np.outer(d, d) - g * g for d, g in zip(own, grams, strict=True)], axis=0)
    root = np.sqrt(np.maximum(total * total - 4.0 * np.maximum(product, 0.0), 0.0))
    smaller = 2.0 * np.maximum(product, 0.0) / (total + root)
    share = smaller / np.minimum(size[:, None], size)
    return np.where(np.triu(np.ones_like(share, dtype=bool), 1), share, np.inf)


def _weights(first: Floats, second: Floats) -> tuple[Floats, Floats]:
    """Weights of the two columns on both sides, given their 2×2 Gram matrices.

    The nearest single factor is a xᵀ with x = w₁x_j + w₂x_k, w the leading eigenvector of the
    product of the Gram matrices, which has no negative entry.
    """
    both = first @ second
    half = 0.5 * (both[0, 0] - both[1, 1])
    root = math.sqrt(half * half + both[0, 1] * both[1, 0])
    # Of the two forms of the eigenvector the one in which nothing cancels.
    w = np.array([root + half, both[1, 0]] if half >= 0.0 else [both[0, 1], root - half])
    w = w / w.sum() if w.any() else np.full(2, 0.5)
    u = second @ w
    return u / (w @ u), w


def merge_columns(state: State, j: int, k: int, grams: tuple[Floats, Floats]) -> State:
    """Return a copy with column k merged into column j."""
    state = copy.deepcopy(state)
    pair = np.ix_([j, k], [j, k])
    weights = _weights(grams[0][pair], grams[1][pair])
    for side, w in zip(state.loadings, weights, strict=True):
        side[:, j] = w[0] * side[:, j] + w[1] * side[:, k]
        side[:, k] = 0.0
    return state


def _level(problem: Problem, state: State, log_likelihood: float) -> float:
    """Log likelihood less half the log of its number of cells for every entry that is on."""
    counts = summarise(state.loadings).counts
    used = np.all(counts > 0.0, axis=0)
    observed = problem.observations.n_observed / np.prod(problem.sizes)
    cells = observed * np.sqrt(np.prod(counts[:, used], axis=0)).mean() if used.any() else 1.0
    return log_likelihood - 0.5 * math.log(max(cells, 2.0)) * float(counts[:, used].sum())


def merge(problem: Problem, state: State, info: Info, sweep: int) -> State:
    """Try to merge two columns; return what came of it, or the state as it was.

    A function of the state and the number of the sweep only, so that a run resumes as it went.
    """
    grams = tuple(list_entries(side, True).gram for side in state.loadings)
    used = np.flatnonzero(np.all([gram.diagonal() > 0.0 for gram in grams], axis=0))
    if used.size < 2:
        return state
    among = tuple(gram[np.ix_(used, used)] for gram in grams)
    distance = _distances((among[0], among[1]))
    nearest = np.argsort(distance, axis=None, kind="stable")[:_CANDIDATES]
    nearest = nearest[distance.ravel()[nearest] < _ALIKE]
    if nearest.size == 0:
        return state
    at = nearest[sweep // EVERY % nearest.size]
    j, k = used[at // used.size], used[at % used.size]
    trial = merge_columns(state, j, k, (grams[0], grams[1]))
    for further in range(_TRIAL_SWEEPS):
        trial, found = sweep_joint(problem, trial, _TRIAL_STREAMS + _TRIAL_SWEEPS * sweep + further)
    before = _level(problem, state, info.log_likelihood)
    return trial if _level(problem, trial, found.log_likelihood) > before else state
