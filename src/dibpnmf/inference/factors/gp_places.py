"""Places between the sticks of the Gaussian process prior: a new point comes with its g."""

from __future__ import annotations

import math
from typing import NamedTuple

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
from dibpnmf.priors.gaussian_process import GaussianProcess
from dibpnmf.priors.gp_state import GPState, Noise, correlation, draw_g, log_normal_pair, threshold
from dibpnmf.random import normal, uniform
from dibpnmf.special import HALF_LOG_2PI, log_ndtr_both, ndtri_exp

# Columns of the notes: log μ before the place, the step, its log length, and the threshold in its
# middle.
_BEFORE, _STEP, _LENGTH, _BOUND = 0, 1, 2, 3
# The point: steps to it and from it; then g, Φ⁻¹(γ) and its centre, two each.
_TO, _FROM, _G, _W, _CENTRE = 0, 1, 2, 4, 6
_DEVIATION = 0.4  # of Φ⁻¹(γ) about the centre


class GPPlaces(NamedTuple):
    """Sticks and thresholds of a `GPState`, the sides' sizes, and working memory."""

    noise: Noise
    theta: Floats
    log_nu: Floats
    g: Floats
    sizes: Floats
    notes: Floats
    point: Floats
    last: Floats  # a step, and its g


@places_of.register
def _gp_places(prior: GaussianProcess, state: GPState, sizes: Floats) -> GPPlaces:
    notes = np.empty((state.log_nu.size + 1, 4))
    return GPPlaces(
        prior.noise, state.theta, state.log_nu, state.g, sizes, notes, np.empty(8), np.empty(3)
    )


@inlined
def _odds(w: float) -> float:
    log_on, log_off = log_ndtr_both(w)
    odds: float = log_on - log_off
    return odds


@inlined
def _centre(n: float, size: float) -> float:
    """Φ⁻¹ of γ for so many of all entries."""
    return ndtri_exp(math.log((n + 0.5) / (size + 1.0)))


@inlined
def _note(places, p: int, before: float, step: float) -> None:  # type: ignore[no-untyped-def]
    note = places.notes[p]
    note[_BEFORE], note[_STEP], note[_LENGTH] = before, step, math.log(-step)
    note[_BOUND] = threshold(places.noise, before + 0.5 * step)


@implements_note_places(GPPlaces)
def _note_places(places):  # type: ignore[no-untyped-def]
    log_mu = 0.0
    for p in range(places.log_nu.size):
        _note(places, p, log_mu, places.log_nu[p])
        log_mu += places.log_nu[p]


@implements_note_merged(GPPlaces)
def _note_merged(places, f):  # type: ignore[no-untyped-def]
    step = places.log_nu[f] + places.log_nu[f + 1]
    _note(places, places.log_nu.size, places.notes[f, _BEFORE], step)


@implements_weigh_places(GPPlaces)
def _weigh_places(places, n0, n1, out):  # type: ignore[no-untyped-def]
    """Log of length times density of the g that fit in the middle, Eq. (44)."""
    noise, sizes = places.noise, places.sizes
    r, _ = correlation(places.theta[1])
    shift0 = noise.eta * _centre(n0, sizes[0])
    shift1 = noise.eta * _centre(n1, sizes[1])
    # Of the density, what differs between places: the difference of g0 and g1 does not.
    scale = 1.0 / (noise.sigma**2 * (1.0 + r))
    for p in range(places.log_nu.size + 1):
        bound = places.notes[p, _BOUND]
        out[p] = -math.inf
        if bound > -math.inf:
            out[p] = places.notes[p, _LENGTH] - scale * (bound - shift0) * (bound - shift1)


@implements_draw_point(GPPlaces)
def _draw_point(places, p, n0, n1, s):  # type: ignore[no-untyped-def]
    note, point, u = places.notes[p], places.point, uniform(s)
    point[_TO], point[_FROM] = u * note[_STEP], (1.0 - u) * note[_STEP]
    bound = threshold(places.noise, note[_BEFORE] + point[_TO])
    for t in range(2):
        point[_CENTRE + t] = _centre(n0 if t == 0 else n1, places.sizes[t])
        point[_W + t] = point[_CENTRE + t] + _DEVIATION * normal(s)
        point[_G + t] = bound - places.noise.eta * point[_W + t]


@implements_read_point(GPPlaces)
def _read_point(places, f, n0, n1):  # type: ignore[no-untyped-def]
    point = places.point
    point[_TO], point[_FROM] = places.log_nu[f], places.log_nu[f + 1]
    bound = threshold(places.noise, places.notes[f, _BEFORE] + point[_TO])
    for t in range(2):
        point[_CENTRE + t] = _centre(n0 if t == 0 else n1, places.sizes[t])
        point[_G + t] = places.g[t, f]
        point[_W + t] = (bound - point[_G + t]) / places.noise.eta


@implements_point_odds(GPPlaces)
def _point_odds(places):  # type: ignore[no-untyped-def]
    return _odds(places.point[_W]), _odds(places.point[_W + 1])


@implements_log_point(GPPlaces)
def _log_point(places):  # type: ignore[no-untyped-def]
    """Log of α times the length of the place, and of the density of g over its proposal's.

    Eq. (44); ν_a^α ν_b^α = (ν_a ν_b)^α.
    """
    point, noise = places.point, places.noise
    r, one_minus_r2 = correlation(places.theta[1])
    value = math.log(-places.theta[0] * (point[_TO] + point[_FROM]))
    value += log_normal_pair(point[_G], point[_G + 1], noise.sigma, r, one_minus_r2)
    for t in range(2):
        z = (point[_W + t] - point[_CENTRE + t]) / _DEVIATION
        value += 0.5 * z * z + HALF_LOG_2PI + math.log(_DEVIATION * noise.eta)
    return value


@implements_draw_last(GPPlaces)
def _draw_last(places, s):  # type: ignore[no-untyped-def]
    noise, K, last = places.noise, places.log_nu.size, places.last
    last[0] = math.log(uniform(s)) / places.theta[0]
    draw_g(s, noise.sigma, places.theta[1], last[1:])
    bound = threshold(noise, places.notes[K - 1, _BEFORE] + places.log_nu[K - 1] + last[0])
    return _odds((bound - last[1]) / noise.eta), _odds((bound - last[2]) / noise.eta)


@implements_insert_point(GPPlaces)
def _insert_point(places, p):  # type: ignore[no-untyped-def]
    log_nu, g, point = places.log_nu, places.g, places.point
    for j in range(log_nu.size - 1, p, -1):
        log_nu[j] = log_nu[j - 1]
        for t in range(2):
            g[t, j] = g[t, j - 1]
    log_nu[p], log_nu[p + 1] = point[_TO], point[_FROM]
    g[0, p], g[1, p] = point[_G], point[_G + 1]


@implements_remove_point(GPPlaces)
def _remove_point(places, f):  # type: ignore[no-untyped-def]
    log_nu, g, K, last = places.log_nu, places.g, places.log_nu.size, places.last
    log_nu[f + 1] += log_nu[f]
    for j in range(f, K - 1):
        log_nu[j] = log_nu[j + 1]
        for t in range(2):
            g[t, j] = g[t, j + 1]
    log_nu[K - 1] = last[0]
    g[0, K - 1], g[1, K - 1] = last[1], last[2]
