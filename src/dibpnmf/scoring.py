"""Log predictive density of held-out cells: of fitted rows, and of new rows by halves."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from dibpnmf.likelihoods.base import Likelihood
from dibpnmf.observations import Observations
from dibpnmf.posterior import CompactDraw
from dibpnmf.prediction import log_predictive, table_at

Floats = NDArray[np.float64]
Index = tuple[NDArray[np.int64], NDArray[np.int32]]

_CELLS = 2_000_000  # cells of new rows made explicit at once


def share_no_cell(fitted: Index, observations: Observations) -> bool:
    """Whether no observed cell is among the fitted ones, given as (indptr, indices) by row."""
    cells = observations.side(0)
    ours, theirs = (
        sp.csr_array((np.ones(indices.size), indices, indptr), shape=observations.shape)
        for indptr, indices in (fitted, (cells.indptr, cells.indices))
    )
    return bool(ours.multiply(theirs).nnz == 0)


def score_cells(
    likelihood: Likelihood,
    draws: Sequence[CompactDraw],
    observations: Observations,
    epsilon: float,
) -> tuple[float, int]:
    """Sum over the observed cells of fitted rows, and how many they are."""
    cells = observations.side(0)
    rows = np.repeat(np.arange(observations.shape[0]), np.diff(cells.indptr))
    columns = cells.indices.astype(np.int64)
    total = 0.0
    for part, table in table_at(draws, rows, columns, epsilon):
        total += float(log_predictive(likelihood, cells.values[part], table).sum())
    return total, rows.size


def score_rows(
    likelihood: Likelihood,
    blocks: Iterator[Floats],
    embed: Callable[[Floats], Floats],
    X: Floats,
    epsilon: float,
) -> tuple[float, int]:
    """Embed new rows from a random half of their cells; sum over the other half.

    ``blocks`` are rows in units of the fitted mean, NaN where missing; ``embed`` draws the
    loadings (draw, row, column) of such rows.
    """
    rng = np.random.default_rng(0)
    total, n = 0.0, 0
    for block in blocks:
        observed = ~np.isnan(block)
        given = random_half(rng, observed)
        draws = embed(np.where(given, block, np.nan))
        for i, held in enumerate(observed & ~given):
            table = draws[:, i] @ X[held].T + epsilon
            total += float(log_predictive(likelihood, block[i, held], table).sum())
            n += int(held.sum())
    return total, n


def random_half(rng: np.random.Generator, observed: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Choose half of each row's observed cells (rounded down), by rank of random numbers."""
    order = np.argsort(np.where(observed, rng.random(observed.shape), 2.0), axis=1)
    rank = np.argsort(order, axis=1)
    return rank < observed.sum(axis=1, keepdims=True) // 2


def dense_blocks(matrix: Floats | sp.csr_array, zeros: str, scale: float) -> Iterator[Floats]:
    """Yield blocks of rows in units of ``scale``, NaN where missing."""
    size = max(1, _CELLS // matrix.shape[1])
    for start in range(0, matrix.shape[0], size):
        block = matrix[start : start + size]
        yield (_explicit(sp.csr_array(block), zeros) if sp.issparse(block) else block) / scale


def _explicit(block: sp.csr_array, zeros: str) -> Floats:
    if zeros == "observed":
        return block.toarray()
    coo = block.tocoo()
    dense = np.full(block.shape, np.nan)
    dense[coo.row, coo.col] = coo.data
    return dense
