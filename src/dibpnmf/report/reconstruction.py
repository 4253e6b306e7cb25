"""The data against their reconstruction: a sample of cells, and maps of block means.

Nothing here makes a matrix of all cells: means of blocks of λ = A Xᵀ + ε are products of means
of blocks of A and X.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.metrics import roc_auc_score

from dibpnmf.observations import Observations
from dibpnmf.posterior import unit_columns
from dibpnmf.prediction import means_at

if TYPE_CHECKING:
    from dibpnmf.estimator import DIBPNMF

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

_DRAWS = 60  # draws a posterior mean is taken over, evenly spread
_CELLS = 50_000  # cells the fit is judged on
_SIDE = 100  # blocks along a side of a map
_REPLICATES = 40  # data sets drawn from the fitted model
_BINS = 20  # points of the curve of data against reconstruction
_FEW_ZEROS = 0.1  # share of zeros from which telling them apart is worth a sentence


@dataclass(frozen=True)
class Sample:
    """Observed cells with their data and posterior means."""

    rows: Ints
    columns: Ints
    y: Floats
    mean: Floats


@dataclass(frozen=True)
class Fit:
    """How well the reconstruction meets the cells it was fitted to.

    ``explained`` is the share of the cells' variance, ``expected`` the 5% and 95% points of
    that share in data drawn from the fitted model; ``auc`` the probability that a non-zero
    cell has a larger reconstruction than a zero (None where there are few of either);
    ``excess`` how far the mean of the reconstruction lies above that of the data, relative to it.
    """

    explained: float
    expected: tuple[float, float]
    auc: float | None
    excess: float


@dataclass(frozen=True)
class Maps:
    """Block means of data (None if not given) and reconstruction; the members of each block."""

    data: Floats | None
    mean: Floats
    rows: list[Ints]
    columns: list[Ints]


def read_data(model: DIBPNMF, data: Any) -> Observations:
    """Check that the data are those of the fit, as far as their shape tells."""
    if isinstance(data, Observations):  # of a run's folder
        observations = data.unscaled()
    else:
        with warnings.catch_warnings():
            # Names may have come with the data only now, or with the fit only.
            warnings.filterwarnings("ignore", "X (has|does not have valid) feature names")
            read = model._read(data, reset=False)
        observations = Observations.from_matrix(read, model.zeros, scale=1.0)
    if observations.shape != model._shape:
        raise ValueError(
            f"data must be the fitted matrix, of shape {model._shape}; got shape "
            f"{observations.shape}."
        )
    return observations


def sample_cells(model: DIBPNMF, observations: Observations) -> Sample:
    """Take observed cells at random, all of them where there are few."""
    rng = np.random.default_rng(0)
    M, N = observations.shape
    cells = observations.side(0)
    stored = sp.csr_array((cells.values, cells.indices, cells.indptr), shape=(M, N))
    total = M * N if observations.is_complete else stored.nnz
    flat = np.arange(total) if total <= _CELLS else rng.integers(0, total, _CELLS)
    if observations.is_complete:
        rows, columns = np.divmod(flat, N)
        y = np.asarray(stored[rows, columns], dtype=np.float64).ravel()
    else:
        rows = np.searchsorted(cells.indptr, flat, side="right") - 1
        columns, y = cells.indices[flat].astype(np.int64), cells.values[flat]
    return Sample(rows, columns, y, _mean_at(model, rows, columns))


def _sides(model: DIBPNMF) -> Iterator[tuple[Floats, Floats]]:
    """A and X of some draws, in the units of Y; of the point estimate where none are kept."""
    draws = [draw for record in model._records for draw in record.draws]
    if not draws:
        yield np.ascontiguousarray(model.embedding_), np.ascontiguousarray(model.components_.T)
    for at in np.unique(np.linspace(0, len(draws) - 1, min(_DRAWS, len(draws))).astype(int)):
        A, X = draws[at].unpack()
        yield A, X * model._scale


def _mean_at(model: DIBPNMF, rows: Ints, columns: Ints) -> Floats:
    total, one, n = np.zeros(rows.size), np.empty(rows.size), 0
    for A, X in _sides(model):
        means_at(A, X, rows, columns, model.epsilon_, one)
        total += one
        n += 1
    return total / n


def judge(model: DIBPNMF, sample: Sample) -> Fit:
    """Compare the variance explained with what data of the model's own would give."""
    rng = np.random.default_rng(0)
    likelihood = model._likelihood.at(model._chosen.noise)
    replicates = [
        _explained(likelihood.simulate(rng, sample.mean / model._scale) * model._scale, sample.mean)
        for _ in range(_REPLICATES)
    ]
    low, high = np.quantile(replicates, [0.05, 0.95])
    some = sample.y > 0.0
    tells = _FEW_ZEROS <= np.mean(~some) < 1.0
    return Fit(
        _explained(sample.y, sample.mean),
        (float(low), float(high)),
        float(roc_auc_score(some, sample.mean)) if tells else None,
        float(sample.mean.mean() / sample.y.mean() - 1.0) if some.any() else 0.0,
    )


def _explained(y: Floats, mean: Floats) -> float:
    largest = max(y.max(), mean.max())  # a share has no units: no square may overflow
    y, mean = y / largest, mean / largest
    spread = float(np.sum((y - y.mean()) ** 2))
    return 1.0 - float(np.sum((y - mean) ** 2)) / spread if spread > 0.0 else 1.0


def curve(sample: Sample) -> list[tuple[float, float, int]]:
    """Mean of the reconstruction, mean of the data, and number of cells, by quantile of λ."""
    order = np.argsort(sample.mean, kind="stable")
    parts = np.array_split(order, min(_BINS, order.size))
    return [
        (float(sample.mean[part].mean()), float(sample.y[part].mean()), part.size) for part in parts
    ]


def maps(model: DIBPNMF, observations: Observations | None, sample: Sample | None) -> Maps:
    """Means over blocks of rows and columns, those of one factor beside each other."""
    blocks = [_blocks(_order(side)) for side in (model.embedding_, model.components_.T)]
    P, Q = (_averaging(part, n) for part, n in zip(blocks, model._shape, strict=True))
    if observations is None or sample is None or observations.is_complete:
        parts = [(P @ A) @ (Q @ X).T for A, X in _sides(model)]
        mean = np.mean(parts, axis=0) + model.epsilon_
        data = None
        if observations is not None:
            cells = observations.side(0)
            stored = sp.csr_array((cells.values, cells.indices, cells.indptr), observations.shape)
            data = (P @ stored @ Q.T).toarray()
        return Maps(data, mean, *blocks)
    # With missing cells both maps average the same sampled cells.
    at = tuple(_block_of(part, n)[index] for part, n, index in zip(
        blocks, model._shape, (sample.rows, sample.columns), strict=True))  # fmt: skip
    sums = np.zeros((3, len(blocks[0]), len(blocks[1])))
    for line, values in zip(sums, (sample.y, sample.mean, np.ones_like(sample.y)), strict=True):
        np.add.at(line, at, values)
    n = np.where(sums[2] > 0.0, sums[2], np.nan)
    return Maps(sums[0] / n, sums[1] / n, *blocks)


def _order(side: Floats) -> Ints:
    """Entries of one side sorted by their main factor, the strongest first; those without last."""
    n, K = side.shape
    if K == 0:
        return np.arange(n)
    relative = unit_columns(side)
    main = np.where(relative.any(axis=1), relative.argmax(axis=1), K)
    return np.lexsort((-relative.max(axis=1), main))


def _blocks(order: Ints) -> list[Ints]:
    return [np.asarray(part) for part in np.array_split(order, min(_SIDE, order.size))]


def _block_of(blocks: list[Ints], n: int) -> Ints:
    block = np.empty(n, np.int64)
    for number, members in enumerate(blocks):
        block[members] = number
    return block


def _averaging(blocks: list[Ints], n: int) -> sp.csr_array:
    """Matrix that takes the mean of each block's rows."""
    sizes = np.array([part.size for part in blocks])
    indptr = np.concatenate([[0], np.cumsum(sizes)])
    return sp.csr_array((np.repeat(1.0 / sizes, sizes), np.concatenate(blocks), indptr),
                        shape=(len(blocks), n))  # fmt: skip
