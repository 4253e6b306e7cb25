"""Gaussian likelihood: y ~ N(λ, 1/κ), with the precision κ learned.

All that the conditional of an entry depends on are two sums over its support,

    h = Σ x_n (y_n − b_n),    q = Σ x_n²,    log p(y | b + v x) − log p(y | b) = κ(h v − q v²/2),

so (z, v) is drawn exactly, Eq. (29). If zeros are observed the sums come from XᵀX and one pass
over the stored cells; if cells are missing, from the row's stored cells.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import ClassVar, NamedTuple, Self

import numpy as np
from scipy import special

from dibpnmf._compile import inlined, part, reassociated
from dibpnmf.likelihoods.base import Floats, Likelihood, Moments, draw_noise, kernel_at
from dibpnmf.likelihoods.rows import (
    implements_draw_entry,
    implements_log_ratio,
    implements_open_row,
    implements_put_entry,
    implements_row_log_likelihood,
    implements_stays_off,
    implements_take_entry,
)
from dibpnmf.likelihoods.supports import Entry
from dibpnmf.loadings.base import SMALLEST, draw_from_slab
from dibpnmf.random import Stream, gamma, positive_normal
from dibpnmf.special import log_positive_mass

_LOG_2PI = math.log(2.0 * math.pi)
_LOG_HALF_NORMAL = 0.5 * math.log(0.5 * math.pi)  # of half the mass of exp(−x²/2)
_MOSTLY = 0.75  # share of zeros from which whole numbers are taken for counts

# Places in line 0 of Entry.support: the two sums, and the loading that was taken out.
_H, _Q, _TAKEN = range(3)


class GaussianKernel(NamedTuple):
    """Parameters of the compiled updates."""

    epsilon: float
    kappa: float


@part
def _open_complete(epsilon, row, cells, a, N, lists, i):  # type: ignore[no-untyped-def]
    """Set the totals to Σ_n x_nk (y_n − λ_n) for each k and, last, Σ_n (y_n − λ_n)²."""
    K = a.size
    left = row.totals
    start, stop = cells.indptr[i], cells.indptr[i + 1]
    row.stored[0] = stop - start
    for k in range(K):
        left[k] = -epsilon * lists.sums[k]
    squares = (N - (stop - start)) * epsilon * epsilon
    for at in range(start, stop):
        n, y = cells.indices[at], cells.values[at]
        squares += (y - epsilon) * (y - epsilon)
        for p in range(lists.row_ptr[n], lists.row_stop[n]):
            left[lists.row_columns[p]] += y * lists.row_values[p]
    for k in range(K):
        if a[k] > 0.0:
            squares -= 2.0 * a[k] * left[k]
            # Σ (r − a x)² = Σ r² − 2a Σ r x + a² Σ x², one column after another.
            squares += a[k] * a[k] * lists.gram[k, k]
            for j in range(K):
                left[j] -= a[k] * lists.gram[k, j]
    left[K] = squares


@inlined
def _gather(epsilon, row, cells, a, X, i):  # type: ignore[no-untyped-def]
    """Copy x of the stored cells into ``hit_x``, column after column, and y − λ into ``y``.

    Zeros among them are multiplied like the rest: faster than skipping them by index.
    """
    start = np.uint64(cells.indptr[i])
    n = np.uint64(cells.indptr[i + 1]) - start
    row.stored[0] = n
    mean, x = row.mean, row.hit_x
    for j in range(n):
        mean[j] = epsilon
    for k in range(np.uint64(a.size)):
        for j in range(n):
            x[k * n + j] = X[np.uint64(cells.indices[start + j]), k]
        if a[k] > 0.0:
            for j in range(n):
                mean[j] += a[k] * x[k * n + j]
    for j in range(n):
        row.y[j] = cells.values[start + j] - mean[j]


@reassociated
def _products(x, left, start, n):  # type: ignore[no-untyped-def]
    """Return Σ x² and Σ x (y − λ) over n cells."""
    q, h = 0.0, 0.0
    for j in range(n):
        q += x[start + j] * x[start + j]
        h += x[start + j] * left[j]
    return q, h


@inlined
def _subtract(left, change, x, start, n):  # type: ignore[no-untyped-def]
    """Take change·x from y − λ."""
    for j in range(n):
        left[j] -= change * x[start + j]


@implements_open_row(GaussianKernel)
def _open_row(lik, row, cells, complete, A, X, lists, i):  # type: ignore[no-untyped-def]
    if complete:
        _open_complete(lik.epsilon, row, cells, A[i], X.shape[0], lists, i)
    else:
        _gather(lik.epsilon, row, cells, A[i], X, i)


@implements_stays_off(GaussianKernel)
def _stays_off(lik, row, complete, lists, k, u, log_odds, slab, local):  # type: ignore[no-untyped-def]
    return False  # the draw itself costs no more than a bound


@implements_take_entry(GaussianKernel)
def _take_entry(lik, row, complete, A, X, lists, i, k):  # type: ignore[no-untyped-def]
    a = A[i, k]
    if complete:
        q = lists.gram[k, k]
        h = row.totals[k]
    else:
        n = np.uint64(row.stored[0])
        q, h = _products(row.hit_x, row.y, np.uint64(k) * n, n)
    row.support[0, _H] = h + a * q
    row.support[0, _Q] = q
    row.support[0, _TAKEN] = a
    return Entry(
        row.support,
        row.grid,
        1 if q > 0.0 else 0,
        0,
        0.0,
        0.0,
        math.nan,
        1.0,
        1.0,
        math.inf,
        math.inf,
    )


@implements_log_ratio(GaussianKernel)
def _log_ratio(lik, support, m, c, level, v):  # type: ignore[no-untyped-def]
    return lik.kappa * v * (support[0, _H] - 0.5 * v * support[0, _Q])


@implements_draw_entry(GaussianKernel)
def _draw_entry(lik, entry, a, log_odds, slab, local, u, s):  # type: ignore[no-untyped-def]
    odds_u = u / (1.0 - u)
    if entry.m == 0:  # nothing observed depends on it: draw from the prior
        return (draw_from_slab(s, slab) if math.log(odds_u) < log_odds else 0.0), True
    root = math.sqrt(lik.kappa * entry.support[0, _Q] + slab.curve)
    slope = lik.kappa * entry.support[0, _H] - slab.rate
    log_on = log_odds + slab.log_height
    t = slope / root
    if t < 0.0:
        # Bounds of the integral (Birnbaum, 1942; Sampford, 1953) decide on most.
        least = root * odds_u * math.exp(-log_on)
        if least * (math.sqrt(t * t + 8.0) - 3.0 * t) >= 4.0:
            return 0.0, True
        is_open = least * (math.sqrt(t * t + 4.0) - t) >= 2.0
    else:
        # At least half of the normal's mass is positive: most need no more than that.
        is_open = math.log(root * odds_u) - log_on >= 0.5 * t * t + _LOG_HALF_NORMAL
    if is_open and math.log(root * odds_u) - log_on >= log_positive_mass(t):
        return 0.0, True
    return max(positive_normal(s, t) / root, SMALLEST), True


@implements_put_entry(GaussianKernel)
def _put_entry(lik, row, entry, complete, lists, k, v):  # type: ignore[no-untyped-def]
    h, q, a = entry.support[0, _H], entry.support[0, _Q], entry.support[0, _TAKEN]
    if complete:
        K = row.totals.size - 1
        row.totals[K] += (v - a) * (q * (v + a) - 2.0 * h)
        for j in range(K):
            row.totals[j] -= (v - a) * lists.gram[k, j]
    else:
        n = np.uint64(row.stored[0])
        _subtract(row.y, v - a, row.hit_x, np.uint64(k) * n, n)


@implements_row_log_likelihood(GaussianKernel)
def _row_log_likelihood(lik, row, complete, X):  # type: ignore[no-untyped-def]
    n = X.shape[0] if complete else row.stored[0]
    squares = 0.0
    if complete:
        squares = max(row.totals[row.totals.size - 1], 0.0)
    else:
        for j in range(n):
            squares += row.y[j] * row.y[j]
    return 0.5 * n * (math.log(lik.kappa) - _LOG_2PI) - 0.5 * lik.kappa * squares


@kernel_at.register
def _kernel_at(kernel: GaussianKernel, noise: Floats) -> GaussianKernel:
    return kernel._replace(kappa=float(noise[0]))


@draw_noise.register
def _draw_noise(
    kernel: GaussianKernel, s: Stream, n_observed: int, log_likelihood: float
) -> Floats:
    """Draw κ ~ Gamma(1 + n/2, rate 1 + Σ(y − λ)²/2), Eq. (30)."""
    # The log likelihood is n/2 log(κ/2π) − κ/2 Σ(y − λ)²: half the sum is read off it.
    constant = 0.5 * n_observed * (math.log(kernel.kappa) - _LOG_2PI)
    half = max((constant - log_likelihood) / kernel.kappa, 0.0)
    return np.array([max(gamma(s, 1.0 + 0.5 * n_observed, 1.0 + half), SMALLEST)])


@dataclass(frozen=True)
class Gaussian(Likelihood):
    """Gaussian likelihood with mean λ and a learned precision κ ~ Gamma(1, 1).

    Parameters
    ----------
    kappa : float or ndarray, default=1.0
        Precision, for data in units of their mean.
    """

    kappa: float | Floats = 1.0

    name: ClassVar[str] = "gaussian"
    noise_names: ClassVar[tuple[str, ...]] = ("kappa",)

    def kernel(self, epsilon: float) -> GaussianKernel:
        """Parameters for the compiled row updates."""
        return GaussianKernel(float(epsilon), np.asarray(self.kappa).item())

    def log_density(self, y: Floats, mean: Floats) -> Floats:
        """Log density ½ log(κ/2π) − κ(y − λ)²/2, Eq. (28)."""
        return 0.5 * (np.log(self.kappa) - _LOG_2PI) - 0.5 * self.kappa * (y - mean) ** 2

    def cdf(self, y: Floats, mean: Floats) -> Floats:
        """Distribution function Φ(√κ (y − λ))."""
        return special.ndtr(np.sqrt(self.kappa) * (y - mean))

    def simulate(self, rng: np.random.Generator, mean: Floats) -> Floats:
        """Draw y given its mean."""
        return rng.normal(mean, 1.0 / np.sqrt(self.kappa))

    def at(self, noise: Floats) -> Self:
        """Return the likelihood with κ = noise[..., 0]."""
        return replace(self, kappa=np.asarray(noise)[..., :1])

    def draw_noise(self, s: Stream) -> Floats:
        """Draw κ ~ Gamma(1, 1)."""
        return np.array([max(gamma(s, 1.0, 1.0), SMALLEST)])

    def log_noise_density(self, noise: Floats) -> float:
        """Log density −κ of Gamma(1, 1)."""
        return -float(noise[0])

    def doubts(self, moments: Moments) -> Iterator[str]:
        """Sparse counts, which scatter more where their mean is larger."""
        if moments.zeros > _MOSTLY and moments.are_whole:
            yield (
                "The entries are whole numbers, most of them zero: counts, whose scatter grows "
                "with their mean. likelihood='poisson' fits better."
            )
