"""One matrix seen by row and by column: what is observed, what is missing, in which units."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple, Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

Floats = NDArray[np.float64]


class Cells(NamedTuple):
    """Stored cells of one side in compressed form: row i has indices[indptr[i]:indptr[i+1]].

    Of a block of rows, ``first`` is the number that its first row has among all.
    """

    indptr: NDArray[np.int64]
    indices: NDArray[np.int32]
    values: Floats
    first: int = 0


@dataclass(frozen=True)
class Observations:
    """A nonnegative matrix in units of its mean, by row and by column.

    Attributes
    ----------
    shape : tuple of int
    by_side : tuple of Cells
        The stored cells by row and by column, values divided by ``scale``.
    is_complete : bool
        If true, cells that are not stored are observed zeros; else they are missing.
    scale : float
        Mean of the observed cells (1 if all are zero): fit(c·Y) is fit(Y) rescaled.
    n_observed : int
    """

    shape: tuple[int, int]
    by_side: tuple[Cells, Cells]
    is_complete: bool
    scale: float
    n_observed: int

    @classmethod
    def from_matrix(
        cls, Y: Floats | sp.csr_array, zeros: str = "observed", scale: float | None = None
    ) -> Self:
        """Read a dense matrix (NaN is missing) or a sparse one.

        Cells that a sparse matrix does not store are observed zeros with ``zeros="observed"``,
        missing with ``zeros="missing"``. A stored NaN is missing in either case.
        """
        if sp.issparse(Y):
            csr, is_complete = _from_sparse(sp.csr_array(Y), zeros)
        else:
            csr, is_complete = _from_dense(np.asarray(Y, dtype=np.float64))
        n_observed = int(np.prod(Y.shape)) if is_complete else int(csr.nnz)
        if scale is None:
            scale = mean_of(row_sums(csr.indptr, csr.data), n_observed)
        csr.data /= scale
        csc = csr.T.tocsr()
        return cls(Y.shape, (_cells(csr), _cells(csc)), is_complete, scale, n_observed)

    def unscaled(self) -> Self:
        """Return the same in the units of the input."""
        rows, columns = (side._replace(values=side.values * self.scale) for side in self.by_side)
        return replace(self, by_side=(rows, columns), scale=1.0)

    @property
    def n_stored(self) -> int:
        """Cells that are stored: all observed ones, or those that are not zero."""
        return self.by_side[0].values.size

    def here(self) -> Observations | None:
        """The matrix itself, if this process has it."""
        return self

    def observed_index(self) -> tuple[NDArray[np.int64], NDArray[np.int32]] | None:
        """Where the observed cells are, as (indptr, indices) by row; None if all are observed."""
        return None if self.is_complete else self.by_side[0][:2]

    def side(self, t: int) -> Cells:
        """Cells by row (t = 0) or by column (t = 1)."""
        return self.by_side[t]


class Absent(Observations):
    """All that is known of a matrix whose cells were left where they lay."""

    def here(self) -> Observations | None:
        """Nothing."""
        return None

    def observed_index(self) -> None:
        """Nothing."""


def row_sums(indptr: NDArray[np.integer], values: Floats) -> Floats:
    """Sum of each row's cells: the same to the bit whatever block of rows it is in."""
    sums = np.zeros(indptr.size - 1)
    filled = np.diff(indptr) > 0
    if filled.any():
        sums[filled] = np.add.reduceat(values, indptr[:-1][filled])
    return sums


def mean_of(sums: Floats, n: int) -> float:
    """Mean over n observed cells from the sums of the rows, 1 where it would be zero."""
    mean = float(sums.sum() / n) if n else 0.0
    return mean if mean > 0.0 else 1.0


def _cells(csr: sp.csr_array) -> Cells:
    return Cells(
        csr.indptr.astype(np.int64, copy=False), csr.indices.astype(np.int32, copy=False), csr.data
    )


def _from_dense(Y: Floats) -> tuple[sp.csr_array, bool]:
    missing = np.isnan(Y)
    if not missing.any():
        return sp.csr_array(Y), True
    rows, columns = np.nonzero(~missing)
    return _explicit(rows, columns, Y[rows, columns], Y.shape), False


def _from_sparse(Y: sp.csr_array, zeros: str) -> tuple[sp.csr_array, bool]:
    Y = Y.astype(np.float64)
    Y.sum_duplicates()
    missing = np.isnan(Y.data)
    if zeros == "observed":
        if not missing.any():
            Y.eliminate_zeros()
            return Y, True
        # Zeros observed beside stored NaN: the few missing cells make all others explicit.
        return _from_dense(Y.toarray())
    if not missing.any():
        return Y, False
    coo = Y.tocoo()
    keep = ~missing
    return _explicit(coo.row[keep], coo.col[keep], coo.data[keep], Y.shape), False


def _explicit(
    rows: NDArray[np.integer],
    columns: NDArray[np.integer],
    values: Floats,
    shape: tuple[int, int],
) -> sp.csr_array:
    """Make a CSR matrix of row-ordered cells that keeps explicit zeros."""
    indptr = np.zeros(shape[0] + 1, np.int64)
    np.cumsum(np.bincount(rows, minlength=shape[0]), out=indptr[1:])
    return sp.csr_array((values, columns.astype(np.int32), indptr), shape=shape)
