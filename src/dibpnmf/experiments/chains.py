"""One chain on one random 20×30 matrix of zeros and ones: the paper's synthetic run.

Three experiments read these pieces: the figures of a run, its convergence, and flexibility over
ten matrices.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from dibpnmf.datasets import make_binary
from dibpnmf.estimator import DIBPNMF
from dibpnmf.experiments.base import MODELS, Settings
from dibpnmf.experiments.fits import fit_quietly
from dibpnmf.experiments.pieces import Piece
from dibpnmf.metrics import flexibility

Floats = NDArray[np.float64]

SCHEMES = ("literal", "joint")
N_MATRICES = 10
_COLUMNS = 60  # truncation; far above what a 20×30 matrix uses


def sizes(settings: Settings) -> dict[str, Any]:
    """Sizes of the chains."""
    return {
        "matrix": "20 × 30, zeros and ones with probability 1/2",
        "matrices": N_MATRICES,
        "sweeps of a chain": settings.choose(5000, 1000),
        "start": "a draw from the prior, no warm-up dropped",
        "truncation": _COLUMNS,
    }


def pieces(settings: Settings, n_matrices: int = N_MATRICES) -> list[Piece]:
    """A chain of each model and scheme on each matrix."""
    n = settings.choose(5000, 1000)
    return [
        Piece(
            "chains:run_chain",
            {"prior": prior, "scheme": scheme, "seed": settings.seed + matrix, "n_sweeps": n},
            cost=n / 350,
        )
        for matrix in range(n_matrices)
        for scheme in SCHEMES
        for prior in MODELS
    ]


def run_chain(prior: str, scheme: str, seed: int, n_sweeps: int) -> dict[str, Any]:
    """Run one chain from the prior and keep its traces and its draw of largest likelihood."""
    Y = make_binary(random_state=seed)
    model = fit_quietly(
        DIBPNMF(prior, scheme=scheme, init="prior", max_components=_COLUMNS, n_warmup=0,
                n_draws=n_sweeps, n_chains=1, random_state=seed), Y
    )  # fmt: skip
    posterior = model.posterior_
    A, X = (np.asarray(posterior["posterior"][side])[0] for side in ("A", "X"))
    log_likelihood = np.asarray(posterior["sample_stats"]["log_likelihood"])[0]
    best = int(np.argmax(log_likelihood))
    used = [np.any(side > 0, axis=1) for side in (A, X)]
    half = slice(n_sweeps // 2, None)
    spread = [_flexibility(a, x) for a, x in zip(A[half], X[half], strict=True)]
    mean = np.mean([a @ x.T for a, x in zip(A[half], X[half], strict=True)], axis=0)
    keep = used[0][best] & used[1][best]
    return {
        "log_likelihood": np.round(log_likelihood, 2),
        "K": np.sum(used[0] & used[1], axis=1),
        "K1": np.sum(used[0], axis=1),
        "K2": np.sum(used[1], axis=1),
        "best": best,
        "A": np.round(A[best][:, keep], 5),
        "X": np.round(X[best][:, keep], 5),
        "posterior_mean": np.round(mean + model.epsilon_, 5),
        "epsilon": model.epsilon_,
        "flexibility_best": _flexibility(A[best], X[best]),
        "flexibility_mean": float(np.mean(spread)),
    }


def _flexibility(A: Floats, X: Floats) -> float:
    """Mean difference of supports over the columns in use on both sides."""
    used = A.any(axis=0) & X.any(axis=0)
    return flexibility(A[:, used], X[:, used])


def sweeps_to_converge(log_likelihood: Floats) -> int:
    """First sweep from which the running mean is at the level that the chain ends at.

    The running mean is over 1/80 of the chain; the level is the mean of the last quarter less one
    standard deviation of it.
    """
    trace = np.asarray(log_likelihood, dtype=np.float64)
    end = trace[-(len(trace) // 4) :]
    width = max(1, len(trace) // 80)
    running = np.convolve(trace, np.ones(width) / width, mode="valid")
    return int(np.argmax(running >= end.mean() - end.std())) + 1
