"""Checks of parameters and input that speak to people: what was wrong, found, and taken."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from numbers import Integral, Real
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray


def one_of(name: str, value: object, allowed: Iterable[str]) -> None:
    """Refuse a value that is not one of the names allowed."""
    allowed = list(allowed)
    if not isinstance(value, str) or value not in allowed:
        choices = ", ".join(repr(choice) for choice in allowed)
        raise ValueError(f"{name} must be one of {choices}; got {value!r}.")


def whole_number(name: str, value: object, least: int) -> int:
    """Refuse what is not an integer of at least ``least``."""
    if isinstance(value, bool) or not isinstance(value, Integral):
        raise TypeError(f"{name} must be an integer of at least {least}; got {value!r}.")
    if value < least:
        raise ValueError(f"{name} must be at least {least}; got {value!r}.")
    return int(value)


def real_number(name: str, value: object, low: float, high: float, taken: str) -> float:
    """Refuse what is not a number within (low, high); ``taken`` says so in words."""
    if isinstance(value, bool) or not isinstance(value, Real):
        raise TypeError(f"{name} must be {taken}; got {value!r}.")
    if not low < float(value) < high:
        raise ValueError(f"{name} must be {taken}; got {value!r}.")
    return float(value)


def true_or_false(name: str, value: object) -> None:
    """Refuse what is not a bool."""
    if not isinstance(value, (bool, np.bool_)):
        raise TypeError(f"{name} must be True or False; got {value!r}.")


def mapping_or_none(name: str, value: object) -> None:
    """Refuse what is neither a dict nor None."""
    if value is not None and not isinstance(value, Mapping):
        raise TypeError(f"{name} must be a dict or None; got {value!r}.")


def nonnegative(Y: Any, method: str) -> None:
    """Refuse a matrix with a negative entry, naming the first one."""
    data = Y.data if sp.issparse(Y) else Y
    if not np.any(data < 0.0):
        return
    if sp.issparse(Y):
        coo = Y.tocoo()
        at = int(np.flatnonzero(coo.data < 0.0)[0])
        row, column, value = coo.row[at], coo.col[at], coo.data[at]
    else:
        row, column = np.argwhere(Y < 0.0)[0]
        value = Y[row, column]
    raise ValueError(
        f"Negative values in data passed to {method}: Y[{row}, {column}] is {value}. "
        "Entries must be zero or positive; shift or clip the data, or use NaN for missing cells."
    )


def some_observed(n_observed: int) -> None:
    """Refuse a matrix without a single observed cell."""
    if n_observed == 0:
        raise ValueError(
            "Y has no observed cell: all of them are missing. At least one cell must be "
            "observed; with zeros='missing' only the stored cells of a sparse matrix are."
        )


def cell_indices(name: str, values: Any, size: int) -> NDArray[np.int64]:
    """Check indices of rows or columns, given as an integer or a list of them."""
    index = np.atleast_1d(np.asarray(values))
    if index.ndim != 1 or (index.size and not np.issubdtype(index.dtype, np.integer)):
        raise TypeError(
            f"{name} must be an integer or a 1-d array of integers; got dtype "
            f"{index.dtype} with shape {index.shape}."
        )
    if index.size and not (index.min() >= 0 and index.max() < size):
        bad = index[(index < 0) | (index >= size)][0]
        raise ValueError(f"{name} must lie in 0..{size - 1}; got {bad}.")
    return index.astype(np.int64)


def cells(
    rows: Any, cols: Any, shape: tuple[int, int]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Check pairs of indices of cells; a single index goes with each of the others."""
    i = cell_indices("rows", rows, shape[0])
    j = cell_indices("cols", cols, shape[1])
    if i.size != j.size and 1 not in (i.size, j.size):
        raise ValueError(f"rows and cols must be equally long; got {i.size} and {j.size} indices.")
    i, j = np.broadcast_arrays(i, j)
    return np.ascontiguousarray(i), np.ascontiguousarray(j)
