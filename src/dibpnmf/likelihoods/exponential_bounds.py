"""Bounds of what an off entry could gain by being on: most stay off without a grid."""

from __future__ import annotations

import math

import numpy as np

from dibpnmf._compile import inlined, part, reassociated
from dibpnmf.likelihoods.base import Floats
from dibpnmf.likelihoods.exponential_sums import LARGE, SMALL, sum_log, sum_ratio
from dibpnmf.likelihoods.grid_proposal import LOG_DEFENDED
from dibpnmf.likelihoods.supports import BASE, BLOCK, LOAD, MAX_NODES, NODE, padded

# τv at the ends of the intervals of `log_mass_bound`, and the prior's mass of each.
_ENDS = (*(3.0 ** (0.5 * k) for k in range(-11, 5)), math.inf)
_MASSES = tuple(
    math.exp(-low) - math.exp(-high) for low, high in zip((0.0, *_ENDS), _ENDS, strict=False)
)
_PROBES = (1.0 / 16.0, 1.0)  # τv at which `log_mass_bound` evaluates the costly part
# Cells that `stays_off` tries: as many as the first number, or that share if it is more.
_SOME, _SHARE = 128, 0.375


@inlined
def _cost(low: float, first: float, second: float) -> float:
    """What G is at least where τv = ``low``, by its values at the two probes: see below."""
    near, far = _PROBES
    if low <= near:
        cost = first * low / near
    else:
        cost = first + (second - first) * (min(low, far) - near) / (far - near)
    return cost


@part
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


@reassociated
def first_look(cells, x: Floats, y: Floats, b: Floats, first, n):  # type: ignore[no-untyped-def]
    """What L(v), Eq. (19), of an entry that is off is like, with t = y/b and r = x/b.

    Its derivatives at v = 0, the second one negated, Σ r(t − 1) and Σ r²(2t − 1), and twice a bound
    of all that it may gain: t − 1 − log t <= (t − 1)²/2 in the cells with t > 1.
    """
    slope, bend, gain = 0.0, 0.0, 0.0
    for h in range(first, first + np.uint64(n)):
        inverse = 1.0 / b[cells[h]]
        t, r = y[cells[h]] * inverse, x[h] * inverse
        excess = max(t - 1.0, 0.0)
        slope += r * (t - 1.0)
        bend += r * r * (2.0 * t - 1.0)
        gain += excess * excess
    return slope, bend, gain


# What the parabola of L at v = 0 is trusted with: this many times its mass, more the farther it
# rises, and no farther than that many of its deviations.
_GENEROUS, _FARTHEST = 5.0, 1.5


@inlined
def expected_mass(slope: float, bend: float, tau: float) -> float:
    """What E[p(y | b + v x) / p(y | b)] over the prior of v hardly exceeds, Eq. (46).

    Of a `first_look`: the parabola of L at 0, less τ v, falls by D = τ − slope there, or rises.
    Where it falls its mass is about τ/(D + √bend), else τ/√bend times what grows with −D/√bend. L
    bends less farther out, which is what the factors are for: no bound, but a cap of W' that seldom
    binds.
    """
    fall, root = tau - slope, math.sqrt(bend) if bend > 0.0 else 0.0
    if not max(abs(fall), root) < math.inf:  # beyond floats
        return math.inf
    if fall >= 0.0:
        return _GENEROUS * tau / (root + fall)
    if -fall < _FARTHEST * root:
        rise = 1.0 - fall / root
        square = rise * rise
        return _GENEROUS * tau / root * rise * square * square
    return math.inf


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
        if p > SMALL and r < LARGE:  # and so is q, which lies between
            if more * (r / p) > LARGE:
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
