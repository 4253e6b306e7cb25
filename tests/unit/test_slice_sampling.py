"""Slice sampling leaves its target alone, with bounds, without, and at the width's extremes."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import pytest
from numba import njit
from scipy import stats

from dibpnmf import random as streams
from dibpnmf.slice_sampling import implements_log_density
from dibpnmf.slice_sampling import slice_sample as cached_slice_sample

# Without the disk cache: it must not hold types of a test, which no other process can import.
slice_sample = njit(cached_slice_sample.py_func)


class TwoPeaks(NamedTuple):
    """Half a narrow normal at −2, half a wide one at 3."""

    gap: float


@implements_log_density(TwoPeaks)
def _two_peaks(target, x):
    left = 0.5 * math.exp(-0.5 * ((x + 2.0) / 0.5) ** 2) / 0.5
    right = 0.5 * math.exp(-0.5 * ((x - target.gap) / 2.0) ** 2) / 2.0
    return math.log(left + right + 1e-300)


class Nowhere(NamedTuple):
    """A target whose density is zero at the present point."""

    unused: float


@implements_log_density(Nowhere)
def _nowhere(target, x):
    return -math.inf


def cdf(x: np.ndarray, low: float, high: float) -> np.ndarray:
    def free(z):
        return 0.5 * stats.norm.cdf(z, -2.0, 0.5) + 0.5 * stats.norm.cdf(z, 3.0, 2.0)

    return (free(x) - free(low)) / (free(high) - free(low))


@njit
def chain(s, target, start, low, high, width, n, out):
    x = start
    for i in range(n):
        x = slice_sample(s, target, x, low, high, width)
        out[i] = x


@pytest.mark.parametrize(
    ("low", "high", "width"),
    [
        (-math.inf, math.inf, 0.05),
        (-math.inf, math.inf, 1.0),
        (-math.inf, math.inf, 30.0),
        (-2.5, 4.0, 1.0),
        (-2.5, 4.0, math.inf),
        (-math.inf, 0.0, 2.0),
    ],
)
def test_invariant_distribution(low, high, width):
    draws = np.empty(400_000)
    chain(streams.stream(5, 0, 0, 0), TwoPeaks(3.0), -1.0, low, high, width, draws.size, draws)
    assert np.all((draws >= low) & (draws <= high))
    # Means of 64 long stretches of four indicator functions; six tests of four at 1e-6 each.
    for point in (-2.2, -1.5, -0.5, 2.0):
        means = (draws < point).reshape(64, -1).mean(axis=1)
        error = means.std(ddof=1) / 8.0
        expected = cdf(np.array(point), low, high) if point < high else 1.0
        assert abs(means.mean() - expected) <= stats.t.isf(5e-7, 63) * error


def test_point_outside_the_support_stays():
    s = streams.stream(5, 0, 0, 0)
    assert slice_sample(s, Nowhere(0.0), 1.25, -math.inf, math.inf, 1.0) == 1.25
