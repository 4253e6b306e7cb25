"""Checks of parameters and input that speak to people: what was wrong, found, and taken."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Mapping
from numbers import Integral, Real
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.utils import check_random_state
from sklearn.utils.validation import validate_data

Floats = NDArray[np.float64]


def one_of(name: str, value: object, allowed: Iterable[str]) -> None:
    """Refuse a value that is not one of the names allowed."""
    allowed = list(allowed)
    if not isinstance(value, str) or value not in allowed:
        choices = ", ".join(repr(choice) for choice in allowed)
        raise ValueError(f"{name} must be one of {choices}; got {value!r}.")


def whole_number(name: str, value: object, least: int, most: int | None = None) -> int:
    """Refuse what is not an integer of at least ``least`` and at most ``most``."""
    if isinstance(value, bool) or not isinstance(value, Integral):
        raise TypeError(f"{name} must be an integer of at least {least}; got {value!r}.")
    if value < least:
        raise ValueError(f"{name} must be at least {least}; got {value!r}.")
    if most is not None and int(value) > most:
        raise ValueError(f"{name} must be at most {most}; got {value!r}.")
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


def threads(name: str, value: object) -> None:
    """Refuse what is neither None nor an integer other than 0."""
    if value is None:
        return
    taken = "an integer other than 0, as -1 for all cores"
    if isinstance(value, bool) or not isinstance(value, Integral):
        raise TypeError(f"{name} must be {taken}; got {value!r}.")
    if value == 0:
        raise ValueError(f"{name} must be {taken}; got {value!r}.")


def executor(name: str, value: object) -> None:
    """Refuse what is neither the name of an executor nor a Dask client."""
    # Whoever has a client has imported distributed; others need not.
    distributed = sys.modules.get("distributed")
    if distributed is not None and isinstance(value, distributed.Client):
        return
    if not isinstance(value, str) or value not in ("threads", "serial", "dask"):
        raise ValueError(
            f"{name} must be 'threads', 'serial', 'dask' or a distributed.Client; got {value!r}."
        )


def seed(name: str, value: Any) -> None:
    """Refuse what does not seed a random state."""
    try:
        check_random_state(value)
    except (ValueError, TypeError) as error:
        raise ValueError(
            f"{name} must be None, an integer in 0..2**32 - 1 or a RandomState; got {value!r}."
        ) from error


def mapping_or_none(name: str, value: object) -> None:
    """Refuse what is neither a dict nor None."""
    if value is not None and not isinstance(value, Mapping):
        raise TypeError(f"{name} must be a dict or None; got {value!r}.")


def path_or_none(name: str, value: object) -> None:
    """Refuse what is neither None nor names a path."""
    if value is None:
        return
    if not isinstance(value, (str, os.PathLike)):
        raise TypeError(f"{name} must be None or the path of a folder; got {value!r}.")
    if not os.fspath(value) or "\0" in str(value):
        raise ValueError(f"{name} must be None or the path of a folder; got {value!r}.")


def is_dask_array(Y: Any) -> bool:
    """Whether this is a dask array. Whoever has one has imported dask; others need not."""
    array = sys.modules.get("dask.array")
    return array is not None and isinstance(Y, array.Array)


def lies_elsewhere(Y: Any) -> bool:
    """Whether this is a dask array, a list of delayed blocks, or the path of a folder."""
    if isinstance(Y, (str, os.PathLike)) or is_dask_array(Y):
        return True
    delayed = sys.modules.get("dask.delayed")
    return (
        delayed is not None
        and isinstance(Y, (list, tuple))
        and len(Y) > 0
        and all(isinstance(block, delayed.Delayed) for block in Y)
    )


def not_elsewhere(Y: Any, method: str) -> None:
    """Refuse a matrix that lies elsewhere where it would have to be gathered."""
    is_text = isinstance(Y, (str, os.PathLike)) and not os.path.isdir(Y)
    if lies_elsewhere(Y) and not is_text:
        raise TypeError(
            f"{method} would gather Y, a {type(Y).__name__}, in this process. Give "
            "executor='dask' or a client for a fit where it lies, or the matrix itself."
        )


def matrix(model: Any, Y: Any, reset: bool, largest: float) -> Floats | sp.csr_array:
    """Check a matrix and make it float64, dense or CSR without duplicates.

    scikit-learn's own checks run inside; their messages get the argument, what was found and
    what is taken in front.
    """
    taken = "a matrix (2-d array, sparse matrix or DataFrame) of numbers >= 0, NaN where missing"
    if not reset:
        taken += f", with the {model.n_features_in_} columns of the fitted matrix"
    try:
        _refuse_other_than_real(Y)
        if isinstance(Y, np.ma.MaskedArray):
            Y = np.ma.filled(Y.astype(np.float64), np.nan)
        read: Any = validate_data(
            model, Y, reset=reset, accept_sparse=["csr", "csc", "coo"], dtype=np.float64,
            ensure_all_finite=False,
        )  # fmt: skip
    except (ValueError, TypeError) as error:
        kind = ValueError if isinstance(error, ValueError) else TypeError
        lines = str(error).splitlines()
        reason = " ".join(dict.fromkeys([lines[0], lines[-1]]))  # between them are the data
        raise kind(f"Y must be {taken}; got {_describe(Y)}. {reason}") from error
    if _is_sparse(read):
        # A copy, where it may change: the caller's own arrays must not.
        read = sp.csr_array(read, copy=not getattr(read, "has_canonical_format", False))
        read.sum_duplicates()
    method = f"{type(model).__name__}.fit" if reset else type(model).__name__
    nonnegative(read, method)
    not_above(read, method, largest)
    return read


def _is_sparse(Y: Any) -> bool:
    # Not a type guard, as issparse is: its type lacks the attributes that all formats have.
    return bool(sp.issparse(Y))


def _refuse_other_than_real(Y: Any) -> None:
    """Refuse complex numbers, and strings and dates, which NumPy would turn into numbers."""
    values = Y if _is_sparse(Y) else np.asarray(Y)
    if values.dtype.kind == "c":
        raise ValueError("Complex data not supported.")
    text = values.dtype.kind not in "biufO"
    if values.dtype.kind == "O":
        text = any(isinstance(value, (str, bytes)) for value in values.flat)
    if text:
        raise TypeError(f"Its entries{_in_column(Y)} are {values.dtype}: the argument must be a "
                        "number, not a string or a date, in each of them.")  # fmt: skip


def _in_column(Y: Any) -> str:
    """Name the first column of a pandas DataFrame that is not all numbers."""
    if not hasattr(Y, "iloc"):
        return ""
    for at, name in enumerate(Y.columns):
        values = np.asarray(Y.iloc[:, at])
        if values.dtype.kind not in "biufcO" or any(isinstance(v, (str, bytes)) for v in values):
            return f" in column {name!r}"
    return ""


def _describe(Y: Any) -> str:
    """Name type, shape and dtype of what was given for a matrix."""
    words = type(Y).__name__
    if hasattr(Y, "shape"):
        words += f" of shape {tuple(Y.shape)}"
    if hasattr(Y, "dtype"):
        words += f" and dtype {Y.dtype}"
    return words


def nonnegative(Y: Any, method: str, corner: tuple[int, int] = (0, 0)) -> None:
    """Refuse a matrix with a negative entry, naming the first one.

    ``corner`` is where its first cell lies in the whole matrix.
    """
    data = Y.data if _is_sparse(Y) else Y
    if np.any(data < 0.0):
        raise ValueError(
            f"Negative values in data passed to {method}: {_first(Y, np.less, 0.0, corner)}. "
            "Entries "
            "of Y must be zero or positive; shift or clip the data, or use NaN for missing cells."
        )


def not_above(Y: Any, method: str, largest: float, corner: tuple[int, int] = (0, 0)) -> None:
    """Refuse a matrix with an infinite or too large entry, naming the first one."""
    data = Y.data if _is_sparse(Y) else Y
    if np.any(data > largest):
        raise ValueError(
            f"Infinite or too large values in data passed to {method}: "
            f"{_first(Y, np.greater, largest, corner)}. Entries of Y must be finite and at most "
            f"{largest:.0e}; rescale or clip the data, or use NaN for missing cells."
        )


def _first(Y: Any, is_bad: Any, bound: float, corner: tuple[int, int]) -> str:
    """Say where the first bad entry is, and its value."""
    if _is_sparse(Y):
        coo = Y.tocoo()
        at = int(np.flatnonzero(is_bad(coo.data, bound))[0])
        row, column, value = coo.row[at], coo.col[at], coo.data[at]
    else:
        row, column = np.argwhere(is_bad(Y, bound))[0]
        value = Y[row, column]
    return f"Y[{row + corner[0]}, {column + corner[1]}] is {value}"


def new_columns(model: Any, n_columns: int) -> None:
    """Set what scikit-learn's own check of a matrix sets, for one that it never sees."""
    model.n_features_in_ = n_columns
    if hasattr(model, "feature_names_in_"):
        del model.feature_names_in_


def names(name: str, given: Any, default: Any, size: int) -> list[str] | None:
    """Check names of rows or columns: those given, else a DataFrame's, else None."""
    found = given if given is not None else default
    if found is None or callable(found):  # a list's index is a method
        return None
    if isinstance(found, str) or not isinstance(found, Iterable):
        raise TypeError(f"{name} must be a sequence of {size} names; got {found!r}.")
    texts = [str(one) for one in found]
    if len(texts) != size:
        raise ValueError(f"{name} must be {size} names, one for each; got {len(texts)}.")
    return texts


def some_observed(n_observed: int) -> None:
    """Refuse a matrix without a single observed cell."""
    if n_observed == 0:
        raise ValueError(
            "Y has no observed cell: all of them are missing. At least one cell must be "
            "observed; with zeros='missing' only the stored cells of a sparse matrix are."
        )


def levels(name: str, values: Any) -> Floats:
    """Check a set of values that entries can take; return it in order."""
    try:
        known = np.unique(np.asarray(values, dtype=np.float64))
    except (TypeError, ValueError):
        known = np.empty(0)
    if known.size < 2 or not np.all(np.isfinite(known)) or known[0] < 0.0:
        raise ValueError(
            f"{name} must be at least two different finite numbers >= 0; got {values!r}."
        )
    return known


def cell_indices(
    name: str, values: Any, size: int, known: list[str] | None = None
) -> NDArray[np.int64]:
    """Check indices of rows or columns, given as an integer or a list of them.

    Or by the names that are ``known``; of equal ones the first is meant.
    """
    index = np.atleast_1d(np.asarray(values))
    if known is not None and index.size and all(isinstance(one, str) for one in index.flat):
        places = {text: at for at, text in reversed(list(enumerate(known)))}
        strange = [one for one in index.flat if one not in places]
        if strange:
            raise ValueError(f"{name} must be known names or indices; got {str(strange[0])!r}.")
        index = np.array([places[one] for one in index.flat]).reshape(index.shape)
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
    rows: Any,
    cols: Any,
    shape: tuple[int, int],
    known: tuple[list[str] | None, list[str] | None] = (None, None),
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Check pairs of indices, or names, of cells; a single one goes with each of the others."""
    i = cell_indices("rows", rows, shape[0], known[0])
    j = cell_indices("cols", cols, shape[1], known[1])
    if i.size != j.size and 1 not in (i.size, j.size):
        raise ValueError(f"rows and cols must be equally long; got {i.size} and {j.size} indices.")
    i, j = np.broadcast_arrays(i, j)
    return np.ascontiguousarray(i), np.ascontiguousarray(j)
