"""Exact moves that see only K-sized summaries of the loadings: here, the order of columns."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from dibpnmf._compile import kernel, part
from dibpnmf.random import Stream, uniform

Floats = NDArray[np.float64]


@part
def column_summary(A: Floats, counts: Floats, sums: Floats, squares: Floats) -> None:
    """Count the on-entries of each column, add up them and their squares, in row order.

    What is off is 0: to look would cost more than to add it.
    """
    M, K = A.shape
    for k in range(K):
        counts[k] = 0.0
        sums[k] = 0.0
        squares[k] = 0.0
    for i in range(M):
        for k in range(K):
            counts[k] += A[i, k] > 0.0
            sums[k] += A[i, k]
            squares[k] += A[i, k] * A[i, k]


@kernel
def column_summaries(A: Floats, X: Floats, out: Floats) -> None:
    """Write counts, sums and sums of squares of both sides' columns, (3, 2, K)."""
    column_summary(A, out[0, 0], out[1, 0], out[2, 0])
    column_summary(X, out[0, 1], out[1, 1], out[2, 1])


@part
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


@kernel
def relabel_sides(
    A: Floats, X: Floats, scales: Floats, order: NDArray[np.int64], sums: Floats
) -> None:
    """Scale columns of A, those of X by the inverse, and put column order[k] at k, all in place.

    ``sums`` are those of both sides' columns, (2, K).
    """
    K = order.size
    inverse, before = np.empty(K), np.empty((2, K))
    for k in range(K):
        inverse[k] = 1.0 / scales[k]
        before[0, k] = sums[0, k] * scales[k]
        before[1, k] = sums[1, k] * inverse[k]
    relabel(A, scales, order)
    relabel(X, inverse, order)
    for k in range(K):
        for t in range(2):
            sums[t, k] = before[t, order[k]]
