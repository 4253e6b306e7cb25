"""Geweke's test of every case, short here and long in the slow suite."""

from __future__ import annotations

import pytest

from .cases import CASES, FAST_CASES
from .errors import FAST_LEVEL
from .geweke import geweke

SWEEPS = 12_800
MIN_FUNCTIONS = 12


@pytest.mark.parametrize("case", FAST_CASES, ids=str)
def test_joint_distribution(case):
    outcome = geweke(case, SWEEPS, SWEEPS // 4, seed=2016, level=FAST_LEVEL, n_cases=len(CASES))
    assert len(outcome.statistics) >= MIN_FUNCTIONS
    assert outcome.is_accepted, outcome.describe()
