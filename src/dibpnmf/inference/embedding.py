"""New rows given the learned columns."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dibpnmf import random as streams
from dibpnmf.inference.executors import Executor
from dibpnmf.likelihoods.lists import list_entries
from dibpnmf.likelihoods.rows import embed_rows
from dibpnmf.observations import Observations

Floats = NDArray[np.float64]

N_WARMUP, N_DRAWS = 30, 50


def embed(
    executor: Executor,
    likelihood: NamedTuple,
    observations: Observations,
    X: Floats,
    log_odds: Floats,
    slabs: Floats,
) -> Floats:
    """Draw the loadings of every row given X, shape (draw, row, column).

    The draws are a function of each row's own cells: the same row gives the same draws alone,
    in any batch and in any order.
    """
    n_rows = observations.shape[0]
    A = np.zeros((n_rows, X.shape[1]))
    draws = np.zeros((N_DRAWS, n_rows, X.shape[1]))
    if X.shape[1]:
        X = np.ascontiguousarray(X)
        executor.map_blocks(
            embed_rows, likelihood, n_rows,
            observations.side(0), observations.is_complete, A, X,
            list_entries(X, observations.is_complete),
            np.ascontiguousarray(log_odds), slabs, np.uint64(0), streams.EMBED, N_WARMUP, draws,
        )  # fmt: skip
    return draws
