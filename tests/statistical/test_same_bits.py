"""Equal draws however the work is divided, and the same posterior in any order of the data."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import fields, replace
from itertools import pairwise

import numpy as np
import pytest

from dibpnmf.inference.chain import SCHEMES
from dibpnmf.inference.executors import Serial, Threads
from dibpnmf.inference.gibbs import Problem, State
from dibpnmf.observations import Observations
from dibpnmf.random import START, stream

from .cases import FAST_CASES, Case

SHAPE = (7, 5)
K = 4
SWEEPS = 12
SEED = 77


def flat(state: State) -> list[np.ndarray]:
    """All arrays of a state."""
    parts: list[np.ndarray] = []
    for field in fields(state):
        value = getattr(state, field.name)
        if value is not None:
            parts += list(value) if isinstance(value, tuple) else [value]
    return parts


def make_problem(case: Case, chain: int) -> tuple[Problem, State]:
    model = case.model()
    rng = np.random.default_rng(SEED)
    # Data far above ε keep columns in use.
    planted = [np.where(rng.random((n, K)) < 0.6, 2.0, 0.0) for n in SHAPE]
    Y = model.likelihood.simulate(rng, model.mean((planted[0], planted[1])))
    Y[rng.random(SHAPE) < 0.3] = 0.0 if case.data == "complete" else np.nan
    data = Observations.from_matrix(Y, "observed", scale=1.0)
    kernel = model.likelihood.kernel(model.epsilon)
    draw = model.simulate(stream(SEED, chain, 0, START), SHAPE, K)
    problem = Problem(data, model.prior, kernel, SEED, chain, Serial(), model.loadings)
    return problem, State((planted[0], planted[1]), draw.prior, draw.tau, noise=draw.noise)


def run(case: Case, chain: int, executor, sweeps: int = SWEEPS) -> list[list[np.ndarray]]:
    """Every state of a short chain, and its log likelihood."""
    problem, state = make_problem(case, chain)
    data = problem.observations
    placed = executor.place(data) if hasattr(executor, "place") else data
    problem = replace(problem, executor=executor, observations=placed)
    history = []
    for sweep in range(sweeps):
        state, info = SCHEMES[case.scheme](problem, state, sweep)
        history.append([x.copy() for x in flat(state)] + [np.array(info.log_likelihood)])
    return history


def assert_same(first, second) -> None:
    for ours, theirs in zip(first, second, strict=True):
        for x, y in zip(ours, theirs, strict=True):
            np.testing.assert_array_equal(x, y)


@pytest.mark.parametrize("case", FAST_CASES, ids=str)
def test_draws_change_from_sweep_to_sweep(case):
    """Equality below would be worth nothing for a chain that does not move."""
    history = run(case, 0, Serial())
    log_likelihoods = [state[-1] for state in history]
    assert all(before != after for before, after in pairwise(log_likelihoods))


@pytest.mark.parametrize("case", FAST_CASES, ids=str)
def test_threads_and_block_sizes(case):
    expected = run(case, 0, Serial())
    for n_threads in (1, 2, 3):
        with closing(Threads(n_threads)) as executor:
            assert_same(run(case, 0, executor), expected)
    for block_size in range(1, max(SHAPE) + 1):
        with closing(Threads(2, block_size)) as executor:
            assert_same(run(case, 0, executor), expected)


@pytest.fixture(scope="module")
def client():
    distributed = pytest.importorskip("distributed", reason="needs the extra dibpnmf[dask]")
    with (
        distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, processes=False, dashboard_address="127.0.0.1:0"
        ) as cluster,
        distributed.Client(cluster) as client,
    ):
        yield client


@pytest.mark.parametrize("case", FAST_CASES, ids=str)
def test_workers_of_a_cluster(case, client):
    from dibpnmf.cluster.executor import Dask

    expected = run(case, 0, Serial(), sweeps=3)
    assert_same(run(case, 0, Dask(client, n_blocks=3), sweeps=3), expected)


@pytest.mark.parametrize("case", FAST_CASES, ids=str)
def test_chains_together_or_apart(case):
    apart = [run(case, chain, Serial()) for chain in range(3)]
    with ThreadPoolExecutor(3) as pool, closing(Threads(2)) as executor:
        together = list(pool.map(lambda chain: run(case, chain, executor), range(3)))
    for one, other in zip(apart, together, strict=True):
        assert_same(one, other)
    for column in (0, 1, -1):  # A, X and the log likelihood
        assert not np.array_equal(apart[0][-1][column], apart[1][-1][column])
