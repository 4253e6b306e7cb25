"""Update a block of rows as the paper does: masks given loadings, then loadings given masks."""

from __future__ import annotations

import math

from dibpnmf._borrow import borrow, borrow_as_it_is
from dibpnmf._compile import kernel
from dibpnmf.likelihoods.lists import Floats, Lists, borrow_lists
from dibpnmf.likelihoods.rows import log_ratio, open_row, put_entry, row_log_likelihood, take_entry
from dibpnmf.likelihoods.slice_move import slice_loading
from dibpnmf.likelihoods.supports import borrow_cells, borrow_row, keep, level_of, new_row
from dibpnmf.loadings.base import draw_from_slab, slab_of
from dibpnmf.observations import Cells
from dibpnmf.random import new_stream, open_stream, uniform


@kernel
def update_masks_literal(  # type: ignore[no-untyped-def]
    lik, start: int, stop: int, cells: Cells, complete: bool, A: Floats, V: Floats, X: Floats,
    lists: Lists, log_odds: Floats, seed, chain: int, sweep: int, purpose: int,
) -> None:  # fmt: skip
    """Draw z given the v that is kept while z = 0, the paper's update of Z, Eq. (20)."""
    K = X.shape[1]
    own_stream = new_stream()
    own_row = new_row(cells, complete, X.shape[0], X.shape[1])
    s, row = borrow_as_it_is(own_stream), borrow_row(own_row)
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
def update_loadings_literal(  # type: ignore[no-untyped-def]
    lik, start: int, stop: int, cells: Cells, complete: bool, A: Floats, V: Floats, X: Floats,
    lists: Lists, slabs: Floats, seed, chain: int, sweep: int, purpose: int, out: Floats,
) -> None:  # fmt: skip
    """Draw v given z for every entry, on or off, the paper's update of V, Eq. (21)."""
    K = X.shape[1]
    own_stream = new_stream()
    own_row = new_row(cells, complete, X.shape[0], X.shape[1])
    s, row = borrow_as_it_is(own_stream), borrow_row(own_row)
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
