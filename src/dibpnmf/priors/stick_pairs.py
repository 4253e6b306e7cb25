"""Sticks that come in pairs: the part shared by the bivariate beta and the copula prior.

Sticks are kept as log ν, shape (2, K); log μ_k = Σ_{j<=k} log ν_j. In these variables the map
from ratios to weights has a unit Jacobian, so the conditional of one weight, Eq. (7), is

    log p(log μ_k | rest) = ℓ(ν_k) + [k<K] ℓ(ν_{k+1}) + Σ_t n_k log μ_k + (N_t−n_k) log(1−μ_k)

with ℓ the log density of a pair (log ν¹, log ν²), and nothing ever underflows.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from typing import Any, NamedTuple

import numpy as np

from dibpnmf._compile import kernel, overwrite
from dibpnmf._dispatch import KernelFunction
from dibpnmf.priors.base import Floats, Prior, positive_log_density, trials
from dibpnmf.random import Stream, uniform
from dibpnmf.slice_sampling import implements_log_density, slice_sample
from dibpnmf.special import log1mexp, times_log

_log_pair = KernelFunction(
    "log_pair",
    """Log density ℓ of one stick pair in (log ν¹, log ν²), given θ (a NamedTuple).""",
)
log_pair = _log_pair.call
implements_log_pair = _log_pair.implement


_move_theta = KernelFunction(
    "move_theta",
    """Move the parameters marked in ``learned`` given sticks: (kind, s, state, learned, hyper).""",
)
move_theta = _move_theta.call
implements_move_theta = _move_theta.implement

_draw_pairs = KernelFunction(
    "draw_pairs",
    """Draw stick pairs from the prior from ``start`` on: (kind, s, theta, log_nu, start).""",
)
draw_pairs = _draw_pairs.call
implements_draw_pairs = _draw_pairs.implement

_with_margin = KernelFunction(
    "with_margin",
    """Return θ with the margin parameter of one side changed: (theta, side, value).""",
)
with_margin = _with_margin.call
implements_with_margin = _with_margin.implement

_theta_at = KernelFunction(
    "theta_at",
    """Return θ as a NamedTuple like ``kind``, with the values of an array: (kind, theta).""",
)
theta_at = _theta_at.call
implements_theta_at = _theta_at.implement

_TAIL_TRIES = 2


class PairState(NamedTuple):
    """Stick pairs as log ν (2, K), and θ."""

    log_nu: Floats
    theta: Floats


class StretchMove(NamedTuple):
    """Target of x in: α_t → α_t e^{−x} and, in the tail, log ν^t → eˣ log ν^t, Eq. (27)."""

    theta: Any
    margin: float
    side: int
    log_nu: Floats
    first: int
    sizes: Floats
    prior_shape: float
    prior_rate: float


class StickMove(NamedTuple):
    """Target of moving log ν_k of one side with the weights around it held.

    ``total`` = log ν_k + log ν_{k+1} stays, because μ_{k+1} does; for the last stick
    ``is_last`` is true and there is no right-hand neighbour.
    """

    theta: Any
    side: int
    other: float
    other_next: float
    log_mu_before: float
    total: float
    is_last: bool
    n: float
    size: float


@kernel
def log_binomial(n: float, size: float, log_mu: float) -> float:
    """Return n log μ + (size − n) log(1 − μ), the masks' share of Eq. (7)."""
    return times_log(n, log_mu) + times_log(size - n, log1mexp(log_mu))


@kernel
def _ordered_pair(theta, side: int, own: float, other: float) -> float:  # type: ignore[no-untyped-def]
    if side == 0:
        return log_pair(theta, own, other)
    return log_pair(theta, other, own)


@implements_log_density(StickMove)
def _stick_move_log_density(target, x):  # type: ignore[no-untyped-def]
    value = _ordered_pair(target.theta, target.side, x, target.other)
    if not target.is_last:
        value += _ordered_pair(target.theta, target.side, target.total - x, target.other_next)
    return value + log_binomial(target.n, target.size, target.log_mu_before + x)


@kernel
def first_of_tail(counts: Floats) -> int:
    """Index from which on all columns are empty on both sides."""
    first = counts.shape[1]
    while first > 0 and counts[0, first - 1] == 0.0 and counts[1, first - 1] == 0.0:
        first -= 1
    return first


@implements_log_density(StretchMove)
def _stretch_move_log_density(target, x):  # type: ignore[no-untyped-def]
    margin = target.margin * math.exp(-x)
    theta = with_margin(target.theta, target.side, margin)
    value = -target.prior_shape * x - target.prior_rate * margin
    log_mu = 0.0
    for k in range(target.log_nu.shape[1]):
        own = target.log_nu[target.side, k]
        if k >= target.first:
            own *= math.exp(x)
            value += x  # Jacobian
        value += _ordered_pair(theta, target.side, own, target.log_nu[1 - target.side, k])
        log_mu += own
        if k >= target.first:
            value += times_log(target.sizes[k], log1mexp(log_mu))
    return value


@kernel
def stretch_tail(s: Stream, kind, state: PairState, counts, sizes, learned, hyper) -> None:  # type: ignore[no-untyped-def]
    """Move each margin parameter with the tail's sticks stretched along, in place, Eq. (27)."""
    log_nu, theta = state.log_nu, state.theta
    first = first_of_tail(counts)
    for t in range(2):
        if learned[t]:
            target = StretchMove(
                theta_at(kind, theta),
                theta[t],
                t,
                log_nu,
                first,
                sizes[t],
                hyper[t, 0],
                hyper[t, 1],
            )
            x = slice_sample(s, target, 0.0, -50.0, 50.0, 1.0)
            theta[t] *= math.exp(-x)
            for k in range(first, log_nu.shape[1]):
                log_nu[t, k] *= math.exp(x)


@kernel
def update_sticks(s: Stream, theta, log_nu: Floats, counts: Floats, sizes: Floats) -> None:  # type: ignore[no-untyped-def]
    """Move every stick of both sides by slice sampling from Eq. (7), in place."""
    K = log_nu.shape[1]
    for t in range(2):
        log_mu_before = 0.0
        for k in range(K):
            is_last = k == K - 1
            other = log_nu[1 - t, k]
            other_next = 0.0 if is_last else log_nu[1 - t, k + 1]
            total = log_nu[t, k] + (0.0 if is_last else log_nu[t, k + 1])
            n = counts[t, k]
            target = StickMove(
                theta, t, other, other_next, log_mu_before, total, is_last, n, sizes[t, k]
            )
            x = log_nu[t, k]
            if is_last:
                # Its scale is that of log Beta(α, 1): the width need only be of that order.
                x = slice_sample(s, target, x, -math.inf, 0.0, 2.0 + 0.2 * abs(x))
            else:
                x = slice_sample(s, target, x, total, 0.0, math.inf)
                log_nu[t, k + 1] = total - x
            log_nu[t, k] = x
            log_mu_before += x


@kernel
def truncated_beta(s: Stream, c: float, log_low: float, log_high: float) -> float:
    """Log of a draw from Beta(c, 1) restricted to an interval, by inverse CDF, Eq. (12)."""
    return log_high + math.log1p((1.0 - uniform(s)) * math.expm1(c * (log_low - log_high))) / c


@kernel
def update_sticks_literal(  # type: ignore[no-untyped-def]
    s: Stream, theta, shapes: Floats, log_nu: Floats, counts: Floats, sizes: Floats
) -> None:
    """Move every stick pair by the paper's Metropolis-Hastings step, Eq. (11)-(12), in place.

    Both sides are proposed together from Beta(α_t/K, 1) truncated between their neighbours.
    """
    K = log_nu.shape[1]
    before = np.zeros(2)
    new = np.empty(2)
    after = np.empty(2)
    for k in range(K):
        is_last = k == K - 1
        log_ratio = 0.0
        for t in range(2):
            low = -math.inf if is_last else log_nu[t, k] + log_nu[t, k + 1]
            c = shapes[t] / K
            # Relative to the weight before, which the interval ends at.
            new[t] = truncated_beta(s, c, low, 0.0)
            after[t] = 0.0 if is_last else low - new[t]
            # Hastings: q is proportional to μ^c in log μ.
            log_ratio += c * (log_nu[t, k] - new[t])
            log_ratio += log_binomial(counts[t, k], sizes[t, k], before[t] + new[t])
            log_ratio -= log_binomial(counts[t, k], sizes[t, k], before[t] + log_nu[t, k])
        log_ratio += log_pair(theta, new[0], new[1]) - log_pair(theta, log_nu[0, k], log_nu[1, k])
        if not is_last:
            log_ratio += log_pair(theta, after[0], after[1])
            log_ratio -= log_pair(theta, log_nu[0, k + 1], log_nu[1, k + 1])
        if math.log(uniform(s)) < log_ratio:
            for t in range(2):
                log_nu[t, k] = new[t]
                if not is_last:
                    log_nu[t, k + 1] = after[t]
        for t in range(2):
            before[t] += log_nu[t, k]


@kernel
def _log_empty(log_nu: Floats, sizes: Floats, start: int) -> float:
    """Log probability that the columns from ``start`` on are empty."""
    value = 0.0
    for t in range(2):
        log_mu = 0.0
        for k in range(log_nu.shape[1]):
            log_mu += log_nu[t, k]
            if k >= start:
                value += times_log(sizes[t, k], log1mexp(log_mu))
    return value


@kernel
def refresh_tail(s: Stream, kind, state: PairState, counts, sizes, learned, hyper) -> None:  # type: ignore[no-untyped-def]
    """Move one parameter and all sticks of the last, empty columns together, in place, Eq. (26).

    One at a time, a long tail of sticks diffuses slowly and holds θ in place. Here θ moves given
    the sticks before a random column r of the tail, and the others are drawn anew from the
    prior; what remains for the acceptance ratio is the probability of their columns' emptiness.
    """
    log_nu, theta = state.log_nu, state.theta
    K = log_nu.shape[1]
    first = first_of_tail(counts)
    if first == K:
        return
    trial = PairState(np.empty(log_nu.shape), np.empty(theta.shape))
    one = np.zeros(theta.size, np.bool_)
    for _ in range(_TAIL_TRIES):
        r = first + int(uniform(s) * (K - first))
        overwrite(trial.log_nu, log_nu)
        overwrite(trial.theta, theta)
        which = int(uniform(s) * theta.size)
        one[:] = False
        one[which] = learned[which]
        head = PairState(trial.log_nu[:, :r].copy(), trial.theta)
        move_theta(kind, s, head, one, hyper)
        draw_pairs(kind, s, trial.theta, trial.log_nu, r)
        log_ratio = _log_empty(trial.log_nu, sizes, r) - _log_empty(log_nu, sizes, r)
        if math.log(uniform(s)) < log_ratio:
            overwrite(log_nu, trial.log_nu)
            overwrite(theta, trial.theta)


@kernel
def log_odds_of_sticks(log_nu: Floats) -> Floats:
    """Log odds log μ − log(1−μ) of every weight, Eq. (6)."""
    out = np.empty(log_nu.shape)
    for t in range(log_nu.shape[0]):
        log_mu = 0.0
        for k in range(log_nu.shape[1]):
            log_mu += log_nu[t, k]
            out[t, k] = log_mu - log1mexp(log_mu)
    return out


@kernel
def extend(s: Stream, kind, theta: Floats, log_nu: Floats, start: int) -> None:  # type: ignore[no-untyped-def]
    """Draw stick pairs from the prior from ``start`` on, in place."""
    draw_pairs(kind, s, theta, log_nu, start)


@kernel
def update(s: Stream, kind, state: PairState, counts, sizes, learned, hyper) -> None:  # type: ignore[no-untyped-def]
    """Move θ, then the sticks, in place."""
    theta = state.theta
    move_theta(kind, s, state, learned, hyper)
    update_sticks(s, theta_at(kind, theta), state.log_nu, counts, sizes)
    stretch_tail(s, kind, state, counts, sizes, learned, hyper)
    refresh_tail(s, kind, state, counts, sizes, learned, hyper)


@kernel
def update_literal(s: Stream, kind, state: PairState, counts, sizes, learned, hyper) -> None:  # type: ignore[no-untyped-def]
    """Move θ, then the sticks, by the paper's steps, in place."""
    theta = state.theta
    move_theta(kind, s, state, learned, hyper)
    update_sticks_literal(s, theta_at(kind, theta), theta, state.log_nu, counts, sizes)


class PairedSticksPrior(Prior[PairState]):
    """A prior of stick pairs; its file adds the pair's density, its draw and the θ update."""

    @abstractmethod
    def _start_theta(self, s: Stream) -> list[float]:
        """Fixed or drawn values of θ."""

    @abstractmethod
    def _fixed_theta(self) -> list[float | None]:
        """Fixed values of θ, None where learned."""

    @abstractmethod
    def _hyper(self) -> list[list[float]]:
        """Shape and rate of the gamma hyper-priors of the two margins."""

    def init(self, s: Stream, K: int) -> PairState:
        """Draw θ and K stick pairs from the prior."""
        return self.grow(s, PairState(np.empty((2, 0)), np.array(self._start_theta(s))), K)

    def grow(self, s: Stream, state: PairState, K: int) -> PairState:
        """Append stick pairs drawn from the prior until there are K."""
        log_nu = np.empty((2, K))
        start = state.log_nu.shape[1]
        log_nu[:, :start] = state.log_nu
        extend(s, self._theta_tuple(state.theta), state.theta, log_nu, start)
        return PairState(log_nu, state.theta.copy())

    def log_odds(self, state: PairState) -> Floats:
        """Log odds of a mask entry: π = μ."""
        return log_odds_of_sticks(state.log_nu)

    def update(self, s: Stream, state: PairState, counts: Floats, sizes: Floats) -> PairState:
        """Slice-sample θ, then every stick."""
        return self._run(update, s, state, counts, sizes)

    def update_literal(
        self, s: Stream, state: PairState, counts: Floats, sizes: Floats
    ) -> PairState:
        """Algorithms 2 and 3: θ, then Metropolis-Hastings for μ (Z and V follow)."""
        return self._run(update_literal, s, state, counts, sizes)

    def _run(self, kernel, s, state, counts, sizes) -> PairState:  # type: ignore[no-untyped-def]
        new = PairState(state.log_nu.copy(), state.theta.copy())
        learned = np.array([value is None for value in self._fixed_theta()])
        kind = self._theta_tuple(new.theta)
        kernel(s, kind, new, counts, trials(counts, sizes), learned, np.array(self._hyper()))
        return new

    def log_density(self, state: PairState) -> float:
        """Log density of θ and of the sticks as log ν."""
        value = self._theta_log_density(state.theta)
        for x, y in state.log_nu.T:
            value += log_pair(self._theta_tuple(state.theta), x, y)
        return value

    @abstractmethod
    def _theta_tuple(self, theta: Floats) -> NamedTuple:
        """Make the NamedTuple that `log_pair` is resolved by."""

    def _theta_log_density(self, theta: Floats) -> float:
        """Log hyper-prior of the margins; a prior with more parameters adds theirs."""
        rows = zip(theta[:2].tolist(), self._fixed_theta()[:2], self._hyper(), strict=True)
        return sum(positive_log_density(value, fixed, *hyper) for value, fixed, hyper in rows)
