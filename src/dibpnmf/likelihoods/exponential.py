"""Exponential likelihood: y ~ Exponential(mean λ), log p = −log λ − y/λ."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import ClassVar, NamedTuple

import numpy as np

from dibpnmf._compile import inlined, kernel, reassociated
from dibpnmf.likelihoods.base import Floats, Likelihood, Moments
from dibpnmf.likelihoods.entry_moves import draw_near, implements_log_mass_cap
from dibpnmf.likelihoods.grid_proposal import LOG_DEFENDED, LOG_SLACK
from dibpnmf.likelihoods.peak_proposal import (
    implements_expectation,
    implements_has_slopes,
    implements_slopes,
    implements_split,
)
from dibpnmf.likelihoods.rows import (
    BASE,
    BLOCK,
    HIT_BASE,
    HIT_LOAD,
    HIT_VALUE,
    LOAD,
    MAX_NODES,
    NODE,
    Entry,
    build_mean,
    filled,
    find_lost,
    gather_hits,
    hits_of,
    implements_draw_entry,
    implements_log_ratio,
    implements_open_row,
    implements_put_entry,
    implements_row_log_likelihood,
    implements_stays_off,
    implements_take_entry,
    is_lost,
    level_of,
    padded,
    put_hits,
    sum_without,
    take_out,
)

_SMALL, _LARGE = 1e-120, 1e120  # of a product: ratios and a few factors more are still floats
_STRETCH = 128  # stored cells that are summed up and multiplied in one go
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
def _stretch(lines, v, start, n):  # type: ignore[no-untyped-def]
    """Π λ, Σ y/λ, Σ s(t − 1) and Σ s(t(1 − 2s) − (1 − s)), t = y/λ, s = v x/λ, λ = b + v x."""
    p, ratios, first, second = 1.0, 0.0, 0.0, 0.0
    for j in range(start, start + n):
        mean = lines[HIT_BASE, j] + v * lines[HIT_LOAD, j]
        inverse = 1.0 / mean
        t, s = lines[HIT_VALUE, j] * inverse, v * lines[HIT_LOAD, j] * inverse
        p *= mean
        ratios += t
        first += s * (t - 1.0)
        second += s * (t * (1.0 - 2.0 * s) - (1.0 - s))
    return p, ratios, first, second


@kernel
def _log_stretch(lines: Floats, v: float, start: int, stop: int) -> float:
    """Σ log(b + v x) over a stretch of stored cells whose product leaves the range of floats."""
    total = 0.0
    for at in range(start, stop, BLOCK):
        n = min(BLOCK, stop - at)
        p = _product(lines, HIT_BASE, HIT_LOAD, v, np.uint64(at), np.uint64(n))
        if _SMALL < p < _LARGE:
            total += math.log(p)
        else:
            for j in range(at, at + n):
                total += math.log(lines[HIT_BASE, j] + v * lines[HIT_LOAD, j])
    return total


@inlined
def stored_sums(lines: Floats, v: float, c: int) -> tuple[float, float, float, float]:
    """Σ log λ + y/λ over the stored cells, as r + log q, and less its derivatives by log v.

    One division for each cell serves all. What a caller does not use is not computed.
    """
    logs, product, ratios, slope, bend = 0.0, 1.0, 0.0, 0.0, 0.0
    for start in range(0, c, _STRETCH):
        n = min(filled(c) - start, _STRETCH)
        p, r, first, second = _stretch(lines, v, np.uint64(start), np.uint64(n))
        ratios += r
        slope += first
        bend += second
        if _SMALL < p < _LARGE:
            product *= p
            if not _SMALL < product < _LARGE:
                logs += math.log(product)
                product = 1.0
        else:
            logs += _log_stretch(lines, v, start, min(start + _STRETCH, c))
    return logs + ratios, product, slope, bend


@reassociated
def sum_ratio(lines: Floats, v: float, c: int) -> float:
    """Return Σ_j y_j / (b_j + v x_j) over the stored cells of a support."""
    total = 0.0
    for j in range(np.uint64(c)):
        total += lines[HIT_VALUE, j] / (lines[HIT_BASE, j] + v * lines[HIT_LOAD, j])
    return total


@kernel
def support_log_likelihood(lines: Floats, m: int, c: int, v: float) -> float:
    """Log likelihood of a support, padded to whole blocks, at loading v, Eq. (19)."""
    if c == m:
        rest, product, _slope, _bend = stored_sums(lines, v, c)
        return -rest - math.log(product)
    return -sum_log(lines, BASE, LOAD, v, padded(m)) - sum_ratio(lines, v, c)


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

    And with λ = b + present · x the first two for λ: Π λ, Σ y/λ.
    """
    p, ratios, rest, loads, total, lost = 1.0, 0.0, 0.0, 0.0, 0.0, 0
    p_now, ratios_now = 1.0, 0.0
    for j in range(start, start + n):
        x, y = lines[HIT_LOAD, j], lines[HIT_VALUE, j]
        ax = a * x
        b = lines[HIT_BASE, j] - ax
        lines[HIT_BASE, j] = b
        mean = b + present * x
        lost += is_lost(b, ax)
        p *= b
        ratios += y / b
        p_now *= mean
        ratios_now += y / mean
        rest += b
        loads += x
        total += y
    return p, ratios, rest, loads, total, lost, p_now, ratios_now


@inlined
def _take_stored(lines, a, present, c):  # type: ignore[no-untyped-def]
    """Take a·x out of the lines of stored cells, in one pass for all that needs no search.

    Returns the log likelihood without the entry as r and q, it is r − log q, the guess of v, how
    many cells are lost, and the log likelihood with the entry as it is, at loading ``present``.
    """
    logs, product, ratios = 0.0, 1.0, 0.0
    logs_now, product_now, ratios_now = 0.0, 1.0, 0.0
    rest, loads, total, lost = 0.0, 0.0, 0.0, 0
    for start in range(0, c, _STRETCH):
        n, stop = min(filled(c) - start, _STRETCH), min(start + _STRETCH, c)
        p, r, b, x, y, gone, p_now, r_now = _take_stretch(
            lines, a, present, np.uint64(start), np.uint64(n)
        )
        ratios += r
        ratios_now += r_now
        rest += b
        loads += x
        total += y
        lost += gone
        if min(p, p_now) > _SMALL and max(p, p_now) < _LARGE:
            product *= p
            product_now *= p_now
        elif lost == 0:
            logs += _log_stretch(lines, 0.0, start, stop)
            logs_now += _log_stretch(lines, present, start, stop)
        if not (min(product, product_now) > _SMALL and max(product, product_now) < _LARGE):
            logs += math.log(product)
            logs_now += math.log(product_now)
            product, product_now = 1.0, 1.0
    rest -= filled(c) - c
    guess = _guess(rest, loads, total)
    return -logs - ratios, product, guess, lost, -logs_now - ratios_now, product_now


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
    return Entry(lines, grid, m, c, level, guess, math.nan, 1.0, 1.0)


@implements_take_entry(ExponentialKernel)
def _take_entry(lik, row, complete, A, X, lists, i, k):  # type: ignore[no-untyped-def]
    a = A[i, k]
    lines = row.support
    c = gather_hits(row, complete, lists, k)
    taken = a
    base, base_factor, guess, lost, present, factor = 0.0, 1.0, 0.0, 1, 0.0, 1.0
    while lost > 0:
        base, base_factor, guess, lost, present, factor = _take_stored(lines, taken, a, c)
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
    return Entry(lines, row.grid, m, c, base, guess, present, factor, base_factor)


@implements_log_ratio(ExponentialKernel)
def _log_ratio(lik, support, m, c, level, v):  # type: ignore[no-untyped-def]
    return support_log_likelihood(support, m, c, v) - level


# τv at the ends of the intervals of `log_mass_bound`, and the prior's mass of each.
_ENDS = (*(3.0 ** (0.5 * k) for k in range(-11, 5)), math.inf)
_MASSES = tuple(
    math.exp(-low) - math.exp(-high) for low, high in zip((0.0, *_ENDS), _ENDS, strict=False)
)
_PROBES = (1.0 / 16.0, 1.0)  # τv at which `log_mass_bound` evaluates the costly part
_FEW = 8  # cells to each stored one, from which the bound costs less than a grid
# Cells that `stays_off` tries: as many as the first number, or that share if it is more.
_SOME, _SHARE = 128, 0.375
# Where few cells are stored, and where many are: the standard deviation of log v times the root
# of the number of cells, as met on documents and on ratings, and the most that W' may be in
# units of exp f. Over no interval below `FARTHEST` is exp g more than 2.4 times the mass.
_SPREAD, _MOST = (3.0, 6.0), (0.4, 2.5)
_WIDEST = 1.2


@inlined
def _cost(low: float, first: float, second: float) -> float:
    """What G is at least where τv = ``low``, by its values at the two probes: see below."""
    near, far = _PROBES
    if low <= near:
        cost = first * low / near
    else:
        cost = first + (second - first) * (min(low, far) - near) / (far - near)
    return cost


@kernel
def log_mass_bound(lines: Floats, m: int, c: int, base: float, tau: float) -> float:
    """Bound the log of E[p(y | b + v x) / p(y | b)] over the prior of v from above.

    The log ratio is H − G, H = Σ y/b − y/(b+vx) over the few stored cells, G = Σ log(1 + vx/b)
    over all; ``base`` is Σ log b over the same. Both grow with v, and G is concave with G(0) = 0,
    so that two evaluations of G bound it from below everywhere, by the lines between them and a
    constant beyond.
    """
    near, far = _PROBES
    size = padded(m)
    first = sum_log(lines, BASE, LOAD, near / tau, size) - base
    second = sum_log(lines, BASE, LOAD, far / tau, size) - base
    rest = sum_ratio(lines, 0.0, c)
    total, low = 0.0, 0.0
    for high, mass in zip(_ENDS, _MASSES):  # noqa: B905
        gain = rest - sum_ratio(lines, high / tau, c) if high < math.inf else rest
        # Never more than `log_some_bound` says: by that entries have been skipped.
        total += mass * math.exp(gain - _cost(low, first, second))
        low = high
    return math.log(total)  # infinite where the gain is beyond floats: no bound


@implements_log_mass_cap(ExponentialKernel)
def _log_mass_cap(lik, entry, tau):  # type: ignore[no-untyped-def]
    if _FEW * entry.c > entry.m:
        return math.inf
    base = -level_of(entry) - sum_ratio(entry.support, 0.0, entry.c)
    return log_mass_bound(entry.support, entry.m, entry.c, base, tau)


@reassociated
def greatest_gain(cells, y: Floats, b: Floats, first, n) -> float:  # type: ignore[no-untyped-def]
    """Bound Σ t − 1 − log t over the cells with t = y/b > 1: what they gain at most, at λ = y.

    Since log t >= 2 (t − 1)/(t + 1) each is at most (t − 1)²/(t + 1), without a logarithm.
    """
    total = 0.0
    for h in range(first, first + np.uint64(n)):
        excess = max(y[cells[h]] - b[cells[h]], 0.0)
        total += excess * excess / (b[cells[h]] * (y[cells[h]] + b[cells[h]]))
    return total


# The same for all intervals but the last at once, in lanes: ends, masses, and what G's values at
# the first and the second probe add to the cost.
_LANE_ENDS, _LANE_MASSES = np.array(_ENDS[:-1]), np.array(_MASSES[:-1])
_LOWS = (0.0, *_ENDS[:-2])
_LANE_FIRST = np.interp(_LOWS, (0.0, *_PROBES), (0.0, 1.0, 0.0))
_LANE_SECOND = np.interp(_LOWS, (0.0, *_PROBES), (0.0, 0.0, 1.0))
_GREATEST = 64.0  # of an exponent in a bound
_NODES_TO_AN_END = MAX_NODES // _LANE_ENDS.size


@inlined
def _n_ends(gains: Floats):  # type: ignore[no-untyped-def]
    """Number of ends, but so that the compiler does not know it.

    A short loop of known length it unrolls before it would put it in lanes.
    """
    return np.uint64(gains.shape[1] // _NODES_TO_AN_END)


@reassociated
def _add_gain(gains: Floats, b: float, x: float, y: float) -> float:
    """Add what a stored cell gains at each end, y/b − y/(b + vx), x given over τ; return y/b."""
    ratio = y / b
    for q in range(_n_ends(gains)):
        vx = _LANE_ENDS[q] * x
        gains[NODE, q] += ratio * vx / (b + vx)
    return ratio


@inlined
def _power(x: float) -> float:
    """Bound exp x from above, for x < 256: (1 − x/256)^(−256)."""
    e = 1.0 / (1.0 - x * 2.0**-8)
    e *= e
    e *= e
    e *= e
    e *= e
    e *= e
    e *= e
    e *= e
    return e * e


@reassociated
def _sum_masses(gains: Floats, rest: float, first: float, second: float) -> float:
    """Sum of mass · exp(gain − cost) over the intervals, or more; infinite if out of hand."""
    total, beyond = 0.0, int(rest - second > _GREATEST)
    for q in range(_n_ends(gains)):
        excess = gains[NODE, q] - (first * _LANE_FIRST[q] + second * _LANE_SECOND[q])
        beyond += excess > _GREATEST
        total += _LANE_MASSES[q] * _power(excess)
    if beyond > 0:
        return math.inf
    return total + _MASSES[-1] * _power(rest - second)


@reassociated
def _products(mean, cells, values, near, far, start, n):  # type: ignore[no-untyped-def]
    """Π b, Π b + near · x and Π b + far · x over a part of a column's list."""
    p, q, r = 1.0, 1.0, 1.0
    for j in range(start, start + n):
        b, x = mean[cells[j]], values[j]
        p *= b
        q *= b + near * x
        r *= b + far * x
    return p, q, r


@inlined
def cost_of_some(mean: Floats, lists, k: int, tau: float) -> tuple[float, float]:  # type: ignore[no-untyped-def]
    """G at both probes, over some cells of column k: every term is positive.

    Those come first that count most, and in whole blocks; a block is left out if its products are
    no floats.
    """
    near, far = _PROBES[0] / tau, _PROBES[1] / tau
    start, m = lists.column_ptr[k], lists.column_ptr[k + 1] - lists.column_ptr[k]
    size = min(m, BLOCK)
    some = max(min(m, _SOME), int(_SHARE * m)) // size
    logs, more_logs, ratio, more = 0.0, 0.0, 1.0, 1.0
    for block in range(some):
        at = np.uint64(start + block * size)
        cells, x = lists.column_rows, lists.column_values
        if size == BLOCK:  # a constant length, so that the compiler unrolls it
            p, q, r = _products(mean, cells, x, near, far, at, np.uint64(BLOCK))
        else:
            p, q, r = _products(mean, cells, x, near, far, at, np.uint64(size))
        if p > _SMALL and r < _LARGE:  # and so is q, which lies between
            if more * (r / p) > _LARGE:
                logs += math.log(ratio)
                more_logs += math.log(more)
                ratio, more = 1.0, 1.0
            ratio *= q / p
            more *= r / p
    return logs + math.log(ratio), more_logs + math.log(more)


@inlined
def log_some_bound(row, cells, x, first, c, lists, k, tau, u) -> float:  # type: ignore[no-untyped-def]
    """Bound log W' − logit u − log odds of "on" as `log_mass_bound` does, but from fewer cells.

    Nor is an exponential taken: whatever is above will do.
    """
    gains, rest = row.grid, 0.0
    for q in range(_n_ends(gains)):
        gains[NODE, q] = 0.0
    for h in range(first, first + np.uint64(c)):
        cell = cells[h]
        rest += _add_gain(gains, row.mean[cell], x[h] / tau, row.y[cell])
    near, far = cost_of_some(row.mean, lists, k, tau)
    return math.log(_sum_masses(gains, rest, near, far) * (1.0 - u) / u) + LOG_DEFENDED


# Chords of logit u between these u, as slope and offset: it is concave below 1/2.
_CHORD_ENDS = (1.0 / 64.0, 1.0 / 16.0, 1.0 / 4.0, 1.0 / 2.0)
_LOGITS = tuple(math.log(u / (1.0 - u)) for u in _CHORD_ENDS)
_SLOPES = tuple(
    (_LOGITS[j + 1] - _LOGITS[j]) / (_CHORD_ENDS[j + 1] - _CHORD_ENDS[j]) for j in range(3)
)
_OFFSETS = tuple(_LOGITS[j] - _SLOPES[j] * _CHORD_ENDS[j] for j in range(3))


@inlined
def least_logit(u: float) -> float:
    """Bound log(u/(1 − u)) from below without a logarithm, which would cost the most here.

    By chords where u < 1/2, of which the least counts, and elsewhere by the tangent at 1/2.
    """
    low, middle = _OFFSETS[0] + _SLOPES[0] * u, _OFFSETS[1] + _SLOPES[1] * u
    high, beyond = _OFFSETS[2] + _SLOPES[2] * u, 4.0 * u - 2.0
    least = min(min(low, middle), min(high, beyond))
    return least if u > _CHORD_ENDS[0] else -math.inf


@implements_stays_off(ExponentialKernel)
def _stays_off(lik, row, complete, lists, k, u, log_odds, slab):  # type: ignore[no-untyped-def]
    # A zero gains nothing; grid_proposal bounds the mass of "on" by what the others do.
    least = least_logit(u)
    cells, x, first, c = hits_of(row, complete, lists, k)
    if least > log_odds + LOG_SLACK:
        log_most = log_odds + greatest_gain(cells, row.y, row.mean, first, c) + LOG_SLACK
        if least > log_most:
            return True
    if not complete or _FEW * c > lists.column_ptr[k + 1] - lists.column_ptr[k]:
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
