"""Moves of one entry: the grid's closed forms, the bounds, and the draws that are made exact."""

from __future__ import annotations

import math
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import integrate, stats

from dibpnmf.likelihoods import LIKELIHOODS
from dibpnmf.likelihoods.entry_moves import log_mass_cap, log_vouched_mass
from dibpnmf.likelihoods.exponential import Exponential
from dibpnmf.likelihoods.exponential_bounds import (
    greatest_gain,
    least_logit,
    log_mass_bound,
    log_some_bound,
)
from dibpnmf.likelihoods.exponential_sums import sum_ratio
from dibpnmf.likelihoods.grid_proposal import (
    LOG_DEFENDED,
    coarse_grid,
    draw_from_grid,
    draw_node,
    grid_mass,
    interpolate,
    refine_grid,
)
from dibpnmf.likelihoods.lists import list_entries
from dibpnmf.likelihoods.peak_proposal import find_peak, has_slopes
from dibpnmf.likelihoods.rows import open_row, stays_off, take_entry, update_rows
from dibpnmf.likelihoods.supports import (
    BASE,
    BLOCK,
    HIT_BASE,
    HIT_LOAD,
    HIT_VALUE,
    LOAD,
    hits_of,
    new_row,
)
from dibpnmf.loadings import Shared
from dibpnmf.loadings.base import Slab
from dibpnmf.observations import Observations
from dibpnmf.random import ROWS, START, stream, uniform

from . import formulas
from .checks import P_VALUE, check_probability
from .problems import SMALL, WIDE, Small, taken

EXPONENTIAL = Exponential().kernel(0.1)
FIXED = settings(derandomize=True, deadline=None, max_examples=60)
N_SWEEPS = 25_600


def gridded(small: Small, i: int, k: int, log_odds: float, tau: float):
    entry, row, lists = taken(small, i, k)
    n = 0
    if entry.m:
        n, ceiling = coarse_grid(small.kernel, entry, log_odds, tau)
        n = refine_grid(small.kernel, entry, log_odds, tau, n, ceiling)
    return entry, n, row, lists


@FIXED
@given(small=SMALL, log_odds=st.floats(-5.0, 5.0), tau=st.floats(0.1, 10.0))
def test_nodes_lie_on_the_target(small, log_odds, tau):
    """But for those that a ceiling cuts off."""
    entry, n, _, _ = gridded(small, 0, 0, log_odds, tau)
    grid = entry.grid[:, :n].copy()
    ceiling = coarse_grid(small.kernel, entry, log_odds, tau)[1] if n else math.inf
    assert np.all(np.diff(grid[0]) > 0.0)
    for u, f in grid[:2].T:
        gain = formulas.entry_log_ratio(
            small.likelihood.log_density, small.Y, small.observed, small.A, small.X,
            small.epsilon, 0, 0, math.exp(u),
        )  # fmt: skip
        expected = log_odds + math.log(tau) + u - tau * math.exp(u) + gain
        is_cut = f == ceiling < expected
        assert is_cut or f == pytest.approx(expected, rel=1e-8, abs=1e-8)


def random_grid(seed: int) -> tuple[np.ndarray, int]:
    rng = np.random.default_rng(seed)
    n = int(rng.integers(2, 9))
    grid = np.empty((3, 16))
    grid[0, :n] = np.sort(rng.normal(scale=3.0, size=n))
    grid[1, :n] = rng.normal(scale=2.0, size=n)
    return grid, n


@FIXED
@given(seed=st.integers(0, 10**6))
def test_mass_is_the_integral_of_the_interpolant(seed):
    grid, n = random_grid(seed)
    highest = grid[1, :n].max()
    nodes = [grid[0, 0] - 60.0, *grid[0, :n], grid[0, n - 1] + 60.0]
    integral = sum(
        integrate.quad(lambda u: math.exp(interpolate(grid, n, u) - highest), a, b)[0]
        for a, b in pairwise(nodes)
    )
    assert grid_mass(grid, n) == (pytest.approx(integral, rel=1e-8), highest)
    assert grid[2, : n + 1].sum() == pytest.approx(integral, rel=1e-8)
    for j in range(n):
        assert interpolate(grid, n, grid[0, j]) == pytest.approx(grid[1, j], abs=1e-12)


@pytest.mark.parametrize("seed", range(4))
def test_draws_follow_the_interpolant(seed):
    grid, n = random_grid(seed)
    total, _ = grid_mass(grid, n)
    s = stream(seed, 0, 0, START)
    draws = [draw_node(grid, n, total, s) for _ in range(20_000)]
    u = np.linspace(grid[0, 0] - 40.0, grid[0, n - 1] + 40.0, 200_001)
    density = np.exp([interpolate(grid, n, x) for x in u])
    cdf = integrate.cumulative_trapezoid(density, u, initial=0.0)
    assert stats.kstest(draws, lambda x: np.interp(x, u, cdf / cdf[-1])).pvalue > P_VALUE


@FIXED
@given(small=st.one_of(SMALL, WIDE), log_odds=st.floats(-8.0, 2.0), tau=st.floats(0.1, 10.0))
def test_entries_that_are_skipped_would_have_stayed_off(small, log_odds, tau):
    """The bounds behind `stays_off`: no u that it skips would have proposed "on"."""
    complete, slab = small.observations.is_complete, Slab(tau, 0.0, math.log(tau))
    M, K = small.A.shape
    for i in range(M):
        for k in range(K):
            small.A[i, k] = 0.0
            entry, n, row, lists = gridded(small, i, k, log_odds, tau)
            log_mass, is_bound = log_odds, True
            if n:
                total, highest = grid_mass(entry.grid, n)
                log_mass = highest + math.log(total)
            most = log_mass
            if n and small.likelihood.name != "gaussian":
                log_cap = log_odds + log_mass_cap(small.kernel, entry, tau, 1.0)
                is_bound = entry.slope == math.inf
                log_vouched, _ = log_vouched_mass(small.kernel, entry, log_odds, slab)
                assert not is_bound or log_vouched <= log_cap + 1e-9
                most = min(max(min(log_mass, log_cap), log_vouched), log_cap)
                _, _, deviation, log_peak = find_peak(
                    small.kernel, entry, log_odds, slab, 1.0, math.inf if is_bound else log_cap,
                    -math.inf,
                )  # fmt: skip
                if has_slopes(small.kernel, entry) and deviation < math.inf:
                    assert log_peak <= log_cap + 1e-9
                    most = max(most, log_peak)
            for local in (True, False):
                log_most = most if local or is_bound else log_mass
                just_on = stats.logistic.cdf(log_most + LOG_DEFENDED) * (1.0 - 1e-9)
                if just_on > 0.0:
                    assert not stays_off(
                        small.kernel, row, complete, lists, k, just_on, log_odds, slab, local
                    )


@pytest.mark.parametrize("scale", [0.1, 1.0, 1e3, 1e80, 1e150])
def test_gain_is_bounded(scale):
    """By no less than what cells gain at most, and by little more where they gain little."""
    y, b = np.random.default_rng(0).exponential(size=(2, 40)) * [[scale], [1.0]]
    cells = np.arange(3, 40, 2, dtype=np.uint32)
    t = np.maximum(y[cells] / b[cells], 1.0)
    gain = np.sum(t - 1.0 - np.log(t))
    bound = greatest_gain(cells, y, b, np.uint64(0), cells.size)
    assert gain * (1.0 - 1e-12) <= bound <= 1.5 * gain


def test_logit_is_bounded():
    """From below, and closely where it decides most."""
    u = np.concatenate([np.logspace(-300.0, -1.0, 5_000), np.linspace(0.001, 0.999_999, 5_000)])
    bound, logit = np.array([least_logit(x) for x in u]), np.log(u) - np.log1p(-u)
    assert np.all(bound <= logit + 1e-12)
    between = (u > 0.02) & (u < 0.9)
    assert np.all(bound[between] >= logit[between] - 0.65)


@FIXED
@given(small=st.one_of(SMALL, WIDE), tau=st.floats(0.1, 10.0))
def test_mass_is_below_its_bound(small, tau):
    """Of the exponential likelihood; and not so far below it that the bound were idle."""
    entry, _, _ = taken(small, 0, 0)

    def log_ratio(v: float) -> float:
        return formulas.entry_log_ratio(
            small.likelihood.log_density, small.Y, small.observed, small.A, small.X,
            small.epsilon, 0, 0, v,
        )  # fmt: skip

    if small.likelihood.name == "exponential" and entry.m:
        base = -entry.level - sum_ratio(entry.support, 0.0, entry.c)
        bound = log_mass_bound(entry.support, entry.m, entry.c, base, tau)
        lines = entry.support
        twin = formulas.log_mass_bound(
            lines[LOAD, : entry.m] / lines[BASE, : entry.m],
            lines[[HIT_BASE, HIT_LOAD, HIT_VALUE], : entry.c], tau,
        )  # fmt: skip
        assert bound == pytest.approx(twin, rel=1e-6, abs=1e-6)
        if bound < math.inf:
            assert formulas.entry_odds(log_ratio, -bound, tau) <= 1.0 + 1e-9
        if entry.c == 0:  # zeros only: "on" can but cost
            assert bound <= 1e-9


@FIXED
@given(small=st.one_of(SMALL, WIDE), tau=st.floats(0.1, 10.0))
def test_bound_from_some_cells_is_no_less_than_that_from_all(small, tau):
    """And the same but for its exponential, (1 − x/256)^(−256), where a block has all cells."""
    small.A[0, 0] = 0.0
    entry, row, lists = taken(small, 0, 0)
    if small.likelihood.name != "exponential" or not small.observations.is_complete or not entry.m:
        return
    lines = entry.support
    base = -entry.level - sum_ratio(lines, 0.0, entry.c)
    twin = formulas.log_mass_bound(
        lines[LOAD if entry.c < entry.m else HIT_LOAD, : entry.m]
        / lines[BASE if entry.c < entry.m else HIT_BASE, : entry.m],
        lines[[HIT_BASE, HIT_LOAD, HIT_VALUE], : entry.c], tau,
        lambda x: np.where(x > 64.0, math.inf, (1.0 - np.minimum(x, 64.0) / 256.0) ** -256.0),
    )  # fmt: skip
    if entry.c < entry.m:
        least = log_mass_bound(lines, entry.m, entry.c, base, tau)
    hits = hits_of(row, True, lists, 0)
    bound = log_some_bound(row, *hits, lists, 0, tau, 0.5) - LOG_DEFENDED
    if entry.c < entry.m:
        assert bound >= least - 1e-9
    if entry.m <= BLOCK and twin > -15.0:
        assert bound == pytest.approx(twin, rel=1e-6, abs=1e-6)


@pytest.mark.parametrize("load", [1e-6, 1e-3])
def test_a_guess_vouches_for_less_than_the_bound_where_data_say_little(load):
    """Where the bound is close to the mass, which random problems seldom are."""
    X, Y, log_odds, tau = np.full((40, 1), load), np.zeros((1, 40)), 4.0, 1.0
    Y[0, 3] = 0.05
    data, lists = Observations.from_matrix(Y, "observed", scale=1.0), list_entries(X, True)
    row, A, kernel = new_row(data.side(0), True, 40, 1), np.zeros((1, 1)), EXPONENTIAL
    open_row(kernel, row, data.side(0), True, A, X, lists, 0)
    entry = take_entry(kernel, row, True, A, X, lists, 0, 0)
    log_vouched, _ = log_vouched_mass(kernel, entry, log_odds, Slab(tau, 0.0, math.log(tau)))
    assert -math.inf < log_vouched <= log_odds + log_mass_cap(kernel, entry, tau, 1.0)


# Loads x, data y, τ and prior log odds; most are chosen to make "on" about as likely as "off"
# under the exponential likelihood. Others get odds that do so for them.
ENTRIES = {
    "one ordinary cell": ([1.0], [1.5], 1.0, -10.0),
    "zeros only": ([1.0, 2.0, 0.5], [0.0, 0.0, 0.0], 1.0, 1.0),
    "large values over a small floor": ([0.2, 0.3], [8.0, 11.0], 1.0, -168.0),
    "large and zero": ([0.2, 3.0], [4.0, 0.0], 0.5, -27.0),
    "sharp peak": ([1.0] * 60, [2.0] * 60, 1.0, -957.0),
    "tiny loads": ([1e-3, 2e-3], [2.0, 1.0], 1.0, 0.0),
    "fast decay": ([5.0], [3.0], 30.0, -21.0),
    "slow decay": ([0.01], [9.0], 0.01, -81.0),
    "mostly zeros": ([0.02] * 30, [1.5, 0.8] + [0.0] * 28, 1.0, -7.0),
    "hundreds of zeros": ([0.02] * 600, [1.5, 0.8, 3.0] + [0.0] * 597, 1.0, 4.7),
    "two peaks": ([1.0] * 20 + [0.01], [0.5] * 20 + [8.4], 0.005, -46.6),
    "two peaks far apart": ([1.0] * 20 + [0.001], [0.5] * 20 + [13.9], 0.005, -42.6),
    "on for the most part": ([0.3] * 9, [0.5] + [0.0] * 8, 1.0, 4.0),
    "no support": ([1.0, 0.0], [math.nan, 2.0], 2.0, -1.0),
}


# In its own units, and counts in others: what was divided by the mean of its data.
FAMILIES = {name: family() for name, family in LIKELIHOODS.items()} | {
    "poisson in units of 0.2": LIKELIHOODS["poisson"](0.2),
    "poisson in units of 3": LIKELIHOODS["poisson"](3.0),
}


@pytest.mark.parametrize("likelihood", sorted(FAMILIES))
@pytest.mark.parametrize("name", ENTRIES)
def test_invariant_distribution_of_one_entry(likelihood, name):
    """Long runs of a single entry against numerical integration of Eq. (18)."""
    x, y, tau, log_odds = ENTRIES[name]
    X, Y = np.array(x)[:, None], np.array(y)[None]
    epsilon = 0.1
    family = FAMILIES[likelihood]
    seen = ~np.isnan(Y[0])

    def log_ratio(v: float) -> float:
        mean = epsilon + v * X[seen, 0]
        base = np.full(mean.size, epsilon)
        y = Y[0, seen]
        return float(np.sum(family.log_density(y, mean) - family.log_density(y, base)))

    if likelihood != "exponential" and X[seen].any():
        log_odds = -log_mass(log_ratio, tau)
    odds = formulas.entry_odds(log_ratio, log_odds, tau)
    draws = entry_draws(family.kernel(epsilon), X, Y, np.array([log_odds]), tau)
    quantiles = np.quantile(draws[draws > 0.0], [0.1, 0.5, 0.9])
    shares = formulas.entry_cdf(log_ratio, tau, quantiles)
    on = odds / (1.0 + odds)
    check_probability(draws > 0.0, on)
    for q, share in zip(quantiles, shares, strict=True):
        check_probability((draws > 0.0) & (draws <= q), on * share)


def log_mass(log_ratio, tau: float) -> float:
    """Log of the mass of "on" at even odds."""
    peak = max(log_ratio(v) for v in np.exp(np.linspace(-15.0, 10.0, 2001)))
    return peak + math.log(formulas.entry_odds(log_ratio, -peak, tau))


@pytest.mark.parametrize("log_cap", [-2.0, -0.5, 0.5])
def test_a_cap_changes_the_proposal_and_not_the_distribution(log_cap):
    """Caps far below and about the mass of "on": a bound that is wrong costs time, not truth."""
    x, y, tau, log_odds = ENTRIES["one ordinary cell"]
    X, Y, epsilon, family = np.array(x)[:, None], np.array(y)[None], 0.1, Exponential()
    data, lists = Observations.from_matrix(Y, "observed", scale=1.0), list_entries(X, True)
    row, A, kernel = new_row(data.side(0), True, 1, 1), np.zeros((1, 1)), family.kernel(0.1)
    open_row(kernel, row, data.side(0), True, A, X, lists, 0)
    entry = take_entry(kernel, row, True, A, X, lists, 0, 0)

    def log_ratio(v: float) -> float:
        return float(
            family.log_density(y[0], epsilon + v * x[0]) - family.log_density(y[0], epsilon)
        )

    odds = formulas.entry_odds(log_ratio, log_odds, tau)
    s, draws, a = stream(5, 0, 0, START), np.empty(N_SWEEPS), 0.0
    for sweep in range(N_SWEEPS):
        a, _ = draw_from_grid(kernel, entry, a, log_odds, tau, log_cap, False, uniform(s), s)
        draws[sweep] = a
    check_probability(draws > 0.0, odds / (1.0 + odds))
    assert abs(math.log(odds)) < 1.0  # else most caps would not bind


@FIXED
@given(small=SMALL, log_odds=st.floats(-8.0, 4.0), tau=st.floats(0.1, 10.0))
def test_refined_mass_is_below_what_the_ceiling_allows(small, log_odds, tau):
    """The bound by which an entry stays off before its grid is refined."""
    entry, _, _ = taken(small, 0, 0)
    if entry.m:
        n, ceiling = coarse_grid(small.kernel, entry, log_odds, tau)
        span = entry.grid[0, n - 1] - entry.grid[0, 0] + 2.0
        n = refine_grid(small.kernel, entry, log_odds, tau, n, ceiling)
        total, highest = grid_mass(entry.grid, n)
        assert highest + math.log(total) <= ceiling + math.log(span) + 1e-9


def entry_draws(kernel, X, Y, log_odds, tau) -> np.ndarray:
    data = Observations.from_matrix(Y, "observed", scale=1.0)
    lists, slabs = list_entries(X, True), Shared().slabs(np.full(2, tau), 1)[0]
    A, out, draws = np.zeros((1, 1)), np.empty((1, 3)), np.empty(N_SWEEPS)
    for sweep in range(N_SWEEPS):
        update_rows(
            kernel, 0, 1, data.side(0), data.is_complete, A, X, lists, log_odds, slabs,
            np.uint64(3), 0, sweep, ROWS, out,
        )  # fmt: skip
        draws[sweep] = A[0, 0]
    return draws
