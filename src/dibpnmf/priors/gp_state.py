"""Shared sticks with correlated thresholds, and what they say of the masks.

Both sides share the stick μ_k; a bivariate normal g_k shifts the threshold of each side. With
the entries' own noise h summed out, an entry is on with probability, Eq. (5),

    γ_k^t = Φ((√(σ²+η²) Φ⁻¹(μ_k) − g_k^t) / η).
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from dibpnmf._compile import kernel, part
from dibpnmf.priors.base import Floats
from dibpnmf.priors.unseen import is_unseen, log_unseen
from dibpnmf.random import Stream, normal, uniform
from dibpnmf.special import HALF_LOG_2PI, log_ndtr, log_ndtr_both, ndtri_exp, times_log


class GPState(NamedTuple):
    """Shared sticks log ν (K), thresholds g (2, K), θ = (α, s), sums of h (literal scheme)."""

    log_nu: Floats
    g: Floats
    theta: Floats
    h_sum: Floats


class Noise(NamedTuple):
    """Fixed scales: σ of g across columns, η of h within a column."""

    sigma: float
    eta: float


class Column(NamedTuple):
    """What the masks tell of a column: counts out of sizes, or only that a side is empty."""

    is_unseen: bool
    n0: float
    n1: float
    size0: float
    size1: float


@part
def threshold(noise: Noise, log_mu: float) -> float:
    """Return √(σ²+η²) Φ⁻¹(μ), below which h switches an entry on."""
    return math.sqrt(noise.sigma**2 + noise.eta**2) * ndtri_exp(log_mu)


@part
def log_masks(x: float, n: float, size: float) -> float:
    """Return n log γ + (size − n) log(1 − γ) of one side with γ = Φ(x), Eq. (5)."""
    log_on, log_off = log_ndtr_both(x)
    return times_log(n, log_on) + times_log(size - n, log_off)


@part
def column_at(counts: Floats, sizes: Floats, k: int) -> Column:
    """What the masks tell of column k."""
    return Column(is_unseen(counts, k), counts[0, k], counts[1, k], sizes[0], sizes[1])


@part
def log_column(noise: Noise, bound: float, g0: float, g1: float, column: Column) -> float:
    """Log probability of a column's masks, or of its having an empty side, Eq. (37)."""
    x0 = (bound - g0) / noise.eta
    x1 = (bound - g1) / noise.eta
    if column.is_unseen:
        return log_unseen(column.size0 * log_ndtr(-x0), column.size1 * log_ndtr(-x1))
    return log_masks(x0, column.n0, column.size0) + log_masks(x1, column.n1, column.size1)


@kernel
def log_normal_pair(x: float, y: float, sigma: float, r: float, one_minus_r2: float) -> float:
    """Log density of N(0, σ²[[1, r], [r, 1]]) at (x, y)."""
    quadratic = ((x - y) ** 2 + 2.0 * (1.0 - r) * x * y) / (sigma**2 * one_minus_r2)
    return (
        -0.5 * quadratic - 0.5 * math.log(one_minus_r2) - 2.0 * math.log(sigma) - 2.0 * HALF_LOG_2PI
    )


@kernel
def correlation(s: float):  # type: ignore[no-untyped-def]
    """Return r = exp(−1/s²), 1 − r² of the two sides' thresholds, accurate for large s."""
    return math.exp(-1.0 / s**2), -math.expm1(-2.0 / s**2)


@part
def draw_g(s: Stream, sigma: float, length: float, out) -> None:  # type: ignore[no-untyped-def]
    """Draw one g_k from its prior N(0, Σ), in place."""
    r, one_minus_r2 = correlation(length)
    first = normal(s)
    out[0] = sigma * first
    out[1] = sigma * (r * first + math.sqrt(one_minus_r2) * normal(s))


@kernel
def extend(s: Stream, noise: Noise, state: GPState, start: int) -> None:
    """Draw the sticks and thresholds from ``start`` on from their prior, in place."""
    for k in range(start, state.log_nu.size):
        state.log_nu[k] = math.log(uniform(s)) / state.theta[0]
        draw_g(s, noise.sigma, state.theta[1], state.g[:, k])


@kernel
def log_odds_of_state(noise: Noise, log_nu: Floats, g: Floats) -> Floats:
    """Log odds log γ − log(1−γ), Eq. (5)."""
    out = np.empty(g.shape)
    log_mu = 0.0
    for k in range(log_nu.size):
        log_mu += log_nu[k]
        bound = threshold(noise, log_mu)
        for t in range(2):
            log_on, log_off = log_ndtr_both((bound - g[t, k]) / noise.eta)
            out[t, k] = log_on - log_off
    return out
