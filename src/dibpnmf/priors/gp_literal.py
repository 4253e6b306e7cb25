"""Moves of the Gaussian process prior as in Algorithm 1 of the paper, h drawn."""

from __future__ import annotations

import math

from dibpnmf._compile import kernel, part
from dibpnmf.priors.gp_moves import update_theta
from dibpnmf.priors.gp_state import GPState, Noise, correlation, log_masks, threshold
from dibpnmf.priors.pair_literal import truncated_beta
from dibpnmf.random import Stream, normal, normal_below, uniform


@part
def update_sticks_literal(s: Stream, noise: Noise, state: GPState, counts, sizes) -> None:  # type: ignore[no-untyped-def]
    """Move each stick by Metropolis-Hastings from the truncated Beta(α/K, 1), in place."""
    log_nu, g = state.log_nu, state.g
    K = log_nu.size
    c = state.theta[0] / K
    before = 0.0
    for k in range(K):
        is_last = k == K - 1
        total = -math.inf if is_last else log_nu[k] + log_nu[k + 1]
        new = truncated_beta(s, c, total, 0.0)
        log_ratio = c * (log_nu[k] - new)  # Hastings: q is proportional to μ^c in log μ
        if is_last:
            log_ratio += state.theta[0] * (new - log_nu[k])
        for t in range(2):
            n, size = counts[t, k], sizes[t]
            x = (threshold(noise, before + new) - g[t, k]) / noise.eta
            log_ratio += log_masks(x, n, size)
            x = (threshold(noise, before + log_nu[k]) - g[t, k]) / noise.eta
            log_ratio -= log_masks(x, n, size)
        if math.log(uniform(s)) < log_ratio:
            log_nu[k] = new
            if not is_last:
                log_nu[k + 1] = total - new
        before += log_nu[k]


@part
def draw_h_sums(s: Stream, noise: Noise, state: GPState, counts, sizes) -> None:  # type: ignore[no-untyped-def]
    """Draw every h of every column from its truncated normal and keep their sums, in place.

    Only the sums matter to g, and entries of a column with equal masks are exchangeable.
    """
    log_mu = 0.0
    for k in range(state.log_nu.size):
        log_mu += state.log_nu[k]
        for t in range(2):
            bound = (threshold(noise, log_mu) - state.g[t, k]) / noise.eta
            total = 0.0
            for i in range(int(sizes[t])):
                if i < counts[t, k]:
                    total += normal_below(s, bound)
                else:
                    total -= normal_below(s, -bound)
            state.h_sum[t, k] = sizes[t] * state.g[t, k] + noise.eta * total


@part
def draw_g_given_h(s: Stream, noise: Noise, state: GPState, sizes) -> None:  # type: ignore[no-untyped-def]
    """Draw every g_k from its normal conditional given the sums of h, Eq. (16), in place."""
    r, one_minus_r2 = correlation(state.theta[1])
    scale = 1.0 / (noise.sigma**2 * one_minus_r2)
    p01 = -r * scale
    for k in range(state.log_nu.size):
        p00 = scale + sizes[0] / noise.eta**2
        p11 = scale + sizes[1] / noise.eta**2
        determinant = p00 * p11 - p01 * p01
        b0 = state.h_sum[0, k] / noise.eta**2
        b1 = state.h_sum[1, k] / noise.eta**2
        mean0 = (p11 * b0 - p01 * b1) / determinant
        mean1 = (p00 * b1 - p01 * b0) / determinant
        e0 = normal(s) * math.sqrt(p11 / determinant)
        state.g[0, k] = mean0 + e0
        state.g[1, k] = mean1 - p01 / p11 * e0 + normal(s) / math.sqrt(p11)


@kernel
def update_literal(s: Stream, noise: Noise, state: GPState, counts, sizes, learned, hyper) -> None:  # type: ignore[no-untyped-def]
    """Algorithm 1 with h before g: h, g, s, α, μ in place (Z and V follow).

    The paper draws g from an h that contradicts the masks just drawn with h summed out.
    """
    draw_h_sums(s, noise, state, counts, sizes)
    draw_g_given_h(s, noise, state, sizes)
    update_theta(s, noise, state, learned, hyper)
    update_sticks_literal(s, noise, state, counts, sizes)
