"""Monte Carlo errors that respect autocorrelation, and levels for families of tests."""

from __future__ import annotations

import numpy as np
from scipy import stats

# Chance that a correct sampler fails one of the fast suite's five parts (Geweke, exact posteriors,
# prior recovery, permutations, calibration): with the single tests at 1e-6 each, of which there
# are about 150, the whole stays below one in a thousand. The full suite spends one in a hundred
# on each of its parts.
FAST_LEVEL = 1e-4
FULL_LEVEL = 1e-2

N_BATCHES = 32


def batch_error(x: np.ndarray, n_batches: int = N_BATCHES) -> np.ndarray:
    """Standard error of the mean over the first axis from means of consecutive batches."""
    size = x.shape[0] // n_batches
    means = x[: size * n_batches].reshape(n_batches, size, *x.shape[1:]).mean(axis=1)
    return means.std(axis=0, ddof=1) / np.sqrt(n_batches)


def effective_size(x: np.ndarray) -> float:
    """Effective number of independent draws in one chain: Geyer's initial monotone sequence."""
    x = np.asarray(x, float) - np.mean(x)
    n = x.size
    variance = float(x @ x) / n
    if variance == 0.0:
        return float(n)
    spectrum = np.abs(np.fft.rfft(x, 2 * n)) ** 2
    correlation = np.fft.irfft(spectrum)[:n] / (n * variance)
    pairs = correlation[: n // 2 * 2].reshape(-1, 2).sum(axis=1)
    negative = np.flatnonzero(pairs <= 0.0)
    stop = negative[0] if negative.size else pairs.size
    total = 2.0 * np.minimum.accumulate(pairs[:stop]).sum() - 1.0
    return n / max(total, 1.0 / n)


def chain_error(x: np.ndarray) -> float:
    """Standard error of a chain's mean: the larger of batch means and effective size."""
    by_size = np.std(x) / np.sqrt(effective_size(x))
    return float(max(by_size, batch_error(x)))


def t_threshold(n_tests: int, level: float, freedom: int = N_BATCHES - 1) -> float:
    """Two-sided threshold for the largest of ``n_tests`` statistics with t errors (Bonferroni)."""
    return float(stats.t.isf(level / (2.0 * n_tests), freedom))


def thin_to_independence(x: np.ndarray) -> np.ndarray:
    """Keep every j-th draw, j three times the autocorrelation time."""
    step = int(np.ceil(3.0 * x.size / effective_size(x)))
    return x[::step]
