"""The matrix and its factors as seen from one side, with sets of rows and cells as bits."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dibpnmf._compile import inlined, part

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Bits = NDArray[np.uint64]

MISSING = -1.0  # what stands in Y for a cell that was not observed
NONE, ONE, _EVERY = np.uint64(0), np.uint64(1), np.uint64(0xFFFFFFFFFFFFFFFF)


class Board(NamedTuple):
    """The matrix and its loadings as seen from one side, whose rows are those of factors."""

    Y: Floats
    A: Floats
    X: Floats
    own_odds: Floats  # log odds of the masks, of A's columns and of X's
    other_odds: Floats
    own_slabs: Floats
    other_slabs: Floats
    own_counts: Floats  # entries that are on, column by column
    other_counts: Floats
    stored: Bits  # of each row, its open cells
    own_bits: Bits  # of each column of A, the rows that use it
    other_bits: Bits  # of each column of X, its cells
    open_bits: Bits  # of each column, the cells that are open to all rows that use it
    order: Ints  # which column is at each position of the sticks
    side: int  # 0 if these rows are those of the matrix, 1 if they are its columns


class Room(NamedTuple):
    """Working memory."""

    rows: Ints  # of factor f
    owner: Ints  # which of the receivers each of them belongs to
    cells: Ints  # the open ones
    seen: Ints  # columns in use on both sides
    loans: Ints  # pairs of such columns
    base: Floats  # λ of these rows in one cell, without f and the receivers
    bases: Floats  # the same in all of the cells
    load: Floats  # a_if
    centre: Floats  # of the proposal of log a_if
    drawn: Floats  # (3, N): new entries of f and of the receivers
    slots: Floats  # weights of places that f may have
    appeal: Floats  # weight of a pair of receivers by the number of its open cells


@inlined
def ones(bits):  # type: ignore[no-untyped-def]
    """Count the bits that are set, by adding neighbours."""
    pairs, fours = np.uint64(0x5555555555555555), np.uint64(0x3333333333333333)
    bits = bits - ((bits >> np.uint64(1)) & pairs)
    bits = (bits & fours) + ((bits >> np.uint64(2)) & fours)
    bits = (bits + (bits >> np.uint64(4))) & np.uint64(0x0F0F0F0F0F0F0F0F)
    return np.int64((bits * np.uint64(0x0101010101010101)) >> np.uint64(56))


@inlined
def bit(i: int):  # type: ignore[no-untyped-def]
    """Return the word with bit i set."""
    return ONE << np.uint64(i)


@inlined
def open_to(board: Board, rows):  # type: ignore[no-untyped-def]
    """Cells that are open to all of these rows."""
    cells = _EVERY
    for i in range(board.A.shape[0]):
        if rows & bit(i):
            cells &= board.stored[i]
    return cells


@part
def note(board: Board, k: int) -> None:
    """Take note of which entries of column k are on."""
    own, other = NONE, NONE
    for i in range(board.A.shape[0]):
        if board.A[i, k] > 0.0:
            own |= bit(i)
    for n in range(board.X.shape[0]):
        if board.X[n, k] > 0.0:
            other |= bit(n)
    board.own_bits[k], board.other_bits[k] = own, other
    board.open_bits[k] = open_to(board, own)
    board.own_counts[k], board.other_counts[k] = ones(own), ones(other)


@inlined
def is_seen(board: Board, k: int) -> bool:
    """Whether column k is in use on both sides."""
    return board.own_bits[k] != NONE and board.other_bits[k] != NONE


@inlined
def list_seen(board: Board, room: Room) -> int:
    """List the columns in use on both sides; return their number."""
    n_seen = 0
    for k in range(board.A.shape[1]):
        if is_seen(board, k):
            room.seen[n_seen] = k
            n_seen += 1
    return n_seen
