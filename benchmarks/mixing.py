"""ESS per second of log likelihood and of K: the joint scheme against the literal one.

Effective sizes are of four chains from different starts together: a chain that is stuck looks
well mixed by itself, and only the others tell that it is not. Half of the chains start from the
prior; on the random binary matrix these need thousands of sweeps to meet the others, and runs are
several times as long, in either scheme: chains that have not met have an effective size of about
one each, however few their draws. R-hat is told beside each line: near 1, or the effective size
means little. Under the Gaussian process prior, and no other, the literal scheme's chains meet
after some more sweeps, and are measured again with so many. Seconds are of processor time, in one
thread, warm-up included.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from benchmarks.measure import Row
from dibpnmf import DIBPNMF
from dibpnmf.datasets import make_binary, make_planted
from dibpnmf.priors import PRIORS


class _Case(NamedTuple):
    make: Callable[[int], np.ndarray]
    n_warmup: int
    n_draws: int
    n_thin: int
    n_seeds: int
    priors: tuple[str, ...] = tuple(PRIORS)


def _binary(seed: int) -> np.ndarray:
    return make_binary(random_state=seed)


def _planted(seed: int) -> np.ndarray:
    return make_planted(random_state=seed).data


_DATA = {
    "20×30 binary": _Case(_binary, 8000, 6400, 5, 5),
    "20×30 binary, 100,000 sweeps": _Case(_binary, 20_000, 16_000, 5, 5, ("gaussian-process",)),
    "planted 100×80": _Case(_planted, 500, 1000, 1, 9),
}
_SCALARS = {"log likelihood": "log_likelihood", "K": "n_active"}


def _mixing(case: _Case, prior: str, scheme: str, seed: int) -> np.ndarray:
    """ESS a second and R-hat of each scalar."""
    model = DIBPNMF(prior, scheme=scheme, n_warmup=case.n_warmup, n_draws=case.n_draws,
                    n_thin=case.n_thin, n_chains=4, random_state=seed, progress=False)  # fmt: skip
    start = time.process_time()
    model.fit(case.make(seed))
    elapsed = time.process_time() - start
    table = model.diagnostics_
    return np.array([
        [table["ess_bulk"][name] / elapsed, table["r_hat"][name]] for name in _SCALARS.values()
    ])  # fmt: skip


def run(data: tuple[str, ...] = tuple(_DATA), priors: tuple[str, ...] = tuple(PRIORS)) -> list[Row]:
    rows = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name, case in ((name, _DATA[name]) for name in data):
            for prior in (prior for prior in priors if prior in case.priors):
                for scheme in ("joint", "literal"):  # compiled beforehand
                    _mixing(case._replace(n_warmup=20, n_draws=5), prior, scheme, 0)
                found = np.array([
                    [_mixing(case, prior, scheme, seed) for scheme in ("joint", "literal")]
                    for seed in range(case.n_seeds)
                ])  # fmt: skip
                found = found.swapaxes(0, 1)
                for column, scalar in enumerate(_SCALARS):
                    ratio = found[0, :, column, 0] / found[1, :, column, 0]
                    r_hat = np.median(found[:, :, column, 1], axis=1)
                    low, middle, high = np.quantile(ratio, [0.1, 0.5, 0.9])
                    rows.append(
                        Row(f"ESS/s of {scalar}, joint (R-hat {r_hat[0]:.2f}), {name}, {prior}",
                            f"literal (R-hat {r_hat[1]:.2f})", middle, low, high, ">= 10",
                            bool(middle >= 10.0))
                    )  # fmt: skip
    return rows
