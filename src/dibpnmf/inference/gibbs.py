"""One sweep of the joint scheme: a map over rows of both sides, and K-sized moves."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dibpnmf import random as streams
from dibpnmf.inference.executors import Executor, Rows, Whole, gathered
from dibpnmf.inference.factors import (
    EXCHANGES,
    MISSING,
    TRIES,
    exchange_factors,
    have_zeros,
    may_serve,
    move_factors,
    places_of,
)
from dibpnmf.inference.labels import (
    column_summaries,
    draw_order,
    relabel_sides,
)
from dibpnmf.inference.unseen import update_with_unseen
from dibpnmf.likelihoods.base import draw_noise, kernel_at
from dibpnmf.likelihoods.rows import FRESH, update_rows
from dibpnmf.loadings.base import LoadingsPrior, Summary
from dibpnmf.loadings.exponential import Shared
from dibpnmf.observations import Observations
from dibpnmf.priors.base import Prior

Floats = NDArray[np.float64]
Sides = tuple[Floats, Floats]

SIDES = (streams.ROWS, streams.COLUMNS)
# Moves of sticks and θ in each of the first sweeps: fresh from their prior they would switch
# factors of the start off before they have learned from it.
_FIRST_ROUNDS = 4


@dataclass(frozen=True)
class Problem:
    """What stays fixed during a chain: data, model, random seed, and where rows run."""

    observations: Observations
    prior: Prior[Any]
    likelihood: NamedTuple
    seed: int
    chain: int
    executor: Executor
    loadings: LoadingsPrior = field(default_factory=Shared)

    def stream(self, sweep: int, purpose: int) -> streams.Stream:
        """Open the stream of this chain for one sweep and purpose."""
        return streams.stream(self.seed, self.chain, sweep, purpose)

    @cached_property
    def sizes(self) -> Floats:
        """Number of rows on each side."""
        return np.array(self.observations.shape, dtype=np.float64)

    @cached_property
    def small_sides(self) -> Sides | None:
        """The matrix and its transpose if moves of factors are made for the data, else None."""
        if not may_serve(self.likelihood, self.observations):
            return None
        Y = gathered(self.executor, self.observations, MISSING)
        return (Y, Y.T.copy()) if have_zeros(Y) else None


@dataclass(frozen=True)
class State:
    """Everything that a sweep updates; persists from sweep to sweep and into checkpoints."""

    loadings: tuple[Floats, Floats]  # A and X; an entry that is off is 0
    prior: Any
    tau: Floats  # parameters of the loadings' prior
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

    @property
    def n_active(self) -> int:
        """Number of columns in use on both sides."""
        return int(np.count_nonzero(self.counts[0] * self.counts[1]))


def summarise(loadings: tuple[Floats, Floats]) -> Summary:
    """Count the on-entries of both sides' columns and add them up."""
    out = np.empty((3, 2, loadings[0].shape[1]))
    column_summaries(*loadings, out)
    return Summary(*out)


def update_side(
    problem: Problem, state: State, t: int, log_odds: Floats, slabs: Floats, sweep: int
) -> Floats:
    """Draw (z, v) of every row of side t given the other side, in place, Eq. (18)."""
    own, other = state.loadings[t], state.loadings[1 - t]
    out = np.empty((own.shape[0], 3))
    observations = problem.observations
    problem.executor.map_blocks(
        update_rows, kernel_at(problem.likelihood, state.noise), own.shape[0],
        observations.side(t), observations.is_complete, Rows(own),
        Whole(other, for_all_cells=observations.is_complete), log_odds[t], slabs[t],
        np.uint64(problem.seed), problem.chain, sweep, SIDES[t], Rows(out, is_read=False),
    )  # fmt: skip
    return out


def factor_moves(
    problem: Problem, sides: Sides, state: State, counts: Floats, slabs: Floats, sweep: int
) -> Callable[[Any, Floats], None]:
    """Return the moves of whole factors, Eq. (39)-(41), of a matrix as seen from both sides.

    They move loadings and counts in place, and so the prior's state and log odds that are given.
    """
    s = problem.stream(sweep, streams.FACTORS)
    order = np.empty(state.K, np.int64)

    def move(prior: Any, log_odds: Floats) -> None:
        places = places_of(problem.prior, prior, problem.sizes)
        if places is None:
            return
        for t, side in enumerate(sides):
            move_factors(
                problem.likelihood, side, places, state.loadings[t], state.loadings[1 - t],
                log_odds[t], log_odds[1 - t], slabs[t], slabs[1 - t], counts[t], counts[1 - t], t,
                TRIES, 0.0, order, s,
            )  # fmt: skip
            if problem.loadings.by_column:
                state.tau[:] = problem.loadings.take(state.tau, order)
                slabs[:] = slabs[:, order]

    return move


def update_exchanges(
    problem: Problem, sides: Sides, state: State, log_odds: Floats, slabs: Floats, sweep: int
) -> None:
    """Let rows of both sides leave factors for others that serve them as well, Eq. (45)."""
    s = problem.stream(sweep, streams.EXCHANGES)
    for t, side in enumerate(sides):
        exchange_factors(
            problem.likelihood, side, state.loadings[t], state.loadings[1 - t], log_odds[t],
            slabs[t], EXCHANGES, s,
        )  # fmt: skip


def update_noise(problem: Problem, state: State, log_likelihood: Floats, sweep: int) -> State:
    """Draw the likelihood's own parameters, if any, given λ, by the rows' log likelihoods."""
    if state.noise.size == 0:
        return state
    s = problem.stream(sweep, streams.NOISE)
    kernel = kernel_at(problem.likelihood, state.noise)
    n_observed = problem.observations.n_observed
    return replace(state, noise=draw_noise(kernel, s, n_observed, float(log_likelihood.sum())))


def update_labels(problem: Problem, state: State, log_odds: Floats, sweep: int) -> Info:
    """Draw τ, then move column scales and order, Eq. (22)-(25), (42).

    Loadings, τ and what travels with columns of the prior change in place.
    """
    s = problem.stream(sweep, streams.LABELS)
    summary = summarise(state.loadings)
    scales = problem.loadings.move(s, state.tau, summary)
    order = np.empty(state.K, np.int64)
    draw_order(s, summary.counts, log_odds, order)
    problem.prior.exchange(s, state.prior, summary.counts, order)
    relabel_sides(*state.loadings, scales, order, summary.sums)
    if problem.loadings.by_column:
        state.tau[:] = problem.loadings.take(state.tau, order)
    return Info(np.nan, summary.counts, summary.sums, np.nan)


def sweep_joint(problem: Problem, state: State, sweep: int) -> tuple[State, Info]:
    """One sweep: sticks and θ with factors and unseen columns, exchanges, A, noise, X, τ, labels.

    Loadings are updated in place; the returned state shares them.
    """
    counts = summarise(state.loadings).counts
    s = problem.stream(sweep, streams.PRIOR)
    slabs = problem.loadings.slabs(state.tau, state.K)
    prior = state.prior
    sides = problem.small_sides if sweep >= FRESH else None
    move = factor_moves(problem, sides, state, counts, slabs, sweep) if sides else None
    for _ in range(_FIRST_ROUNDS if sweep < FRESH else 1):
        prior, log_odds = update_with_unseen(
            s, problem.prior, prior, state.loadings, counts, slabs, move
        )
    state = replace(state, prior=prior)
    if sides:
        update_exchanges(problem, sides, state, log_odds, slabs, sweep)
    rows = update_side(problem, state, 0, log_odds, slabs, sweep)
    # Between the sides, so that the second reports the log likelihood with the new noise.
    state = update_noise(problem, state, rows[:, 0], sweep)
    columns = update_side(problem, state, 1, log_odds, slabs, sweep)
    info = update_labels(problem, state, log_odds, sweep)
    log_likelihood, proposals, accepted = columns.sum(axis=0).tolist()
    _, more, more_accepted = rows.sum(axis=0).tolist()
    proposals, accepted = proposals + more, accepted + more_accepted
    rate = accepted / proposals if proposals else 1.0
    return state, Info(log_likelihood, info.counts, info.sums, rate)
