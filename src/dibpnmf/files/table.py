"""What a data file holds: a matrix and the names of its rows and columns."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

Floats = NDArray[np.float64]

LARGEST = 1e250  # as the estimator takes
MOST_ROWS = 50_000_000  # rows or columns: more are a damaged file's, or beyond any memory


class FileError(ValueError):
    """A file that cannot be read, in one line: file, row, column, what was found."""

    def __init__(
        self,
        path: str | os.PathLike[str],
        found: str,
        row: object = None,
        column: object = None,
    ) -> None:
        place = [os.fspath(path)]
        if row is not None:
            place.append(f"row {row}")
        if column is not None:
            place.append(f"column {column}")
        super().__init__(one_line(f"{', '.join(place)}: {found}"))


def one_line(text: str) -> str:
    """Join lines, and show what a terminal would act upon instead of showing it."""
    return "".join(c if c.isprintable() else repr(c)[1:-1] for c in " ".join(text.split()))


def shown(text: str, most: int = 40) -> str:
    """Quote what was found, cut to a readable length."""
    return repr(text if len(text) <= most else text[: most - 1] + "…")


@dataclass(frozen=True)
class Table:
    """A matrix of nonnegative numbers, NaN where missing, with names where the file has them.

    ``labels`` is the column of them that was asked for, kept out of the matrix.
    """

    matrix: Floats | sp.csr_array
    row_names: list[str] | None = None
    column_names: list[str] | None = None
    labels: list[str] | None = None

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns."""
        return self.matrix.shape

    def checked(self, path: str | os.PathLike[str]) -> Table:
        """Refuse an empty matrix, and the first entry that is negative, infinite or too large."""
        if 0 in self.shape:
            rows, columns = self.shape
            raise FileError(path, f"an empty matrix, {rows} rows × {columns} columns")
        matrix: Any = self.matrix
        is_sparse = bool(sp.issparse(matrix))
        data = matrix.data if is_sparse else matrix
        bad = (data < 0.0) | (data > LARGEST)
        if not bad.any():
            return self
        if is_sparse:
            at = int(np.flatnonzero(bad)[0])
            i, j, value = matrix.tocoo().row[at], matrix.indices[at], data[at]
        else:
            i, j = np.argwhere(bad)[0]
            value = matrix[i, j]
        what = "a negative value" if value < 0.0 else "an infinite or too large value"
        text = f"found {value:g}, {what}; entries must be numbers >= 0"
        row, column = self._name(self.row_names, i), self._name(self.column_names, j)
        raise FileError(path, text, row, column)

    @staticmethod
    def _name(names: list[str] | None, at: Any) -> str:
        return f"{at + 1}" if names is None else f"{at + 1} ({shown(names[at])})"


def from_array(path: str | os.PathLike[str], array: Any) -> Floats:
    """Check an array read from a file: two dimensions of real numbers."""
    if array.dtype.kind not in "biuf":
        raise FileError(path, f"an array of {array.dtype}; numbers are wanted")
    if array.ndim != 2:
        raise FileError(path, f"an array of shape {array.shape}; a matrix (2 dimensions) is wanted")
    return np.asarray(array, dtype=np.float64)


def from_sparse(path: str | os.PathLike[str], matrix: Any) -> sp.csr_array:
    """Check a sparse matrix read from a file, index by index, and make it CSR."""
    if matrix.dtype.kind not in "biuf":
        raise FileError(path, f"a sparse matrix of {matrix.dtype}; numbers are wanted")
    if max(matrix.shape) > MOST_ROWS:
        raise FileError(path, f"a matrix of {matrix.shape[0]} × {matrix.shape[1]}; at most "
                              f"{MOST_ROWS} rows and columns can be read")  # fmt: skip
    csr = sp.csr_array(matrix, dtype=np.float64)
    csr.check_format(full_check=True)
    csr.sum_duplicates()
    return csr
