"""Geweke's joint-distribution test: two ways to draw (Y, parameters) must agree.

Marginal-conditional draws come from the model forwards and are independent. Successive-
conditional draws alternate "data given parameters" with one sweep of the sampler. They are run
as many chains that each start from a forward draw, so that chains are independent and, if the
sampler is right, stationary from their first sweep: the spread of chain means is then a
standard error that holds whatever the autocorrelation within a chain.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from .cases import Case, Run, Snapshot, stack
from .errors import t_threshold
from .functions import Table, all_functions

N_CHAINS = 64


@dataclass(frozen=True)
class Outcome:
    """Statistics of all test functions of one case."""

    statistics: dict[str, float]
    threshold: float

    @property
    def worst(self) -> tuple[str, float]:
        # A statistic that is not a number is a failure, not the smallest.
        return max(
            self.statistics.items(),
            key=lambda item: abs(item[1]) if math.isfinite(item[1]) else math.inf,
        )

    @property
    def is_accepted(self) -> bool:
        return all(abs(value) < self.threshold for value in self.statistics.values())

    def describe(self) -> str:
        name, value = self.worst
        return f"largest |t| of {len(self.statistics)} is {abs(value):.2f} ({name}), " \
            f"limit {self.threshold:.2f}"  # fmt: skip


def forward_draws(case: Case, n: int, seed: int) -> Table:
    """Test functions of independent draws from the model."""
    run = Run(case.model(), case.scheme, case.pattern, seed, 0)
    snapshots = []
    for draw in range(n):
        # Chains above those of the successive-conditional runs.
        run.restart(N_CHAINS + draw)
        snapshots.append(run.snapshot())
    return all_functions(run.model, stack(snapshots), run.data.cells)


def successive_draws(case: Case, sweeps: int, seed: int, chain: int) -> Table:
    """Test functions along one successive-conditional chain."""
    run = Run(case.model(), case.scheme, case.pattern, seed, chain)
    snapshots: list[Snapshot] = []
    for _ in range(sweeps):
        run.observe(run.simulate())
        run.step()
        snapshots.append(run.snapshot())
    return all_functions(run.model, stack(snapshots), run.data.cells)


def geweke(
    case: Case, sweeps: int, n_forward: int, seed: int, level: float, n_cases: int
) -> Outcome:
    """Compare the two simulators at a family-wise level shared by ``n_cases`` cases.

    ``sweeps`` is the total over all chains.
    """
    forward = forward_draws(case, n_forward, seed)
    chains = [
        {name: x.mean() for name, x in successive_draws(case, sweeps // N_CHAINS, seed, c).items()}
        for c in range(N_CHAINS)
    ]
    statistics = {}
    for name, x in forward.items():
        means = np.array([chain[name] for chain in chains])
        error = np.hypot(means.std(ddof=1) / math.sqrt(N_CHAINS), x.std() / math.sqrt(n_forward))
        statistics[name] = float((means.mean() - x.mean()) / error)
    return Outcome(statistics, t_threshold(len(statistics) * n_cases, level, N_CHAINS - 1))
