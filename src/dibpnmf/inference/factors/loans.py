"""Loans: a row with a factor of its own takes up another factor or leaves it, Eq. (41)."""

from __future__ import annotations

import math

from dibpnmf._compile import inlined, kernel
from dibpnmf.inference.factors.board import NONE, ONE, Board, Room, bit, note, ones, open_to
from dibpnmf.inference.factors.entries import (
    NEEDY,
    WIDEST,
    draw,
    draw_on,
    guess,
    level_of,
    log_q_on,
    log_weight,
    receive,
)
from dibpnmf.random import Stream, exponential, uniform

_WIDENED = 1.2  # that of a loan's, as g may make up for some of it


@inlined
def _choose_loan(board: Board, room: Room, n_seen: int, target: int):  # type: ignore[no-untyped-def]
    """Count the pairs of a factor g of one row and an f that is open to it; return one, too."""
    count, f, g = 0, -1, -1
    for p in range(n_seen):
        k = room.seen[p]
        if board.own_bits[k] & (board.own_bits[k] - ONE) != NONE:  # more than one bit
            continue
        for q in range(n_seen):
            other = room.seen[q]
            is_open = board.other_bits[other] & ~board.open_bits[k] == NONE
            if is_open and board.own_bits[other] != board.own_bits[k]:
                if count == target:
                    f, g = other, k
                count += 1
    return count, f, g


@inlined
def _list_loan(lik, board: Board, room: Room, i: int, f: int, g: int):  # type: ignore[no-untyped-def]
    """List the cells of f with row i's λ without f and g, and tell where a_if may be."""
    A, X = board.A, board.X
    size, need, needy = 0, 0.0, 0
    for n in range(X.shape[0]):
        if X[n, f] == 0.0:
            continue
        b = lik.epsilon
        for j in range(A.shape[1]):
            if j != f and j != g:
                b += A[i, j] * X[n, j]
        room.cells[size], room.slots[size] = n, b
        size += 1
        if b < NEEDY * board.Y[i, n]:
            need += board.Y[i, n] / X[n, f]
            needy += 1
    v, deviation = guess(need, needy, board.own_slabs[f, 0])
    return size, math.log(v), min(_WIDENED * deviation, WIDEST)


@inlined
def _lend(board: Board, room: Room, f: int, g: int, size: int, v: float, takes: bool, s: Stream):  # type: ignore[no-untyped-def]
    """Log weight of the cells of f with a_if = v less that without, and what is left of g.

    Draws the entries of g for the one of the two that is proposed, Eq. (41).
    """
    X, tau, log_odds = board.X, board.other_slabs[g, 0], board.other_odds[g]
    total, left = 0.0, board.other_bits[g]
    for c in range(size):
        n = room.cells[c]
        room.base[0], room.load[0] = room.slots[c], X[n, f]
        for with_f in range(2):
            at = v if with_f else 0.0
            peak = receive(board, room, 1, 0, n, g, at)[0]
            x = X[n, g]
            if takes == bool(with_f):
                x = draw(s, peak, tau)
                room.drawn[1, c] = x
                left = left | bit(n) if x > 0.0 else left & ~bit(n)
            weight = log_weight(x, peak, log_odds, tau)
            weight += level_of(board, room, 1, 0, n, g, at, x)
            total += weight if with_f else -weight
    return total, left


@kernel
def try_loan(lik, board: Board, room: Room, n_seen: int, s: Stream) -> None:  # type: ignore[no-untyped-def]
    """Let a row with a factor g of its own take up factor f or leave it, Eq. (41)."""
    count = _choose_loan(board, room, n_seen, -1)[0]
    if count == 0:
        return
    count, f, g = _choose_loan(board, room, n_seen, int(uniform(s) * count))
    i = ones(board.own_bits[g] - ONE)
    tau = board.own_slabs[f, 0]
    size, at, deviation = _list_loan(lik, board, room, i, f, g)
    takes = board.A[i, f] == 0.0
    v = draw_on(s, at, deviation, tau) if takes else board.A[i, f]
    room.rows[0], room.owner[0] = i, 0
    log_ratio = board.own_odds[f] + math.log(tau * v) - tau * v - log_q_on(v, at, deviation, tau)
    change, left = _lend(board, room, f, g, size, v, takes, s)
    log_ratio += change
    if left == NONE:  # g would be gone, and nothing would bring it back
        return
    # How many loans there are depends on both factors: one of two rows may become one of one.
    own, cells, is_open = board.own_bits[f], board.other_bits[g], board.open_bits[f]
    board.own_bits[f] = own ^ board.own_bits[g]
    board.other_bits[g] = left
    board.open_bits[f] = open_to(board, board.own_bits[f])
    after = _choose_loan(board, room, n_seen, -1)[0]
    log_accept = (log_ratio if takes else -log_ratio) + math.log(count / after)
    if log_accept > -exponential(s):
        board.A[i, f] = v if takes else 0.0
        for c in range(size):
            board.X[room.cells[c], g] = room.drawn[1, c]
        note(board, f)
        note(board, g)
    else:
        board.own_bits[f], board.other_bits[g], board.open_bits[f] = own, cells, is_open
