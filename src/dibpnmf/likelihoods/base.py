"""What every likelihood offers: densities for people, kernel hooks for the row updates."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from functools import singledispatch
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from dibpnmf.random import Stream

Floats = NDArray[np.float64]

_BLOCK = 2**16  # entries that are squared at once


class Likelihood(ABC):
    """Distribution of one entry y given its mean λ, both in units of the mean of Y.

    The compiled row updates never see this object; they are resolved by the NamedTuple that
    `kernel` returns (see `dibpnmf.likelihoods.rows`). A likelihood may have parameters of its
    own, the noise, that are learned with everything else: a State holds their values, `at`
    gives the likelihood with them.
    """

    name: ClassVar[str]
    noise_names: ClassVar[tuple[str, ...]] = ()
    # Whether the priors learn from a start before the first sweep, so that it keeps its factors.
    keeps_its_start: ClassVar[bool] = True

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

    def in_units_of(self, scale: float) -> Self:
        """Return the likelihood for data that were divided by ``scale``."""
        return self

    def trusts_pilot(self, zeros: float) -> bool:
        """Whether a pilot chain finds the background rate, given the share of exact zeros."""
        return True

    def log_unit(self, scale: float) -> float:
        """What the log density of an entry of Y is less than that of y = Y / scale."""
        return math.log(scale)

    def at(self, noise: Floats) -> Self:
        """Return the likelihood with this noise; its last axis holds the parameters.

        Given several draws of the noise, one a row, entries are expected as (draw, entry).
        """
        return self

    def draw_noise(self, s: Stream) -> Floats:
        """Draw the noise from its prior."""
        return np.empty(0)

    def log_noise_density(self, noise: Floats) -> float:
        """Log prior density of the noise."""
        return 0.0

    def possible(self, Y: Floats) -> Floats:
        """Move values that were found by bisection to the nearest that can occur."""
        return Y

    def refuse(self, Y: Floats) -> None:  # noqa: B027 - most take any entry
        """Raise a ValueError if these entries, in their own units, cannot come from here."""

    def doubts(self, moments: Moments) -> Iterator[str]:
        """Yield a sentence for each way in which the data plainly contradict the likelihood."""
        yield from ()


@singledispatch
def kernel_at(kernel: Any, noise: Floats) -> Any:
    """Return the parameters of the compiled updates with this noise: most have none."""
    return kernel


@singledispatch
def draw_noise(kernel: Any, s: Stream, n_observed: int, log_likelihood: float) -> Floats:
    """Draw the noise given λ, through the log likelihood at the kernel's present noise."""
    return np.empty(0)


class Moments(NamedTuple):
    """What a likelihood is doubted by: moments of the observed entries, in their own units."""

    n_observed: int
    mean: float
    relative_variance: float  # over the mean's square
    zeros: float  # their share
    are_whole: bool

    @classmethod
    def of(cls, blocks: Iterable[Floats], n_observed: int, mean: float) -> Moments:
        """Summarise stored entries of this mean; the others, up to ``n_observed``, are zeros."""
        parts = np.array([moment_sums(Y, mean) for Y in blocks])
        return cls.from_sums(parts, n_observed, mean)

    @classmethod
    def from_sums(cls, parts: Floats, n_observed: int, mean: float) -> Moments:
        """Put the `moment_sums` of parts of the entries, one a line, together."""
        stored, zeros, squares, fractional = parts.sum(axis=0).tolist()
        absent = n_observed - stored
        return cls(
            n_observed, mean if stored > zeros else 0.0,
            (squares + absent) / n_observed if stored > zeros else math.inf,
            (absent + zeros) / n_observed, fractional == 0,
        )  # fmt: skip


def moment_sums(Y: Floats, mean: float) -> tuple[float, float, float, float]:
    """Number of entries, of zeros, sum of squared relative deviations, number of fractions."""
    flat = Y.ravel()
    zeros = squares = fractional = 0.0
    for at in range(0, flat.size, _BLOCK):  # Y may be large
        block = flat[at : at + _BLOCK]
        zeros += block.size - np.count_nonzero(block)
        fractional += np.count_nonzero(np.rint(block) != block)
        # Divided first: squares of the entries may be beyond floats.
        squares += float(np.sum((block / mean - 1.0) ** 2))
    return Y.size, zeros, squares, fractional
