"""Rows that exchange factors: that they leave the posterior as it is, and that they do it."""

from __future__ import annotations

import math

import numpy as np
import pytest
from numba import njit
from scipy import stats

from dibpnmf.inference.factors import MISSING, exchange_factors
from dibpnmf.likelihoods import Exponential
from dibpnmf.loadings.base import slab_of
from dibpnmf.random import START, Stream, stream

from .compiled import draw_free, log_likelihood

P_VALUE = 1e-6
BATCHES = 64
N_FUNCTIONS = 14
K = 4
# Columns that differ in odds and rates, so that none of these can be forgotten.
LOG_ODDS = np.array([[0.8, -0.2, 0.3, -0.9], [0.1, 0.6, -0.4, 0.9]])
RATES = np.array([[1.0, 1.4, 0.7, 2.0], [1.5, 0.8, 1.0, 1.2]])


@njit(error_model="numpy")
def _draw(s: Stream, A, log_odds, slabs):  # type: ignore[no-untyped-def]
    """Draw loadings from their prior."""
    for i in range(A.shape[0]):
        for k in range(A.shape[1]):
            A[i, k] = draw_free(s, log_odds[k], slab_of(slabs, k))


@njit(error_model="numpy")
def _functions(A, X, sign, out):  # type: ignore[no-untyped-def]
    """Add test functions of the loadings to ``out``, with this weight."""
    for k in range(A.shape[1]):
        rows, cells = 0, 0
        for i in range(A.shape[0]):
            rows += A[i, k] > 0.0
            out[k] += sign * (A[i, k] > 0.0)
            out[4 + k] += sign * math.exp(-A[i, k])
        for n in range(X.shape[0]):
            cells += X[n, k] > 0.0
        out[8] += sign * rows * cells
        out[9] += sign * (rows == 0)
        out[10] += sign * (rows == A.shape[0])
    out[11] += sign * (A[0, 0] > 0.0) * math.exp(-A[0, 1])
    out[12] += sign * A[1, 1] / (1.0 + A[1, 1] + A[1, 2])
    out[13] += sign * A[2, 3] * X[0, 3] / (1.0 + A[2, 3] * X[0, 3])


@njit(error_model="numpy")
def _step(lik, n, Y, log_odds, slabs, t, s: Stream, out):  # type: ignore[no-untyped-def]
    """Sum of importance weights, and of the weighted change that exchanges make.

    Loadings are drawn from their prior and weighted by the likelihood of Y, which is so a draw from
    the posterior. Exchanges that leave the posterior as it is change no mean.
    """
    A, X = np.empty((Y.shape[0], 4)), np.empty((Y.shape[1], 4))
    change = np.empty(out.size - 2)
    for _ in range(n):
        _draw(s, A, log_odds[t], slabs[t])
        _draw(s, X, log_odds[1 - t], slabs[1 - t])
        before, weight = A.copy(), math.exp(log_likelihood(lik, Y, A, X))
        for function in range(change.size):
            change[function] = 0.0
        _functions(A, X, -1.0, change)
        exchange_factors(lik, Y, A, X, log_odds[t], slabs[t], 2, s)
        _functions(A, X, 1.0, change)
        out[0] += weight
        out[1] += np.any((A > 0.0) != (before > 0.0))
        for function in range(change.size):
            out[2 + function] += weight * change[function]


def data(has_gaps: bool) -> np.ndarray:
    rng = np.random.default_rng(5)
    Y = rng.exponential(0.6, (3, 4))  # larger ones would leave most of the draws without weight
    Y[rng.random(Y.shape) < 0.25] = 0.0
    if has_gaps:
        Y[0, 1] = Y[2, 2] = MISSING
    assert (Y == 0.0).any()
    return Y


@pytest.mark.parametrize(("t", "has_gaps"), [(0, False), (1, True)], ids=["complete", "missing"])
def test_exchanges_leave_the_posterior(t, has_gaps):
    slabs = np.stack([RATES, np.zeros_like(RATES), np.log(RATES)], axis=-1)
    sums = np.zeros((BATCHES, 2 + N_FUNCTIONS))
    for batch in range(BATCHES):
        s = stream(3, 0, batch, START)
        _step(Exponential().kernel(0.3), 20_000, data(has_gaps), LOG_ODDS, slabs, t, s, sums[batch])
    means = sums[:, 2:] / sums[:, :1].mean()
    error = means.std(axis=0, ddof=1) / math.sqrt(BATCHES)
    assert sums[:, 1].mean() > 1_000  # they do happen
    assert np.all(error > 0.0)
    limit = stats.t.isf(P_VALUE / 2.0, BATCHES - 1)
    assert np.abs(means.mean(axis=0) / error).max() < limit


def exact_shares(epsilon: float, tau: float) -> np.ndarray:
    """Posterior probabilities of which of the two factors the row has, given that it has one.

    The same by quadrature: both reach the row's one, the second also its zero.
    """
    v = np.exp(np.linspace(-12.0, 6.0, 20_001))
    prior = tau * np.exp(-tau * v) * v
    one = np.exp(-1.0 / (epsilon + v)) / (epsilon + v)
    masses = np.array([
        np.sum(prior * one) * np.exp(0.3) / epsilon,
        np.sum(prior * one / (epsilon + 0.5 * v)) * np.exp(-0.2),
    ])  # fmt: skip
    return masses / masses.sum()


def test_a_row_with_one_factor_of_two():
    """How often it has either is what Bayes' theorem says."""
    epsilon, tau = 0.2, 1.3
    Y, X = np.array([[1.0, 0.0]]), np.array([[1.0, 1.0], [0.0, 0.5]])
    slabs = np.array([[tau, 0.0, math.log(tau)]] * 2)
    A, s = np.array([[1.0, 0.0]]), stream(1, 0, 0, START)
    has = np.zeros(2)
    n = 40_000
    for _ in range(n):
        exchange_factors(Exponential().kernel(epsilon), Y, A, X, np.array([0.3, -0.2]), slabs, 3, s)
        has += A[0] > 0.0
    assert has.sum() == n
    np.testing.assert_allclose(has / n, exact_shares(epsilon, tau), atol=0.01)


def test_what_no_other_factor_serves_stays():
    Y, X = np.array([[1.0, 2.0, 0.0]]), np.array([[1.0, 0.0], [1.0, 1.0], [0.0, 1.0]])
    A, slabs = np.array([[1.5, 0.0]]), np.array([[1.0, 0.0, 0.0]] * 2)
    exchange_factors(
        Exponential().kernel(0.1), Y, A, X, np.zeros(2), slabs, 50, stream(1, 0, 0, START)
    )
    np.testing.assert_array_equal(A, [[1.5, 0.0]])
