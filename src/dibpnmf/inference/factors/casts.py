"""Who takes part when a factor is founded or ended: choices, and how many there are, Eq. (40).

How many there are is counted once, in a census, and kept: a try looks only at what it would change.
"""

from __future__ import annotations

from typing import NamedTuple

from dibpnmf._compile import inlined, part, spliced
from dibpnmf.inference.factors.board import NONE, Board, Room, bit, is_seen, ones
from dibpnmf.random import Stream, uniform


class Cast(NamedTuple):
    """Who takes part: columns f, g, h, the number of receivers (g, or both), rows, open cells.

    And the number of columns that are listed as seen.
    """

    f: int
    g: int
    h: int
    n_receivers: int
    size: int
    n_cells: int
    n_seen: int


@inlined
def _appeal(room: Room, rows, cells, other_rows, other_cells) -> float:  # type: ignore[no-untyped-def]
    """Weight of two factors as a pair of receivers, given their rows and open cells."""
    return room.appeal[ones(cells & other_cells)] if rows & other_rows == NONE else 0.0


@inlined
def _choose_pair(board: Board, room: Room, n_seen: int, target: float):  # type: ignore[no-untyped-def]
    """Sum the weights of pairs of receivers; return it with the pair that ``target`` falls on."""
    total, g, h = 0.0, -1, -1
    for p in range(n_seen):
        k = room.seen[p]
        rows, cells = board.own_bits[k], board.open_bits[k]
        for q in range(p):
            j = room.seen[q]
            weight = _appeal(room, rows, cells, board.own_bits[j], board.open_bits[j])
            if total <= target < total + weight:
                g, h = k, j
            total += weight
    return total, g, h


@inlined
def _pair_weight_of(board: Board, room: Room, n_seen: int, f: int) -> float:
    """Weight of the pairs that f is one of."""
    total, rows, cells = 0.0, board.own_bits[f], board.open_bits[f]
    for q in range(n_seen):
        j = room.seen[q]
        if j != f:
            total += _appeal(room, rows, cells, board.own_bits[j], board.open_bits[j])
    return total


@inlined
def _is_end(rows, part, is_pair: bool) -> bool:  # type: ignore[no-untyped-def]
    """Whether a factor with these rows may be ended in favour of one with the rows ``part``.

    Receivers of a pair have some of the rows each, a twin has all of them.
    """
    return part & rows == part and (part != rows) == is_pair


@inlined
def _choose_end(board: Board, room: Room, n_seen: int, is_pair: bool, target: int):  # type: ignore[no-untyped-def]
    """Count the ways to end a factor f in favour of receivers; return number ``target``, too."""
    count, f, g, h = 0, -1, -1, -1
    for p in range(n_seen):
        rows = board.own_bits[room.seen[p]]
        for q in range(n_seen):
            part = board.own_bits[room.seen[q]]
            if q == p or not _is_end(rows, part, is_pair):
                continue
            for r in range(q if is_pair else 1):
                if is_pair and board.own_bits[room.seen[r]] != rows ^ part:
                    continue
                if count == target:
                    f, g, h = room.seen[p], room.seen[q], room.seen[r] if is_pair else -1
                count += 1
    return count, f, g, h


@inlined
def _ends_with(board: Board, room: Room, n_seen: int, f: int, rows, is_pair: bool) -> int:  # type: ignore[no-untyped-def]
    """Count the ways to end a factor in which f takes part, were these its rows."""
    count = 0
    for q in range(n_seen):
        part = board.own_bits[room.seen[q]]
        if room.seen[q] == f:
            continue
        # f is ended in favour of this one, and another; or this one in favour of f, and another.
        is_ended, is_receiver = _is_end(rows, part, is_pair), _is_end(part, rows, is_pair)
        if not is_pair:
            count += is_ended + is_receiver
        elif is_ended or is_receiver:
            for r in range(n_seen if is_receiver else q):
                count += room.seen[r] != f and board.own_bits[room.seen[r]] == rows ^ part
    return count


class Census(NamedTuple):
    """Sum of the weights of pairs of receivers, and ways to end a factor, pairs' and twins'."""

    pair_weight: float
    pair_ends: int
    twin_ends: int


@part
def take_census(board: Board, room: Room, n_seen: int) -> Census:
    """Count what tries of founding choose from."""
    return Census(
        _choose_pair(board, room, n_seen, -1.0)[0],
        _choose_end(board, room, n_seen, True, -1)[0],
        _choose_end(board, room, n_seen, False, -1)[0],
    )


@spliced
def choose_cast(  # type: ignore[no-untyped-def]
    board: Board, room: Room, census: Census, n_seen: int, is_birth: bool, is_pair: bool, s: Stream
):
    """Choose f and receivers, f < 0 if there are none; also W of Eq. (40) and D."""
    f, g, h = -1, -1, -1
    ways = census.pair_ends if is_pair else census.twin_ends
    weight = census.pair_weight if is_pair else float(n_seen)
    u = uniform(s)
    if is_birth:
        last = board.order[board.A.shape[1] - 1]
        if is_pair:
            _, g, h = _choose_pair(board, room, n_seen, u * weight)
        elif n_seen > 0:
            g = room.seen[int(u * n_seen)]
        if g >= 0 and not is_seen(board, last):
            f = last
            rows = board.own_bits[g] | (board.own_bits[h] if is_pair else NONE)
            ways += _ends_with(board, room, n_seen, f, rows, is_pair)
    elif ways > 0:
        _, f, g, h = _choose_end(board, room, n_seen, is_pair, int(u * ways))
        weight -= _pair_weight_of(board, room, n_seen, f) if is_pair else 1.0
    return f, g, h, weight, ways


@spliced
def list_cast(board: Board, room: Room, f: int, g: int, h: int, n_seen: int) -> Cast:
    """List the rows of the receivers with their owners, and the cells open to all of them."""
    rows, cells = board.own_bits[g], board.open_bits[g]
    if h >= 0:
        rows |= board.own_bits[h]
        cells &= board.open_bits[h]
    size, n_cells = 0, 0
    for i in range(board.A.shape[0]):
        if rows & bit(i):
            room.rows[size] = i
            room.owner[size] = 0 if board.A[i, g] > 0.0 else 1
            size += 1
    for n in range(board.X.shape[0]):
        if cells & bit(n):
            room.cells[n_cells] = n
            n_cells += 1
    return Cast(f, g, h, 1 if h < 0 else 2, size, n_cells, n_seen)
