"""Embedding and prediction of dask arrays: a chunk at a time, when it is asked for."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import dask.array as da
import numpy as np
from dask.delayed import delayed
from numpy.typing import NDArray

Floats = NDArray[np.float64]


def map_rows(
    function: Callable[[Any], Floats], Y: da.Array, n_columns: int, n_out: int
) -> da.Array:
    """Apply a function of whole rows to each chunk of them."""
    if Y.ndim != 2 or (Y.shape[1] != n_columns and not np.isnan(Y.shape[1])):
        raise ValueError(
            f"Y must be a matrix with the {n_columns} columns of the fitted one; got a dask array "
            f"of shape {Y.shape}."
        )
    if Y.dtype.kind not in "biuf":
        raise TypeError(f"Y must be numbers; got a dask array of dtype {Y.dtype}.")
    if Y.numblocks[1] > 1:
        Y = Y.rechunk({1: -1})
    chunks = (Y.chunks[0], (n_out,))
    held = delayed(_Apply(function), pure=False)  # sent once, not with every chunk
    meta = np.empty((0, 0))
    return da.map_blocks(_call, Y, function=held, dtype=np.float64, chunks=chunks, meta=meta)


def map_cells(function: Callable[[Any, Any], Any], rows: Any, columns: Any, n_out: int) -> da.Array:
    """Apply a function of cells, given as pairs of indices, to each chunk of them."""
    given = [da.atleast_1d(da.asarray(index)) for index in (rows, columns)]
    for index in given:
        if index.ndim != 1 or index.dtype.kind not in "iu":
            raise TypeError(
                "rows and cols must be 1-d arrays of integers; got a dask array with "
                f"{index.ndim} dimension(s) and dtype {index.dtype}."
            )
    i, j = da.broadcast_arrays(*given)
    held = delayed(_Apply(function), pure=False)
    return da.map_blocks(
        _call, i, j, function=held, dtype=np.float64, new_axis=0,
        chunks=((n_out,), i.chunks[0]), meta=np.empty((0, 0)),
    )  # fmt: skip


class _Apply:
    """A function that Dask does not look into."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self.function = function


def _call(*arrays: Any, function: _Apply) -> Any:
    return function.function(*arrays)
