"""Loadings of a point estimate: their posterior mean given one draw's masks.

A single draw's loadings scatter about their mean by as much as the posterior is wide. The masks
say which factors there are and who uses them; given masks, the loadings have one mode and can be
averaged.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from dibpnmf import random as streams
from dibpnmf._compile import kernel
from dibpnmf.inference.executors import Rows, Whole
from dibpnmf.inference.gibbs import Problem
from dibpnmf.likelihoods.rows import HELD, update_rows

Floats = NDArray[np.float64]
Sides = tuple[Floats, Floats]

_WARMUP = 10
_PURPOSE = (streams.ROW_LOADINGS, streams.COLUMN_LOADINGS)


@kernel
def add_scaled(total: Floats, side: Floats, scale: Floats) -> None:
    """Add the columns of a side, each times its scale, in place: no third array is made."""
    for i in range(side.shape[0]):
        for k in range(side.shape[1]):
            total[i, k] += side[i, k] * scale[k]


def mean_given_masks(problem: Problem, loadings: Sides, slabs: Floats, n_sweeps: int) -> Sides:
    """Average ``n_sweeps`` draws of the loadings with masks and slabs held, Eq. (21).

    ``loadings`` serve as working memory. Each draw's columns are brought to the given columns'
    scale on the row side, so that the product's scale stays where it belongs.
    """
    own = [np.ascontiguousarray(side) for side in loadings]
    if own[0].shape[1] == 0 or n_sweeps == 0:
        return own[0], own[1]
    target = own[0].sum(axis=0)
    total = [np.zeros_like(side) for side in own]
    for sweep in range(_WARMUP + n_sweeps):
        for t in range(2):
            _update(problem, own, t, slabs[t], sweep)
        if sweep >= _WARMUP:
            sums = own[0].sum(axis=0)
            scale = np.divide(target, sums, out=np.ones_like(sums), where=sums > 0.0)
            add_scaled(total[0], own[0], scale)
            add_scaled(total[1], own[1], 1.0 / scale)
    for side in total:
        side /= n_sweeps
    return total[0], total[1]


def _update(problem: Problem, own: list[Floats], t: int, slabs: Floats, sweep: int) -> None:
    observations = problem.observations
    out = Rows(np.empty((own[t].shape[0], 3)), is_read=False, is_written=False)
    problem.executor.map_blocks(
        update_rows, problem.likelihood, own[t].shape[0],
        observations.side(t), observations.is_complete, Rows(own[t]),
        Whole(own[1 - t], for_all_cells=observations.is_complete), np.full(own[t].shape[1], HELD),
        slabs, np.uint64(problem.seed), problem.chain, sweep, _PURPOSE[t], out,
    )  # fmt: skip
