"""Update a block of rows of one side, given the other side: the work of a sweep.

Rows of A are independent given X, and columns are rows of the transposed problem, so one
function serves both sides, any thread and any machine. A row is visited in five steps that a
likelihood fills in (see the hooks below):

    open the row, and for each column k: decide at once, or remove entry k, draw it, put it back.

The working memory of a row (`Row`) holds its λ, the support of column k gathered into
contiguous arrays, and the stored cells ("hits") sorted by column.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dibpnmf._borrow import borrow
from dibpnmf._compile import inlined, kernel, spliced
from dibpnmf._dispatch import KernelFunction
from dibpnmf.loadings.base import SMALLEST, Slab, draw_from_slab, slab_of
from dibpnmf.observations import Cells
from dibpnmf.random import Stream, exponential, new_stream, open_stream, uniform

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

    @property
    def level(self) -> float:
        """Log likelihood of the support without the entry."""
        return self.base_level - math.log(self.base_factor)


@inlined
def level_of(entry: Entry) -> float:
    """Log likelihood of the support without the entry."""
    return entry.base_level - math.log(entry.base_factor)


def _numbers(n: int) -> list[int]:
    """Count from 0 as NumPy does: functions are compiled anew for every integer of Python's own."""
    return list(np.arange(n))


# Lines of Entry.support: b (λ without the entry) and x of every supporting cell, then b, x and
# y of the stored ones.
BASE, LOAD, HIT_BASE, HIT_LOAD, HIT_VALUE = _numbers(5)
# Lines of Entry.grid: log v, log density, and the mass that ends there.
NODE, HEIGHT, MASS = _numbers(3)


def _hook(name: str, doc: str) -> KernelFunction:
    return KernelFunction(name, doc)


_open_row = _hook(
    "open_row", "Fill λ, cells and hits of row i: (lik, row, cells, complete, A, X, lists, i)."
)
_stays_off = _hook(
    "stays_off",
    "Whether an off entry stays off whatever its grid: "
    "(lik, row, complete, lists, k, u, log_odds, slab).",
)
_take_entry = _hook(
    "take_entry", "Take entry k out as an Entry: (lik, row, complete, A, X, lists, i, k)."
)
_log_ratio = _hook(
    "log_ratio",
    "log p(y | b + v x) − log p(y | b): (lik, support, m, c, level, v), an Entry's fields and v.",
)
_draw_entry = _hook(
    "draw_entry",
    "Joint draw of (z, v), as (z·v, whether accepted): "
    "(lik, entry, a, log_odds, slab, local, u, s).",
)
_put_entry = _hook(
    "put_entry", "Put entry k back with loading v: (lik, row, entry, complete, lists, k, v)."
)
_row_log_likelihood = _hook(
    "row_log_likelihood", "Log likelihood of the open row: (lik, row, complete, X)."
)
open_row, implements_open_row = _open_row.call, _open_row.implement
stays_off, implements_stays_off = _stays_off.call, _stays_off.implement
take_entry, implements_take_entry = _take_entry.call, _take_entry.implement
log_ratio, implements_log_ratio = _log_ratio.call, _log_ratio.implement
draw_entry, implements_draw_entry = _draw_entry.call, _draw_entry.implement
put_entry, implements_put_entry = _put_entry.call, _put_entry.implement
row_log_likelihood, implements_row_log_likelihood = (
    _row_log_likelihood.call,
    _row_log_likelihood.implement,
)

MAX_NODES = 64
# Below this share of a·x, b = λ − a·x has lost too many digits and is summed afresh.
_CANCELLED = 2.0**-20
BLOCK = 32  # cells that are multiplied together at once
LANES = 8  # the stored cells of a support, and lists of entries, are filled up to a multiple of it
# Log odds from which a column's mask is held: what is on stays on, what is off stays off.
HELD = 1e6
# Sweeps, the first ones, that draw every loading afresh: moves from where a start has put it lead
# to masks with more entries on, which many sweeps do not undo.
FRESH = 10


@inlined
def padded(m: int) -> int:
    """Round up to whole blocks: a partial one would run cell by cell."""
    return (m + BLOCK - 1) // BLOCK * BLOCK


@inlined
def filled(c: int) -> int:
    """Round up to whole vector lanes, as `padded` does to blocks: for stored cells."""
    return (c + LANES - 1) // LANES * LANES


@spliced
def _list_rows(X: Floats) -> tuple[Ints, Ints, NDArray[np.uint32], Floats]:
    """On-entries row after row: where each row begins and ends, their columns and values."""
    N, K = X.shape
    row_ptr, row_stop = np.zeros(N + 1, np.int64), np.empty(N, np.int64)
    for n in range(N):
        on = 0
        for k in range(K):
            on += X[n, k] > 0.0
        row_stop[n] = row_ptr[n] + on
        row_ptr[n + 1] = row_ptr[n] + filled(on)
    row_columns = np.empty(row_ptr[N], np.uint32)  # unsigned: a signed one might count from the end
    row_values = np.empty(row_ptr[N])
    for n in range(N):
        at = row_ptr[n]
        for k in range(K):
            if X[n, k] > 0.0:
                row_columns[at] = k
                row_values[at] = X[n, k]
                at += 1
        for rest in range(row_ptr[n + 1] - at):
            row_columns[at + rest] = max(K - 1 - rest, 0)
            row_values[at + rest] = 0.0
    return row_ptr, row_stop, row_columns, row_values


@spliced
def _add_gram(row_columns: NDArray[np.uint32], row_values: Floats, gram: Floats) -> None:
    """Add the products of one row's entries."""
    for p in range(row_columns.size):
        for q in range(row_columns.size):
            gram[row_columns[p], row_columns[q]] += row_values[p] * row_values[q]


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
        first, last = column_ptr[:-1].copy(), column_ptr[1:] - 1
        for n in range(N):
            row = slice(row_ptr[n], row_stop[n])
            for p in range(row_ptr[n], row_stop[n]):
                k, x = row_columns[p], row_values[p]
                is_large = x * (column_ptr[k + 1] - column_ptr[k]) > sums[k]
                at = first[k] if is_large else last[k]
                column_rows[at] = n
                column_values[at] = x
                first[k] += is_large
                last[k] -= not is_large
            _add_gram(row_columns[row], row_values[row], gram)
    return Lists(
        column_ptr, column_rows, column_values, row_ptr, row_stop, row_columns, row_values, sums,
        gram,
    )  # fmt: skip


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
def borrow_lists(lists: Lists) -> Lists:
    """Same memory without reference counts."""
    return Lists(
        borrow(lists.column_ptr), borrow(lists.column_rows), borrow(lists.column_values),
        borrow(lists.row_ptr), borrow(lists.row_stop), borrow(lists.row_columns),
        borrow(lists.row_values), borrow(lists.sums), borrow(lists.gram),
    )  # fmt: skip


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


@spliced
def update_row(  # type: ignore[no-untyped-def]
    lik, row: Row, cells: Cells, complete: bool, A: Floats, X: Floats, lists: Lists,
    log_odds: Floats, slabs: Floats, local: bool, s: Stream, i: int,
):  # fmt: skip
    """Draw (z, v) jointly for the entries of row i of A, in place, Eq. (18).

    Those of a column that the other side does not use are left as they are: they touch no cell, and
    `inference.unseen` draws all of them from the prior.

    If ``local``, a loading that is on may move from where it is; else it is drawn afresh.
    Returns how many moves were proposed and how many accepted; the row stays open.
    """
    open_row(lik, row, cells, complete, A, X, lists, i)
    proposed, accepted = 0, 0
    for k in range(X.shape[1]):
        if lists.column_ptr[k] == lists.column_ptr[k + 1]:
            continue
        u = uniform(s)
        a = A[i, k]
        logit, slab = log_odds[k], slab_of(slabs, k)
        if a == 0.0 and (logit >= HELD or stays_off(lik, row, complete, lists, k, u, logit, slab)):
            continue
        entry = take_entry(lik, row, complete, A, X, lists, i, k)
        new, was_accepted = draw_entry(lik, entry, a, logit, slab, local, u, s)
        if a != 0.0 or new != 0.0 or not was_accepted:
            proposed += 1
            accepted += was_accepted
        if new != a:
            A[i, k] = new
            put_entry(lik, row, entry, complete, lists, k, new)
    return proposed, accepted


@kernel
def update_rows(  # type: ignore[no-untyped-def]
    lik, start: int, stop: int, cells: Cells, complete: bool, A: Floats, X: Floats, lists: Lists,
    log_odds: Floats, slabs: Floats, seed, chain: int, sweep: int, purpose: int, out: Floats,
) -> None:  # fmt: skip
    """Update rows start..stop of A, in place.

    ``out[i]`` receives the row's log likelihood, its moves proposed and those accepted.
    """
    own_stream = new_stream()
    own_row = new_row(cells, complete, X.shape[0], X.shape[1])
    s, row = borrow(own_stream), borrow_row(own_row)
    cells, lists, A, X = borrow_cells(cells), borrow_lists(lists), borrow(A), borrow(X)
    for i in range(start, stop):
        open_stream(s, seed, chain, sweep, purpose, cells.first + i)
        proposed, accepted = update_row(
            lik, row, cells, complete, A, X, lists, log_odds, slabs, sweep >= FRESH, s, i
        )
        out[i, 0] = row_log_likelihood(lik, row, complete, X)
        out[i, 1] = proposed
        out[i, 2] = accepted
    keep(own_stream, own_row)


@kernel
def measure_rows(  # type: ignore[no-untyped-def]
    lik, start: int, stop: int, cells: Cells, complete: bool, A: Floats, X: Floats, lists: Lists,
    out: Floats,
) -> None:  # fmt: skip
    """Write the log likelihood of rows start..stop into ``out``; nothing else changes."""
    own_stream = new_stream()
    own_row = new_row(cells, complete, X.shape[0], X.shape[1])
    row = borrow_row(own_row)
    cells, lists, A, X = borrow_cells(cells), borrow_lists(lists), borrow(A), borrow(X)
    for i in range(start, stop):
        open_row(lik, row, cells, complete, A, X, lists, i)
        out[i] = row_log_likelihood(lik, row, complete, X)
    keep(own_stream, own_row)


@kernel
def embed_rows(  # type: ignore[no-untyped-def]
    lik, start: int, stop: int, cells: Cells, complete: bool, A: Floats, X: Floats, lists: Lists,
    log_odds: Floats, slabs: Floats, seed, purpose: int, n_warmup: int, draws: Floats,
) -> None:  # fmt: skip
    """Draw rows start..stop of A many times given X; ``draws`` is (draw, row, column).

    Every row reads the same streams, so that its draws depend on its own cells only and not on
    its place among the rows.
    """
    own_stream = new_stream()
    own_row = new_row(cells, complete, X.shape[0], X.shape[1])
    s, row = borrow(own_stream), borrow_row(own_row)
    cells, lists, A, X = borrow_cells(cells), borrow_lists(lists), borrow(A), borrow(X)
    for i in range(start, stop):
        for sweep in range(n_warmup + draws.shape[0]):
            open_stream(s, seed, 0, sweep, purpose, 0)
            update_row(
                lik, row, cells, complete, A, X, lists, log_odds, slabs, sweep >= FRESH, s, i
            )
            if sweep >= n_warmup:
                draws[sweep - n_warmup, i] = A[i]
    keep(own_stream, own_row)


@kernel
def update_masks_literal(  # type: ignore[no-untyped-def]
    lik, start: int, stop: int, cells: Cells, complete: bool, A: Floats, V: Floats, X: Floats,
    lists: Lists, log_odds: Floats, seed, chain: int, sweep: int, purpose: int,
) -> None:  # fmt: skip
    """Draw z given the v that is kept while z = 0, the paper's update of Z, Eq. (20)."""
    K = X.shape[1]
    own_stream = new_stream()
    own_row = new_row(cells, complete, X.shape[0], X.shape[1])
    s, row = borrow(own_stream), borrow_row(own_row)
    cells, lists, A, X = borrow_cells(cells), borrow_lists(lists), borrow(A), borrow(X)
    for i in range(start, stop):
        open_stream(s, seed, chain, sweep, purpose, cells.first + i)
        open_row(lik, row, cells, complete, A, X, lists, i)
        for k in range(K):
            entry = take_entry(lik, row, complete, A, X, lists, i, k)
            u = uniform(s)
            log_on = log_odds[k] + log_ratio(
                lik, entry.support, entry.m, entry.c, level_of(entry), V[i, k]
            )
            new = V[i, k] if math.log(u) - math.log1p(-u) < log_on else 0.0
            if new != A[i, k]:
                A[i, k] = new
                put_entry(lik, row, entry, complete, lists, k, new)
    keep(own_stream, own_row)


@kernel
def _loading_log_density(lik, support: Floats, m: int, c: int, slab: Slab, x: float):  # type: ignore[no-untyped-def]
    """Log density of x = log v given z = 1, Eq. (21) with the Jacobian, up to a constant.

    Not less the level without the entry: where that is −10²⁰, nothing else would be left.
    """
    v = math.exp(x)
    return x - v * (slab.rate + 0.5 * slab.curve * v) + log_ratio(lik, support, m, c, 0.0, v)


@kernel
def slice_loading(  # type: ignore[no-untyped-def]
    lik, entry: Entry, v: float, slab: Slab, width: float, steps: int, s: Stream
) -> float:
    """Move v by slice sampling in log v from f(v) Π p(y | b + v x), Eq. (21).

    An interval of the given width is placed at random and stepped out, ``steps`` times at most on
    either side. Without any it is exact too, costs less, and moves log v by no more than its width.
    """
    support, m, c = entry.support, entry.m, entry.c
    x = math.log(v)
    height = _loading_log_density(lik, support, m, c, slab, x) - exponential(s)
    left = x - width * uniform(s)
    right = left + width
    for _ in range(steps):
        if _loading_log_density(lik, support, m, c, slab, left) <= height:
            break
        left -= width
    for _ in range(steps):
        if _loading_log_density(lik, support, m, c, slab, right) <= height:
            break
        right += width
    while True:
        trial = left + uniform(s) * (right - left)
        inside = _loading_log_density(lik, support, m, c, slab, trial) > height
        if inside or right - left < 1e-13 * (1.0 + 4.0 * abs(x)):  # some floats apart
            return max(math.exp(trial), SMALLEST)
        if trial < x:
            left = trial
        else:
            right = trial


@kernel
def update_loadings_literal(  # type: ignore[no-untyped-def]
    lik, start: int, stop: int, cells: Cells, complete: bool, A: Floats, V: Floats, X: Floats,
    lists: Lists, slabs: Floats, seed, chain: int, sweep: int, purpose: int, out: Floats,
) -> None:  # fmt: skip
    """Draw v given z for every entry, on or off, the paper's update of V, Eq. (21)."""
    K = X.shape[1]
    own_stream = new_stream()
    own_row = new_row(cells, complete, X.shape[0], X.shape[1])
    s, row = borrow(own_stream), borrow_row(own_row)
    cells, lists, A, X = borrow_cells(cells), borrow_lists(lists), borrow(A), borrow(X)
    for i in range(start, stop):
        open_stream(s, seed, chain, sweep, purpose, cells.first + i)
        open_row(lik, row, cells, complete, A, X, lists, i)
        for k in range(K):
            if A[i, k] == 0.0:
                V[i, k] = draw_from_slab(s, slab_of(slabs, k))
            else:
                entry = take_entry(lik, row, complete, A, X, lists, i, k)
                V[i, k] = slice_loading(lik, entry, V[i, k], slab_of(slabs, k), 1.0, 100, s)
                A[i, k] = V[i, k]
                put_entry(lik, row, entry, complete, lists, k, A[i, k])
        out[i, 0] = row_log_likelihood(lik, row, complete, X)
    keep(own_stream, own_row)
