"""Planted truth: the number of factors and the factors themselves are found."""

from __future__ import annotations

import pytest

from dibpnmf.likelihoods import LIKELIHOODS
from dibpnmf.priors import PRIORS
from tests.statistical.planted import N_SEEDS, SIZES, case, is_found, recover


@pytest.mark.parametrize("prior", PRIORS)
def test_planted_factors_are_found(prior):
    found = [recover("exponential", prior, SIZES[0], seed, n_draws=60) for seed in (0, 1)]
    assert [K for K, _ in found] == [5, 5]
    assert min(cosine for _, cosine in found) > 0.9


@pytest.mark.slow
@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("prior", PRIORS)
@pytest.mark.parametrize("likelihood", LIKELIHOODS)
def test_planted_factors_are_found_for_nine_seeds_of_ten(likelihood, prior, size):
    line = case(likelihood, prior, size, N_SEEDS)
    print(f"\n{likelihood} {prior} {size}: {line}")
    assert is_found(line)
