"""Exponential likelihood: y ~ Exponential(mean λ), log p = −log λ − y/λ."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import ClassVar, NamedTuple

import numpy as np

from dibpnmf._compile import inlined, kernel, reassociated
from dibpnmf.likelihoods.base import Floats, Likelihood, Moments
from dibpnmf.likelihoods.grid_proposal import LOG_SLACK, draw_from_grid
from dibpnmf.likelihoods.rows import (
    BASE,
    BLOCK,
    HIT_BASE,
    HIT_LOAD,
    HIT_VALUE,
    LOAD,
    Entry,
    build_mean,
    collect_hits,
    implements_draw_entry,
    implements_log_ratio,
    implements_open_row,
    implements_put_entry,
    implements_row_log_likelihood,
    implements_stays_off,
    implements_take_entry,
    padded,
    without_entry,
)

_SMALL, _LARGE = 1e-150, 1e150
# A share of exact zeros above the first, or a variance below the second times the squared mean
# (any mixture of exponentials has at least 1), plainly contradicts the likelihood.
_MOSTLY, _EVEN = 0.75, 0.5


class ExponentialKernel(NamedTuple):
    """Parameters of the compiled updates."""

    epsilon: float


@reassociated
def _product(lines: Floats, base: int, load: int, v: float, start, n) -> float:  # type: ignore[no-untyped-def]
    # Unsigned bounds: signed ones could count from the end and keep the loop out of lanes.
    p = 1.0
    for j in range(n):
        p *= lines[base, start + j] + v * lines[load, start + j]
    return p


@inlined
def sum_log(lines: Floats, base: int, load: int, v: float, m: int) -> float:
    """Return Σ_{j<m} log(lines[base, j] + v · lines[load, j]) as logs of blockwise products.

    The plain formula is ``np.sum(np.log(base + v * load))``. A block whose product leaves the
    safe range of floats is summed term by term.
    """
    total = 0.0
    product = 1.0
    for start in range(0, m, BLOCK):
        if start + BLOCK <= m:  # a constant length, so that the compiler unrolls it
            p = _product(lines, base, load, v, np.uint64(start), np.uint64(BLOCK))
        else:
            p = _product(lines, base, load, v, np.uint64(start), np.uint64(m - start))
        if _SMALL < p < _LARGE:
            product *= p
            if not _SMALL < product < _LARGE:
                total += math.log(product)
                product = 1.0
        else:
            for j in range(start, min(start + BLOCK, m)):
                total += math.log(lines[base, j] + v * lines[load, j])
    return total + math.log(product)


@reassociated
def sum_ratio(lines: Floats, v: float, c: int) -> float:
    """Return Σ_j y_j / (b_j + v x_j) over the stored cells of a support."""
    total = 0.0
    for j in range(np.uint64(c)):
        total += lines[HIT_VALUE, j] / (lines[HIT_BASE, j] + v * lines[HIT_LOAD, j])
    return total


@inlined
def support_log_likelihood(lines: Floats, m: int, c: int, v: float) -> float:
    """Log likelihood of a support, padded to whole blocks, at loading v, Eq. (19)."""
    return -sum_log(lines, BASE, LOAD, v, padded(m)) - sum_ratio(lines, v, c)


@implements_open_row(ExponentialKernel)
def _open_row(lik, row, cells, complete, A, X, lists, i):  # type: ignore[no-untyped-def]
    collect_hits(row, cells, complete, lists, i)
    build_mean(row, complete, lists, A[i], lik.epsilon)


@implements_stays_off(ExponentialKernel)
def _stays_off(lik, row, k, u, log_odds):  # type: ignore[no-untyped-def]
    # An observed y gains at most y/b − 1 − log(y/b), reached at λ = y, and a zero gains
    # nothing; grid_proposal bounds the mass of "on" by them.
    gain = 0.0
    for p in range(row.hit_ptr[k], row.hit_ptr[k + 1]):
        j = row.hit[p]
        t = row.y[j] / row.mean[row.cell[j]]
        if t > 1.0:
            gain += t - 1.0 - math.log(t)
    return math.log(u) > log_odds + gain + LOG_SLACK


@inlined
def _gather(lines, mean, cells, values, start, m):  # type: ignore[no-untyped-def]
    """Fill lines BASE and LOAD with λ and x of a support."""
    at = np.uint64(start)
    for j in range(np.uint64(m)):
        lines[BASE, j] = mean[cells[at + j]]
    for j in range(np.uint64(m)):
        lines[LOAD, j] = values[at + j]


@implements_take_entry(ExponentialKernel)
def _take_entry(lik, row, complete, A, X, lists, i, k):  # type: ignore[no-untyped-def]
    a = A[i, k]
    lines = row.support
    first = row.hit_ptr[k]
    c = row.hit_ptr[k + 1] - first
    for h in range(c):
        j = row.hit[first + h]
        x = row.hit_x[first + h]
        b = row.mean[row.cell[j]]
        if a > 0.0:
            b = without_entry(b, a * x, lik.epsilon, A, X, i, k, row.column[j])
        lines[HIT_BASE, h] = b
        lines[HIT_LOAD, h] = x
        lines[HIT_VALUE, h] = row.y[j]
    m = c
    if complete:
        start = lists.column_ptr[k]
        m = lists.column_ptr[k + 1] - start
        _gather(lines, row.mean, lists.column_rows, lists.column_values, start, m)
        if a > 0.0:
            for j in range(m):
                lines[BASE, j] = without_entry(
                    lines[BASE, j],
                    a * lines[LOAD, j],
                    lik.epsilon,
                    A,
                    X,
                    i,
                    k,
                    lists.column_rows[start + j],
                )
    else:
        for j in range(m):
            lines[BASE, j] = lines[HIT_BASE, j]
            lines[LOAD, j] = lines[HIT_LOAD, j]
    for j in range(m, padded(m)):  # log 1 = 0
        lines[BASE, j] = 1.0
        lines[LOAD, j] = 0.0
    return Entry(lines, row.grid, m, c, support_log_likelihood(lines, m, c, 0.0))


@implements_log_ratio(ExponentialKernel)
def _log_ratio(lik, support, m, c, level, v):  # type: ignore[no-untyped-def]
    return support_log_likelihood(support, m, c, v) - level


# τv at the ends of the intervals of `log_mass_bound`, and the prior's mass of each.
_ENDS = (2.0**-9, 2.0**-7, 2.0**-5, 2.0**-3, 0.5, 2.0, 8.0, math.inf)
_MASSES = tuple(
    math.exp(-low) - math.exp(-high) for low, high in zip((0.0, *_ENDS), _ENDS, strict=False)
)
_PROBE = 0.5  # τv at which `log_mass_bound` evaluates the costly part


@kernel
def log_mass_bound(lines: Floats, m: int, c: int, level: float, tau: float) -> float:
    """Bound the log of E[p(y | b + v x) / p(y | b)] over the prior of v from above.

    The log ratio is H − G, H = Σ y/b − y/(b+vx) over the few stored cells, G = Σ log(1 + vx/b)
    over all. Both grow with v, and G is concave with G(0) = 0, so that one evaluation of G
    bounds it from below everywhere: G(v) >= G(v₀) min(v/v₀, 1).
    """
    rest = sum_ratio(lines, 0.0, c)  # −level = Σ log b + rest
    slope = (sum_log(lines, BASE, LOAD, _PROBE / tau, padded(m)) + level + rest) / _PROBE
    total, low = 0.0, 0.0
    for high, mass in zip(_ENDS, _MASSES):  # noqa: B905
        gain = rest - sum_ratio(lines, high / tau, c) if high < math.inf else rest
        total += mass * math.exp(gain - slope * min(low, _PROBE))
        low = high
    return math.log(total)  # infinite where the gain is beyond floats: no bound


@implements_draw_entry(ExponentialKernel)
def _draw_entry(lik, entry, a, log_odds, slab, u, s):  # type: ignore[no-untyped-def]
    tau = slab.rate
    log_cap = math.inf
    if 8 * entry.c <= entry.m:  # few stored cells: the bound costs little more than one node
        log_cap = log_odds + log_mass_bound(entry.support, entry.m, entry.c, entry.level, tau)
    return draw_from_grid(lik, entry, a, log_odds, tau, log_cap, u, s)


@implements_put_entry(ExponentialKernel)
def _put_entry(lik, row, entry, complete, lists, k, v):  # type: ignore[no-untyped-def]
    lines = entry.support
    if complete:
        start = lists.column_ptr[k]
        for j in range(entry.m):
            row.mean[lists.column_rows[start + j]] = lines[BASE, j] + v * lines[LOAD, j]
    else:
        start = row.hit_ptr[k]
        for j in range(entry.m):
            row.mean[row.hit[start + j]] = lines[BASE, j] + v * lines[LOAD, j]


@implements_row_log_likelihood(ExponentialKernel)
def _row_log_likelihood(lik, row, complete, X):  # type: ignore[no-untyped-def]
    stored = row.stored[0]
    ratios = 0.0
    for j in range(stored):
        ratios += row.y[j] / row.mean[row.cell[j]]
    local = row.mean.size if complete else stored
    # λ as a single line, with v = 0.
    return -sum_log(row.mean.reshape((1, row.mean.size)), 0, 0, 0.0, local) - ratios


class Exponential(Likelihood):
    """Exponential likelihood with mean λ: the paper's choice, noise as large as the signal."""

    name: ClassVar[str] = "exponential"
    # A start fits the noise, which is as large as the signal: it has to lose factors.
    keeps_its_start: ClassVar[bool] = False

    def kernel(self, epsilon: float) -> ExponentialKernel:
        """Parameters for the compiled row updates."""
        return ExponentialKernel(float(epsilon))

    def log_density(self, y: Floats, mean: Floats) -> Floats:
        """Log density −log λ − y/λ, Eq. (10)."""
        return -np.log(mean) - y / mean

    def cdf(self, y: Floats, mean: Floats) -> Floats:
        """Distribution function 1 − exp(−y/λ)."""
        return -np.expm1(-y / mean)

    def simulate(self, rng: np.random.Generator, mean: Floats) -> Floats:
        """Draw y given its mean."""
        return rng.exponential(mean)

    def doubts(self, moments: Moments) -> Iterator[str]:
        """Exact zeros, which have probability 0, and entries that scatter too little."""
        if moments.zeros > _MOSTLY:
            yield (
                f"{moments.zeros:.0%} of the entries are exactly zero, which an exponential "
                "distribution never gives. For counts and binary data likelihood='poisson' fits "
                "better, for weights such as tf-idf 'gaussian'; if zeros stand for cells that "
                "were not observed, say zeros='missing' or use NaN."
            )
        if moments.n_observed >= 100 and moments.relative_variance < _EVEN:
            yield (
                f"The entries scatter by {moments.relative_variance**0.5:.0%} of their mean; "
                "exponential ones scatter by 100% or more. likelihood='gaussian' fits "
                "better."
            )
