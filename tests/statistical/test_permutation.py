"""Rows and columns of the data may come in any order: the posterior is the same."""

from __future__ import annotations

import numpy as np
import pytest

from .cases import CASES, FAST_CASES, Run, run_on_data
from .errors import FAST_LEVEL, N_BATCHES, chain_error, t_threshold

WARMUP = 200
SWEEPS = 3_200
ROW_ORDER = np.array([2, 0, 1])
COLUMN_ORDER = np.array([3, 1, 0, 2])


def summaries(case, rows, columns, seed) -> dict[str, np.ndarray]:
    """Quantities of a chain on reordered data, put back in the order of the original."""
    pattern = case.pattern[np.ix_(rows, columns)]
    model = case.model()
    Y = model.likelihood.simulate(np.random.default_rng(2), np.full(pattern.shape, 1.5))
    run = Run(model, case.scheme, pattern, seed, 0)
    y = Y[np.ix_(rows, columns)][pattern]
    draws = list(run_on_data(run, y, WARMUP + SWEEPS))[WARMUP:]
    A = np.stack([draw.A for draw in draws])[:, np.argsort(rows)]
    X = np.stack([draw.X for draw in draws])[:, np.argsort(columns)]
    mean = np.einsum("nik,njk->nij", A, X)
    table = {f"λ/(1+λ) {at}": (mean / (1.0 + mean))[:, *at] for at in np.ndindex(mean.shape[1:])}
    table |= {f"ones in row {i}": (A[:, i] > 0.0).sum(axis=1) for i in range(A.shape[1])}
    table |= {f"ones in column {j}": (X[:, j] > 0.0).sum(axis=1) for j in range(X.shape[1])}
    return table


@pytest.mark.parametrize("case", FAST_CASES, ids=str)
def test_order_of_rows_and_columns(case):
    plain = summaries(case, np.arange(3), np.arange(4), seed=1)
    permuted = summaries(case, ROW_ORDER, COLUMN_ORDER, seed=2)
    limit = t_threshold(len(plain) * len(CASES), FAST_LEVEL, N_BATCHES - 1)
    for name, x in plain.items():
        y = permuted[name]
        error = np.hypot(chain_error(x), chain_error(y))
        assert abs(x.mean() - y.mean()) < limit * error, name
