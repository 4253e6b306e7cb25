"""Found a factor beside others that it relieves, or end one in their favour: K moves.

On a small matrix with zeros a factor is a rectangle without zeros, near enough, and every other
cell has to be covered by one. Entry by entry a cover hardly changes, and factors neither appear
nor disappear but through those of a cell or two. Here a factor comes or goes as a whole, while
others, the receivers, give up or take over its cells. As seen from the side whose rows they are,

- "pair": a new factor f has the rows of two receivers that share none. It may take over any of
  the cells in which none of these rows has a zero, here called open.
- "twin": f has the rows of one receiver; the two divide the open cells between them.
- "loan": no factor comes or goes. A row with a factor g of its own takes up factor f, or leaves
  it, and g gives up, or takes over, cells of f.

Each is the other way round, too. Given A the rows of X are independent, and given x_nf so are the
receivers: entries (n, f), then those of the receivers, are drawn for every open n from proposals
that are normal densities of the log about a guess with a share of the prior, and odds of "on" that
for f have the receivers' entries summed out, near enough. So which of the cells f takes over need
not be guessed: the ratio, Eq. (39)-(41), is that of sums over all ways to divide them.

Masks of unseen columns are summed out (see `unseen`): f is drawn among these columns by what its
sticks think of so many entries. Afterwards unseen columns have to be drawn anew.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dibpnmf._borrow import borrow
from dibpnmf._compile import inlined, kernel
from dibpnmf.inference.unseen import log_off
from dibpnmf.likelihoods.exponential import ExponentialKernel
from dibpnmf.likelihoods.peak_proposal import LOG_ALL, core_log_density, draw_core
from dibpnmf.loadings.base import SMALLEST
from dibpnmf.observations import Observations
from dibpnmf.random import Stream, exponential, normal, uniform

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Bits = NDArray[np.uint64]

MISSING = -1.0  # what stands in Y for a cell that was not observed
_MOST_ROWS = 64  # on either side: sets of rows are bits of one word
_ZEROS = 0.1  # share of cells that are zero, from which on a cover of the others is rigid
TRIES = 8  # moves of either side in a sweep
_PAIRS, _TWINS = 0.4, 0.3  # shares of moves; the others are loans
_APPEAL = 0.5  # log weight of a pair of receivers for each of its open cells
_USED = 0.6  # share of the open cells that f is expected to take, for the choice of a column
_SUREST = 8.0  # log odds of "on" in a proposal, of either sign
_PRIOR_SHARE = 0.1  # of the prior in a proposal of a loading
_WIDEST = 1.2  # deviation of the log of a proposed loading
_WIDENED = 1.2  # that of a loan's, as g may make up for some of it
_NEEDY = 0.5  # a cell is needy where the others' λ is below this share of its value
_LOW = 0.3  # τ v for a loading that no cell needs
_COMMON, _OWN = 0.7, 0.35  # deviations of log a_if: common to all rows, and each of its own
_NONE, _ONE, _EVERY = np.uint64(0), np.uint64(1), np.uint64(0xFFFFFFFFFFFFFFFF)


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


class Room(NamedTuple):
    """Working memory."""

    rows: Ints  # of factor f
    owner: Ints  # which of the receivers each of them belongs to
    cells: Ints  # the open ones
    seen: Ints  # columns in use on both sides
    base: Floats  # λ of these rows in one cell, without f and the receivers
    load: Floats  # a_if
    centre: Floats  # of the proposal of log a_if
    drawn: Floats  # (3, N): new entries of f and of the receivers
    slots: Floats  # weights of columns that f may be
    appeal: Floats  # weight of a pair of receivers by the number of its open cells


class Peak(NamedTuple):
    """Proposal of an entry: where log v is if it is on, its deviation, and the log odds of "on"."""

    at: float
    deviation: float
    log_mass: float


class Cast(NamedTuple):
    """Who takes part: columns f, g, h, the number of receivers (g, or both), rows, open cells."""

    f: int
    g: int
    h: int
    n_receivers: int
    size: int
    n_cells: int


@inlined
def _ones(bits):  # type: ignore[no-untyped-def]
    """Count the bits that are set, by adding neighbours."""
    pairs, fours = np.uint64(0x5555555555555555), np.uint64(0x3333333333333333)
    bits = bits - ((bits >> np.uint64(1)) & pairs)
    bits = (bits & fours) + ((bits >> np.uint64(2)) & fours)
    bits = (bits + (bits >> np.uint64(4))) & np.uint64(0x0F0F0F0F0F0F0F0F)
    return np.int64((bits * np.uint64(0x0101010101010101)) >> np.uint64(56))


@inlined
def _bit(i: int):  # type: ignore[no-untyped-def]
    return _ONE << np.uint64(i)


@inlined
def _open_to(board: Board, rows):  # type: ignore[no-untyped-def]
    """Cells that are open to all of these rows."""
    cells = _EVERY
    for i in range(board.A.shape[0]):
        if rows & _bit(i):
            cells &= board.stored[i]
    return cells


@kernel
def _note(board: Board, k: int) -> None:
    """Take note of which entries of column k are on."""
    own, other = _NONE, _NONE
    for i in range(board.A.shape[0]):
        if board.A[i, k] > 0.0:
            own |= _bit(i)
    for n in range(board.X.shape[0]):
        if board.X[n, k] > 0.0:
            other |= _bit(n)
    board.own_bits[k], board.other_bits[k] = own, other
    board.open_bits[k] = _open_to(board, own)
    board.own_counts[k], board.other_counts[k] = _ones(own), _ones(other)


@inlined
def _is_seen(board: Board, k: int) -> bool:
    return board.own_bits[k] != _NONE and board.other_bits[k] != _NONE


@inlined
def _list_seen(board: Board, room: Room) -> int:
    n_seen = 0
    for k in range(board.A.shape[1]):
        if _is_seen(board, k):
            room.seen[n_seen] = k
            n_seen += 1
    return n_seen


@inlined
def _cell(y: float, mean: float) -> float:
    """Log likelihood of one cell, Eq. (10)."""
    return -math.log(mean) - y / mean


@inlined
def _log_total(log_mass: float) -> float:
    return math.log1p(math.exp(log_mass))


@inlined
def _bounded(log_mass: float) -> float:
    return min(max(log_mass, -_SUREST), _SUREST)


@inlined
def _guess(need: float, needy: int, tau: float):  # type: ignore[no-untyped-def]
    """Where v may be with Σ y/x = ``need`` over so many needy cells, and the deviation of log v.

    The peak of log v − τ v − Σ log(v x) + y/(v x), as if nothing else reached these cells.
    """
    if needy == 0:
        return _LOW / tau, _WIDEST
    half = 0.5 * (needy - 1.0)
    v = (math.sqrt(half * half + tau * need) - half) / tau
    return v, min(1.0 / math.sqrt(need / v + tau * v), _WIDEST)


@inlined
def _draw_on(s: Stream, at: float, deviation: float, tau: float) -> float:
    if uniform(s) < _PRIOR_SHARE:
        return max(exponential(s) / tau, SMALLEST)
    return max(math.exp(at + deviation * draw_core(s)), SMALLEST)


@inlined
def _log_q_on(v: float, at: float, deviation: float, tau: float) -> float:
    """Log density of log v as `_draw_on` draws it."""
    core = math.exp(core_log_density((math.log(v) - at) / deviation)) / deviation
    return math.log(_PRIOR_SHARE * tau * v * math.exp(-tau * v) + (1.0 - _PRIOR_SHARE) * core)


@inlined
def _draw(s: Stream, peak: Peak, tau: float) -> float:
    """Draw z·v of an entry."""
    u = uniform(s)
    if math.log(u) - math.log1p(-u) >= peak.log_mass:
        return 0.0
    return _draw_on(s, peak.at, peak.deviation, tau)


@inlined
def _log_weight(v: float, peak: Peak, log_odds: float, tau: float) -> float:
    """Log of prior over proposal of an entry: "off" in units of 1 − π, "on" by log v."""
    log_total = _log_total(peak.log_mass)
    if v == 0.0:
        return log_total
    log_prior = log_odds + math.log(tau * v) - tau * v
    return log_prior - (peak.log_mass - log_total) - _log_q_on(v, peak.at, peak.deviation, tau)


@inlined
def _level(board: Board, room: Room, size: int, which: int, n: int, k: int, x: float, v: float):  # type: ignore[no-untyped-def]
    """Log likelihood of a receiver's rows in cell n, with f at x and the receiver, k, at v."""
    total = 0.0
    for p in range(size):
        i = room.rows[p]
        y = board.Y[i, n]
        if room.owner[p] == which and y != MISSING:
            total += _cell(y, room.base[p] + room.load[p] * x + board.A[i, k] * v)
    return total


@inlined
def _receive(board: Board, room: Room, size: int, which: int, n: int, k: int, x: float):  # type: ignore[no-untyped-def]
    """Proposal of entry (n, k) of a receiver with f at x, and the log of all its mass."""
    tau, log_odds = board.other_slabs[k, 0], board.other_odds[k]
    need, needy = 0.0, 0
    for p in range(size):
        i = room.rows[p]
        y = board.Y[i, n]
        if room.owner[p] == which and room.base[p] + room.load[p] * x < _NEEDY * y:
            need += y / board.A[i, k]
            needy += 1
    v, deviation = _guess(need, needy, tau)
    level = _level(board, room, size, which, n, k, x, 0.0)
    log_mass = log_odds + math.log(tau * v) - tau * v + LOG_ALL + math.log(deviation)
    log_mass = _bounded(log_mass + _level(board, room, size, which, n, k, x, v) - level)
    return Peak(math.log(v), deviation, log_mass), level + _log_total(log_mass)


@inlined
def _fill_base(lik, board: Board, room: Room, cast: Cast, n: int) -> None:  # type: ignore[no-untyped-def]
    """Sum λ without f and the receivers afresh: a difference might lose its digits."""
    A, X = board.A, board.X
    for p in range(cast.size):
        i = room.rows[p]
        b = lik.epsilon
        for j in range(A.shape[1]):
            if j != cast.f and j != cast.g and j != cast.h:
                b += A[i, j] * X[n, j]
        room.base[p] = b


@inlined
def _take(board: Board, room: Room, cast: Cast, n: int):  # type: ignore[no-untyped-def]
    """Proposal of entry (n, f), the receivers' entries summed out where it may be, and at zero."""
    tau, log_odds = board.other_slabs[cast.f, 0], board.other_odds[cast.f]
    need, needy = 0.0, 0
    for p in range(cast.size):
        y = board.Y[room.rows[p], n]
        if room.base[p] < _NEEDY * y:
            need += y / room.load[p]
            needy += 1
    x, deviation = _guess(need, needy, tau)
    log_mass = log_odds + math.log(tau * x) - tau * x + LOG_ALL + math.log(deviation)
    for r in range(cast.n_receivers):
        k = cast.g if r == 0 else cast.h
        log_mass += _receive(board, room, cast.size, r, n, k, x)[1]
        log_mass -= _receive(board, room, cast.size, r, n, k, 0.0)[1]
    return Peak(math.log(x), deviation, _bounded(log_mass))


@kernel
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
        x = _draw(s, peak, tau) if is_birth else X[n, f]
        room.drawn[0, c] = x if is_birth else 0.0
        total += _log_weight(x, peak, board.other_odds[f], tau)
        for r in range(cast.n_receivers):
            k = cast.g if r == 0 else cast.h
            tau = board.other_slabs[k, 0]
            for with_f in range(2):
                at = x if with_f else 0.0
                peak = _receive(board, room, size, r, n, k, at)[0]
                v = X[n, k]
                if is_birth == bool(with_f):
                    v = _draw(s, peak, tau)
                    room.drawn[r + 1, c] = v
                weight = _log_weight(v, peak, board.other_odds[k], tau)
                weight += _level(board, room, size, r, n, k, at, v)
                total += weight if with_f else -weight
    return total


@inlined
def _log_column(board: Board, k: int, rows: float, cells: float) -> float:
    """Log prior of column k with so many entries on, less that of its being unseen, Eq. (37)."""
    empty = board.A.shape[0] * log_off(board.own_odds[k])
    other_empty = board.X.shape[0] * log_off(board.other_odds[k])
    value = rows * board.own_odds[k] + empty + cells * board.other_odds[k] + other_empty
    high, low = max(empty, other_empty), min(empty, other_empty)
    return value - high - math.log1p(math.exp(low - high) - math.exp(low))


@inlined
def _weigh_columns(board: Board, room: Room, cast: Cast) -> float:
    """Weigh all columns that are unseen, and f, by what f needs; return the sum."""
    cells = max(_USED * cast.n_cells, 1.0)
    top, total = -math.inf, 0.0
    for k in range(board.A.shape[1]):
        is_free = k == cast.f or not _is_seen(board, k)
        room.slots[k] = _log_column(board, k, cast.size, cells) if is_free else -math.inf
        top = max(top, room.slots[k])
    for k in range(board.A.shape[1]):
        room.slots[k] = math.exp(room.slots[k] - top)
        total += room.slots[k]
    return total


@inlined
def _choose_column(board: Board, room: Room, total: float, s: Stream) -> int:
    chosen, u = -1, uniform(s) * total
    for k in range(board.A.shape[1]):
        if room.slots[k] > 0.0 and u >= 0.0:
            chosen = k
            u -= room.slots[k]
    return chosen


@inlined
def _choose_receivers(  # type: ignore[no-untyped-def]
    board: Board, room: Room, n_seen: int, is_pair: bool, without: int, target: float
):
    """Sum the weights of receivers; return it with those that ``target`` falls on."""
    total, g, h = 0.0, -1, -1
    for p in range(n_seen):
        k = room.seen[p]
        for q in range(p if is_pair else 1):
            other = room.seen[q] if is_pair else -1
            if k == without or (is_pair and other == without):
                continue
            if is_pair and board.own_bits[k] & board.own_bits[other] != _NONE:
                continue
            weight = 1.0
            if is_pair:
                weight = room.appeal[_ones(board.open_bits[k] & board.open_bits[other])]
            if total <= target < total + weight:
                g, h = k, other
            total += weight
    return total, g, h


@inlined
def _choose_end(board: Board, room: Room, n_seen: int, is_pair: bool, target: int):  # type: ignore[no-untyped-def]
    """Count the ways to end a factor f in favour of receivers; return number ``target``, too."""
    count, f, g, h = 0, -1, -1, -1
    for p in range(n_seen):
        rows = board.own_bits[room.seen[p]]
        for q in range(n_seen):
            part = board.own_bits[room.seen[q]]
            # Receivers of a pair have some of the rows each, a twin has all of them.
            if q == p or part & rows != part or (part == rows) == is_pair:
                continue
            for r in range(q if is_pair else 1):
                if is_pair and board.own_bits[room.seen[r]] != rows ^ part:
                    continue
                if count == target:
                    f, g, h = room.seen[p], room.seen[q], room.seen[r] if is_pair else -1
                count += 1
    return count, f, g, h


@inlined
def _list_cast(board: Board, room: Room, f: int, g: int, h: int) -> Cast:
    """List the rows of the receivers with their owners, and the cells open to all of them."""
    rows, cells = board.own_bits[g], board.open_bits[g]
    if h >= 0:
        rows |= board.own_bits[h]
        cells &= board.open_bits[h]
    size, n_cells = 0, 0
    for i in range(board.A.shape[0]):
        if rows & _bit(i):
            room.rows[size] = i
            room.owner[size] = 0 if board.A[i, g] > 0.0 else 1
            size += 1
    for n in range(board.X.shape[0]):
        if cells & _bit(n):
            room.cells[n_cells] = n
            n_cells += 1
    return Cast(f, g, h, 1 if h < 0 else 2, size, n_cells)


@inlined
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


@inlined
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


@inlined
def _set_loads(board: Board, room: Room, cast: Cast, is_birth: bool, s: Stream) -> None:
    """Draw the a_if, or read them."""
    _fill_centres(board, room, cast)
    shift = _COMMON * normal(s) if is_birth else 0.0
    for p in range(cast.size):
        if is_birth:
            room.load[p] = math.exp(room.centre[p] + shift + _OWN * normal(s))
        else:
            room.load[p] = board.A[room.rows[p], cast.f]


@inlined
def _are_used(board: Board, room: Room, cast: Cast, is_birth: bool) -> bool:
    """Whether each receiver keeps a cell, and a new factor gets one."""
    taken = 0
    for c in range(cast.n_cells):
        taken += room.drawn[0, c] > 0.0
    used = taken > 0 or not is_birth
    for r in range(cast.n_receivers):
        left = board.other_bits[cast.g if r == 0 else cast.h]
        for c in range(cast.n_cells):
            bit = _bit(room.cells[c])
            left = left | bit if room.drawn[r + 1, c] > 0.0 else left & ~bit
        used = used and left != _NONE
    return used


@inlined
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
    _note(board, f)
    _note(board, g)
    if h >= 0:
        _note(board, h)


@kernel
def _try_founding(  # type: ignore[no-untyped-def]
    lik, board: Board, room: Room, n_seen: int, is_birth: bool, is_pair: bool, s: Stream
) -> bool:
    """Found a factor or end one, Eq. (39)-(40); tell whether anything changed."""
    f, g, h, ways, weight = -1, -1, -1, 0, 0.0
    if is_birth:
        weight = _choose_receivers(board, room, n_seen, is_pair, -1, -1.0)[0]
        target = uniform(s) * weight
        weight, g, h = _choose_receivers(board, room, n_seen, is_pair, -1, target)
        if g < 0 or n_seen == board.A.shape[1]:
            return False
    else:
        ways = _choose_end(board, room, n_seen, is_pair, -1)[0]
        if ways == 0:
            return False
        ways, f, g, h = _choose_end(board, room, n_seen, is_pair, int(uniform(s) * ways))
        weight = _choose_receivers(board, room, n_seen, is_pair, f, -1.0)[0]
    cast = _list_cast(board, room, f, g, h)
    if cast.n_cells == 0:
        return False
    if not is_birth and board.other_bits[f] & ~(_open_to(board, board.own_bits[f])) != _NONE:
        return False  # a cell that is not open would not be founded
    total = _weigh_columns(board, room, cast)
    if is_birth:
        f = _choose_column(board, room, total, s)
        cast = Cast(f, g, h, cast.n_receivers, cast.size, cast.n_cells)
        # Ways to end f or others, were f there.
        own = board.own_bits[f]
        board.own_bits[f] = board.own_bits[g] | (board.own_bits[h] if is_pair else _NONE)
        room.seen[n_seen] = f
        ways = _choose_end(board, room, n_seen + 1, is_pair, -1)[0]
        board.own_bits[f] = own
    _set_loads(board, room, cast, is_birth, s)
    appeal = room.appeal[cast.n_cells] if is_pair else 1.0
    log_ratio = math.log(weight / appeal) - math.log(ways) - math.log(room.slots[f] / total)
    log_ratio += _log_column(board, f, cast.size, 0.0) + _log_loads(board, room, cast)
    log_ratio += _divide(lik, board, room, cast, is_birth, s)
    is_accepted = (log_ratio if is_birth else -log_ratio) > -exponential(s)
    if is_accepted and _are_used(board, room, cast, is_birth):
        _settle(board, room, cast, is_birth)
        return True
    return False


@inlined
def _choose_loan(board: Board, room: Room, n_seen: int, target: int):  # type: ignore[no-untyped-def]
    """Count the pairs of a factor g of one row and an f that is open to it; return one, too."""
    count, f, g = 0, -1, -1
    for p in range(n_seen):
        k = room.seen[p]
        if board.own_bits[k] & (board.own_bits[k] - _ONE) != _NONE:  # more than one bit
            continue
        for q in range(n_seen):
            other = room.seen[q]
            is_open = board.other_bits[other] & ~board.open_bits[k] == _NONE
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
        if b < _NEEDY * board.Y[i, n]:
            need += board.Y[i, n] / X[n, f]
            needy += 1
    v, deviation = _guess(need, needy, board.own_slabs[f, 0])
    return size, math.log(v), min(_WIDENED * deviation, _WIDEST)


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
            peak = _receive(board, room, 1, 0, n, g, at)[0]
            x = X[n, g]
            if takes == bool(with_f):
                x = _draw(s, peak, tau)
                room.drawn[1, c] = x
                left = left | _bit(n) if x > 0.0 else left & ~_bit(n)
            weight = _log_weight(x, peak, log_odds, tau)
            weight += _level(board, room, 1, 0, n, g, at, x)
            total += weight if with_f else -weight
    return total, left


@kernel
def _try_loan(lik, board: Board, room: Room, n_seen: int, s: Stream) -> None:  # type: ignore[no-untyped-def]
    """Let a row with a factor g of its own take up factor f or leave it, Eq. (41)."""
    count = _choose_loan(board, room, n_seen, -1)[0]
    if count == 0:
        return
    count, f, g = _choose_loan(board, room, n_seen, int(uniform(s) * count))
    i = _ones(board.own_bits[g] - _ONE)
    tau = board.own_slabs[f, 0]
    size, at, deviation = _list_loan(lik, board, room, i, f, g)
    takes = board.A[i, f] == 0.0
    v = _draw_on(s, at, deviation, tau) if takes else board.A[i, f]
    room.rows[0], room.owner[0] = i, 0
    log_ratio = board.own_odds[f] + math.log(tau * v) - tau * v - _log_q_on(v, at, deviation, tau)
    change, left = _lend(board, room, f, g, size, v, takes, s)
    log_ratio += change
    if left == _NONE:  # g would be gone, and nothing would bring it back
        return
    # How many loans there are depends on both factors: one of two rows may become one of one.
    own, cells, is_open = board.own_bits[f], board.other_bits[g], board.open_bits[f]
    board.own_bits[f] = own ^ board.own_bits[g]
    board.other_bits[g] = left
    board.open_bits[f] = _open_to(board, board.own_bits[f])
    after = _choose_loan(board, room, n_seen, -1)[0]
    log_accept = (log_ratio if takes else -log_ratio) + math.log(count / after)
    if log_accept > -exponential(s):
        board.A[i, f] = v if takes else 0.0
        for c in range(size):
            board.X[room.cells[c], g] = room.drawn[1, c]
        _note(board, f)
        _note(board, g)
    else:
        board.own_bits[f], board.other_bits[g], board.open_bits[f] = own, cells, is_open


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
                board.stored[i] |= _bit(n)
    for k in range(K):
        _note(board, k)
    n_seen = _list_seen(board, room)
    for _ in range(tries):
        kind, is_birth = uniform(s), uniform(s) < 0.5
        if kind >= _PAIRS + _TWINS:
            _try_loan(lik, board, room, n_seen, s)
        elif _try_founding(lik, board, room, n_seen, is_birth, kind < _PAIRS, s):
            n_seen = _list_seen(board, room)
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
