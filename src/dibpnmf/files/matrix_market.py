"""Matrix Market files."""

from __future__ import annotations

import io
from pathlib import Path

import scipy.io
import scipy.sparse as sp

from dibpnmf.files.opening import read_bytes
from dibpnmf.files.table import MOST_ROWS, FileError, Table, from_array, from_sparse


def read_matrix_market(path: Path) -> Table:
    """Read coordinates or a dense array; a pattern's entries are ones."""
    data = read_bytes(path)
    try:
        rows, columns, _, layout, field, _ = scipy.io.mminfo(io.BytesIO(data))
        _check_size(path, data, rows, columns, layout, field)
        matrix = scipy.io.mmread(io.BytesIO(data))
    except FileError:
        raise
    except (ValueError, OverflowError, TypeError, EOFError, MemoryError, OSError) as error:
        raise FileError(path, f"not a whole Matrix Market file: {error}") from error
    if sp.issparse(matrix):
        return Table(from_sparse(path, matrix))
    return Table(from_array(path, matrix))


def _check_size(path: Path, data: bytes, rows: int, columns: int, layout: str, field: str) -> None:
    """Refuse sizes that the file cannot hold, before room is made for them."""
    if field == "complex":
        raise FileError(path, "complex numbers; real ones are wanted")
    if layout == "array" and rows * columns > len(data):
        raise FileError(path, f"an array of {rows} × {columns} in {len(data)} bytes (cut off?)")
    if max(rows, columns) > MOST_ROWS:
        raise FileError(path, f"a matrix of {rows} × {columns}; at most {MOST_ROWS} rows and "
                              "columns can be read")  # fmt: skip
