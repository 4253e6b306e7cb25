"""What tests of compiled moves compile themselves.

Not kept on disk: a cached function would hold the moves as they were when it was compiled.
"""

from __future__ import annotations

import math

from numba import njit

from dibpnmf.loadings.base import draw_from_slab
from dibpnmf.random import Stream, uniform


@njit(error_model="numpy")
def draw_free(s: Stream, log_odds: float, slab) -> float:  # type: ignore[no-untyped-def]
    """Draw z·v from its prior."""
    u = uniform(s)
    return draw_from_slab(s, slab) if math.log(u / (1.0 - u)) < log_odds else 0.0


@njit(error_model="numpy")
def log_likelihood(lik, Y, A, X) -> float:  # type: ignore[no-untyped-def]
    """Sum Eq. (10) over the cells of Y that are not negative."""
    total = 0.0
    for i in range(A.shape[0]):
        for n in range(X.shape[0]):
            mean = lik.epsilon
            for k in range(A.shape[1]):
                mean += A[i, k] * X[n, k]
            if Y[i, n] >= 0.0:
                total -= math.log(mean) + Y[i, n] / mean
    return total
