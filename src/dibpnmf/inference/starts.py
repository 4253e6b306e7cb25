"""Where chains start: a factorization cut to masks, quick or trivial, or the prior."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from dibpnmf import random as streams
from dibpnmf._compile import kernel
from dibpnmf.inference.executors import Executor, Rows, Serial, Whole, gathered
from dibpnmf.inference.gibbs import Problem, State, summarise
from dibpnmf.inference.labels import relabel, relabel_sides
from dibpnmf.likelihoods.base import Likelihood, draw_noise, kernel_at
from dibpnmf.likelihoods.rows import measure_rows
from dibpnmf.model import Model
from dibpnmf.observations import Cells, Observations
from dibpnmf.random import Stream, uniform

Floats = NDArray[np.float64]

_ITERATIONS = 60
_WORK = 2e9  # multiply-adds that a start may take
_SETTLING = 30  # moves of sticks and rates given a start
_THRESHOLD = 0.1  # share of a column's maximum below which a loading starts off
_MOST_FACTORS = 30


def default_rank(shape: tuple[int, int]) -> int:
    """Factors of the quick factorization: more than expected, for Gibbs sweeps remove the rest.

    An overcomplete start reached the best modes on planted data; too few factors never did.
    """
    return max(1, min(_MOST_FACTORS, min(shape), math.ceil(1.5 * math.sqrt(min(shape)))))


def best_start(shape: tuple[int, int], likelihood: Likelihood) -> tuple[str, int]:
    """Kind of start and its number of factors.

    A likelihood that does not keep its start removes any number of needless factors in a few
    sweeps, and needs hundreds to find those that a start lacks: a small matrix starts with all
    there can be.
    """
    if likelihood.keeps_its_start or min(shape) > _MOST_FACTORS:
        return "nmf", default_rank(shape)
    return "trivial", min(shape)


@kernel
def _multiply_rows(  # type: ignore[no-untyped-def]
    _, start: int, stop: int, cells: Cells, complete: bool, A: Floats, X: Floats, floor: float
) -> None:
    """One multiplicative update (Kullback-Leibler) of rows start..stop of A, in place."""
    K = A.shape[1]
    totals = np.zeros(K)
    for n in range(X.shape[0]):
        for k in range(K):
            totals[k] += X[n, k]
    up = np.empty(K)
    down = np.empty(K)
    for i in range(start, stop):
        for k in range(K):
            up[k] = 0.0
            down[k] = totals[k] if complete else 0.0
        for p in range(cells.indptr[i], cells.indptr[i + 1]):
            n = cells.indices[p]
            mean = floor
            for k in range(K):
                mean += A[i, k] * X[n, k]
            for k in range(K):
                up[k] += cells.values[p] / mean * X[n, k]
                if not complete:
                    down[k] += X[n, k]
        for k in range(K):
            A[i, k] = A[i, k] * up[k] / down[k] if down[k] > 0.0 else 0.0


@kernel
def _fill_uniform(s: Stream, A: Floats, low: float) -> None:
    for i in range(A.shape[0]):
        for k in range(A.shape[1]):
            A[i, k] = low + uniform(s)


def quick_factorization(
    observations: Observations, rank: int, seed: int, chain: int, executor: Executor | None = None
) -> tuple[Floats, Floats]:
    """Factorise by a fixed number of multiplicative updates, cut to masks.

    A function of the data, seed and chain only. Columns come out with equal totals on the two
    sides, those that carry most first.
    """
    s = streams.stream(seed, chain, 0, streams.START)
    A, X = (np.empty((n, rank)) for n in observations.shape)
    _fill_uniform(s, A, 0.1)
    _fill_uniform(s, X, 0.1)
    X /= rank * 0.36  # so that λ starts at about 1, the mean of the scaled data
    stored = observations.n_stored
    iterations = int(min(_ITERATIONS, max(10, _WORK / (4.0 * max(stored, 1) * rank))))
    executor = executor or Serial()
    for _ in range(iterations):
        for t, (own, other) in enumerate([(A, X), (X, A)]):
            executor.map_blocks(
                _multiply_rows, None, own.shape[0], observations.side(t),
                observations.is_complete, Rows(own), Whole(other, with_lists=False), 1e-9,
            )  # fmt: skip
    return _cut(A, X)


def trivial_factorization(observations: Observations, executor: Executor) -> tuple[Floats, Floats]:
    """Factorise as Y = I Y: each row has a factor of its own, or each column if these are fewer."""
    Y = gathered(executor, observations)
    one = np.eye(min(Y.shape))
    return _cut(one, Y.T.copy()) if Y.shape[0] <= Y.shape[1] else _cut(Y, one)


def _cut(A: Floats, X: Floats) -> tuple[Floats, Floats]:
    """Balance the two sides, switch small loadings off, and sort by share."""
    # A dead column would divide by zero: leave it dead.
    balance = np.sqrt(
        np.divide(X.mean(axis=0), A.mean(axis=0), out=np.ones(A.shape[1]), where=A.any(axis=0))
    )
    balance[balance == 0.0] = 1.0
    A *= balance
    X /= balance
    for side in (A, X):
        side[side <= _THRESHOLD * side.max(axis=0)] = 0.0
    order = np.argsort(-A.sum(axis=0) * X.sum(axis=0), kind="stable")
    for side in (A, X):
        relabel(side, np.ones(order.size), order)
    return A, X


def start_state(problem: Problem, model: Model, K: int, kind: str) -> State:
    """Start a chain with K columns from a factorization ("nmf", "trivial") or from the prior."""
    observations = problem.observations
    s = problem.stream(1, streams.START)
    draw = model.simulate(s, observations.shape, K)
    state = State(draw.loadings, draw.prior, draw.tau, noise=draw.noise)
    if kind == "prior":
        return state
    if kind == "trivial":
        factors = trivial_factorization(observations, problem.executor)
    else:
        rank = min(K, default_rank(observations.shape))
        factors = quick_factorization(
            observations, rank, problem.seed, problem.chain, problem.executor
        )
    rank = factors[0].shape[1]
    for t in range(2):
        draw.loadings[t][:] = 0.0
        draw.loadings[t][:, :rank] = factors[t]
    return _settled(s, problem, state) if model.likelihood.keeps_its_start else state


def _settled(s: Stream, problem: Problem, state: State) -> State:
    """Let everything else come to terms with the loadings of a start, which change in scale only.

    Sticks, rates and noise fresh from their priors would switch most of a start off before they
    have learned from it. Where an entry of the masks rests on few cells, as in ratings, no later
    sweep brings the factors back.
    """
    same = np.arange(state.K)
    for _ in range(_SETTLING):
        summary = summarise(state.loadings)
        prior = problem.prior.update(s, state.prior, summary.counts, problem.sizes)
        state = replace(state, prior=prior)
        scales = problem.loadings.move(s, state.tau, summary)
        relabel_sides(*state.loadings, scales, same, summary.sums)
    kernel = kernel_at(problem.likelihood, state.noise)
    observations, (A, X) = problem.observations, state.loadings
    levels = np.empty(A.shape[0])
    problem.executor.map_blocks(
        measure_rows, kernel, A.shape[0], observations.side(0), observations.is_complete,
        Rows(A, is_written=False), Whole(X), Rows(levels, is_read=False),
    )  # fmt: skip
    level = float(levels.sum())
    return replace(state, noise=draw_noise(kernel, s, observations.n_observed, level))
