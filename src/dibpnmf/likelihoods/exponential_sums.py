"""Σ log(b + v x) and Σ y/(b + v x) over a support, with one logarithm for many cells."""

from __future__ import annotations

import math

import numpy as np

from dibpnmf._compile import inlined, part, reassociated
from dibpnmf.likelihoods.base import Floats
from dibpnmf.likelihoods.lists import filled
from dibpnmf.likelihoods.supports import BASE, BLOCK, HIT_BASE, HIT_LOAD, HIT_VALUE, LOAD, padded

SMALL, LARGE = 1e-120, 1e120  # of a product: ratios and a few factors more are still floats
STRETCH = 128  # stored cells that are summed up and multiplied in one go


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
        if SMALL < p < LARGE:
            product *= p
            if not SMALL < product < LARGE:
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


@part
def log_stretch(lines: Floats, v: float, start: int, stop: int) -> float:
    """Σ log(b + v x) over a stretch of stored cells whose product leaves the range of floats."""
    total = 0.0
    for at in range(start, stop, BLOCK):
        n = min(BLOCK, stop - at)
        p = _product(lines, HIT_BASE, HIT_LOAD, v, np.uint64(at), np.uint64(n))
        if SMALL < p < LARGE:
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
    for start in range(0, c, STRETCH):
        n = min(filled(c) - start, STRETCH)
        p, r, first, second = _stretch(lines, v, np.uint64(start), np.uint64(n))
        ratios += r
        slope += first
        bend += second
        if SMALL < p < LARGE:
            product *= p
            if not SMALL < product < LARGE:
                logs += math.log(product)
                product = 1.0
        else:
            logs += log_stretch(lines, v, start, min(start + STRETCH, c))
    return logs + ratios, product, slope, bend


@reassociated
def sum_ratio(lines: Floats, v: float, c: int) -> float:
    """Return Σ_j y_j / (b_j + v x_j) over the stored cells of a support."""
    total = 0.0
    for j in range(np.uint64(c)):
        total += lines[HIT_VALUE, j] / (lines[HIT_BASE, j] + v * lines[HIT_LOAD, j])
    return total


@part
def support_log_likelihood(lines: Floats, m: int, c: int, v: float) -> float:
    """Log likelihood of a support, padded to whole blocks, at loading v, Eq. (19)."""
    if c == m:
        rest, product, _slope, _bend = stored_sums(lines, v, c)
        return -rest - math.log(product)
    return -sum_log(lines, BASE, LOAD, v, padded(m)) - sum_ratio(lines, v, c)
