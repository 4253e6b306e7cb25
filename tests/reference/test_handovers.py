"""Handing shares of factors over: weights of its proposals, and that it leaves the posterior."""

from __future__ import annotations

import math

import numpy as np
import pytest
from numba import njit
from scipy import stats

from dibpnmf.inference.executors import Serial, Threads, gathered
from dibpnmf.inference.handovers import (
    MISSING,
    Board,
    Room,
    Share,
    draw_free,
    found,
    hand_over,
    hand_over_shares,
    have_zeros,
    may_serve,
    weigh,
)
from dibpnmf.likelihoods import Exponential, Gaussian
from dibpnmf.likelihoods.exponential import entry_of
from dibpnmf.likelihoods.grid_proposal import DEFENCE
from dibpnmf.likelihoods.peak_proposal import core_log_density, find_peak
from dibpnmf.likelihoods.rows import Entry
from dibpnmf.loadings.base import Slab, slab_of
from dibpnmf.observations import Observations
from dibpnmf.random import START, Stream, stream

from . import formulas
from .problems import make_small, taken

P_VALUE = 1e-6
BATCHES = 64
SHAPE, K = (3, 4), 4


@pytest.mark.parametrize("zeros", [0.0, 0.9])
@pytest.mark.parametrize("log_odds", [-3.0, 1.0])
def test_weights_are_target_over_proposal(zeros, log_odds):
    """Their mean over draws from the proposal is the target's integral, here by quadrature."""
    small = make_small("exponential", 3, True, 0.5, (1, 6), 2, zeros=zeros)
    taken_entry, _, _ = taken(small, 0, 0)
    entry, slab = Entry(*taken_entry), Slab(1.5, 0.0, math.log(1.5))
    assert entry.m > 1
    s = stream(1, 0, 0, START)
    draws = [weigh(small.kernel, entry, 0.0, True, log_odds, slab, s) for _ in range(20_000)]
    weights = np.exp([weight - entry.level for _, weight in draws])

    def gain(v: float) -> float:
        return formulas.entry_log_ratio(
            small.likelihood.log_density, small.Y, small.observed, small.A, small.X,
            small.epsilon, 0, 0, v,
        )  # fmt: skip

    expected = 1.0 + formulas.entry_odds(gain, log_odds, slab.rate)
    error = weights.std() / math.sqrt(weights.size)
    assert abs(weights.mean() - expected) < 5.0 * error
    for x, weight in draws[:20]:
        assert weigh(small.kernel, entry, x, False, log_odds, slab, s)[1] == weight


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("complete", [True, False])
@pytest.mark.parametrize("leaves", [True, False])
def test_hand_over_weighs_entries_as_rows_of_the_other_side_see_them(seed, complete, leaves):
    """Supports with other rows that use both factors, against those of the row updates."""
    # Zeros that are stored, as where cells are missing, would give other proposals there.
    small = make_small("exponential", seed, complete, 0.5, (5, 4), 3, 0.3 if complete else 0.0)
    A, X = np.maximum(small.A, 1e-3), np.maximum(small.X, 1e-3)
    i, k, f, v = 1, 0, 2, 0.7
    A[i, k] = v if leaves else 0.0
    Y = np.where(small.observed, small.Y, MISSING)
    odds, counts = np.array([-0.3, 0.2, -0.6]), np.ones(3, np.int64)
    slabs = np.tile([1.0, 0.0, 0.0], (3, 1))
    board = Board(Y, A, X, odds, odds, slabs, slabs, counts, counts)
    room = Room(np.empty((5, 32)), np.empty((1, 1)), np.arange(4), np.empty(4), np.empty(4))
    total = hand_over(
        small.kernel, board, room, Share(i, k, f, v, 4, leaves), stream(2, 0, 0, START)
    )

    def weight(n: int, a: float, x: float) -> float:
        rows = A.copy()
        rows[i, k] = a
        other = Observations.from_matrix(
            np.where(small.observed, small.Y, np.nan).T, "observed", scale=1.0
        )
        turned = small._replace(
            Y=small.Y.T, observed=small.observed.T, A=X, X=rows, observations=other
        )
        entry, _, _ = taken(turned, n, f)
        s = stream(3, 0, 0, START)
        return weigh(small.kernel, Entry(*entry), x, False, odds[f], slab_of(slabs, f), s)[1]

    expected = sum(
        weight(n, 0.0, room.drawn[n] if leaves else X[n, f])
        - weight(n, v, X[n, f] if leaves else room.drawn[n])
        for n in range(4)
        if small.observed[i, n]
    )
    rest = sum(
        weight(n, 0.0, room.drawn[n]) - weight(n, 0.0, X[n, f])
        for n in range(4)
        if not small.observed[i, n]
    )
    assert total == pytest.approx(expected + (rest if leaves else -rest), rel=1e-8, abs=1e-8)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("complete", [True, False])
def test_found_weighs_a_factor_of_its_own_against_the_likelihood_before(seed, complete):
    """In the direction in which a row's own factor ends, so that its entries are known."""
    small = make_small("exponential", seed, complete, 0.5, (5, 4), 3)
    A, X = np.maximum(small.A, 1e-3), np.maximum(small.X, 1e-3)
    i, k, f, v = 1, 0, 2, 0.7
    A[:, f], A[i, f], A[i, k] = 0.0, 0.9, 0.0
    Y = np.where(small.observed, small.Y, MISSING)
    odds, counts = np.array([-0.3, 0.2, -0.6]), np.ones(3, np.int64)
    slabs = np.tile([1.0, 0.0, 0.0], (3, 1))
    board = Board(Y, A, X, odds, odds, slabs, slabs, counts, counts)
    room = Room(np.empty((5, 32)), np.empty((1, 1)), np.arange(4), np.empty(4), np.empty(4))
    s = stream(2, 0, 0, START)
    total = found(small.kernel, board, room, Share(i, k, f, v, 4, False), A[i, f], s)
    expected = 0.0
    for n in np.flatnonzero(small.observed[i]):
        b, y = small.epsilon + A[i, 1] * X[n, 1], Y[i, n]
        lines = np.zeros((5, 32))
        lines[[0, 2]] = 1.0
        lines[[0, 2], 0], lines[[1, 3], 0], lines[4, 0] = b, A[i, f], y
        entry = entry_of(lines, np.empty((1, 1)), 1, int(y > 0.0))
        own = weigh(small.kernel, entry, X[n, f], False, odds[f], slab_of(slabs, f), s)[1]
        before = small.likelihood.log_density(y, b + v * X[n, k])
        expected += own - before - math.log1p(math.exp(odds[f]))
    assert total == pytest.approx(expected, rel=1e-9, abs=1e-9)


# Not kept on disk: a cached function would hold the moves as they were when it was compiled.
@njit(error_model="numpy")
def _functions(A, X, out):  # type: ignore[no-untyped-def]
    """Add test functions of both sides' loadings to ``out``."""
    used = 0
    for k in range(A.shape[1]):
        rows, columns = 0, 0
        for i in range(A.shape[0]):
            rows += A[i, k] > 0.0
            out[0] += math.exp(-A[i, k])
        for n in range(X.shape[0]):
            columns += X[n, k] > 0.0
            out[1] += math.exp(-X[n, k])
        used += rows > 0 and columns > 0
        out[2] += rows
        out[3] += columns
        out[4] += rows * columns
        out[5] += rows == 1
        out[6] += rows == 0
        out[7] += (rows == 0) * columns
        out[8] += (rows == 1) * columns
        out[9] += k * rows
        out[10] += k * columns
    out[11] += used
    out[12] += A[0, 0] * X[0, 0] / (1.0 + A[0, 0] * X[0, 0])


N_FUNCTIONS = 13


@njit(error_model="numpy")
def _step(lik, n, Y, odds, slabs, t, s: Stream, out):  # type: ignore[no-untyped-def]
    """Sum of importance weights and of the weighted change that one step makes.

    Loadings are drawn from their prior and weighted by the likelihood of Y, which is so a draw
    from the posterior. A step that leaves the posterior as it is changes no mean.
    """
    A, X = np.empty((Y.shape[0], slabs.shape[1])), np.empty((Y.shape[1], slabs.shape[1]))
    YT = Y.T.copy()
    before, after = np.empty(out.size - 1), np.empty(out.size - 1)
    for _ in range(n):
        for k in range(A.shape[1]):
            for i in range(A.shape[0]):
                A[i, k] = draw_free(s, odds[0, k], slab_of(slabs[0], k))
            for j in range(X.shape[0]):
                X[j, k] = draw_free(s, odds[1, k], slab_of(slabs[1], k))
        log_weight = 0.0
        for i in range(A.shape[0]):
            for j in range(X.shape[0]):
                mean = lik.epsilon
                for k in range(A.shape[1]):
                    mean += A[i, k] * X[j, k]
                if Y[i, j] >= 0.0:
                    log_weight -= math.log(mean) + Y[i, j] / mean
        for function in range(before.size):
            before[function] = 0.0
            after[function] = 0.0
        _functions(A, X, before)
        if t == 0:
            hand_over_shares(lik, Y, A, X, odds[0], odds[1], slabs[0], slabs[1], s)
        else:
            hand_over_shares(lik, YT, X, A, odds[1], odds[0], slabs[1], slabs[0], s)
        _functions(A, X, after)
        weight = math.exp(log_weight)
        out[0] += weight
        for function in range(before.size):
            out[1 + function] += weight * (after[function] - before[function])


def change(Y: np.ndarray, t: int, n: int) -> np.ndarray:
    """Standardised mean change of each test function over one step on side t."""
    odds = np.array([[0.5, -0.5, -1.0, -2.0], [0.3, 0.0, -1.0, -1.5]])
    rates = np.array([[1.0, 2.0, 0.5, 1.0], [1.5, 1.0, 1.0, 0.7]])
    slabs = np.stack([rates, np.zeros_like(rates), np.log(rates)], axis=-1)
    sums = np.zeros((BATCHES, 1 + N_FUNCTIONS))
    for batch in range(BATCHES):
        s = stream(11, 0, batch, START)
        _step(Exponential().kernel(0.4), n, Y, odds, slabs, t, s, sums[batch])
    means = sums[:, 1:] / sums[:, :1].mean()
    error = means.std(axis=0, ddof=1) / math.sqrt(BATCHES)
    assert np.all(error > 0.0)  # something moves
    return means.mean(axis=0) / error


@pytest.mark.parametrize("t", [0, 1])
@pytest.mark.parametrize("has_gaps", [False, True], ids=["complete", "missing"])
def test_a_step_leaves_the_posterior(t, has_gaps):
    """Given data with zeros, on either side, with and without missing cells."""
    rng = np.random.default_rng(5)
    Y = rng.exponential(0.6, SHAPE)  # larger ones would leave most of the draws without weight
    Y[rng.random(SHAPE) < 0.3] = 0.0
    if has_gaps:
        Y[0, 1] = Y[2, 2] = Y[1, 3] = MISSING
    assert (Y == 0.0).any()
    limit = stats.t.isf(P_VALUE / 2.0, BATCHES - 1)
    assert np.abs(change(Y, t, 4_000)).max() < limit


def observed(Y: np.ndarray) -> Observations:
    return Observations.from_matrix(Y, "observed", scale=1.0)


def test_what_they_serve():
    exponential = Exponential().kernel(0.1)
    assert may_serve(exponential, observed(np.eye(64)))
    assert have_zeros(np.eye(5))
    assert not may_serve(exponential, observed(np.eye(65)))
    assert not may_serve(Gaussian().kernel(0.1), observed(np.eye(5)))
    assert not may_serve(exponential, observed(np.eye(5) + 1.0))
    assert may_serve(exponential, observed(np.where(np.eye(5), np.nan, 0.0)))
    assert not have_zeros(np.eye(5) + 1.0)
    assert not have_zeros(np.full((5, 5), MISSING))


@pytest.mark.parametrize("epsilon", [1e-3, 1e-20, 1e-300])
def test_weights_with_any_background(epsilon):
    """They differ by what the likelihoods of the support do, however small b is."""
    b, a, y = np.array([epsilon, 0.4]), np.array([0.7, 0.5]), np.array([1.3, 0.8])
    lines = np.zeros((5, 32))
    lines[[0, 2], :2], lines[[1, 3], :2], lines[4, :2] = b, a, y
    lines[[0, 2], 2:] = 1.0
    lik, slab, s = Exponential().kernel(epsilon), Slab(1.0, 0.0, 0.0), stream(4, 0, 0, START)
    entry = entry_of(lines, np.empty((1, 1)), 2, 2)

    def plain(x: float) -> float:
        mean = b + x * a
        return float(np.sum(-np.log(mean) - y / mean)) + math.log(x) - x

    # Over q, of which only the weights tell: where its density is the same it drops out.
    peak, deviation, _ = find_peak(lik, entry, 0.0, slab, -math.inf)
    assert deviation < math.inf

    def log_q(x: float) -> float:
        z = (math.log(x) - peak) / deviation
        near = math.exp(core_log_density(z)) / deviation / (1.0 + DEFENCE)
        return math.log(near + DEFENCE / (1.0 + DEFENCE) * x * math.exp(-x))

    def weight(x: float) -> float:
        return weigh(lik, entry, x, False, 0.0, slab, s)[1]

    expected = plain(0.5) - plain(3.0) - log_q(0.5) + log_q(3.0)
    assert weight(0.5) - weight(3.0) == pytest.approx(expected, abs=1e-9)


@pytest.mark.parametrize("executor", [Serial(), Threads(2, block_size=3)])
def test_gathered(executor):
    Y = np.array([[0.0, 2.0, np.nan], [1.0, np.nan, 0.0]])
    data = Observations.from_matrix(Y, "observed", scale=1.0)
    expected = np.where(np.isnan(Y), MISSING, Y)
    np.testing.assert_array_equal(gathered(executor, data, MISSING), expected)
    complete = Observations.from_matrix(np.nan_to_num(Y), "observed", scale=1.0)
    np.testing.assert_array_equal(gathered(executor, complete, MISSING), np.nan_to_num(Y))
