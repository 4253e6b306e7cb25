"""One sweep of the literal scheme: the paper's Algorithms 1-3, update by update.

Departures, each because the paper's own order or update is not valid (docs/departures.md):
in the Gaussian process prior h is drawn before g, and τ, which the paper leaves fixed, is drawn
from its conditional over all entries, on or off, because v is kept while z = 0.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from dibpnmf import random as streams
from dibpnmf.inference.executors import Rows, Whole
from dibpnmf.inference.gibbs import SIDES, Info, Problem, State, summarise, update_noise
from dibpnmf.likelihoods.base import kernel_at
from dibpnmf.likelihoods.literal_rows import update_loadings_literal, update_masks_literal
from dibpnmf.loadings.exponential import draw_rate

# Masks and loadings of one side are drawn in separate passes and need separate streams.
_LOADINGS = (streams.ROW_LOADINGS, streams.COLUMN_LOADINGS)


def sweep_literal(problem: Problem, state: State, sweep: int) -> tuple[State, Info]:
    """One sweep: θ and μ, then Z, then V (and the noise between its sides), then τ.

    Loadings are updated in place; the returned state shares them.
    """
    kept = state.kept or _start_kept(problem, state, sweep)
    state = replace(state, kept=kept)
    counts = summarise(state.loadings).counts
    s = problem.stream(sweep, streams.PRIOR)
    state = replace(
        state, prior=problem.prior.update_literal(s, state.prior, counts, problem.sizes)
    )
    log_odds = problem.prior.log_odds(state.prior)
    for t in range(2):
        _update_masks(problem, state, t, log_odds, sweep)
    rows = _update_loadings(problem, state, 0, sweep)
    state = update_noise(problem, state, rows[:, 0], sweep)
    columns = _update_loadings(problem, state, 1, sweep)
    s = problem.stream(sweep, streams.LABELS)
    for t in range(2):
        state.tau[t] = draw_rate(s, float(kept[t].size), float(kept[t].sum()))
    counts, sums, _ = summarise(state.loadings)
    return state, Info(float(columns[:, 0].sum()), counts, sums, 1.0)


def _start_kept(problem: Problem, state: State, sweep: int):  # type: ignore[no-untyped-def]
    """Give the entries that are off a v from its prior, as the joint scheme never needs one."""
    s = problem.stream(sweep, streams.START)
    kept = []
    for t in range(2):
        V = state.loadings[t].copy()
        for index in np.argwhere(V == 0.0):
            V[tuple(index)] = streams.exponential(s) / state.tau[t]
        kept.append(V)
    return kept[0], kept[1]


def _update_masks(problem: Problem, state: State, t: int, log_odds, sweep: int) -> None:  # type: ignore[no-untyped-def]
    assert state.kept is not None
    own, other = state.loadings[t], state.loadings[1 - t]
    observations = problem.observations
    problem.executor.map_blocks(
        update_masks_literal, kernel_at(problem.likelihood, state.noise), own.shape[0],
        observations.side(t), observations.is_complete, Rows(own),
        Rows(state.kept[t], is_written=False), Whole(other), log_odds[t],
        np.uint64(problem.seed), problem.chain, sweep, SIDES[t],
    )  # fmt: skip


def _update_loadings(problem: Problem, state: State, t: int, sweep: int):  # type: ignore[no-untyped-def]
    assert state.kept is not None
    own, other = state.loadings[t], state.loadings[1 - t]
    observations = problem.observations
    out = np.empty((own.shape[0], 3))
    slabs = problem.loadings.slabs(state.tau, state.K)[t]
    problem.executor.map_blocks(
        update_loadings_literal, kernel_at(problem.likelihood, state.noise), own.shape[0],
        observations.side(t), observations.is_complete, Rows(own), Rows(state.kept[t]),
        Whole(other), slabs, np.uint64(problem.seed), problem.chain, sweep,
        _LOADINGS[t], Rows(out, is_read=False),
    )  # fmt: skip
    return out
