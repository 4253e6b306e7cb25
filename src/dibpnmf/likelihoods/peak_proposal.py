"""Joint draw of (z, v) where f's peak is soon found: an independence proposal around it.

The target is that of `grid_proposal`. Newton's method finds the peak of f in u = log v, from a
guess of v, with the standard deviation that its curvature there stands for. Then

    W' = exp f̂(peak) · C · deviation,    n(u) = exp(−ρ(z)) / (C · deviation),

z = (u − peak)/deviation, with ρ = z²/2 in a core about the peak and its tangents, the tails of
exponential distributions, beyond. "On" is proposed with probability (1+δ)W'/(1+(1+δ)W'), u then
from the density n + δ exp g with the prior's share δ; and the log ratio of acceptance is
f − log W' − log(n + δ exp g) at the proposal less the same at the present state, each zero for
"off". Peak and deviation depend on b, x, y and τ only, and W' on these and π.

f̂(peak) is the top of the parabola that f and its slopes make where Newton's method was last, and
W' is capped there by what bounds allow (see `entry_moves`). It is also capped by a margin above
what the first such parabola says: an entry that is off and whose uniform number exceeds that much
stays off after one look.

Two evaluations of f and one or two with its slopes do what a grid does with fifteen. But a
second peak goes unseen: an entry that sits on one would move seldom. So a grid is used now and
then (see `entry_moves`), and always where no parabola tells of a peak. Where the first one did and
no search ends at it, the proposal is made about where the search stopped, deviation 1: entries that
are off may have gone by that parabola.
"""

from __future__ import annotations

import math

from dibpnmf._compile import kernel, spliced
from dibpnmf._dispatch import KernelFunction
from dibpnmf.likelihoods.grid_proposal import DEFENCE, LOG_DEFENDED, defended, evaluate
from dibpnmf.likelihoods.rows import Entry, log_ratio
from dibpnmf.loadings.base import SMALLEST, Slab
from dibpnmf.random import Stream, exponential, normal, uniform

_expectation = KernelFunction(
    "expectation",
    "Of (lik, entry): where v may be if it is on, the standard deviation of log v there, and the "
    "log of the most that W' may be in units of exp f. Errors of the first two cost time, not "
    "truth.",
)
_has_slopes = KernelFunction(
    "has_slopes", "Whether `slopes` cost little more than one evaluation of f: (lik, entry)."
)
_slopes = KernelFunction(
    "slopes",
    "log p(y | b + v x) − log p(y | b), or NaN if it is dear, and its first and second derivative "
    "by log v: (lik, entry, v).",
)
expectation, implements_expectation = _expectation.call, _expectation.implement
has_slopes, implements_has_slopes = _has_slopes.call, _has_slopes.implement
slopes, implements_slopes = _slopes.call, _slopes.implement

# Bounds of τ v for a guess of v.
NEAREST, FARTHEST = 0.05, 3.0
_STEPS = 4  # of Newton's method, at most
_BOLDEST = 1.0  # step of log v
_NEAR = 1.0  # last step, in standard deviations
_MARGIN = math.log(4.0)  # what the first parabola may be wrong by
_FLATTEST = 0.25  # curvature of a peak that deserves the name
_CORE = 1.5  # half width of the core, in standard deviations
# Masses of one tail and of both and the core, C, in units of the peak's height and deviation.
_TAIL = math.exp(-0.5 * _CORE**2) / _CORE
_ALL = math.sqrt(2.0 * math.pi) * math.erf(_CORE * math.sqrt(0.5)) + 2.0 * _TAIL
LOG_ALL = math.log(_ALL)


@spliced
def find_peak(lik, entry: Entry, log_odds: float, slab: Slab, enough: float):  # type: ignore[no-untyped-def]
    """Return where f has its peak, roughly, its standard deviation, and log W'.

    The deviation is infinite if there is no sign of one. No more is done, and log W' is −inf, as
    soon as it is certain not to exceed ``enough``.
    """
    tau, constant = slab.rate, log_odds + slab.log_height
    guess, _spread, log_most = expectation(lik, entry)
    v = min(max(guess, NEAREST / tau), FARTHEST / tau)
    x = math.log(v)
    log_cap, height = math.inf, -math.inf
    for _ in range(_STEPS):
        value, slope, bend = slopes(lik, entry, v)
        height = constant + x - tau * v + value
        slope += 1.0 - tau * v
        bend -= tau * v
        is_peaked = bend < -_FLATTEST
        step = -slope / bend if is_peaked else slope
        if is_peaked and abs(step) < _BOLDEST:
            # The parabola's peak lies above f by half of slope times step.
            log_size = LOG_ALL - 0.5 * math.log(-bend) + 0.5 * slope * step
            if step * step * -bend < _NEAR * _NEAR:
                if math.isnan(value):
                    value = log_ratio(lik, entry.support, entry.m, entry.c, entry.level, v)
                    height = constant + x - tau * v + value
                log_mass = height + min(log_size, log_most)
                return x + step, 1.0 / math.sqrt(-bend), min(log_mass, log_cap)
            if log_cap == math.inf and not math.isnan(value):
                log_cap = height + log_size + _MARGIN
                if log_cap <= enough:
                    return x, 1.0, -math.inf
        x += min(max(step, -_BOLDEST), _BOLDEST)
        v = math.exp(x)
    if log_cap < math.inf:  # what others may have gone by: no grid now
        return x, 1.0, min(height, log_cap)
    return x, math.inf, -math.inf


@kernel
def core_log_density(z: float) -> float:
    """Log of n for a peak at 0 with deviation 1: a normal density with exponential tails."""
    z = abs(z)
    return -LOG_ALL - (0.5 * z * z if z < _CORE else _CORE * (z - 0.5 * _CORE))


@spliced
def draw_core(s: Stream) -> float:
    """Draw z from n."""
    r = uniform(s) * _ALL
    if r < 2.0 * _TAIL:
        tail = _CORE + exponential(s) / _CORE
        return tail if r < _TAIL else -tail
    while True:
        z = normal(s)
        if abs(z) < _CORE:
            return z


@spliced
def draw_from_peak(  # type: ignore[no-untyped-def]
    lik, entry: Entry, a: float, log_odds: float, slab: Slab, peak: float, deviation: float,
    log_mass: float, logit_u: float, s: Stream,
):  # fmt: skip
    """Move (z, v) of one entry, given as a = z·v; ``logit_u`` decides between "on" and "off"."""
    switch_on = logit_u < log_mass + LOG_DEFENDED
    if a == 0.0 and not switch_on:
        return 0.0, True
    support, m, c, level = entry.support, entry.m, entry.c, entry.level
    if switch_on and a > 0.0:  # both cancel, and of numbers less a level of −10²⁰ nothing is left
        level, log_mass = 0.0, 0.0
    constant, tau = log_odds + slab.log_height, slab.rate
    log_defence, log_deviation = math.log(DEFENCE) + slab.log_height, math.log(deviation)
    new, log_accept = 0.0, 0.0
    if switch_on:
        if uniform(s) * (1.0 + DEFENCE) < DEFENCE:
            x = math.log(exponential(s) / tau)
        else:
            x = peak + deviation * draw_core(s)
        new = max(math.exp(x), SMALLEST)
        n = core_log_density((x - peak) / deviation) - log_deviation
        log_accept += evaluate(lik, support, m, c, level, constant, tau, x, new) - log_mass
        log_accept -= defended(n, log_defence + x - tau * new)
    if a > 0.0:
        x = math.log(a)
        n = core_log_density((x - peak) / deviation) - log_deviation
        log_accept -= evaluate(lik, support, m, c, level, constant, tau, x, a) - log_mass
        log_accept += defended(n, log_defence + x - tau * a)
    if log_accept >= 0.0 or math.log(uniform(s)) < log_accept:
        return new, True
    return a, False
