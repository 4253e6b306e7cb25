"""Joint draw of (z, v) for any likelihood: an independence proposal from a small grid.

The target for one entry, with everything else fixed, is Eq. (18):

    p(z=0) ∝ 1,    p(z=1, log v = u) ∝ exp f(u),
    f(u) = logit π + log τ + u − τ eᵘ + log p(y | b + eᵘ x) − log p(y | b).

1. Evaluate f on a coarse grid of u = log v, refined around its maximum.
2. Interpolate: f̂ is linear between nodes, with slope 1 to the left (the exact limit of f) and
   a falling line to the right. Its integral W and its quantiles are in closed form.
3. Propose "on" with probability W/(1+W), and then u from exp f̂.
4. Accept by Metropolis-Hastings: the log ratio is (f − f̂) at the proposal less (f − f̂) at
   the present state, each zero for "off".

The grid depends on b, x, y, π and τ only, never on the present (z, v): the proposal is
independent of it, and step 4 makes the move exact however coarse the grid.

A bound used for skipping: where log p(y | b + v x) − log p(y | b) <= gain for every v, each
node lies on or below g(u) + logit π + gain, with g(u) = log τ + u − τ eᵘ concave and of integral
1. Linear interpolation of g stays below g, and so does a line of slope 1 to the left; the
right-hand tail starts at τ v >= 8, where it adds less than 0.003. So W <= 1.01 · odds · e^gain.
"""

from __future__ import annotations

import math

from dibpnmf._compile import kernel
from dibpnmf.likelihoods.rows import MAX_NODES, Entry, Floats, log_ratio
from dibpnmf.random import Stream, exponential, uniform

_STEP = math.log(16.0)
_COARSE = 5  # τ v from 2⁻¹³ to 8, each sixteen times the one before
_NEGLIGIBLE = -30.0  # log odds below which a peak is not worth refining
_FINE = (-2.8, -1.6, -0.6, 0.6, 1.6, 2.8)  # extra nodes, in standard deviations from the peak


@kernel
def _insert(grid: Floats, n: int, u: float, f: float) -> int:
    """Insert a node in order; one that is already there is left out."""
    j = n
    while j > 0 and grid[0, j - 1] > u:
        j -= 1
    if (j > 0 and u - grid[0, j - 1] < 1e-9) or (j < n and grid[0, j] - u < 1e-9):
        return n
    for i in range(n, j, -1):
        grid[0, i] = grid[0, i - 1]
        grid[1, i] = grid[1, i - 1]
    grid[0, j] = u
    grid[1, j] = f
    return n + 1


@kernel
def _evaluate(lik, entry: Entry, constant: float, tau: float, u: float) -> float:  # type: ignore[no-untyped-def]
    """Return f(u); ``constant`` = logit π + log τ."""
    v = math.exp(u)
    return constant + u - tau * v + log_ratio(lik, entry, v)


@kernel
def _peak(grid: Floats, n: int):  # type: ignore[no-untyped-def]
    """Fit a parabola to the highest node and its neighbours.

    Returns its vertex, height and curvature, and how far the true peak may lie above it: the
    error of a parabola is of the order of curvature times squared distance.
    """
    best = 0
    for j in range(1, n):
        if grid[1, j] > grid[1, best]:
            best = j
    best = min(max(best, 1), n - 2)
    x0, x1, x2 = grid[0, best - 1], grid[0, best], grid[0, best + 1]
    f0, f1, f2 = grid[1, best - 1], grid[1, best], grid[1, best + 1]
    left = (f1 - f0) / (x1 - x0)
    right = (f2 - f1) / (x2 - x1)
    curvature = 2.0 * (right - left) / (x2 - x0)
    if not curvature < -1e-8:
        return x1, f1, -1.0, 0.5 * (x2 - x0)
    slope = (left * (x2 - x1) + right * (x1 - x0)) / (x2 - x0)
    step = -slope / curvature
    margin = 0.1
    step = max(step, -(1.0 - margin) * (x1 - x0))
    step = min(step, (1.0 - margin) * (x2 - x1))
    height = f1 + step * (slope + 0.5 * curvature * step)
    return x1 + step, height, curvature, -0.05 * curvature * (x2 - x0) ** 2


@kernel
def build_grid(lik, entry: Entry, log_odds: float, tau: float) -> int:  # type: ignore[no-untyped-def]
    """Fill ``entry.grid`` with nodes in order of u, fine where f is high; return their number."""
    grid = entry.grid
    constant = log_odds + math.log(tau)
    top = math.log(8.0) - math.log(tau)
    n = _COARSE
    for j in range(n):
        grid[0, j] = top - _STEP * (n - 1 - j)
        grid[1, j] = _evaluate(lik, entry, constant, tau, grid[0, j])
    # The maximum must lie inside.
    while grid[1, 0] > grid[1, 1] and n < MAX_NODES // 2:
        u = grid[0, 0] - _STEP
        n = _insert(grid, n, u, _evaluate(lik, entry, constant, tau, u))
    while grid[1, n - 1] > grid[1, n - 2] and n < MAX_NODES - 16:
        u = grid[0, n - 1] + _STEP
        n = _insert(grid, n, u, _evaluate(lik, entry, constant, tau, u))
    for _ in range(5):
        u, height, curvature, doubt = _peak(grid, n)
        if height + doubt < _NEGLIGIBLE:
            return n
        if doubt < 0.5:
            break
        n = _insert(grid, n, u, _evaluate(lik, entry, constant, tau, u))
    deviation = min(1.0 / math.sqrt(-curvature), 0.8)
    for step in _FINE:
        node = u + step * deviation
        n = _insert(grid, n, node, _evaluate(lik, entry, constant, tau, node))
    return n


@kernel
def _segment_mass(f0: float, f1: float, width: float) -> float:
    """Integral of exp of a line from f0 to f1."""
    d = f1 - f0
    if abs(d) < 1e-7:
        return width * math.exp(0.5 * (f0 + f1))
    if d > 0.0:
        return width * math.exp(f1) * -math.expm1(-d) / d
    return width * math.exp(f0) * math.expm1(d) / d


@kernel
def _right_slope(grid: Floats, n: int) -> float:
    """Rate at which f̂ falls beyond the last node: at least 1."""
    last = (grid[1, n - 2] - grid[1, n - 1]) / (grid[0, n - 1] - grid[0, n - 2])
    return max(last, 1.0)


@kernel
def grid_mass(grid: Floats, n: int, highest: float) -> float:
    """Integral of exp(f̂ − highest) over all u."""
    total = math.exp(grid[1, 0] - highest)
    total += math.exp(grid[1, n - 1] - highest) / _right_slope(grid, n)
    for j in range(n - 1):
        total += _segment_mass(
            grid[1, j] - highest, grid[1, j + 1] - highest, grid[0, j + 1] - grid[0, j]
        )
    return total


@kernel
def interpolate(grid: Floats, n: int, u: float) -> float:
    """Return f̂(u)."""
    if u <= grid[0, 0]:
        return grid[1, 0] + u - grid[0, 0]
    if u >= grid[0, n - 1]:
        return grid[1, n - 1] - _right_slope(grid, n) * (u - grid[0, n - 1])
    j = 1
    while grid[0, j] < u:
        j += 1
    share = (u - grid[0, j - 1]) / (grid[0, j] - grid[0, j - 1])
    return grid[1, j - 1] + share * (grid[1, j] - grid[1, j - 1])


@kernel
def draw_node(grid: Floats, n: int, highest: float, total: float, s: Stream) -> float:
    """Draw u from exp f̂."""
    r = uniform(s) * total
    r -= math.exp(grid[1, 0] - highest)
    if r < 0.0:
        return grid[0, 0] - exponential(s)
    for j in range(n - 1):
        width = grid[0, j + 1] - grid[0, j]
        f0, f1 = grid[1, j] - highest, grid[1, j + 1] - highest
        r -= _segment_mass(f0, f1, width)
        if r < 0.0:
            d = f1 - f0
            q = uniform(s)
            if abs(d) < 1e-7:
                return grid[0, j] + width * q
            if d > 0.0:  # from the high end, so that nothing overflows
                return grid[0, j + 1] + width * math.log1p(q * math.expm1(-d)) / d
            return grid[0, j] + width * math.log1p(q * math.expm1(d)) / d
    return grid[0, n - 1] + exponential(s) / _right_slope(grid, n)


@kernel
def draw_from_grid(lik, entry: Entry, a: float, log_odds: float, tau: float, u: float, s: Stream):  # type: ignore[no-untyped-def]
    """Move (z, v) of one entry, given as a = z·v, by steps 1-4.

    Returns the new z·v and whether the proposal was accepted. ``u`` is the uniform number that
    decides "on" or "off".
    """
    logit_u = math.log(u) - math.log1p(-u)
    if entry.m == 0:  # nothing observed depends on it: draw from the prior
        return (exponential(s) / tau if logit_u < log_odds else 0.0), True
    grid = entry.grid
    n = build_grid(lik, entry, log_odds, tau)
    highest = grid[1, 0]
    for j in range(1, n):
        highest = max(highest, grid[1, j])
    if a == 0.0:
        span = grid[0, n - 1] - grid[0, 0] + 2.0
        if math.log(u) > highest + math.log(span):
            return 0.0, True
    total = grid_mass(grid, n, highest)
    switch_on = logit_u < highest + math.log(total)
    if a == 0.0 and not switch_on:
        return 0.0, True
    constant = log_odds + math.log(tau)
    new = 0.0
    log_accept = 0.0
    if switch_on:
        x = draw_node(grid, n, highest, total, s)
        new = max(math.exp(x), 1e-300)
        log_accept += _evaluate(lik, entry, constant, tau, x) - interpolate(grid, n, x)
    if a > 0.0:
        x = math.log(a)
        log_accept -= _evaluate(lik, entry, constant, tau, x) - interpolate(grid, n, x)
    if log_accept >= 0.0 or math.log(uniform(s)) < log_accept:
        return new, True
    return a, False
