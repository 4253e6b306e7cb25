"""Merging doubled factors: the nearest single factor, when it is kept, and that it helps."""

from __future__ import annotations

import numpy as np
import pytest

from dibpnmf import DIBPNMF
from dibpnmf.datasets import make_planted
from dibpnmf.inference import merges
from dibpnmf.inference.executors import Serial
from dibpnmf.inference.gibbs import Info, Problem, State, sweep_joint
from dibpnmf.likelihoods import Gaussian
from dibpnmf.observations import Observations
from dibpnmf.priors import BivariateBeta


def grams_of(loadings):
    return tuple(side.T @ side for side in loadings)


def random_loadings(seed: int, K: int = 4):
    rng = np.random.default_rng(seed)
    return tuple(rng.exponential(size=(n, K)) * (rng.random((n, K)) < 0.7) for n in (9, 7))


@pytest.mark.parametrize("seed", range(5))
def test_distance_and_merged_column_are_those_of_the_singular_values(seed):
    A, X = random_loadings(seed)
    grams = grams_of((A, X))
    distances = merges._distances(grams)
    state = State((A, X), None, np.ones(2))
    for j in range(4):
        assert np.all(np.isinf(distances[j, : j + 1]))
        for k in range(j + 1, 4):
            both = A[:, [j, k]] @ X[:, [j, k]].T
            U, s, Vt = np.linalg.svd(both)
            lesser = min(np.sum(np.outer(A[:, c], X[:, c]) ** 2) for c in (j, k))
            assert distances[j, k] == pytest.approx(s[1] ** 2 / lesser, abs=1e-10)
            merged = merges.merge_columns(state, j, k, grams)
            a, x = (side[:, j] for side in merged.loadings)
            np.testing.assert_allclose(np.outer(a, x), s[0] * np.outer(U[:, 0], Vt[0]), atol=1e-10)
            assert all(np.all(side >= 0.0) for side in merged.loadings)
            assert not any(side[:, k].any() for side in merged.loadings)
    np.testing.assert_array_equal(A, random_loadings(seed)[0])  # a copy was merged


def test_columns_that_share_nothing_and_equal_ones():
    apart = np.eye(2)
    assert merges._distances((apart, apart))[0, 1] == pytest.approx(1.0)
    for weights in merges._weights(np.eye(2), np.eye(2)):
        assert np.isfinite(weights).all()
    same = np.ones((2, 2))
    assert merges._distances((same, same))[0, 1] == pytest.approx(0.0)
    np.testing.assert_allclose(np.outer(*merges._weights(same, same)).sum(), 2.0)


def planted_state(split: bool, seed: int = 0):
    """A problem at its true factors, or with the first of them divided in two."""
    data = make_planted(60, 50, 3, noise="gaussian", random_state=seed)
    observations = Observations.from_matrix(data.data)
    kernel = Gaussian(1.0 / (0.1 / observations.scale) ** 2).kernel(0.05 / observations.scale)
    prior = BivariateBeta()
    problem = Problem(observations, prior, kernel, 0, 0, Serial())
    A, X = (np.hstack([side, np.zeros((side.shape[0], 3))]) for side in (data.A, data.X))
    X /= observations.scale
    if split:
        half = np.arange(50) < 25
        A[:, 3] = A[:, 0]
        X[:, 3], X[:, 0] = X[:, 0] * half, X[:, 0] * ~half
    state = State((A, X), prior.init(problem.stream(0, 0), 6), np.ones(2),
                  noise=np.array([kernel.kappa]))  # fmt: skip
    for sweep in range(3):
        state, info = sweep_joint(problem, state, sweep)
    return problem, state, info


def n_used(state: State) -> int:
    return int(np.sum(np.all([side.any(axis=0) for side in state.loadings], axis=0)))


def shares(state: State) -> np.ndarray:
    size = np.prod([side.sum(axis=0) for side in state.loadings], axis=0)
    return size / size.sum()


def after_tries(problem: Problem, state: State, info: Info) -> State:
    """As warm-up does it, ten times: a try is a comparison of two noisy levels."""
    for sweep in range(3, 3 + 10 * merges.EVERY, merges.EVERY):
        state = merges.merge(problem, state, info, sweep)
        state, info = sweep_joint(problem, state, sweep)
    return state


@pytest.mark.parametrize("seed", range(4))
def test_a_divided_factor_is_merged(seed):
    problem, state, info = planted_state(split=True, seed=seed)
    assert np.sum(shares(state) > 0.01) == 4
    state = after_tries(problem, state, info)
    assert np.sum(shares(state) > 0.01) == 3


@pytest.mark.parametrize("seed", range(4))
def test_true_factors_stay(seed):
    problem, state, info = planted_state(split=False, seed=seed)
    state = after_tries(problem, state, info)
    assert np.sum(shares(state) > 0.01) == 3


def test_a_single_column_is_left_alone():
    problem, state, info = planted_state(split=False)
    for side in state.loadings:
        side[:, 1:] = 0.0
    assert n_used(state) == 1
    assert merges.merge(problem, state, info, 4) is state


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_planted_gaussian_factors_are_counted_right():
    """Without merges seeds 0 and 2 come out with six and ten factors."""
    for seed in (0, 1, 2):
        data = make_planted(100, 80, 5, noise="gaussian", random_state=seed)
        model = DIBPNMF(likelihood="gaussian", n_warmup=100, n_draws=60, n_chains=2,
                        random_state=seed).fit(data.data)  # fmt: skip
        assert model.n_components_ == 5


@pytest.mark.filterwarnings("ignore")
def test_a_run_with_merges_resumes_to_the_bit(tmp_path, monkeypatch):
    data = make_planted(40, 30, 3, noise="gaussian", random_state=0).data
    params = {
        "likelihood": "gaussian", "n_warmup": 40, "n_draws": 10, "n_chains": 1, "random_state": 0,
    }  # fmt: skip
    whole = DIBPNMF(**params).fit(data)

    def stop(problem, state, info, sweep, merge=merges.merge):
        if sweep == 19:
            raise RuntimeError("stopped")
        return merge(problem, state, info, sweep)

    monkeypatch.setattr("dibpnmf.inference.chain.merge", stop)
    stopped = DIBPNMF(**params, checkpoint=tmp_path / "run", checkpoint_every=1e-9)
    with pytest.raises(RuntimeError, match="stopped"):
        stopped.fit(data)
    monkeypatch.undo()
    resumed = DIBPNMF(**params, checkpoint=tmp_path / "run").fit(data)
    np.testing.assert_array_equal(resumed.components_, whole.components_)


@pytest.mark.filterwarnings("ignore")
def test_a_number_of_components_that_was_asked_for_stays(monkeypatch):
    def never(*_):
        raise AssertionError("merged")

    monkeypatch.setattr("dibpnmf.inference.chain.merge", never)
    data = make_planted(30, 20, 2, noise="gaussian", random_state=0).data
    DIBPNMF(likelihood="gaussian", n_components=3, n_warmup=20, n_draws=5, n_chains=1).fit(data)
