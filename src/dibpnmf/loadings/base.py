"""What every prior of loadings offers: parameters, and for each column a slab.

The slab of a column is the density of a loading that is on,

    f(v) = h exp(−r v − p v²/2)  on v > 0,    1/h = ∫ exp(−r v − p v²/2) dv,    Eq. (33)

an exponential distribution where p = 0 and a normal one cut at zero otherwise. The compiled
updates see slabs only, as a line (r, p, log h) for each column.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from typing import ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dibpnmf._compile import part
from dibpnmf.random import Stream, exponential, positive_normal
from dibpnmf.special import log_positive_mass

Floats = NDArray[np.float64]

SMALLEST = 1e-300


class Slab(NamedTuple):
    """Density of one column's loadings, Eq. (33)."""

    rate: float
    curve: float
    log_height: float


@part
def slab_of(slabs: Floats, k: int) -> Slab:
    """Read the slab of column k."""
    return Slab(slabs[k, 0], slabs[k, 1], slabs[k, 2])


@part
def draw_from_slab(s: Stream, slab: Slab) -> float:
    """Draw a loading from its prior."""
    if slab.curve == 0.0:
        return exponential(s) / slab.rate
    root = math.sqrt(slab.curve)
    return max(positive_normal(s, -slab.rate / root) / root, SMALLEST)


@part
def log_height(rate: float, curve: float) -> float:
    """Log of h, one over the integral of exp(−r v − p v²/2)."""
    if curve == 0.0:
        return math.log(rate)
    root = math.sqrt(curve)
    return math.log(root) - log_positive_mass(-rate / root)


class Summary(NamedTuple):
    """What the moves of columns need to know of the loadings, each (2, K): side and column."""

    counts: Floats  # of the entries that are on
    sums: Floats
    squares: Floats


class LoadingsPrior(ABC):
    """Distribution of the loadings that are on, with parameters that are learned.

    Parameters are one array; how it is laid out is the prior's own affair, but for its last axis
    being the column where ``by_column``.
    """

    name: ClassVar[str]
    by_column: ClassVar[bool]
    needs_gaussian: ClassVar[bool] = False  # whether slabs may have p > 0

    @abstractmethod
    def draw(self, s: Stream, K: int) -> Floats:
        """Draw the parameters of K columns."""

    @abstractmethod
    def log_density(self, parameters: Floats) -> float:
        """Log density of the parameters, up to a constant."""

    @abstractmethod
    def slabs(self, parameters: Floats, K: int) -> Floats:
        """Slabs of both sides, (2, K, 3)."""

    @abstractmethod
    def move(self, s: Stream, parameters: Floats, summary: Summary) -> Floats:
        """Draw the parameters, in place, and the columns' scales.

        Returns c, one number a column, of the move (A_k, X_k) → (c_k A_k, X_k / c_k), which
        leaves λ alone. What the move does to the parameters is done.
        """

    def grow(self, s: Stream, parameters: Floats, K: int) -> Floats:
        """Append columns with parameters from the prior until there are K."""
        if not self.by_column:
            return parameters
        return np.concatenate([parameters, self.draw(s, K - parameters.shape[-1])], axis=-1)

    def take(self, parameters: Floats, columns: NDArray[np.int64]) -> Floats:
        """Parameters of some columns, in this order."""
        return parameters[..., columns] if self.by_column else parameters

    def scalars(self, parameters: Floats) -> dict[str, Floats]:
        """Label-free scalars by name, from parameters with leading axes."""
        return {}
