"""Factors that come and go: that the moves leave the posterior as it is, and that they happen."""

from __future__ import annotations

import math

import numpy as np
import pytest
from numba import njit
from scipy import stats

from dibpnmf._dispatch import hook
from dibpnmf.inference.executors import Serial, Threads, gathered
from dibpnmf.inference.factors import MISSING, may_serve, move_factors, places_of
from dibpnmf.inference.factors.gp_places import GPPlaces
from dibpnmf.inference.factors.pair_places import PairPlaces
from dibpnmf.inference.unseen import redraw_unseen
from dibpnmf.likelihoods import Exponential, Poisson
from dibpnmf.loadings.base import slab_of
from dibpnmf.observations import Observations
from dibpnmf.priors import BivariateBeta, FGMCopula, GaussianProcess
from dibpnmf.priors.gp_state import GPState, extend, log_odds_of_state
from dibpnmf.priors.pair_density import draw_pairs, log_odds_of_sticks
from dibpnmf.random import START, Stream, stream

from .compiled import draw_free, log_likelihood

P_VALUE = 1e-6
BATCHES = 64
SHAPE = (3, 4)
N_FUNCTIONS = 24
TRIES = 20


draw_sticks, implements_draw_sticks = hook("draw_sticks", "Draw all sticks: (places, s).")
odds_of, implements_odds_of = hook("odds_of", "Log odds that the sticks give: (places).")


@implements_draw_sticks(PairPlaces)
def _draw_pairs(places, s):  # type: ignore[no-untyped-def]
    draw_pairs(places.theta, s, places.values, places.log_nu, 0)


@implements_odds_of(PairPlaces)
def _pair_odds(places):  # type: ignore[no-untyped-def]
    return log_odds_of_sticks(places.log_nu)


@implements_draw_sticks(GPPlaces)
def _draw_gp(places, s):  # type: ignore[no-untyped-def]
    extend(s, places.noise, GPState(places.log_nu, places.g, places.theta, places.g), 0)


@implements_odds_of(GPPlaces)
def _gp_odds(places):  # type: ignore[no-untyped-def]
    return log_odds_of_state(places.noise, places.log_nu, places.g)


@njit(error_model="numpy")
def _functions(A, X, odds, out):  # type: ignore[no-untyped-def]
    """Add test functions of both sides' loadings, and of the odds, to ``out``."""
    used, alike = 0, 0
    for k in range(A.shape[1]):
        rows, columns, total = 0, 0, 0.0
        on, other_on = 1.0 / (1.0 + math.exp(-odds[0, k])), 1.0 / (1.0 + math.exp(-odds[1, k]))
        for i in range(A.shape[0]):
            rows += A[i, k] > 0.0
            out[0] += math.exp(-A[i, k])
            total += A[i, k]
        for n in range(X.shape[0]):
            columns += X[n, k] > 0.0
            out[1] += math.exp(-X[n, k])
        is_used = rows > 0 and columns > 0
        used += is_used
        out[2] += rows
        out[3] += columns
        out[4] += rows * columns
        out[5] += is_used and rows == 1
        out[6] += is_used and columns == 1
        out[7] += is_used and rows == 2
        out[8] += is_used * k
        out[9] += k * rows
        out[10] += k * columns
        out[11] += is_used * math.exp(-total)
        out[17] += on
        out[18] += k * other_on
        out[19] += on * rows
        out[20] += other_on * columns
        out[21] += is_used * on * other_on
        out[22] += k * k * on
        out[23] += on if k == A.shape[1] - 1 else 0.0
        for j in range(k):
            same = 0
            for i in range(A.shape[0]):
                same += (A[i, k] > 0.0) == (A[i, j] > 0.0)
            alike += is_used and same == A.shape[0]
    out[12] += used
    out[13] += used == 1
    out[14] += used == 3
    out[15] += alike
    out[16] += A[0, 0] * X[0, 0] / (1.0 + A[0, 0] * X[0, 0])


@njit(error_model="numpy")
def _step(lik, n, Y, places, slabs, t, tries, s: Stream, out):  # type: ignore[no-untyped-def]
    """Sum of importance weights and of the weighted change that one step makes.

    Sticks and loadings are drawn from their prior and weighted by the likelihood of Y, which is so
    a draw from the posterior. A step that leaves the posterior as it is changes no mean.
    """
    A, X = np.empty((Y.shape[0], slabs.shape[1])), np.empty((Y.shape[1], slabs.shape[1]))
    YT = Y.T.copy()
    before, after = np.empty(out.size - 1), np.empty(out.size - 1)
    counts, order = np.empty((2, slabs.shape[1])), np.empty(slabs.shape[1], np.int64)
    for _ in range(n):
        draw_sticks(places, s)
        odds = odds_of(places)
        for k in range(A.shape[1]):
            counts[0, k] = counts[1, k] = 0.0
            for i in range(A.shape[0]):
                A[i, k] = draw_free(s, odds[0, k], slab_of(slabs[0], k))
                counts[0, k] += A[i, k] > 0.0
            for j in range(X.shape[0]):
                X[j, k] = draw_free(s, odds[1, k], slab_of(slabs[1], k))
                counts[1, k] += X[j, k] > 0.0
        for function in range(before.size):
            before[function] = 0.0
            after[function] = 0.0
        _functions(A, X, odds, before)
        weight = math.exp(log_likelihood(lik, Y, A, X))
        if t == 0:
            move_factors(
                lik, Y, places, A, X, odds[0], odds[1], slabs[0], slabs[1], counts[0], counts[1],
                t, tries, 0.0, order, s,
            )  # fmt: skip
        else:
            move_factors(
                lik, YT, places, X, A, odds[1], odds[0], slabs[1], slabs[0], counts[1], counts[0],
                t, tries, 0.0, order, s,
            )  # fmt: skip
        redraw_unseen(s, odds, A, X, counts, slabs)
        _functions(A, X, odds_of(places), after)
        out[0] += weight
        for function in range(before.size):
            out[1 + function] += weight * (after[function] - before[function])


# Parameters for which a few of five columns are in use.
FIXED_PRIORS = {
    "bivariate-beta": BivariateBeta(a=2.0, b=3.0),
    "copula": FGMCopula(alpha1=2.0, alpha2=2.5, rho=0.7),
    "gaussian-process": GaussianProcess(alpha=2.0, s=1.5),
}


def change(Y: np.ndarray, prior: str, t: int, n: int) -> np.ndarray:
    """Standardised mean change of each test function over one step on side t."""
    K = 5
    rates = np.repeat([[1.0], [1.5]], K, axis=1)
    slabs = np.stack([rates, np.zeros_like(rates), np.log(rates)], axis=-1)
    sums = np.zeros((BATCHES, 1 + N_FUNCTIONS))
    fixed = FIXED_PRIORS[prior]
    for batch in range(BATCHES):
        s = stream(11, 0, batch, START)
        places = places_of(fixed, fixed.init(s, K), np.array(Y.shape, dtype=float))
        _step(Exponential().kernel(0.4), n, Y, places, slabs, t, TRIES, s, sums[batch])
    means = sums[:, 1:] / sums[:, :1].mean()
    error = means.std(axis=0, ddof=1) / math.sqrt(BATCHES)
    assert np.all(error > 0.0)  # something moves
    return means.mean(axis=0) / error


@pytest.mark.parametrize(
    ("t", "has_gaps", "n"), [(0, True, 20_000), (1, False, 6_000)], ids=["rows", "columns"]
)
@pytest.mark.parametrize("prior", FIXED_PRIORS)
def test_a_step_leaves_the_posterior(prior, t, has_gaps, n):
    """Given data with zeros, on either side, some cells of which are missing or none."""
    rng = np.random.default_rng(5)
    Y = rng.exponential(0.6, SHAPE)  # larger ones would leave most of the draws without weight
    Y[rng.random(SHAPE) < 0.2] = 0.0
    if has_gaps:
        Y[0, 1] = Y[2, 2] = Y[1, 3] = MISSING
    assert (Y == 0.0).any()
    limit = stats.t.isf(P_VALUE / 2.0, BATCHES - 1)
    assert np.abs(change(Y, prior, t, n)).max() < limit


def test_what_they_are_made_for():
    """Small matrices with zeros, under the exponential likelihood."""

    def serves(Y, family=Exponential):
        data = Observations.from_matrix(Y, "observed", scale=1.0)
        return may_serve(family().kernel(0.1), data)

    assert serves(np.eye(64))
    assert not serves(np.eye(65)[:9])
    assert not serves(np.ones((5, 5)))
    assert not serves(np.eye(5), Poisson)


@pytest.mark.parametrize("executor", [Serial(), Threads(2, block_size=3)])
def test_gathered(executor):
    Y = np.array([[0.0, 2.0, np.nan], [1.0, np.nan, 0.0]])
    data = Observations.from_matrix(Y, "observed", scale=1.0)
    expected = np.where(np.isnan(Y), MISSING, Y)
    np.testing.assert_array_equal(gathered(executor, data, MISSING), expected)
    complete = Observations.from_matrix(np.nan_to_num(Y), "observed", scale=1.0)
    np.testing.assert_array_equal(gathered(executor, complete, MISSING), np.nan_to_num(Y))
