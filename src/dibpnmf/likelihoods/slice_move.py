"""Move one loading by slice sampling, whatever the likelihood."""

from __future__ import annotations

import math

from dibpnmf._compile import part
from dibpnmf.likelihoods.lists import Floats
from dibpnmf.likelihoods.rows import log_ratio
from dibpnmf.likelihoods.supports import Entry
from dibpnmf.loadings.base import SMALLEST, Slab
from dibpnmf.random import Stream, exponential, uniform


@part
def _loading_log_density(lik, support: Floats, m: int, c: int, slab: Slab, x: float):  # type: ignore[no-untyped-def]
    """Log density of x = log v given z = 1, Eq. (21) with the Jacobian, up to a constant.

    Not less the level without the entry: where that is −10²⁰, nothing else would be left.
    """
    v = math.exp(x)
    return x - v * (slab.rate + 0.5 * slab.curve * v) + log_ratio(lik, support, m, c, 0.0, v)


@part
def slice_loading(  # type: ignore[no-untyped-def]
    lik, entry: Entry, v: float, slab: Slab, width: float, steps: int, s: Stream
) -> float:
    """Move v by slice sampling in log v from f(v) Π p(y | b + v x), Eq. (21).

    An interval of the given width is placed at random and stepped out, ``steps`` times at most on
    either side. Without any it is exact too, costs less, and moves log v by no more than its width.
    """
    support, m, c = entry.support, entry.m, entry.c
    x = math.log(v)
    height = _loading_log_density(lik, support, m, c, slab, x) - exponential(s)
    left = x - width * uniform(s)
    right = left + width
    for _ in range(steps):
        if _loading_log_density(lik, support, m, c, slab, left) <= height:
            break
        left -= width
    for _ in range(steps):
        if _loading_log_density(lik, support, m, c, slab, right) <= height:
            break
        right += width
    while True:
        trial = left + uniform(s) * (right - left)
        inside = _loading_log_density(lik, support, m, c, slab, trial) > height
        if inside or right - left < 1e-13 * (1.0 + 4.0 * abs(x)):  # some floats apart
            return max(math.exp(trial), SMALLEST)
        if trial < x:
            left = trial
        else:
            right = trial
