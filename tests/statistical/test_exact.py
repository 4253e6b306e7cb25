"""Tiny problems: inclusion probabilities, loadings and columns in use against integration."""

from __future__ import annotations

import numpy as np
import pytest

from dibpnmf.priors import PRIORS
from tests.reference.formulas import exponential_log_density
from tests.reference.posteriors import (
    INCLUSION,
    Tiny,
    integrate_one_column,
    integrate_posterior,
    quad_one_cell,
)

from .errors import FAST_LEVEL
from .exact import LOG_ODDS, compare, is_fast, problems

FIXED = problems([((2, 2), 1), ((2, 3), 1), ((2, 2), 2), ((2, 3), 2)], ["fixed"])
FREE = problems([((2, 3), 1), ((2, 2), 2)], list(PRIORS))
N_PROBLEMS = len(FIXED) + len(FREE)
SWEEPS = 6_400


def test_every_prior_has_an_integral():
    """A prior listed in the registry needs a map from the unit cube to its π."""
    assert INCLUSION.keys() == PRIORS.keys()


@pytest.mark.parametrize("missing", [False, True])
def test_integration_agrees_with_nested_quadrature(missing):
    """Two rules that share nothing but the model."""
    Y = np.array([[1.3, 0.2], [0.6, 2.5]])
    observed = np.array([[True, not missing], [True, True]])
    tiny = Tiny(Y, observed, 1, 0.3, exponential_log_density, None, LOG_ODDS[:, :1], 0.8)
    value, error = integrate_posterior(tiny, 12)
    np.testing.assert_allclose(value[:2], integrate_one_column(tiny), atol=2e-4)
    assert error[:2].max() < 1e-4
    one = Tiny(Y[:1, :1], observed[:1, :1], 1, 0.3, exponential_log_density, None, LOG_ODDS[:, :1])
    assert integrate_posterior(one, 12)[0][-1] == pytest.approx(quad_one_cell(one), abs=2e-4)


@pytest.mark.parametrize("problem", list(filter(is_fast, FIXED + FREE)), ids=str)
def test_posterior(problem):
    m = 9 if problem.K == 2 and problem.shape == (2, 3) else 11
    outcome = compare(problem, SWEEPS, m, seed=8, level=FAST_LEVEL, n=N_PROBLEMS)
    assert outcome.is_accepted, outcome.describe()
