"""No loading may sit in a tail of its conditional: slow mixing that no small test sees.

A sampler can be exact and yet leave a loading where it is for thousands of sweeps, because the
proposal hardly ever covers its place. On matrices of a dozen cells this never happens.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from dibpnmf.inference.executors import Serial
from dibpnmf.inference.gibbs import Problem, sweep_joint, update_side
from dibpnmf.inference.starts import start_state
from dibpnmf.likelihoods import LIKELIHOODS
from dibpnmf.likelihoods.rows import FRESH
from dibpnmf.model import Model
from dibpnmf.observations import Observations
from dibpnmf.priors import BivariateBeta

SHAPE, K = (300, 250), 8
N_WARMUP, N_SWEEPS = 5, 40


def sparse_data(rng: np.random.Generator) -> np.ndarray:
    """Mostly zeros, with ones where factors of different densities meet, like words in texts."""
    A, X = (rng.random((n, K)) < 0.2 for n in SHAPE)
    rate = 0.01 + A @ (X * rng.uniform(0.02, 0.4, size=K)).T
    return (rng.random(SHAPE) < rate).astype(float)


@pytest.mark.parametrize("local", [False, True])
@pytest.mark.parametrize("likelihood", sorted(LIKELIHOODS))
def test_every_loading_moves(likelihood, local):
    """By the moves of a chain's first sweeps, and by those of the others."""
    family, prior = LIKELIHOODS[likelihood](), BivariateBeta()
    data = Observations.from_matrix(sparse_data(np.random.default_rng(0)))
    problem = Problem(data, prior, family.kernel(0.3), 0, 0, Serial())
    state = start_state(problem, Model(prior, family, 0.3), 2 * K, "nmf")
    # As a chain finds them that has just been moved elsewhere: far too large, and far too small.
    state.loadings[0][:, 0] *= 30.0
    state.loadings[0][:, 1] /= 30.0
    for sweep in range(N_WARMUP):
        state, _ = sweep_joint(problem, state, sweep)
    # Scales and order of the columns stay from here on, so that only a draw changes a loading.
    log_odds = prior.log_odds(state.prior)
    slabs = problem.loadings.slabs(state.tau, state.K)
    still = [side > 0.0 for side in state.loadings]
    n_on = sum(side.sum() for side in still)
    for seed in range(N_SWEEPS):
        again = replace(problem, seed=seed)
        for t in range(2):
            before = state.loadings[t].copy()
            update_side(again, state, t, log_odds, slabs, FRESH + seed if local else 0)
            still[t] &= state.loadings[t] == before
    assert n_on > 1000
    assert sum(side.sum() for side in still) <= 0.001 * n_on
