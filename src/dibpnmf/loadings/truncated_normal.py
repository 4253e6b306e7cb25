"""Normal loadings cut at zero, with a mean and a precision for each side of each factor.

An exponential density says that a loading is most likely near zero. Where everyone uses a factor,
as in ratings, loadings gather about a value that the factor has to learn, and so do we: the
nonnegative counterpart of the hierarchical priors of Bayesian matrix factorization.
"""

from __future__ import annotations

import math
from typing import ClassVar, NamedTuple

import numpy as np

from dibpnmf._compile import kernel, part
from dibpnmf.loadings.base import SMALLEST, Floats, LoadingsPrior, Summary, log_height
from dibpnmf.random import Stream, gamma, normal
from dibpnmf.slice_sampling import implements_log_density, slice_sample

MEAN, PRECISION = range(2)
_RATE = 0.1  # of the exponential prior of a precision, in units of the mean of Y

_LOW, _HIGH = -300.0, 300.0  # of logs of precisions and scales


class MeanTarget(NamedTuple):
    """Density of μ given p and n loadings with their sum, Eq. (34)."""

    precision: float
    n: float
    total: float


class PrecisionTarget(NamedTuple):
    """Density of log p given μ and n loadings with their sum and sum of squares, Eq. (34)."""

    mean: float
    n: float
    total: float
    square: float


class ScaleTarget(NamedTuple):
    """Density of log c of (A_k, X_k) → (c A_k, X_k / c), Eq. (35)."""

    n: float  # entries that are on, rows less columns
    linear0: float
    square0: float
    linear1: float
    square1: float


@implements_log_density(MeanTarget)
def _log_mean_density(target, x):  # type: ignore[no-untyped-def]
    p = target.precision
    return p * x * target.total + target.n * log_height(-p * x, p) - 0.5 * x * x


@implements_log_density(PrecisionTarget)
def _log_precision_density(target, x):  # type: ignore[no-untyped-def]
    p = math.exp(x)
    data = p * (target.mean * target.total - 0.5 * target.square)
    return data + target.n * log_height(-p * target.mean, p) + x - _RATE * p


@implements_log_density(ScaleTarget)
def _log_scale_density(target, x):  # type: ignore[no-untyped-def]
    c = math.exp(x)
    own = target.linear0 * c - 0.5 * target.square0 * c * c
    other = target.linear1 / c - 0.5 * target.square1 / (c * c)
    return target.n * x + own + other


@kernel
def _from_prior(s: Stream, parameters: Floats, k: int) -> None:
    parameters[MEAN, k] = normal(s)
    parameters[PRECISION, k] = max(gamma(s, 1.0, _RATE), SMALLEST)


@part
def draw_parameters(
    s: Stream, parameters: Floats, k: int, n: float, total: float, square: float
) -> None:
    """Move μ and p of column k given its loadings, in place, Eq. (34)."""
    if n == 0.0:
        _from_prior(s, parameters, k)
        return
    mean, p = parameters[MEAN, k], parameters[PRECISION, k]
    width = 2.0 / math.sqrt(1.0 + n * p)
    mean = slice_sample(s, MeanTarget(p, n, total), mean, -1e6, 1e6, width)
    target = PrecisionTarget(mean, n, total, square)
    x = slice_sample(s, target, math.log(p), _LOW, _HIGH, 4.0 / math.sqrt(1.0 + n))
    parameters[MEAN, k], parameters[PRECISION, k] = mean, math.exp(x)


@part
def draw_scale(
    s: Stream, means: Floats, precisions: Floats, counts: Floats, sums: Floats, squares: Floats
) -> float:
    """Draw c of the move of one column's loadings, its parameters held, Eq. (35)."""
    if counts[0] == 0.0 or counts[1] == 0.0:
        return 1.0
    p0, p1 = precisions[0], precisions[1]
    target = ScaleTarget(
        counts[0] - counts[1], p0 * means[0] * sums[0], p0 * squares[0],
        p1 * means[1] * sums[1], p1 * squares[1],
    )  # fmt: skip
    width = 4.0 / math.sqrt(1.0 + counts[0] + counts[1])
    return math.exp(slice_sample(s, target, 0.0, _LOW, _HIGH, width))


@part
def draw_balance(s: Stream, means: Floats, precisions: Floats) -> float:
    """Draw c of the move of loadings and parameters together, in place for these, Eq. (36).

    (A_k, μ1, p1, X_k, μ2, p2) → (c A_k, c μ1, p1/c², X_k/c, μ2/c, p2 c²) leaves λ and the density
    of the loadings alone; only the parameters' own prior has a say.
    """
    target = ScaleTarget(0.0, 0.0, means[0] ** 2 + 2.0 * _RATE * precisions[1],
                         0.0, means[1] ** 2 + 2.0 * _RATE * precisions[0])  # fmt: skip
    c = math.exp(slice_sample(s, target, 0.0, _LOW, _HIGH, 1.0))
    means[0] *= c
    means[1] /= c
    precisions[0] = max(precisions[0] / (c * c), SMALLEST)
    precisions[1] = max(precisions[1] * (c * c), SMALLEST)
    return c


@kernel
def _move_each(
    s: Stream, parameters: Floats, counts: Floats, sums: Floats, squares: Floats, scales: Floats
) -> None:
    for k in range(scales.size):
        for t in range(2):
            draw_parameters(s, parameters[t], k, counts[t, k], sums[t, k], squares[t, k])
        means, precisions = parameters[:, MEAN, k], parameters[:, PRECISION, k]
        scales[k] = draw_scale(s, means, precisions, counts[:, k], sums[:, k], squares[:, k])
        scales[k] *= draw_balance(s, means, precisions)


@kernel
def _fill_slabs(parameters: Floats, slabs: Floats) -> None:
    for t in range(2):
        for k in range(slabs.shape[1]):
            p = parameters[t, PRECISION, k]
            slabs[t, k, 0] = -p * parameters[t, MEAN, k]
            slabs[t, k, 1] = p
            slabs[t, k, 2] = log_height(slabs[t, k, 0], p)


class TruncatedNormal(LoadingsPrior):
    """N(μ, 1/p) cut at zero, μ ~ N(0, 1), p ~ Exponential(0.1); parameters (2, 2, K)."""

    name: ClassVar[str] = "truncated-normal"
    by_column: ClassVar[bool] = True
    needs_gaussian: ClassVar[bool] = True

    def draw(self, s: Stream, K: int) -> Floats:
        """Draw means and precisions of K columns."""
        parameters = np.empty((2, 2, K))
        for t in range(2):
            for k in range(K):
                _from_prior(s, parameters[t], k)
        return parameters

    def log_density(self, parameters: Floats) -> float:
        """Log density −μ²/2 − p/10, over all of them."""
        means, precisions = parameters[:, MEAN], parameters[:, PRECISION]
        return -0.5 * float(np.sum(means**2)) - _RATE * float(np.sum(precisions))

    def slabs(self, parameters: Floats, K: int) -> Floats:
        """Slabs with r = −p μ."""
        slabs = np.empty((2, K, 3))
        _fill_slabs(parameters, slabs)
        return slabs

    def move(self, s: Stream, parameters: Floats, summary: Summary) -> Floats:
        """Draw means and precisions, then scale and balance every column."""
        scales = np.empty(parameters.shape[2])
        _move_each(s, parameters, summary.counts, summary.sums, summary.squares, scales)
        return scales
