"""What every likelihood offers: densities for people, kernel hooks for the row updates."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


class Likelihood(ABC):
    """Distribution of one entry y given its mean λ.

    The compiled row updates never see this object; they are resolved by the NamedTuple that
    `kernel` returns (see `dibpnmf.likelihoods.rows`).
    """

    name: ClassVar[str]

    @abstractmethod
    def kernel(self, epsilon: float) -> NamedTuple:
        """Parameters for the compiled row updates."""

    @abstractmethod
    def log_density(self, y: Floats, mean: Floats) -> Floats:
        """Log density of y given its mean, entry by entry."""

    @abstractmethod
    def cdf(self, y: Floats, mean: Floats) -> Floats:
        """Distribution function of y given its mean."""

    @abstractmethod
    def simulate(self, rng: np.random.Generator, mean: Floats) -> Floats:
        """Draw y given its mean."""
