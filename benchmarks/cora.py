"""One sweep of Cora: against scikit-learn's multiplicative update, and two threads against one."""

from __future__ import annotations

import time
import warnings
from dataclasses import replace

import numpy as np
from sklearn.decomposition import NMF
from threadpoolctl import threadpool_limits

from benchmarks.measure import Clock, Row, ratios, row, seconds
from benchmarks.problems import warmed_up
from dibpnmf.datasets import fetch_cora
from dibpnmf.inference.executors import Executor, Threads
from dibpnmf.inference.gibbs import Problem, State, summarise, sweep_joint, update_labels
from dibpnmf.inference.unseen import update_with_unseen
from dibpnmf.observations import Observations
from dibpnmf.random import PRIOR

_COLUMNS, _WARMUP = 30, 60
_UPDATES, _SWEEPS = 16, 4  # in one measurement: single ones vary twofold on a shared machine


def _one_update(Y: np.ndarray, threads: int | None, clock: Clock) -> float:
    """Seconds of one iteration: the difference between runs of different length."""

    def fit(n: int) -> float:
        model = NMF(_COLUMNS, solver="mu", beta_loss="itakura-saito", init="random",
                    random_state=0, max_iter=n, tol=0.0)  # fmt: skip
        with threadpool_limits(threads):
            return seconds(lambda: model.fit(Y), clock)

    return (fit(2 + _UPDATES) - fit(2)) / _UPDATES


def _with(problem: Problem, executor: Executor) -> Problem:
    return replace(problem, executor=executor)


def _against_scikit_learn(problem: Problem, both: Problem, state: State) -> list[Row]:
    # Itakura-Saito needs positive data.
    dense = fetch_cora().data.toarray() + 1e-3
    # The time of this thread only: those of products with two threads go on spinning after them.
    compared = {
        "one thread each, processor time": (problem, 1, time.thread_time),
        "two threads, its threads unbounded, on the clock": (both, None, time.perf_counter),
    }
    measured: dict[str, list[float]] = {how: [] for how in compared}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for repeat in range(7):
            for how, (target, threads, clock) in compared.items():
                start = clock()
                for sweep in range(_SWEEPS):
                    state, info = sweep_joint(target, state, _WARMUP + repeat * _SWEEPS + sweep)
                elapsed = (clock() - start) / _SWEEPS
                measured[how].append(elapsed / _one_update(dense, threads, clock))
    return [
        row(f"one sweep of Cora, {info.n_active} columns in use",
            f"one iteration of scikit-learn NMF(30, mu, itakura-saito), {how}",
            np.array(values), "<= 1", lambda r: r <= 1.0)
        for how, values in measured.items()
    ]  # fmt: skip


def _small_moves(problem: Problem, state: State) -> Row:
    """Sticks, θ, τ, scales and swaps, against a whole sweep."""
    log_odds = problem.prior.log_odds(state.prior)

    def moves() -> None:
        copy = State((state.loadings[0].copy(), state.loadings[1].copy()), state.prior,
                     state.tau.copy())  # fmt: skip
        update_with_unseen(problem.stream(0, PRIOR), problem.prior, copy.prior, copy.loadings,
                           summarise(copy.loadings).counts,
                           problem.loadings.slabs(copy.tau, copy.K))  # fmt: skip
        update_labels(problem, copy, log_odds, 0)

    values = ratios(moves, lambda: sweep_joint(problem, state, 2000), 7, time.thread_time)
    return row("sticks, θ, τ, scales, swaps", "the whole Cora sweep, one thread", values,
               "< 0.05", lambda r: r < 0.05)  # fmt: skip


def run() -> list[Row]:
    problem, state = warmed_up(Observations.from_matrix(fetch_cora().data), _COLUMNS, _WARMUP)
    executor = Threads(2)
    both = _with(problem, executor)
    rows = _against_scikit_learn(problem, both, state)
    values = ratios(
        lambda: sweep_joint(problem, state, 1000), lambda: sweep_joint(both, state, 1001), 9
    )
    executor.close()
    rows.append(
        row("one thread", "two threads, Cora sweep", values, ">= 1.75", lambda r: r >= 1.75)
    )
    return [*rows, _small_moves(problem, state)]
