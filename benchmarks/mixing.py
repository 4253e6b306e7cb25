"""ESS per second of log likelihood and of K: the joint scheme against the literal one.

Effective sizes are of four chains from different starts together: a chain that is stuck looks
well mixed by itself, and only the others tell that it is not. Seconds are of processor time, in
one thread.
"""

from __future__ import annotations

import time
import warnings

import numpy as np

from benchmarks.measure import Row
from dibpnmf import DIBPNMF
from dibpnmf.datasets import make_binary, make_planted
from dibpnmf.priors import PRIORS

_DATA = {
    "20×30 binary": lambda seed: make_binary(random_state=seed),
    "planted 100×80": lambda seed: make_planted(random_state=seed).data,
}
_SEEDS = 3


def _rate(Y: np.ndarray, prior: str, scheme: str, seed: int) -> np.ndarray:
    model = DIBPNMF(prior, scheme=scheme, n_warmup=500, n_draws=1000, n_chains=4,
                    random_state=seed, progress=False)  # fmt: skip
    start = time.process_time()
    model.fit(Y)
    elapsed = time.process_time() - start
    ess = model.diagnostics_["ess_bulk"]
    return np.array([ess["log_likelihood"], ess["n_active"]]) / elapsed


def run(data: tuple[str, ...] = tuple(_DATA), seeds: int = _SEEDS) -> list[Row]:
    rows = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name in data:
            for prior in PRIORS:
                pairs = np.array([
                    _rate(_DATA[name](seed), prior, "joint", seed)
                    / _rate(_DATA[name](seed), prior, "literal", seed)
                    for seed in range(seeds)
                ])  # fmt: skip
                for column, scalar in enumerate(("log likelihood", "K")):
                    low, middle, high = np.quantile(pairs[:, column], [0.0, 0.5, 1.0])
                    rows.append(
                        Row(f"ESS/s of {scalar}, joint, {name}, {prior}", "literal", middle, low,
                            high, ">= 10", bool(middle >= 10.0))
                    )  # fmt: skip
    return rows
