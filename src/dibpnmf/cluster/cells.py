"""What workers do with parts of Y: check them, take them apart, and put blocks of rows together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from dibpnmf import _validation as check
from dibpnmf.likelihoods import LIKELIHOODS
from dibpnmf.likelihoods.base import moment_sums
from dibpnmf.observations import Cells, row_sums

Floats = NDArray[np.float64]

_NAMES = (("row",), ("column", "col"), ("value",))
_MOST = 2**31 - 1  # rows or columns


class Triplets(NamedTuple):
    """Stored cells with their places in the whole matrix."""

    rows: NDArray[np.integer]
    columns: NDArray[np.integer]
    values: Floats

    def at(self, which: NDArray[Any]) -> Triplets:
        """Some of them."""
        return Triplets(self.rows[which], self.columns[which], self.values[which])


@dataclass(frozen=True)
class TripletFile:
    """A file's cells as they are, and the shape that they need."""

    cells: Triplets
    shape: tuple[int, int]


class Facts(NamedTuple):
    """What must be known of all parts before any of them is taken apart."""

    shape: tuple[int, int]
    is_sparse: bool
    has_missing: bool


@dataclass(frozen=True)
class Rules:
    """How to read cells: as `fit` would read the whole matrix."""

    zeros: str
    is_complete: bool
    likelihood: str
    largest: float


def read_triplets(path: str) -> TripletFile:
    """Read row, column and value of a file's cells, and the matrix's shape if it says so."""
    try:
        if path.endswith(".parquet"):
            import pyarrow.parquet as pq

            table = pq.read_table(path)
            found = {name: table.column(name).to_numpy() for name in table.column_names}
        else:
            with np.load(path, allow_pickle=False) as stored:
                found = {name: stored[name] for name in stored.files}
        names = [next(name for name in known if name in found) for known in _NAMES]
    except StopIteration:
        raise ValueError(
            f"{path} must hold arrays row, column and value; it has {', '.join(sorted(found))}."
        ) from None
    except ImportError as error:
        raise ImportError(f"{path} needs pyarrow: pip install 'dibpnmf[parquet]'.") from error
    except Exception as error:  # of whatever kind: the file is damaged, or gone
        raise ValueError(f"{path} cannot be read: {type(error).__name__}: {error}") from None
    rows, columns, values = (np.asarray(found[name]).ravel() for name in names)
    if not rows.size == columns.size == values.size:
        raise ValueError(f"{path}: row, column and value must be equally long.")
    if values.dtype.kind not in "biuf":
        raise TypeError(f"{path}: value must be numbers; it is {values.dtype}.")
    shape = [_extent(path, name, index) for name, index in (("row", rows), ("column", columns))]
    if "shape" in found:
        shape = [max(a, int(b)) for a, b in zip(shape, found["shape"], strict=True)]
    cells = Triplets(rows.astype(np.int32), columns.astype(np.int32), values.astype(np.float64))
    return TripletFile(cells, (shape[0], shape[1]))


def _extent(path: str, name: str, index: NDArray[Any]) -> int:
    """One more than the largest index."""
    if index.dtype.kind not in "iu":
        raise TypeError(f"{path}: {name} must be whole numbers from 0 up; it is {index.dtype}.")
    if index.size and not 0 <= index.min() <= index.max() < _MOST:
        raise ValueError(
            f"{path}: {name} must lie in 0..{_MOST - 1}; found {index.min()} and {index.max()}."
        )
    return int(index.max()) + 1 if index.size else 0


def _plain(part: Any) -> Any:
    """Make a part a float64 array or a sparse CSR array."""
    if isinstance(part, TripletFile):
        return part
    if hasattr(part, "to_scipy_sparse"):
        part = part.to_scipy_sparse()
    is_sparse = sp.issparse(part)
    part = part if is_sparse else np.asarray(part)
    if part.ndim != 2 or part.dtype.kind not in "biuf":
        raise TypeError(
            "Blocks of Y must be matrices (2-d array or sparse matrix) of numbers >= 0, NaN where "
            f"missing; one is a {type(part).__name__} of shape {part.shape} and dtype {part.dtype}."
        )
    if not is_sparse:
        return part.astype(np.float64, copy=False)
    matrix = sp.csr_array(part, dtype=np.float64, copy=True)  # the caller's must not change
    matrix.sum_duplicates()
    return matrix


def facts_of(part: Any) -> Facts:
    """Look at a part's shape and whether cells are missing in it."""
    part = _plain(part)
    if isinstance(part, TripletFile):
        return Facts(part.shape, True, bool(np.isnan(part.cells.values).any()))
    is_sparse = bool(sp.issparse(part))
    values = part.data if is_sparse else part
    return Facts(part.shape, is_sparse, bool(np.isnan(values).any()))


def clean(part: Any, offset: tuple[int, int], rules: Rules) -> Triplets:
    """Check a part whose first cell is at ``offset``, and list the cells that are stored."""
    part = _plain(part)
    if isinstance(part, TripletFile):
        cells = part.cells
        shape = tuple(max(n, 1) for n in part.shape)
        matrix: Any = sp.coo_array((cells.values, (cells.rows, cells.columns)), shape=shape)
    else:
        matrix = part
    check.nonnegative(matrix, "DIBPNMF.fit", offset)
    check.not_above(matrix, "DIBPNMF.fit", rules.largest, offset)
    is_sparse = bool(sp.issparse(part))
    values = matrix.data if is_sparse or isinstance(part, TripletFile) else matrix
    LIKELIHOODS[rules.likelihood]().refuse(values[~np.isnan(values)])
    if isinstance(part, TripletFile):
        return _kept(cells, rules.is_complete)
    if is_sparse and not rules.is_complete and rules.zeros == "observed":
        part, is_sparse = part.toarray(), False  # zeros beside missing cells: all are listed
    if is_sparse:
        coo = part.tocoo()
        cells = Triplets(coo.row, coo.col, coo.data)
    else:
        rows, columns = np.nonzero(part != 0.0) if rules.is_complete else np.nonzero(part == part)
        cells = Triplets(rows, columns, part[rows, columns])
    cells = _kept(cells, rules.is_complete)
    return Triplets(
        (cells.rows + offset[0]).astype(np.int32), (cells.columns + offset[1]).astype(np.int32),
        cells.values,
    )  # fmt: skip


def _kept(cells: Triplets, is_complete: bool) -> Triplets:
    """Without zeros where these are observed anyway; without missing cells."""
    keep = cells.values != 0.0 if is_complete else ~np.isnan(cells.values)
    return cells if keep.all() else cells.at(keep)


def count(cells: Triplets, t: int, start: int, size: int) -> NDArray[np.int64]:
    """Cells in each row (t = 0) or column (t = 1) from ``start`` on."""
    return np.bincount(cells[t] - start, minlength=size).astype(np.int64)


def add(parts: Sequence[NDArray[np.int64]]) -> NDArray[np.int64]:
    """Add counts of the same rows."""
    return np.sum(parts, axis=0)


def split(cells: Triplets, t: int, bounds: NDArray[np.int64]) -> list[Triplets]:
    """Take cells apart by the block of side t that they belong to."""
    block = np.searchsorted(bounds, cells[t], side="right") - 1
    order = np.argsort(block, kind="stable")
    ends = np.searchsorted(block[order], np.arange(bounds.size))
    return [cells.at(order[a:b]) for a, b in pairwise(ends)]


def assemble(
    pieces: Sequence[Triplets], t: int, start: int, stop: int, scale: float = 1.0
) -> Cells:
    """Put rows start..stop of side t together, values divided by ``scale``."""
    joined = Triplets(*(np.concatenate(arrays) for arrays in zip(*pieces, strict=True)))
    own, other = joined[t], joined[1 - t]
    order = np.lexsort((other, own))
    own, other = own[order], other[order]
    again = np.flatnonzero((own[1:] == own[:-1]) & (other[1:] == other[:-1]))
    if again.size:
        cell = (own[again[0]], other[again[0]])
        raise ValueError(f"The cell Y[{cell[t]}, {cell[1 - t]}] is given twice.")
    indptr = np.searchsorted(own, np.arange(start, stop + 1)).astype(np.int64)
    return Cells(indptr, other.astype(np.int32), joined.values[order] / scale, start)


def rescale(cells: Cells, scale: float) -> Cells:
    """Divide the values."""
    return cells._replace(values=cells.values / scale)


def add_rows(_: None, start: int, stop: int, cells: Cells, out: Floats) -> None:
    """Sum of each row's cells."""
    out[start:stop, 0] = row_sums(cells.indptr[start : stop + 1], cells.values)


def moments_of(cells: Cells, mean: float) -> tuple[float, float, float, float]:
    """What a likelihood's doubts need to know of a block."""
    return moment_sums(cells.values, mean)


def triplet_files(folder: Path) -> list[str]:
    """Files of triplets in a folder, in order of their names."""
    if not folder.is_dir():
        raise ValueError(
            f"Y must be a matrix, or the folder of its triplets; {folder} is no folder here."
        )
    endings = (".npz", ".parquet")
    found = sorted(
        str(path.resolve())
        for path in folder.iterdir()
        if path.suffix in endings and not path.name.startswith((".", "_"))
    )
    if not found:
        raise ValueError(f"{folder} has no file of triplets (.npz or .parquet).")
    return found
