"""Planted truth: the number of factors and the factors themselves are found."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import linear_sum_assignment

from dibpnmf import DIBPNMF
from dibpnmf.datasets import make_planted
from dibpnmf.priors import PRIORS

SIZES = [(100, 80, 5), (200, 150, 8)]


def worst_cosine(data, model) -> float:
    """Smallest cosine, over both sides, of the true factors with those found."""
    if model.n_components_ < data.A.shape[1]:
        return 0.0

    def cosines(truth, found):
        unit = [side / np.linalg.norm(side, axis=0) for side in (truth, found)]
        return unit[0].T @ unit[1]

    both = np.minimum(cosines(data.A, model.embedding_), cosines(data.X, model.components_.T))
    return float(both[linear_sum_assignment(-both)].min())


def recover(prior: str, size: tuple[int, int, int], seed: int, **params: int):
    """Whether the effective K is the planted one, and the worst cosine."""
    data = make_planted(*size, density=0.3, noise="exponential", random_state=seed)
    model = DIBPNMF(prior, random_state=seed, **params).fit(data.data)
    return model.n_components_ == size[2], worst_cosine(data, model)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("prior", PRIORS)
def test_planted_factors_are_found(prior):
    found = [
        recover(prior, SIZES[0], seed, n_warmup=100, n_draws=60, n_chains=2) for seed in (0, 1)
    ]
    assert all(is_exact for is_exact, _ in found)
    assert min(cosine for _, cosine in found) > 0.9


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("prior", PRIORS)
def test_planted_factors_are_found_for_nine_seeds_of_ten(prior, size):
    short = {"n_warmup": 200, "n_draws": 200, "n_chains": 2}
    found = [recover(prior, size, seed, **short) for seed in range(10)]
    print(f"\n{prior} {size}: {[(bool(exact), round(cosine, 3)) for exact, cosine in found]}")
    assert sum(is_exact and cosine > 0.9 for is_exact, cosine in found) >= 9
