"""Consensus clusters: planted groups are found, and how many there are."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.metrics import adjusted_rand_score

from dibpnmf import DIBPNMF
from dibpnmf.clustering import consensus, eigengap

SIZES = (30, 12, 8)


def blocks(noise: float, sizes=SIZES) -> tuple[np.ndarray, np.ndarray]:
    """A similarity with planted groups of unequal size, and their labels."""
    truth = np.repeat(np.arange(len(sizes)), sizes)
    rng = np.random.default_rng(0)
    weak = rng.random((truth.size, truth.size)) * noise
    S = np.where(truth[:, None] == truth, 0.6, 0.0) + (weak + weak.T) / 2.0
    np.fill_diagonal(S, 1.0)
    return S, truth


@pytest.mark.parametrize("uneven", [True, False])
@pytest.mark.parametrize("n_clusters", [None, 3])
def test_planted_groups(n_clusters, uneven):
    S, truth = blocks(0.2)
    labels = consensus(S, n_clusters, seed=0, uneven=uneven)
    np.testing.assert_array_equal(labels, truth)  # the largest is 0


@pytest.mark.parametrize("uneven", [True, False])
def test_rows_without_neighbours(uneven):
    """Rows like no other row still get a label, and do not break the groups of the others."""
    S, truth = blocks(0.0)
    S[-1, :-1] = S[:-1, -1] = 0.0
    labels = consensus(S, 4, seed=0, uneven=uneven)
    assert adjusted_rand_score(truth[:-1], labels[:-1]) == 1.0


def test_eigengap():
    assert eigengap(np.array([0.9, 0.85, 0.3, 0.2])) == 3
    assert eigengap(np.array([0.2, 0.1])) == 2
    assert eigengap(np.array([0.2])) == 2


def test_two_groups_and_a_single_row():
    """Groups that nothing connects: all eigenvectors of eigenvalue 1 serve as well as others."""
    S, truth = blocks(0.0, (9, 5))
    np.testing.assert_array_equal(consensus(S, 2, seed=0), truth)
    np.testing.assert_array_equal(consensus(S, None, seed=0), truth)
    np.testing.assert_array_equal(consensus(np.ones((1, 1)), None, seed=0), [0])
    assert set(consensus(np.eye(2), 2, seed=0)) == {0, 1}


@pytest.mark.filterwarnings("ignore")
def test_clusters_of_a_fit():
    truth = np.repeat([0, 1, 2], [14, 10, 6])
    rng = np.random.default_rng(0)
    Y = rng.poisson(np.eye(3)[truth] @ np.kron(np.eye(3), np.full(6, 5.0)) + 0.1).astype(float)
    model = DIBPNMF(likelihood="poisson", n_warmup=60, n_draws=30, n_chains=2, random_state=0)
    model.fit(Y)
    for n_clusters in (None, 3):
        np.testing.assert_array_equal(model.consensus_clusters(n_clusters), truth)
        np.testing.assert_array_equal(model.consensus_clusters(n_clusters, Y=Y), truth)
    assert set(model.consensus_clusters(1)) == {0}
    with pytest.raises(ValueError, match="at most the number of rows, 30; got 31"):
        model.consensus_clusters(31)
    with pytest.raises(TypeError, match="n_clusters must be an integer"):
        model.consensus_clusters(2.5)


@pytest.mark.filterwarnings("ignore")
def test_rows_of_the_background_are_one_cluster():
    truth = np.repeat([0, 1, 2, 3], [30, 30, 30, 20])
    rng = np.random.default_rng(0)
    A = (truth[:, None] == np.arange(3)) * rng.gamma(5.0, 0.4, (truth.size, 3))
    X = (np.arange(40)[:, None] // 13 == np.arange(3)) * rng.gamma(5.0, 0.4, (40, 3))
    Y = rng.exponential(A @ X.T + 0.02)
    model = DIBPNMF(random_state=0, n_warmup=100, n_draws=50, n_chains=2).fit(Y)
    assert adjusted_rand_score(truth, model.consensus_clusters()) > 0.95
