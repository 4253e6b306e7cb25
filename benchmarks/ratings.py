"""Held-out error on MovieLens-100K's official folds, with the number of factors learned.

    python -m benchmarks.ratings                       # five folds, every model
    python -m benchmarks.ratings --folds 1 --models gaussian/truncated-normal --chains 2

MAE and RMSE of the posterior mean clipped to [1, 5], and MAE of the predictive median. Nothing
is tuned on the test folds.
"""

from __future__ import annotations

import argparse
import time
import warnings

import numpy as np
import scipy.sparse as sp

from dibpnmf import DIBPNMF
from dibpnmf.datasets import fetch_movielens_100k

_LEVELS = (1, 2, 3, 4, 5)
_MODELS = [
    "exponential/shared", "poisson/shared", "gaussian/shared", "gaussian/per-factor",
    "gaussian/truncated-normal",
]  # fmt: skip


def errors(fold: int, model_name: str, chains: int, sweeps: int) -> dict[str, float]:
    """Fit one fold, a third of the sweeps as warm-up; errors on its test cells."""
    likelihood, loadings = model_name.split("/")
    ratings = fetch_movielens_100k(fold)
    rows, columns, values = ratings.train
    Y = sp.csr_array(sp.coo_array((values.astype(float), (rows, columns)), shape=ratings.shape))
    model = DIBPNMF(likelihood=likelihood, loadings=loadings, zeros="missing", init="nmf",
                    n_warmup=sweeps // 3, n_draws=sweeps - sweeps // 3, n_chains=chains,
                    random_state=fold, n_jobs=-1)  # fmt: skip
    start, cpu = time.perf_counter(), time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.fit(Y)
    elapsed, worked = time.perf_counter() - start, time.process_time() - cpu
    rows, columns, truth = ratings.test
    mean = np.clip(model.predict(rows, columns), 1.0, 5.0)
    median = model.predict(rows, columns, point="median", levels=_LEVELS)
    return {
        "MAE": float(np.mean(np.abs(mean - truth))),
        "RMSE": float(np.sqrt(np.mean((mean - truth) ** 2))),
        "MAE of median": float(np.mean(np.abs(median - truth))),
        "K": float(np.mean([record.n_active for record in model._records])),
        "seconds": elapsed,
        "CPU seconds": worked,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--folds", type=int, nargs="+", default=[1, 2, 3, 4, 5])
    parser.add_argument("--models", nargs="+", default=_MODELS)
    parser.add_argument("--chains", type=int, default=4)
    parser.add_argument("--sweeps", type=int, default=300)
    options = parser.parse_args()
    print(f"{options.chains} chains of {options.sweeps} sweeps")
    for name in options.models:
        table = []
        for fold in options.folds:
            table.append(errors(fold, name, options.chains, options.sweeps))
            _show(f"{name}, fold {fold}", table[-1])
        if len(table) > 1:
            _show(f"{name}, mean", {k: np.mean([row[k] for row in table]) for k in table[0]})


def _show(name: str, row: dict[str, float]) -> None:
    figures = "  ".join(f"{key} {value:.4g}" for key, value in row.items())
    print(f"{name:<34} {figures}", flush=True)


if __name__ == "__main__":
    main()
