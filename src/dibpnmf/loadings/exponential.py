"""Exponential loadings: one rate τ for a side, as in the paper, or one for each factor."""

from __future__ import annotations

import math
from typing import ClassVar

import numpy as np

from dibpnmf._compile import kernel, part
from dibpnmf.loadings.base import SMALLEST, Floats, LoadingsPrior, Summary
from dibpnmf.random import Stream, gamma, log_gig_draw


@kernel
def draw_rate(s: Stream, n: float, total: float) -> float:
    """Draw τ ~ Gamma(1 + n, rate 1 + total) given n exponential loadings, Eq. (22)."""
    return max(gamma(s, 1.0 + n, 1.0 + total), SMALLEST)


@part
def draw_scale(s: Stream, tau: Floats, counts: Floats, sums: Floats) -> float:
    """Draw c of the move (A_k, X_k) → (c A_k, X_k / c), which leaves λ alone, Eq. (23)."""
    if counts[0] == 0.0 or counts[1] == 0.0:
        return 1.0
    p = counts[0] - counts[1]
    return math.exp(log_gig_draw(s, p, 2.0 * tau[0] * sums[0], 2.0 * tau[1] * sums[1]))


@part
def draw_scales(s: Stream, tau: Floats, counts: Floats, sums: Floats, scales: Floats) -> None:
    """Draw c_k of every column, whose rates are columns of ``tau``, or a single one."""
    for k in range(scales.size):
        at = k if tau.shape[1] > 1 else 0
        scales[k] = draw_scale(s, tau[:, at], counts[:, k], sums[:, k])


@part
def draw_balance(s: Stream, tau: Floats) -> float:
    """Draw c of the move (A, X, τ1, τ2) → (cA, X/c, τ1/c, τ2 c), in place for τ, Eq. (25).

    It leaves λ and the density of the loadings alone; without it τ creeps.
    """
    c = math.exp(log_gig_draw(s, 0.0, 2.0 * tau[1], 2.0 * tau[0]))
    tau[0] /= c
    tau[1] *= c
    return c


def _slabs(rates: Floats, K: int) -> Floats:
    slabs = np.zeros((2, K, 3))
    slabs[..., 0] = rates
    slabs[..., 2] = np.log(rates)
    return slabs


@kernel
def _move_shared(s: Stream, tau: Floats, counts: Floats, sums: Floats, scales: Floats) -> None:
    for t in range(2):
        n = 0.0
        total = 0.0
        for k in range(scales.size):
            n += counts[t, k]
            total += sums[t, k]
        tau[t] = draw_rate(s, n, total)
    draw_scales(s, tau.reshape(2, 1), counts, sums, scales)
    c = draw_balance(s, tau)
    for k in range(scales.size):
        scales[k] *= c


class Shared(LoadingsPrior):
    """One rate τ ~ Gamma(1, 1) for each side; parameters (2,)."""

    name: ClassVar[str] = "shared"
    by_column: ClassVar[bool] = False

    def draw(self, s: Stream, K: int) -> Floats:
        """Draw both rates."""
        return np.array([max(gamma(s, 1.0, 1.0), SMALLEST) for _ in range(2)])

    def log_density(self, parameters: Floats) -> float:
        """Log density −τ1 − τ2."""
        return -float(parameters.sum())

    def slabs(self, parameters: Floats, K: int) -> Floats:
        """Exponential slabs, the same in every column."""
        return _slabs(parameters[:, None], K)

    def move(self, s: Stream, parameters: Floats, summary: Summary) -> Floats:
        """Draw the rates, then scale every column, then balance the sides."""
        scales = np.empty(summary.counts.shape[1])
        _move_shared(s, parameters, summary.counts, summary.sums, scales)
        return scales

    def scalars(self, parameters: Floats) -> dict[str, Floats]:
        """Both rates."""
        return {"tau_rows": parameters[..., 0], "tau_columns": parameters[..., 1]}


@kernel
def _move_each(s: Stream, tau: Floats, counts: Floats, sums: Floats, scales: Floats) -> None:
    for k in range(scales.size):
        for t in range(2):
            tau[t, k] = draw_rate(s, counts[t, k], sums[t, k])
    draw_scales(s, tau, counts, sums, scales)
    for k in range(scales.size):
        scales[k] *= draw_balance(s, tau[:, k])


class PerFactor(LoadingsPrior):
    """A rate τ ~ Gamma(1, 1) for each side of each factor; parameters (2, K)."""

    name: ClassVar[str] = "per-factor"
    by_column: ClassVar[bool] = True

    def draw(self, s: Stream, K: int) -> Floats:
        """Draw the rates of K columns."""
        return np.array([[max(gamma(s, 1.0, 1.0), SMALLEST) for _ in range(K)] for _ in range(2)])

    def log_density(self, parameters: Floats) -> float:
        """Log density −Σ τ."""
        return -float(parameters.sum())

    def slabs(self, parameters: Floats, K: int) -> Floats:
        """Exponential slabs."""
        return _slabs(parameters, K)

    def move(self, s: Stream, parameters: Floats, summary: Summary) -> Floats:
        """Draw the rates, then scale and balance every column."""
        scales = np.empty(parameters.shape[1])
        _move_each(s, parameters, summary.counts, summary.sums, scales)
        return scales
