"""Gaussian process prior (Williamson et al., 2010): one set of sticks, correlated thresholds."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from dibpnmf.priors.base import Floats, Ints, Prior, positive_log_density, start_value
from dibpnmf.priors.gp_literal import update_literal
from dibpnmf.priors.gp_moves import exchange, update
from dibpnmf.priors.gp_state import (
    GPState,
    Noise,
    correlation,
    extend,
    log_normal_pair,
    log_odds_of_state,
)
from dibpnmf.random import Stream


@dataclass(frozen=True)
class GaussianProcess(Prior[GPState]):
    """Gaussian process prior: both sides share their sticks and differ by thresholds.

    Parameters
    ----------
    alpha : float, optional
        Margin Beta(α, 1) of the sticks: the expected number of factors of one row and of one
        column. None learns it.
    s : float, optional
        Length scale: the two sides' thresholds correlate by exp(−1/s²). None learns it.
    sigma, eta : float
        Standard deviation of thresholds across columns, and of entries within a column.
    alpha_shape, alpha_rate, s_shape, s_rate : float
        Gamma hyper-priors of α and s.
    """

    alpha: float | None = None
    s: float | None = None
    sigma: float = 1.0
    eta: float = 1.0
    alpha_shape: float = 1.0
    alpha_rate: float = 1.0
    s_shape: float = 1.0
    s_rate: float = 1.0

    name: ClassVar[str] = "gaussian-process"
    theta_names: ClassVar[tuple[str, ...]] = ("alpha", "s")

    @property
    def noise(self) -> Noise:
        """Fixed scales."""
        return Noise(self.sigma, self.eta)

    def _fixed_theta(self) -> list[float | None]:
        return [self.alpha, self.s]

    def _hyper(self) -> list[list[float]]:
        return [[self.alpha_shape, self.alpha_rate], [self.s_shape, self.s_rate]]

    def init(self, s: Stream, K: int) -> GPState:
        """Draw θ, sticks and thresholds from the prior."""
        rows = zip(self._fixed_theta(), self._hyper(), strict=True)
        theta = np.array([start_value(s, *row) for row in rows])
        empty = GPState(np.empty(0), np.empty((2, 0)), theta, np.empty((2, 0)))
        return self.grow(s, empty, K)

    def grow(self, s: Stream, state: GPState, K: int) -> GPState:
        """Append sticks and thresholds drawn from the prior until there are K."""
        start = state.log_nu.size
        new = GPState(np.empty(K), np.empty((2, K)), state.theta.copy(), np.zeros((2, K)))
        new.log_nu[:start] = state.log_nu
        new.g[:, :start] = state.g
        new.h_sum[:, :start] = state.h_sum
        extend(s, self.noise, new, start)
        return new

    def log_odds(self, state: GPState) -> Floats:
        """Log odds of a mask entry: π = γ."""
        return log_odds_of_state(self.noise, state.log_nu, state.g)

    def update(self, s: Stream, state: GPState, counts: Floats, sizes: Floats) -> GPState:
        """Move thresholds, s, α and sticks with h summed out."""
        return self._run(update, s, state, counts, sizes)

    def exchange(self, s: Stream, state: GPState, counts: Floats, order: Ints) -> None:
        """Exchange columns together with their thresholds' distance from g."""
        exchange(s, self.noise, state, counts, order)

    def update_literal(self, s: Stream, state: GPState, counts: Floats, sizes: Floats) -> GPState:
        """Algorithm 1: h, g, s, α, then Metropolis-Hastings for μ."""
        return self._run(update_literal, s, state, counts, sizes)

    def _run(self, kernel, s, state, counts, sizes) -> GPState:  # type: ignore[no-untyped-def]
        new = GPState(*(field.copy() for field in state))
        kernel(s, self.noise, new, counts, sizes, self._learned, self._hypers)
        return new

    def log_density(self, state: GPState) -> float:
        """Log density of θ, of the sticks as log ν, and of the thresholds."""
        rows = zip(state.theta.tolist(), self._fixed_theta(), self._hyper(), strict=True)
        value = sum(positive_log_density(x, fixed, *hyper) for x, fixed, hyper in rows)
        alpha, s = state.theta
        value += state.log_nu.size * math.log(alpha) + alpha * float(np.sum(state.log_nu))
        r, one_minus_r2 = correlation(s)
        for x, y in state.g.T:
            value += log_normal_pair(x, y, self.sigma, r, one_minus_r2)
        return value
