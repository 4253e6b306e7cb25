"""One sweep of Cora: against scikit-learn's multiplicative update, and two threads against one."""

from __future__ import annotations

import time
import warnings

import numpy as np
from sklearn.decomposition import NMF

from benchmarks.measure import Row, ratios, row
from dibpnmf.datasets import fetch_cora
from dibpnmf.inference.executors import Serial, Threads
from dibpnmf.inference.gibbs import Problem, State, sweep_joint
from dibpnmf.inference.starts import background_rate, start_state
from dibpnmf.likelihoods import Exponential
from dibpnmf.model import Model
from dibpnmf.observations import Observations
from dibpnmf.priors import BivariateBeta

_COLUMNS, _WARMUP = 30, 60


def _converged(observations: Observations) -> tuple[Problem, State]:
    epsilon = background_rate(observations, 0)
    prior = BivariateBeta()
    problem = Problem(observations, prior, Exponential().kernel(epsilon), 0, 0, Serial())
    state = start_state(problem, Model(prior, Exponential(), epsilon), _COLUMNS, "nmf")
    for sweep in range(_WARMUP):
        state, _ = sweep_joint(problem, state, sweep)
    return problem, state


def _one_update(Y: np.ndarray) -> float:
    """Seconds of one iteration: the difference between runs of different length."""

    def fit(n: int) -> float:
        model = NMF(_COLUMNS, solver="mu", beta_loss="itakura-saito", init="random",
                    random_state=0, max_iter=n, tol=0.0)  # fmt: skip
        start = time.perf_counter()
        model.fit(Y)
        return time.perf_counter() - start

    return (fit(6) - fit(2)) / 4.0


def run() -> list[Row]:
    Y = fetch_cora().data
    observations = Observations.from_matrix(Y)
    problem, state = _converged(observations)
    # Itakura-Saito needs positive data.
    dense = Y.toarray() + 1e-3
    sweeps, updates = [], []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for repeat in range(5):
            start = time.perf_counter()
            state, info = sweep_joint(problem, state, _WARMUP + repeat)
            sweeps.append(time.perf_counter() - start)
            updates.append(_one_update(dense))
    used = int(np.sum(np.all(info.counts > 0.0, axis=0)))
    values = np.array(sweeps) / np.array(updates)
    rows = [
        row(f"one sweep of Cora, {used} columns in use, one thread",
            "one iteration of scikit-learn NMF(30, mu, itakura-saito)", values, "<= 1",
            lambda r: r <= 1.0)
    ]  # fmt: skip
    executor = Threads(2)
    both = Problem(**{**vars(problem), "executor": executor})
    values = ratios(
        lambda: sweep_joint(problem, state, 1000), lambda: sweep_joint(both, state, 1001), 7
    )
    executor.close()
    rows.append(
        row("one thread", "two threads, Cora sweep", values, ">= 1.75", lambda r: r >= 1.75)
    )
    return rows
