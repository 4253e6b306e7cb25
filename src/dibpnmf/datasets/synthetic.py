"""Matrices made here: the paper's random 0/1 matrix, and one with planted factors."""

from __future__ import annotations

from collections.abc import Callable
from math import inf
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import Bunch

from dibpnmf._validation import one_of, real_number, whole_number

__all__ = ["make_binary", "make_planted"]

FloatArray: TypeAlias = NDArray[np.float64]
RandomState: TypeAlias = int | np.random.Generator | None

# A loading is LOADING_FLOOR plus a gamma variable of shape LOADING_SHAPE, with mean 1: large
# enough everywhere that a planted entry differs from an absent one.
LOADING_FLOOR = 0.25
LOADING_SHAPE = 4.0
GAUSSIAN_SD = 0.1

# Open bounds that let zero and one in.
_BELOW_ZERO, _ABOVE_ONE = np.nextafter(0.0, -1.0), np.nextafter(1.0, 2.0)

_NOISE: dict[str, Callable[[np.random.Generator, FloatArray], FloatArray]] = {
    "exponential": lambda rng, mean: rng.exponential(mean),
    "gaussian": lambda rng, mean: np.maximum(rng.normal(mean, GAUSSIAN_SD), 0.0),
    "poisson": lambda rng, mean: rng.poisson(mean).astype(np.float64),
    "none": lambda rng, mean: mean.copy(),
}


def make_binary(
    n_rows: int = 20, n_columns: int = 30, *, p: float = 0.5, random_state: RandomState = None
) -> FloatArray:
    """Draw the paper's synthetic data: a matrix of independent zeros and ones.

    Parameters
    ----------
    n_rows, n_columns : int, default=20, 30
        Size of the matrix.
    p : float, default=0.5
        Probability of a one.
    random_state : int, numpy.random.Generator or None, default=None
        Seed of the draw.

    Returns
    -------
    ndarray of shape (n_rows, n_columns)
        Zeros and ones, as floats.
    """
    _check_sizes(n_rows=n_rows, n_columns=n_columns)
    real_number("p", p, _BELOW_ZERO, _ABOVE_ONE, "a probability in [0, 1]")
    rng = np.random.default_rng(random_state)
    return (rng.random((n_rows, n_columns)) < p).astype(np.float64)


def make_planted(
    n_rows: int = 100,
    n_columns: int = 80,
    n_factors: int = 5,
    density: float = 0.3,
    *,
    noise: str = "exponential",
    background: float = 0.05,
    random_state: RandomState = None,
) -> Bunch:
    """Draw a matrix with known sparse factors, λ = A Xᵀ + background.

    Each entry of A and X is present with probability `density`; every factor is present in at
    least one row and one column. A loading that is present is 0.25 plus a gamma variable of
    shape 4, with mean 1: never close to 0.

    Parameters
    ----------
    n_rows, n_columns, n_factors : int, default=100, 80, 5
        The sizes M, N and K.
    density : float, default=0.3
        Probability that an entry of A or X is present, in (0, 1].
    noise : {"exponential", "gaussian", "poisson", "none"}, default="exponential"
        How the data scatter about λ. Gaussian noise has standard deviation 0.1, and what
        falls below zero is set to zero.
    background : float, default=0.05
        What is added to every cell of A Xᵀ: the mean where no factor is present.
    random_state : int, numpy.random.Generator or None, default=None
        Seed of the draw.

    Returns
    -------
    sklearn.utils.Bunch
        ``data`` (M×N), the true factors ``A`` (M×K) and ``X`` (N×K), and ``mean``, which is λ.
    """
    _check_sizes(n_rows=n_rows, n_columns=n_columns, n_factors=n_factors)
    real_number("density", density, 0.0, _ABOVE_ONE, "a probability in (0, 1]")
    real_number("background", background, _BELOW_ZERO, inf, "a finite number >= 0")
    one_of("noise", noise, _NOISE)
    rng = np.random.default_rng(random_state)
    A = _planted_factors(rng, n_rows, n_factors, density)
    X = _planted_factors(rng, n_columns, n_factors, density)
    mean = A @ X.T + background
    return Bunch(data=_NOISE[noise](rng, mean), A=A, X=X, mean=mean)


def _planted_factors(
    rng: np.random.Generator, size: int, n_factors: int, density: float
) -> FloatArray:
    """One side's factors, with at least one entry in every column."""
    present = rng.random((size, n_factors)) < density
    chosen = rng.integers(size, size=n_factors)
    empty = np.flatnonzero(~present.any(axis=0))
    present[chosen[empty], empty] = True
    scale = (1 - LOADING_FLOOR) / LOADING_SHAPE
    loadings = LOADING_FLOOR + rng.gamma(LOADING_SHAPE, scale, size=present.shape)
    return np.where(present, loadings, 0.0)


def _check_sizes(**sizes: Any) -> None:
    """Refuse sizes that are not integers from 1 up."""
    for name, size in sizes.items():
        whole_number(name, size, 1)
