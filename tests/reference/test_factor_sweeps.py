"""Sweeps with factors that come and go: Geweke's test, and that the structure of data moves."""

from __future__ import annotations

import numpy as np
import pytest

from dibpnmf.datasets import make_binary
from dibpnmf.inference import gibbs
from dibpnmf.inference.executors import Serial
from dibpnmf.inference.factors import move_factors
from dibpnmf.inference.starts import start_state
from dibpnmf.inference.unseen import redraw_unseen
from dibpnmf.likelihoods import Exponential
from dibpnmf.likelihoods.rows import FRESH
from dibpnmf.model import Model
from dibpnmf.observations import Observations
from dibpnmf.priors import PRIORS
from dibpnmf.random import START, stream
from tests.statistical.cases import parse_case
from tests.statistical.geweke import geweke


def factor_moves_in_any_data(monkeypatch, closed, tries):
    """Make sweeps move factors of data without zeros: cells up to ``closed`` are not open."""

    def move(*arguments):
        *front, _tries, _closed, order, s = arguments
        move_factors(*front, tries, closed, order, s)

    monkeypatch.setattr(gibbs, "may_serve", lambda likelihood, data: True)
    monkeypatch.setattr(gibbs, "have_zeros", lambda Y: True)
    monkeypatch.setattr(gibbs, "move_factors", move)


@pytest.mark.parametrize(
    "case",
    [
        "bivariate-beta/exponential/joint/complete",
        "bivariate-beta/exponential/joint/missing/per-factor",
        "copula/exponential/joint/missing",
        "gaussian-process/exponential/joint/complete",
    ],
)
def test_geweke_with_factor_moves(monkeypatch, case):
    """Sweeps with the moves made for any data pass the joint-distribution test."""
    factor_moves_in_any_data(monkeypatch, 0.0, 8)
    outcome = geweke(parse_case(case), 3_200, 1_600, 3, 0.01, 2)
    assert outcome.is_accepted, outcome.worst


@pytest.mark.slow
@pytest.mark.parametrize("data", ["complete", "missing"])
@pytest.mark.parametrize("prior", sorted(PRIORS))
def test_long_geweke_with_factor_moves(monkeypatch, prior, data):
    """The same with small cells closed, many tries, and chains long enough to tell."""
    factor_moves_in_any_data(monkeypatch, 0.1, 30)
    case = parse_case(f"{prior}/exponential/joint/{data}")
    outcome = geweke(case, 64_000, 32_000, 3, 1e-3, 4)
    print(prior, data, outcome.worst, outcome.threshold)
    assert outcome.is_accepted, outcome.worst


@pytest.mark.parametrize("name", sorted(PRIORS))
def test_they_move_the_structure_of_binary_data(name):
    """Factors of more than one row come, and the number of factors changes."""
    data = Observations.from_matrix(make_binary(random_state=1), "observed")
    prior = PRIORS[name]()
    problem = gibbs.Problem(data, prior, Exponential().kernel(0.01), 0, 0, Serial())
    state = start_state(problem, Model(prior, Exponential(), 0.01), 40, "prior")
    moved, changed = 0, 0
    for sweep in range(800):
        counts = gibbs.summarise(state.loadings).counts
        before, used = state.loadings[0].copy(), np.all(counts > 0.0, axis=0).sum()
        slabs = problem.loadings.slabs(state.tau, state.K)
        if sweep >= FRESH:
            move = gibbs.factor_moves(problem, problem.small_sides, state, counts, slabs, sweep)
            log_odds = prior.log_odds(state.prior)
            move(state.prior, log_odds)
            np.testing.assert_allclose(log_odds, prior.log_odds(state.prior), atol=1e-9)
            redraw_unseen(stream(1, 0, sweep, START), log_odds, *state.loadings, counts, slabs)
            now = gibbs.summarise(state.loadings).counts
            np.testing.assert_array_equal(now, counts)
            moved += (before != state.loadings[0]).any()
            changed += np.all(counts > 0.0, axis=0).sum() != used
        state, _ = gibbs.sweep_joint(problem, state, sweep)
    assert moved > 100
    assert changed > 1
