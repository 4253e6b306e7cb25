"""Tries of all kinds of moves, and the data that they are made for."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dibpnmf._borrow import borrow
from dibpnmf._compile import kernel, overwrite, spliced
from dibpnmf.inference.factors.board import MISSING, Board, Room, bit, list_seen, note
from dibpnmf.inference.factors.casts import take_census
from dibpnmf.inference.factors.founding import try_founding
from dibpnmf.inference.factors.loans import list_loans, try_loan
from dibpnmf.inference.factors.places import note_places
from dibpnmf.inference.labels import relabel
from dibpnmf.likelihoods.exponential import ExponentialKernel
from dibpnmf.observations import Observations
from dibpnmf.random import Stream, uniform

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

_MOST_ROWS = 64  # on either side: sets of rows are bits of one word
_ZEROS = 0.1  # share of cells that are zero, from which on a cover of the others is rigid
TRIES = 12  # moves of either side in a sweep
_PAIRS, _TWINS = 0.2, 0.2  # shares of moves; the others are loans
_APPEAL = 0.5  # log weight of a pair of receivers for each of its open cells


@spliced
def _put_in_order(A, X, own_odds, other_odds, own_counts, other_counts, order) -> None:  # type: ignore[no-untyped-def]
    """Move column order[k] to k, in all of these."""
    is_changed = False
    for k in range(order.size):
        is_changed = is_changed or order[k] != k
    if is_changed:
        one, moved = np.ones(order.size), np.empty(order.size)
        relabel(A, one, order)
        relabel(X, one, order)
        for line in (own_odds, other_odds, own_counts, other_counts):
            for k in range(order.size):
                moved[k] = line[order[k]]
            overwrite(line, moved)


@spliced
def _survey(board: Board, room: Room):  # type: ignore[no-untyped-def]
    """List what there is to choose from: columns that are seen, loans, and the census."""
    n_seen = list_seen(board, room)
    return n_seen, list_loans(board, room, n_seen), take_census(board, room, n_seen)


@kernel
def move_factors(  # type: ignore[no-untyped-def]
    lik, Y: Floats, places, A: Floats, X: Floats, own_odds: Floats, other_odds: Floats,
    own_slabs: Floats, other_slabs: Floats, own_counts: Floats, other_counts: Floats, side: int,
    tries: int, closed: float, order: Ints, s: Stream,
) -> None:  # fmt: skip
    """Try so many moves of all kinds; loadings, odds, counts and sticks change in place.

    Cells of values up to ``closed`` are not open. In the end column ``order[k]`` has moved to k.
    Unseen columns have to be drawn afterwards.
    """
    (M, K), N = A.shape, X.shape[0]
    most = max(M, N, K) + 2
    whole, numbers = np.empty((4, most), np.int64), np.empty((8, most))
    bases, loans = np.empty((M, N)), np.empty((K * K, 2), np.int64)
    bits = np.zeros((4, most), np.uint64)
    room = Room(
        borrow(whole[0]), borrow(whole[1]), borrow(whole[2]), borrow(whole[3]), borrow(loans),
        borrow(numbers[0]), borrow(bases), borrow(numbers[1]), borrow(numbers[2]),
        borrow(numbers[3:6]), borrow(numbers[6]), borrow(numbers[7]),
    )  # fmt: skip
    board = Board(
        borrow(Y), borrow(A), borrow(X), borrow(own_odds), borrow(other_odds), borrow(own_slabs),
        borrow(other_slabs), borrow(own_counts), borrow(other_counts), borrow(bits[0]),
        borrow(bits[1]), borrow(bits[2]), borrow(bits[3]), borrow(order), side,
    )  # fmt: skip
    for c in range(N + 1):
        room.appeal[c] = math.exp(_APPEAL * c)
    for i in range(M):
        for n in range(N):
            if Y[i, n] > closed or Y[i, n] == MISSING:
                board.stored[i] |= bit(n)
    for k in range(K):
        note(board, k)
        order[k] = k
    note_places(places)
    is_changed = True
    for _ in range(tries):
        if is_changed:
            n_seen, n_loans, census = _survey(board, room)
        kind, is_birth = uniform(s), uniform(s) < 0.5
        if kind >= _PAIRS + _TWINS:
            is_changed = try_loan(lik, board, room, n_seen, n_loans, s)
        else:
            is_pair = kind < _PAIRS
            is_changed = try_founding(
                lik, board, room, places, census, n_seen, is_birth, is_pair, s
            )
    _put_in_order(A, X, own_odds, other_odds, own_counts, other_counts, order)
    # What was borrowed from is used again, so that it lives so long.
    whole[0, 0] = bits[0, 0] = 0
    numbers[0, 0] = bases[0, 0] = 0.0
    loans[0, 0] = 0


def may_serve(likelihood: NamedTuple, data: Observations) -> bool:
    """Whether the moves are made for this likelihood, and for so large a matrix with so few cells.

    Where none is missing, those that are not stored are zeros.
    """
    size = data.shape[0] * data.shape[1]
    is_full = data.is_complete and data.n_stored > (1.0 - _ZEROS) * size
    is_small = max(data.shape) <= _MOST_ROWS
    return isinstance(likelihood, ExponentialKernel) and is_small and not is_full


def have_zeros(Y: Floats) -> bool:
    """Whether enough cells are zero to hold factors in place; else the moves are not needed."""
    return bool(np.count_nonzero(Y == 0.0) >= _ZEROS * Y.size)
