"""Poisson likelihood of counts: Y ~ Poisson(mean u·λ), where y = Y/u is in units of the mean.

Zeros need no logarithm: over the support of an entry they contribute −u v Σ x_n, a sum that is
known beforehand. So only stored cells are visited, Eq. (32).
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import ClassVar, NamedTuple, Self

import numpy as np
from scipy import special

from dibpnmf._compile import part, reassociated
from dibpnmf.likelihoods.base import Floats, Likelihood, Moments
from dibpnmf.likelihoods.entry_moves import draw_near, implements_log_mass_cap
from dibpnmf.likelihoods.grid_proposal import LOG_SLACK
from dibpnmf.likelihoods.peak_proposal import (
    implements_expectation,
    implements_has_slopes,
    implements_slopes,
    implements_split,
)
from dibpnmf.likelihoods.rows import (
    implements_draw_entry,
    implements_log_ratio,
    implements_open_row,
    implements_put_entry,
    implements_row_log_likelihood,
    implements_stays_off,
    implements_take_entry,
    log_ratio,
)
from dibpnmf.likelihoods.supports import (
    HIT_BASE,
    HIT_LOAD,
    HIT_VALUE,
    Entry,
    build_mean,
    first_hit,
    put_hits,
    take_hits,
)

# Places in line 0 of Entry.support: Σ x over the support, and Σ λ of the row without the entry.
_LOADS, _REST = range(2)
# Standard deviation of log v times the root of the counts in its support, its most, and the
# most that W' may be in units of exp f.
_SPREAD, _WIDEST, _MOST = 2.0, 1.2, 2.5
# Variance over mean below which data are not Poisson counts, whose ratio is at least 1.
_EVEN = 0.5


class PoissonKernel(NamedTuple):
    """Parameters of the compiled updates."""

    epsilon: float
    unit: float


@implements_open_row(PoissonKernel)
def _open_row(lik, row, cells, complete, A, X, lists, i):  # type: ignore[no-untyped-def]
    build_mean(row, False, cells, lists, A[i], lik.epsilon, i)
    # Totals: Σ x of each column over the observed cells and, last, Σ λ.
    K = X.shape[1]
    total = lik.epsilon * (X.shape[0] if complete else row.stored[0])
    for k in range(K):
        if complete:
            row.totals[k] = lists.sums[k]
        else:
            row.totals[k] = 0.0
            for p in range(first_hit(row, k), row.hit_end[k]):
                row.totals[k] += row.hit_x[p]
        total += A[i, k] * row.totals[k]
    row.totals[K] = total


@implements_stays_off(PoissonKernel)
def _stays_off(lik, row, complete, lists, k, u, log_odds, slab, local):  # type: ignore[no-untyped-def]
    # The log likelihood is concave in v: if it falls at v = 0 it is never above its value there.
    if math.log(u) <= log_odds + LOG_SLACK:
        return False
    slope = -row.totals[k]
    for p in range(first_hit(row, k), row.hit_end[k]):
        j = row.hit[p]
        slope += row.y[j] * row.hit_x[p] / row.mean[j]
    return slope <= 0.0


@part
def _sum_y_log(lines: Floats, c: int, v: float) -> float:
    """Return Σ y log(b + v x) over the stored cells of a support."""
    total = 0.0
    for j in range(c):
        total += lines[HIT_VALUE, j] * math.log(lines[HIT_BASE, j] + v * lines[HIT_LOAD, j])
    return total


@implements_take_entry(PoissonKernel)
def _take_entry(lik, row, complete, A, X, lists, i, k):  # type: ignore[no-untyped-def]
    a = A[i, k]
    lines = row.support
    c = take_hits(lik.epsilon, row, False, A, X, lists, i, k)
    loads = row.totals[k]
    lines[0, _LOADS] = loads
    lines[0, _REST] = row.totals[row.totals.size - 1] - a * loads
    m, level = 1 if loads > 0.0 else 0, _sum_y_log(lines, c, 0.0)
    return Entry(lines, row.grid, m, c, level, 0.0, math.nan, 1.0, 1.0, math.inf, math.inf)


@implements_log_ratio(PoissonKernel)
def _log_ratio(lik, support, m, c, level, v):  # type: ignore[no-untyped-def]
    return lik.unit * (_sum_y_log(support, c, v) - level - v * support[0, _LOADS])


@implements_log_mass_cap(PoissonKernel)
def _log_mass_cap(lik, entry, tau, odds):  # type: ignore[no-untyped-def]
    # A tangent bounds the concave log likelihood, and the mass of "on" by τ/(τ − its slope).
    lines = entry.support
    slope = -lines[0, _LOADS]
    for j in range(entry.c):
        slope += lines[HIT_VALUE, j] * lines[HIT_LOAD, j] / lines[HIT_BASE, j]
    slope *= lik.unit
    return -math.log(odds) - math.log1p(-slope / tau) if slope < tau else math.inf


@implements_expectation(PoissonKernel)
def _expectation(lik, entry):  # type: ignore[no-untyped-def]
    # What b leaves over of the counts, on average over the support.
    lines = entry.support
    excess, counts = 0.0, 0.0
    for j in range(entry.c):
        excess += max(lines[HIT_VALUE, j] - lines[HIT_BASE, j], 0.0)
        counts += lik.unit * lines[HIT_VALUE, j]
    guess = excess / lines[0, _LOADS]
    spread = min(_SPREAD / math.sqrt(1.0 + counts), _WIDEST)
    return guess, spread, _MOST


@implements_has_slopes(PoissonKernel)
def _has_slopes(lik, entry):  # type: ignore[no-untyped-def]
    return True  # they need no logarithm


@reassociated
def _share_sums(lines: Floats, v: float, c: int) -> tuple[float, float]:
    """Return Σ y s and Σ y s² over the stored cells, s = v x / (b + v x)."""
    first, second = 0.0, 0.0
    for j in range(np.uint64(c)):
        s = v * lines[HIT_LOAD, j] / (lines[HIT_BASE, j] + v * lines[HIT_LOAD, j])
        ys = lines[HIT_VALUE, j] * s
        first += ys
        second += ys * s
    return first, second


@implements_slopes(PoissonKernel)
def _slopes(lik, entry, v):  # type: ignore[no-untyped-def]
    first, second = _share_sums(entry.support, v, entry.c)
    loads = v * entry.support[0, _LOADS]
    # The log ratio itself would cost a logarithm for every cell.
    return math.nan, 1.0, lik.unit * (first - loads), lik.unit * (first - second - loads)


@implements_split(PoissonKernel)
def _split(lik, support, m, c, level, v):  # type: ignore[no-untyped-def]
    return log_ratio(lik, support, m, c, level, v), 1.0


implements_draw_entry(PoissonKernel)(draw_near)


@implements_put_entry(PoissonKernel)
def _put_entry(lik, row, entry, complete, lists, k, v):  # type: ignore[no-untyped-def]
    lines = entry.support
    put_hits(row, False, lists, k, entry.c, v)
    row.totals[row.totals.size - 1] = lines[0, _REST] + v * lines[0, _LOADS]


@implements_row_log_likelihood(PoissonKernel)
def _row_log_likelihood(lik, row, complete, X):  # type: ignore[no-untyped-def]
    value = -lik.unit * row.totals[row.totals.size - 1]
    for j in range(row.stored[0]):
        count = lik.unit * row.y[j]
        value += count * math.log(lik.unit * row.mean[j]) - math.lgamma(count + 1.0)
    return value


@dataclass(frozen=True)
class Poisson(Likelihood):
    """Poisson likelihood of counts with mean λ.

    Parameters
    ----------
    unit : float, default=1.0
        What the counts were divided by.
    """

    unit: float = 1.0

    name: ClassVar[str] = "poisson"

    def kernel(self, epsilon: float) -> PoissonKernel:
        """Parameters for the compiled row updates."""
        return PoissonKernel(float(epsilon), float(self.unit))

    def log_density(self, y: Floats, mean: Floats) -> Floats:
        """Log probability uy log(uλ) − uλ − log (uy)!, Eq. (31)."""
        count, rate = self.unit * y, self.unit * mean
        return special.xlogy(count, rate) - rate - special.gammaln(count + 1.0)

    def cdf(self, y: Floats, mean: Floats) -> Floats:
        """Probability of a count of at most uy."""
        # A count that was divided and multiplied again may have lost its last bit.
        count = np.floor(self.unit * y * (1.0 + 1e-12) + 1e-9)
        return np.where(count < 0.0, 0.0, special.pdtr(np.maximum(count, 0.0), self.unit * mean))

    def simulate(self, rng: np.random.Generator, mean: Floats) -> Floats:
        """Draw y given its mean."""
        return rng.poisson(self.unit * mean) / self.unit

    def in_units_of(self, scale: float) -> Self:
        """Return the likelihood for counts that were divided by ``scale``."""
        return replace(self, unit=float(scale))

    def trusts_pilot(self, zeros: float) -> bool:
        """No: small factors of the start, which take long to go, hold single counts of it."""
        return False

    def log_unit(self, scale: float) -> float:
        """Probabilities of counts do not depend on their units."""
        return 0.0

    def possible(self, Y: Floats) -> Floats:
        """Round to whole numbers."""
        return np.rint(Y)

    def refuse(self, Y: Floats) -> None:
        """Raise a ValueError if an entry is not a whole number."""
        fractional = Y[np.floor(Y) != Y]
        if fractional.size:
            raise ValueError(
                "likelihood='poisson' takes counts, whole numbers from 0 up; Y has "
                f"{fractional.size} other entries, such as {fractional[0]:g}. Use "
                "likelihood='gaussian' (or 'exponential') for measurements, or give the counts "
                "before they were weighted or averaged."
            )

    def doubts(self, moments: Moments) -> Iterator[str]:
        """Counts that scatter less than any Poisson mixture does."""
        ratio = moments.relative_variance * moments.mean
        if moments.n_observed >= 100 and ratio < _EVEN:
            yield (
                f"The entries' variance is {ratio:.2g} times their mean; of Poisson counts it is "
                "at least as large as the mean. For ratings and measurements "
                "likelihood='gaussian' fits better."
            )
