"""Points and intervals of the posterior predictive distribution, under every likelihood."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from dibpnmf import DIBPNMF
from dibpnmf.datasets import make_planted
from dibpnmf.likelihoods import LIKELIHOODS, Exponential, Gaussian, Poisson
from dibpnmf.prediction import level_mean, level_quantile, predictive_quantile

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")

SIMULATE = {
    "exponential": lambda rng, mean: rng.exponential(mean),
    "gaussian": lambda rng, mean: np.maximum(rng.normal(mean, 0.3), 0.0),
    # Large counts: an interval of small ones, whole numbers, covers more than it says.
    "poisson": lambda rng, mean: rng.poisson(100.0 * mean).astype(float),
}


def held_out(name: str, seed: int):
    """A model fitted to three fifths of simulated cells, and the others."""
    rng = np.random.default_rng(seed)
    mean = make_planted(50, 40, 2, noise="none", background=1.0, random_state=seed).mean
    Y = SIMULATE[name](rng, mean)
    held = rng.random(Y.shape) < 0.4
    epsilon = float(mean.min() / mean.mean())  # the planted background
    model = DIBPNMF(
        likelihood=name, epsilon=epsilon, n_warmup=80, n_draws=50, n_chains=2, random_state=seed
    )
    model.fit(np.where(held, np.nan, Y))
    rows, columns = np.nonzero(held)
    return model, rows, columns, Y[held]


@pytest.mark.parametrize("name", LIKELIHOODS)
def test_intervals_cover_what_they_say(name):
    inside, median_error, mean_error = [], [], []
    for seed in range(3):
        model, rows, columns, y = held_out(name, seed)
        median, lower, upper = model.predict(rows, columns, interval=0.9, point="median")
        inside.append((lower <= y) & (y <= upper))
        assert np.all((lower <= median) & (median <= upper))
        median_error.append(np.abs(median - y))
        mean_error.append(np.abs(model.predict(rows, columns) - y))
        if name == "poisson":
            np.testing.assert_array_equal(np.stack([lower, median]) % 1.0, 0.0)
    assert 0.88 <= np.mean(np.concatenate(inside)) <= 0.92
    # The median has the smaller absolute error; where noise is symmetric they are about equal.
    assert np.mean(np.concatenate(median_error)) < 1.01 * np.mean(np.concatenate(mean_error))


def test_levels():
    """Only levels come out, and they are where the plain median is nearest."""
    rng = np.random.default_rng(0)
    mean = make_planted(40, 30, 3, noise="none", background=1.0, random_state=0).mean
    ratings = np.clip(np.rint(rng.normal(mean, 0.5)), 1.0, 5.0)
    held = rng.random(ratings.shape) < 0.2
    model = DIBPNMF(likelihood="gaussian", n_warmup=50, n_draws=40, n_chains=2, random_state=0)
    model.fit(np.where(held, np.nan, ratings))
    cells = np.nonzero(held)
    levels = [5, 1, 2, 3, 4]
    median, lower, upper = model.predict(*cells, point="median", levels=levels, interval=0.8)
    assert set(np.concatenate([median, lower, upper])) <= set(levels)
    assert np.all((lower <= median) & (median <= upper))
    plain = np.clip(np.rint(model.predict(*cells, point="median")), 1.0, 5.0)
    np.testing.assert_array_equal(median, plain)
    average = model.predict(*cells, levels=levels)
    assert np.all((average >= 1.0) & (average <= 5.0))
    # The mean of the nearest level is the mean of λ, but for rounding and the ends.
    assert np.mean(np.abs(average - np.clip(model.predict(*cells), 1.0, 5.0))) < 0.1


def test_distribution_on_levels():
    levels = np.array([1.0, 2.0, 5.0])
    cumulative = np.cumsum([[0.2, 0.5], [0.5, 0.1], [0.3, 0.4]], axis=0)
    np.testing.assert_allclose(level_mean(cumulative, levels), [2.7, 2.7])
    np.testing.assert_array_equal(level_quantile(cumulative, levels, 0.5), [2.0, 1.0])
    np.testing.assert_array_equal(level_quantile(cumulative, levels, 0.65), [2.0, 5.0])


@pytest.mark.parametrize("q", [0.05, 0.5, 0.95])
def test_quantiles_of_one_component(q):
    """A mixture of one: the quantiles are scipy's, and never below zero."""
    mean = np.array([[0.3, 2.0, 40.0]])
    cases = [
        (Exponential(), stats.expon(scale=mean[0])),
        (Gaussian(4.0), stats.norm(mean[0], 0.5)),
        (Poisson(), stats.poisson(mean[0])),
    ]
    for likelihood, reference in cases:
        got = likelihood.possible(predictive_quantile(likelihood, mean, q))
        expected = np.maximum(reference.ppf(q), 0.0)
        np.testing.assert_allclose(got, expected, rtol=1e-8, atol=1e-12)


def test_wrong_points_and_levels():
    model, *_ = held_out("gaussian", 0)
    with pytest.raises(ValueError, match="point must be one of 'mean', 'median'; got 'mode'"):
        model.predict(0, 0, point="mode")
    for levels in ([], [3], [1, np.nan], [-1, 1], "abc"):
        with pytest.raises(ValueError, match="levels must be at least two"):
            model.predict(0, 0, levels=levels)
    with pytest.raises(ValueError, match="go with rows and cols"):
        model.predict(np.ones((2, 40)), point="median")
