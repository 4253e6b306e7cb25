"""Joint draw of (z, v) where f's peak is soon found: an independence proposal around it.

The target is that of `grid_proposal`. Newton's method finds the peak of f in u = log v, from a
guess of v, with the standard deviation that its curvature there stands for. Then

    W' = exp f̂(peak) · √(2π) · deviation,    n(u) = e^t / ((1 + e^t)² · scale · deviation),

t = z/scale, z = (u − peak)/deviation: n is logistic, with the tails of exponential distributions,
and at its peak as high as a normal density. "On" is proposed with probability
(1+δ)W'/(1+(1+δ)W'), u then from the density n + δ exp g with the prior's share δ; and the log ratio
of acceptance is f − log W' − log(n + δ exp g) at the proposal less the same at the present state,
each zero for "off". Peak and deviation depend on b, x, y and τ only, and W' on these and π.

From "on" to "on" the proposal need not forget the present u, as long as it leaves n + δ exp g as it
is and leads back as often as there. If u came from n, as it did with a probability that its density
tells, the next one comes from the opposite half of n (`draw_next`): what was high is low then, what
was near the peak is far from it, and averages over sweeps, of λ or of the likelihood, come out with
less noise than independent draws would give.

Two evaluations of f and one or two with its slopes do what a grid does with fifteen. But a
second peak goes unseen: an entry that sits on one would move seldom. So a grid is used in some
sweeps (see `entry_moves`), and always where no parabola tells of a peak. Where the first one did
and no search ends at it, the proposal is made about where the search stopped, deviation 1: entries
that are off may have gone by that parabola.
"""

from __future__ import annotations

import math

from dibpnmf._compile import inlined, part, spliced
from dibpnmf._dispatch import hook
from dibpnmf.likelihoods.grid_proposal import DEFENCE, LOG_DEFENDED
from dibpnmf.likelihoods.rows import log_ratio
from dibpnmf.likelihoods.supports import Entry, level_of
from dibpnmf.loadings.base import SMALLEST, Slab
from dibpnmf.random import Stream, exponential, uniform

expectation, implements_expectation = hook(
    "expectation",
    "Of (lik, entry): where v may be if it is on, the standard deviation of log v there, and the "
    "most that W' may be in units of exp f. Errors of the first two cost time, not truth.",
)
has_slopes, implements_has_slopes = hook(
    "has_slopes", "Whether `slopes` cost little more than one evaluation of f: (lik, entry)."
)
slopes, implements_slopes = hook(
    "slopes",
    "log p(y | b + v x) − log p(y | b) as a number r and a factor q of which it is r − log q, r "
    "being NaN if they are dear, and its first and second derivative by log v: (lik, entry, v).",
)
split, implements_split = hook(
    "split",
    "`log_ratio`, of an Entry's fields and v, as r and q of which it is r − log q: "
    "(lik, support, m, c, level, v).",
)

# Bounds of τ v for a guess of v.
NEAREST, FARTHEST = 0.002, 3.0
_STEPS = 4  # of Newton's method, at most
_BOLDEST = 1.0  # step of log v
_NEAR = 1.0  # last step, in standard deviations
_MARGIN = math.log(4.0)  # what the first parabola may be wrong by
_FLATTEST = 0.25  # curvature of a peak that deserves the name
# Mass of a normal density, in units of the peak's height and deviation, and a logistic one's scale.
_ALL = math.sqrt(2.0 * math.pi)
_SCALE = _ALL / 4.0
# A parabola whose peak is near is at most half above f where it was made.
_HIGHEST = math.exp(0.5 * _NEAR * _NEAR)
_HIGH = 100.0  # log of a factor that products of a few are still floats with
LOG_ALL = math.log(_ALL)


@spliced
def find_peak(  # type: ignore[no-untyped-def]
    lik, entry: Entry, log_odds: float, slab: Slab, odds: float, log_cap: float, enough: float
):
    """Return where f has its peak, roughly, its standard deviation, and log W' − log ``odds``.

    The place is two numbers v and step, the peak being at log v + step. The deviation is infinite
    if there is no sign of one. The last number is at most ``log_cap``; no more is done, and it is
    −inf, as soon as it is certain not to exceed ``enough``. Logarithms are dear here: one is taken
    of many factors.
    """
    tau, constant = slab.rate, log_odds + slab.log_height
    guess, _spread, most = expectation(lik, entry)
    v = min(max(guess, NEAREST / tau), FARTHEST / tau)
    is_capped, height, factor = False, 0.0, 0.0  # f is height + log factor
    for _ in range(_STEPS):
        rest, product, slope, bend = slopes(lik, entry, v)
        height, factor = constant - tau * v + rest, v / (product * odds)
        slope += 1.0 - tau * v
        bend -= tau * v
        is_peaked = bend < -_FLATTEST
        step = -slope / bend if is_peaked else slope
        if is_peaked and abs(step) < _BOLDEST:
            root = math.sqrt(-bend)
            rise = 0.5 * slope * step  # of the parabola's peak over f
            if step * step * -bend < _NEAR * _NEAR:
                if math.isnan(rest):
                    rest = log_ratio(lik, entry.support, entry.m, entry.c, level_of(entry), v)
                    height = constant - tau * v + rest
                size = min(_ALL / root, most / _HIGHEST)
                return v, step, 1.0 / root, min(height + rise + math.log(size * factor), log_cap)
            if not is_capped and not math.isnan(rest):
                is_capped = True
                log_cap = min(log_cap, height + rise + _MARGIN + math.log(_ALL / root * factor))
                if log_cap <= enough:
                    return v, 0.0, 1.0, -math.inf
        v *= math.exp(min(max(step, -_BOLDEST), _BOLDEST))
    if is_capped:  # what others may have gone by: no grid now
        return v, 0.0, 1.0, min(height + math.log(factor), log_cap)
    return v, 0.0, math.inf, -math.inf


@part
def core_log_density(z: float) -> float:
    """Log of n for a peak at 0 with deviation 1: logistic, as high there as a normal density."""
    t = abs(z) / _SCALE
    return -t - 2.0 * math.log1p(math.exp(-t)) - math.log(_SCALE)


@part
def draw_core(s: Stream) -> float:
    """Draw z from n."""
    return _at_rank(uniform(s))


@inlined
def _at_rank(r: float) -> float:
    """Return z such that n has a share r below it."""
    return _SCALE * math.log(r / (1.0 - r))


@spliced
def draw_next(s: Stream, z: float, share: float) -> float:
    """Draw z from n, given that a present one came from there with probability ``share``.

    If it did the next one is opposite to it, so that it has density n as well; else it is new.
    """
    return draw_opposite(s, z) if uniform(s) < share else draw_core(s)


@spliced
def draw_opposite(s: Stream, z: float) -> float:
    """Draw z from the half of n that is opposite to a present one, all ranks on a circle.

    From ranks that are uniform this leads to uniform ones, and back as often as there.
    """
    e = math.exp(-abs(z) / _SCALE)
    r = (1.0 if z > 0.0 else e) / (1.0 + e) + 0.25 + 0.5 * uniform(s)
    return _at_rank(min(max(r - math.floor(r), 2.0**-53), 1.0 - 2.0**-53))


@inlined
def _proposed(z: float, v: float, deviation: float, tau: float) -> tuple[float, float, float]:
    """Density n + δ exp g at v, times the deviation, as a logarithm and a factor.

    And what n alone is, as another factor of the same.
    """
    t, share = abs(z) / _SCALE, DEFENCE * deviation * tau * v
    rise, e = t - tau * v, 1.0 + math.exp(-t)
    core = 1.0 / (_SCALE * e * e)
    if rise < _HIGH:
        return -t, core + share * math.exp(rise), core
    core *= math.exp(-rise)
    return -tau * v, share + core, core


@spliced
def draw_from_peak(  # type: ignore[no-untyped-def]
    lik, entry: Entry, a: float, log_odds: float, slab: Slab, v: float, step: float,
    deviation: float, log_mass: float, odds: float, s: Stream,
):  # fmt: skip
    """Move (z, v) of one entry, given as a = z·v.

    The next four are what `find_peak` returns for the ``odds`` of the uniform number that decides
    between "on" and "off". The log ratio of acceptance is a sum and the logarithm of a product.
    """
    switch_on = log_mass + LOG_DEFENDED > 0.0
    if a == 0.0 and not switch_on:
        return 0.0, True
    support, m, c, tau = entry.support, entry.m, entry.c, slab.rate
    # From "on" to "on" it cancels, and of numbers less a level of −10²⁰ nothing is left.
    is_kept = switch_on and a > 0.0
    level, base_factor = (0.0, 1.0) if is_kept else (entry.base_level, entry.base_factor)
    new, total, product = 0.0, 0.0, 1.0
    now, share = 0.0, 0.0  # of n in the proposal's density at a
    if a > 0.0:
        now = (math.log(a / v) - step) / deviation
        rest, factor = entry.present - level, entry.present_factor
        if math.isnan(rest):
            rest, factor = split(lik, support, m, c, level, a)
        log_density, size, core = _proposed(now, a, deviation, tau)
        total -= rest - tau * a - log_density
        product *= factor * size / (a * base_factor)
        share = core / size
    if switch_on:
        if uniform(s) * (1.0 + DEFENCE) < DEFENCE:
            new = max(exponential(s) / tau, SMALLEST)
            z = (math.log(new / v) - step) / deviation
        else:
            z = draw_next(s, now, share) if is_kept else draw_core(s)
            new = max(v * math.exp(step + deviation * z), SMALLEST)
        rest, factor = split(lik, support, m, c, level, new)
        log_density, size, _ = _proposed(z, new, deviation, tau)
        total += rest - tau * new - log_density
        product *= new * base_factor / (factor * size)
    if a == 0.0:
        total += log_odds + slab.log_height - log_mass
        product *= deviation / odds
    elif not switch_on:
        total -= log_odds + slab.log_height - log_mass
        product *= odds / deviation
    if total + math.log(product / uniform(s)) >= 0.0:
        return new, True
    return a, False
