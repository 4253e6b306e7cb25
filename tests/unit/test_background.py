"""The background rate ε that is estimated before any chain."""

from __future__ import annotations

import numpy as np
import pytest

from dibpnmf import DIBPNMF
from dibpnmf.datasets import make_binary, make_planted
from dibpnmf.inference.background import background_rate
from dibpnmf.observations import Observations

RATE = 0.02
NOISE = {
    "exponential": lambda rng, mean: rng.exponential(mean),
    "gaussian": lambda rng, mean: np.maximum(rng.normal(mean, 0.004), 0.0),
}


def sparse_factors(seed, noise):
    """Data of three factors that leave most of the matrix to the background."""
    rng = np.random.default_rng(seed)
    sides = [rng.exponential(1.0, (n, 3)) * (rng.random((n, 3)) < 0.3) for n in (100, 80)]
    return NOISE[noise](rng, sides[0] @ sides[1].T + RATE)


def fitted(Y, **params):
    few = {"n_warmup": 2, "n_draws": 2, "n_chains": 1, "random_state": 0, "progress": False}
    with pytest.warns():  # so few draws
        return DIBPNMF(**few | params).fit(Y)


@pytest.mark.parametrize("noise", sorted(NOISE))
@pytest.mark.parametrize("seed", range(3))
def test_it_is_found_by_the_pilot_chain(noise, seed):
    found = fitted(sparse_factors(seed, noise), likelihood=noise).epsilon_
    assert found == pytest.approx(RATE, rel=0.15)


@pytest.mark.parametrize("seed", range(3))
def test_counts_are_left_to_the_quick_factorization(seed):
    Y = make_planted(noise="poisson", random_state=seed).data  # with a background of 0.05
    found = fitted(Y, likelihood="poisson").epsilon_
    assert found == pytest.approx(0.05, rel=0.3)
    observations = Observations.from_matrix(Y)
    assert found == background_rate(observations, fitted_seed()) * observations.scale


@pytest.mark.parametrize("seed", range(3))
def test_a_quick_factorization_alone_finds_several_times_as_much(seed):
    observations = Observations.from_matrix(sparse_factors(seed, "exponential"))
    assert background_rate(observations, 0) * observations.scale > 2.0 * RATE


def test_with_missing_cells():
    Y = sparse_factors(0, "exponential")
    Y[np.random.default_rng(1).random(Y.shape) < 0.3] = np.nan
    assert fitted(Y).epsilon_ == pytest.approx(RATE, rel=0.15)


def test_zeros_that_cannot_be_do_not_take_it_to_nothing():
    Y = np.where(np.random.default_rng(0).random((150, 120)) < 0.1, 1.0, 0.0)
    observations = Observations.from_matrix(Y)
    assert fitted(Y).epsilon_ == background_rate(observations, fitted_seed()) * observations.scale


def fitted_seed():
    """Seed of the run that random_state=0 makes."""
    return int(np.random.RandomState(0).randint(0, 2**31 - 1))


def test_a_number_that_is_given_is_kept():
    Y = sparse_factors(0, "exponential")
    assert fitted(Y, epsilon=0.5).epsilon_ == pytest.approx(0.5 * Y.mean())


@pytest.mark.parametrize("params", [{"n_jobs": 2}, {"executor": "serial"}])
def test_it_does_not_depend_on_threads(params):
    Y = sparse_factors(0, "exponential")
    assert fitted(Y, **params).epsilon_ == fitted(Y).epsilon_


def test_matrices_that_factors_cover_whole_have_some():
    assert 0.0 < fitted(make_binary(random_state=0) + 1.0, likelihood="gaussian").epsilon_ <= 2.0
