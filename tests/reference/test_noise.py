"""A likelihood's own parameters and units: κ of the Gaussian, the scale of Poisson counts."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from dibpnmf.likelihoods import LIKELIHOODS, Gaussian, Poisson
from dibpnmf.likelihoods.base import draw_noise, kernel_at
from dibpnmf.likelihoods.rows import draw_entry, log_ratio, row_log_likelihood
from dibpnmf.likelihoods.supports import Entry
from dibpnmf.loadings.base import Slab
from dibpnmf.random import NOISE, stream

from . import formulas
from .problems import SMALL, opened, taken

FIXED = settings(derandomize=True, deadline=None, max_examples=40)
P_VALUE = 1e-6


@pytest.mark.parametrize("kappa", [1e-4, 0.7, 300.0])
@pytest.mark.parametrize("n", [0, 5, 400])
def test_precision_given_the_mean(kappa, n):
    """Eq. (30), whatever the present κ through which the squares are read."""
    rng = np.random.default_rng(n)
    y, mean = rng.normal(size=n), rng.exponential(size=n)
    log_likelihood = float(np.sum(formulas.gaussian_log_density(y, mean, kappa)))
    kernel = Gaussian(kappa).kernel(0.1)
    s = stream(5, 0, 0, NOISE)
    draws = [draw_noise(kernel, s, n, log_likelihood)[0] for _ in range(10_000)]
    rate = 1.0 + 0.5 * np.sum((y - mean) ** 2)
    assert stats.kstest(draws, stats.gamma(1.0 + 0.5 * n, scale=1.0 / rate).cdf).pvalue > P_VALUE


def test_precision_from_its_prior():
    s = stream(5, 0, 0, NOISE)
    draws = np.array([Gaussian().draw_noise(s)[0] for _ in range(10_000)])
    assert stats.kstest(draws, stats.expon.cdf).pvalue > P_VALUE
    assert Gaussian().log_noise_density(np.array([1.7])) == pytest.approx(stats.expon.logpdf(1.7))


@FIXED
@given(small=SMALL, value=st.floats(1e-3, 1e3), v=st.floats(1e-3, 10.0))
def test_kernels_with_other_parameters(small, value, v):
    """Rows and entries at another κ or another unit than 1, against the page's formulas."""
    if small.likelihood.name == "exponential":
        return
    family = type(small.likelihood)(value)
    small = small._replace(likelihood=family)

    def log_density(y, mean):
        return formulas.LOG_DENSITIES[family.name](y, mean, value)

    mean = small.A @ small.X.T + small.epsilon
    expected = log_density(small.Y, mean)
    np.testing.assert_allclose(family.log_density(small.Y, mean), expected, rtol=1e-9, atol=1e-9)
    for i in range(small.A.shape[0]):
        row, _ = opened(small, i)
        got = row_log_likelihood(small.kernel, row, small.observations.is_complete, small.X)
        cells = small.observed[i]
        size = np.abs(expected[i][cells]).sum() + value * np.sum(small.Y[i] ** 2)
        assert got == pytest.approx(expected[i][cells].sum(), rel=1e-8, abs=1e-9 * (1.0 + size))
        entry, _, _ = taken(small, i, 0)
        gain = formulas.entry_log_ratio(
            log_density, small.Y, small.observed, small.A, small.X, small.epsilon, i, 0, v
        )
        ratio = log_ratio(small.kernel, entry.support, entry.m, entry.c, entry.level, v)
        assert ratio == pytest.approx(gain, rel=1e-7, abs=1e-8 * (1.0 + size))


def test_gaussian_entries_are_on_just_below_their_odds():
    """Eq. (29): whatever the bounds on the way decide, u on either side of p(z=1) tells."""
    rng, s = np.random.default_rng(0), stream(5, 0, 0, NOISE)
    for _ in range(4000):
        t, root, log_odds = rng.normal(scale=4.0), math.exp(rng.normal()), rng.normal(scale=4.0)
        rate = math.exp(rng.normal())
        kernel, slab = Gaussian(1.7).kernel(0.1), Slab(rate, 0.0, math.log(rate))
        support = np.array([[(t * root + rate) / 1.7, root**2 / 1.7, 0.0]])
        entry = Entry(support, np.empty((3, 1)), 1, 0, 0.0)
        log_mass = stats.norm.logcdf(t) - stats.norm.logpdf(t)
        p = stats.logistic.cdf(log_odds + math.log(rate / root) + log_mass)
        for u, is_on in ((p * (1.0 - 1e-6), True), (p + 1e-6 * (1.0 - p) * p, False)):
            if 0.0 < u < 1.0 - 1e-9:
                new, _ = draw_entry(kernel, entry, 0.0, log_odds, slab, True, u, s)
                assert (new > 0.0) == is_on


def test_counts_have_their_distribution_in_any_unit():
    """Poisson counts divided by u: probabilities, distribution function and draws."""
    counts = np.arange(40.0)
    for u in (1.0, 0.013, 7.3):
        family = Poisson().in_units_of(u)
        reference = stats.poisson(4.5)
        mean = np.full(counts.shape, 4.5 / u)
        np.testing.assert_allclose(
            family.log_density(counts / u, mean), reference.logpmf(counts), rtol=1e-9
        )
        np.testing.assert_allclose(family.cdf(counts / u, mean), reference.cdf(counts), rtol=1e-9)
        np.testing.assert_allclose(family.cdf((counts - 0.5) / u, mean), reference.cdf(counts - 1))
        draws = family.simulate(np.random.default_rng(1), np.full(20_000, 4.5 / u)) * u
        assert np.allclose(draws, np.rint(draws))
        error = math.sqrt(4.5 / draws.size)
        assert abs(draws.mean() - 4.5) < 5.0 * error


def test_distribution_functions_belong_to_their_densities():
    """For every likelihood: the share of simulated y below a point is the function there."""
    for name, family in LIKELIHOODS.items():
        y = family().simulate(np.random.default_rng(2), np.full(40_000, 1.3))
        for point in (0.0, 0.7, 1.0, 2.9):
            share = float(family().cdf(np.array([point]), np.array([1.3]))[0])
            assert np.mean(y <= point) == pytest.approx(share, abs=0.013), name


def test_only_the_gaussian_has_noise():
    for name, family in LIKELIHOODS.items():
        kernel = family().kernel(0.1)
        noise = family().draw_noise(stream(1, 0, 0, NOISE))
        assert noise.size == len(family.noise_names)
        changed = kernel_at(kernel, noise)
        assert (changed != kernel) == (name == "gaussian")
        assert draw_noise(kernel, stream(1, 0, 0, NOISE), 3, -4.0).size == noise.size
