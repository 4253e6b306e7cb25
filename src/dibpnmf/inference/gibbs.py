"""One sweep of the joint scheme: a map over rows of both sides, and K-sized moves."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dibpnmf import random as streams
from dibpnmf.inference.executors import Executor, Rows, Whole
from dibpnmf.inference.labels import (
    column_summary,
    draw_balance,
    draw_order,
    draw_rate,
    draw_scales,
    relabel,
)
from dibpnmf.inference.unseen import update_with_unseen
from dibpnmf.likelihoods.base import draw_noise, kernel_at
from dibpnmf.likelihoods.rows import update_rows
from dibpnmf.observations import Observations
from dibpnmf.priors.base import Prior

Floats = NDArray[np.float64]

SIDES = (streams.ROWS, streams.COLUMNS)


@dataclass(frozen=True)
class Problem:
    """What stays fixed during a chain: data, model, random seed, and where rows run."""

    observations: Observations
    prior: Prior[Any]
    likelihood: NamedTuple
    seed: int
    chain: int
    executor: Executor

    def stream(self, sweep: int, purpose: int) -> streams.Stream:
        """Open the stream of this chain for one sweep and purpose."""
        return streams.stream(self.seed, self.chain, sweep, purpose)

    @property
    def sizes(self) -> Floats:
        """Number of rows on each side."""
        return np.array(self.observations.shape, dtype=np.float64)


@dataclass(frozen=True)
class State:
    """Everything that a sweep updates; persists from sweep to sweep and into checkpoints."""

    loadings: tuple[Floats, Floats]  # A and X; an entry that is off is 0
    prior: Any
    tau: Floats
    # The literal scheme keeps v while z = 0; the joint scheme has summed it out.
    kept: tuple[Floats, Floats] | None = None
    noise: Floats = field(default_factory=lambda: np.empty(0))  # the likelihood's own parameters

    @property
    def K(self) -> int:
        """Number of columns, in use or not: the truncation."""
        return self.loadings[0].shape[1]


@dataclass(frozen=True)
class Info:
    """What a sweep tells about the state it reached; does not persist."""

    log_likelihood: float  # in the units of the scaled data
    counts: Floats  # on-entries per side and column
    sums: Floats  # their totals
    acceptance: float  # accepted share of the row kernels' proposals


def summarise(loadings: tuple[Floats, Floats]) -> tuple[Floats, Floats]:
    """Counts and sums of the on-entries, each (2, K)."""
    K = loadings[0].shape[1]
    counts, sums = np.empty((2, K)), np.empty((2, K))
    for t in range(2):
        column_summary(loadings[t], counts[t], sums[t])
    return counts, sums


def update_side(problem: Problem, state: State, t: int, log_odds: Floats, sweep: int) -> Floats:
    """Draw (z, v) of every row of side t given the other side, in place, Eq. (18)."""
    own, other = state.loadings[t], state.loadings[1 - t]
    out = np.empty((own.shape[0], 3))
    observations = problem.observations
    problem.executor.map_blocks(
        update_rows, kernel_at(problem.likelihood, state.noise), own.shape[0],
        observations.side(t), observations.is_complete, Rows(own), Whole(other),
        log_odds[t], state.tau[t], np.uint64(problem.seed), problem.chain, sweep, SIDES[t],
        Rows(out, is_read=False),
    )  # fmt: skip
    return out


def update_noise(problem: Problem, state: State, log_likelihood: float, sweep: int) -> State:
    """Draw the likelihood's own parameters given λ, through the log likelihood."""
    s = problem.stream(sweep, streams.NOISE)
    kernel = kernel_at(problem.likelihood, state.noise)
    n_observed = problem.observations.n_observed
    return replace(state, noise=draw_noise(kernel, s, n_observed, log_likelihood))


def update_labels(problem: Problem, state: State, log_odds: Floats, sweep: int) -> Info:
    """Draw τ, then move column scales and order, Eq. (22)-(25); loadings in place."""
    s = problem.stream(sweep, streams.LABELS)
    counts, sums = summarise(state.loadings)
    for t in range(2):
        state.tau[t] = draw_rate(s, counts[t].sum(), sums[t].sum())
    scales = np.empty(state.K)
    order = np.empty(state.K, np.int64)
    draw_scales(s, state.tau, counts, sums, scales)
    scales *= draw_balance(s, state.tau)
    draw_order(s, counts, log_odds, order)
    relabel(state.loadings[0], scales, order)
    relabel(state.loadings[1], 1.0 / scales, order)
    sums = np.stack([sums[0] * scales, sums[1] / scales])[:, order]
    return Info(np.nan, counts, sums, np.nan)


def sweep_joint(problem: Problem, state: State, sweep: int) -> tuple[State, Info]:
    """One sweep: sticks and θ with unseen columns, rows of A, noise, rows of X, τ, scales, order.

    Loadings are updated in place; the returned state shares them.
    """
    counts, _ = summarise(state.loadings)
    s = problem.stream(sweep, streams.PRIOR)
    prior = update_with_unseen(s, problem.prior, state.prior, state.loadings, counts, state.tau)
    state = replace(state, prior=prior)
    log_odds = problem.prior.log_odds(prior)
    rows = update_side(problem, state, 0, log_odds, sweep)
    # Between the sides, so that the second reports the log likelihood with the new noise.
    state = update_noise(problem, state, float(rows[:, 0].sum()), sweep)
    columns = update_side(problem, state, 1, log_odds, sweep)
    info = update_labels(problem, state, log_odds, sweep)
    proposals = rows[:, 1].sum() + columns[:, 1].sum()
    accepted = rows[:, 2].sum() + columns[:, 2].sum()
    rate = float(accepted / proposals) if proposals else 1.0
    return state, replace(info, log_likelihood=float(columns[:, 0].sum()), acceptance=rate)
