"""An open row: its λ, and the support of one column gathered, taken out and put back.

The working memory of a row (`Row`) holds its λ, the support of column k gathered into
contiguous arrays, and the stored cells ("hits") sorted by column.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dibpnmf._borrow import borrow
from dibpnmf._compile import inlined, spliced
from dibpnmf.likelihoods.lists import LANES, Floats, Ints, Lists, filled
from dibpnmf.observations import Cells
from dibpnmf.random import Stream


class Row(NamedTuple):
    """Working memory for one row; "local" cells are all N, or the stored ones if others miss.

    As the exponential and Poisson likelihoods fill it. The Gaussian needs less: see its file.
    Where every cell of a row is stored the columns' lists serve for its hits: see `is_full`.
    """

    mean: Floats  # λ of each local cell
    y: Floats  # value of each local cell that is stored
    column: Ints  # column n of each stored cell
    hit_end: Ints  # stored cells that column k reaches: hit[first_hit(row, k) : hit_end[k]]
    hit: NDArray[np.uint32]  # as local cells
    hit_x: Floats
    stored: Ints  # how many cells are stored
    totals: Floats  # a number for each column k and one for the row, the likelihood's own
    support: Floats  # room for Entry.support
    grid: Floats  # room for Entry.grid


class Entry(NamedTuple):
    """One entry taken out of its row: what its conditional depends on.

    Five lines of ``support``, named by the constants below; the first two are left empty where all
    cells are stored. The innermost functions take its fields one by one: passing the whole tuple
    would count references at every call.
    """

    support: Floats
    grid: Floats  # nodes of the proposal, in the lines named below
    m: int  # cells in the support
    c: int  # stored cells among them
    base_level: float  # log likelihood of the support without the entry, as r: it is r − log q
    guess: float = 0.0  # where v may be if it is on, if the likelihood has it at hand
    # Log likelihood of the support with the entry as it is, r − log q; r is NaN if not at hand.
    present: float = math.nan
    present_factor: float = 1.0
    base_factor: float = 1.0  # q of the one without the entry
    # Derivatives of L(v), Eq. (19), at v = 0, the second one negated; infinite if not at hand.
    slope: float = math.inf
    bend: float = math.inf

    @property
    def level(self) -> float:
        """Log likelihood of the support without the entry."""
        return self.base_level - math.log(self.base_factor)


@inlined
def level_of(entry: Entry) -> float:
    """Log likelihood of the support without the entry."""
    return entry.base_level - math.log(entry.base_factor)


# Lines of Entry.support: b (λ without the entry) and x of every supporting cell, then b, x and
# y of the stored ones.
BASE, LOAD, HIT_BASE, HIT_LOAD, HIT_VALUE = range(5)
# Lines of Entry.grid: log v, log density, and the mass that ends there.
NODE, HEIGHT, MASS = range(3)
MAX_NODES = 64
# Below this share of a·x, b = λ − a·x has lost too many digits and is summed afresh.
_CANCELLED = 2.0**-20
BLOCK = 32  # cells that are multiplied together at once


@inlined
def padded(m: int) -> int:
    """Round up to whole blocks: a partial one would run cell by cell."""
    return (m + BLOCK - 1) // BLOCK * BLOCK


@spliced
def new_row(cells: Cells, complete: bool, N: int, K: int) -> Row:
    """Allocate working memory that is large enough for every row."""
    stored = 0
    for i in range(cells.indptr.size - 1):
        stored = max(stored, cells.indptr[i + 1] - cells.indptr[i])
    local = N if complete else stored
    most_hits = (stored + 1) * K  # what is never written takes no memory
    return Row(
        np.empty(local), np.empty(local), np.empty(stored, np.int64),
        np.empty(K, np.int64), np.empty(most_hits, np.uint32), np.empty(most_hits),
        np.zeros(1, np.int64), np.empty(K + 1), np.empty((5, padded(max(local, 1)))),
        np.empty((3, MAX_NODES)),
    )  # fmt: skip


@spliced
def borrow_row(row: Row) -> Row:
    """Same memory without reference counts; ``row`` must outlive it (see `_borrow`)."""
    return Row(
        borrow(row.mean), borrow(row.y), borrow(row.column), borrow(row.hit_end),
        borrow(row.hit), borrow(row.hit_x), borrow(row.stored),
        borrow(row.totals), borrow(row.support), borrow(row.grid),
    )  # fmt: skip


@spliced
def keep(s: Stream, row: Row) -> None:
    """Be used after the loops that borrow from ``s`` and ``row``, so that these live so long."""
    s[0] = np.uint64(0)
    row.stored[0] = 0


@spliced
def borrow_cells(cells: Cells) -> Cells:
    """Same memory without reference counts."""
    return Cells(borrow(cells.indptr), borrow(cells.indices), borrow(cells.values), cells.first)


@spliced
def build_mean(row: Row, complete: bool, cells: Cells, lists: Lists, a: Floats, floor: float, i):  # type: ignore[no-untyped-def]
    """Set λ = floor + Σ_k a_k x_nk on every local cell of row i.

    On the way, load its stored cells and, unless all are, sort what reaches them by column.
    """
    # Unsigned, as an index that might count from the end costs a comparison.
    start = np.uint64(cells.indptr[i])
    stored = np.uint64(cells.indptr[i + 1]) - start
    row.stored[0] = stored
    for j in range(stored):
        n = np.uint64(cells.indices[start + j])
        row.column[j] = n
        row.y[n if complete else j] = cells.values[start + j]
    if not is_full(row, complete):
        _sort_hits(row, complete, lists, a, floor)
    if complete:
        row.mean[:] = floor
        for k in range(a.size):
            if a[k] > 0.0:
                for p in range(np.uint64(lists.column_ptr[k]), np.uint64(lists.column_ptr[k + 1])):
                    row.mean[lists.column_rows[p]] += a[k] * lists.column_values[p]


@inlined
def is_full(row: Row, complete: bool) -> bool:
    """Whether every cell of the open row is stored: then columns reach all of their rows."""
    full: bool = complete and row.stored[0] == row.mean.size
    return full


@inlined
def first_hit(row: Row, k):  # type: ignore[no-untyped-def]
    """Where the hits of column k begin: each column has room for all stored cells and one more."""
    return k * (row.stored[0] + 1)


@spliced
def _sort_hits(row: Row, complete: bool, lists: Lists, a: Floats, floor: float) -> None:
    """Sort what reaches the stored cells by column; λ of a cell costs nothing on the way.

    Lists are read in whole lanes: a loop that ends after some six entries, never the same number,
    would cost more in wrongly predicted branches than in work. An entry that is zero is written
    where the next hit of its column will be, and does not count.
    """
    stored = np.uint64(row.stored[0])
    for column in range(a.size):
        row.hit_end[column] = first_hit(row, column)
    for j in range(stored):
        n = np.uint64(row.column[j])
        cell = n if complete else j
        mean = floor
        stop = np.uint64(lists.row_ptr[n + np.uint64(1)])
        for start in range(np.uint64(lists.row_ptr[n]), stop, np.uint64(LANES)):
            for p in range(start, start + np.uint64(LANES)):
                k, x = np.uint64(lists.row_columns[p]), lists.row_values[p]
                at = np.uint64(row.hit_end[k])
                row.hit[at] = cell
                row.hit_x[at] = x
                row.hit_end[k] = at + np.uint64(x > 0.0)
                mean += a[k] * x
        row.mean[cell] = mean


@inlined
def sum_without(epsilon: float, A: Floats, X: Floats, i: int, k: int, n) -> float:  # type: ignore[no-untyped-def]
    """Return b = ε + Σ_{j≠k} a_j x_nj, summed afresh."""
    b = epsilon
    for j in range(A.shape[1]):
        if j != k:
            b += A[i, j] * X[n, j]
    return b


@inlined
def is_lost(b: float, ax: float) -> bool:
    """Whether b = λ − a·x is so small a difference that it has lost its digits."""
    return b < _CANCELLED * ax


@inlined
def hits_of(row: Row, complete: bool, lists: Lists, k: int):  # type: ignore[no-untyped-def]
    """Cells that column k reaches and x there, as lists, their first place, and their number."""
    if is_full(row, complete):
        cells, x, first, stop = (
            lists.column_rows, lists.column_values, lists.column_ptr[k], lists.column_ptr[k + 1],
        )  # fmt: skip
    else:
        cells, x, first, stop = row.hit, row.hit_x, first_hit(row, k), row.hit_end[k]
    return cells, x, np.uint64(first), stop - first


@inlined
def reaches_all(row: Row, complete: bool, c: int) -> bool:
    """Whether c hits are all local cells of a row with missing ones, which then are in order."""
    all_: bool = not complete and c == row.stored[0]
    return all_


@inlined
def pad_hits(lines: Floats, c: int) -> None:
    """Fill up the last lanes of stored cells with such that count nothing: log 1 = 0, and y = 0."""
    for h in range(np.uint64(c), np.uint64(filled(c))):
        lines[HIT_BASE, h] = 1.0
        lines[HIT_LOAD, h] = 0.0
        lines[HIT_VALUE, h] = 0.0


@inlined
def gather_hits(row: Row, complete: bool, lists: Lists, k: int) -> int:
    """Fill the lines of the stored cells with λ, x and y; return their number."""
    lines = row.support
    cells, x, first, n = hits_of(row, complete, lists, k)
    c: int = n
    if reaches_all(row, complete, c):
        for h in range(np.uint64(c)):
            lines[HIT_BASE, h] = row.mean[h]
            lines[HIT_LOAD, h] = x[first + h]
            lines[HIT_VALUE, h] = row.y[h]
    else:
        for h in range(np.uint64(c)):
            cell = cells[first + h]
            lines[HIT_BASE, h] = row.mean[cell]
            lines[HIT_LOAD, h] = x[first + h]
            lines[HIT_VALUE, h] = row.y[cell]
    pad_hits(lines, c)
    return c


@inlined
def take_hits(epsilon: float, row: Row, complete, A: Floats, X: Floats, lists, i, k: int) -> int:  # type: ignore[no-untyped-def]
    """Fill them with b, which is λ without entry k, x and y; return their number."""
    c, lines = gather_hits(row, complete, lists, k), row.support
    if take_out(lines, HIT_BASE, HIT_LOAD, A[i, k], c):
        find_lost(epsilon, row, complete, A, X, lists, i, k, c)
    return c


@spliced
def find_lost(  # type: ignore[no-untyped-def]
    epsilon: float, row: Row, complete: bool, A: Floats, X: Floats, lists: Lists, i, k: int, c: int
) -> None:
    """Sum b afresh in the lines of the stored cells, wherever it `is_lost`."""
    lines = row.support
    cells, _x, first, _c = hits_of(row, complete, lists, k)
    for h in range(np.uint64(c)):
        if is_lost(lines[HIT_BASE, h], A[i, k] * lines[HIT_LOAD, h]):
            n = np.int64(cells[first + h])
            n = n if complete else row.column[n]
            lines[HIT_BASE, h] = sum_without(epsilon, A, X, i, k, n)


@inlined
def put_hits(row: Row, complete: bool, lists: Lists, k: int, c: int, v: float) -> None:
    """Set λ = b + v x on the stored cells that column k reaches."""
    lines = row.support
    cells, _x, first, _c = hits_of(row, complete, lists, k)
    if reaches_all(row, complete, c):
        for h in range(np.uint64(c)):
            row.mean[h] = lines[HIT_BASE, h] + v * lines[HIT_LOAD, h]
    else:
        for h in range(np.uint64(c)):
            row.mean[cells[first + h]] = lines[HIT_BASE, h] + v * lines[HIT_LOAD, h]


@inlined
def take_out(lines: Floats, base: int, load: int, a: float, n) -> bool:  # type: ignore[no-untyped-def]
    """Turn λ into b = λ − a·x, in place; tell whether any difference `is_lost`."""
    lost = 0
    if a > 0.0:
        for j in range(np.uint64(n)):
            lines[base, j] -= a * lines[load, j]
            lost += is_lost(lines[base, j], a * lines[load, j])
    return lost > 0
