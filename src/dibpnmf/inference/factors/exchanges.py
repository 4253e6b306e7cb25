"""Exchanges: a row leaves a factor for another that serves its cells as well, Eq. (45).

Entry by entry a row would have to do without the factor first, or have both for a while, and
zeros that a factor covers for want of a better one stay covered.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from dibpnmf._borrow import borrow
from dibpnmf._compile import inlined, kernel, part, spliced
from dibpnmf.inference.factors.board import MISSING, NONE, Bits, Floats, Ints, bit, ones
from dibpnmf.inference.factors.entries import NEEDY, draw_on, guess, log_q_on
from dibpnmf.likelihoods.peak_proposal import LOG_ALL
from dibpnmf.random import Stream, exponential, uniform

EXCHANGES = 2  # of all entries of either side in a sweep
_MOST_ZEROS = 2  # of a row, that a factor which it takes up may cover
_TINY = 1e-200  # a product is turned into a logarithm below this


class Desk(NamedTuple):
    """The matrix and its loadings as seen from one side, and what exchanges of a row look at."""

    Y: Floats
    A: Floats
    X: Floats
    log_odds: Floats
    slabs: Floats
    reach: Ints  # columns of X that have a cell
    cells: Bits  # of each column of X
    sizes: Ints  # their numbers
    members: Ints  # the same one after another
    used: Ints  # factors of the row
    near: Ints  # those, and others, that cover few of its zeros
    offers: Ints  # factors that may take the place of one of them, itself among them
    at: Floats  # where the log of its loading is proposed
    deviation: Floats
    log_mass: Floats  # and about how likely it is
    base: Floats  # λ of the row without the one that is exchanged
    row: Bits  # cells of the row that are above zero, and those that are zero


@inlined
def _log_gain(desk: Desk, i: int, k: int, v: float) -> float:
    """Log likelihood of row i with factor k at v less that without it, Eq. (10)."""
    total, product = 0.0, 1.0
    for p in range(desk.sizes[k]):
        n = desk.members[k, p]
        y, b = desk.Y[i, n], desk.base[n]
        if y != MISSING:
            mean = b + v * desk.X[n, k]
            total += y * (mean - b) / (b * mean)
            product *= b / mean
            if product < _TINY:
                total += math.log(product)
                product = 1.0
    return total + math.log(product)


@spliced
def _list_offers(desk: Desk, n_near: int, k: int, others):  # type: ignore[no-untyped-def]
    """List the factors that may serve a row where ``others`` do not, in place of k.

    None of those that it has reaches such a cell. Returns their number, and which of them is k:
    none if k itself may not.
    """
    n_offers, own, needed = 0, -1, desk.row[0] & ~others
    for q in range(n_near if needed != NONE else 0):
        j = desk.near[q]
        if needed & ~desk.cells[j] == NONE:
            desk.offers[n_offers] = j
            own = n_offers if j == k else own
            n_offers += 1
    return n_offers, own


@inlined
def _fill_base(lik, desk: Desk, i: int, n_used: int, k: int) -> None:  # type: ignore[no-untyped-def]
    """Sum λ of row i without factor k afresh: a difference might lose its digits."""
    for n in range(desk.X.shape[0]):
        desk.base[n] = lik.epsilon
    for q in range(n_used):
        j = desk.used[q]
        for p in range(desk.sizes[j] if j != k else 0):
            n = desk.members[j, p]
            desk.base[n] += desk.A[i, j] * desk.X[n, j]


@inlined
def _log_target(desk: Desk, i: int, k: int, v: float) -> float:
    """Log of Eq. (18) with entry (i, k) at v, by log v, less that with the entry off."""
    tau = desk.slabs[k, 0]
    return desk.log_odds[k] + math.log(tau * v) - tau * v + _log_gain(desk, i, k, v)


@spliced
def _weigh_offer(desk: Desk, i: int, offer: int, others) -> None:  # type: ignore[no-untyped-def]
    """Write where the loading of an offer may be, and its mass there."""
    k = desk.offers[offer]
    need, needy = 0.0, 0
    for p in range(desk.sizes[k]):
        n = desk.members[k, p]
        y = desk.Y[i, n]
        if desk.base[n] < NEEDY * y:
            need += y / desk.X[n, k]
            needy += 1
    if needy > 0:  # zeros draw v down just as the logarithm of needy cells' means does
        needy += ones(desk.cells[k] & desk.row[1] & ~others)
    v, deviation = guess(need, needy, desk.slabs[k, 0])
    desk.at[offer], desk.deviation[offer] = math.log(v), deviation
    desk.log_mass[offer] = _log_target(desk, i, k, v) + LOG_ALL + math.log(deviation)


@spliced
def _choose_offer(desk: Desk, n_offers: int, s: Stream) -> int:
    """Choose an offer in proportion to its mass."""
    top, total = -math.inf, 0.0
    for offer in range(n_offers):
        top = max(top, desk.log_mass[offer])
    for offer in range(n_offers):
        total += math.exp(desk.log_mass[offer] - top)
    u, chosen = uniform(s) * total, 0
    while chosen < n_offers - 1:
        u -= math.exp(desk.log_mass[chosen] - top)
        if u < 0.0:
            break
        chosen += 1
    return chosen


@inlined
def _log_share(desk: Desk, i: int, offer: int, v: float) -> float:
    """Log of target over proposal of an offer with loading v, Eq. (45)."""
    k = desk.offers[offer]
    log_q = log_q_on(v, desk.at[offer], desk.deviation[offer], desk.slabs[k, 0])
    return _log_target(desk, i, k, v) - desk.log_mass[offer] - log_q


@part
def _try_exchange(  # type: ignore[no-untyped-def]
    lik, desk: Desk, i: int, n_used: int, n_near: int, place: int, s: Stream
) -> None:
    """Let row i have another factor for the one at this place of its list, Eq. (45)."""
    k, others = desk.used[place], NONE
    for q in range(n_used):
        if q != place:
            others |= desk.cells[desk.used[q]]
    n_offers, own = _list_offers(desk, n_near, k, others)
    if own < 0 or n_offers < 2:
        return
    _fill_base(lik, desk, i, n_used, k)
    for offer in range(n_offers):
        _weigh_offer(desk, i, offer, others)
    chosen = _choose_offer(desk, n_offers, s)
    if chosen == own:
        return
    new = desk.offers[chosen]
    v = draw_on(s, desk.at[chosen], desk.deviation[chosen], desk.slabs[new, 0])
    log_ratio = _log_share(desk, i, chosen, v) - _log_share(desk, i, own, desk.A[i, k])
    if log_ratio > -exponential(s):
        desk.A[i, k], desk.A[i, new] = 0.0, v
        desk.used[place] = new


@spliced
def _open_row(desk: Desk, n_reach: int, i: int):  # type: ignore[no-untyped-def]
    """List which cells of row i are above zero or zero, its factors, and those that are near."""
    desk.row[0] = desk.row[1] = NONE
    for n in range(desk.X.shape[0]):
        if desk.Y[i, n] > 0.0:
            desk.row[0] |= bit(n)
        elif desk.Y[i, n] != MISSING:
            desk.row[1] |= bit(n)
    n_used, n_near = 0, 0
    for q in range(n_reach):
        j = desk.reach[q]
        if desk.A[i, j] > 0.0:
            desk.used[n_used] = j
            n_used += 1
        if ones(desk.cells[j] & desk.row[1]) <= _MOST_ZEROS:
            desk.near[n_near] = j
            n_near += 1
    return n_used, n_near


@spliced
def _list_cells(desk: Desk) -> int:
    """List the columns of X that have a cell, with their cells; return their number."""
    n_reach = 0
    for k in range(desk.X.shape[1]):
        desk.cells[k], desk.sizes[k] = NONE, 0
        for n in range(desk.X.shape[0]):
            if desk.X[n, k] > 0.0:
                desk.cells[k] |= bit(n)
                desk.members[k, desk.sizes[k]] = n
                desk.sizes[k] += 1
        if desk.cells[k] != NONE:
            desk.reach[n_reach] = k
            n_reach += 1
    return n_reach


@kernel
def exchange_factors(  # type: ignore[no-untyped-def]
    lik, Y: Floats, A: Floats, X: Floats, log_odds: Floats, slabs: Floats, rounds: int, s: Stream
) -> None:
    """Try to exchange each factor of each row of A, so many times, in place."""
    N, K = X.shape
    most = max(N, K)
    whole, numbers = np.empty((K + 5, most), np.int64), np.empty((4, most))
    bits = np.empty((2, max(K, 2)), np.uint64)
    desk = Desk(
        borrow(Y), borrow(A), borrow(X), borrow(log_odds), borrow(slabs), borrow(whole[0]),
        borrow(bits[0]), borrow(whole[1]), borrow(whole[5:]), borrow(whole[2]), borrow(whole[3]),
        borrow(whole[4]), borrow(numbers[0]), borrow(numbers[1]), borrow(numbers[2]),
        borrow(numbers[3]), borrow(bits[1]),
    )  # fmt: skip
    n_reach = _list_cells(desk)
    for _ in range(rounds):
        for i in range(A.shape[0]):
            n_used, n_near = _open_row(desk, n_reach, i)
            for place in range(n_used):
                _try_exchange(lik, desk, i, n_used, n_near, place, s)
    # What was borrowed from is used again, so that it lives so long.
    whole[0, 0], numbers[0, 0], bits[0, 0] = 0, 0.0, NONE
