"""The suite's own standard errors, on series whose variance is known."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import signal

from . import errors


def autoregressive(seed: int, n: int, phi: float, n_series: int) -> np.ndarray:
    """Stationary AR(1) series with unit innovations, one per column."""
    rng = np.random.default_rng(seed)
    noise = rng.normal(size=(n, n_series))
    noise[0] /= np.sqrt(1.0 - phi**2)
    return signal.lfilter([1.0], [1.0, -phi], noise, axis=0)


@pytest.mark.parametrize("phi", [0.0, 0.5, 0.9])
def test_errors_of_autocorrelated_means(phi):
    n = 16_000
    x = autoregressive(1, n, phi, 40)
    exact = 1.0 / ((1.0 - phi) * np.sqrt(n))
    # Each of the forty is good to a few percent, so their average is off by less than one in 20.
    assert errors.batch_error(x).mean() == pytest.approx(exact, rel=0.08)
    by_size = [np.std(column) / np.sqrt(errors.effective_size(column)) for column in x.T]
    assert np.mean(by_size) == pytest.approx(exact, rel=0.08)


def test_statistics_of_means_follow_t():
    """A nominal 1% test of a zero mean rejects about 1% of autocorrelated series."""
    x = autoregressive(2, 4_000, 0.8, 4_000)
    statistics = x.mean(axis=0) / errors.batch_error(x)
    rejected = np.mean(np.abs(statistics) > errors.t_threshold(1, 0.01))
    assert 0.004 < rejected < 0.02


def test_thinned_draws_are_nearly_independent():
    thinned = errors.thin_to_independence(autoregressive(3, 40_000, 0.8, 1)[:, 0])
    assert abs(np.corrcoef(thinned[1:], thinned[:-1])[0, 1]) < 0.1
