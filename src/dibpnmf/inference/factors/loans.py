"""Loans: the rows of a factor take up another factor together, or leave it, Eq. (41)."""

from __future__ import annotations

import math

from dibpnmf._compile import inlined, part, spliced
from dibpnmf.inference.factors.board import NONE, Board, Room, bit, note, open_to
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
def _is_loan(board: Board, f: int, g: int) -> bool:
    """Whether all rows of g use f, but not they alone, or none does, and all its cells are open."""
    rows, others = board.own_bits[g], board.own_bits[f]
    common = others & rows
    is_one = common == NONE or (common == rows and others != rows)
    return is_one and board.other_bits[f] & ~board.open_bits[g] == NONE


@part
def list_loans(board: Board, room: Room, n_seen: int) -> int:
    """List the pairs of a factor g and an f open to its rows; return their number."""
    count = 0
    for p in range(n_seen):
        for q in range(n_seen):
            if _is_loan(board, room.seen[q], room.seen[p]):
                room.loans[count, 0], room.loans[count, 1] = room.seen[q], room.seen[p]
                count += 1
    return count


@inlined
def _count_touched(board: Board, room: Room, n_seen: int, f: int, g: int) -> int:
    """Count the loans that depend on the rows of f or on the cells of g."""
    count = 0
    for q in range(n_seen):
        j = room.seen[q]
        count += _is_loan(board, j, f) + _is_loan(board, f, j)
        count += j != f and _is_loan(board, g, j)
    return count


@spliced
def _fill_bases(lik, board: Board, room: Room, n_seen: int, f: int, g: int):  # type: ignore[no-untyped-def]
    """List rows of g and cells of f, with λ there without f and g; return how many these are."""
    A, X = board.A, board.X
    size, n_cells = 0, 0
    for n in range(X.shape[0]):
        if X[n, f] > 0.0:
            room.cells[n_cells] = n
            n_cells += 1
    for i in range(A.shape[0]):
        if A[i, g] > 0.0:
            room.rows[size], room.owner[size] = i, 0
            for c in range(n_cells):
                b = lik.epsilon
                for q in range(n_seen):
                    j = room.seen[q]
                    if j != f and j != g:
                        b += A[i, j] * X[room.cells[c], j]
                room.bases[size, c] = b
            size += 1
    return size, n_cells


@spliced
def _log_loan(board: Board, room: Room, f: int, size: int, n_cells: int, takes: bool, s: Stream):  # type: ignore[no-untyped-def]
    """Draw or read the a_if of the rows; return the log of prior over proposal of them all."""
    tau, total = board.own_slabs[f, 0], 0.0
    for p in range(size):
        i, need, needy = room.rows[p], 0.0, 0
        for c in range(n_cells):
            n = room.cells[c]
            if room.bases[p, c] < NEEDY * board.Y[i, n]:
                need += board.Y[i, n] / board.X[n, f]
                needy += 1
        at, deviation = guess(need, needy, tau)
        at, deviation = math.log(at), min(_WIDENED * deviation, WIDEST)
        v = draw_on(s, at, deviation, tau) if takes else board.A[i, f]
        room.load[p] = v
        total += board.own_odds[f] + math.log(tau * v) - tau * v - log_q_on(v, at, deviation, tau)
    return total


@spliced
def _lend(board: Board, room: Room, f: int, g: int, size: int, n_cells: int, takes: bool, s):  # type: ignore[no-untyped-def]
    """Log weight of the cells of f with the loan less that without, and what is left of g.

    Draws the entries of g for the one of the two that is proposed, Eq. (41).
    """
    X, tau, log_odds = board.X, board.other_slabs[g, 0], board.other_odds[g]
    total, left = 0.0, board.other_bits[g]
    for c in range(n_cells):
        n = room.cells[c]
        for p in range(size):
            room.base[p] = room.bases[p, c]
        for with_f in range(2):
            at = X[n, f] if with_f else 0.0
            peak = receive(board, room, size, 0, n, g, at)[0]
            x = X[n, g]
            if takes == bool(with_f):
                x = draw(s, peak, tau)
                room.drawn[1, c] = x
                left = left | bit(n) if x > 0.0 else left & ~bit(n)
            weight = log_weight(x, peak, log_odds, tau)
            weight += level_of(board, room, size, 0, n, g, at, x)
            total += weight if with_f else -weight
    return total, left


@part
def try_loan(lik, board: Board, room: Room, n_seen: int, n_loans: int, s: Stream) -> bool:  # type: ignore[no-untyped-def]
    """Let the rows of a factor g take up factor f or leave it, Eq. (41); tell whether they do.

    Which they may is listed.
    """
    if n_loans == 0:
        return False
    chosen = room.loans[int(uniform(s) * n_loans)]
    f, g = chosen[0], chosen[1]
    takes = board.own_bits[f] & board.own_bits[g] == NONE
    size, n_cells = _fill_bases(lik, board, room, n_seen, f, g)
    log_ratio = _log_loan(board, room, f, size, n_cells, takes, s)
    change, left = _lend(board, room, f, g, size, n_cells, takes, s)
    log_ratio += change
    if left == NONE:  # g would be gone, and nothing would bring it back
        return False
    # How many loans there are depends on both factors: one of two rows may become one of one.
    own, cells, is_open = board.own_bits[f], board.other_bits[g], board.open_bits[f]
    after = n_loans - _count_touched(board, room, n_seen, f, g)
    board.own_bits[f] = own ^ board.own_bits[g]
    board.other_bits[g] = left
    board.open_bits[f] = open_to(board, board.own_bits[f])
    after += _count_touched(board, room, n_seen, f, g)
    log_accept = (log_ratio if takes else -log_ratio) + math.log(n_loans / after)
    if log_accept > -exponential(s):
        for p in range(size):
            board.A[room.rows[p], f] = room.load[p] if takes else 0.0
        for c in range(n_cells):
            board.X[room.cells[c], g] = room.drawn[1, c]
        note(board, f)
        note(board, g)
        return True
    board.own_bits[f], board.other_bits[g], board.open_bits[f] = own, cells, is_open
    return False
