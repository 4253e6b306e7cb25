"""Background rate ε, estimated before any chain: the mean of the cells that no factor covers.

The factors are those of a quick factorization first. Its masks are cut crudely and leave cells
uncovered that have some signal, so that ε comes out several times too large. Given that ε, some
sweeps of a pilot chain find better masks, and these a better ε, and so on: two rounds are enough
where much of the matrix is background.

Some likelihoods do without a pilot, or on some data (`Likelihood.trusts_pilot`).
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from dibpnmf.inference.chain import Monitor
from dibpnmf.inference.executors import Executor, Rows, Serial, Whole
from dibpnmf.inference.gibbs import Problem, sweep_joint
from dibpnmf.inference.starts import default_rank, quick_factorization, start_state
from dibpnmf.model import Model
from dibpnmf.observations import Cells, Observations

Floats = NDArray[np.float64]

PILOT = 2**24 - 1  # number of the pilot chain: the last that streams can name
N_SWEEPS = 20
_ROUND = 10  # sweeps between two estimates
_LEAST, _MOST = 0.01, 1.0
_ENOUGH = 10  # uncovered cells, to take a mean of
_MANY_CELLS = 2_000_000  # of more, some rows are chosen


def _add_uncovered(  # type: ignore[no-untyped-def]
    _, start: int, stop: int, cells: Cells, complete: bool, A: Floats, X: Floats, chosen, out
) -> None:
    """Total and number of the cells that no factor covers, for each row that is chosen."""
    for i in range(start, stop):
        if chosen[i]:
            part = slice(cells.indptr[i], cells.indptr[i + 1])
            columns = cells.indices[part]
            uncovered = (X @ A[i]) == 0.0
            out[i, 0] = cells.values[part][uncovered[columns]].sum()
            out[i, 1] = (uncovered if complete else uncovered[columns]).sum()


def _uncovered_mean(
    observations: Observations,
    A: Floats,
    X: Floats,
    seed: int,
    executor: Executor,
    otherwise: float,
) -> float:
    """Mean of the cells that no factor covers, within bounds; ``otherwise`` if they are too few."""
    rng = np.random.default_rng(seed)
    M, N = observations.shape
    few = max(1, _MANY_CELLS // N)
    rows = np.arange(M) if few >= M else rng.choice(M, few, False)
    chosen = np.zeros(M, np.bool_)
    chosen[rows] = True
    out = np.empty((M, 2))
    executor.map_blocks(
        _add_uncovered, None, M, observations.side(0), observations.is_complete,
        Rows(A, is_written=False), Whole(X, with_lists=False), Rows(chosen, is_written=False),
        Rows(out, is_read=False),
    )  # fmt: skip
    total, covered_by_none = np.cumsum(out[rows], axis=0)[-1]  # in this order, whatever the blocks
    if covered_by_none < _ENOUGH:
        return otherwise
    return float(np.clip(total / covered_by_none, _LEAST, _MOST))


def background_rate(
    observations: Observations, seed: int, executor: Executor | None = None
) -> float:
    """Estimate ε, relative to the mean, by a quick factorization.

    On sparse binary text this is the rate of words outside any topic; on data whose factors
    explain everything it is near zero and 0.01 is returned. Cells are sampled where there are
    many.
    """
    executor = executor or Serial()
    rank = default_rank(observations.shape)
    A, X = quick_factorization(observations, rank, seed, 0, executor)
    return _uncovered_mean(observations, A, X, seed, executor, _LEAST)


def refined_rate(problem: Problem, model: Model, K: int, kind: str, monitor: Monitor) -> float:
    """Estimate ε by a pilot chain from a start with K columns, its model's ε being a first guess.

    The monitor may stop it; the estimate is then unfinished.
    """
    epsilon = model.epsilon
    state = start_state(problem, model, K, kind)
    for sweep in range(N_SWEEPS):
        state, info = sweep_joint(problem, state, sweep)
        monitor.report(0, sweep + 1, info.n_active, info.log_likelihood)
        if monitor.should_stop():
            break
        if sweep % _ROUND == _ROUND - 1:
            epsilon = _uncovered_mean(
                problem.observations, *state.loadings, problem.seed, problem.executor, epsilon
            )
            problem = replace(problem, likelihood=model.likelihood.kernel(epsilon))
    return epsilon
