"""What a first look at an entry is trusted with, and that errors of it cost no truth."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from dibpnmf.likelihoods import Exponential
from dibpnmf.likelihoods.entry_moves import draw_near
from dibpnmf.likelihoods.exponential_bounds import expected_mass, first_look
from dibpnmf.likelihoods.lists import list_entries
from dibpnmf.likelihoods.rows import open_row, stays_off, take_entry
from dibpnmf.likelihoods.supports import HIT_BASE, new_row
from dibpnmf.loadings.base import Slab
from dibpnmf.observations import Observations
from dibpnmf.random import START, stream, uniform

from . import formulas
from .checks import check_probability
from .problems import make_small, taken

FIXED = settings(derandomize=True, deadline=None, max_examples=60)
EPSILON = 0.1


def of_cells(x, y, b):
    cells = np.arange(len(x), dtype=np.uint32)
    return first_look(cells, np.array(x), np.array(y), np.array(b), np.uint64(0), cells.size)


def ratio(x, y, b, v: float) -> float:
    """L(v) of Eq. (19), less L(0)."""
    mean = b + v * x
    return float(np.sum(np.log(b / mean) + y / b - y / mean))


@FIXED
@given(seed=st.integers(0, 10**6), n=st.integers(1, 40))
def test_it_tells_derivatives_and_a_bound_of_the_gain(seed, n):
    """Against differences of the plain formula, and the sum of what each cell gains at most."""
    x, y, b = np.random.default_rng(seed).exponential(size=(3, n))
    b += 0.5
    slope, bend, gain = of_cells(x, y, b)
    h = 1e-4
    left, right = ratio(x, y, b, -h), ratio(x, y, b, h)
    assert slope == pytest.approx((right - left) / (2.0 * h), abs=1e-4 * n)
    assert bend == pytest.approx(-(right + left) / h**2, abs=1e-3 * n)
    t = np.maximum(y / b, 1.0)
    assert 0.5 * gain >= np.sum(t - 1.0 - np.log(t)) * (1.0 - 1e-12)
    assert gain == pytest.approx(np.sum((t - 1.0) ** 2), rel=1e-12)


@pytest.mark.parametrize("complete", [True, False])
def test_an_entry_knows_what_it_looks_like(complete):
    """Whether it is on or off: taken out, its b is what the look sees."""
    seen = 0
    for seed in range(60):
        small = make_small("exponential", seed, complete, 0.5, (2, 12), 2, zeros=0.0)
        entry, _, _ = taken(small, 1, 0)
        if entry.m == 0 or small.X[:, 0].max() * small.A[1, 0] > 1e3:
            continue
        lines = entry.support[HIT_BASE:, : entry.c]
        slope, bend, _ = of_cells(lines[1], lines[2], lines[0])
        assert entry.slope == pytest.approx(slope, rel=1e-9)
        assert entry.bend == pytest.approx(bend, rel=1e-9)
        seen += 1
    assert seen > 20


@pytest.mark.parametrize("complete", [True, False])
def test_it_is_believed_but_not_in_sweeps_of_grids(complete):
    """A mass far from 0, behind a slope that falls: of one large cell among many small ones."""
    X, Y = np.ones((21, 1)), np.full((1, 21), 1e-3)
    X[20], Y[0, 20] = 0.01, 500.0
    if not complete:
        X, Y = np.vstack([X, [[1.0]]]), np.hstack([Y, [[math.nan]]])
    data, lists = Observations.from_matrix(Y, "observed", scale=1.0), list_entries(X, complete)
    row, A = new_row(data.side(0), complete, *X.shape), np.zeros((1, 1))
    kernel, slab = Exponential().kernel(1.0), Slab(0.1, 0.0, math.log(0.1))
    open_row(kernel, row, data.side(0), complete, A, X, lists, 0)
    mass = log_mass(X[:21, 0], Y[0, :21], np.ones(21), 0.1)
    assert mass > 50.0
    for u, log_odds in [(0.5, -20.0), (0.9, 1.0 - mass)]:
        assert stays_off(kernel, row, complete, lists, 0, u, log_odds, slab, True)
        assert not stays_off(kernel, row, complete, lists, 0, u, log_odds + 5.0, slab, False)


def test_what_gains_little_stays_off():
    """By the bound of the gain, which lets no u pass that might be proposed to be on."""
    kernel, slab, skipped = Exponential().kernel(1.0), Slab(1.0, 0.0, 0.0), 0
    for seed in range(300):
        rng = np.random.default_rng(seed)
        X, Y = rng.uniform(0.5, 1.5, (6, 1)), rng.uniform(0.5, 2.0, (1, 6))
        data, lists = Observations.from_matrix(Y, "observed", scale=1.0), list_entries(X, True)
        row, A = new_row(data.side(0), True, 6, 1), np.zeros((1, 1))
        open_row(kernel, row, data.side(0), True, A, X, lists, 0)
        # The mass itself, and what no proposal may exceed: all cells at their best.
        t = np.maximum(Y[0], 1.0)
        for log_most in (log_mass(X[:, 0], Y[0], np.ones(6), 1.0), np.sum(t - 1.0 - np.log(t))):
            just_on = stats.logistic.cdf(log_most) * (1.0 - 1e-9)
            assert not stays_off(kernel, row, True, lists, 0, just_on, 0.0, slab, False)
        skipped += stays_off(kernel, row, True, lists, 0, 0.98, 0.0, slab, False)
    assert skipped > 100


def log_mass(x, y, b, tau: float) -> float:
    u = np.linspace(-14.0, 9.0, 1400)
    v = np.exp(u)[:, None]
    mean = b + v * x
    f = np.log(tau) + u - tau * v[:, 0] + np.sum(np.log(b / mean) + y / b - y / mean, axis=1)
    return float(f.max() + np.log(np.trapezoid(np.exp(f - f.max()), u)))


@pytest.mark.parametrize("n", [1, 5, 25, 100])
def test_the_mass_seldom_exceeds_what_is_expected(n):
    """Nearly never, nowhere by much, and not because too much is expected: of data as they are."""
    rng = np.random.default_rng(n)
    excess, is_tight = [], []
    for _ in range(400):
        x, b = rng.exponential(size=n), 0.2 + rng.exponential(size=n)
        y = b * rng.exponential(size=n)
        slope, bend, _ = of_cells(x, y, b)
        expected, mass = expected_mass(slope, bend, 1.0), log_mass(x, y, b, 1.0)
        excess.append(mass - math.log(expected) if expected < math.inf else -math.inf)
        is_tight.append(math.log(expected) < mass + 3.0)
    assert np.mean(np.array(excess) > 0.0) < 0.03
    assert max(excess) < 3.0
    assert np.mean(is_tight) > 0.5


@pytest.mark.parametrize("share", [0.03, 0.3])
@pytest.mark.parametrize("every", [1, 3])
def test_a_wrong_look_changes_the_proposal_and_not_the_distribution(share, every):
    """Less than the mass of "on", about 1, also where only every third sweep believes it."""
    Y, X, log_odds, slab = np.array([[1.5]]), np.ones((1, 1)), -10.0, Slab(1.0, 0.0, 0.0)
    data, lists = Observations.from_matrix(Y, "observed", scale=1.0), list_entries(X, True)
    family, row, A = Exponential(), new_row(data.side(0), True, 1, 1), np.zeros((1, 1))
    kernel = family.kernel(EPSILON)
    open_row(kernel, row, data.side(0), True, A, X, lists, 0)
    entry = take_entry(kernel, row, True, A, X, lists, 0, 0)
    # Taken once, for every loading that it will have.
    slope = slab.rate - 5.0 / (share * math.exp(-log_odds))
    assert expected_mass(slope, 0.0, slab.rate) == pytest.approx(share * math.exp(-log_odds))
    entry = entry._replace(present=math.nan, slope=slope, bend=0.0)
    s, draws, a = stream(3, 0, 0, START), np.empty(25_600), 0.0
    for sweep in range(draws.size):
        is_local = sweep % every == 0
        a, _ = draw_near(kernel, entry, a, log_odds, slab, is_local, uniform(s), s)
        draws[sweep] = a

    def gain(v: float) -> float:
        return ratio(np.ones(1), Y[0], np.full(1, EPSILON), v)

    on = formulas.entry_odds(gain, log_odds, slab.rate)
    points = np.array([0.5, 1.5, 3.0])
    check_probability(draws > 0.0, on / (1.0 + on))
    for point, below in zip(points, formulas.entry_cdf(gain, slab.rate, points), strict=True):
        check_probability((draws > 0.0) & (draws <= point), on / (1.0 + on) * below)
