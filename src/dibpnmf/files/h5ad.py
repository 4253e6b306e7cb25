"""AnnData's .h5ad: the matrix X and the names of observations and variables."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import scipy.sparse as sp

from dibpnmf.files.opening import read_bytes
from dibpnmf.files.table import FileError, Table, from_array, from_sparse


def read_h5ad(path: Path) -> Table:
    """Read X, dense or sparse, from AnnData's layout in HDF5."""
    try:
        import h5py
    except ImportError as error:
        text = 'reading .h5ad needs the extra "h5ad": pip install "dibpnmf[h5ad]"'
        raise FileError(path, text) from error
    try:
        with h5py.File(io.BytesIO(read_bytes(path)), "r") as file:
            if "X" not in file:
                raise FileError(path, "no matrix X in it")
            matrix = _matrix(h5py, path, file["X"])
            names = [_names(path, file, group) for group in ("obs", "var")]
    except FileError:
        raise
    except Exception as error:  # of whatever kind: a damaged file may be read as anything
        raise FileError(path, f"not a whole .h5ad file: {error}") from error
    for found, size, group in zip(names, matrix.shape, ("obs", "var"), strict=True):
        if found is not None and len(found) != size:
            raise FileError(path, f"{group} has {len(found)} names, and X {size} of them")
    return Table(matrix, *names)


def _matrix(h5py: Any, path: Path, X: Any) -> Any:
    if isinstance(X, h5py.Dataset):
        return from_array(path, X[()])
    kind = X.attrs.get("encoding-type", X.attrs.get("h5sparse_format", ""))
    make = {"csr_matrix": sp.csr_array, "csc_matrix": sp.csc_array}.get(kind)
    if make is None:
        raise FileError(path, f"X is encoded as {kind!r}; an array, CSR or CSC is wanted")
    shape = tuple(int(n) for n in X.attrs["shape"])
    parts = (X["data"][()], X["indices"][()], X["indptr"][()])
    return from_sparse(path, make(parts, shape=shape))


def _names(path: Path, file: Any, group: str) -> list[str] | None:
    """Names as the group's attribute _index says, or None."""
    if group not in file or "_index" not in file[group].attrs:
        return None
    return [str(name) for name in file[group][file[group].attrs["_index"]].asstr()[()]]
