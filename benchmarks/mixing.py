"""ESS per second of log likelihood and of K: the joint scheme against the literal one."""

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
    model = DIBPNMF(prior, scheme=scheme, n_warmup=300, n_draws=1000, n_chains=1,
                    random_state=seed, progress=False)  # fmt: skip
    start = time.perf_counter()
    model.fit(Y)
    elapsed = time.perf_counter() - start
    ess = model.diagnostics_["ess_bulk"]
    return np.array([ess["log_likelihood"], ess["n_active"]]) / elapsed


def run() -> list[Row]:
    rows = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name, make in _DATA.items():
            for prior in PRIORS:
                pairs = np.array([
                    _rate(make(seed), prior, "joint", seed)
                    / _rate(make(seed), prior, "literal", seed)
                    for seed in range(_SEEDS)
                ])  # fmt: skip
                for column, scalar in enumerate(("log likelihood", "K")):
                    low, middle, high = np.quantile(pairs[:, column], [0.0, 0.5, 1.0])
                    rows.append(
                        Row(f"ESS/s of {scalar}, joint, {name}, {prior}", "literal", middle, low,
                            high, ">= 10", bool(middle >= 10.0))
                    )  # fmt: skip
    return rows
