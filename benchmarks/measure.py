"""Timing side by side: interleaved repeats, medians and spread of the ratio."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import NamedTuple

import numpy as np


class Row(NamedTuple):
    """One line of the table: a ratio, what it compares, and the bar it should reach."""

    what: str
    compared_with: str
    ratio: float
    low: float
    high: float
    bar: str
    reached: bool
    note: str = ""


Clock = Callable[[], float]


def seconds(function: Callable[[], object], clock: Clock = time.perf_counter) -> float:
    """Seconds by the clock on the wall, or by another such as that of this thread's processor."""
    start = clock()
    function()
    return clock() - start


def ratios(
    ours: Callable[[], object],
    theirs: Callable[[], object],
    repeats: int,
    clock: Clock = time.perf_counter,
) -> np.ndarray:
    """Ours over theirs, run in turn so that noise of the machine meets both."""
    ours(), theirs()  # compile and warm caches
    return np.array([seconds(ours, clock) / seconds(theirs, clock) for _ in range(repeats)])


def row(what: str, other: str, values: np.ndarray, bar: str, reached, note: str = "") -> Row:
    low, middle, high = np.quantile(values, [0.1, 0.5, 0.9])
    return Row(
        what, other, float(middle), float(low), float(high), bar, bool(reached(middle)), note
    )
