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

The grid depends on b, x, y, π and τ only, never on the present (z, v): the proposal is
independent of it, and step 4 makes the move exact however coarse the grid. So may W' be any
number that depends on nothing else.

A bound used for skipping: where log p(y | b + v x) − log p(y | b) <= gain for every v, each
node lies on or below g(u) + logit π + gain, with g concave and exp g of integral 1. Linear
interpolation of g stays below g, and so does a line of slope 1 to the left; the right-hand tail
starts at τ v >= 8, where it adds less than 0.003. So the mass of "on" is at most
1.003 (1+δ) · odds · e^gain (`LOG_SLACK` is the log of the constant, rounded up).
"""

from __future__ import annotations

import math

from dibpnmf._compile import part, spliced
from dibpnmf.likelihoods.lists import Floats
from dibpnmf.likelihoods.rows import log_ratio
from dibpnmf.likelihoods.supports import HEIGHT, MASS, MAX_NODES, NODE, Entry, level_of
from dibpnmf.random import Stream, exponential, uniform

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


@part
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


@part
def evaluate(  # type: ignore[no-untyped-def]
    lik, support: Floats, m: int, c: int, level: float, constant: float, tau: float, u, v
):
    """Return f(u), v = eᵘ; ``constant`` = logit π + log τ."""
    return constant + u - tau * v + log_ratio(lik, support, m, c, level, v)


@part
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


@part
def coarse_grid(lik, entry: Entry, log_odds: float, tau: float):  # type: ignore[no-untyped-def]
    """Fill ``entry.grid`` with coarse nodes in order of u; return their number and a ceiling.

    The ceiling is where f̂ will be cut off: well above where the peak is expected.
    """
    grid, support = entry.grid, entry.support
    m, c, level = entry.m, entry.c, level_of(entry)
    constant = log_odds + math.log(tau)
    step = math.log(_FACTOR)
    v = 8.0 / tau
    u = math.log(v)
    high, low = v, v
    n = 1
    grid[NODE, 0] = u
    grid[HEIGHT, 0] = evaluate(lik, support, m, c, level, constant, tau, u, v)
    # The maximum must lie inside.
    while n < _COARSE or (grid[HEIGHT, 0] > grid[HEIGHT, 1] and n < MAX_NODES // 3):
        low /= _FACTOR
        u = grid[NODE, 0] - step
        f = evaluate(lik, support, m, c, level, constant, tau, u, low)
        n = _insert(grid, n, u, f)
    while grid[HEIGHT, n - 1] > grid[HEIGHT, n - 2] and n < MAX_NODES // 2:
        high *= _FACTOR
        u = grid[NODE, n - 1] + step
        f = evaluate(lik, support, m, c, level, constant, tau, u, high)
        n = _insert(grid, n, u, f)
    _u, height, _deviation, _width, doubt = _peak(grid, n)
    return n, height + 2.0 * doubt + 0.5


@part
def refine_grid(lik, entry: Entry, log_odds: float, tau: float, n: int, ceiling: float) -> int:  # type: ignore[no-untyped-def]
    """Add nodes where f is high, cut off at the ceiling; return the number of all nodes."""
    grid, support = entry.grid, entry.support
    m, c, level = entry.m, entry.c, level_of(entry)
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
            f = evaluate(lik, support, m, c, level, constant, tau, node, math.exp(node))
            n = _insert(grid, n, node, min(f, ceiling))
    u, height, deviation, _width, _doubt = _peak(grid, n)
    for side in (-1.0, 1.0):
        for distance in _FINE:
            node = u + side * distance * deviation
            if not low < node < high:
                break
            f = evaluate(lik, support, m, c, level, constant, tau, node, math.exp(node))
            n = _insert(grid, n, node, min(f, ceiling))
            if f < height - _FOLLOWED:
                break
    return n


@part
def _right_slope(grid: Floats, n: int) -> float:
    """Rate at which f̂ falls beyond the last node: at least 1."""
    last = (grid[HEIGHT, n - 2] - grid[HEIGHT, n - 1]) / (grid[NODE, n - 1] - grid[NODE, n - 2])
    return max(last, 1.0)


@part
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


@part
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


@part
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


@part
def defended(log_density: float, log_share: float) -> tuple[float, float]:
    """Return exp log_density + κ exp g, the density that proposals of "on" come from.

    As a logarithm and a factor from 1 to 2; ``log_share`` is log κ + g.
    """
    high, low = max(log_density, log_share), min(log_density, log_share)
    return high, 1.0 + math.exp(low - high)


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
    log_defence = log_mass + math.log(DEFENCE * tau)
    support, m, c, level = entry.support, entry.m, entry.c, level_of(entry)
    constant = log_odds + math.log(tau)
    new, log_accept, product = 0.0, 0.0, 1.0
    if switch_on:
        if uniform(s) * (1.0 + DEFENCE) < DEFENCE:
            x = math.log(exponential(s) / tau)
        else:
            x = draw_node(grid, n, total, s)
        new = max(math.exp(x), 1e-300)
        log_accept += excess + evaluate(lik, support, m, c, level, constant, tau, x, new)
        log_density, both = defended(interpolate(grid, n, x), log_defence + x - tau * new)
        log_accept -= log_density
        product /= both
    if a > 0.0:
        x = math.log(a)
        log_accept -= excess + evaluate(lik, support, m, c, level, constant, tau, x, a)
        log_density, both = defended(interpolate(grid, n, x), log_defence + x - tau * a)
        log_accept += log_density
        product *= both
    if log_accept + math.log(product / uniform(s)) >= 0.0:
        return new, True
    return a, False
