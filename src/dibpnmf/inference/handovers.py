"""Hand a row's share of one factor over to another: structure of small matrices moves.

Under the exponential likelihood an entry of a small matrix that is zero all but forbids a factor
there, and one that is not has to be covered by some factor. Entry by entry a cover of the matrix
changes slowly: a row can leave factor k only when others cover all of its cells, and nothing else
makes them do so beforehand. Here both happen at once, in either direction. With x_k held,

1. a_ik is switched off, or on with v from its prior. To leave early what is hopeless, "on" passes
   a first test of probability e^S only, S = −Σ log(1 + v x_nk/ε) over the cells n of factor k where
   y_in = 0; the ratio makes up for it (delayed acceptance). S is a function of v and what is held.
2. A receiver f takes over. Given the new a_ik, entries (n, f) are drawn from proposals q_n,
   independent of each other and of what they were:
   - "hand over", to a factor f that row i uses: those of the cells n of factor k. f is drawn by
     weights that are the fewer the more zeros its other rows have in these cells;
   - "found", to a column f that no row uses, or back: a_if is drawn from its prior and all (n, f)
     from q_n. In the other direction row i is the only one to use f, leaves it as it takes up k,
     and the (n, f), which nothing depends on any more, are drawn from their prior.
3. All is accepted or refused by Metropolis-Hastings, Eq. (38)-(39).

Costs a number of cells for each entry, so it is for small matrices with zeros; they are also those
whose factors have so few cells that such a move has a chance.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dibpnmf._borrow import borrow
from dibpnmf._compile import inlined, kernel, reassociated, spliced
from dibpnmf.inference.unseen import log_off
from dibpnmf.likelihoods.exponential import ExponentialKernel, entry_of
from dibpnmf.likelihoods.grid_proposal import DEFENCE, evaluate
from dibpnmf.likelihoods.peak_proposal import (
    FARTHEST,
    NEAREST,
    core_log_density,
    draw_core,
    expectation,
    find_peak,
)
from dibpnmf.likelihoods.rows import (
    BASE,
    HIT_BASE,
    HIT_LOAD,
    HIT_VALUE,
    LOAD,
    Entry,
    pad_hits,
    padded,
)
from dibpnmf.loadings.base import SMALLEST, Slab, slab_of
from dibpnmf.observations import Observations
from dibpnmf.random import Stream, exponential, uniform

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

MOST_CELLS = 4096  # of a matrix that is small
MISSING = -1.0  # what stands in Y for a cell that was not observed
_ZEROS = 0.1  # share of cells that are zero, from which on a cover of the others is rigid
_FOUND = 0.15  # share of moves that found a factor, or end one
_AVERSION = 0.2  # factor of a receiver's weight for each zero it would cover
_SLIGHTEST = 1e-6  # of a receiver's weights
_SUREST = 10.0  # log odds of "on" in a proposal


class Board(NamedTuple):
    """The matrix and its loadings as seen from one side, whose rows hand over."""

    Y: Floats
    A: Floats
    X: Floats
    own_odds: Floats  # log odds of the masks, of A's columns and of X's
    other_odds: Floats
    own_slabs: Floats
    other_slabs: Floats
    own_counts: Ints  # entries that are on, column by column
    other_counts: Ints


class Room(NamedTuple):
    """Working memory."""

    support: Floats
    grid: Floats
    cells: Ints  # those of factor k
    drawn: Floats  # new entries of the receiver
    weights: Floats  # of receivers


class Share(NamedTuple):
    """What is handed over: row i's share v of factor k, which has ``size`` cells, to column f."""

    i: int
    k: int
    f: int
    v: float
    size: int
    leaves: bool  # or else takes it up


@reassociated
def _product(A: Floats, X: Floats, r: int, n: int, start: int, stop: int) -> float:
    total = 0.0
    for j in range(np.uint64(start), np.uint64(stop)):
        total += A[r, j] * X[n, j]
    return total


@inlined
def _mean_without(epsilon: float, A: Floats, X: Floats, r: int, n: int, j: int, k: int) -> float:
    """Return ε + Σ a_rl x_nl over all l but j and k."""
    low, high = min(j, k), max(j, k)
    head = _product(A, X, r, n, 0, low) + _product(A, X, r, n, low + 1, high)
    return epsilon + head + _product(A, X, r, n, high + 1, A.shape[1])


@inlined
def _cell_log_likelihood(y: float, mean: float) -> float:
    return -math.log(mean) - y / mean


@inlined
def draw_free(s: Stream, log_odds: float, slab: Slab) -> float:
    """Draw z·v from its prior."""
    u = uniform(s)
    is_on = math.log(u) - math.log1p(-u) < log_odds
    return max(exponential(s) / slab.rate, SMALLEST) if is_on else 0.0


@kernel
def weigh(lik, entry: Entry, x: float, is_new: bool, log_odds: float, slab: Slab, s: Stream):  # type: ignore[no-untyped-def]
    """Draw z·v of an entry from q if ``is_new``; return it with the log of target over q.

    The target is that of `grid_proposal`, times the likelihood of the support without the entry:
    that of "off" is 1 in units of 1 − π. q is a peak's density with a share of the prior, or the
    prior alone where `find_peak` has none.
    """
    tau = slab.rate
    constant = log_odds + slab.log_height
    support, m, c, level = entry.support, entry.m, entry.c, entry.level
    peak, deviation, log_mass = find_peak(lik, entry, log_odds, slab, -math.inf)
    share = 1.0 / (1.0 + DEFENCE) if deviation < math.inf else 0.0
    if share == 0.0:
        guess, _spread, _most = expectation(lik, entry)
        v = min(max(guess, NEAREST / tau), FARTHEST / tau)
        log_mass = evaluate(lik, support, m, c, level, constant, tau, math.log(v), v)
    log_mass = min(log_mass, _SUREST)
    if is_new:
        u = uniform(s)
        x = 0.0
        if math.log(u) - math.log1p(-u) < log_mass:
            is_near = uniform(s) < share
            x = math.exp(peak + deviation * draw_core(s)) if is_near else exponential(s) / tau
            x = max(x, SMALLEST)
    log_total = math.log1p(math.exp(log_mass))
    if x == 0.0:
        return x, level + log_total
    u = math.log(x)
    density = (1.0 - share) * tau * x * math.exp(-tau * x)
    if share > 0.0:
        density += share * math.exp(core_log_density((u - peak) / deviation)) / deviation
    # Not less the level, which is as good as −y/ε: nothing else would be left of it.
    f = evaluate(lik, support, m, c, 0.0, constant, tau, u, x)
    return x, f - (log_mass - log_total) - math.log(density)


@inlined
def _put_cell(lines: Floats, m: int, c: int, b: float, a: float, y: float) -> None:
    lines[BASE, m] = b
    lines[LOAD, m] = a
    if y > 0.0:
        lines[HIT_BASE, c] = b
        lines[HIT_LOAD, c] = a
        lines[HIT_VALUE, c] = y


@spliced
def _gather(lik, board: Board, room: Room, share: Share, n: int):  # type: ignore[no-untyped-def]
    """Fill the support of entry (n, f) with row i, if observed, in front and without factor k."""
    Y, A, X = board.Y, board.A, board.X
    i, k, f = share.i, share.k, share.f
    m, c = 0, 0
    if Y[i, n] != MISSING:
        b = _mean_without(lik.epsilon, A, X, i, n, f, k)
        _put_cell(room.support, 0, 0, b, A[i, f], Y[i, n])
        m, c = 1, int(Y[i, n] > 0.0)
    for r in range(A.shape[0]):
        if r != i and A[r, f] > 0.0 and Y[r, n] != MISSING:
            b = _mean_without(lik.epsilon, A, X, r, n, f, k) + A[r, k] * X[n, k]
            _put_cell(room.support, m, c, b, A[r, f], Y[r, n])
            m += 1
            c += int(Y[r, n] > 0.0)
    pad_hits(room.support, c)
    return m, c


@spliced
def hand_over(lik, board: Board, room: Room, share: Share, s: Stream) -> float:  # type: ignore[no-untyped-def]
    """Log weight of row i without factor k less that of row i with it, Eq. (38).

    Draws the receiver's entries for the one of the two that is proposed.
    """
    i, k, f = share.i, share.k, share.f
    log_odds, slab = board.other_odds[f], slab_of(board.other_slabs, f)
    lines = room.support
    total = 0.0
    for p in range(share.size):
        n = room.cells[p]
        x = board.X[n, f]
        m, c = _gather(lik, board, room, share, n)
        without, weight = weigh(
            lik, entry_of(lines, room.grid, m, c), x, share.leaves, log_odds, slab, s
        )
        total += weight
        if board.Y[i, n] != MISSING:
            b = lines[BASE, 0] + share.v * board.X[n, k]
            _put_cell(lines, 0, 0, b, lines[LOAD, 0], board.Y[i, n])
        with_k, weight = weigh(
            lik, entry_of(lines, room.grid, m, c), x, not share.leaves, log_odds, slab, s
        )
        total -= weight
        room.drawn[p] = without if share.leaves else with_k
    return total


@spliced
def found(lik, board: Board, room: Room, share: Share, a: float, s: Stream) -> float:  # type: ignore[no-untyped-def]
    """Log weight of row i with a factor f of its own less that with factor k, Eq. (39).

    ``a`` is a_if. Draws the entries of f if row i leaves k, else from their prior.
    """
    i, k, f = share.i, share.k, share.f
    log_odds, slab = board.other_odds[f], slab_of(board.other_slabs, f)
    total = board.X.shape[0] * log_off(log_odds)
    for n in range(board.X.shape[0]):
        y = board.Y[i, n]
        if y == MISSING:
            room.drawn[n] = draw_free(s, log_odds, slab)
            total -= log_off(log_odds)
            continue
        b = _mean_without(lik.epsilon, board.A, board.X, i, n, f, k)
        _put_cell(room.support, 0, 0, b, a, y)
        pad_hits(room.support, int(y > 0.0))
        entry = entry_of(room.support, room.grid, 1, int(y > 0.0))
        room.drawn[n], weight = weigh(lik, entry, board.X[n, f], share.leaves, log_odds, slab, s)
        total += weight - _cell_log_likelihood(y, b + share.v * board.X[n, k])
        if not share.leaves:
            room.drawn[n] = draw_free(s, log_odds, slab)
    return total


@spliced
def choose_receiver(board: Board, room: Room, i: int, k: int, size: int, s: Stream) -> int:
    """Draw a factor of row i other than k, or return −1; the weights do not see row i's a_ik."""
    Y, A, weights = board.Y, board.A, room.weights
    total = 0.0
    for f in range(A.shape[1]):
        weights[f] = 0.0
        if f == k or A[i, f] == 0.0:
            continue
        zeros = 0
        for r in range(A.shape[0] if board.own_counts[f] > 1 else 0):
            if r != i and A[r, f] > 0.0:
                for p in range(size):
                    zeros += Y[r, room.cells[p]] == 0.0
        weights[f] = max(_AVERSION**zeros, _SLIGHTEST)
        total += weights[f]
    chosen = -1
    u = uniform(s) * total
    for f in range(A.shape[1]):
        if weights[f] > 0.0 and u >= 0.0:
            chosen = f
            u -= weights[f]
    return chosen


@inlined
def _is_candidate(board: Board, i: int, k: int, f: int, free: bool) -> bool:
    """Whether column f is used by no row, or by row i only."""
    if f == k:
        return False
    if free:
        return board.own_counts[f] == 0
    return board.own_counts[f] == 1 and board.A[i, f] > 0.0


@inlined
def _count(board: Board, i: int, k: int, free: bool) -> int:
    count = 0
    for f in range(board.A.shape[1]):
        count += _is_candidate(board, i, k, f, free)
    return count


@inlined
def _nth(board: Board, i: int, k: int, free: bool, n: int) -> int:
    chosen = -1
    for f in range(board.A.shape[1]):
        if _is_candidate(board, i, k, f, free):
            if n == 0:
                chosen = f
            n -= 1
    return chosen


@inlined
def _set_own(board: Board, i: int, k: int, v: float) -> None:
    board.own_counts[k] += int(v > 0.0) - int(board.A[i, k] > 0.0)
    board.A[i, k] = v


@inlined
def _set_other(board: Board, n: int, f: int, x: float) -> None:
    board.other_counts[f] += int(x > 0.0) - int(board.X[n, f] > 0.0)
    board.X[n, f] = x


@inlined
def _log_screen(lik, board: Board, room: Room, i: int, k: int, v: float, least: float):  # type: ignore[no-untyped-def]
    """List the cells of factor k; return their number and S, or some number below ``least``."""
    size, screen = 0, 0.0
    for n in range(board.X.shape[0]):
        if board.X[n, k] > 0.0:
            room.cells[size] = n
            size += 1
            if board.Y[i, n] == 0.0:
                screen -= math.log1p(v * board.X[n, k] / lik.epsilon)
                if screen < least:
                    break
    return size, screen


@spliced
def _try_handing_over(lik, board: Board, room: Room, share: Share, log_ratio: float, s: Stream):  # type: ignore[no-untyped-def]
    """Move by Eq. (38); ``log_ratio`` is what it has of its own, for "row i leaves k"."""
    f = choose_receiver(board, room, share.i, share.k, share.size, s)
    if f < 0:
        return
    share = Share(share.i, share.k, f, share.v, share.size, share.leaves)
    log_ratio += hand_over(lik, board, room, share, s)
    if (log_ratio if share.leaves else -log_ratio) > -exponential(s):
        _set_own(board, share.i, share.k, 0.0 if share.leaves else share.v)
        for p in range(share.size):
            _set_other(board, room.cells[p], f, room.drawn[p])


@spliced
def _try_founding(lik, board: Board, room: Room, share: Share, log_ratio: float, s: Stream):  # type: ignore[no-untyped-def]
    """Move by Eq. (39)."""
    i, k, leaves = share.i, share.k, share.leaves
    free, own = _count(board, i, k, True), _count(board, i, k, False)
    candidates = free if leaves else own
    if candidates == 0:
        return
    f = _nth(board, i, k, leaves, int(uniform(s) * candidates))
    a = exponential(s) / board.own_slabs[f, 0] if leaves else board.A[i, f]
    # Free columns before row i leaves k, and its own ones after.
    log_ratio += math.log(free if leaves else free + 1) - math.log(own + 1 if leaves else own)
    log_ratio += board.own_odds[f]
    share = Share(i, k, f, share.v, share.size, leaves)
    log_ratio += found(lik, board, room, share, a, s)
    if (log_ratio if leaves else -log_ratio) > -exponential(s):
        _set_own(board, i, k, 0.0 if leaves else share.v)
        _set_own(board, i, f, a if leaves else 0.0)
        for n in range(board.X.shape[0]):
            _set_other(board, n, f, room.drawn[n])


@spliced
def _try_entry(lik, board: Board, room: Room, i: int, k: int, s: Stream) -> None:  # type: ignore[no-untyped-def]
    """Try to let row i leave factor k, or take it up."""
    old = board.A[i, k]
    v = old if old > 0.0 else exponential(s) / board.own_slabs[k, 0]
    least = -exponential(s) if old == 0.0 else -math.inf
    size, screen = _log_screen(lik, board, room, i, k, v, least)
    if screen < least:
        return
    share = Share(i, k, k, v, size, old > 0.0)
    log_ratio = screen - board.own_odds[k]
    if uniform(s) < _FOUND:
        _try_founding(lik, board, room, share, log_ratio, s)
    else:
        _try_handing_over(lik, board, room, share, log_ratio, s)


@kernel
def hand_over_shares(  # type: ignore[no-untyped-def]
    lik, Y: Floats, A: Floats, X: Floats, own_odds: Floats, other_odds: Floats, own_slabs: Floats,
    other_slabs: Floats, s: Stream,
) -> None:  # fmt: skip
    """Try every entry of A in turn, in place."""
    (M, K), N = A.shape, X.shape[0]
    counts = np.zeros((2, K), np.int64)
    for k in range(K):
        for i in range(M):
            counts[0, k] += A[i, k] > 0.0
        for n in range(N):
            counts[1, k] += X[n, k] > 0.0
    lines, grid, cells = np.empty((5, padded(M))), np.empty((1, 1)), np.empty(N, np.int64)
    numbers = np.empty((2, max(N, K)))
    room = Room(borrow(lines), borrow(grid), borrow(cells), borrow(numbers[0]), borrow(numbers[1]))
    board = Board(
        borrow(Y), borrow(A), borrow(X), borrow(own_odds), borrow(other_odds), borrow(own_slabs),
        borrow(other_slabs), borrow(counts[0]), borrow(counts[1]),
    )  # fmt: skip
    for i in range(M):
        for k in range(K):
            if board.other_counts[k] > 0:
                _try_entry(lik, board, room, i, k, s)
    # What was borrowed from is used again, so that it lives so long.
    lines[0, 0] = grid[0, 0] = numbers[0, 0] = 0.0
    cells[0] = counts[0, 0] = 0


def may_serve(likelihood: NamedTuple, data: Observations) -> bool:
    """Whether the moves are made for this likelihood, and for so large a matrix with so few cells.

    Where none is missing, those that are not stored are zeros.
    """
    size = data.shape[0] * data.shape[1]
    is_full = data.is_complete and data.n_stored > (1.0 - _ZEROS) * size
    return isinstance(likelihood, ExponentialKernel) and size <= MOST_CELLS and not is_full


def have_zeros(Y: Floats) -> bool:
    """Whether enough cells are zero to hold factors in place; else the moves are not needed."""
    return bool(np.count_nonzero(Y == 0.0) >= _ZEROS * Y.size)
