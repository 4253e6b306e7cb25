"""NumPy's .npy and .npz, and scipy's sparse .npz. Never with pickle."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from dibpnmf.files.opening import read_bytes
from dibpnmf.files.table import FileError, Table, from_array, from_sparse

_NAMES = ("row_names", "column_names")


def read_npy(path: Path) -> Table:
    """Read one array."""
    return Table(from_array(path, _load(path)))


def read_npz(path: Path) -> Table:
    """Read scipy's sparse matrix, or the one matrix of an archive, with ``row_names`` and
    ``column_names`` if it has them.
    """  # noqa: D205
    stored = _load(path)
    if not isinstance(stored, dict):
        return Table(from_array(path, stored))
    if "format" in stored and "shape" in stored:
        return Table(_sparse(path))
    matrices = [name for name in stored if name not in _NAMES]
    if len(matrices) != 1:
        held = ", ".join(matrices) or "none"
        raise FileError(path, f"one array is wanted, beside row_names and column_names; it has "
                              f"{len(matrices)}: {held}")  # fmt: skip
    if not isinstance(stored[matrices[0]], np.ndarray):
        raise FileError(path, f"it holds {matrices[0]!r}, which is not an array")
    matrix = from_array(path, stored[matrices[0]])
    names = [_names(path, stored, name, matrix.shape[t]) for t, name in enumerate(_NAMES)]
    return Table(matrix, *names)


def _load(path: Path) -> Any:
    """Read an array, or the arrays of an archive as a dict."""
    data = read_bytes(path)
    try:
        loaded = np.load(io.BytesIO(data), allow_pickle=False)
        if isinstance(loaded, np.ndarray):
            return loaded
        return {name: loaded[name] for name in loaded.files}
    except Exception as error:  # of whatever kind: a damaged header is parsed as Python
        reason = str(error)
        if "allow_pickle" in reason or "Object arrays" in reason or "pickle" in reason:
            reason = "it is none, or holds Python objects (a pickle), which are never loaded"
        raise FileError(path, f"not a whole NumPy file: {reason}") from error


def _sparse(path: Path) -> sp.csr_array:
    try:
        return from_sparse(path, sp.load_npz(io.BytesIO(read_bytes(path))))
    except FileError:
        raise
    except Exception as error:
        raise FileError(path, f"not a valid sparse matrix: {error}") from error


def _names(path: Path, stored: dict[str, Any], name: str, size: int) -> list[str] | None:
    if name not in stored:
        return None
    names = np.asarray(stored[name])
    if names.shape != (size,):
        raise FileError(path, f"{name} has shape {names.shape}; {size} names are wanted")
    return [str(one) for one in names.tolist()]
