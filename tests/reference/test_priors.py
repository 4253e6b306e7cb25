"""Moves of sticks and θ against their twins, through the same stream to equality."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import integrate, special

from dibpnmf.priors import PRIORS, GaussianProcess
from dibpnmf.priors.gp_moves import ROUNDS
from dibpnmf.priors.gp_state import GPState
from dibpnmf.priors.pair_density import PairState, log_pair
from dibpnmf.random import PRIOR, stream

from . import formulas, moves

FIXED = settings(derandomize=True, deadline=None, max_examples=60)
PAIRED = sorted(formulas.LOG_PAIR_DENSITIES)
SEEDS = st.integers(0, 10**6)
COLUMNS = st.integers(1, 4)
SIZES = np.array([3.0, 5.0])


def random_counts(rng: np.random.Generator, K: int) -> np.ndarray:
    """Column counts in which empty and full columns are common."""
    counts = np.stack([rng.integers(0, size + 1, K) for size in SIZES]).astype(float)
    counts[:, rng.random(K) < 0.3] = 0.0
    return counts


def random_pairs(name: str, rng: np.random.Generator, K: int) -> PairState:
    theta = list(rng.gamma(2.0, 1.0, 2) + 0.05)
    if name == "copula":
        theta.append(rng.uniform(-1.0, 1.0))
    return PairState(np.log(rng.uniform(0.02, 0.98, (2, K))), np.array(theta))


def random_gp(rng: np.random.Generator, K: int) -> GPState:
    theta = rng.gamma(2.0, 1.0, 2) + 0.3
    log_nu = np.log(rng.uniform(0.05, 0.95, K))
    return GPState(log_nu, rng.normal(size=(2, K)), theta, np.zeros((2, K)))


@pytest.mark.parametrize("name", PAIRED)
@FIXED
@given(seed=SEEDS)
def test_pair_density(name, seed):
    rng = np.random.default_rng(seed)
    state = random_pairs(name, rng, 1)
    log_x, log_y = state.log_nu[:, 0]
    theta = PRIORS[name]().theta_tuple(state.theta)
    expected = formulas.LOG_PAIR_DENSITIES[name](state.theta, log_x, log_y) + log_x + log_y
    assert log_pair(theta, log_x, log_y) == pytest.approx(expected, abs=1e-10)


@pytest.mark.parametrize("name", PAIRED)
def test_page_s_pair_density_has_beta_margins(name):
    """Integrating one stick out leaves Beta(α, 1) of the other."""
    theta = np.array([1.7, 0.6, -0.8])[: 2 if name == "bivariate-beta" else 3]
    for x in (0.1, 0.5, 0.9):

        def density(y, x=x):
            return math.exp(formulas.LOG_PAIR_DENSITIES[name](theta, math.log(x), math.log(y)))

        margin = integrate.quad(density, 0.0, 1.0)[0]
        assert margin == pytest.approx(1.7 * x**0.7, rel=1e-6)


@pytest.mark.parametrize("name", PAIRED)
@pytest.mark.parametrize("literal", [False, True])
@FIXED
@given(seed=SEEDS, K=COLUMNS)
def test_paired_update(name, literal, seed, K):
    rng = np.random.default_rng(seed)
    state, counts = random_pairs(name, rng, K), random_counts(rng, K)
    prior = PRIORS[name]()
    update = prior.update_literal if literal else prior.update
    got = update(stream(seed, 0, 0, PRIOR), state, counts, SIZES)
    s = stream(seed, 0, 0, PRIOR)
    expected = (twin_of_literal if literal else twin_of_update)(s, name, state, counts)
    np.testing.assert_allclose(got.theta, expected.theta, rtol=1e-8)
    np.testing.assert_allclose(got.log_nu, expected.log_nu, rtol=1e-8)


def twin_of_literal(s, name, state, counts):
    theta = moves.update_pair_theta(s, name, state.theta, state.log_nu)
    log_nu = moves.update_pair_sticks_literal(s, name, theta, state.log_nu, counts, SIZES)
    return PairState(log_nu, theta)


def twin_of_update(s, name, state, counts):
    def log_density(state):
        return pair_log_density(name, state, counts)

    def stretched(state, first=None):
        for t in range(2):
            state = moves.stretch_tail(s, state, counts, log_density, t, first)
        return state

    state = stretched(state)
    if name == "copula":
        theta = moves.update_pair_theta(s, name, state.theta, state.log_nu, which=2)
        state = state._replace(theta=theta)
    log_nu = moves.update_pair_sticks(s, name, state.theta, state.log_nu, counts, SIZES)
    state = moves.move_runs(s, state._replace(log_nu=log_nu), counts, log_density, 3, 0.5)
    return refresh_pair_tail(s, name, stretched(stretched(state), 0), counts)


def pair_log_density(name, state, counts):
    joint = moves.pair_target(name, state.theta, state.log_nu, counts, SIZES, sum_out=True)
    return joint - state.theta[:2].sum()


def refresh_pair_tail(s, name, state, counts):
    """Redraw with the prior's own draw, whose distribution test_prior_recovery checks."""

    def move_one(s, state, r, which):
        return moves.update_pair_theta(s, name, state.theta, state.log_nu[:, :r], which)

    def redraw(s, state, r):
        K = state.log_nu.shape[1]
        return PRIORS[name]().grow(s, state._replace(log_nu=state.log_nu[:, :r]), K)

    def log_masks(state):
        return formulas.log_masks_of_sticks(state.log_nu, counts, SIZES, sum_out=True)

    return moves.refresh_tail(s, state, counts, move_one, redraw, log_masks)


@FIXED
@given(seed=SEEDS, K=COLUMNS, sigma=st.floats(0.5, 2.0), eta=st.floats(0.5, 2.0))
def test_gaussian_process_update(seed, K, sigma, eta):
    rng = np.random.default_rng(seed)
    state, counts = random_gp(rng, K), random_counts(rng, K)
    noise = (sigma, eta)
    got = GaussianProcess(sigma=sigma, eta=eta).update(
        stream(seed, 0, 0, PRIOR), state, counts, SIZES
    )
    s = stream(seed, 0, 0, PRIOR)
    expected = state
    for _ in range(ROUNDS):
        expected = twin_of_gp_round(s, expected, counts, noise)
    expected = moves.stretch_tail(
        s, expected, counts,
        lambda x: moves.gp_target(x.theta, x.log_nu, x.g, counts, SIZES, noise, True), 0,
    )  # fmt: skip
    expected = refresh_gp_tail(s, expected, counts, noise)
    np.testing.assert_allclose(got.theta, expected.theta, rtol=1e-8)
    np.testing.assert_allclose(got.log_nu, expected.log_nu, rtol=1e-8)
    np.testing.assert_allclose(got.g, expected.g, rtol=1e-8, atol=1e-9)


def twin_of_gp_round(s, state, counts, noise):
    g = moves.update_gp_g(s, state.theta, state.log_nu, state.g, counts, SIZES, noise)
    theta = moves.update_gp_theta(s, state.theta, state.log_nu, g, noise)
    log_nu, g = moves.update_gp_sticks(s, theta, state.log_nu, g, counts, SIZES, noise)
    return GPState(log_nu, g, theta, state.h_sum)


def refresh_gp_tail(s, state, counts, noise):
    """Redraw with the prior's own draw, whose distribution test_prior_recovery checks."""

    def move_one(s, state, r, which):
        return moves.update_gp_theta(
            s, state.theta, state.log_nu[:r], state.g[:, :r], noise, [which]
        )

    def redraw(s, state, r):
        head = GPState(state.log_nu[:r], state.g[:, :r], state.theta, state.h_sum[:, :r])
        return GaussianProcess(sigma=noise[0], eta=noise[1]).grow(s, head, state.log_nu.size)

    def log_masks(state):
        return formulas.log_masks_of_gp(state.log_nu, state.g, counts, SIZES, *noise, sum_out=True)

    return moves.refresh_tail(s, state, counts, move_one, redraw, log_masks)


@FIXED
@given(seed=SEEDS, K=COLUMNS, sigma=st.floats(0.5, 2.0), eta=st.floats(0.5, 2.0))
def test_gaussian_process_update_literal(seed, K, sigma, eta):
    rng = np.random.default_rng(seed)
    state, counts = random_gp(rng, K), random_counts(rng, K)
    noise = (sigma, eta)
    got = GaussianProcess(sigma=sigma, eta=eta).update_literal(
        stream(seed, 0, 0, PRIOR), state, counts, SIZES
    )
    s = stream(seed, 0, 0, PRIOR)
    g = moves.draw_gp_g_given_h(s, state.theta, state.log_nu, state.g, counts, SIZES, noise)
    theta = moves.update_gp_theta(s, state.theta, state.log_nu, g, noise)
    log_nu = moves.update_gp_sticks_literal(s, theta, state.log_nu, g, counts, SIZES, noise)
    np.testing.assert_allclose(got.g, g, rtol=1e-8, atol=1e-9)
    np.testing.assert_allclose(got.theta, theta, rtol=1e-8)
    np.testing.assert_allclose(got.log_nu, log_nu, rtol=1e-8)


@FIXED
@given(seed=SEEDS, K=COLUMNS)
def test_log_odds(seed, K):
    rng = np.random.default_rng(seed)
    pairs, gp = random_pairs("copula", rng, K), random_gp(rng, K)
    expected = special.logit(np.cumprod(np.exp(pairs.log_nu), axis=1))
    np.testing.assert_allclose(PRIORS["copula"]().log_odds(pairs), expected, atol=1e-10)
    gamma = special.ndtr(formulas.gp_bounds(gp.log_nu, gp.g, 0.7, 1.3))
    got = GaussianProcess(sigma=0.7, eta=1.3).log_odds(gp)
    np.testing.assert_allclose(got, special.logit(gamma), atol=1e-9)


@FIXED
@given(seed=SEEDS, K=COLUMNS)
def test_log_density(seed, K):
    rng = np.random.default_rng(seed)
    nothing = np.zeros((2, K))
    for name in PAIRED:
        state = random_pairs(name, rng, K)
        expected = moves.pair_target(name, state.theta, state.log_nu, nothing, np.zeros(2))
        expected -= state.theta[:2].sum() + (math.log(2.0) if name == "copula" else 0.0)
        assert PRIORS[name]().log_density(state) == pytest.approx(expected, abs=1e-9)
    gp = random_gp(rng, K)
    expected = moves.gp_target(gp.theta, gp.log_nu, gp.g, nothing, np.zeros(2), (1.0, 1.0))
    assert GaussianProcess().log_density(gp) == pytest.approx(expected, abs=1e-9)


@pytest.mark.parametrize("name", sorted(PRIORS))
@pytest.mark.parametrize("literal", [False, True])
@FIXED
@given(seed=SEEDS, log_theta=st.floats(-6.0, 6.0))
def test_updates_stay_finite_far_out(name, literal, seed, log_theta):
    """Weights that underflow as floats are still moved, as logarithms."""
    prior = PRIORS[name]()
    state = prior.init(stream(seed, 0, 0, PRIOR), 6)
    state.theta[: 2 if name != "gaussian-process" else 1] = math.exp(log_theta)
    state.log_nu[..., 3] = -800.0
    counts = np.array([[3.0, 1, 0, 0, 0, 0], [5.0, 0, 0, 0, 0, 0]])
    update = prior.update_literal if literal else prior.update
    for sweep in range(20):
        state = update(stream(seed, 0, sweep, PRIOR), state, counts, SIZES)
        for field in state:
            assert np.all(np.isfinite(field))
        assert np.all(state.log_nu <= 0.0)
        assert np.all(state.theta[:2] > 0.0)
        assert not np.any(np.isnan(prior.log_odds(state)))
