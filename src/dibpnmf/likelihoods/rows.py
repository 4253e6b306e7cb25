"""Update a block of rows of one side, given the other side: the work of a sweep.

Rows of A are independent given X, and columns are rows of the transposed problem, so one
function serves both sides, any thread and any machine. A row is visited in five steps that a
likelihood fills in (see the hooks below):

    open the row, and for each column k: decide at once, or remove entry k, draw it, put it back.
"""

from __future__ import annotations

from dibpnmf._borrow import borrow, borrow_as_it_is
from dibpnmf._compile import kernel, spliced
from dibpnmf._dispatch import hook
from dibpnmf.likelihoods.lists import Floats, Lists, borrow_lists
from dibpnmf.likelihoods.supports import Row, borrow_cells, borrow_row, keep, new_row
from dibpnmf.loadings.base import slab_of
from dibpnmf.observations import Cells
from dibpnmf.random import Stream, new_stream, open_stream, uniform

open_row, implements_open_row = hook(
    "open_row", "Fill λ, cells and hits of row i: (lik, row, cells, complete, A, X, lists, i)."
)
stays_off, implements_stays_off = hook(
    "stays_off",
    "Whether an off entry stays off whatever would be proposed: "
    "(lik, row, complete, lists, k, u, log_odds, slab, local).",
)
take_entry, implements_take_entry = hook(
    "take_entry", "Take entry k out as an Entry: (lik, row, complete, A, X, lists, i, k)."
)
log_ratio, implements_log_ratio = hook(
    "log_ratio",
    "log p(y | b + v x) − log p(y | b): (lik, support, m, c, level, v), an Entry's fields and v.",
)
draw_entry, implements_draw_entry = hook(
    "draw_entry",
    "Joint draw of (z, v), as (z·v, whether accepted): "
    "(lik, entry, a, log_odds, slab, local, u, s).",
)
put_entry, implements_put_entry = hook(
    "put_entry", "Put entry k back with loading v: (lik, row, entry, complete, lists, k, v)."
)
row_log_likelihood, implements_row_log_likelihood = hook(
    "row_log_likelihood", "Log likelihood of the open row: (lik, row, complete, X)."
)
# Log odds from which a column's mask is held: what is on stays on, what is off stays off.
HELD = 1e6
# Sweeps, the first ones, that draw every loading afresh: moves from where a start has put it lead
# to masks with more entries on, which many sweeps do not undo. Later each row is drawn so once in
# a number of sweeps, fewer where there are few in all, should what its other moves believe have
# left an entry stuck.
FRESH, _EVERY, _EVERY_EMBEDDING = 10, 128, 32


@spliced
def is_local(sweep: int, row: int, every: int) -> bool:
    """Whether a row's loadings may move from where they are, and first looks be believed."""
    return sweep >= FRESH and (sweep + row) % every != 0


@spliced
def update_row(  # type: ignore[no-untyped-def]
    lik, row: Row, cells: Cells, complete: bool, A: Floats, X: Floats, lists: Lists,
    log_odds: Floats, slabs: Floats, local: bool, s: Stream, i: int,
):  # fmt: skip
    """Draw (z, v) jointly for the entries of row i of A, in place, Eq. (18).

    Those of a column that the other side does not use are left as they are: they touch no cell, and
    `inference.unseen` draws all of them from the prior.

    If ``local``, a loading that is on may move from where it is, and an entry that is off may stay
    so by a first look; else all are drawn afresh.
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
        if a == 0.0 and (
            logit >= HELD or stays_off(lik, row, complete, lists, k, u, logit, slab, local)
        ):
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
    s, row = borrow_as_it_is(own_stream), borrow_row(own_row)
    cells, lists, A, X = borrow_cells(cells), borrow_lists(lists), borrow(A), borrow(X)
    for i in range(start, stop):
        open_stream(s, seed, chain, sweep, purpose, cells.first + i)
        proposed, accepted = update_row(
            lik, row, cells, complete, A, X, lists, log_odds, slabs,
            is_local(sweep, cells.first + i, _EVERY), s, i,
        )  # fmt: skip
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
    s, row = borrow_as_it_is(own_stream), borrow_row(own_row)
    cells, lists, A, X = borrow_cells(cells), borrow_lists(lists), borrow(A), borrow(X)
    for i in range(start, stop):
        for sweep in range(n_warmup + draws.shape[0]):
            open_stream(s, seed, 0, sweep, purpose, 0)
            update_row(
                lik,
                row,
                cells,
                complete,
                A,
                X,
                lists,
                log_odds,
                slabs,
                is_local(sweep, 0, _EVERY_EMBEDDING),
                s,
                i,
            )
            if sweep >= n_warmup:
                draws[sweep - n_warmup, i] = A[i]
    keep(own_stream, own_row)
