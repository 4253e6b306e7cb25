"""Density of stick pairs, filled in by each prior of such pairs.

Sticks are kept as log ν, shape (2, K); log μ_k = Σ_{j<=k} log ν_j. In these variables the map
from ratios to weights has a unit Jacobian, so the conditional of one weight, Eq. (7), is

    log p(log μ_k | rest) = ℓ(ν_k) + [k<K] ℓ(ν_{k+1}) + Σ_t n_k log μ_k + (N_t−n_k) log(1−μ_k)

with ℓ the log density of a pair (log ν¹, log ν²), and nothing ever underflows.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from dibpnmf._compile import kernel
from dibpnmf._dispatch import hook
from dibpnmf.priors.base import Floats
from dibpnmf.random import Stream
from dibpnmf.special import log1mexp, times_log

log_pair, implements_log_pair = hook(
    "log_pair",
    """Log density ℓ of one stick pair in (log ν¹, log ν²), given θ (a NamedTuple).""",
)
take_notes, implements_take_notes = hook(
    "take_notes",
    """Note what the sticks of one side see of the other's: (theta, side, log_nu, first, notes).

    Fills the columns of ``notes`` and returns the sum that `log_margin` needs.
    """,
)
given, implements_given = hook(
    "given",
    """Return what `log_given` needs, from the notes on column k: (theta, side, notes, k).""",
)
log_given, implements_log_given = hook(
    "log_given",
    """Log density ℓ(ν_k) + ℓ(ν_{k+1}), but for a constant, of two sticks of one side.

    (given, given_next, log ν_k, 1 − ν_k, log ν_{k+1}); the last stick has no next, of log ν 0.
    """,
)
log_margin, implements_log_margin = hook(
    "log_margin",
    """Log density of all pairs, but for a constant, at another margin of one side.

    Its sticks from ``first`` on are stretched: (theta, side, log_nu, first, notes, total,
    stretch, rests), ``total`` as `take_notes` returned it and ``rests`` 1 − ν of the stretched.
    """,
)
move_dependence, implements_move_dependence = hook(
    "move_dependence",
    """Move the parameters other than the margins': (kind, s, theta, log_nu, learned).""",
)
draw_pairs, implements_draw_pairs = hook(
    "draw_pairs",
    """Draw stick pairs from the prior from ``start`` on: (kind, s, theta, log_nu, start).""",
)
with_margin, implements_with_margin = hook(
    "with_margin",
    """Return θ with the margin parameter of one side changed: (theta, side, value).""",
)
theta_at, implements_theta_at = hook(
    "theta_at",
    """Return θ as a NamedTuple like ``kind``, with the values of an array: (kind, theta).""",
)


class PairState(NamedTuple):
    """Stick pairs as log ν (2, K), and θ."""

    log_nu: Floats
    theta: Floats


@kernel
def log_binomial(n: float, size: float, log_mu: float) -> float:
    """Return n log μ + (size − n) log(1 − μ), the masks' share of Eq. (7)."""
    return times_log(n, log_mu) + times_log(size - n, log1mexp(log_mu))


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
