"""Move (z, v) of one entry, for any likelihood: by its peak, by a slice, or by a grid.

Each leaves Eq. (18) as it is; which one is used depends on b, x, y, π, τ and the sweep only.

- Where slopes cost little (`has_slopes`), an independence proposal around the peak of f.
- Else, where "on" is likely: if f at a guess of v, made from b, x and y, is at least zero, W' is
  exp f there times the width that a normal density of log v would have. An entry that is on is
  then mostly not proposed to be off and needs no grid: v moves by slice sampling, which leaves
  exp f among "on" as it is.
- Else, and in some sweeps in any case, an independence proposal from a grid.

The cap is what a likelihood can tell of the mass ∫ exp f before f is evaluated: an entry that is
off and whose uniform number exceeds what it allows stays off at once. W' must not exceed it, or
entries would be skipped that are proposed to be on. Where the cap comes from a first look, which
may be wrong, it is put upon W', but not in the sweeps of grids. Elsewhere it is a bound, below
which the W' of a guess or of a peak is anyway: since exp g <= 1/e, up to 2.5 times exp f is (see
`grid_proposal` for g).
"""

from __future__ import annotations

import math

from dibpnmf._compile import spliced
from dibpnmf._dispatch import hook
from dibpnmf.likelihoods.grid_proposal import LOG_DEFENDED, draw_from_grid, evaluate
from dibpnmf.likelihoods.peak_proposal import (
    FARTHEST,
    NEAREST,
    draw_from_peak,
    expectation,
    find_peak,
    has_slopes,
)
from dibpnmf.likelihoods.slice_move import slice_loading
from dibpnmf.likelihoods.supports import Entry, level_of
from dibpnmf.loadings.base import Slab
from dibpnmf.random import Stream, exponential

log_mass_cap, implements_log_mass_cap = hook(
    "log_mass_cap",
    "Log of a cap of E[p(y | b + v x) / p(y | b)] over the prior of v, less log odds: "
    "(lik, entry, tau, odds).",
)

# The largest f at a guess that is believed: now and then even what is surely on meets a grid,
# should its v have got stuck.
_SURE = 5.0
_WIDTH = 4.0  # of a slice, in standard deviations
_ROOT_2_PI = math.sqrt(2.0 * math.pi)


@spliced
def log_vouched_mass(lik, entry: Entry, log_odds: float, slab: Slab):  # type: ignore[no-untyped-def]
    """Return log W' as a guess gives it, or −inf where "on" is not likely, and a slice's width."""
    guess, spread, most = expectation(lik, entry)
    v = min(max(guess, NEAREST / slab.rate), FARTHEST / slab.rate)
    support, m, c, level = entry.support, entry.m, entry.c, level_of(entry)
    constant = log_odds + slab.log_height
    f = evaluate(lik, support, m, c, level, constant, slab.rate, math.log(v), v)
    log_mass = min(f, _SURE) + math.log(min(_ROOT_2_PI * spread, most))
    return (log_mass if f >= 0.0 else -math.inf), _WIDTH * spread


def draw_near(  # type: ignore[no-untyped-def]
    lik, entry: Entry, a: float, log_odds: float, slab: Slab, local: bool, u: float, s: Stream
):
    """Move (z, v) of one entry, given as a = z·v, Eq. (18).

    ``u`` is the uniform number that decides "on" or "off". Unless ``local``, a grid is used.
    Returns the new z·v and whether the proposal was accepted.
    """
    odds, tau = u / (1.0 - u), slab.rate
    if entry.m == 0:  # nothing observed depends on it: draw from the prior
        return (exponential(s) / tau if math.log(odds) < log_odds else 0.0), True
    log_cap = math.inf  # less log odds, and so is log W' below
    is_bound = entry.slope == math.inf
    if a == 0.0 if is_bound else local:
        log_cap = log_odds + log_mass_cap(lik, entry, tau, odds)
    if a == 0.0 and log_cap <= -LOG_DEFENDED:
        return 0.0, True
    if local and has_slopes(lik, entry):
        # What W' is matters to an entry that is off only if it might be switched on.
        enough = -LOG_DEFENDED if a == 0.0 else -math.inf
        v, step, deviation, log_mass = find_peak(lik, entry, log_odds, slab, odds, log_cap, enough)
        if deviation < math.inf:
            return draw_from_peak(
                lik, entry, a, log_odds, slab, v, step, deviation, log_mass, odds, s
            )
    log_mass, width = -math.inf, 0.0
    if local:
        log_mass, width = log_vouched_mass(lik, entry, log_odds, slab)
    is_likely = log_mass > -math.inf
    if is_likely:
        log_mass = min(log_mass - math.log(odds), log_cap)
        is_proposed_on = log_mass + LOG_DEFENDED > 0.0
        if is_proposed_on and a > 0.0:
            return slice_loading(lik, entry, a, slab, width, 0, s), True
        if not is_proposed_on and a == 0.0:
            return 0.0, True
        log_cap = log_mass
    elif a > 0.0 and is_bound:
        log_cap = log_odds + log_mass_cap(lik, entry, tau, odds)
    log_cap += math.log(odds)
    return draw_from_grid(lik, entry, a, log_odds, tau, log_cap, is_likely, u, s)
