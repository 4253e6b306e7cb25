"""Moves of sticks, thresholds and θ of the Gaussian process prior, h summed out."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from dibpnmf._compile import kernel, overwrite, part
from dibpnmf.priors.base import Floats
from dibpnmf.priors.gp_state import (
    Column,
    GPState,
    Noise,
    column_at,
    correlation,
    draw_g,
    extend,
    log_column,
    log_normal_pair,
    threshold,
)
from dibpnmf.priors.unseen import TAIL_TRIES, first_of_tail
from dibpnmf.random import Stream, exponential, gamma, uniform
from dibpnmf.slice_sampling import implements_log_density, slice_sample

ROUNDS = 2  # of all moves a sweep: g and the sticks hold s and α
# Share of moves of an unseen column that are slices: they cost several times as much as a draw
# from the prior, which is seldom accepted where an empty side is unlikely.
SLICED = 0.25


class StickMove(NamedTuple):
    """Target of moving log ν_k with the weights around it held, Eq. (8)."""

    noise: Noise
    g0: float
    g1: float
    column: Column
    log_mu_before: float
    slope: float  # α for the last stick, else 0: between neighbours the prior is flat


class ShiftMove(NamedTuple):
    """Target of moving log ν_k together with g_k so that γ_k, and so the masks, stay."""

    noise: Noise
    w0: float
    w1: float
    r: float
    one_minus_r2: float
    log_mu_before: float
    slope: float


class StretchMove(NamedTuple):
    """Target of log α, the sticks of the tail stretched along, Eq. (27)."""

    noise: Noise
    before: float  # α
    log_nu: Floats
    g: Floats
    first: int
    log_mu_first: float  # log μ before the tail
    sizes: Floats
    prior_shape: float
    prior_rate: float


class LengthMove(NamedTuple):
    """Target of moving log s given all g, Eq. (17)."""

    K: float
    sigma: float
    sum_square_gap: float
    sum_product: float
    prior_shape: float
    prior_rate: float


@part
def _log_tail(  # type: ignore[no-untyped-def]
    noise: Noise, log_nu, g, sizes, first: int, log_mu: float, stretch: float
) -> float:
    """Log probability that each column from ``first`` on has an empty side, its stick stretched.

    ``log_mu`` is that of the column before.
    """
    value = 0.0
    for k in range(first, log_nu.size):
        log_mu += stretch * log_nu[k]
        column = Column(True, 0.0, 0.0, sizes[0], sizes[1])
        value += log_column(noise, threshold(noise, log_mu), g[0, k], g[1, k], column)
    return value


@implements_log_density(StickMove)
def _stick_move_log_density(target, x):  # type: ignore[no-untyped-def]
    bound = threshold(target.noise, target.log_mu_before + x)
    masks = log_column(target.noise, bound, target.g0, target.g1, target.column)
    return target.slope * x + masks


@implements_log_density(ShiftMove)
def _shift_move_log_density(target, x):  # type: ignore[no-untyped-def]
    shift = threshold(target.noise, target.log_mu_before + x)
    if math.isinf(shift):
        return -math.inf
    return target.slope * x + log_normal_pair(
        target.w0 + shift, target.w1 + shift, target.noise.sigma, target.r, target.one_minus_r2
    )


@implements_log_density(StretchMove)
def _stretch_move_log_density(target, x):  # type: ignore[no-untyped-def]
    alpha = math.exp(x)
    # In the tail α log ν stays, and log α cancels against the Jacobian of log ν.
    value = (target.prior_shape + target.first) * x
    value -= alpha * (target.prior_rate - target.log_mu_first)
    value += _log_tail(
        target.noise, target.log_nu, target.g, target.sizes, target.first,
        target.log_mu_first, target.before / alpha,
    )  # fmt: skip
    return value


@implements_log_density(LengthMove)
def _length_move_log_density(target, x):  # type: ignore[no-untyped-def]
    s = math.exp(x)
    _, one_minus_r2 = correlation(s)
    one_minus_r = -math.expm1(-1.0 / s**2)
    quadratic = target.sum_square_gap + 2.0 * one_minus_r * target.sum_product
    return (
        target.prior_shape * x
        - target.prior_rate * s
        - 0.5 * target.K * math.log(one_minus_r2)
        - 0.5 * quadratic / (target.sigma**2 * one_minus_r2)
    )


@part
def _slice_column(s: Stream, noise: Noise, state: GPState, k: int, column, total, before):  # type: ignore[no-untyped-def]
    """Slice-sample log ν_k from Eq. (8), then along the ridge that keeps γ; g_k in place."""
    g, is_last = state.g, k == state.log_nu.size - 1
    r, one_minus_r2 = correlation(state.theta[1])
    low = -math.inf if is_last else total
    slope = state.theta[0] if is_last else 0.0
    width = 2.0 + 0.2 * abs(state.log_nu[k]) if is_last else math.inf
    stick = StickMove(noise, g[0, k], g[1, k], column, before, slope)
    x = slice_sample(s, stick, state.log_nu[k], low, 0.0, width)
    shift = threshold(noise, before + x)
    ridge = ShiftMove(noise, g[0, k] - shift, g[1, k] - shift, r, one_minus_r2, before, slope)
    new = slice_sample(s, ridge, x, low, 0.0, width)
    if new != x:
        new_shift = threshold(noise, before + new)
        g[0, k] = ridge.w0 + new_shift
        g[1, k] = ridge.w1 + new_shift
    return new


@part
def _redraw_column(s: Stream, noise: Noise, state: GPState, k: int, column, total, before):  # type: ignore[no-untyped-def]
    """Propose log ν_k and g_k from their prior given the weights around; g_k in place.

    Accepted by the ratio of the probabilities that a side is empty, Eq. (37).
    """
    g, x, g0, g1 = state.g, state.log_nu[k], state.g[0, k], state.g[1, k]
    is_last = k == state.log_nu.size - 1
    new = math.log(uniform(s)) / state.theta[0] if is_last else uniform(s) * total
    log_ratio = -log_column(noise, threshold(noise, before + x), g0, g1, column)
    draw_g(s, noise.sigma, state.theta[1], g[:, k])
    log_ratio += log_column(noise, threshold(noise, before + new), g[0, k], g[1, k], column)
    if log_ratio > -exponential(s):
        return new
    g[0, k], g[1, k] = g0, g1
    return x


@part
def update_sticks(s: Stream, noise: Noise, state: GPState, counts, sizes) -> None:  # type: ignore[no-untyped-def]
    """Move each stick, and its g along, given the weights around it, in place."""
    log_nu, before = state.log_nu, 0.0
    K = log_nu.size
    for k in range(K):
        total = log_nu[k] + log_nu[k + 1] if k < K - 1 else -math.inf
        column = column_at(counts, sizes, k)
        if column.is_unseen and uniform(s) > SLICED:
            log_nu[k] = _redraw_column(s, noise, state, k, column, total, before)
        else:
            log_nu[k] = _slice_column(s, noise, state, k, column, total, before)
        if k < K - 1:
            log_nu[k + 1] = total - log_nu[k]
        before += log_nu[k]


@part
def update_g(s: Stream, noise: Noise, state: GPState, counts, sizes) -> None:  # type: ignore[no-untyped-def]
    """Move each g_k by elliptical slice sampling with h summed out, in place.

    The likelihood is probit-binomial in the two column counts: O(1) a column (Murray et al.,
    2010).
    """
    g = state.g
    other = np.empty(2)
    log_mu = 0.0
    for k in range(state.log_nu.size):
        log_mu += state.log_nu[k]
        column = column_at(counts, sizes, k)
        if column.is_unseen and uniform(s) > SLICED:  # it is redrawn with its stick
            continue
        bound = threshold(noise, log_mu)
        draw_g(s, noise.sigma, state.theta[1], other)
        level = log_column(noise, bound, g[0, k], g[1, k], column) + math.log(uniform(s))
        angle = 2.0 * math.pi * uniform(s)
        low, high = angle - 2.0 * math.pi, angle
        while True:
            g0 = g[0, k] * math.cos(angle) + other[0] * math.sin(angle)
            g1 = g[1, k] * math.cos(angle) + other[1] * math.sin(angle)
            if log_column(noise, bound, g0, g1, column) > level or abs(angle) < 1e-12:
                break
            if angle < 0.0:
                low = angle
            else:
                high = angle
            angle = low + uniform(s) * (high - low)
        g[0, k] = g0
        g[1, k] = g1


@part
def update_theta(s: Stream, noise: Noise, state: GPState, learned, hyper) -> None:  # type: ignore[no-untyped-def]
    """Move s by slice sampling, Eq. (17), and draw α from its gamma, Eq. (9), in place."""
    g, theta = state.g, state.theta
    K = state.log_nu.size
    if learned[1]:
        square_gap = 0.0
        product = 0.0
        for k in range(K):
            square_gap += (g[0, k] - g[1, k]) ** 2
            product += g[0, k] * g[1, k]
        target = LengthMove(float(K), noise.sigma, square_gap, product, hyper[1, 0], hyper[1, 1])
        theta[1] = math.exp(slice_sample(s, target, math.log(theta[1]), -700.0, 16.0, 1.0))
    if learned[0]:
        log_mu = 0.0
        for k in range(K):
            log_mu += state.log_nu[k]
        theta[0] = max(gamma(s, hyper[0, 0] + K, hyper[0, 1] - log_mu), 1e-300)


@part
def stretch_tail(s: Stream, noise: Noise, state: GPState, counts, sizes, hyper) -> None:  # type: ignore[no-untyped-def]
    """Move α with the tail's sticks stretched along, in place, Eq. (27)."""
    log_nu, theta = state.log_nu, state.theta
    first = first_of_tail(counts)
    log_mu = _log_mu_before(log_nu, first)
    target = StretchMove(
        noise, theta[0], log_nu, state.g, first, log_mu, sizes, hyper[0, 0], hyper[0, 1]
    )
    theta[0] = math.exp(slice_sample(s, target, math.log(theta[0]), -700.0, 700.0, 1.0))
    for k in range(first, log_nu.size):
        log_nu[k] *= target.before / theta[0]


@part
def _log_mu_before(log_nu: Floats, k: int) -> float:
    """Return log μ of the column before column k."""
    log_mu = 0.0
    for j in range(k):
        log_mu += log_nu[j]
    return log_mu


@part
def refresh_tail(s: Stream, noise: Noise, state: GPState, counts, sizes, learned, hyper) -> None:  # type: ignore[no-untyped-def]
    """Move one parameter and the last, unseen columns' sticks and g together, Eq. (26)."""
    K = state.log_nu.size
    first = first_of_tail(counts)
    if first == K:
        return
    one = np.zeros(2, np.bool_)
    for _ in range(TAIL_TRIES):
        r = first + int(uniform(s) * (K - first))
        trial = GPState(state.log_nu.copy(), state.g.copy(), state.theta.copy(), state.h_sum.copy())
        which = int(uniform(s) * 2)
        for j in range(2):
            one[j] = j == which and learned[j]
        head = GPState(trial.log_nu[:r].copy(), trial.g[:, :r].copy(), trial.theta, trial.h_sum)
        update_theta(s, noise, head, one, hyper)
        extend(s, noise, trial, r)
        log_mu = _log_mu_before(state.log_nu, r)
        log_ratio = _log_tail(noise, trial.log_nu, trial.g, sizes, r, log_mu, 1.0)
        log_ratio -= _log_tail(noise, state.log_nu, state.g, sizes, r, log_mu, 1.0)
        if math.log(uniform(s)) < log_ratio:
            overwrite(state.log_nu, trial.log_nu)
            overwrite(state.g, trial.g)
            overwrite(state.theta, trial.theta)


@kernel
def exchange(s: Stream, noise: Noise, state: GPState, counts, order) -> None:  # type: ignore[no-untyped-def]
    """Exchange columns with their γ, the sticks staying, in place, Eq. (42).

    Neighbours first, then as many pairs at random.
    """
    K, g = state.log_nu.size, state.g
    r, _ = correlation(state.theta[1])
    bounds = np.empty(K)
    log_mu = 0.0
    for k in range(K):
        log_mu += state.log_nu[k]
        bounds[k] = threshold(noise, log_mu)
    for try_ in range(2 * K):
        j, k = try_, try_ + 1
        if try_ >= K:
            j, k = int(uniform(s) * K), int(uniform(s) * K)
        if j == k or k == K or bounds[j] == -math.inf or bounds[k] == -math.inf:
            continue
        up = bounds[j] - bounds[k]
        gap = g[0, k] + g[1, k] - g[0, j] - g[1, j] + 2.0 * up
        if up * gap < noise.sigma**2 * (1.0 + r) * exponential(s):
            order[j], order[k] = order[k], order[j]
            for t in range(2):
                g[t, j], g[t, k] = g[t, k] + up, g[t, j] - up
                counts[t, j], counts[t, k] = counts[t, k], counts[t, j]


@kernel
def update(s: Stream, noise: Noise, state: GPState, counts, sizes, learned, hyper) -> None:  # type: ignore[no-untyped-def]
    """Move g, s, α and the sticks with h summed out, in place."""
    for _ in range(ROUNDS):
        update_g(s, noise, state, counts, sizes)
        update_theta(s, noise, state, learned, hyper)
        update_sticks(s, noise, state, counts, sizes)
    if learned[0]:
        stretch_tail(s, noise, state, counts, sizes, hyper)
    refresh_tail(s, noise, state, counts, sizes, learned, hyper)
