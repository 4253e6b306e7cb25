"""Factors of draws matched with those of a reference, many draws at a time."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import linear_sum_assignment

from dibpnmf.posterior import Alignment, CompactDraw, unit_columns

SHAPE, K, RANK = (9, 7), 6, 4


def made_draws(n: int, seed: int):
    """Draws of the same factors in other orders and scales, some of them lost or empty."""
    rng = np.random.default_rng(seed)
    base = [np.where(rng.random((m, K)) < 0.5, rng.exponential(size=(m, K)), 0.0) for m in SHAPE]
    draws = []
    for d in range(n):
        order, scale = rng.permutation(K), 10.0 ** rng.uniform(-3.0, 3.0, K)
        noise = [side * rng.uniform(0.5, 1.5, side.shape) for side in base]
        lost = rng.random(K) < (1.0 if d == 3 else 0.3)
        noise[0][:, lost] = 0.0
        noise[1][:, rng.random(K) < 0.2] = 0.0
        draws.append(((noise[0] * scale)[:, order], (noise[1] / scale)[:, order]))
    return [side[:, :RANK].copy() for side in base], draws


def one_by_one(reference, draws):
    """Sum X and where it is on, factor by factor, by the plain formula."""
    mean, inclusion = np.zeros(reference[1].shape), np.zeros(reference[1].shape)
    for A, X in draws:
        cosines = [
            unit_columns(own).T @ unit_columns(side)
            for own, side in zip(reference, (A, X), strict=True)
        ]
        for own, other in zip(*linear_sum_assignment(-cosines[0] * cosines[1]), strict=True):
            if min(cosines[0][own, other], cosines[1][own, other]) >= 0.5:
                mean[:, own] += X[:, other] * A[:, other].sum() / reference[0][:, own].sum()
                inclusion[:, own] += X[:, other] > 0.0
    return mean, inclusion


@pytest.mark.parametrize("at_once", [1, 7, 40])
def test_draws_are_matched_together_as_one_by_one(at_once):
    reference, draws = made_draws(40, 0)
    packed = [CompactDraw.pack(draw) for draw in draws]
    alignment = Alignment((reference[0], reference[1]))
    mean, inclusion = alignment.mean, alignment.inclusion
    for start in range(0, len(packed), at_once):
        alignment.add(packed[start : start + at_once])
    expected = one_by_one(reference, draws)
    assert expected[1].max() > 15.0
    np.testing.assert_allclose(alignment.mean, expected[0], rtol=1e-5)
    np.testing.assert_array_equal(alignment.inclusion, expected[1])
    assert alignment.n == 40
    # Running sums stay where they are, as large as they were.
    assert alignment.mean is mean
    assert alignment.inclusion is inclusion
    assert inclusion.dtype == np.float32


def test_parts_are_merged():
    """Two halves whose references are columns in another order."""
    reference, draws = made_draws(40, 1)
    whole, part = (Alignment((side[0], side[1])) for side in (reference, reference))
    turned = Alignment((reference[0][:, ::-1].copy(), reference[1][:, ::-1].copy()))
    for target, some in ((whole, draws), (part, draws[:15]), (turned, draws[15:])):
        target.add([CompactDraw.pack(draw) for draw in some])
    part.merge(turned)
    np.testing.assert_allclose(part.mean, whole.mean, rtol=1e-5)
    np.testing.assert_array_equal(part.inclusion, whole.inclusion)
    assert part.n == 40


def test_no_factors_are_no_match():
    """Of a reference without columns, and of draws without entries."""
    empty = Alignment((np.empty((SHAPE[0], 0)), np.empty((SHAPE[1], 0))))
    _, draws = made_draws(5, 2)
    empty.add([CompactDraw.pack(draw) for draw in draws])
    assert empty.mean.shape == (SHAPE[1], 0)
    reference, _ = made_draws(1, 2)
    other = Alignment((reference[0], reference[1]))
    other.add([CompactDraw.pack((np.zeros((SHAPE[0], K)), np.zeros((SHAPE[1], K))))])
    assert other.n == 1
    assert not other.mean.any()
