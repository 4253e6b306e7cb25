"""On-entries of a loadings matrix, listed once a sweep for all rows of the other side."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dibpnmf._borrow import borrow
from dibpnmf._compile import inlined, kernel, spliced

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


class Lists(NamedTuple):
    """On-entries of a loadings matrix: by column (for supports) and by row (for hits).

    Also what sums over all of its rows need: the columns' sums and the Gram matrix XᵀX.
    """

    column_ptr: Ints  # filled even where the lists by column are left empty
    column_rows: NDArray[np.uint32]
    column_values: Floats
    row_ptr: Ints  # where the list of each row begins
    row_stop: Ints  # and ends; up to a multiple of LANES others follow that are zero
    row_columns: NDArray[np.uint32]
    row_values: Floats
    sums: Floats
    gram: Floats


LANES = 8  # the stored cells of a support, and lists of entries, are filled up to a multiple of it


@inlined
def filled(c: int) -> int:
    """Round up to whole vector lanes, as `padded` does to blocks: for stored cells."""
    return (c + LANES - 1) // LANES * LANES


@spliced
def _list_rows(X: Floats) -> tuple[Ints, Ints, NDArray[np.uint32], Floats]:
    """On-entries row after row: where each row begins and ends, their columns and values.

    An entry that is off is written where the next one will be: which are on nobody can predict.
    """
    N, K = X.shape
    row_ptr, row_stop = np.zeros(N + 1, np.int64), np.empty(N, np.int64)
    for n in range(N):
        on = 0
        for k in range(K):
            on += X[n, k] > 0.0
        row_stop[n] = row_ptr[n] + on
        row_ptr[n + 1] = row_ptr[n] + filled(on)
    # Unsigned: a signed one might count from the end.
    row_columns, row_values = np.empty(row_ptr[N] + 1, np.uint32), np.empty(row_ptr[N] + 1)
    for n in range(N):
        at = np.uint64(row_ptr[n])
        for k in range(K):
            row_columns[at] = k
            row_values[at] = X[n, k]
            at += np.uint64(X[n, k] > 0.0)
        for rest in range(np.uint64(row_ptr[n + 1]) - at):
            row_columns[at + rest] = max(K - 1 - np.int64(rest), 0)
            row_values[at + rest] = 0.0
    return row_ptr, row_stop, row_columns[:-1], row_values[:-1]


@kernel
def list_entries(X: Floats, for_all_cells: bool) -> Lists:
    """List the on-entries of a loadings matrix by row and, if asked for, by column.

    Lists by column, sums and the Gram matrix, which costs K² a row, serve sums ``for_all_cells``
    of complete data; where cells are missing nobody reads them, and they are left empty. In a
    column's list what is larger than its mean comes first, for bounds that try some cells only.
    """
    N, K = X.shape
    row_ptr, row_stop, row_columns, row_values = _list_rows(X)
    column_ptr = np.zeros(K + 1, np.int64)
    for p in range(row_columns.size):
        column_ptr[row_columns[p] + 1] += row_values[p] > 0.0
    for k in range(K):
        column_ptr[k + 1] += column_ptr[k]
    total = column_ptr[K] if for_all_cells else 0
    column_rows = np.empty(total, np.uint32)
    column_values = np.empty(total)
    sums = np.zeros(K)
    gram = np.zeros((K, K))
    if for_all_cells:
        for p in range(row_columns.size):
            sums[row_columns[p]] += row_values[p]
        first, last = np.empty(K, np.int64), np.empty(K, np.int64)
        for k in range(K):
            first[k], last[k] = column_ptr[k], column_ptr[k + 1] - 1
        for n in range(N):
            for p in range(row_ptr[n], row_stop[n]):
                k, x = row_columns[p], row_values[p]
                is_large = x * (column_ptr[k + 1] - column_ptr[k]) > sums[k]
                at = first[k] if is_large else last[k]
                column_rows[at] = n
                column_values[at] = x
                first[k] += is_large
                last[k] -= not is_large
                for q in range(row_ptr[n], row_stop[n]):
                    gram[k, row_columns[q]] += x * row_values[q]
    return Lists(
        column_ptr, column_rows, column_values, row_ptr, row_stop, row_columns, row_values, sums,
        gram,
    )  # fmt: skip


@spliced
def borrow_lists(lists: Lists) -> Lists:
    """Same memory without reference counts."""
    return Lists(
        borrow(lists.column_ptr), borrow(lists.column_rows), borrow(lists.column_values),
        borrow(lists.row_ptr), borrow(lists.row_stop), borrow(lists.row_columns),
        borrow(lists.row_values), borrow(lists.sums), borrow(lists.gram),
    )  # fmt: skip
