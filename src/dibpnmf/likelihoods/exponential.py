"""Exponential likelihood: y ~ Exponential(mean λ), log p = −log λ − y/λ."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import ClassVar, NamedTuple

import numpy as np

from dibpnmf._compile import inlined, reassociated
from dibpnmf.likelihoods.base import Floats, Likelihood, Moments
from dibpnmf.likelihoods.entry_moves import draw_near, implements_log_mass_cap
from dibpnmf.likelihoods.exponential_bounds import (
    expected_mass,
    first_look,
    greatest_gain,
    least_logit,
    log_mass_bound,
    log_some_bound,
)
from dibpnmf.likelihoods.exponential_sums import (
    LARGE,
    SMALL,
    STRETCH,
    log_stretch,
    stored_sums,
    sum_log,
    sum_ratio,
    support_log_likelihood,
)
from dibpnmf.likelihoods.grid_proposal import DEFENCE, LOG_SLACK
from dibpnmf.likelihoods.lists import filled
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
)
from dibpnmf.likelihoods.supports import (
    BASE,
    HIT_BASE,
    HIT_LOAD,
    HIT_VALUE,
    LOAD,
    Entry,
    build_mean,
    find_lost,
    gather_hits,
    hits_of,
    is_lost,
    level_of,
    padded,
    put_hits,
    sum_without,
    take_out,
)

# A share of exact zeros above the first, or a variance below the second times the squared mean
# (any mixture of exponentials has at least 1), plainly contradicts the likelihood.
_MOSTLY, _EVEN = 0.75, 0.5
_FEW_ZEROS = 0.05  # share of them that does not matter


class ExponentialKernel(NamedTuple):
    """Parameters of the compiled updates."""

    epsilon: float


@reassociated
def _sum_lines(lines: Floats, base: int, load: int, m: int) -> tuple[float, float]:
    """Return the sums of the first m numbers of two lines."""
    first, second = 0.0, 0.0
    for j in range(np.uint64(m)):
        first += lines[base, j]
        second += lines[load, j]
    return first, second


@implements_open_row(ExponentialKernel)
def _open_row(lik, row, cells, complete, A, X, lists, i):  # type: ignore[no-untyped-def]
    build_mean(row, complete, cells, lists, A[i], lik.epsilon, i)


@inlined
def _gather(lines, mean, cells, values, start, m):  # type: ignore[no-untyped-def]
    """Fill lines BASE and LOAD with λ and x of a support."""
    at = np.uint64(start)
    for j in range(np.uint64(m)):
        lines[BASE, j] = mean[cells[at + j]]
    for j in range(np.uint64(m)):
        lines[LOAD, j] = values[at + j]


@inlined
def _pad(lines, m):  # type: ignore[no-untyped-def]
    """Fill up the last block with cells that count nothing: log 1 = 0."""
    for j in range(m, padded(m)):
        lines[BASE, j] = 1.0
        lines[LOAD, j] = 0.0


@reassociated
def _take_stretch(lines, a, present, start, n):  # type: ignore[no-untyped-def]
    """Turn λ into b = λ − a x; return Π b, Σ y/b, Σ b, Σ x, Σ y and how many b are lost.

    And with λ = b + present · x the first two for λ: Π λ, Σ y/λ; then the derivatives of a
    `first_look`.
    """
    p, ratios, rest, loads, total, lost = 1.0, 0.0, 0.0, 0.0, 0.0, 0
    p_now, ratios_now, slope, bend = 1.0, 0.0, 0.0, 0.0
    for j in range(start, start + n):
        x, y = lines[HIT_LOAD, j], lines[HIT_VALUE, j]
        ax = a * x
        b = lines[HIT_BASE, j] - ax
        lines[HIT_BASE, j] = b
        mean = b + present * x
        lost += is_lost(b, ax)
        p *= b
        inverse = 1.0 / b
        t, r = y * inverse, x * inverse
        ratios += t
        slope += r * (t - 1.0)
        bend += r * r * (2.0 * t - 1.0)
        p_now *= mean
        ratios_now += y / mean
        rest += b
        loads += x
        total += y
    return p, ratios, rest, loads, total, lost, p_now, ratios_now, slope, bend


@inlined
def _take_stored(lines, a, present, c):  # type: ignore[no-untyped-def]
    """Take a·x out of the lines of stored cells, in one pass for all that needs no search.

    Returns the log likelihood without the entry as r and q, it is r − log q, the guess of v, how
    many cells are lost, the log likelihood with the entry as it is, at loading ``present``, and
    the derivatives of a `first_look`.
    """
    logs, product, ratios = 0.0, 1.0, 0.0
    logs_now, product_now, ratios_now = 0.0, 1.0, 0.0
    rest, loads, total, lost = 0.0, 0.0, 0.0, 0
    slope, bend = 0.0, 0.0
    for start in range(0, c, STRETCH):
        n, stop = min(filled(c) - start, STRETCH), min(start + STRETCH, c)
        p, r, b, x, y, gone, p_now, r_now, rise, turn = _take_stretch(
            lines, a, present, np.uint64(start), np.uint64(n)
        )
        ratios += r
        ratios_now += r_now
        rest += b
        loads += x
        total += y
        lost += gone
        slope += rise
        bend += turn
        if min(p, p_now) > SMALL and max(p, p_now) < LARGE:
            product *= p
            product_now *= p_now
        elif lost == 0:
            logs += log_stretch(lines, 0.0, start, stop)
            logs_now += log_stretch(lines, present, start, stop)
        if not (min(product, product_now) > SMALL and max(product, product_now) < LARGE):
            logs += math.log(product)
            logs_now += math.log(product_now)
            product, product_now = 1.0, 1.0
    rest -= filled(c) - c
    guess = _guess(rest, loads, total)
    return (
        -logs - ratios, product, guess, lost, -logs_now - ratios_now, product_now, slope, bend
    )  # fmt: skip


@inlined
def _guess(rest: float, loads: float, total: float) -> float:
    """Where v may be: what Σ b leaves over of Σ y, but some of it, by Σ x."""
    excess = max(total - rest, 0.1 * total)
    return excess / loads if loads > 0.0 else 0.0


@inlined
def entry_of(lines: Floats, grid: Floats, m: int, c: int) -> Entry:
    """Entry of a support whose lines are filled; some of its cells are not stored, or all are."""
    _pad(lines, m)
    level = support_log_likelihood(lines, m, c, 0.0)
    rest, loads = _sum_lines(lines, BASE, LOAD, m)
    guess = _guess(rest, loads, _sum_lines(lines, HIT_VALUE, HIT_VALUE, c)[0])
    return Entry(lines, grid, m, c, level, guess, math.nan, 1.0, 1.0, math.inf, math.inf)


@implements_take_entry(ExponentialKernel)
def _take_entry(lik, row, complete, A, X, lists, i, k):  # type: ignore[no-untyped-def]
    a = A[i, k]
    lines = row.support
    c = gather_hits(row, complete, lists, k)
    taken = a
    base, base_factor, guess, lost, present, factor = 0.0, 1.0, 0.0, 1, 0.0, 1.0
    slope, bend = 0.0, 0.0
    while lost > 0:
        base, base_factor, guess, lost, present, factor, slope, bend = _take_stored(
            lines, taken, a, c
        )
        if lost > 0:
            find_lost(lik.epsilon, row, complete, A, X, lists, i, k, c)
            taken = 0.0
    m = lists.column_ptr[k + 1] - lists.column_ptr[k] if complete else c
    if c < m:
        start = lists.column_ptr[k]
        _gather(lines, row.mean, lists.column_rows, lists.column_values, start, m)
        if take_out(lines, BASE, LOAD, a, m):
            for j in range(m):
                if is_lost(lines[BASE, j], a * lines[LOAD, j]):
                    n = np.int64(lists.column_rows[start + j])
                    lines[BASE, j] = sum_without(lik.epsilon, A, X, i, k, n)
        return entry_of(lines, row.grid, m, c)
    return Entry(lines, row.grid, m, c, base, guess, present, factor, base_factor, slope, bend)


@implements_log_ratio(ExponentialKernel)
def _log_ratio(lik, support, m, c, level, v):  # type: ignore[no-untyped-def]
    return support_log_likelihood(support, m, c, v) - level


_FEW = 8  # cells to each stored one, from which the bound costs less than a grid
# Where few cells are stored, and where many are: the standard deviation of log v times the root
# of the number of cells, as met on documents and on ratings, and the most that W' may be in
# units of exp f. Over no interval below `FARTHEST` is exp g more than 2.4 times the mass.
_SPREAD, _MOST = (3.0, 6.0), (0.4, 2.5)
_WIDEST = 1.2


@implements_log_mass_cap(ExponentialKernel)
def _log_mass_cap(lik, entry, tau, odds):  # type: ignore[no-untyped-def]
    if entry.c == entry.m:
        mass = expected_mass(entry.slope, entry.bend, tau)
        return math.log(mass / odds) if mass < math.inf else math.inf
    if _FEW * entry.c > entry.m:
        return math.inf
    base = -level_of(entry) - sum_ratio(entry.support, 0.0, entry.c)
    return log_mass_bound(entry.support, entry.m, entry.c, base, tau) - math.log(odds)


@implements_stays_off(ExponentialKernel)
def _stays_off(lik, row, complete, lists, k, u, log_odds, slab, local):  # type: ignore[no-untyped-def]
    least = least_logit(u)
    cells, x, first, c = hits_of(row, complete, lists, k)
    if not complete or c == lists.column_ptr[k + 1] - lists.column_ptr[k]:
        slope, bend, gain = first_look(cells, x, row.y, row.mean, first, c)
        if least > log_odds + LOG_SLACK + 0.5 * gain:
            return True
        if not local:
            return False
        mass = (1.0 + DEFENCE) * expected_mass(slope, bend, slab.rate)
        return u >= (1.0 - u) * math.exp(log_odds) * mass
    # A zero gains nothing; grid_proposal bounds the mass of "on" by what the others do.
    if least > log_odds + LOG_SLACK:
        log_most = log_odds + greatest_gain(cells, row.y, row.mean, first, c) + LOG_SLACK
        if least > log_most:
            return True
    if _FEW * c > lists.column_ptr[k + 1] - lists.column_ptr[k]:
        return False
    return log_some_bound(row, cells, x, first, c, lists, k, slab.rate, u) + log_odds <= 0.0


@implements_expectation(ExponentialKernel)
def _expectation(lik, entry):  # type: ignore[no-untyped-def]
    many = int(_FEW * entry.c > entry.m)
    spread = min(_SPREAD[many] / math.sqrt(max(entry.m, 1)), _WIDEST)
    return entry.guess, spread, _MOST[many]


@implements_has_slopes(ExponentialKernel)
def _has_slopes(lik, entry):  # type: ignore[no-untyped-def]
    return _FEW * entry.c > entry.m  # each cell costs a division, which `sum_log` does without


@reassociated
def _cost_slopes(lines, v, m):  # type: ignore[no-untyped-def]
    """Derivatives of −Σ log(b + v x) by log v, with s = v x / (b + v x): −Σ s and −Σ s(1 − s)."""
    first, second = 0.0, 0.0
    for j in range(np.uint64(m)):
        s = v * lines[LOAD, j] / (lines[BASE, j] + v * lines[LOAD, j])
        first -= s
        second -= s * (1.0 - s)
    return first, second


@reassociated
def _gain_slopes(lines, v, c):  # type: ignore[no-untyped-def]
    """Derivatives of −Σ y/(b + v x) by log v, with r = y / (b + v x): Σ r s and Σ r s(1 − 2s)."""
    first, second = 0.0, 0.0
    for j in range(np.uint64(c)):
        inverse = 1.0 / (lines[HIT_BASE, j] + v * lines[HIT_LOAD, j])
        s = v * lines[HIT_LOAD, j] * inverse
        rs = lines[HIT_VALUE, j] * inverse * s
        first += rs
        second += rs * (1.0 - 2.0 * s)
    return first, second


@implements_slopes(ExponentialKernel)
def _slopes(lik, entry, v):  # type: ignore[no-untyped-def]
    if entry.c == entry.m:
        rest, product, slope, bend = stored_sums(entry.support, v, entry.c)
        return -rest - entry.base_level, product / entry.base_factor, slope, bend
    cost, bent_cost = _cost_slopes(entry.support, v, entry.m)
    gain, bent_gain = _gain_slopes(entry.support, v, entry.c)
    return math.nan, 1.0, gain + cost, bent_gain + bent_cost


@implements_split(ExponentialKernel)
def _split(lik, support, m, c, level, v):  # type: ignore[no-untyped-def]
    if c == m:
        rest, product, _slope, _bend = stored_sums(support, v, c)
        return -rest - level, product
    return support_log_likelihood(support, m, c, v) - level, 1.0


implements_draw_entry(ExponentialKernel)(draw_near)


@implements_put_entry(ExponentialKernel)
def _put_entry(lik, row, entry, complete, lists, k, v):  # type: ignore[no-untyped-def]
    lines = entry.support
    if entry.c == entry.m:
        put_hits(row, complete, lists, k, entry.c, v)
    else:
        start = np.uint64(lists.column_ptr[k])
        for j in range(np.uint64(entry.m)):
            row.mean[lists.column_rows[start + j]] = lines[BASE, j] + v * lines[LOAD, j]


@reassociated
def _sum_ratios(row, by_column, stored):  # type: ignore[no-untyped-def]
    """Σ y/λ over the stored cells, found by their columns or, where these are all, in order."""
    total = 0.0
    if by_column:
        for j in range(np.uint64(stored)):
            n = np.uint64(row.column[j])
            total += row.y[n] / row.mean[n]
    else:
        for j in range(np.uint64(stored)):
            total += row.y[j] / row.mean[j]
    return total


@implements_row_log_likelihood(ExponentialKernel)
def _row_log_likelihood(lik, row, complete, X):  # type: ignore[no-untyped-def]
    stored = row.stored[0]
    ratios = _sum_ratios(row, complete and stored < row.mean.size, stored)
    local = row.mean.size if complete else stored
    # λ as a single line, with v = 0.
    return -sum_log(row.mean.reshape((1, row.mean.size)), BASE, BASE, 0.0, local) - ratios


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

    def trusts_pilot(self, zeros: float) -> bool:
        """Not where zeros, which cannot be, would take ε to nothing: the less, the likelier."""
        return zeros <= _FEW_ZEROS

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
