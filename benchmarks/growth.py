"""How a sweep's time grows: exponents of M, N, stored cells and K, and a figure."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import scipy.sparse as sp

from benchmarks.measure import Row, seconds
from dibpnmf.inference.executors import Serial
from dibpnmf.inference.gibbs import Problem, State, sweep_joint
from dibpnmf.likelihoods import Exponential
from dibpnmf.likelihoods.rows import FRESH
from dibpnmf.observations import Observations
from dibpnmf.priors import BivariateBeta

_REPEATS = 11  # of which the least counts: noise only adds
_FACTORS = (1, 2, 4, 8)


def _problem(M: int, N: int, K: int, cells: int | None) -> tuple[Problem, State]:
    """Data drawn from a model with K factors, each used by a fifth of the rows and columns.

    ``cells`` is the number of observed ones, None for all: then one in fifty is not zero, however
    many the factors reach, so that with K nothing else grows.
    """
    rng = np.random.default_rng(0)
    A, X = (rng.exponential(size=(n, K)) * (rng.random((n, K)) < 0.2) for n in (M, N))
    if cells is None:
        mean = A @ X.T
        share = 0.02 / (mean > 0.0).mean()
        Y: sp.csr_array | np.ndarray = rng.exponential(mean) * (rng.random((M, N)) < share)
        observations = Observations.from_matrix(sp.csr_array(Y))
    else:
        flat = rng.choice(M * N, cells, replace=False)
        rows, columns = np.divmod(flat, N)
        means = np.einsum("ck,ck->c", A[rows], X[columns]) + 0.1
        values = rng.exponential(means) + 1e-9
        Y = sp.csr_array(sp.coo_array((values, (rows, columns)), shape=(M, N)))
        observations = Observations.from_matrix(Y, "missing")
    prior = BivariateBeta()
    problem = Problem(observations, prior, Exponential().kernel(0.1), 0, 0, Serial())
    s = problem.stream(0, 0)
    state = State((A, X / observations.scale), prior.init(s, K), np.ones(2))
    return problem, state


def _time(M: int, N: int, K: int, cells: int | None) -> float:
    problem, state = _problem(M, N, K, cells)
    times = []
    for repeat in range(_REPEATS):
        # From the same state each time: the number of factors in use is what is being varied.
        copy = State((state.loadings[0].copy(), state.loadings[1].copy()), state.prior,
                     state.tau.copy())  # fmt: skip
        times.append(seconds(lambda: sweep_joint(problem, copy, FRESH + repeat)))  # noqa: B023
    return min(times)


_SERIES: dict[str, Callable[[int], tuple[int, int, int, int | None]]] = {
    "M, complete": lambda f: (400 * f, 800, 20, None),
    "N, complete": lambda f: (800, 400 * f, 20, None),
    "K, complete, as many cells not zero": lambda f: (800, 800, 8 * f, None),
    "observed cells, others missing": lambda f: (2000, 2000, 20, 50_000 * f),
    "K, missing cells": lambda f: (1000, 1000, 8 * f, 50_000),
}


def run() -> list[Row]:
    rows, curves = [], {}
    for name, sizes in _SERIES.items():
        _time(*sizes(1))  # compile
        times = [_time(*sizes(f)) for f in _FACTORS]
        slopes = np.diff(np.log(times)) / np.diff(np.log(_FACTORS))
        exponent = float(np.polyfit(np.log(_FACTORS), np.log(times), 1)[0])
        curves[name] = times
        rows.append(
            Row(f"exponent of a sweep's time in {name}", f"sizes 1 to {_FACTORS[-1]}", exponent,
                float(slopes.min()), float(slopes.max()), "<= 1.1", exponent <= 1.1)
        )  # fmt: skip
    draw(curves, Path(__file__).parents[1] / "docs" / "figures" / "time-per-sweep.png")
    return rows


def draw(curves: dict[str, list[float]], path: Path) -> None:
    """Time of a sweep against size, both relative to the smallest, with the line of growth 1."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(figsize=(5.5, 4.0), layout="constrained")
    for name, times in curves.items():
        label = f"{name} ({times[0] * 1e3:.0f} ms at 1)"
        axes.plot(_FACTORS, np.array(times) / times[0], "o-", label=label)
    axes.plot(_FACTORS, _FACTORS, "k:", label="in proportion")
    axes.set(xscale="log", yscale="log", xlabel="size, relative to the smallest",
             ylabel="time of one sweep, relative")  # fmt: skip
    axes.set_xticks(_FACTORS, [str(f) for f in _FACTORS])
    axes.set_yticks(_FACTORS, [str(f) for f in _FACTORS])
    axes.minorticks_off()
    axes.set_ylim(top=40)  # room for the legend
    axes.legend(fontsize="small")
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=120)
    plt.close(figure)
