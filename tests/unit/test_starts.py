"""Starts of chains: the trivial factorization is exact, and is chosen where it should be."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

from dibpnmf import DIBPNMF
from dibpnmf.inference.executors import Serial, Threads
from dibpnmf.inference.starts import best_start, trivial_factorization
from dibpnmf.likelihoods import LIKELIHOODS
from dibpnmf.observations import Observations
from dibpnmf.sampling import beginning_of


@pytest.mark.parametrize("shape", [(6, 9), (9, 6), (5, 5), (1, 4)])
@pytest.mark.parametrize("zeros", ["observed", "missing"])
def test_trivial_factorization_is_the_matrix(shape, zeros):
    rng = np.random.default_rng(0)
    Y = (rng.random(shape) < 0.6) * 2.0
    Y[0, 0] = 2.0
    observations = Observations.from_matrix(sp.csr_array(Y), zeros)
    A, X = trivial_factorization(observations, Serial())
    assert A.shape[1] == min(shape)
    np.testing.assert_allclose(A @ X.T * observations.scale, Y)
    pool = Threads(2, block_size=2)
    again = trivial_factorization(observations, pool)
    pool.close()
    np.testing.assert_array_equal(again[0], A)
    np.testing.assert_array_equal(again[1], X)


def test_it_is_for_small_matrices_and_needless_factors_that_go():
    start = {name: best_start((20, 400), kind()) for name, kind in LIKELIHOODS.items()}
    assert start == {"exponential": ("trivial", 20), "gaussian": ("nmf", 7), "poisson": ("nmf", 7)}
    assert best_start((31, 31), LIKELIHOODS["exponential"]())[0] == "nmf"


@pytest.mark.parametrize(
    ("params", "expected"),
    [
        ({}, ("trivial", 60, 100)),
        ({"max_components": 20}, ("trivial", 20, 20)),
        ({"max_components": 19}, ("nmf", 19, 19)),
        ({"n_components": 5}, ("nmf", 5, 5)),
    ],
)
def test_it_needs_room(params, expected):
    likelihood = LIKELIHOODS["exponential"]()
    assert beginning_of(DIBPNMF(**params), (20, 30), likelihood) == expected
