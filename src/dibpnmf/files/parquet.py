"""Parquet, with the extra of that name."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import numpy as np

from dibpnmf.files.opening import read_bytes
from dibpnmf.files.table import FileError, Table


def read_parquet(path: Path) -> Table:
    """Read a table of numbers; a first column of text holds the names of rows."""
    try:
        import pyarrow as pa
        import pyarrow.parquet as pq
    except ImportError as error:
        text = 'reading Parquet needs the extra "parquet": pip install "dibpnmf[parquet]"'
        raise FileError(path, text) from error
    try:
        table = pq.read_table(io.BytesIO(read_bytes(path)))
    except Exception as error:  # of whatever kind
        raise FileError(path, f"not a whole Parquet file: {error}") from error
    names = [str(name) for name in table.column_names]
    if not names:
        raise FileError(path, "a table without columns")
    at = next((i for i, name in enumerate(names) if name == "__index_level_0__"), 0)
    rows = None
    if _is_text(pa, table.column(at)):
        rows = [str(value) for value in table.column(at).to_pylist()]
        table, names = table.remove_column(at), names[:at] + names[at + 1 :]
    columns = [_numbers(pa, path, table.column(j), j, names[j]) for j in range(len(names))]
    if not columns:
        raise FileError(path, "names of rows and no column of numbers")
    return Table(np.column_stack(columns), rows, names)


def _is_text(pa: Any, column: Any) -> bool:
    kind = column.type
    if pa.types.is_dictionary(kind):
        kind = kind.value_type
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))


def _numbers(pa: Any, path: Path, column: Any, at: int, name: str) -> Any:
    kind = column.type
    if not (pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_boolean(kind)):
        raise FileError(path, f"found {kind}; numbers are wanted", None, f"{at + 1} ({name!r})")
    return column.cast(pa.float64(), safe=False).to_numpy()
