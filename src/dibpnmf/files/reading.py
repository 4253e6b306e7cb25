"""Which reader a file gets."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import scipy.sparse as sp

from dibpnmf.files.delimited import Line, parse_table, path_ends, read_lines
from dibpnmf.files.h5ad import read_h5ad
from dibpnmf.files.matrix_market import read_matrix_market
from dibpnmf.files.numbers import MISSING
from dibpnmf.files.numpy_files import read_npy, read_npz
from dibpnmf.files.parquet import read_parquet
from dibpnmf.files.table import FileError, Table, shown
from dibpnmf.files.triplets import are_triplets, parse_triplets

_TEXT = (".csv", ".tsv", ".tab", ".txt", ".data")
_BINARY: dict[str, Callable[[Path], Table]] = {
    ".mtx": read_matrix_market,
    ".npy": read_npy,
    ".npz": read_npz,
    ".parquet": read_parquet,
    ".h5ad": read_h5ad,
}
FORMATS = (*_TEXT, *_BINARY)
LAYOUTS = ("auto", "table", "triplets")


def read_table(
    path: str | os.PathLike[str],
    layout: str = "auto",
    missing: Iterable[str] = (),
    zeros_missing: bool = False,
    label: str | None = None,
    leaves_out: bool = False,
) -> Table:
    """Read a data file.

    Parameters
    ----------
    path : path
        CSV, TSV or other delimited text, Matrix Market, .npy, .npz (dense, or scipy's sparse),
        Parquet or .h5ad; each may be gzipped.
    layout : {"auto", "table", "triplets"}, default="auto"
        Of delimited text: a matrix, or one cell a line. "auto" takes a header row,col,value
        for the latter, or ``leaves_out`` and three or four columns.
    missing : iterable of str
        Cells of text that are missing, beside those empty, NA, NaN, null and the like.
    zeros_missing : bool, default=False
        Whether cells that are zero are missing.
    label : str, optional
        A column of delimited text that is no part of the matrix: a known class of each row.
    leaves_out : bool, default=False
        Whether the file is known not to have all cells.

    Returns
    -------
    Table
        Checked: every entry is missing or a finite number >= 0.

    Raises
    ------
    FileError
        In one line: file, row, column, what was found.
    """
    path = Path(path)
    if path.is_dir():
        raise FileError(path, "a folder; a file is wanted")
    if not path.exists():
        raise FileError(path, "no such file")
    if not path.is_file():
        raise FileError(path, "not a regular file")
    tokens = MISSING | {text.strip().casefold() for text in missing}
    try:
        table = _read(path, layout, tokens, label, leaves_out)
    except MemoryError as error:
        raise FileError(path, "too large for the memory of this machine") from error
    table = table.checked(path)
    return replace(table, matrix=_without_zeros(table.matrix)) if zeros_missing else table


def _read(
    path: Path, layout: str, missing: frozenset[str], label: str | None, leaves_out: bool
) -> Table:
    is_text = path_ends(path, *_TEXT)
    lines: Iterator[Line] = read_lines(path) if is_text else iter(())
    first = next(lines, None)
    triplets = first is not None and (
        layout == "triplets"
        or (layout == "auto" and label is None and are_triplets(first, leaves_out))
    )
    if label is not None and (first is None or triplets):
        raise FileError(path, f"a column of labels, {shown(label)}, is only read from a table of "
                              "delimited text; give a file of labels instead")  # fmt: skip
    if first is not None:
        if triplets:
            return parse_triplets(path, first, lines, missing)
        return parse_table(path, first, lines, missing, label)
    for end, reader in _BINARY.items():
        if path_ends(path, end):
            return reader(path)
    raise FileError(path, f"its name ends in none of {', '.join(FORMATS)} (.gz may follow)")


def _without_zeros(matrix: np.ndarray | sp.csr_array) -> np.ndarray | sp.csr_array:
    if sp.issparse(matrix):
        matrix.eliminate_zeros()
        return matrix
    return np.where(matrix == 0.0, np.nan, matrix)
