"""One chain: warm-up with a growing truncation and merges, then draws from a frozen sampler."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from dibpnmf import random as streams
from dibpnmf.inference.gibbs import Info, Problem, State, sweep_joint
from dibpnmf.inference.literal import sweep_literal
from dibpnmf.inference.merges import EVERY, merge

Floats = NDArray[np.float64]

SCHEMES: dict[str, Callable[[Problem, State, int], tuple[State, Info]]] = {
    "joint": sweep_joint,
    "literal": sweep_literal,
}

_GROWTH_CHECK = 10  # sweeps between looks at the last columns


class Monitor(Protocol):
    """Is told of every sweep, and may ask a chain to stop."""

    def report(self, chain: int, sweep: int, K: int, log_likelihood: float) -> None:
        """Take note of a finished sweep."""

    def should_stop(self) -> bool:
        """Whether chains should stop after the sweep at hand."""


class Recorder(Protocol):
    """Takes the draws of one chain."""

    def record(self, state: State, info: Info) -> None:
        """Keep what is to be kept of a draw."""


@dataclass(frozen=True)
class Schedule:
    """How long a chain runs, and how far its truncation may grow during warm-up."""

    n_warmup: int
    n_draws: int
    n_thin: int
    scheme: str
    most_columns: int
    with_merges: bool = False

    @property
    def n_sweeps(self) -> int:
        """Sweeps in all."""
        return self.n_warmup + self.n_draws * self.n_thin


def is_truncated(counts: Floats) -> bool:
    """Whether one of the last two columns is in use on both sides."""
    return bool(np.any(counts[0, -2:] * counts[1, -2:]))


def may_grow(schedule: Schedule, state: State, info: Info, sweep: int) -> bool:
    """Whether it is time to look, there is room, and the last columns are in use."""
    is_time = sweep % _GROWTH_CHECK == _GROWTH_CHECK - 1
    return is_time and schedule.most_columns > state.K and is_truncated(info.counts)


def may_merge(schedule: Schedule, sweep: int) -> bool:
    """Whether it is time to look for doubled factors: in the first three quarters of warm-up."""
    is_early = 4 * sweep < 3 * schedule.n_warmup
    return schedule.with_merges and is_early and sweep % EVERY == EVERY - 1


def grow(problem: Problem, state: State, K: int, sweep: int) -> State:
    """Append empty columns, their sticks drawn from the prior, until there are K."""
    s = problem.stream(sweep, streams.GROWTH)
    extra = K - state.K
    widen = [np.hstack([side, np.zeros((side.shape[0], extra))]) for side in state.loadings]
    prior = problem.prior.grow(s, state.prior, K)
    tau = problem.loadings.grow(s, state.tau, K)
    # The literal scheme draws new kept loadings when it finds none.
    return replace(state, loadings=(widen[0], widen[1]), prior=prior, tau=tau, kept=None)


def run_chain(
    problem: Problem,
    state: State,
    schedule: Schedule,
    recorder: Recorder,
    monitor: Monitor,
    first: int = 0,
    visit: Callable[[State, int], None] | None = None,
) -> State:
    """Warm up, then record every n_thin-th sweep. The truncation is frozen after warm-up.

    ``first`` is the number of sweeps that ``state`` has behind it; ``visit`` is shown every
    state with that number.
    """
    sweep_once = SCHEMES[schedule.scheme]
    for sweep in range(first, schedule.n_sweeps):
        state, info = sweep_once(problem, state, sweep)
        monitor.report(problem.chain, sweep + 1, info.n_active, info.log_likelihood)
        done = sweep + 1 - schedule.n_warmup
        if done > 0 and done % schedule.n_thin == 0:
            recorder.record(state, info)
        elif done < 0:
            if may_merge(schedule, sweep):
                state = merge(problem, state, info, sweep)
            if may_grow(schedule, state, info, sweep):
                K = min(schedule.most_columns, state.K + max(5, state.K // 4))
                state = grow(problem, state, K, sweep)
        if visit is not None:
            visit(state, sweep + 1)
        if monitor.should_stop():
            break
    return state
