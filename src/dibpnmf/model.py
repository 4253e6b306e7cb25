"""The generative model: prior × loadings × likelihood, simulated forwards and as a density."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dibpnmf._compile import kernel
from dibpnmf.likelihoods.base import Likelihood
from dibpnmf.loadings.base import LoadingsPrior, draw_from_slab, slab_of
from dibpnmf.loadings.exponential import Shared
from dibpnmf.observations import Observations
from dibpnmf.priors.base import Prior
from dibpnmf.random import Stream, uniform

Floats = NDArray[np.float64]


class Draw(NamedTuple):
    """One draw of everything unknown: A = V1∘Z1, X = V2∘Z2, and the parameters of all priors."""

    loadings: tuple[Floats, Floats]
    prior: Any
    tau: Floats  # of the loadings' prior
    noise: Floats


@kernel
def draw_loadings(s: Stream, log_odds: Floats, slabs: Floats, A: Floats) -> None:
    """Draw masks from their odds and loadings from their slabs, in place."""
    for i in range(A.shape[0]):
        for k in range(A.shape[1]):
            u = uniform(s)
            on = np.log(u) - np.log1p(-u) < log_odds[k]
            A[i, k] = draw_from_slab(s, slab_of(slabs, k)) if on else 0.0


@dataclass(frozen=True)
class Model:
    """Y ≈ (V1∘Z1)(V2∘Z2)ᵀ + ε with a dependent IBP prior on the masks."""

    prior: Prior[Any]
    likelihood: Likelihood
    epsilon: float
    loadings: LoadingsPrior = field(default_factory=Shared)

    def simulate(self, s: Stream, shape: tuple[int, int], K: int) -> Draw:
        """Draw sticks, θ, τ, noise, masks and loadings from the prior."""
        prior = self.prior.init(s, K)
        tau = self.loadings.draw(s, K)
        slabs = self.loadings.slabs(tau, K)
        noise = self.likelihood.draw_noise(s)
        loadings = (np.empty((shape[0], K)), np.empty((shape[1], K)))
        log_odds = self.prior.log_odds(prior)
        for t in range(2):
            draw_loadings(s, log_odds[t], slabs[t], loadings[t])
        return Draw(loadings, prior, tau, noise)

    def mean(self, loadings: tuple[Floats, Floats]) -> Floats:
        """Mean λ = A Xᵀ + ε of every cell."""
        return loadings[0] @ loadings[1].T + self.epsilon

    def log_joint(self, draw: Draw, observations: Observations) -> float:
        """Log density of data and all unknowns, with off loadings summed out."""
        value = self.prior.log_density(draw.prior) + self.loadings.log_density(draw.tau)
        value += self.likelihood.log_noise_density(draw.noise)
        log_odds = self.prior.log_odds(draw.prior)
        slabs = self.loadings.slabs(draw.tau, log_odds.shape[1])
        for t in range(2):
            on = draw.loadings[t] > 0.0
            # log π = −log(1 + e^−odds), log(1−π) = −log(1 + e^odds), also for extreme odds
            value -= float(np.sum(np.where(on, np.logaddexp(0.0, -log_odds[t]), 0.0)))
            value -= float(np.sum(np.where(on, 0.0, np.logaddexp(0.0, log_odds[t]))))
            rate, curve, log_height = slabs[t].T
            v = draw.loadings[t]
            value += float(np.sum(on * log_height - v * (rate + 0.5 * curve * v)))
        return value + self.log_likelihood(draw.loadings, draw.noise, observations)

    def log_likelihood(
        self, loadings: tuple[Floats, Floats], noise: Floats, observations: Observations
    ) -> float:
        """Log likelihood of the observed cells, in scaled units."""
        A, X = loadings
        likelihood = self.likelihood.at(noise)
        cells = observations.side(0)
        total = 0.0
        for i in range(observations.shape[0]):
            part = slice(cells.indptr[i], cells.indptr[i + 1])
            columns, y = cells.indices[part], cells.values[part]
            if observations.is_complete:
                dense = np.zeros(observations.shape[1])
                dense[columns] = y
                y, other = dense, X
            else:
                other = X[columns]
            total += float(np.sum(likelihood.log_density(y, other @ A[i] + self.epsilon)))
        return total
