"""Calibration: the test of uniformity sees bias and spread; a few replicates run through."""

from __future__ import annotations

import numpy as np
import pytest

from .cases import FAST_CASES, Run, stack
from .errors import FAST_LEVEL
from .sbc import Ranks, calibrate, quantities

N_SYNTHETIC = 256
SHORT = [case for case in FAST_CASES if (case.scheme, case.data) == ("joint", "complete")]


def smallest_p(u: np.ndarray) -> float:
    return min(Ranks(["x"], u[:, None], 1.0).p_values().values())


def test_uniform_ranks_pass():
    rng = np.random.default_rng(1)
    assert smallest_p(rng.random(N_SYNTHETIC)) > 1e-6


@pytest.mark.parametrize(
    ("kind", "a", "b"), [("bias", 1.0, 1.8), ("too narrow", 0.55, 0.55), ("too wide", 2.0, 2.0)]
)
def test_wrong_ranks_fail(kind, a, b):
    rng = np.random.default_rng(1)
    assert smallest_p(rng.beta(a, b, N_SYNTHETIC)) < 1e-6


def test_counts_add_up():
    rng = np.random.default_rng(1)
    counts = Ranks(["x"], rng.random((N_SYNTHETIC, 1)), 1.0).counts()["x"]
    assert sum(counts) == N_SYNTHETIC
    assert len(counts) == 32


@pytest.mark.parametrize("case", FAST_CASES, ids=str)
def test_equal_states_tie(case):
    """Ties are broken at random only where they are seen: equal states have equal quantities."""
    cells = np.array([[0, 0], [1, 2], [2, 3]])
    for chain in range(20):
        run = Run(case.model(), case.scheme, case.pattern, 1, chain)
        rows = quantities(run, stack([run.snapshot()] * 32), cells)
        assert np.all(rows == rows[0])


@pytest.mark.parametrize("case", SHORT, ids=str)
def test_a_few_replicates(case):
    p_values = calibrate(case, 40, seed=3).p_values()
    assert min(p_values.values()) > FAST_LEVEL / (3 * len(p_values))
