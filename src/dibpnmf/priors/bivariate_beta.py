"""Bivariate beta prior: the two sides' sticks are positively correlated."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np

from dibpnmf._compile import kernel
from dibpnmf.priors.base import Floats, start_value
from dibpnmf.priors.stick_pairs import (
    PairedSticksPrior,
    implements_draw_pairs,
    implements_log_pair,
    implements_move_theta,
    implements_theta_at,
    implements_with_margin,
)
from dibpnmf.random import Stream, log_gamma_draw
from dibpnmf.slice_sampling import implements_log_density, slice_sample
from dibpnmf.special import log1mexp


class Theta(NamedTuple):
    """Parameters of the pair density: margins Beta(a, 1) and Beta(b, 1)."""

    a: float
    b: float


class ShapeMove(NamedTuple):
    """Target of moving log a (or, with the sides exchanged, log b), Eq. (13).

    The sums over sticks are the only part of the data that it sees.
    """

    K: float
    other: float
    sum_log_own: float
    sum_log_rest: float
    prior_shape: float
    prior_rate: float


@kernel
def log_normaliser(a: float, b: float) -> float:
    """Log B(a, b, 1) = log Γ(a) Γ(b) / Γ(a+b+1)."""
    return math.lgamma(a) + math.lgamma(b) - math.lgamma(a + b + 1.0)


@implements_with_margin(Theta)
def _with_margin(theta, side, value):  # type: ignore[no-untyped-def]
    return Theta(value, theta.b) if side == 0 else Theta(theta.a, value)


@implements_log_pair(Theta)
def bivariate_beta_log_pair(theta, log_x, log_y):  # type: ignore[no-untyped-def]
    """Log density of Eq. (2) with c = 1, in (log ν¹, log ν²)."""
    a, b = theta.a, theta.b
    return (
        a * (log_x + log1mexp(log_y))
        + b * (log_y + log1mexp(log_x))
        - (a + b + 1.0) * log1mexp(log_x + log_y)
        - log_normaliser(a, b)
    )


@implements_log_density(ShapeMove)
def _shape_move_log_density(target, x):  # type: ignore[no-untyped-def]
    a = math.exp(x)
    return (
        target.prior_shape * x  # hyper-prior and the Jacobian of log a
        - target.prior_rate * a
        + a * (target.sum_log_own - target.sum_log_rest)
        - target.K * log_normaliser(a, target.other)
    )


@implements_move_theta(Theta)
def update_shapes(kind, s, state, learned, hyper):  # type: ignore[no-untyped-def]
    """Move a and b by slice sampling given the sticks, Eq. (13), in place."""
    log_nu, theta = state.log_nu, state.theta
    K = log_nu.shape[1]
    sum_rest = 0.0
    sum_own = np.zeros(2)
    for k in range(K):
        sum_rest += log1mexp(log_nu[0, k] + log_nu[1, k])
        sum_own[0] += log_nu[0, k] + log1mexp(log_nu[1, k])
        sum_own[1] += log_nu[1, k] + log1mexp(log_nu[0, k])
    for t in range(2):
        if learned[t]:
            target = ShapeMove(
                float(K), theta[1 - t], sum_own[t], sum_rest, hyper[t, 0], hyper[t, 1]
            )
            x = slice_sample(s, target, math.log(theta[t]), -700.0, 700.0, 1.0)
            theta[t] = math.exp(x)


@implements_draw_pairs(Theta)
def _draw_pairs(kind, s, theta, log_nu, start):  # type: ignore[no-untyped-def]
    """Draw pairs from Eq. (2): ν¹ = U/(U+W), ν² = V/(V+W) of gammas a, b, 1, in place."""
    for k in range(start, log_nu.shape[1]):
        log_w = log_gamma_draw(s, 1.0)
        for t in range(2):
            d = log_w - log_gamma_draw(s, theta[t])
            # −log(1 + e^d), without overflow and never exactly 0.
            log_nu[t, k] = -math.log1p(math.exp(d)) if d < 0.0 else -d - math.log1p(math.exp(-d))


@implements_theta_at(Theta)
def _theta_at(kind, theta):  # type: ignore[no-untyped-def]
    return Theta(theta[0], theta[1])


@dataclass(frozen=True)
class BivariateBeta(PairedSticksPrior):
    """Bivariate beta prior (Olkin and Liu, 2003), positively correlated sticks.

    Parameters
    ----------
    a, b : float, optional
        Margins Beta(a, 1) of the rows' and Beta(b, 1) of the columns' sticks: the expected
        number of factors of one row, of one column. None learns them.
    a_shape, a_rate, b_shape, b_rate : float
        Gamma hyper-priors of a and b.
    """

    a: float | None = None
    b: float | None = None
    a_shape: float = 1.0
    a_rate: float = 1.0
    b_shape: float = 1.0
    b_rate: float = 1.0

    name: ClassVar[str] = "bivariate-beta"
    theta_names: ClassVar[tuple[str, ...]] = ("a", "b")

    def _start_theta(self, s: Stream) -> list[float]:
        return [
            start_value(s, *row) for row in zip(self._fixed_theta(), self._hyper(), strict=True)
        ]

    def _fixed_theta(self) -> list[float | None]:
        return [self.a, self.b]

    def _hyper(self) -> list[list[float]]:
        return [[self.a_shape, self.a_rate], [self.b_shape, self.b_rate]]

    def _theta_tuple(self, theta: Floats) -> Theta:
        return Theta(*theta.tolist())
