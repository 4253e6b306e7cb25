"""Joint draw of (z, v) for any likelihood: an independence proposal from a small grid.

The target for one entry, with everything else fixed, is Eq. (18):

    p(z=0) ∝ 1,    p(z=1, log v = u) ∝ exp f(u),
    f(u) = logit π + log τ + u − τ eᵘ + log p(y | b + eᵘ x) − log p(y | b).

1. Evaluate f on a coarse grid of u = log v, refined around its maximum. A ceiling well above
   the peak that the coarse nodes suggest cuts f̂ off, so that an entry that is off and whose
   uniform number exceeds what the ceiling allows can stay off without refinement.
2. Interpolate: f̂ is linear between nodes, with slope 1 to the left (the exact limit of f) and
   a falling line to the right. Its integral W and its quantiles are in closed form.
3. Propose "on" with probability (1+δ)W'/(1+(1+δ)W'), W' = min(W, cap), and then u from the
   density exp f̂ + κ exp g, κ = δW, where g(u) = log τ + u − τ eᵘ is the prior of log v. The
   prior's small share bounds the ratio of target to proposal: without it a loading that finds
   itself in a tail, where f̂ lies far below f, would be stuck there.
4. Accept by Metropolis-Hastings: the log ratio is f − log(exp f̂ + κ exp g) + log(W/W') at the
   proposal less the same at the present state, each zero for "off".

The cap is any bound of the mass ∫ exp f that a likelihood can tell before the grid is built: an
entry that is off and whose uniform number exceeds what it allows stays off at once.

The grid depends on b, x, y, π and τ only, never on the present (z, v): the proposal is
independent of it, and step 4 makes the move exact however coarse the grid.

So may W' be any number that depends on nothing else, and where "on" is likely one evaluation
gives it (`log_vouched_mass`): if f at a guess of v, made from b, x and y, is at least zero, W' is
exp f there times the width that a normal density of log v would have. An entry that is on is then
mostly not proposed to be off and needs no grid: v moves by slice sampling, which leaves exp f
among "on" as it is. Else the grid is built as above, for the proposal.

A bound used for skipping: where log p(y | b + v x) − log p(y | b) <= gain for every v, each
node lies on or below g(u) + logit π + gain, with g concave and exp g of integral 1. Linear
interpolation of g stays below g, and so does a line of slope 1 to the left; the right-hand tail
starts at τ v >= 8, where it adds less than 0.003. So the mass of "on" is at most
1.003 (1+δ) · odds · e^gain (`LOG_SLACK` is the log of the constant, rounded up). The W' of a
guess must stay below every such bound too, or entries would be skipped that it proposes to be on:
since exp g <= 1/e, up to 2.5 times exp f does.
"""

from __future__ import annotations

import math

from dibpnmf._compile import inlined, kernel, spliced
from dibpnmf._dispatch import KernelFunction
from dibpnmf.likelihoods.rows import (
    HEIGHT,
    MASS,
    MAX_NODES,
    NODE,
    Entry,
    Floats,
    log_ratio,
    slice_loading,
)
from dibpnmf.loadings.base import Slab
from dibpnmf.random import Stream, exponential, uniform

_log_mass_cap = KernelFunction(
    "log_mass_cap",
    "Log of a bound of E[p(y | b + v x) / p(y | b)] over the prior of v: (lik, entry, tau).",
)
_expectation = KernelFunction(
    "expectation",
    "Of (lik, entry): where v may be if it is on, the standard deviation of log v there, and the "
    "most that W' may be in units of exp f. Errors of the first two cost time, not truth.",
)
log_mass_cap, implements_log_mass_cap = _log_mass_cap.call, _log_mass_cap.implement
expectation, implements_expectation = _expectation.call, _expectation.implement

_FACTOR = 16.0
_COARSE = 3  # τ v from 2⁻⁵ to 8, each sixteen times the one before; more where f still rises
_NEGLIGIBLE = -10.0  # log odds below which a peak is not worth refining
_REFINEMENTS = 4
DEFENCE = 0.05  # δ, the prior's share of the proposal
LOG_DEFENDED = math.log(1.0 + DEFENCE)
LOG_SLACK = math.log(1.01) + LOG_DEFENDED
# Distances from a peak, in standard deviations, at which it is followed until it has fallen.
_FINE = (1.0, 2.4, 5.0, 10.0)
_FOLLOWED = 4.5
# Bounds of τ v for a guess of v, and the largest f that is believed: now and then even what is
# surely on meets a grid, should its v have got stuck.
NEAREST, FARTHEST = 0.05, 3.0
_SURE = 5.0
_WIDTH = 4.0  # of a slice, in standard deviations
_ROOT_2_PI = math.sqrt(2.0 * math.pi)


@kernel
def _insert(grid: Floats, n: int, u: float, f: float) -> int:
    """Insert a node in order; one that is already there is left out."""
    j = n
    while j > 0 and grid[NODE, j - 1] > u:
        j -= 1
    if (j > 0 and u - grid[NODE, j - 1] < 1e-9) or (j < n and grid[NODE, j] - u < 1e-9):
        return n
    for i in range(n, j, -1):
        grid[NODE, i] = grid[NODE, i - 1]
        grid[HEIGHT, i] = grid[HEIGHT, i - 1]
    grid[NODE, j] = u
    grid[HEIGHT, j] = f
    return n + 1


@inlined
def _evaluate(  # type: ignore[no-untyped-def]
    lik, support: Floats, m: int, c: int, level: float, constant: float, tau: float, u, v
):
    """Return f(u), v = eᵘ; ``constant`` = logit π + log τ."""
    return constant + u - tau * v + log_ratio(lik, support, m, c, level, v)


@kernel
def _peak(grid: Floats, n: int):  # type: ignore[no-untyped-def]
    """Fit a parabola to the highest node and its neighbours.

    Returns its vertex and height, the standard deviation of the normal density it stands for,
    the distance between the neighbours, and how far the true peak may lie above it: the error
    of a parabola is of the order of curvature times squared distance.
    """
    best = 0
    for j in range(1, n):
        if grid[HEIGHT, j] > grid[HEIGHT, best]:
            best = j
    best = min(max(best, 1), n - 2)
    x0, x1, x2 = grid[NODE, best - 1], grid[NODE, best], grid[NODE, best + 1]
    f0, f1, f2 = grid[HEIGHT, best - 1], grid[HEIGHT, best], grid[HEIGHT, best + 1]
    left = (f1 - f0) / (x1 - x0)
    right = (f2 - f1) / (x2 - x1)
    curvature = 2.0 * (right - left) / (x2 - x0)
    if not curvature < -1e-8:
        return x1, f1, 0.8, x2 - x0, 0.5 * (x2 - x0)
    slope = (left * (x2 - x1) + right * (x1 - x0)) / (x2 - x0)
    step = -slope / curvature
    step = max(step, -0.9 * (x1 - x0))
    step = min(step, 0.9 * (x2 - x1))
    height = f1 + step * (slope + 0.5 * curvature * step)
    deviation = min(1.0 / math.sqrt(-curvature), 0.8)
    return x1 + step, height, deviation, x2 - x0, -0.05 * curvature * (x2 - x0) ** 2


@kernel
def coarse_grid(lik, entry: Entry, log_odds: float, tau: float):  # type: ignore[no-untyped-def]
    """Fill ``entry.grid`` with coarse nodes in order of u; return their number and a ceiling.

    The ceiling is where f̂ will be cut off: well above where the peak is expected.
    """
    grid, support = entry.grid, entry.support
    m, c, level = entry.m, entry.c, entry.level
    constant = log_odds + math.log(tau)
    step = math.log(_FACTOR)
    v = 8.0 / tau
    u = math.log(v)
    high, low = v, v
    n = 1
    grid[NODE, 0] = u
    grid[HEIGHT, 0] = _evaluate(lik, support, m, c, level, constant, tau, u, v)
    # The maximum must lie inside.
    while n < _COARSE or (grid[HEIGHT, 0] > grid[HEIGHT, 1] and n < MAX_NODES // 3):
        low /= _FACTOR
        u = grid[NODE, 0] - step
        f = _evaluate(lik, support, m, c, level, constant, tau, u, low)
        n = _insert(grid, n, u, f)
    while grid[HEIGHT, n - 1] > grid[HEIGHT, n - 2] and n < MAX_NODES // 2:
        high *= _FACTOR
        u = grid[NODE, n - 1] + step
        f = _evaluate(lik, support, m, c, level, constant, tau, u, high)
        n = _insert(grid, n, u, f)
    _u, height, _deviation, _width, doubt = _peak(grid, n)
    return n, height + 2.0 * doubt + 0.5


@kernel
def refine_grid(lik, entry: Entry, log_odds: float, tau: float, n: int, ceiling: float) -> int:  # type: ignore[no-untyped-def]
    """Add nodes where f is high, cut off at the ceiling; return the number of all nodes."""
    grid, support = entry.grid, entry.support
    m, c, level = entry.m, entry.c, entry.level
    constant = log_odds + math.log(tau)
    low, high = grid[NODE, 0], grid[NODE, n - 1]
    for _ in range(_REFINEMENTS):
        u, height, deviation, width, doubt = _peak(grid, n)
        if height + doubt < _NEGLIGIBLE:
            return n
        if doubt < 0.5:
            break
        for side in (-1.0, 0.0, 1.0):
            node = u + side * min(1.2 * deviation, 0.3 * width)
            f = _evaluate(lik, support, m, c, level, constant, tau, node, math.exp(node))
            n = _insert(grid, n, node, min(f, ceiling))
    u, height, deviation, _width, _doubt = _peak(grid, n)
    for side in (-1.0, 1.0):
        for distance in _FINE:
            node = u + side * distance * deviation
            if not low < node < high:
                break
            f = _evaluate(lik, support, m, c, level, constant, tau, node, math.exp(node))
            n = _insert(grid, n, node, min(f, ceiling))
            if f < height - _FOLLOWED:
                break
    return n


@kernel
def _right_slope(grid: Floats, n: int) -> float:
    """Rate at which f̂ falls beyond the last node: at least 1."""
    last = (grid[HEIGHT, n - 2] - grid[HEIGHT, n - 1]) / (grid[NODE, n - 1] - grid[NODE, n - 2])
    return max(last, 1.0)


@kernel
def grid_mass(grid: Floats, n: int):  # type: ignore[no-untyped-def]
    """Integrate exp(f̂ − highest node); return the integral and that node's height.

    Line MASS of the grid receives the integral left of the first node, of each segment, and
    right of the last node.
    """
    highest = grid[HEIGHT, 0]
    for j in range(1, n):
        highest = max(highest, grid[HEIGHT, j])
    before = math.exp(grid[HEIGHT, 0] - highest)
    grid[MASS, 0] = before
    total = before
    for j in range(1, n):
        after = math.exp(grid[HEIGHT, j] - highest)
        rise = grid[HEIGHT, j] - grid[HEIGHT, j - 1]
        # The integral of exp of a line is the rise of exp over that of the line.
        mean = (after - before) / rise if abs(rise) > 1e-4 else 0.5 * (after + before)
        grid[MASS, j] = mean * (grid[NODE, j] - grid[NODE, j - 1])
        total += grid[MASS, j]
        before = after
    grid[MASS, n] = before / _right_slope(grid, n)
    return total + grid[MASS, n], highest


@kernel
def interpolate(grid: Floats, n: int, u: float) -> float:
    """Return f̂(u)."""
    if u <= grid[NODE, 0]:
        return grid[HEIGHT, 0] + u - grid[NODE, 0]
    if u >= grid[NODE, n - 1]:
        return grid[HEIGHT, n - 1] - _right_slope(grid, n) * (u - grid[NODE, n - 1])
    j = 1
    while grid[NODE, j] < u:
        j += 1
    share = (u - grid[NODE, j - 1]) / (grid[NODE, j] - grid[NODE, j - 1])
    return grid[HEIGHT, j - 1] + share * (grid[HEIGHT, j] - grid[HEIGHT, j - 1])


@kernel
def draw_node(grid: Floats, n: int, total: float, s: Stream) -> float:
    """Draw u from exp f̂, after `grid_mass`."""
    r = uniform(s) * total
    j = 0
    while j < n and r >= grid[MASS, j]:
        r -= grid[MASS, j]
        j += 1
    if j == 0:
        return grid[NODE, 0] - exponential(s)
    if j == n:
        return grid[NODE, n - 1] + exponential(s) / _right_slope(grid, n)
    width = grid[NODE, j] - grid[NODE, j - 1]
    rise = grid[HEIGHT, j] - grid[HEIGHT, j - 1]
    q = uniform(s)
    if abs(rise) < 1e-4:
        return grid[NODE, j - 1] + width * q
    if rise > 0.0:  # from the high end, so that nothing overflows
        return grid[NODE, j] + width * math.log1p(q * math.expm1(-rise)) / rise
    return grid[NODE, j - 1] + width * math.log1p(q * math.expm1(rise)) / rise


@kernel
def proposal_log_density(grid: Floats, n: int, tau: float, log_defence: float, u: float) -> float:
    """Return log(exp f̂(u) + κ exp g(u)), the density that proposals of "on" come from."""
    f = interpolate(grid, n, u)
    g = log_defence + math.log(tau) + u - tau * math.exp(u)
    high, low = max(f, g), min(f, g)
    return high + math.log1p(math.exp(low - high))


@spliced
def log_vouched_mass(lik, entry: Entry, log_odds: float, slab: Slab):  # type: ignore[no-untyped-def]
    """Return log W' as a guess gives it, or −inf where "on" is not likely, and a slice's width."""
    guess, spread, most = expectation(lik, entry)
    v = min(max(guess, NEAREST / slab.rate), FARTHEST / slab.rate)
    support, m, c, level = entry.support, entry.m, entry.c, entry.level
    constant = log_odds + slab.log_height
    f = _evaluate(lik, support, m, c, level, constant, slab.rate, math.log(v), v)
    log_mass = min(f, _SURE) + math.log(min(_ROOT_2_PI * spread, most))
    return (log_mass if f >= 0.0 else -math.inf), _WIDTH * spread


def draw_near(  # type: ignore[no-untyped-def]
    lik, entry: Entry, a: float, log_odds: float, slab: Slab, local: bool, u: float, s: Stream
):
    """Move (z, v) of one entry, given as a = z·v, Eq. (18).

    ``u`` is the uniform number that decides "on" or "off". Unless ``local``, nothing is guessed
    and v is drawn afresh. Returns the new z·v and whether the proposal was accepted.
    """
    logit_u = math.log(u) - math.log1p(-u)
    tau = slab.rate
    if entry.m == 0:  # nothing observed depends on it: draw from the prior
        return (exponential(s) / tau if logit_u < log_odds else 0.0), True
    log_cap = math.inf
    if a == 0.0:
        log_cap = log_odds + log_mass_cap(lik, entry, tau)
        if logit_u >= log_cap + LOG_DEFENDED:
            return 0.0, True
    log_mass, width = -math.inf, 0.0
    if local:
        log_mass, width = log_vouched_mass(lik, entry, log_odds, slab)
    is_likely = log_mass > -math.inf
    if is_likely:
        is_proposed_on = logit_u < log_mass + LOG_DEFENDED
        if is_proposed_on and a > 0.0:
            return slice_loading(lik, entry, a, slab, width, 0, s), True
        if not is_proposed_on and a == 0.0:
            return 0.0, True
        log_cap = log_mass
    elif a > 0.0:
        log_cap = log_odds + log_mass_cap(lik, entry, tau)
    return draw_from_grid(lik, entry, a, log_odds, tau, log_cap, is_likely, u, s)


@spliced
def draw_from_grid(  # type: ignore[no-untyped-def]
    lik, entry: Entry, a: float, log_odds: float, tau: float, log_cap: float, is_mass: bool, u, s
):
    """Move (z, v) of one entry by steps 1-4; ``log_cap`` is log W' if ``is_mass``, else its cap."""
    logit_u = math.log(u) - math.log1p(-u)
    grid = entry.grid
    n, ceiling = coarse_grid(lik, entry, log_odds, tau)
    if a == 0.0 and not is_mass:
        # Between the outer nodes f̂ stays below the ceiling, and each tail adds at most its height.
        span = grid[NODE, n - 1] - grid[NODE, 0] + 2.0
        if math.log(u) > ceiling + math.log(span * (1.0 + DEFENCE)):
            return 0.0, True
    n = refine_grid(lik, entry, log_odds, tau, n, ceiling)
    total, highest = grid_mass(grid, n)
    log_mass = highest + math.log(total)
    excess = log_mass - log_cap
    if excess < 0.0 and not is_mass:
        excess = 0.0
    switch_on = logit_u < log_mass - excess + LOG_DEFENDED
    if a == 0.0 and not switch_on:
        return 0.0, True
    log_defence = log_mass + math.log(DEFENCE)
    support, m, c, level = entry.support, entry.m, entry.c, entry.level
    constant = log_odds + math.log(tau)
    new = 0.0
    log_accept = 0.0
    if switch_on:
        if uniform(s) * (1.0 + DEFENCE) < DEFENCE:
            x = math.log(exponential(s) / tau)
        else:
            x = draw_node(grid, n, total, s)
        new = max(math.exp(x), 1e-300)
        log_accept += excess + _evaluate(lik, support, m, c, level, constant, tau, x, new)
        log_accept -= proposal_log_density(grid, n, tau, log_defence, x)
    if a > 0.0:
        x = math.log(a)
        log_accept -= excess + _evaluate(lik, support, m, c, level, constant, tau, x, a)
        log_accept += proposal_log_density(grid, n, tau, log_defence, x)
    if log_accept >= 0.0 or math.log(uniform(s)) < log_accept:
        return new, True
    return a, False
