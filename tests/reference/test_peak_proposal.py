"""The proposal around a peak: slopes, Newton's method, and the density it draws from."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import integrate, stats

from dibpnmf.likelihoods import Exponential, Poisson
from dibpnmf.likelihoods.exponential_sums import support_log_likelihood
from dibpnmf.likelihoods.grid_proposal import DEFENCE
from dibpnmf.likelihoods.lists import list_entries
from dibpnmf.likelihoods.peak_proposal import (
    _proposed,
    core_log_density,
    draw_core,
    draw_from_peak,
    draw_next,
    draw_opposite,
    expectation,
    find_peak,
    slopes,
    split,
)
from dibpnmf.likelihoods.rows import log_ratio as kernel_log_ratio
from dibpnmf.likelihoods.rows import open_row, take_entry
from dibpnmf.likelihoods.supports import BLOCK, HIT_BASE, Entry, new_row
from dibpnmf.loadings.base import Slab
from dibpnmf.observations import Observations
from dibpnmf.random import START, stream, uniform

from . import formulas
from .checks import check_probability
from .problems import SMALL, Small, make_small, taken

UNIT = Slab(1.0, 0.0, 0.0)
FIXED = settings(derandomize=True, deadline=None, max_examples=60)


def log_ratio(small: Small, u: float) -> float:
    return formulas.entry_log_ratio(
        small.likelihood.log_density, small.Y, small.observed, small.A, small.X, small.epsilon,
        0, 0, math.exp(u),
    )  # fmt: skip


@FIXED
@given(small=SMALL.filter(lambda s: s.likelihood.name != "gaussian"), u=st.floats(-6.0, 4.0))
def test_slopes_are_derivatives(small, u):
    """By log v, against differences of the plain formula."""
    entry, _, _ = taken(small, 0, 0)
    if entry.m == 0:
        return
    h = 1e-3
    left, middle, right = (log_ratio(small, u + d) for d in (-h, 0.0, h))
    rest, factor, first, second = slopes(small.kernel, entry, math.exp(u))
    value = rest - math.log(factor)
    # What differences of numbers of this size, and the terms left out, may be wrong by.
    size = 1.0 + max(abs(left), abs(middle), abs(right)) + abs(first) + abs(second)
    assert math.isnan(value) or value == pytest.approx(middle, abs=1e-9 * size)
    assert first == pytest.approx((right - left) / (2.0 * h), abs=1e-5 * size)
    assert second == pytest.approx((right - 2.0 * middle + left) / h**2, abs=1e-5 * size)


@pytest.mark.parametrize("likelihood", ["exponential", "poisson"])
def test_peaks_are_found(likelihood):
    """In nearly all problems of ordinary size, to within the deviation."""
    found, u = [], np.linspace(-12.0, 8.0, 4001)
    for seed in range(60):
        small = make_small(likelihood, seed, True, 0.5, (1, 30), 2, zeros=0.1)
        entry, _, _ = taken(small, 0, 0)
        if entry.m == 0:
            continue
        v, step, deviation, _ = find_peak(small.kernel, entry, 0.0, UNIT, 1.0, math.inf, -math.inf)
        peak = math.log(v) + step
        if deviation == math.inf:
            found.append(False)
            continue
        f = np.array([x - math.exp(x) + log_ratio(small, x) for x in u])
        found.append(abs(u[f.argmax()] - peak) < deviation)
    assert len(found) > 30
    assert np.mean(found) > 0.9


def test_a_search_that_ends_early_knows_enough():
    """It ends where W' is certainly less, and nothing else changes; cells as unequal as can be."""
    rng, kernel, ended = np.random.default_rng(0), Exponential().kernel(0.1), 0
    for _ in range(400):
        c, lines = int(rng.integers(1, BLOCK)), np.zeros((5, BLOCK))
        lines[HIT_BASE] = 1.0
        lines[HIT_BASE:, :c] = np.exp(rng.uniform(0.0, 3.0) * rng.normal(size=(3, c)))
        base, load, y = lines[HIT_BASE:, :c]
        guess = max((y - base).sum(), 0.1 * y.sum()) / load.sum()
        level = support_log_likelihood(lines, c, c, 0.0)
        entry = Entry(lines, np.empty((3, 64)), c, c, level, guess)
        whole = find_peak(kernel, entry, 0.0, UNIT, 1.0, math.inf, -math.inf)
        _, _, deviation, log_mass = whole
        if deviation == math.inf:
            continue
        just_less = log_mass - 1e-9 * (1.0 + abs(log_mass))
        assert find_peak(kernel, entry, 0.0, UNIT, 1.0, math.inf, just_less) == whole
        ended += find_peak(kernel, entry, 0.0, UNIT, 1.0, math.inf, log_mass + 3.0)[3] == -math.inf
    assert ended > 50


def test_density_around_a_peak():
    """It has integral 1, and draws follow it, tails and all."""
    z = np.linspace(-40.0, 40.0, 80_001)
    density = np.exp([core_log_density(x) for x in z])
    cdf = integrate.cumulative_trapezoid(density, z, initial=0.0)
    assert cdf[-1] == pytest.approx(1.0, abs=1e-6)
    s = stream(7, 0, 0, START)
    draws = [draw_core(s) for _ in range(40_000)]
    assert stats.kstest(draws, lambda x: np.interp(x, z, cdf)).pvalue > 1e-6


def test_the_opposite_half_leaves_the_density_as_it_is():
    """From uniform ranks to uniform ones, across the circle, and back as often as there."""
    s = stream(8, 0, 0, START)
    z = np.array([draw_core(s) for _ in range(40_000)])
    new = np.array([draw_opposite(s, x) for x in z])
    grid = np.linspace(-40.0, 40.0, 80_001)
    cdf = integrate.cumulative_trapezoid(
        np.exp([core_log_density(x) for x in grid]), grid, initial=0.0
    )
    r, r_new = np.interp(z, grid, cdf), np.interp(new, grid, cdf)
    assert stats.kstest(r_new, "uniform").pvalue > 1e-6
    apart = np.abs(r - r_new)
    assert np.all(np.minimum(apart, 1.0 - apart) > 0.25 - 1e-5)
    assert stats.kstest((r_new - r) % 1.0, stats.uniform(0.25, 0.5).cdf).pvalue > 1e-6
    for low, high in [(0.05, 0.5), (0.2, 0.6), (0.1, 0.85)]:
        there = np.mean((np.abs(r - low) < 0.05) & (np.abs(r_new - high) < 0.05))
        back = np.mean((np.abs(r_new - low) < 0.05) & (np.abs(r - high) < 0.05))
        assert abs(there - back) < 6.0 * math.sqrt(0.02 / z.size)
    assert np.isfinite([draw_opposite(s, x) for x in (-1e4, -800.0, 0.0, 800.0, 1e4)]).all()


def test_density_of_proposals_and_the_share_of_the_peak_in_it():
    """Against the plain formula in logarithms, also where n is nothing beside the prior's share."""
    rng, small = np.random.default_rng(4), 0
    for z, v, tau in zip(
        rng.normal(size=500) * 10.0 ** rng.uniform(-1.0, 3.0, 500),
        10.0 ** rng.uniform(-3.0, 1.0, 500), 10.0 ** rng.uniform(-1.0, 1.0, 500), strict=True,
    ):  # fmt: skip
        log, size, core = _proposed(z, v, 0.3, tau)
        log_core, log_share = core_log_density(z), math.log(DEFENCE * 0.3 * tau * v) - tau * v
        assert log + math.log(size) == pytest.approx(np.logaddexp(log_core, log_share), abs=1e-9)
        assert core / size == pytest.approx(math.exp(log_core - np.logaddexp(log_core, log_share)))
        small += log_core < -150.0
    assert small > 50


def test_what_comes_next_has_the_density_of_the_peak():
    """After draws from a mixture of it and another one, if each is told what share it had there."""
    s, rng, n = stream(9, 0, 0, START), np.random.default_rng(9), 200_000
    other = stats.norm(4.0, 0.5)
    z = np.where(rng.random(n) < 0.5, [draw_core(s) for _ in range(n)], other.rvs(n, rng))
    core, rest = np.exp([core_log_density(x) for x in z]), other.pdf(z)
    new = [draw_next(s, x, p) for x, p in zip(z, core / (core + rest), strict=True)]
    scale = 0.25 * math.sqrt(2.0 * math.pi)
    assert stats.kstest(new, stats.logistic(scale=scale).cdf).pvalue > 1e-6


@pytest.mark.parametrize(("shift", "factor"), [(0.0, 1.0), (1.2, 0.7), (-1.2, 0.7), (0.0, 0.2)])
def test_a_wrong_peak_changes_the_proposal_and_not_the_distribution(shift, factor):
    """Beside the true one, too narrow, too low or too high: peaks cost time, not truth."""
    X, Y, epsilon, log_odds, slab = np.ones((1, 1)), np.array([[1.5]]), 0.1, -10.0, UNIT
    data, lists = Observations.from_matrix(Y, "observed", scale=1.0), list_entries(X, True)
    family, row, A = Exponential(), new_row(data.side(0), True, 1, 1), np.zeros((1, 1))
    kernel = family.kernel(epsilon)
    open_row(kernel, row, data.side(0), True, A, X, lists, 0)
    # Taken once, for every loading that it will have.
    entry = take_entry(kernel, row, True, A, X, lists, 0, 0)._replace(present=math.nan)
    v, step, deviation, log_mass = find_peak(
        kernel, entry, log_odds, slab, 1.0, math.inf, -math.inf
    )
    s, draws, a = stream(5, 0, 0, START), np.empty(25_600), 0.0
    for sweep in range(draws.size):
        u = uniform(s)
        odds = u / (1.0 - u)
        a, _ = draw_from_peak(
            kernel, entry, a, log_odds, slab, v, step + shift * deviation, factor * deviation,
            log_mass - shift - math.log(odds), odds, s,
        )  # fmt: skip
        draws[sweep] = a

    def gain(v: float) -> float:
        mean = epsilon + v
        return float(family.log_density(1.5, mean) - family.log_density(1.5, epsilon))

    on = formulas.entry_odds(gain, log_odds, slab.rate)
    # Also where the opposite half begins and ends for what is far from the peak.
    quartile = 0.25 * math.sqrt(2.0 * math.pi) * math.log(3.0) * factor
    at = math.log(v) + step + deviation * (shift + np.array([-quartile, quartile]))
    points = np.array([0.5, 1.5, 3.0, *np.exp(at)])
    below = formulas.entry_cdf(gain, slab.rate, points)
    check_probability(draws > 0.0, on / (1.0 + on))
    for point, share in zip(points, below, strict=True):
        check_probability((draws > 0.0) & (draws <= point), on / (1.0 + on) * share)
    between = (draws > points[-2]) & (draws <= points[-1])
    check_probability(between, on / (1.0 + on) * (below[-1] - below[-2]))


def test_a_search_that_may_end_early_says_what_the_whole_one_would():
    """It ends only below W', and where it may end no grid takes the peak's place."""
    ended, slab = 0, Slab(1.0, 0.0, 0.0)
    for seed in range(600):
        small = make_small("exponential", seed, seed % 2 == 0, 0.5, (1, 40), 2, zeros=0.0)
        entry, _, _ = taken(small, 0, 0)
        if entry.m == 0:
            continue
        whole = find_peak(small.kernel, entry, -1.0, slab, 1.0, math.inf, -math.inf)
        assert find_peak(small.kernel, entry, -1.0, slab, 1.0, math.inf, whole[3] - 1e-9) == whole
        early = find_peak(small.kernel, entry, -1.0, slab, 1.0, math.inf, math.inf)
        if early != whole:
            ended += 1
            assert early[3] == -math.inf
            assert whole[2] < math.inf
    assert ended > 5


@FIXED
@given(
    small=SMALL.filter(lambda s: s.likelihood.name != "gaussian"),
    log_odds=st.floats(-5.0, 5.0),
    u=st.floats(0.001, 0.999),
)
def test_mass_is_that_of_the_parabola_or_less(small, log_odds, u):
    """Where a search ends at once, W' is what f and its slopes say, capped; less the odds of u."""
    entry, _, _ = taken(small, 0, 0)
    odds, slab = u / (1.0 - u), Slab(2.0, 0.0, math.log(2.0))
    if entry.m == 0:
        return
    v, step, deviation, log_mass = find_peak(
        small.kernel, entry, log_odds, slab, odds, math.inf, -math.inf
    )
    _, first, second = slopes(small.kernel, entry, v)[1:]
    slope, bend = first + 1.0 - 2.0 * v, second - 2.0 * v
    if deviation == math.inf or step == 0.0 or step != pytest.approx(-slope / bend, rel=1e-9):
        return
    f = log_odds + math.log(2.0 * v) - 2.0 * v + log_ratio(small, math.log(v))
    log_size = math.log(math.exp(-core_log_density(0.0)) / math.sqrt(-bend))
    rise = 0.5 * slope * step
    most = math.log(expectation(small.kernel, entry)[2])
    allowed = 1e-8 * (1.0 + abs(f))
    assert deviation == pytest.approx(1.0 / math.sqrt(-bend), rel=1e-9)
    assert log_mass + math.log(odds) <= f + min(log_size + rise, most) + allowed
    if log_size < most - 0.5:  # not capped by the likelihood; by the first parabola it may be
        first_look = find_peak(small.kernel, entry, log_odds, slab, odds, math.inf, math.inf)
        if first_look == (v, step, deviation, log_mass):
            assert log_mass + math.log(odds) == pytest.approx(f + log_size + rise, abs=allowed)


@FIXED
@given(
    small=SMALL.filter(lambda s: s.likelihood.name != "gaussian"),
    v=st.floats(1e-6, 50.0),
    level=st.floats(-5.0, 5.0),
)
def test_split_is_the_log_ratio(small, v, level):
    """A number less the logarithm of a factor that products may be made of; in any unit."""
    if small.likelihood.name == "poisson":
        small = small._replace(likelihood=Poisson(1.7))
    entry, _, _ = taken(small, 0, 0)
    rest, factor = split(small.kernel, entry.support, entry.m, entry.c, level, v)
    whole = kernel_log_ratio(small.kernel, entry.support, entry.m, entry.c, level, v)
    assert 1e-130 < factor < 1e130
    assert rest - math.log(factor) == pytest.approx(whole, rel=1e-12, abs=1e-11)
