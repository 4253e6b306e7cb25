"""One sweep of MovieLens-100K with missing cells, against one iteration of masked SparseNMF."""

from __future__ import annotations

import time
import warnings

import numpy as np
import scipy.sparse as sp
from threadpoolctl import threadpool_limits

from benchmarks.measure import Row, row, seconds
from dibpnmf import SparseNMF
from dibpnmf.datasets import fetch_movielens_100k
from dibpnmf.inference.executors import Serial
from dibpnmf.inference.gibbs import Problem, State, sweep_joint
from dibpnmf.inference.starts import start_state
from dibpnmf.likelihoods import Exponential, Gaussian, Likelihood
from dibpnmf.model import Model
from dibpnmf.observations import Observations
from dibpnmf.priors import BivariateBeta

_COLUMNS, _SETTLE = 30, 12  # the first ten sweeps differ: they draw every loading afresh
# A sweep costs as many entries are on, and these become fewer, or more, for hundreds of sweeps: one
# in nine is measured. Medians of seven differ by 3% from run to run.
_REPEATS, _EVERY = 21, 9


def _one_iteration(Y: sp.csr_array) -> float:
    """Processor seconds of one iteration: the difference between runs of different length."""

    def fit(n: int) -> float:
        model = SparseNMF(_COLUMNS, zeros="missing", max_iter=n, tol=0.0, n_init=1, init="random",
                          random_state=0)  # fmt: skip
        return seconds(lambda: model.fit(Y), time.thread_time)

    return (fit(103) - fit(3)) / 100.0


def _full_state(observations: Observations, likelihood: Likelihood) -> tuple[Problem, State]:
    """A state with all 30 columns in use: a factorization with 30 columns and some sweeps.

    A converged chain keeps some 14 of them under the exponential likelihood; that sweep would
    be cheaper. ε is small and the sticks' parameters are held at 6.5, so that none is emptied.
    """
    prior = BivariateBeta(a=6.5, b=6.5)
    problem = Problem(observations, prior, likelihood.kernel(0.01), 0, 0, Serial())
    state = start_state(problem, Model(prior, likelihood, 0.01), _COLUMNS, "nmf")
    for sweep in range(_SETTLE):
        state, _ = sweep_joint(problem, state, sweep)
    return problem, state


def _compare(Y: sp.csr_array, likelihood: Likelihood) -> Row:
    problem, state = _full_state(Observations.from_matrix(Y, "missing"), likelihood)
    measured, used, on = [], [], []
    _one_iteration(Y)
    last = _SETTLE + _REPEATS * _EVERY
    for sweep in range(_SETTLE, last):
        start = time.thread_time()
        state, info = sweep_joint(problem, state, sweep)
        elapsed = time.thread_time() - start
        if (last - sweep) % _EVERY:
            continue
        measured.append(elapsed / _one_iteration(Y))
        used.append(info.n_active)
        on.append(float(info.counts.sum() / (sum(Y.shape) * _COLUMNS)))
    return row(
        f"one sweep of MovieLens-100K, {likelihood.name}, missing cells, {min(used)}-{max(used)} "
        f"columns in use, {on[0]:.0%} of their entries on at sweep {_SETTLE} to {on[-1]:.0%} at "
        f"{last - _EVERY} (made so, not converged)",
        "one iteration of masked SparseNMF(30), processor time", np.array(measured), "<= 3",
        lambda r: r <= 3.0,
    )  # fmt: skip


def run() -> list[Row]:
    ratings = fetch_movielens_100k()
    rows, columns, values = ratings.train
    Y = sp.csr_array(sp.coo_array((values.astype(float), (rows, columns)), shape=ratings.shape))
    with warnings.catch_warnings(), threadpool_limits(1):
        warnings.simplefilter("ignore")
        return [_compare(Y, likelihood) for likelihood in (Exponential(), Gaussian())]
