"""Priors of loadings: slabs as densities, and moves against the joint density they leave alone."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import integrate, stats

from dibpnmf.inference.gibbs import summarise
from dibpnmf.likelihoods.gaussian import Gaussian
from dibpnmf.loadings import LOADINGS, PerFactor, TruncatedNormal
from dibpnmf.loadings import truncated_normal as moves
from dibpnmf.loadings.base import Slab, draw_from_slab
from dibpnmf.model import Draw, Model
from dibpnmf.observations import Observations
from dibpnmf.priors import PRIORS
from dibpnmf.random import LABELS, START, stream
from dibpnmf.slice_sampling import log_density

FIXED = settings(derandomize=True, deadline=None, max_examples=60)
MODEL = Model(PRIORS["bivariate-beta"](), Gaussian(), 0.1, TruncatedNormal())
NOTHING = Observations.from_matrix(np.full((6, 5), np.nan), "observed", scale=1.0)
K = 3
SEEDS = st.integers(0, 10_000)
STEPS = st.floats(-2.0, 2.0)


def drawn(seed: int) -> Draw:
    """A draw with extreme parameters among others, its first column in use on both sides."""
    draw = MODEL.simulate(stream(seed, 0, 0, START), (6, 5), K)
    rng = np.random.default_rng(seed)
    draw.tau[:, 0] = rng.normal(0.0, 3.0, (2, K))
    draw.tau[:, 1] = np.exp(rng.normal(0.0, 2.0, (2, K)))
    for side in draw.loadings:
        side[:2, 0] = rng.exponential(size=2)
    return draw


def log_joint(draw: Draw) -> float:
    return MODEL.log_joint(draw, NOTHING)


@pytest.mark.parametrize("name", LOADINGS)
def test_slabs_are_densities(name):
    prior = LOADINGS[name]()
    slabs = prior.slabs(prior.draw(stream(1, 0, 0, START), K), K)
    for rate, curve, height in slabs.reshape(-1, 3):
        scale = 1.0 / max(rate, math.sqrt(curve))
        top = max(-rate / curve, 0.0) if curve > 0.0 else 0.0

        def f(v, rate=rate, curve=curve, height=height):
            return math.exp(height - rate * v - 0.5 * curve * v * v)

        ends = [0.0, top, top + 5.0 * scale, top + 60.0 * scale]
        total = sum(integrate.quad(f, *ends[i : i + 2])[0] for i in range(3))
        assert total == pytest.approx(1.0, abs=1e-6)


@pytest.mark.parametrize(("mean", "precision"), [(0.5, 4.0), (-2.0, 9.0), (3.0, 25.0)])
def test_draws_from_a_slab(mean, precision):
    s = stream(3, 0, 0, START)
    draws = [draw_from_slab(s, Slab(-mean * precision, precision, 0.0)) for _ in range(20_000)]
    root = math.sqrt(precision)
    expected = stats.truncnorm(-mean * root, np.inf, loc=mean, scale=1.0 / root)
    assert stats.kstest(draws, expected.cdf).pvalue > 1e-4


@FIXED
@given(seed=SEEDS, step=STEPS, t=st.integers(0, 1), k=st.integers(0, K - 1))
def test_conditionals_of_mean_and_precision(seed, step, t, k):
    """Eq. (34): differences of the targets are those of the joint density."""
    draw = drawn(seed)
    summary = summarise(draw.loadings)
    n, total, square = (part[t, k] for part in summary)
    mean, p = draw.tau[t, :, k]
    changed = draw.tau.copy()
    changed[t, 0, k] += step
    target = moves.MeanTarget(p, n, total)
    expected = log_joint(draw._replace(tau=changed)) - log_joint(draw)
    got = log_density(target, mean + step) - log_density(target, mean)
    assert got == pytest.approx(expected, rel=1e-7, abs=1e-6)
    changed = draw.tau.copy()
    changed[t, 1, k] *= math.exp(step)
    target = moves.PrecisionTarget(mean, n, total, square)
    # In log p the density carries the Jacobian p.
    expected = log_joint(draw._replace(tau=changed)) - log_joint(draw) + step
    got = log_density(target, math.log(p) + step) - log_density(target, math.log(p))
    assert got == pytest.approx(expected, rel=1e-7, abs=1e-6)


def scaled(draw: Draw, k: int, c: float) -> tuple[np.ndarray, np.ndarray]:
    A, X = (side.copy() for side in draw.loadings)
    A[:, k] *= c
    X[:, k] /= c
    return A, X


class CaughtError(Exception):
    """Carries the target of a slice move."""


def target_of(monkeypatch, move, *arguments):
    """The target that a move hands to the slice sampler, run uncompiled."""

    def catch(s, target, *rest):
        raise CaughtError(target)

    monkeypatch.setitem(move.py_func.__globals__, "slice_sample", catch)
    with pytest.raises(CaughtError) as caught:
        move.py_func(stream(0, 0, 0, LABELS), *arguments)
    monkeypatch.undo()
    return caught.value.args[0]


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("step", [-1.3, 0.4])
def test_scale_of_a_column(seed, step, monkeypatch):
    """Eq. (35): loadings move, parameters stay; the Jacobian is c to the difference of counts."""
    draw = drawn(seed)
    counts, sums, squares = (part[:, 0] for part in summarise(draw.loadings))
    means, precisions = draw.tau[:, 0, 0], draw.tau[:, 1, 0]
    target = target_of(monkeypatch, moves.draw_scale, means, precisions, counts, sums, squares)
    expected = log_joint(draw._replace(loadings=scaled(draw, 0, math.exp(step)))) - log_joint(draw)
    expected += step * (counts[0] - counts[1])
    got = log_density(target, step) - log_density(target, 0.0)
    assert got == pytest.approx(expected, rel=1e-7, abs=1e-6)


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("step", [-0.9, 0.6])
def test_balance_of_a_column(seed, step, monkeypatch):
    """Eq. (36): loadings and parameters move together; Jacobians of the two sides cancel."""
    draw = drawn(seed)
    target = target_of(monkeypatch, moves.draw_balance, draw.tau[:, 0, 0], draw.tau[:, 1, 0])
    c = math.exp(step)
    tau = draw.tau.copy()
    tau[:, 0, 0] *= [c, 1.0 / c]
    tau[:, 1, 0] *= [c**-2, c**2]
    moved = draw._replace(loadings=scaled(draw, 0, c), tau=tau)
    counts = summarise(draw.loadings).counts[:, 0]
    # Loadings: c^(n1 − n2). Parameters of side 1: c · c⁻², of side 2: c⁻¹ · c², together 1.
    expected = log_joint(moved) - log_joint(draw) + step * (counts[0] - counts[1])
    got = log_density(target, step) - log_density(target, 0.0)
    assert got == pytest.approx(expected, rel=1e-7, abs=1e-6)


@pytest.mark.parametrize("prior", [PerFactor(), TruncatedNormal()], ids=lambda prior: prior.name)
def test_parameters_follow_their_columns(prior):
    parameters = prior.draw(stream(5, 0, 0, START), K)
    order = np.array([2, 0, 1])
    taken = prior.take(parameters, order)
    np.testing.assert_array_equal(prior.slabs(taken, K), prior.slabs(parameters, K)[:, order])
    grown = prior.grow(stream(6, 0, 0, START), parameters, K + 2)
    np.testing.assert_array_equal(grown[..., :K], parameters)
    assert prior.slabs(grown, K + 2).shape == (2, K + 2, 3)
