"""Tries of all kinds of moves, and the data that they are made for."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dibpnmf._borrow import borrow
from dibpnmf._compile import kernel
from dibpnmf.inference.factors.board import MISSING, Board, Room, bit, list_seen, note
from dibpnmf.inference.factors.founding import try_founding
from dibpnmf.inference.factors.loans import try_loan
from dibpnmf.likelihoods.exponential import ExponentialKernel
from dibpnmf.observations import Observations
from dibpnmf.random import Stream, uniform

Floats = NDArray[np.float64]

_MOST_ROWS = 64  # on either side: sets of rows are bits of one word
_ZEROS = 0.1  # share of cells that are zero, from which on a cover of the others is rigid
TRIES = 8  # moves of either side in a sweep
_PAIRS, _TWINS = 0.4, 0.3  # shares of moves; the others are loans
_APPEAL = 0.5  # log weight of a pair of receivers for each of its open cells


@kernel
def move_factors(  # type: ignore[no-untyped-def]
    lik, Y: Floats, A: Floats, X: Floats, own_odds: Floats, other_odds: Floats, own_slabs: Floats,
    other_slabs: Floats, own_counts: Floats, other_counts: Floats, tries: int, closed: float,
    s: Stream,
) -> None:  # fmt: skip
    """Try so many moves of all kinds; loadings and counts change in place.

    Cells of values up to ``closed`` are not open. Unseen columns have to be drawn afterwards.
    """
    (M, K), N = A.shape, X.shape[0]
    most = max(M, N, K) + 1
    whole, numbers = np.empty((4, most), np.int64), np.empty((8, most))
    bits = np.zeros((4, most), np.uint64)
    room = Room(
        borrow(whole[0]), borrow(whole[1]), borrow(whole[2]), borrow(whole[3]), borrow(numbers[0]),
        borrow(numbers[1]), borrow(numbers[2]), borrow(numbers[3:6]), borrow(numbers[6]),
        borrow(numbers[7]),
    )  # fmt: skip
    board = Board(
        borrow(Y), borrow(A), borrow(X), borrow(own_odds), borrow(other_odds), borrow(own_slabs),
        borrow(other_slabs), borrow(own_counts), borrow(other_counts), borrow(bits[0]),
        borrow(bits[1]), borrow(bits[2]), borrow(bits[3]),
    )  # fmt: skip
    for c in range(N + 1):
        room.appeal[c] = math.exp(_APPEAL * c)
    for i in range(M):
        for n in range(N):
            if Y[i, n] > closed or Y[i, n] == MISSING:
                board.stored[i] |= bit(n)
    for k in range(K):
        note(board, k)
    n_seen = list_seen(board, room)
    for _ in range(tries):
        kind, is_birth = uniform(s), uniform(s) < 0.5
        if kind >= _PAIRS + _TWINS:
            try_loan(lik, board, room, n_seen, s)
        elif try_founding(lik, board, room, n_seen, is_birth, kind < _PAIRS, s):
            n_seen = list_seen(board, room)
    # What was borrowed from is used again, so that it lives so long.
    whole[0, 0] = bits[0, 0] = 0
    numbers[0, 0] = 0.0


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
