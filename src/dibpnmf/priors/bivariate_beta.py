"""Bivariate beta prior: the two sides' sticks are positively correlated."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

from dibpnmf._compile import kernel
from dibpnmf.priors.base import Floats, start_value
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
from dibpnmf.random import Stream, log_gamma_draw
from dibpnmf.special import LogProduct, log1mexp, log_of, multiplied


class Theta(NamedTuple):
    """Parameters of the pair density: margins Beta(a, 1) and Beta(b, 1)."""

    a: float
    b: float


class Given(NamedTuple):
    """What a stick of a pair sees of θ and of the other stick."""

    own_shape: float
    other_shape: float
    other: float  # ν of the other side
    other_rest: float  # 1 − ν


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


@implements_take_notes(Theta)
def _take_notes(theta, side, log_nu, first, notes):  # type: ignore[no-untyped-def]
    """Note ν and 1 − ν of the other side; return the sum that its own shape multiplies."""
    total = 0.0
    for k in range(log_nu.shape[1]):
        log_other = log_nu[1 - side, k]
        notes[0, k] = math.exp(log_other)
        notes[1, k] = -math.expm1(log_other)
        total += math.log(notes[1, k])
        if k < first:
            total += log_nu[side, k] - log1mexp(log_other + log_nu[side, k])
    return total


@implements_given(Theta)
def _given(theta, side, notes, k):  # type: ignore[no-untyped-def]
    own, other = (theta.a, theta.b) if side == 0 else (theta.b, theta.a)
    return Given(own, other, notes[0, k], notes[1, k])


@implements_log_given(Given)
def bivariate_beta_log_given(given, given_next, log_x, rest, log_next):  # type: ignore[no-untyped-def]
    """Log density of Eq. (2) in two sticks of one side, at one logarithm a power."""
    a, b = given.own_shape, given.other_shape
    # 1 − ν¹ν² = (1 − ν²) + ν² (1 − ν¹), in which nothing cancels.
    neither = given.other_rest + given.other * rest
    if log_next < 0.0:
        rest_next = -math.expm1(log_next)
        rest *= rest_next
        neither *= given_next.other_rest + given_next.other * rest_next
    return a * (log_x + log_next) + b * math.log(rest) - (a + b + 1.0) * math.log(neither)


@implements_log_margin(Theta)
def _log_margin(theta, side, log_nu, first, notes, total, stretch, rests):  # type: ignore[no-untyped-def]
    """Eq. (13), with what the margin's shape multiplies added up beforehand; its ν^a stay."""
    own, other = (theta.a, theta.b) if side == 0 else (theta.b, theta.a)
    K = log_nu.shape[1]
    rest, neither = LogProduct(0.0, 1.0), LogProduct(0.0, 1.0)
    for k in range(first, K):
        rest = multiplied(rest, rests[k])
        neither = multiplied(neither, notes[1, k] + notes[0, k] * rests[k])
    value = own * total - K * log_normaliser(theta.a, theta.b)
    return value + other * log_of(rest) - (own + other + 1.0) * log_of(neither)


@implements_move_dependence(Theta)
def _move_dependence(kind, s, theta, log_nu, learned):  # type: ignore[no-untyped-def]
    """There is no parameter but the margins'."""


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

    def theta_tuple(self, theta: Floats) -> Theta:
        """Make the NamedTuple that `log_pair` is resolved by."""
        return Theta(*theta.tolist())
