"""Simulation-based calibration: ranks of the truth among posterior draws must be uniform.

Each replicate draws parameters and data from the model and runs a chain on that data. The
chain starts at the true parameters, which are a draw from their posterior, so it is stationary;
draws are kept only after a warm-up that lets it forget the truth, and thinned.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy import stats

from .cases import SHAPE, Case, Run, Snapshot, run_on_data, stack
from .errors import effective_size

N_DRAWS = 31  # 32 ranks
N_BINS = 16
WARMUP = 120
THIN = {"joint": 6, "literal": 24}


@dataclass(frozen=True)
class Ranks:
    """Ranks of one case, scaled to (0, 1): one row a replicate, one column a quantity."""

    names: list[str]
    values: np.ndarray
    effective: float  # median share of independent draws among those kept

    def counts(self) -> dict[str, list[int]]:
        """How often each rank occurred."""
        edges = np.linspace(0.0, 1.0, N_DRAWS + 2)
        columns = zip(self.names, self.values.T, strict=True)
        return {name: np.histogram(u, edges)[0].tolist() for name, u in columns}

    def p_values(self) -> dict[str, float]:
        """Three tests a quantity: of the shape, of bias, and of spread (on folded ranks)."""
        result = {}
        for name, u in zip(self.names, self.values.T, strict=True):
            seen = np.histogram(u, bins=N_BINS, range=(0.0, 1.0))[0]
            result[f"{name}, shape"] = float(stats.chisquare(seen).pvalue)
            result[f"{name}, bias"] = float(stats.kstest(u, "uniform").pvalue)
            result[f"{name}, spread"] = float(stats.kstest(np.abs(2 * u - 1), "uniform").pvalue)
        return result


def quantities(run: Run, trace: Snapshot, cells: np.ndarray) -> np.ndarray:
    """θ, τ, noise, columns in use, log likelihood and three cells of λ, one row a draw."""
    mean = np.einsum("nik,njk->nij", trace.A, trace.X)
    used = ((trace.A > 0.0).any(axis=1) & (trace.X > 0.0).any(axis=1)).sum(axis=1)
    log_likelihood = (
        run.model.likelihood.at(trace.noise)
        .log_density(run.y, mean[:, run.data.cells[0], run.data.cells[1]] + run.model.epsilon)
        .sum(axis=1)
    )
    three = mean[:, cells[:, 0], cells[:, 1]]
    tau = trace.tau[..., 0] if run.model.loadings.by_column else trace.tau
    tau = tau.reshape(len(tau), -1)
    return np.column_stack([trace.prior.theta, tau, trace.noise, used, log_likelihood, three])


# Of by-column priors of loadings, the parameters of the first column.
TAU_NAMES = {
    "shared": ["τ1", "τ2"],
    "per-factor": ["τ1[1]", "τ2[1]"],
    "truncated-normal": ["μ1[1]", "p1[1]", "μ2[1]", "p2[1]"],
}


def quantity_names(case: Case) -> list[str]:
    model = case.model()
    return [
        *model.prior.theta_names, *TAU_NAMES[case.loadings], *model.likelihood.noise_names,
        "columns in use", "log likelihood", "λ a", "λ b", "λ c",
    ]  # fmt: skip


def replicate(case: Case, seed: int, chain: int) -> tuple[np.ndarray, float]:
    """Ranks of the truth in one replicate, and the effective share of its draws."""
    run = Run(case.model(), case.scheme, case.pattern, seed, chain)
    cells = run.rng.integers(0, SHAPE, size=(3, 2))
    start = run.snapshot()
    thin = THIN.get(case.scheme, 24)
    snapshots = list(run_on_data(run, run.y, WARMUP + thin * N_DRAWS, thin))[-N_DRAWS:]
    # Truth and draws in one array: summed apart, equal cells may differ by a rounding, and a truth
    # without any factor, which is common, would then rank first or last instead of tying.
    truth, *draws = quantities(run, stack([start, *snapshots]), cells)
    draws = np.array(draws)
    # Ties, as of the number of columns and of cells without any factor, are broken at random.
    below = (draws < truth).sum(axis=0)
    equal = (draws == truth).sum(axis=0)
    rank = below + run.rng.integers(0, equal + 1)
    share = np.mean([effective_size(column) for column in draws.T]) / N_DRAWS
    return (rank + run.rng.random(rank.size)) / (N_DRAWS + 1.0), share


def calibrate(case: Case, n_replicates: int, seed: int) -> Ranks:
    rows, shares = zip(*(replicate(case, seed, c) for c in range(n_replicates)), strict=True)
    return Ranks(quantity_names(case), np.array(rows), float(np.median(shares)))
