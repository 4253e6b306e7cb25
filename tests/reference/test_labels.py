"""Rates, scales and order: each move against the joint density that it must leave alone."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from dibpnmf.inference import labels
from dibpnmf.inference.gibbs import summarise
from dibpnmf.loadings import exponential as rates
from dibpnmf.model import Draw, Model
from dibpnmf.priors import PRIORS
from dibpnmf.random import LABELS, START, exponential, gamma, log_gig_draw, stream, uniform

from .problems import SMALL

FIXED = settings(derandomize=True, deadline=None, max_examples=60)
PRIOR_NAMES = st.sampled_from(sorted(PRIORS))
SEED = 5


def random_draw(small, prior: str) -> tuple[Model, Draw]:
    model = Model(PRIORS[prior](), small.likelihood, small.epsilon)
    draw = model.simulate(stream(SEED, 0, 0, START), small.Y.shape, small.A.shape[1])
    return model, Draw((small.A, small.X), draw.prior, draw.tau, draw.noise)


@FIXED
@given(small=SMALL)
def test_column_summary(small):
    counts, sums, squares = summarise((small.A, small.X))
    np.testing.assert_array_equal(counts[0], (small.A > 0.0).sum(axis=0))
    np.testing.assert_array_equal(counts[1], (small.X > 0.0).sum(axis=0))
    np.testing.assert_allclose(sums[0], small.A.sum(axis=0), rtol=1e-12)
    np.testing.assert_allclose(sums[1], small.X.sum(axis=0), rtol=1e-12)
    np.testing.assert_allclose(squares[0], (small.A**2).sum(axis=0), rtol=1e-12)
    np.testing.assert_allclose(squares[1], (small.X**2).sum(axis=0), rtol=1e-12)


@FIXED
@given(small=SMALL, prior=PRIOR_NAMES, factor=st.floats(0.1, 10.0))
def test_rate(small, prior, factor):
    """The joint density in τ is that of Gamma(1 + n, 1 + S), and so is the draw."""
    model, draw = random_draw(small, prior)
    n, total = np.count_nonzero(small.A), small.A.sum()
    tau = draw.tau[0]
    changed = draw._replace(tau=draw.tau * np.array([factor, 1.0]))
    gap = model.log_joint(changed, small.observations) - model.log_joint(draw, small.observations)
    expected = n * math.log(factor) - (1.0 + total) * tau * (factor - 1.0)
    assert gap == pytest.approx(expected, rel=1e-8, abs=1e-7)
    got = rates.draw_rate(stream(SEED, 0, 0, LABELS), float(n), total)
    assert got == gamma(stream(SEED, 0, 0, LABELS), 1.0 + n, 1.0 + total)


@FIXED
@given(small=SMALL, prior=PRIOR_NAMES, c=st.floats(0.1, 10.0))
def test_scales(small, prior, c):
    """Eq. (23) is the joint density along (c A_k, X_k / c) times the volume c^(n1 − n2 − 1)."""
    model, draw = random_draw(small, prior)
    counts, sums, _ = summarise(draw.loadings)
    scales = np.empty(counts.shape[1])
    rates.draw_scales(stream(SEED, 0, 0, LABELS), draw.tau[:, None], counts, sums, scales)
    s = stream(SEED, 0, 0, LABELS)
    before = model.log_joint(draw, small.observations)
    for k in range(scales.size):
        if counts[:, k].min() == 0.0:
            assert scales[k] == 1.0
            continue
        p = counts[0, k] - counts[1, k]
        a, b = 2.0 * draw.tau * sums[:, k]
        assert scales[k] == pytest.approx(math.exp(log_gig_draw(s, p, a, b)), rel=1e-12)
        stretch = np.ones(scales.size)
        stretch[k] = c
        changed = draw._replace(loadings=(small.A * stretch, small.X / stretch))
        volume = (counts[0, k] - counts[1, k] - 1.0) * math.log(c)
        gap = model.log_joint(changed, small.observations) - before + volume
        expected = (p - 1.0) * math.log(c) - 0.5 * (a * (c - 1.0) + b * (1.0 / c - 1.0))
        assert gap == pytest.approx(expected, rel=1e-7, abs=1e-6)


@FIXED
@given(small=SMALL, prior=PRIOR_NAMES, c=st.floats(0.1, 10.0))
def test_balance(small, prior, c):
    """Eq. (25) is the joint density along (cA, X/c, τ1/c, τ2 c) times its volume."""
    model, draw = random_draw(small, prior)
    tau = draw.tau.copy()
    got = rates.draw_balance(stream(SEED, 0, 0, LABELS), tau)
    a, b = 2.0 * draw.tau[1], 2.0 * draw.tau[0]
    expected = math.exp(log_gig_draw(stream(SEED, 0, 0, LABELS), 0.0, a, b))
    assert got == pytest.approx(expected, rel=1e-12)
    np.testing.assert_allclose(tau, draw.tau * np.array([1.0 / got, got]), rtol=1e-12)
    tau = draw.tau * np.array([1.0 / c, c])
    changed = draw._replace(loadings=(small.A * c, small.X / c), tau=tau)
    gap = model.log_joint(changed, small.observations) - model.log_joint(draw, small.observations)
    # The loadings' volume; that of τ is one.
    volume = (np.count_nonzero(small.A) - np.count_nonzero(small.X)) * math.log(c)
    log_gig = -0.5 * (a * (c - 1.0) + b * (1.0 / c - 1.0))
    assert gap + volume == pytest.approx(log_gig, rel=1e-7, abs=1e-6)


@FIXED
@given(small=SMALL, prior=PRIOR_NAMES)
def test_order(small, prior):
    """Swaps accepted by differences of the joint density, through the same stream to equality."""
    model, draw = random_draw(small, prior)
    K = small.A.shape[1]
    log_odds = model.prior.log_odds(draw.prior)
    counts = summarise(draw.loadings).counts
    order = np.empty(K, np.int64)
    labels.draw_order(stream(SEED, 1, 0, LABELS), counts, log_odds, order)
    s = stream(SEED, 1, 0, LABELS)
    expected = list(range(K))

    def log_joint(order: list[int]) -> float:
        loadings = (small.A[:, order], small.X[:, order])
        return model.log_joint(draw._replace(loadings=loadings), small.observations)

    def try_swap(j: int, k: int) -> None:
        trial = expected.copy()
        trial[j], trial[k] = trial[k], trial[j]
        if math.log(uniform(s)) < log_joint(trial) - log_joint(expected):
            expected[:] = trial

    for k in range(K - 1):
        try_swap(k, k + 1)
    for _ in range(K if K > 2 else 0):
        j, k = int(uniform(s) * K), int(uniform(s) * K)
        if j != k:
            try_swap(j, k)
    np.testing.assert_array_equal(order, expected)
    np.testing.assert_array_equal(counts[0], (small.A[:, order] > 0.0).sum(axis=0))


@FIXED
@given(small=SMALL)
def test_both_sides_are_relabelled_with_their_sums(small):
    K = small.A.shape[1]
    rng = np.random.default_rng(K)
    order, scales = rng.permutation(K), rng.exponential(size=K)
    A, X, sums = small.A.copy(), small.X.copy(), summarise((small.A, small.X)).sums.copy()
    labels.relabel_sides(A, X, scales, order, sums)
    np.testing.assert_allclose(A @ X.T, small.A @ small.X.T, rtol=1e-12)
    np.testing.assert_allclose(A, (small.A * scales)[:, order], rtol=1e-15)
    np.testing.assert_allclose(sums, summarise((A, X)).sums, rtol=1e-12)


@FIXED
@given(small=SMALL)
def test_exchange_of_columns_with_their_odds(small):
    """Columns exchanged with their γ, accepted by the joint density, Eq. (42)."""
    model, draw = random_draw(small, "gaussian-process")
    prior, K = model.prior, small.A.shape[1]
    log_odds = prior.log_odds(draw.prior)
    # √(σ²+η²) Φ⁻¹(μ), for σ = η = 1.
    bounds = math.sqrt(2.0) * stats.norm.ppf(np.exp(np.cumsum(draw.prior.log_nu)))
    state = draw.prior._replace(g=draw.prior.g.copy())
    counts = summarise(draw.loadings).counts
    got = np.arange(K)
    prior.exchange(stream(SEED, 1, 0, LABELS), state, counts, got)
    s = stream(SEED, 1, 0, LABELS)
    order, g = np.arange(K), draw.prior.g.copy()

    def log_joint(order, g) -> float:
        loadings = (small.A[:, order], small.X[:, order])
        changed = draw._replace(loadings=loadings, prior=draw.prior._replace(g=g))
        return model.log_joint(changed, small.observations)

    for k in range(2 * K):
        pair = (k, k + 1) if k < K else (int(uniform(s) * K), int(uniform(s) * K))
        if pair[0] == pair[1] or pair[1] == K or np.isinf(bounds[list(pair)]).any():
            continue
        swap = np.arange(K)
        swap[list(pair)] = swap[list(pair[::-1])]
        moved = (g - bounds)[:, swap] + bounds
        gap = log_joint(order[swap], moved) - log_joint(order, g)
        if -exponential(s) < gap:
            order, g = order[swap], moved
    np.testing.assert_array_equal(got, order)
    np.testing.assert_allclose(state.g, g, rtol=1e-7, atol=1e-7)
    np.testing.assert_array_equal(counts[1], (small.X[:, order] > 0.0).sum(axis=0))
    np.testing.assert_allclose(prior.log_odds(state), log_odds[:, order], rtol=1e-6, atol=1e-6)
