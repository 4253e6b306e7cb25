"""Moves of stick pairs as in Algorithms 2 and 3 of the paper."""

from __future__ import annotations

import math

import numpy as np

from dibpnmf._compile import kernel, part
from dibpnmf.priors.base import Floats
from dibpnmf.priors.pair_density import PairState, log_binomial, log_pair, theta_at
from dibpnmf.priors.pair_moves import move_theta
from dibpnmf.random import Stream, uniform


@part
def truncated_beta(s: Stream, c: float, log_low: float, log_high: float) -> float:
    """Log of a draw from Beta(c, 1) restricted to an interval, by inverse CDF, Eq. (12)."""
    return log_high + math.log1p((1.0 - uniform(s)) * math.expm1(c * (log_low - log_high))) / c


@part
def update_sticks_literal(  # type: ignore[no-untyped-def]
    s: Stream, theta, shapes: Floats, log_nu: Floats, counts: Floats, sizes: Floats
) -> None:
    """Move every stick pair by the paper's Metropolis-Hastings step, Eq. (11)-(12), in place.

    Both sides are proposed together from Beta(α_t/K, 1) truncated between their neighbours.
    """
    K = log_nu.shape[1]
    before = np.zeros(2)
    new = np.empty(2)
    after = np.empty(2)
    for k in range(K):
        is_last = k == K - 1
        log_ratio = 0.0
        for t in range(2):
            low = -math.inf if is_last else log_nu[t, k] + log_nu[t, k + 1]
            c = shapes[t] / K
            # Relative to the weight before, which the interval ends at.
            new[t] = truncated_beta(s, c, low, 0.0)
            after[t] = 0.0 if is_last else low - new[t]
            # Hastings: q is proportional to μ^c in log μ.
            log_ratio += c * (log_nu[t, k] - new[t])
            log_ratio += log_binomial(counts[t, k], sizes[t], before[t] + new[t])
            log_ratio -= log_binomial(counts[t, k], sizes[t], before[t] + log_nu[t, k])
        log_ratio += log_pair(theta, new[0], new[1]) - log_pair(theta, log_nu[0, k], log_nu[1, k])
        if not is_last:
            log_ratio += log_pair(theta, after[0], after[1])
            log_ratio -= log_pair(theta, log_nu[0, k + 1], log_nu[1, k + 1])
        if math.log(uniform(s)) < log_ratio:
            for t in range(2):
                log_nu[t, k] = new[t]
                if not is_last:
                    log_nu[t, k + 1] = after[t]
        for t in range(2):
            before[t] += log_nu[t, k]


@kernel
def update_literal(s: Stream, kind, state: PairState, counts, sizes, learned, hyper) -> None:  # type: ignore[no-untyped-def]
    """Move θ, then the sticks, by the paper's steps, in place."""
    theta = state.theta
    move_theta(s, kind, state, learned, sizes, hyper)
    update_sticks_literal(s, theta_at(kind, theta), theta, state.log_nu, counts, sizes)
