"""One sweep of MovieLens-100K with missing cells, against one iteration of masked SparseNMF."""

from __future__ import annotations

import warnings

import numpy as np
import scipy.sparse as sp

from benchmarks.measure import Row, row, seconds
from benchmarks.problems import n_used, warmed_up
from dibpnmf import SparseNMF
from dibpnmf.datasets import fetch_movielens_100k
from dibpnmf.inference.gibbs import sweep_joint
from dibpnmf.observations import Observations

_COLUMNS, _WARMUP = 30, 10


def _one_iteration(Y: sp.csr_array) -> float:
    """Seconds of one iteration: the difference between runs of different length."""

    def fit(n: int) -> float:
        model = SparseNMF(_COLUMNS, zeros="missing", max_iter=n, tol=0.0, n_init=1, init="random",
                          random_state=0)  # fmt: skip
        return seconds(lambda: model.fit(Y))

    return (fit(13) - fit(3)) / 10.0


def run() -> list[Row]:
    ratings = fetch_movielens_100k()
    rows, columns, values = ratings.train
    Y = sp.csr_array(sp.coo_array((values.astype(float), (rows, columns)), shape=ratings.shape))
    problem, state = warmed_up(Observations.from_matrix(Y, "missing"), _COLUMNS, _WARMUP)
    measured = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        _one_iteration(Y)
        for repeat in range(7):
            time = seconds(lambda: sweep_joint(problem, state, _WARMUP + repeat))  # noqa: B023
            measured.append(time / _one_iteration(Y))
    _, info = sweep_joint(problem, state, 1000)
    return [
        row(f"one sweep of MovieLens-100K, missing cells, {n_used(info)} columns in use",
            "one iteration of masked SparseNMF(30)", np.array(measured), "<= 3",
            lambda r: r <= 3.0)
    ]  # fmt: skip
