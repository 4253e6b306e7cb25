"""Found a factor beside receivers, or end one in their favour, Eq. (39)-(40)."""

from __future__ import annotations

import math

from dibpnmf._compile import inlined, part, spliced
from dibpnmf.inference.factors.board import (
    MISSING,
    NONE,
    Board,
    Room,
    bit,
    note,
    open_to,
)
from dibpnmf.inference.factors.casts import Cast, Census, choose_cast, list_cast
from dibpnmf.inference.factors.entries import (
    NEEDY,
    Peak,
    bounded,
    draw,
    guess,
    level_of,
    log_weight,
    receive,
)
from dibpnmf.inference.factors.places import (
    draw_last,
    draw_point,
    insert_point,
    log_point,
    note_merged,
    note_places,
    point_odds,
    read_point,
    remove_point,
    weigh_places,
)
from dibpnmf.inference.unseen import log_off
from dibpnmf.likelihoods.peak_proposal import LOG_ALL
from dibpnmf.priors.unseen import log_unseen
from dibpnmf.random import Stream, exponential, normal, uniform

_USED = 0.6  # share of the open cells that f is expected to take, for the choice of a place
_COMMON, _OWN = 0.7, 0.35  # deviations of log a_if: common to all rows, and each of its own


@inlined
def _fill_base(lik, board: Board, room: Room, cast: Cast, n: int) -> None:  # type: ignore[no-untyped-def]
    """Sum λ without f and the receivers afresh: a difference might lose its digits."""
    A, X = board.A, board.X
    for p in range(cast.size):
        i = room.rows[p]
        b = lik.epsilon
        for q in range(cast.n_seen):
            j = room.seen[q]
            if j != cast.f and j != cast.g and j != cast.h:
                b += A[i, j] * X[n, j]
        room.base[p] = b


@spliced
def _take(board: Board, room: Room, cast: Cast, n: int):  # type: ignore[no-untyped-def]
    """Proposal of entry (n, f), the receivers' entries summed out where it may be, and at zero."""
    tau, log_odds = board.other_slabs[cast.f, 0], board.other_odds[cast.f]
    need, needy = 0.0, 0
    for p in range(cast.size):
        y = board.Y[room.rows[p], n]
        if room.base[p] < NEEDY * y:
            need += y / room.load[p]
            needy += 1
    x, deviation = guess(need, needy, tau)
    log_mass = log_odds + math.log(tau * x) - tau * x + LOG_ALL + math.log(deviation)
    for r in range(cast.n_receivers):
        k = cast.g if r == 0 else cast.h
        log_mass += receive(board, room, cast.size, r, n, k, x)[1]
        log_mass -= receive(board, room, cast.size, r, n, k, 0.0)[1]
    return Peak(math.log(x), deviation, bounded(log_mass))


@part
def _divide(lik, board: Board, room: Room, cast: Cast, is_birth: bool, s: Stream) -> float:  # type: ignore[no-untyped-def]
    """Log weight of the open cells with factor f less that without it, Eq. (39).

    Draws the entries of f and the receivers for the one of the two that is proposed.
    """
    X, total = board.X, 0.0
    f, size = cast.f, cast.size
    for c in range(cast.n_cells):
        n = room.cells[c]
        _fill_base(lik, board, room, cast, n)
        peak = _take(board, room, cast, n)
        tau = board.other_slabs[f, 0]
        x = draw(s, peak, tau) if is_birth else X[n, f]
        room.drawn[0, c] = x if is_birth else 0.0
        total += log_weight(x, peak, board.other_odds[f], tau)
        for r in range(cast.n_receivers):
            k = cast.g if r == 0 else cast.h
            tau = board.other_slabs[k, 0]
            for with_f in range(2):
                at = x if with_f else 0.0
                peak = receive(board, room, size, r, n, k, at)[0]
                v = X[n, k]
                if is_birth == bool(with_f):
                    v = draw(s, peak, tau)
                    room.drawn[r + 1, c] = v
                weight = log_weight(v, peak, board.other_odds[k], tau)
                weight += level_of(board, room, size, r, n, k, at, v)
                total += weight if with_f else -weight
    return total


@inlined
def _log_column(board: Board, f: int, rows: float) -> float:
    """Log prior of column f with so many rows on; its cells come in units of 1 − π, Eq. (39)."""
    empty = board.A.shape[0] * log_off(board.own_odds[f])
    return rows * board.own_odds[f] + empty + board.X.shape[0] * log_off(board.other_odds[f])


@inlined
def _log_unseen_column(board: Board, own_odds: float, other_odds: float) -> float:
    """Log prior of a column's being unseen, Eq. (37)."""
    return log_unseen(board.A.shape[0] * log_off(own_odds), board.X.shape[0] * log_off(other_odds))


@inlined
def _own_first(board: Board, odds):  # type: ignore[no-untyped-def]
    """Put what there is of rows and columns of the matrix as own and other side, or back."""
    return odds if board.side == 0 else (odds[1], odds[0])


@inlined
def _expected(board: Board, cast: Cast):  # type: ignore[no-untyped-def]
    """How many entries f will have, on the rows' side of the matrix and on the columns'."""
    return _own_first(board, (float(cast.size), max(_USED * cast.n_cells, 1.0)))


@inlined
def _weigh(board: Board, room: Room, places, cast: Cast, at: int) -> float:  # type: ignore[no-untyped-def]
    """Weigh the places that f may have, were it not at position ``at``; return the sum."""
    K, top, total = board.A.shape[1], -math.inf, 0.0
    n0, n1 = _expected(board, cast)
    if at >= 0:
        note_merged(places, at)
    weigh_places(places, n0, n1, room.slots)
    for p in range(K + 1):
        # The last step goes if f comes; if it goes, the steps to it and from it become one.
        is_free = p < K - 1 if at < 0 else p != at and p != at + 1
        if not is_free:
            room.slots[p] = -math.inf
        top = max(top, room.slots[p])
    for p in range(K + 1):
        room.slots[p] = math.exp(room.slots[p] - top)
        total += room.slots[p]
    return total


@inlined
def _choose_place(room: Room, K: int, total: float, s: Stream) -> int:
    chosen, u = -1, uniform(s) * total
    for p in range(K):
        if room.slots[p] > 0.0 and u >= 0.0:
            chosen = p
            u -= room.slots[p]
    return chosen


@spliced
def _fill_centres(board: Board, room: Room, cast: Cast) -> None:
    """Write where log a_if is proposed: in proportion to the twin's, or to the rows' means.

    Scaled so that f is about as balanced as Eq. (23) would make it.
    """
    tau, other_tau = board.own_slabs[cast.f, 0], board.other_slabs[cast.f, 0]
    mean, level, size = 0.0, 0.0, cast.size
    for p in range(size):
        total, hits = 0.0, 0
        for c in range(cast.n_cells):
            y = board.Y[room.rows[p], room.cells[c]]
            if y != MISSING:
                total += y
                hits += 1
        own = total / hits if hits else 1.0
        mean += own / size
        level += math.log(own) / size
        room.centre[p] = math.log(own)
    cells = max(_USED * cast.n_cells, 1.0)
    half, a = 0.5 * (size - cells), tau * size * mean
    log_scale = math.log((half + math.sqrt(half * half + a * other_tau * cells)) / a)
    for p in range(size if cast.h < 0 else 0):
        room.centre[p] = math.log(board.A[room.rows[p], cast.g])
        level -= room.centre[p] / size
    for p in range(size):
        room.centre[p] += log_scale + (level if cast.h < 0 else 0.0)


@spliced
def _log_loads(board: Board, room: Room, cast: Cast) -> float:
    """Log of prior over proposal of all a_if, as densities of their logs."""
    tau, size = board.own_slabs[cast.f, 0], cast.size
    total, first, second = 0.0, 0.0, 0.0
    for p in range(size):
        u = math.log(room.load[p])
        total += math.log(tau) + u - tau * room.load[p]
        first += u - room.centre[p]
        second += (u - room.centre[p]) ** 2
    # A normal density whose covariance has o + c on and c off the diagonal.
    o, c = _OWN * _OWN, _COMMON * _COMMON
    square = (second - c * first * first / (o + size * c)) / o
    log_det = (size - 1) * math.log(o) + math.log(o + size * c)
    return total + 0.5 * (square + size * math.log(2.0 * math.pi) + log_det)


@spliced
def _set_loads(board: Board, room: Room, cast: Cast, is_birth: bool, s: Stream) -> None:
    """Draw the a_if, or read them."""
    _fill_centres(board, room, cast)
    shift = _COMMON * normal(s) if is_birth else 0.0
    for p in range(cast.size):
        if is_birth:
            room.load[p] = math.exp(room.centre[p] + shift + _OWN * normal(s))
        else:
            room.load[p] = board.A[room.rows[p], cast.f]


@spliced
def _are_used(board: Board, room: Room, cast: Cast, is_birth: bool) -> bool:
    """Whether each receiver keeps a cell, and a new factor gets one."""
    taken = 0
    for c in range(cast.n_cells):
        taken += room.drawn[0, c] > 0.0
    used = taken > 0 or not is_birth
    for r in range(cast.n_receivers):
        left = board.other_bits[cast.g if r == 0 else cast.h]
        for c in range(cast.n_cells):
            here = bit(room.cells[c])
            left = left | here if room.drawn[r + 1, c] > 0.0 else left & ~here
        used = used and left != NONE
    return used


@spliced
def _settle(board: Board, room: Room, cast: Cast, is_birth: bool) -> None:
    """Write what was drawn."""
    A, X, f, g, h = board.A, board.X, cast.f, cast.g, cast.h
    # A column that was unseen may have had entries on one side.
    for i in range(A.shape[0]):
        A[i, f] = 0.0
    for n in range(X.shape[0]):
        X[n, f] = 0.0
    for p in range(cast.size if is_birth else 0):
        A[room.rows[p], f] = room.load[p]
    for c in range(cast.n_cells):
        n = room.cells[c]
        X[n, f] = room.drawn[0, c]
        X[n, g] = room.drawn[1, c]
        if h >= 0:
            X[n, h] = room.drawn[2, c]
    note(board, f)
    note(board, g)
    if h >= 0:
        note(board, h)


@spliced
def _place(board: Board, room: Room, places, cast: Cast, s: Stream):  # type: ignore[no-untyped-def]
    """Draw a place and a point in it for f; return the place and its share of Eq. (40)."""
    total = _weigh(board, room, places, cast, -1)
    p = _choose_place(room, board.A.shape[1], total, s)
    n0, n1 = _expected(board, cast)
    draw_point(places, p, n0, n1, s)
    f = cast.f
    change = -_log_unseen_column(board, board.own_odds[f], board.other_odds[f])
    board.own_odds[f], board.other_odds[f] = _own_first(board, point_odds(places))
    return p, change + log_point(places) - math.log(room.slots[p] / total)


@spliced
def _displace(board: Board, room: Room, places, cast: Cast, s: Stream):  # type: ignore[no-untyped-def]
    """Draw a last step for when f has gone; return the position of f, and the same share."""
    K, p = board.A.shape[1], 0
    while board.order[p] != cast.f:
        p += 1
    if p == K - 1:
        return p, 0.0, 0.0, 0.0
    total = _weigh(board, room, places, cast, p)
    n0, n1 = _expected(board, cast)
    read_point(places, p, n0, n1)
    own, other = _own_first(board, draw_last(places, s))
    change = log_point(places) - math.log(room.slots[K] / total)
    return p, change - _log_unseen_column(board, own, other), own, other


@spliced
def _reorder(board: Board, places, f: int, p: int, is_birth: bool) -> None:  # type: ignore[no-untyped-def]
    """Put column f, and its point, at position p, from the end, or from there to the end."""
    K = board.A.shape[1]
    if is_birth:
        insert_point(places, p)
        for j in range(K - 1, p, -1):
            board.order[j] = board.order[j - 1]
        board.order[p] = f
    else:
        remove_point(places, p)
        for j in range(p, K - 1):
            board.order[j] = board.order[j + 1]
        board.order[K - 1] = f
    note_places(places)


@part
def try_founding(  # type: ignore[no-untyped-def]
    lik, board: Board, room: Room, places, census: Census, n_seen: int, is_birth: bool,
    is_pair: bool, s: Stream,
) -> bool:  # fmt: skip
    """Found a factor or end one, Eq. (39)-(40); tell whether anything changed."""
    f, g, h, weight, ways = choose_cast(board, room, census, n_seen, is_birth, is_pair, s)
    if f < 0:
        return False
    cast = list_cast(board, room, f, g, h, n_seen)
    if cast.n_cells == 0:
        return False
    if not is_birth and board.other_bits[f] & ~(open_to(board, board.own_bits[f])) != NONE:
        return False  # a cell that is not open would not be founded
    own_odds, other_odds = board.own_odds[f], board.other_odds[f]
    if is_birth:
        p, log_ratio = _place(board, room, places, cast, s)
        new_own, new_other = board.own_odds[f], board.other_odds[f]
    else:
        p, log_ratio, new_own, new_other = _displace(board, room, places, cast, s)
        if p == board.A.shape[1] - 1:
            return False  # it would not be founded there
    _set_loads(board, room, cast, is_birth, s)
    appeal = room.appeal[cast.n_cells] if is_pair else 1.0
    log_ratio += math.log(weight / appeal) - math.log(ways)
    log_ratio += _log_column(board, f, cast.size) + _log_loads(board, room, cast)
    log_ratio += _divide(lik, board, room, cast, is_birth, s)
    is_accepted = (log_ratio if is_birth else -log_ratio) > -exponential(s)
    if is_accepted and _are_used(board, room, cast, is_birth):
        board.own_odds[f], board.other_odds[f] = new_own, new_other
        _settle(board, room, cast, is_birth)
        _reorder(board, places, f, p, is_birth)
        return True
    board.own_odds[f], board.other_odds[f] = own_odds, other_odds
    return False
