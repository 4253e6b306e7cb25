"""Moves of stick pairs and of the margins of their prior."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from dibpnmf._compile import inlined, kernel, overwrite, part, spliced
from dibpnmf.priors.base import Floats
from dibpnmf.priors.pair_density import (
    PairState,
    extend,
    given,
    log_given,
    log_margin,
    log_pair,
    move_dependence,
    take_notes,
    theta_at,
    with_margin,
)
from dibpnmf.priors.unseen import (
    TAIL_TRIES,
    first_of_tail,
    is_unseen,
    log_rarely_unseen,
    log_unseen,
)
from dibpnmf.random import Stream, uniform
from dibpnmf.slice_sampling import implements_log_density, slice_sample
from dibpnmf.special import LogProduct, log1mexp, log_of, multiplied, times_log

_RUNS = 3  # of columns whose weights move together, on either side
_RUN_WIDTH = 0.5  # of their slices, in log μ
_NOTES = 2  # on each column


class MarginMove(NamedTuple):
    """Target of log α of one side, the sticks from ``first`` on stretched along, Eq. (27).

    A stick of theirs is log ν α/α', with α before the move. With ``first`` = K none moves, and
    the target is that of Eq. (13)-(14).
    """

    theta: Any
    before: float  # α
    side: int
    log_nu: Floats
    first: int
    notes: Floats
    total: float
    rests: Floats
    size: float
    other_empty: Floats  # log probability that a column's other side is empty
    other_used: Floats  # and probability that it is not
    counts: Floats
    prior_shape: float
    prior_rate: float


class RunMove(NamedTuple):
    """Target of moving log ν_r of one side, and log μ_k along for all k from r to before ``stop``.

    ``total`` = log ν_r + log ν_stop stays, as μ_stop does; if ``stop`` = K nothing follows.
    """

    theta: Any
    side: int
    log_nu: Floats
    r: int
    stop: int
    total: float
    before: float  # log μ_{r−1}
    counts: Floats
    size: float
    other_empty: Floats  # log probability that a column's other side is empty


class StickMove(NamedTuple):
    """Target of moving log ν_k of one side with the weights around it held.

    ``total`` = log ν_k + log ν_{k+1} stays, because μ_{k+1} does; for the last stick
    ``is_last`` is true and there is no right-hand neighbour.
    """

    given: Any
    given_next: Any
    mu_before: float
    rest_before: float  # 1 − μ before
    total: float
    is_last: bool
    is_unseen: bool
    n: float
    size: float
    other_empty: float  # log probability that the column's other side is empty


@implements_log_density(StickMove)
def _stick_move_log_density(target, x):  # type: ignore[no-untyped-def]
    rest = -math.expm1(x)
    after = 0.0 if target.is_last else target.total - x
    value = log_given(target.given, target.given_next, x, rest, after)
    log_rest = math.log(target.rest_before + target.mu_before * rest)  # of 1 − μ
    if target.is_unseen:
        return value + log_unseen(target.size * log_rest, target.other_empty)
    return value + target.n * x + times_log(target.size - target.n, log_rest)


@inlined
def _log_pair_of(theta, side: int, own: float, other: float) -> float:  # type: ignore[no-untyped-def]
    value: float = log_pair(theta, own, other) if side == 0 else log_pair(theta, other, own)
    return value


@implements_log_density(RunMove)
def _run_move_log_density(target, x):  # type: ignore[no-untyped-def]
    """Eq. (38)."""
    t, log_nu, r, stop = target.side, target.log_nu, target.r, target.stop
    value = _log_pair_of(target.theta, t, x, log_nu[1 - t, r])
    if stop < log_nu.shape[1]:
        value += _log_pair_of(target.theta, t, target.total - x, log_nu[1 - t, stop])
    log_mu = target.before + x
    for k in range(r, stop):
        if k > r:
            log_mu += log_nu[t, k]
        log_rest = log1mexp(log_mu)
        if is_unseen(target.counts, k):
            value += log_unseen(target.size * log_rest, target.other_empty[k])
        else:
            n = target.counts[t, k]
            value += n * log_mu + times_log(target.size - n, log_rest)
    return value


@spliced
def move_runs(s: Stream, theta, log_nu: Floats, counts: Floats, sizes: Floats) -> None:  # type: ignore[no-untyped-def]
    """Move the weights of a run of columns together, some runs of either side, in place, Eq. (38).

    One at a time, each between its neighbours, sticks take a number of sweeps that grows as the
    square of theirs to lift a plateau of weights.
    """
    K = log_nu.shape[1]
    first = min(first_of_tail(counts) + 1, K)
    empty = np.empty(log_nu.shape)
    fill_empty(log_nu, sizes, 1, empty)
    for t in range(2):
        for _ in range(_RUNS):
            r = int(uniform(s) * first)
            stop = r + 1 + int(uniform(s) * (K - r))
            before = 0.0
            for k in range(r):
                before += log_nu[t, k]
            total = log_nu[t, r] + (log_nu[t, stop] if stop < K else 0.0)
            target = RunMove(
                theta, t, log_nu, r, stop, total, before, counts, sizes[t], empty[1 - t]
            )
            low = total if stop < K else -math.inf
            x = slice_sample(s, target, log_nu[t, r], low, 0.0, _RUN_WIDTH)
            log_nu[t, r] = x
            if stop < K:
                log_nu[t, stop] = total - x
        fill_empty(log_nu, sizes, t, empty)


@part
def fill_empty(log_nu: Floats, sizes: Floats, t: int, empty: Floats) -> None:
    """Write the log probability N log(1 − μ) that a column of side t is empty, in place."""
    log_mu = 0.0
    for k in range(log_nu.shape[1]):
        log_mu += log_nu[t, k]
        empty[t, k] = sizes[t] * log1mexp(log_mu)


@implements_log_density(MarginMove)
def _margin_move_log_density(target, x):  # type: ignore[no-untyped-def]
    margin = math.exp(x)
    log_nu, first, rests = target.log_nu, target.first, target.rests
    stretch = target.before / margin
    # Hyper-prior and the Jacobian of log α.
    value = target.prior_shape * x - target.prior_rate * margin
    mu, rest_of_mu, log_mu = 1.0, 0.0, 0.0
    unseen = LogProduct(0.0, 1.0)
    for k in range(log_nu.shape[1]):
        own = log_nu[target.side, k]
        if k >= first:
            own *= stretch
            value -= x  # Jacobian of the stick
        rest = -math.expm1(own)
        rest_of_mu += mu * rest
        mu *= 1.0 - rest
        log_mu += own
        if k >= first:
            rests[k] = rest
        if k >= first and not is_unseen(target.counts, k):
            n = target.counts[target.side, k]
            value += n * log_mu + times_log(target.size - n, math.log(rest_of_mu))
        elif k >= first:
            empty = target.size * math.log(rest_of_mu)
            both_used = -math.expm1(empty) * target.other_used[k]
            if both_used < 0.9:
                unseen = multiplied(unseen, 1.0 - both_used)
            else:
                value += log_rarely_unseen(empty, target.other_empty[k])
    theta = with_margin(target.theta, target.side, margin)
    return (
        value
        + log_of(unseen)
        + log_margin(theta, target.side, log_nu, first, target.notes, target.total, stretch, rests)
    )


@part
def move_margin(  # type: ignore[no-untyped-def]
    s: Stream, kind, state: PairState, t: int, first: int, empty, counts, sizes, hyper
) -> None:
    """Move α of side t, and stretch the sticks from ``first`` on along, in place, Eq. (27)."""
    log_nu, theta = state.log_nu, state.theta
    now = theta_at(kind, theta)
    notes = np.empty((_NOTES + 2, log_nu.shape[1]))
    total = take_notes(now, t, log_nu, first, notes)
    used = notes[_NOTES + 1]
    for k in range(first, log_nu.shape[1]):
        used[k] = -math.expm1(empty[1 - t, k])
    target = MarginMove(
        now, theta[t], t, log_nu, first, notes, total, notes[_NOTES], sizes[t], empty[1 - t], used,
        counts, hyper[t, 0], hyper[t, 1],
    )  # fmt: skip
    theta[t] = math.exp(slice_sample(s, target, math.log(theta[t]), -700.0, 700.0, 1.0))
    for k in range(first, log_nu.shape[1]):
        log_nu[t, k] *= target.before / theta[t]


@spliced
def move_theta(s: Stream, kind, state: PairState, learned, sizes, hyper) -> None:  # type: ignore[no-untyped-def]
    """Move the parameters marked in ``learned`` given all sticks, Eq. (13)-(15), in place."""
    for t in range(2):
        if learned[t]:
            # Nothing is stretched, so nothing is asked of counts and of columns being empty.
            unread = state.log_nu
            move_margin(s, kind, state, t, unread.shape[1], unread, unread, sizes, hyper)
    move_dependence(kind, s, state.theta, state.log_nu, learned)


@part
def stretch(s: Stream, kind, state: PairState, counts, first, sizes, learned, hyper) -> None:  # type: ignore[no-untyped-def]
    """Move each margin parameter and stretch the sticks from ``first`` on, in place, Eq. (27)."""
    empty = np.empty(state.log_nu.shape)
    for t in range(2):
        if learned[t]:
            fill_empty(state.log_nu, sizes, 1 - t, empty)
            move_margin(s, kind, state, t, first, empty, counts, sizes, hyper)


@spliced
def update_sticks(s: Stream, theta, log_nu: Floats, counts: Floats, sizes: Floats) -> None:  # type: ignore[no-untyped-def]
    """Move every stick of both sides by slice sampling from Eq. (7), in place."""
    K = log_nu.shape[1]
    empty = np.empty(log_nu.shape)
    notes = np.empty((_NOTES, K))
    fill_empty(log_nu, sizes, 1, empty)
    for t in range(2):
        take_notes(theta, t, log_nu, K, notes)
        log_mu = 0.0
        for k in range(K):
            is_last = k == K - 1
            after = k if is_last else k + 1
            total = log_nu[t, k] + (0.0 if is_last else log_nu[t, k + 1])
            target = StickMove(
                given(theta, t, notes, k), given(theta, t, notes, after),
                math.exp(log_mu), -math.expm1(log_mu), total, is_last,
                is_unseen(counts, k), counts[t, k], sizes[t], empty[1 - t, k],
            )  # fmt: skip
            x = log_nu[t, k]
            if is_last:
                # Its scale is that of log Beta(α, 1): the width need only be of that order.
                x = slice_sample(s, target, x, -math.inf, 0.0, 2.0 + 0.2 * abs(x))
            else:
                x = slice_sample(s, target, x, total, 0.0, math.inf)
                log_nu[t, k + 1] = total - x
            log_nu[t, k] = x
            log_mu += x
        fill_empty(log_nu, sizes, t, empty)


@part
def _log_tail(log_nu: Floats, sizes: Floats, start: int) -> float:
    """Log probability that each of the columns from ``start`` on has an empty side."""
    log_mu0 = 0.0
    log_mu1 = 0.0
    for k in range(start):
        log_mu0 += log_nu[0, k]
        log_mu1 += log_nu[1, k]
    value = 0.0
    for k in range(start, log_nu.shape[1]):
        log_mu0 += log_nu[0, k]
        log_mu1 += log_nu[1, k]
        value += log_unseen(sizes[0] * log1mexp(log_mu0), sizes[1] * log1mexp(log_mu1))
    return value


@spliced
def refresh_tail(s: Stream, kind, state: PairState, counts, sizes, learned, hyper) -> None:  # type: ignore[no-untyped-def]
    """Move one parameter and all sticks of the last, unseen columns together, in place, Eq. (26).

    One at a time, a long tail of sticks diffuses slowly and holds θ in place. Here θ moves given
    the sticks before a random column r of the tail, and the others are drawn anew from the
    prior; what remains for the acceptance ratio is the probability that they are unseen.
    """
    log_nu, theta = state.log_nu, state.theta
    K = log_nu.shape[1]
    first = first_of_tail(counts)
    if first == K:
        return
    trial = PairState(np.empty(log_nu.shape), np.empty(theta.shape))
    one = np.empty(theta.size, np.bool_)
    for _ in range(TAIL_TRIES):
        r = first + int(uniform(s) * (K - first))
        overwrite(trial.log_nu, log_nu)
        overwrite(trial.theta, theta)
        which = int(uniform(s) * theta.size)
        for j in range(one.size):
            one[j] = j == which and learned[j]
        head = PairState(trial.log_nu[:, :r].copy(), trial.theta)
        move_theta(s, kind, head, one, sizes, hyper)
        extend(s, kind, trial.theta, trial.log_nu, r)
        log_ratio = _log_tail(trial.log_nu, sizes, r) - _log_tail(log_nu, sizes, r)
        if math.log(uniform(s)) < log_ratio:
            overwrite(log_nu, trial.log_nu)
            overwrite(theta, trial.theta)


@kernel
def update(s: Stream, kind, state: PairState, counts, sizes, learned, hyper) -> None:  # type: ignore[no-untyped-def]
    """Move θ and the sticks, in place; margins only with the tail stretched along."""
    first = first_of_tail(counts)
    stretch(s, kind, state, counts, first, sizes, learned, hyper)
    move_dependence(kind, s, state.theta, state.log_nu, learned)
    update_sticks(s, theta_at(kind, state.theta), state.log_nu, counts, sizes)
    move_runs(s, theta_at(kind, state.theta), state.log_nu, counts, sizes)
    stretch(s, kind, state, counts, first, sizes, learned, hyper)
    stretch(s, kind, state, counts, 0, sizes, learned, hyper)
    refresh_tail(s, kind, state, counts, sizes, learned, hyper)
