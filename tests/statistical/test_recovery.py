"""Prior recovery: margins and dependence of the sticks, θ, and the facts of the buffet."""

from __future__ import annotations

import numpy as np
import pytest

from dibpnmf.inference.chain import SCHEMES
from dibpnmf.priors import PRIORS

from .errors import FAST_LEVEL, chain_error, t_threshold
from .recovery import (
    SETTINGS,
    columns_in_use,
    counts_of,
    missing_chain,
    recover,
    recover_parameters,
    simulate_gp_masks,
)

SWEEPS = 16_000
N_TESTS = len(SCHEMES) * (len(SETTINGS) + len(PRIORS) + 3)


def test_every_prior_has_a_setting():
    assert {setting.prior for setting in SETTINGS} == PRIORS.keys()


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("setting", SETTINGS, ids=str)
def test_fixed_parameters(setting, scheme):
    outcome = recover(setting, scheme, SWEEPS, seed=4, level=FAST_LEVEL, n=N_TESTS)
    assert outcome.is_accepted, outcome.describe()


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("prior", PRIORS)
def test_learned_parameters(prior, scheme):
    outcome = recover_parameters(prior, scheme, SWEEPS, seed=4, level=FAST_LEVEL, n=N_TESTS)
    assert outcome.is_accepted, outcome.describe()


def test_buffet_formula():
    """α H_n columns for n rows as the truncation grows: 7.20 for α = 2 and 20 rows."""
    assert columns_in_use(2.0, 20, 40) == pytest.approx(
        2.0 * (1.0 / np.arange(1, 21)).sum(), abs=1e-4
    )


BUFFETS = {
    "bivariate-beta": {"a": 2.0, "b": 1.0},
    "copula": {"alpha1": 2.0, "alpha2": 1.0, "rho": 0.5},
    "gaussian-process": {"alpha": 2.0, "s": 1.0},
}


@pytest.mark.parametrize("prior", BUFFETS)
def test_columns_used_by_twenty_rows(prior):
    """7.20 columns for sticks of their own; 5.29 where rows share a threshold."""
    shape, K = (20, 3), 30
    trace = missing_chain(prior, BUFFETS[prior], "joint", shape, K, 3_200, seed=6)
    used = (counts_of(trace)[0] > 0).sum(axis=1).astype(float)
    expected, error = columns_in_use(2.0, 20, K), 0.0
    if prior == "gaussian-process":
        direct = (simulate_gp_masks(2.0, 1.0, shape, K, 4_000, 1)[0] > 0).sum(axis=1)
        expected, error = direct.mean(), direct.std() / np.sqrt(direct.size)
        assert expected == pytest.approx(5.29, abs=0.3)
    limit = t_threshold(N_TESTS, FAST_LEVEL)
    assert abs(used.mean() - expected) < limit * np.hypot(chain_error(used), error)
