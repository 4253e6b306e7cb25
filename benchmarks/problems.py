"""Chains brought to where they stay, for timing single sweeps."""

from __future__ import annotations

from dibpnmf.inference.background import background_rate
from dibpnmf.inference.executors import Serial
from dibpnmf.inference.gibbs import Problem, State, sweep_joint
from dibpnmf.inference.starts import start_state
from dibpnmf.likelihoods import Exponential
from dibpnmf.model import Model
from dibpnmf.observations import Observations
from dibpnmf.priors import BivariateBeta


def warmed_up(observations: Observations, K: int, n_sweeps: int) -> tuple[Problem, State]:
    """A chain with truncation K after ``n_sweeps`` sweeps from the quick factorization."""
    epsilon = background_rate(observations, 0)
    prior = BivariateBeta()
    problem = Problem(observations, prior, Exponential().kernel(epsilon), 0, 0, Serial())
    state = start_state(problem, Model(prior, Exponential(), epsilon), K, "nmf")
    for sweep in range(n_sweeps):
        state, _ = sweep_joint(problem, state, sweep)
    return problem, state
