"""The estimator under every likelihood: what is fitted, refused and doubted."""

from __future__ import annotations

import re
import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from scipy import stats

from dibpnmf import DIBPNMF
from dibpnmf.datasets import make_planted
from dibpnmf.diagnostics import LikelihoodWarning
from dibpnmf.likelihoods import LIKELIHOODS

SHORT = {"n_warmup": 40, "n_draws": 30, "n_chains": 2, "random_state": 0, "n_components": 4}

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")


@pytest.fixture(scope="module")
def planted():
    return {name: make_planted(40, 30, 3, noise=name, random_state=1).data for name in LIKELIHOODS}


@pytest.fixture(scope="module")
def fitted(planted):
    """A model of each likelihood on data of its own kind, with a third of the cells missing."""
    rng = np.random.default_rng(0)
    models = {}
    for name, Y in planted.items():
        held = rng.random(Y.shape) < 0.3
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model = DIBPNMF(likelihood=name, **SHORT).fit(np.where(held, np.nan, Y))
        models[name] = model, Y, held
    return models


def density(name: str, Y, mean, kappa):
    """Log density in the units of Y, from scipy."""
    if name == "gaussian":
        return stats.norm(mean, 1.0 / np.sqrt(kappa)).logpdf(Y)
    return (
        stats.expon(scale=mean).logpdf(Y)
        if name == "exponential"
        else stats.poisson(mean).logpmf(Y)
    )


def draws_of(model):
    """A, X and κ (in the units of Y; 1 where there is none) of every draw."""
    posterior = model.posterior_["posterior"]
    A, X = (posterior[side].values for side in "AX")
    kappa = posterior["kappa"].values if "kappa" in posterior else np.ones(A.shape[:2])
    return A, X, kappa / model.posterior_["observed_data"].attrs["mean"] ** 2


@pytest.mark.parametrize("name", LIKELIHOODS)
def test_log_likelihood_is_in_the_units_of_the_data(fitted, name):
    """Also where the data are scaled by their mean inside: counts stay counts."""
    model, Y, held = fitted[name]
    A, X, kappa = draws_of(model)
    for at in np.ndindex(A.shape[:2]):
        mean = A[at] @ X[at].T + model.epsilon_
        expected = density(name, Y, mean, kappa[at])[~held].sum()
        got = model.posterior_["sample_stats"]["log_likelihood"].values[at]
        assert got == pytest.approx(expected, rel=1e-8)


@pytest.mark.parametrize("name", LIKELIHOODS)
def test_score_of_held_out_cells(fitted, name):
    model, Y, held = fitted[name]
    A, X, kappa = draws_of(model)
    p = [
        np.exp(density(name, Y, A[at] @ X[at].T + model.epsilon_, kappa[at]))[held]
        for at in np.ndindex(A.shape[:2])
    ]
    expected = np.mean(np.log(np.mean(p, axis=0)))
    assert model.score(np.where(held, Y, np.nan)) == pytest.approx(expected, rel=1e-8)


@pytest.mark.parametrize("name", LIKELIHOODS)
def test_new_rows(fitted, name):
    model, Y, _ = fitted[name]
    embedded = model.transform(Y[:5])
    assert embedded.shape == (5, 4)
    np.testing.assert_allclose(
        model.predict(Y[:5]), embedded @ model.components_ + model.epsilon_, rtol=1e-12
    )
    # Rows of the fitted kind are likelier than rows in another order.
    shuffled = np.random.default_rng(3).permuted(Y, axis=1)
    assert model.score(Y) > model.score(shuffled)


@pytest.mark.parametrize("name", LIKELIHOODS)
def test_units_of_the_data_do_not_matter(planted, name):
    """Measurements times ten have the factors times ten; ten times the counts are other data."""
    if name == "poisson":
        return
    Y = planted[name]
    one, ten = (DIBPNMF(likelihood=name, **SHORT).fit(c * Y) for c in (1.0, 8.0))
    np.testing.assert_allclose(ten.components_, 8.0 * one.components_, rtol=1e-6)
    np.testing.assert_allclose(ten.embedding_, one.embedding_, rtol=1e-6)


def test_only_the_gaussian_learns_a_precision(fitted):
    for name, (model, _, _) in fitted.items():
        assert ("kappa" in model.posterior_["sample_stats"]) == (name == "gaussian")
        assert ("kappa" in model.diagnostics_["r_hat"]) == (name == "gaussian")
    model, _, _ = fitted["gaussian"]
    # The planted noise is 0.1, cut off at zero.
    assert 0.05 < np.mean(draws_of(model)[2]) ** -0.5 < 0.15


@pytest.mark.parametrize("sparse", [False, True])
def test_poisson_refuses_fractions(fitted, sparse):
    Y = np.array([[1.0, 2.0], [0.0, 2.5]])
    given = sp.csr_array(Y) if sparse else Y
    with pytest.raises(ValueError, match=r"whole numbers.*such as 2\.5.*'gaussian'"):
        DIBPNMF(likelihood="poisson").fit(given)
    model, counts, _ = fitted["poisson"]
    with pytest.raises(ValueError, match="whole numbers"):
        model.transform(counts[:2] + 0.5)


def doubts(likelihood: str, Y) -> str:
    short = SHORT | {"n_warmup": 2, "n_draws": 4, "n_chains": 1}
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        DIBPNMF(likelihood=likelihood, zeros="missing", **short).fit(Y)
    return " ".join(str(w.message) for w in caught if w.category is LikelihoodWarning)


RATINGS = np.random.default_rng(0).choice(
    [1.0, 2.0, 3.0, 4.0, 5.0], (30, 20), p=[0.05, 0.1, 0.3, 0.35, 0.2]
)
TEXT = (np.random.default_rng(0).random((30, 20)) < 0.1).astype(float)


@pytest.mark.parametrize(
    ("likelihood", "Y", "words"),
    [
        ("exponential", TEXT, "exactly zero.*'poisson'"),
        ("exponential", RATINGS, "scatter by 29%.*'gaussian'"),
        ("gaussian", TEXT, "whole numbers, most of them zero.*'poisson'"),
        ("poisson", RATINGS, "variance is 0.3 times their mean.*'gaussian'"),
    ],
)
def test_data_that_contradict_the_likelihood(likelihood, Y, words):
    assert re.search(words, doubts(likelihood, Y))


@pytest.mark.parametrize("name", LIKELIHOODS)
def test_no_doubts_about_data_of_the_right_kind(planted, name):
    assert "likelihood=" not in doubts(name, planted[name])
    if name == "poisson":
        assert "likelihood=" not in doubts(name, TEXT)
    if name == "gaussian":
        assert "likelihood=" not in doubts(name, RATINGS)
