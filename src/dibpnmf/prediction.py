"""What kept draws say about single cells: means, intervals, densities."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from dibpnmf._compile import kernel
from dibpnmf.likelihoods.base import Likelihood
from dibpnmf.posterior import CompactDraw

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

_TABLE = 2e7  # numbers in a table of draws × cells held at once
_DISTRIBUTION_DRAWS = 400  # draws a predictive distribution is mixed from, evenly spread


@kernel
def means_at(A: Floats, X: Floats, rows: Ints, columns: Ints, epsilon: float, out: Floats) -> None:
    """Fill ``out`` with λ = A Xᵀ + ε at single cells."""
    for j in range(rows.size):
        total = epsilon
        for k in range(A.shape[1]):
            a = A[rows[j], k]
            if a > 0.0:
                total += a * X[columns[j], k]
        out[j] = total


def mean_at(draws: Iterable[CompactDraw], rows: Ints, columns: Ints, epsilon: float) -> Floats:
    """Posterior mean of λ at single cells."""
    total = np.zeros(rows.size)
    one = np.empty(rows.size)
    n = 0
    for draw in draws:
        means_at(*draw.unpack(), rows, columns, epsilon, one)
        total += one
        n += 1
    return total / n


def mean_matrix(draws: Iterable[CompactDraw], epsilon: float) -> Floats:
    """Posterior mean of λ as a dense matrix."""
    total: Floats | None = None
    n = 0
    for draw in draws:
        A, X = draw.unpack()
        used = A.any(axis=0) & X.any(axis=0)
        part = A[:, used] @ X[:, used].T
        total = part if total is None else total + part
        n += 1
    assert total is not None
    return total / n + epsilon


def table_at(
    draws: Sequence[CompactDraw], rows: Ints, columns: Ints, epsilon: float
) -> Iterable[tuple[slice, Floats]]:
    """Yield λ of every draw (draw × cell), a slice of the cells at a time."""
    size = max(1, int(_TABLE / len(draws)))
    for start in range(0, rows.size, size):
        part = slice(start, min(start + size, rows.size))
        table = np.empty((len(draws), part.stop - part.start))
        for line, draw in zip(table, draws, strict=True):
            means_at(*draw.unpack(), rows[part], columns[part], epsilon, line)
        yield part, table


def log_predictive(likelihood: Likelihood, y: Floats, table: Floats) -> Floats:
    """Log of the predictive density of each y, averaged over the draws (axis 0) of λ.

    Here and below ``likelihood`` has the noise of the same draws.
    """
    log_p = likelihood.log_density(y, table)
    highest = log_p.max(axis=0)
    return highest + np.log(np.mean(np.exp(log_p - highest), axis=0))


def predictive_quantile(likelihood: Likelihood, table: Floats, q: float) -> Floats:
    """Quantile of the predictive distribution of each cell, by bisection on its mixture CDF.

    Never below zero, as no entry is.
    """
    low = np.zeros(table.shape[1])
    at_zero = likelihood.cdf(low, table).mean(axis=0) >= q
    high = table.max(axis=0)
    while True:
        short = likelihood.cdf(high, table).mean(axis=0) < q
        if not short.any():
            break
        high[short] *= 2.0
    for _ in range(40):
        middle = 0.5 * (low + high)
        below = likelihood.cdf(middle, table).mean(axis=0) < q
        low = np.where(below, middle, low)
        high = np.where(below, high, middle)
    return np.where(at_zero, 0.0, 0.5 * (low + high))


def quantiles_at(
    likelihood: Likelihood,
    draws: Sequence[CompactDraw],
    rows: Ints,
    columns: Ints,
    epsilon: float,
    probabilities: Sequence[float],
) -> Floats:
    """Quantiles of the predictive distribution of y at single cells, (probability, cell)."""
    out = np.empty((len(probabilities), rows.size))
    for part, table in table_at(draws, rows, columns, epsilon):
        for line, q in zip(out, probabilities, strict=True):
            line[part] = predictive_quantile(likelihood, table, q)
    return out


def level_probabilities_at(
    likelihood: Likelihood,
    draws: Sequence[CompactDraw],
    rows: Ints,
    columns: Ints,
    epsilon: float,
    levels: Floats,
) -> Floats:
    """Predictive probability that y is nearest to each level or a lower one, (level, cell)."""
    out = np.ones((levels.size, rows.size))
    halfway = 0.5 * (levels[1:] + levels[:-1])
    for part, table in table_at(draws, rows, columns, epsilon):
        for line, point in zip(out, halfway, strict=False):
            line[part] = likelihood.cdf(np.full(table.shape[1], point), table).mean(axis=0)
    return out


def level_mean(cumulative: Floats, levels: Floats) -> Floats:
    """Mean of a distribution on the levels, from its cumulative probabilities."""
    return levels[0] + np.diff(levels) @ (1.0 - cumulative[:-1])


def level_quantile(cumulative: Floats, levels: Floats, q: float) -> Floats:
    """Quantile of a distribution on the levels: always one of them."""
    return levels[np.argmax(cumulative >= q, axis=0)]


def spread_evenly(n: int, enough: int = _DISTRIBUTION_DRAWS) -> slice:
    """Draws that suffice for a distribution, out of n."""
    return slice(None, None, max(1, n // enough))
