"""Exact moves that see only K-sized summaries: rates τ, column scales, column order."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from dibpnmf._compile import kernel
from dibpnmf.random import Stream, gamma, log_gig_draw, uniform

Floats = NDArray[np.float64]


@kernel
def column_summary(A: Floats, counts: Floats, sums: Floats) -> None:
    """Count the on-entries of each column and add them up, in row order."""
    M, K = A.shape
    counts[:] = 0.0
    sums[:] = 0.0
    for i in range(M):
        for k in range(K):
            if A[i, k] > 0.0:
                counts[k] += 1.0
                sums[k] += A[i, k]


@kernel
def draw_rate(s: Stream, n: float, total: float) -> float:
    """Draw τ ~ Gamma(1 + n, rate 1 + total) given n exponential loadings, Eq. (22)."""
    return max(gamma(s, 1.0 + n, 1.0 + total), 1e-300)


@kernel
def draw_scales(s: Stream, tau: Floats, counts: Floats, sums: Floats, scales: Floats) -> None:
    """Draw c_k of the move (A_k, X_k) → (c A_k, X_k / c), which leaves λ alone, Eq. (23)."""
    for k in range(scales.size):
        scales[k] = 1.0
        if counts[0, k] > 0.0 and counts[1, k] > 0.0:
            p = counts[0, k] - counts[1, k]
            scales[k] = math.exp(
                log_gig_draw(s, p, 2.0 * tau[0] * sums[0, k], 2.0 * tau[1] * sums[1, k])
            )


@kernel
def draw_balance(s: Stream, tau: Floats) -> float:
    """Draw c of the move (A, X, τ1, τ2) → (cA, X/c, τ1/c, τ2 c), in place for τ, Eq. (25).

    It leaves λ and the density of the loadings alone; without it τ creeps.
    """
    c = math.exp(log_gig_draw(s, 0.0, 2.0 * tau[1], 2.0 * tau[0]))
    tau[0] /= c
    tau[1] *= c
    return c


@kernel
def _try_swap(s: Stream, j: int, k: int, counts: Floats, log_odds: Floats, order) -> None:  # type: ignore[no-untyped-def]
    log_ratio = 0.0
    for t in range(2):
        gap = counts[t, j] - counts[t, k]
        if gap != 0.0:
            log_ratio += gap * (log_odds[t, k] - log_odds[t, j])
    if math.log(uniform(s)) < log_ratio:
        order[j], order[k] = order[k], order[j]
        for t in range(2):
            counts[t, j], counts[t, k] = counts[t, k], counts[t, j]


@kernel
def draw_order(s: Stream, counts: Floats, log_odds: Floats, order: NDArray[np.int64]) -> None:
    """Exchange columns of (Z, V) on both sides, sticks staying, Eq. (24).

    Neighbours first, then as many pairs at random; ``order[k]`` is the column that moves to k.
    """
    K = order.size
    for k in range(K):
        order[k] = k
    for k in range(K - 1):
        _try_swap(s, k, k + 1, counts, log_odds, order)
    for _ in range(K if K > 2 else 0):
        j = int(uniform(s) * K)
        k = int(uniform(s) * K)
        if j != k:
            _try_swap(s, j, k, counts, log_odds, order)


@kernel
def relabel(A: Floats, scales: Floats, order: NDArray[np.int64]) -> None:
    """Scale the columns of A, then put column order[k] at k, in place."""
    M, K = A.shape
    row = np.empty(K)
    for i in range(M):
        for k in range(K):
            row[k] = A[i, order[k]] * scales[order[k]]
        for k in range(K):
            A[i, k] = row[k]
