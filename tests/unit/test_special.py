"""Special functions against scipy, tails included."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import special as reference

from dibpnmf import special

settings.register_profile("fixed", derandomize=True, deadline=None, max_examples=200)
settings.load_profile("fixed")


@given(st.floats(-745.0, -1e-300))
def test_log1mexp(x):
    # One of the two plain forms keeps its digits at either end.
    expected = math.log1p(-math.exp(x)) if x < -1.0 else math.log(-math.expm1(x))
    assert special.log1mexp(x) == pytest.approx(expected, rel=1e-13)


def test_log1mexp_at_its_ends():
    assert special.log1mexp(0.0) == -math.inf
    assert special.log1mexp(-math.inf) == 0.0


def test_times_log_of_nothing_is_nothing():
    assert special.times_log(0.0, -math.inf) == 0.0
    assert special.times_log(2.0, -3.0) == -6.0
    assert special.times_log(1.0, -math.inf) == -math.inf


@given(st.floats(-1e6, 30.0))
def test_log_ndtr(x):
    assert special.log_ndtr(x) == pytest.approx(reference.log_ndtr(x), rel=1e-11, abs=1e-300)


@given(st.floats(-30.001, -29.999))
def test_log_ndtr_is_continuous_where_its_series_begins(x):
    assert special.log_ndtr(x) == pytest.approx(reference.log_ndtr(x), rel=1e-11)


@given(st.floats(-1e8, 40.0))
def test_log_positive_mass(t):
    """Mills' ratio on the left; on the right the plain formula, which does not cancel there."""
    if t < 0.0:
        expected = math.log(math.sqrt(0.5 * math.pi) * reference.erfcx(-t * math.sqrt(0.5)))
    else:
        expected = 0.5 * t * t + reference.log_ndtr(t) + 0.5 * math.log(2.0 * math.pi)
    assert special.log_positive_mass(t) == pytest.approx(expected, rel=1e-12, abs=1e-12)


@given(st.floats(-1e6, -1e-12))
def test_ndtri_exp(log_p):
    x = special.ndtri_exp(log_p)
    assert x == pytest.approx(reference.ndtri_exp(log_p), rel=1e-9, abs=1e-12)


@given(st.floats(-40.0, 7.0))
def test_ndtri_exp_inverts_log_ndtr(x):
    log_p = reference.log_ndtr(x)
    # Near p = 1 neighbouring floats of log p are quantiles far apart.
    slope = math.exp(log_p + 0.5 * x * x) * math.sqrt(2.0 * math.pi)
    spacing = np.spacing(abs(log_p)) * slope
    assert special.ndtri_exp(log_p) == pytest.approx(x, rel=1e-9, abs=1e-11 + 4.0 * spacing)


def test_ndtri_exp_at_its_ends():
    assert special.ndtri_exp(0.0) == math.inf
    assert special.ndtri_exp(-math.inf) == -math.inf
