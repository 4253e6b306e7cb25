"""Factors that come and go: that the moves leave the posterior as it is, and that they happen."""

from __future__ import annotations

import math

import numpy as np
import pytest
from numba import njit
from scipy import stats

from dibpnmf.datasets import make_binary
from dibpnmf.inference import gibbs
from dibpnmf.inference.executors import Serial, Threads, gathered
from dibpnmf.inference.factors import MISSING, may_serve, move_factors
from dibpnmf.inference.starts import start_state
from dibpnmf.inference.unseen import redraw_unseen
from dibpnmf.likelihoods import Exponential, Poisson
from dibpnmf.loadings.base import draw_from_slab, slab_of
from dibpnmf.model import Model
from dibpnmf.observations import Observations
from dibpnmf.priors import PRIORS, BivariateBeta
from dibpnmf.random import START, Stream, stream, uniform
from tests.statistical.cases import parse_case
from tests.statistical.geweke import geweke

P_VALUE = 1e-6
BATCHES = 64
SHAPE = (3, 4)
N_FUNCTIONS = 17
TRIES = 20


# Not kept on disk: a cached function would hold the moves as they were when it was compiled.
@njit(error_model="numpy")
def draw_free(s: Stream, log_odds: float, slab) -> float:  # type: ignore[no-untyped-def]
    """Draw z·v from its prior."""
    u = uniform(s)
    return draw_from_slab(s, slab) if math.log(u / (1.0 - u)) < log_odds else 0.0


@njit(error_model="numpy")
def _functions(A, X, out):  # type: ignore[no-untyped-def]
    """Add test functions of both sides' loadings to ``out``."""
    used, alike = 0, 0
    for k in range(A.shape[1]):
        rows, columns, total = 0, 0, 0.0
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
def _step(lik, n, Y, odds, slabs, t, tries, s: Stream, out):  # type: ignore[no-untyped-def]
    """Sum of importance weights and of the weighted change that one step makes.

    Loadings are drawn from their prior and weighted by the likelihood of Y, which is so a draw
    from the posterior. A step that leaves the posterior as it is changes no mean.
    """
    A, X = np.empty((Y.shape[0], slabs.shape[1])), np.empty((Y.shape[1], slabs.shape[1]))
    YT = Y.T.copy()
    before, after = np.empty(out.size - 1), np.empty(out.size - 1)
    counts = np.empty((2, slabs.shape[1]))
    for _ in range(n):
        for k in range(A.shape[1]):
            counts[0, k] = counts[1, k] = 0.0
            for i in range(A.shape[0]):
                A[i, k] = draw_free(s, odds[0, k], slab_of(slabs[0], k))
                counts[0, k] += A[i, k] > 0.0
            for j in range(X.shape[0]):
                X[j, k] = draw_free(s, odds[1, k], slab_of(slabs[1], k))
                counts[1, k] += X[j, k] > 0.0
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
            move_factors(
                lik, Y, A, X, odds[0], odds[1], slabs[0], slabs[1], counts[0], counts[1], tries,
                0.0, s,
            )  # fmt: skip
        else:
            move_factors(
                lik, YT, X, A, odds[1], odds[0], slabs[1], slabs[0], counts[1], counts[0], tries,
                0.0, s,
            )  # fmt: skip
        redraw_unseen(s, odds, A, X, counts, slabs)
        _functions(A, X, after)
        weight = math.exp(log_weight)
        out[0] += weight
        for function in range(before.size):
            out[1 + function] += weight * (after[function] - before[function])


def change(Y: np.ndarray, t: int, n: int) -> np.ndarray:
    """Standardised mean change of each test function over one step on side t."""
    odds = np.array([[0.0, -0.5, -1.0, -1.5, -2.0], [0.3, 0.0, -0.5, -1.0, -1.5]])
    rates = np.array([[1.0, 2.0, 0.5, 1.0, 1.5], [1.5, 1.0, 1.0, 0.7, 1.0]])
    slabs = np.stack([rates, np.zeros_like(rates), np.log(rates)], axis=-1)
    sums = np.zeros((BATCHES, 1 + N_FUNCTIONS))
    for batch in range(BATCHES):
        s = stream(11, 0, batch, START)
        _step(Exponential().kernel(0.4), n, Y, odds, slabs, t, TRIES, s, sums[batch])
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
    Y[rng.random(SHAPE) < 0.2] = 0.0
    if has_gaps:
        Y[0, 1] = Y[2, 2] = Y[1, 3] = MISSING
    assert (Y == 0.0).any()
    limit = stats.t.isf(P_VALUE / 2.0, BATCHES - 1)
    assert np.abs(change(Y, t, 6_000)).max() < limit


def factor_moves_in_any_data(monkeypatch, closed, tries):
    """Make sweeps move factors of data without zeros: cells up to ``closed`` are not open."""

    def move(*arguments):
        *front, _tries, _closed, s = arguments
        move_factors(*front, tries, closed, s)

    monkeypatch.setattr(gibbs, "may_serve", lambda likelihood, data: True)
    monkeypatch.setattr(gibbs, "have_zeros", lambda Y: True)
    monkeypatch.setattr(gibbs, "move_factors", move)


@pytest.mark.parametrize("data", ["complete", "missing"])
def test_geweke_with_factor_moves(monkeypatch, data):
    """Sweeps with the moves made for any data pass the joint-distribution test."""
    factor_moves_in_any_data(monkeypatch, 0.0, 8)
    outcome = geweke(
        parse_case(f"bivariate-beta/exponential/joint/{data}"), 3_200, 1_600, 3, 0.01, 2
    )
    assert outcome.is_accepted, outcome.worst


@pytest.mark.slow
@pytest.mark.parametrize("data", ["complete", "missing"])
@pytest.mark.parametrize("prior", ["bivariate-beta", "copula"])
def test_long_geweke_with_factor_moves(monkeypatch, prior, data):
    """The same with small cells closed, many tries, and chains long enough to tell."""
    factor_moves_in_any_data(monkeypatch, 0.1, 30)
    case = parse_case(f"{prior}/exponential/joint/{data}")
    outcome = geweke(case, 64_000, 32_000, 3, 1e-3, 4)
    print(prior, data, outcome.worst, outcome.threshold)
    assert outcome.is_accepted, outcome.worst


def test_what_they_are_made_for():
    """Small matrices with zeros, under the exponential likelihood, and sticks in pairs."""

    def serves(Y, family=Exponential):
        data = Observations.from_matrix(Y, "observed", scale=1.0)
        return may_serve(family().kernel(0.1), data)

    assert serves(np.eye(64))
    assert not serves(np.eye(65)[:9])
    assert not serves(np.ones((5, 5)))
    assert not serves(np.eye(5), Poisson)
    assert PRIORS["copula"].holds_factors
    assert not PRIORS["gaussian-process"].holds_factors


@pytest.mark.parametrize("executor", [Serial(), Threads(2, block_size=3)])
def test_gathered(executor):
    Y = np.array([[0.0, 2.0, np.nan], [1.0, np.nan, 0.0]])
    data = Observations.from_matrix(Y, "observed", scale=1.0)
    expected = np.where(np.isnan(Y), MISSING, Y)
    np.testing.assert_array_equal(gathered(executor, data, MISSING), expected)
    complete = Observations.from_matrix(np.nan_to_num(Y), "observed", scale=1.0)
    np.testing.assert_array_equal(gathered(executor, complete, MISSING), np.nan_to_num(Y))


def test_they_move_the_structure_of_binary_data():
    """Factors of more than one row come, and the number of factors changes."""
    data = Observations.from_matrix(make_binary(random_state=1), "observed")
    prior = BivariateBeta()
    problem = gibbs.Problem(data, prior, Exponential().kernel(0.01), 0, 0, Serial())
    state = start_state(problem, Model(prior, Exponential(), 0.01), 40, "prior")
    moved, changed = 0, 0
    for sweep in range(400):
        counts = gibbs.summarise(state.loadings).counts
        before, used = state.loadings[0].copy(), np.all(counts > 0.0, axis=0).sum()
        slabs = problem.loadings.slabs(state.tau, state.K)
        move = gibbs.factor_moves(problem, state, counts, slabs, sweep)
        if move is not None:
            move(prior.log_odds(state.prior))
            redraw_unseen(
                stream(1, 0, sweep, START), prior.log_odds(state.prior), *state.loadings, counts,
                slabs,
            )  # fmt: skip
            now = gibbs.summarise(state.loadings).counts
            np.testing.assert_array_equal(now, counts)
            moved += (before != state.loadings[0]).any()
            changed += np.all(counts > 0.0, axis=0).sum() != used
        state, _ = gibbs.sweep_joint(problem, state, sweep)
    assert moved > 100
    assert changed > 2
