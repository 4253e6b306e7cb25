"""Columns that meet no data: their counts are binomial, their entries placed at random."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import special, stats

from dibpnmf.inference.unseen import binomial, draw_unseen, place, update_with_unseen
from dibpnmf.loadings import Shared
from dibpnmf.loadings.base import Slab
from dibpnmf.priors import PRIORS
from dibpnmf.random import PRIOR, START, stream

# Twelve distributions and three priors.
P_VALUE = 1e-6


@pytest.mark.parametrize("size", [1, 4, 30])
@pytest.mark.parametrize("log_odds", [-2.5, 0.0, 1.0])
def test_binomial(size, log_odds):
    s = stream(1, 0, 0, START)
    draws = [binomial(s, size, log_odds) for _ in range(20_000)]
    seen = np.bincount(np.array(draws, int), minlength=size + 1)
    expected = 20_000 * stats.binom(size, special.expit(log_odds)).pmf(np.arange(size + 1))
    # Rare outcomes are pooled, so that the approximation by chi-square holds.
    rare = expected < 5.0
    if rare.any():
        seen = np.append(seen[~rare], seen[rare].sum())
        expected = np.append(expected[~rare], expected[rare].sum())
        if expected[-1] < 5.0:
            seen, expected = (
                np.append(seen[:-2], seen[-2:].sum()),
                np.append(expected[:-2], expected[-2:].sum()),
            )
    assert stats.chisquare(seen, expected).pvalue > P_VALUE


@pytest.mark.parametrize("log_odds", [-800.0, 800.0])
def test_binomial_of_certainty(log_odds):
    assert binomial(stream(1, 0, 0, START), 7, log_odds) == (7.0 if log_odds > 0.0 else 0.0)


@pytest.mark.parametrize("log_odds", [(-1.5, -0.4), (1.0, -0.5), (0.5, 0.8)])
def test_draw_unseen(log_odds):
    """Counts of both sides are binomial, given that one of them is 0."""
    s = stream(4, 0, 0, START)
    sizes, odds = np.array([3.0, 5.0]), np.array(log_odds)[:, None]
    counts = np.empty((2, 1))
    seen = np.zeros((4, 6))
    for _ in range(20_000):
        draw_unseen(s, odds, sizes, 0, counts)
        seen[int(counts[0, 0]), int(counts[1, 0])] += 1.0
    rows, columns = (
        stats.binom(n, special.expit(x)) for n, x in zip((3, 5), log_odds, strict=True)
    )
    expected = np.outer(rows.pmf(np.arange(4)), columns.pmf(np.arange(6)))
    expected[1:, 1:] = 0.0
    expected *= 20_000 / expected.sum()
    assert not seen[1:, 1:].any()
    possible = expected > 0.0
    assert expected[possible].min() > 5.0
    assert stats.chisquare(seen[possible], expected[possible]).pvalue > P_VALUE


@pytest.mark.parametrize("log_odds", [(-800.0, -800.0), (800.0, -800.0), (800.0, 700.0)])
def test_draw_unseen_of_certainty(log_odds):
    counts = np.empty((2, 1))
    odds = np.array(log_odds)[:, None]
    draw_unseen(stream(4, 0, 0, START), odds, np.array([3.0, 5.0]), 0, counts)
    expected = {(-800.0, -800.0): (0.0, 0.0), (800.0, -800.0): (3.0, 0.0)}
    # Where both sides want all, the one with fewer log odds in all stays empty.
    assert tuple(counts[:, 0]) == expected.get(log_odds, (0.0, 5.0))


def test_place():
    """Any two of four rows equally often, with loadings from Exponential(τ)."""
    s = stream(2, 0, 0, START)
    pairs, loads = [], []
    for _ in range(12_000):
        A = np.ones((4, 2))
        place(s, A, 1, 2.0, Slab(3.0, 0.0, math.log(3.0)))
        assert np.all(A[:, 0] == 1.0)
        on = np.flatnonzero(A[:, 1])
        pairs.append(on[0] * 4 + on[1])
        loads += list(A[on, 1])
    counts = np.unique(pairs, return_counts=True)[1]
    assert counts.size == 6
    assert stats.chisquare(counts).pvalue > P_VALUE
    assert stats.kstest(loads, stats.expon(scale=1.0 / 3.0).cdf).pvalue > P_VALUE


@pytest.mark.parametrize("name", sorted(PRIORS))
def test_only_columns_without_data_change(name):
    """A column in use on both sides keeps its entries, and no product A Xᵀ changes."""
    prior = PRIORS[name]()
    s = stream(3, 0, 0, PRIOR)
    rng = np.random.default_rng(3)
    slabs = Shared().slabs(np.ones(2), 4)
    changed = False
    for _ in range(200):
        state = prior.init(s, 4)
        A, X = (rng.exponential(size=(n, 4)) * (rng.random((n, 4)) < 0.5) for n in (3, 5))
        A[:, 1], X[:, 2], A[:, 3], X[:, 3] = 0.0, 0.0, 0.0, 0.0
        before, product = [A.copy(), X.copy()], A @ X.T
        counts = np.stack([(A > 0.0).sum(axis=0), (X > 0.0).sum(axis=0)]).astype(float)
        update_with_unseen(s, prior, state, (A, X), counts, slabs)
        np.testing.assert_allclose(A @ X.T, product, atol=1e-12)
        np.testing.assert_array_equal(counts[0], (A > 0.0).sum(axis=0))
        np.testing.assert_array_equal(counts[1], (X > 0.0).sum(axis=0))
        if before[0][:, 0].any() and before[1][:, 0].any():
            np.testing.assert_array_equal(A[:, 0], before[0][:, 0])
            np.testing.assert_array_equal(X[:, 0], before[1][:, 0])
        changed |= not np.array_equal(A, before[0])
    assert changed
