"""Gaussian process prior (Williamson et al., 2010): one set of sticks, correlated thresholds.

Both sides share the stick μ_k; a bivariate normal g_k shifts the threshold of each side. With
the entries' own noise h summed out, an entry is on with probability, Eq. (5),

    γ_k^t = Φ((√(σ²+η²) Φ⁻¹(μ_k) − g_k^t) / η).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np

from dibpnmf._compile import kernel, overwrite
from dibpnmf.priors.base import Floats, Ints, Prior, positive_log_density, start_value
from dibpnmf.priors.stick_pairs import (
    _TAIL_TRIES,
    first_of_tail,
    is_unseen,
    log_unseen,
    truncated_beta,
)
from dibpnmf.random import Stream, exponential, gamma, normal, normal_below, uniform
from dibpnmf.slice_sampling import implements_log_density, slice_sample
from dibpnmf.special import HALF_LOG_2PI, log_ndtr, log_ndtr_both, ndtri_exp, times_log

ROUNDS = 2  # of all moves a sweep: g and the sticks hold s and α


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


@kernel
def threshold(noise: Noise, log_mu: float) -> float:
    """Return √(σ²+η²) Φ⁻¹(μ), below which h switches an entry on."""
    return math.sqrt(noise.sigma**2 + noise.eta**2) * ndtri_exp(log_mu)


@kernel
def log_masks(x: float, n: float, size: float) -> float:
    """Return n log γ + (size − n) log(1 − γ) of one side with γ = Φ(x), Eq. (5)."""
    log_on, log_off = log_ndtr_both(x)
    return times_log(n, log_on) + times_log(size - n, log_off)


@kernel
def column_at(counts: Floats, sizes: Floats, k: int) -> Column:
    """What the masks tell of column k."""
    return Column(is_unseen(counts, k), counts[0, k], counts[1, k], sizes[0], sizes[1])


@kernel
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


@kernel
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


@kernel
def update_sticks(s: Stream, noise: Noise, state: GPState, counts, sizes) -> None:  # type: ignore[no-untyped-def]
    """Slice-sample each stick from Eq. (8), then along the ridge that keeps γ, in place."""
    log_nu, g = state.log_nu, state.g
    K = log_nu.size
    r, one_minus_r2 = correlation(state.theta[1])
    log_mu_before = 0.0
    for k in range(K):
        is_last = k == K - 1
        total = log_nu[k] if is_last else log_nu[k] + log_nu[k + 1]
        low = -math.inf if is_last else total
        slope = state.theta[0] if is_last else 0.0
        width = 2.0 + 0.2 * abs(log_nu[k]) if is_last else math.inf
        column = column_at(counts, sizes, k)
        stick = StickMove(noise, g[0, k], g[1, k], column, log_mu_before, slope)
        x = slice_sample(s, stick, log_nu[k], low, 0.0, width)
        shift = threshold(noise, log_mu_before + x)
        ridge = ShiftMove(
            noise, g[0, k] - shift, g[1, k] - shift, r, one_minus_r2, log_mu_before, slope
        )
        new = slice_sample(s, ridge, x, low, 0.0, width)
        if new != x:
            new_shift = threshold(noise, log_mu_before + new)
            g[0, k] = ridge.w0 + new_shift
            g[1, k] = ridge.w1 + new_shift
        log_nu[k] = new
        if not is_last:
            log_nu[k + 1] = total - new
        log_mu_before += new


@kernel
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


@kernel
def draw_g(s: Stream, sigma: float, length: float, out) -> None:  # type: ignore[no-untyped-def]
    """Draw one g_k from its prior N(0, Σ), in place."""
    r, one_minus_r2 = correlation(length)
    first = normal(s)
    out[0] = sigma * first
    out[1] = sigma * (r * first + math.sqrt(one_minus_r2) * normal(s))


@kernel
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
        bound = threshold(noise, log_mu)
        column = column_at(counts, sizes, k)
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


@kernel
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


@kernel
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


@kernel
def extend(s: Stream, noise: Noise, state: GPState, start: int) -> None:
    """Draw the sticks and thresholds from ``start`` on from their prior, in place."""
    for k in range(start, state.log_nu.size):
        state.log_nu[k] = math.log(uniform(s)) / state.theta[0]
        draw_g(s, noise.sigma, state.theta[1], state.g[:, k])


@kernel
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


@kernel
def _log_mu_before(log_nu: Floats, k: int) -> float:
    """Return log μ of the column before column k."""
    log_mu = 0.0
    for j in range(k):
        log_mu += log_nu[j]
    return log_mu


@kernel
def refresh_tail(s: Stream, noise: Noise, state: GPState, counts, sizes, learned, hyper) -> None:  # type: ignore[no-untyped-def]
    """Move one parameter and the last, unseen columns' sticks and g together, Eq. (26)."""
    K = state.log_nu.size
    first = first_of_tail(counts)
    if first == K:
        return
    one = np.zeros(2, np.bool_)
    for _ in range(_TAIL_TRIES):
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


@kernel
def update_literal(s: Stream, noise: Noise, state: GPState, counts, sizes, learned, hyper) -> None:  # type: ignore[no-untyped-def]
    """Algorithm 1 with h before g: h, g, s, α, μ in place (Z and V follow).

    The paper draws g from an h that contradicts the masks just drawn with h summed out.
    """
    draw_h_sums(s, noise, state, counts, sizes)
    draw_g_given_h(s, noise, state, sizes)
    update_theta(s, noise, state, learned, hyper)
    update_sticks_literal(s, noise, state, counts, sizes)


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


@dataclass(frozen=True)
class GaussianProcess(Prior[GPState]):
    """Gaussian process prior: both sides share their sticks and differ by thresholds.

    Parameters
    ----------
    alpha : float, optional
        Margin Beta(α, 1) of the sticks: the expected number of factors of one row and of one
        column. None learns it.
    s : float, optional
        Length scale: the two sides' thresholds correlate by exp(−1/s²). None learns it.
    sigma, eta : float
        Standard deviation of thresholds across columns, and of entries within a column.
    alpha_shape, alpha_rate, s_shape, s_rate : float
        Gamma hyper-priors of α and s.
    """

    alpha: float | None = None
    s: float | None = None
    sigma: float = 1.0
    eta: float = 1.0
    alpha_shape: float = 1.0
    alpha_rate: float = 1.0
    s_shape: float = 1.0
    s_rate: float = 1.0

    name: ClassVar[str] = "gaussian-process"
    theta_names: ClassVar[tuple[str, ...]] = ("alpha", "s")

    @property
    def noise(self) -> Noise:
        """Fixed scales."""
        return Noise(self.sigma, self.eta)

    def _fixed_theta(self) -> list[float | None]:
        return [self.alpha, self.s]

    def _hyper(self) -> list[list[float]]:
        return [[self.alpha_shape, self.alpha_rate], [self.s_shape, self.s_rate]]

    def init(self, s: Stream, K: int) -> GPState:
        """Draw θ, sticks and thresholds from the prior."""
        rows = zip(self._fixed_theta(), self._hyper(), strict=True)
        theta = np.array([start_value(s, *row) for row in rows])
        empty = GPState(np.empty(0), np.empty((2, 0)), theta, np.empty((2, 0)))
        return self.grow(s, empty, K)

    def grow(self, s: Stream, state: GPState, K: int) -> GPState:
        """Append sticks and thresholds drawn from the prior until there are K."""
        start = state.log_nu.size
        new = GPState(np.empty(K), np.empty((2, K)), state.theta.copy(), np.zeros((2, K)))
        new.log_nu[:start] = state.log_nu
        new.g[:, :start] = state.g
        new.h_sum[:, :start] = state.h_sum
        extend(s, self.noise, new, start)
        return new

    def log_odds(self, state: GPState) -> Floats:
        """Log odds of a mask entry: π = γ."""
        return log_odds_of_state(self.noise, state.log_nu, state.g)

    def update(self, s: Stream, state: GPState, counts: Floats, sizes: Floats) -> GPState:
        """Move thresholds, s, α and sticks with h summed out."""
        return self._run(update, s, state, counts, sizes)

    def exchange(self, s: Stream, state: GPState, counts: Floats, order: Ints) -> None:
        """Exchange columns together with their thresholds' distance from g."""
        exchange(s, self.noise, state, counts, order)

    def update_literal(self, s: Stream, state: GPState, counts: Floats, sizes: Floats) -> GPState:
        """Algorithm 1: h, g, s, α, then Metropolis-Hastings for μ."""
        return self._run(update_literal, s, state, counts, sizes)

    def _run(self, kernel, s, state, counts, sizes) -> GPState:  # type: ignore[no-untyped-def]
        new = GPState(*(field.copy() for field in state))
        kernel(s, self.noise, new, counts, sizes, self._learned, self._hypers)
        return new

    def log_density(self, state: GPState) -> float:
        """Log density of θ, of the sticks as log ν, and of the thresholds."""
        rows = zip(state.theta.tolist(), self._fixed_theta(), self._hyper(), strict=True)
        value = sum(positive_log_density(x, fixed, *hyper) for x, fixed, hyper in rows)
        alpha, s = state.theta
        value += state.log_nu.size * math.log(alpha) + alpha * float(np.sum(state.log_nu))
        r, one_minus_r2 = correlation(s)
        for x, y in state.g.T:
            value += log_normal_pair(x, y, self.sigma, r, one_minus_r2)
        return value
