"""Farlie-Gumbel-Morgenstern copula prior: weak correlation of either sign."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np

from dibpnmf._compile import kernel
from dibpnmf.priors.base import Floats, require_number, start_value
from dibpnmf.priors.pair_density import (
    implements_draw_pairs,
    implements_given,
    implements_log_given,
    implements_log_margin,
    implements_log_pair,
    implements_move_dependence,
    implements_take_notes,
    implements_theta_at,
    implements_with_margin,
)
from dibpnmf.priors.stick_pairs import PairedSticksPrior
from dibpnmf.random import Stream, uniform
from dibpnmf.slice_sampling import implements_log_density, slice_sample
from dibpnmf.special import LogProduct, log_of, multiplied


class Theta(NamedTuple):
    """Parameters of the pair density: margins Beta(α_t, 1), Spearman correlation ρ/3."""

    alpha1: float
    alpha2: float
    rho: float


class Given(NamedTuple):
    """What a stick of a pair sees of θ and of the other stick."""

    shape: float
    tilt: float  # ρ (2w − 1)


class CorrelationMove(NamedTuple):
    """Target of moving ρ, Eq. (15); ``weights`` holds (2u−1)(2w−1) of every pair."""

    weights: Floats


@kernel
def copula_weight(log_u: float, log_w: float) -> float:
    """Return (2u−1)(2w−1), the factor of ρ in the copula density, Eq. (3)."""
    return (2.0 * math.exp(log_u) - 1.0) * (2.0 * math.exp(log_w) - 1.0)


@implements_with_margin(Theta)
def _with_margin(theta, side, value):  # type: ignore[no-untyped-def]
    if side == 0:
        return Theta(value, theta.alpha2, theta.rho)
    return Theta(theta.alpha1, value, theta.rho)


@implements_log_pair(Theta)
def copula_log_pair(theta, log_x, log_y):  # type: ignore[no-untyped-def]
    """Log density of Eq. (3)-(4) in (log ν¹, log ν²)."""
    log_u = theta.alpha1 * log_x
    log_w = theta.alpha2 * log_y
    margins = math.log(theta.alpha1) + log_u + math.log(theta.alpha2) + log_w
    return margins + math.log1p(theta.rho * copula_weight(log_u, log_w))


@implements_take_notes(Theta)
def _take_notes(theta, side, log_nu, first, notes):  # type: ignore[no-untyped-def]
    """Note ρ (2w − 1) of the other side; return the sum of log ν before ``first``."""
    other = theta.alpha2 if side == 0 else theta.alpha1
    total = 0.0
    for k in range(log_nu.shape[1]):
        notes[0, k] = theta.rho * (2.0 * math.exp(other * log_nu[1 - side, k]) - 1.0)
        if k < first:
            total += log_nu[side, k]
    return total


@implements_given(Theta)
def _given(theta, side, notes, k):  # type: ignore[no-untyped-def]
    return Given(theta.alpha1 if side == 0 else theta.alpha2, notes[0, k])


@implements_log_given(Given)
def copula_log_given(given, given_next, log_x, rest, log_next):  # type: ignore[no-untyped-def]
    """Log density of Eq. (3)-(4) in two sticks of one side."""
    log_u = given.shape * log_x
    value = given.shape * (log_x + log_next)
    density = 1.0 + given.tilt * (2.0 * math.exp(log_u) - 1.0)
    if log_next < 0.0:
        density *= 1.0 + given_next.tilt * (2.0 * math.exp(given.shape * log_next) - 1.0)
    return value + math.log(density)


@implements_log_margin(Theta)
def _log_margin(theta, side, log_nu, first, notes, total, stretch, rests):  # type: ignore[no-untyped-def]
    """Eq. (14); the ν^α of stretched sticks stay."""
    alpha = theta.alpha1 if side == 0 else theta.alpha2
    density = LogProduct(0.0, 1.0)
    for k in range(log_nu.shape[1]):
        log_u = alpha * log_nu[side, k] * (stretch if k >= first else 1.0)
        density = multiplied(density, 1.0 + notes[0, k] * (2.0 * math.exp(log_u) - 1.0))
    return log_nu.shape[1] * math.log(alpha) + alpha * total + log_of(density)


@implements_log_density(CorrelationMove)
def _correlation_move_log_density(target, x):  # type: ignore[no-untyped-def]
    value = 0.0
    for k in range(target.weights.size):
        value += math.log1p(x * target.weights[k])
    return value


@implements_move_dependence(Theta)
def _move_dependence(kind, s, theta, log_nu, learned):  # type: ignore[no-untyped-def]
    """Move ρ by slice sampling given the sticks, Eq. (15), in place."""
    if learned[2]:
        weights = np.empty(log_nu.shape[1])
        for k in range(weights.size):
            weights[k] = copula_weight(theta[0] * log_nu[0, k], theta[1] * log_nu[1, k])
        theta[2] = slice_sample(s, CorrelationMove(weights), theta[2], -1.0, 1.0, math.inf)


@implements_draw_pairs(Theta)
def _draw_pairs(kind, s, theta, log_nu, start):  # type: ignore[no-untyped-def]
    """Draw pairs from Eq. (3)-(4): u uniform, then w from its conditional CDF, in place."""
    for k in range(start, log_nu.shape[1]):
        u = uniform(s)
        t = uniform(s)
        slope = theta[2] * (2.0 * u - 1.0)
        # The root of (1 − slope) w + slope w² = t that lies in (0, 1), without cancellation.
        w = 2.0 * t / (1.0 - slope + math.sqrt((1.0 - slope) ** 2 + 4.0 * slope * t))
        log_nu[0, k] = math.log(u) / theta[0]
        log_nu[1, k] = math.log(min(w, 1.0 - 2.0**-53)) / theta[1]


@implements_theta_at(Theta)
def _theta_at(kind, theta):  # type: ignore[no-untyped-def]
    return Theta(theta[0], theta[1], theta[2])


@dataclass(frozen=True)
class FGMCopula(PairedSticksPrior):
    """FGM copula prior: Spearman correlation of the two sides' sticks within ±1/3.

    Parameters
    ----------
    alpha1, alpha2 : float, optional
        Margins Beta(α, 1) of the rows' and of the columns' sticks: the expected number of
        factors of one row, of one column. None learns them.
    rho : float, optional
        Dependence in [−1, 1]; the Spearman correlation is ρ/3. None learns it (uniform).
    alpha1_shape, alpha1_rate, alpha2_shape, alpha2_rate : float
        Gamma hyper-priors of α1 and α2.
    """

    alpha1: float | None = None
    alpha2: float | None = None
    rho: float | None = None
    alpha1_shape: float = 1.0
    alpha1_rate: float = 1.0
    alpha2_shape: float = 1.0
    alpha2_rate: float = 1.0

    name: ClassVar[str] = "copula"
    theta_names: ClassVar[tuple[str, ...]] = ("alpha1", "alpha2", "rho")

    def _check_value(self, key: str, value: object) -> None:
        if key != "rho":
            super()._check_value(key, value)
            return
        require_number(key, value)
        if not -1.0 <= float(value) <= 1.0:  # type: ignore[arg-type]
            raise ValueError(f"prior_params['rho'] must lie in [-1, 1]; got {value!r}.")

    def _start_theta(self, s: Stream) -> list[float]:
        margins = zip(self._fixed_theta()[:2], self._hyper(), strict=True)
        rho = self.rho if self.rho is not None else 2.0 * uniform(s) - 1.0
        return [*(start_value(s, *row) for row in margins), rho]

    def _fixed_theta(self) -> list[float | None]:
        return [self.alpha1, self.alpha2, self.rho]

    def _hyper(self) -> list[list[float]]:
        return [[self.alpha1_shape, self.alpha1_rate], [self.alpha2_shape, self.alpha2_rate]]

    def theta_tuple(self, theta: Floats) -> Theta:
        """Make the NamedTuple that `log_pair` is resolved by."""
        return Theta(*theta.tolist())

    def _theta_log_density(self, theta: Floats) -> float:
        uniform_on_two = 0.0 if self.rho is not None else -math.log(2.0)
        return super()._theta_log_density(theta) + uniform_on_two
