"""Chains on tiny problems against posteriors by numerical integration."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass
from functools import lru_cache
from typing import ClassVar, NamedTuple
from unittest import mock

import numpy as np

from dibpnmf.inference import gibbs, literal
from dibpnmf.inference.chain import SCHEMES
from dibpnmf.likelihoods import LIKELIHOODS
from dibpnmf.loadings import exponential
from dibpnmf.model import Model
from dibpnmf.priors import PRIORS, Prior
from tests.reference.posteriors import (
    INCLUSION,
    Tiny,
    chain_quantities,
    integrate_posterior,
    names,
)

from .cases import Run, fast, likelihood_of, run_on_data
from .errors import N_BATCHES, chain_error, t_threshold
from .geweke import Outcome

EPSILON = 0.3
TAU = 0.8
WARMUP = 500
LOG_ODDS = np.array([[0.3, -0.5], [-0.2, 0.1]])
MEANS = np.array([[1.3, 0.4, 0.9], [0.6, 2.5, 0.4]])


class FixedState(NamedTuple):
    """Nothing to learn: no parameters."""

    theta: np.ndarray


@dataclass(frozen=True)
class FixedOdds(Prior[FixedState]):
    """A prior whose inclusion probabilities are given, so that only A and X are unknown."""

    K: int = 1
    name: ClassVar[str] = "fixed"
    theta_names: ClassVar[tuple[str, ...]] = ()

    def init(self, s, K):
        return FixedState(np.zeros(0))

    def grow(self, s, state, K):
        return state

    def log_odds(self, state):
        return LOG_ODDS[:, : int(self.K)]

    def update(self, s, state, counts, sizes):
        return state

    update_literal = update

    def log_density(self, state):
        return 0.0


@dataclass(frozen=True)
class Problem:
    """A tiny problem; ``prior`` is "fixed" or the name of a prior whose sticks and θ are free."""

    prior: str
    likelihood: str
    scheme: str
    data: str
    shape: tuple[int, int]
    K: int

    def __str__(self) -> str:
        size = f"{self.shape[0]}x{self.shape[1]},K={self.K}"
        return "/".join((self.prior, self.likelihood, self.scheme, self.data, size))

    @property
    def observed(self) -> np.ndarray:
        observed = np.ones(self.shape, bool)
        observed[0, 1] = self.data == "complete"
        return observed

    @property
    def Y(self) -> np.ndarray:
        rng = np.random.default_rng(1)
        return likelihood_of(self.likelihood).simulate(rng, MEANS)[:, : self.shape[1]]

    def model(self) -> Model:
        fixed = self.prior == "fixed"
        prior = FixedOdds(self.K) if fixed else PRIORS[self.prior]()
        return Model(prior, likelihood_of(self.likelihood), EPSILON)


@lru_cache
def _integral(prior, likelihood, data, shape, K, m):
    problem = Problem(prior, likelihood, "", data, shape, K)
    tiny = Tiny(
        problem.Y, problem.observed, K, EPSILON, likelihood_of(likelihood).log_density,
        None if prior == "fixed" else prior, LOG_ODDS[:, :K], TAU,
    )  # fmt: skip
    return integrate_posterior(tiny, m)


def _held_rates(stack: ExitStack) -> None:
    """Replace the draws of τ, which the problems with fixed sticks hold."""

    def scales_only(s, tau, counts, sums, scales) -> None:
        exponential.draw_scales(s, tau[:, None], counts, sums, scales)

    stack.enter_context(mock.patch.object(literal, "draw_rate", return_value=TAU))
    stack.enter_context(mock.patch.object(exponential, "_move_shared", scales_only))


def _held_noise(stack: ExitStack) -> None:
    """Replace the draws of a likelihood's own parameters, which all problems hold."""
    for module in (gibbs, literal):
        stack.enter_context(
            mock.patch.object(module, "update_noise", lambda _problem, state, *_: state)
        )


def compare(problem: Problem, sweeps: int, m: int, seed: int, level: float, n: int) -> Outcome:
    """Run a chain and compare its means with the integral; ``n`` problems share the level."""
    parts = (problem.prior, problem.likelihood, problem.data, problem.shape, problem.K)
    expected, error = _integral(*parts, m)
    with ExitStack() as stack:
        if problem.prior == "fixed":
            _held_rates(stack)
        _held_noise(stack)
        run = Run(problem.model(), problem.scheme, problem.observed, seed, 0, problem.K)
        run.state.tau[:] = TAU
        run.state.noise[:] = 1.0  # as in the likelihood's plain density
        y = problem.Y[problem.observed]
        draws = list(run_on_data(run, y, WARMUP + sweeps))[WARMUP:]
    got = chain_quantities(np.stack([d.A for d in draws]), np.stack([d.X for d in draws]))
    statistics = {}
    for j, name in enumerate(names(problem.shape, problem.K)):
        if problem.prior != "fixed" and name.startswith("E v") and "/" not in name:
            continue  # infinite where τ is free
        # An event that no draw saw has no spread to take an error from.
        noise = np.hypot(max(chain_error(got[:, j]), 1.0 / sweeps), error[j])
        statistics[name] = float((got[:, j].mean() - expected[j]) / noise)
    return Outcome(statistics, t_threshold(len(statistics) * n, level, N_BATCHES - 1))


def problems(settings: list[tuple[tuple[int, int], int]], kinds: list[str]) -> list[Problem]:
    """Problems of these sizes for every likelihood, scheme and kind of data."""
    return [
        Problem(kind, likelihood, scheme, data, shape, K)
        for kind in kinds
        for likelihood in LIKELIHOODS
        for scheme in SCHEMES
        for data in ("complete", "missing")
        for shape, K in settings
        if kind == "fixed" or kind in INCLUSION
    ]


def is_fast(problem: Problem) -> bool:
    """Whether the fast suite runs it: all of the first likelihood, 2×2 with K = 2 of others."""
    if problem.likelihood == next(iter(LIKELIHOODS)):
        return True
    chosen = problem.prior == "fixed" or fast(
        problem.likelihood, problem.prior, problem.scheme, problem.data
    )
    return chosen and (problem.shape, problem.K) == ((2, 2), 2)
