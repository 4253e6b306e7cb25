"""Places between stick pairs: a new point divides the steps of both sides."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from dibpnmf._compile import inlined
from dibpnmf.inference.factors.places import (
    implements_draw_last,
    implements_draw_point,
    implements_insert_point,
    implements_log_point,
    implements_note_merged,
    implements_note_places,
    implements_point_odds,
    implements_read_point,
    implements_remove_point,
    implements_weigh_places,
    places_of,
)
from dibpnmf.priors.base import Floats
from dibpnmf.priors.pair_density import PairState, draw_pairs, log_pair
from dibpnmf.priors.stick_pairs import PairedSticksPrior
from dibpnmf.random import uniform
from dibpnmf.special import log1mexp

# Columns of the notes, one for each side: log μ before the place, the step, and of its middle the
# log odds and N log(1 − μ). The last is the log area of a place.
_BEFORE, _STEP, _ODDS, _OFF, _AREA = 0, 2, 4, 6, 8
# The point: steps to it and from it, and log μ there, two each.
_TO, _FROM, _AT = 0, 2, 4


class PairPlaces(NamedTuple):
    """Sticks of a `PairState`, the sides' sizes, and working memory."""

    theta: Any
    values: Floats  # θ as an array
    log_nu: Floats
    sizes: Floats
    notes: Floats
    point: Floats
    last: Floats  # (2, 1), a step


@places_of.register
def _pair_places(prior: PairedSticksPrior, state: PairState, sizes: Floats) -> PairPlaces:
    K = state.log_nu.shape[1]
    return PairPlaces(
        prior.theta_tuple(state.theta), state.theta, state.log_nu, sizes, np.empty((K + 1, 9)),
        np.empty(6), np.empty((2, 1)),
    )  # fmt: skip


@inlined
def _odds(log_mu: float) -> float:
    return log_mu - log1mexp(log_mu)


@inlined
def _note(places, p: int, t: int, before: float, step: float) -> None:  # type: ignore[no-untyped-def]
    note = places.notes[p]
    middle = before + 0.5 * step
    log_rest = log1mexp(middle)
    note[_BEFORE + t], note[_STEP + t] = before, step
    note[_ODDS + t], note[_OFF + t] = middle - log_rest, places.sizes[t] * log_rest
    note[_AREA] = math.log(-step) + (note[_AREA] if t == 1 else 0.0)


@implements_note_places(PairPlaces)
def _note_places(places):  # type: ignore[no-untyped-def]
    for t in range(2):
        log_mu = 0.0
        for p in range(places.log_nu.shape[1]):
            _note(places, p, t, log_mu, places.log_nu[t, p])
            log_mu += places.log_nu[t, p]


@implements_note_merged(PairPlaces)
def _note_merged(places, f):  # type: ignore[no-untyped-def]
    for t in range(2):
        step = places.log_nu[t, f] + places.log_nu[t, f + 1]
        _note(places, places.log_nu.shape[1], t, places.notes[f, _BEFORE + t], step)


@implements_weigh_places(PairPlaces)
def _weigh_places(places, n0, n1, out):  # type: ignore[no-untyped-def]
    """Log of area times probability of the masks in the middle, Eq. (43)."""
    for p in range(places.log_nu.shape[1] + 1):
        note = places.notes[p]
        out[p] = note[_AREA] + n0 * note[_ODDS] + note[_OFF] + n1 * note[_ODDS + 1] + note[_OFF + 1]


@implements_draw_point(PairPlaces)
def _draw_point(places, p, n0, n1, s):  # type: ignore[no-untyped-def]
    note, point = places.notes[p], places.point
    for t in range(2):
        u = uniform(s)
        point[_TO + t], point[_FROM + t] = u * note[_STEP + t], (1.0 - u) * note[_STEP + t]
        point[_AT + t] = note[_BEFORE + t] + point[_TO + t]


@implements_read_point(PairPlaces)
def _read_point(places, f, n0, n1):  # type: ignore[no-untyped-def]
    point, log_nu = places.point, places.log_nu
    for t in range(2):
        point[_TO + t], point[_FROM + t] = log_nu[t, f], log_nu[t, f + 1]
        point[_AT + t] = places.notes[f, _BEFORE + t] + log_nu[t, f]


@implements_point_odds(PairPlaces)
def _point_odds(places):  # type: ignore[no-untyped-def]
    return _odds(places.point[_AT]), _odds(places.point[_AT + 1])


@implements_log_point(PairPlaces)
def _log_point(places):  # type: ignore[no-untyped-def]
    """Log of ℓ(ν_a) ℓ(ν_b) / ℓ(ν_a ν_b) times the area of the place, Eq. (43)."""
    a0, a1, b0, b1 = places.point[0], places.point[1], places.point[2], places.point[3]
    change = log_pair(places.theta, a0, a1) + log_pair(places.theta, b0, b1)
    change -= log_pair(places.theta, a0 + b0, a1 + b1)
    return change + math.log((a0 + b0) * (a1 + b1))


@implements_draw_last(PairPlaces)
def _draw_last(places, s):  # type: ignore[no-untyped-def]
    draw_pairs(places.theta, s, places.values, places.last, 0)
    # Point K − 1 is the last that stays, and K − 1 steps lead to it after f has gone.
    end = places.notes[places.log_nu.shape[1] - 1]
    steps = places.log_nu[:, places.log_nu.shape[1] - 1]
    return (
        _odds(end[_BEFORE] + steps[0] + places.last[0, 0]),
        _odds(end[_BEFORE + 1] + steps[1] + places.last[1, 0]),
    )


@implements_insert_point(PairPlaces)
def _insert_point(places, p):  # type: ignore[no-untyped-def]
    log_nu, point = places.log_nu, places.point
    for t in range(2):
        for j in range(log_nu.shape[1] - 1, p + 1, -1):
            log_nu[t, j] = log_nu[t, j - 1]
        log_nu[t, p], log_nu[t, p + 1] = point[_TO + t], point[_FROM + t]


@implements_remove_point(PairPlaces)
def _remove_point(places, f):  # type: ignore[no-untyped-def]
    log_nu, K = places.log_nu, places.log_nu.shape[1]
    for t in range(2):
        log_nu[t, f] += log_nu[t, f + 1]
        for j in range(f + 1, K - 1):
            log_nu[t, j] = log_nu[t, j + 1]
        log_nu[t, K - 1] = places.last[t, 0]
