"""Proposals of single entries: where a loading may be, and the odds that it is on."""

from __future__ import annotations

import math
from typing import NamedTuple

from dibpnmf._compile import inlined
from dibpnmf.inference.factors.board import MISSING, Board, Room
from dibpnmf.likelihoods.peak_proposal import LOG_ALL, core_log_density, draw_core
from dibpnmf.loadings.base import SMALLEST
from dibpnmf.random import Stream, exponential, uniform

_SUREST = 8.0  # log odds of "on" in a proposal, of either sign
_PRIOR_SHARE = 0.1  # of the prior in a proposal of a loading
WIDEST = 1.2  # deviation of the log of a proposed loading
NEEDY = 0.5  # a cell is needy where the others' λ is below this share of its value
_LOW = 0.3  # τ v for a loading that no cell needs


class Peak(NamedTuple):
    """Proposal of an entry: where log v is if it is on, its deviation, and the log odds of "on"."""

    at: float
    deviation: float
    log_mass: float


@inlined
def _cell(y: float, mean: float) -> float:
    """Log likelihood of one cell, Eq. (10)."""
    return -math.log(mean) - y / mean


@inlined
def _log_total(log_mass: float) -> float:
    return math.log1p(math.exp(log_mass))


@inlined
def bounded(log_mass: float) -> float:
    """Let neither "on" nor "off" be sure."""
    return min(max(log_mass, -_SUREST), _SUREST)


@inlined
def guess(need: float, needy: int, tau: float):  # type: ignore[no-untyped-def]
    """Where v may be with Σ y/x = ``need`` over so many needy cells, and the deviation of log v.

    The peak of log v − τ v − Σ log(v x) + y/(v x), as if nothing else reached these cells.
    """
    if needy == 0:
        return _LOW / tau, WIDEST
    half = 0.5 * (needy - 1.0)
    v = (math.sqrt(half * half + tau * need) - half) / tau
    return v, min(1.0 / math.sqrt(need / v + tau * v), WIDEST)


@inlined
def draw_on(s: Stream, at: float, deviation: float, tau: float) -> float:
    """Draw a loading about exp ``at``, or now and then from its prior."""
    if uniform(s) < _PRIOR_SHARE:
        return max(exponential(s) / tau, SMALLEST)
    return max(math.exp(at + deviation * draw_core(s)), SMALLEST)


@inlined
def log_q_on(v: float, at: float, deviation: float, tau: float) -> float:
    """Log density of log v as `draw_on` draws it."""
    core = math.exp(core_log_density((math.log(v) - at) / deviation)) / deviation
    return math.log(_PRIOR_SHARE * tau * v * math.exp(-tau * v) + (1.0 - _PRIOR_SHARE) * core)


@inlined
def draw(s: Stream, peak: Peak, tau: float) -> float:
    """Draw z·v of an entry."""
    u = uniform(s)
    if math.log(u) - math.log1p(-u) >= peak.log_mass:
        return 0.0
    return draw_on(s, peak.at, peak.deviation, tau)


@inlined
def log_weight(v: float, peak: Peak, log_odds: float, tau: float) -> float:
    """Log of prior over proposal of an entry: "off" in units of 1 − π, "on" by log v."""
    log_total = _log_total(peak.log_mass)
    if v == 0.0:
        return log_total
    log_prior = log_odds + math.log(tau * v) - tau * v
    return log_prior - (peak.log_mass - log_total) - log_q_on(v, peak.at, peak.deviation, tau)


@inlined
def level_of(board: Board, room: Room, size: int, which: int, n: int, k: int, x: float, v: float):  # type: ignore[no-untyped-def]
    """Log likelihood of a receiver's rows in cell n, with f at x and the receiver, k, at v."""
    total = 0.0
    for p in range(size):
        i = room.rows[p]
        y = board.Y[i, n]
        if room.owner[p] == which and y != MISSING:
            total += _cell(y, room.base[p] + room.load[p] * x + board.A[i, k] * v)
    return total


@inlined
def receive(board: Board, room: Room, size: int, which: int, n: int, k: int, x: float):  # type: ignore[no-untyped-def]
    """Proposal of entry (n, k) of a receiver with f at x, and the log of all its mass."""
    tau, log_odds = board.other_slabs[k, 0], board.other_odds[k]
    need, needy = 0.0, 0
    for p in range(size):
        i = room.rows[p]
        y = board.Y[i, n]
        if room.owner[p] == which and room.base[p] + room.load[p] * x < NEEDY * y:
            need += y / board.A[i, k]
            needy += 1
    v, deviation = guess(need, needy, tau)
    level = level_of(board, room, size, which, n, k, x, 0.0)
    log_mass = log_odds + math.log(tau * v) - tau * v + LOG_ALL + math.log(deviation)
    log_mass = bounded(log_mass + level_of(board, room, size, which, n, k, x, v) - level)
    return Peak(math.log(v), deviation, log_mass), level + _log_total(log_mass)
