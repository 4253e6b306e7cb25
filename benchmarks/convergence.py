"""Sweeps until the log likelihood has made 95% of its way, on the paper's 20×30 matrix."""

from __future__ import annotations

import warnings

import numpy as np

from benchmarks.measure import Row
from dibpnmf.datasets import make_binary
from dibpnmf.inference.background import background_rate
from dibpnmf.inference.chain import Schedule, run_chain
from dibpnmf.inference.executors import Serial
from dibpnmf.inference.gibbs import Info, Problem, State
from dibpnmf.inference.starts import best_start, start_state
from dibpnmf.likelihoods import Exponential
from dibpnmf.model import Model
from dibpnmf.observations import Observations
from dibpnmf.priors import PRIORS
from dibpnmf.sampling import first_truncation

_SWEEPS, _SEEDS = 2000, 10
_PAPER = {"bivariate-beta": 200, "copula": 500, "gaussian-process": 1500}


class _Trace:
    """Log likelihood of every sweep."""

    def __init__(self) -> None:
        self.values: list[float] = []

    def report(self, chain: int, sweep: int, K: int, log_likelihood: float) -> None:
        self.values.append(log_likelihood)

    def should_stop(self) -> bool:
        return False

    def record(self, state: State, info: Info) -> None:
        pass


def trace(name: str, scheme: str, seed: int) -> np.ndarray:
    """Log likelihood from the start on, of a chain as `DIBPNMF` runs its first one."""
    observations = Observations.from_matrix(make_binary(random_state=seed))
    epsilon = background_rate(observations, seed)
    prior = PRIORS[name]()
    problem = Problem(observations, prior, Exponential().kernel(epsilon), seed, 0, Serial())
    kind, rank = best_start(observations.shape, Exponential())
    state = start_state(
        problem, Model(prior, Exponential(), epsilon), first_truncation(kind, rank), kind
    )
    watch = _Trace()
    run_chain(problem, state, Schedule(_SWEEPS // 2, _SWEEPS // 2, 1, scheme, 100), watch, watch)
    return np.array(watch.values)


def sweeps_to_level(values: np.ndarray) -> int:
    """Sweeps until 95% of the way from the first sweep to the mean of the last quarter.

    Of the way, not of the rise: a start may lie above the level that is kept.
    """
    way = values[-len(values) // 4 :].mean() - values[0]
    return int(np.argmax((values - values[0]) * np.sign(way) >= 0.95 * abs(way))) + 1


def sweeps_to_settle(values: np.ndarray) -> int:
    """Sweeps until the mean of the next 50 is within two deviations of the last quarter's."""
    tail = values[-len(values) // 4 :]
    blocks = np.convolve(values, np.full(50, 1 / 50), "valid")
    return int(np.argmax(np.abs(blocks - tail.mean()) <= 2.0 * tail.std()))


def run() -> list[Row]:
    rows = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name in PRIORS:
            traces = {
                scheme: [trace(name, scheme, seed) for seed in range(_SEEDS)]
                for scheme in ("joint", "literal")
            }
            needed = {s: np.array([sweeps_to_level(t) for t in traces[s]]) for s in traces}
            level = {s: np.array([t[-_SWEEPS // 4 :].mean() for t in traces[s]]) for s in traces}
            settled = [sweeps_to_settle(t) for t in traces["joint"]]
            low, middle, high = np.quantile(needed["joint"], [0.1, 0.5, 0.9])
            rows.append(
                Row(f"sweeps to 95% of the way, joint, 20×30 binary, {name} (worst of "
                    f"{_SEEDS}: {needed['joint'].max()}; settled after {np.median(settled):.0f}, "
                    f"at worst {max(settled)})",
                    f"literal {np.median(needed['literal']):.0f}, the paper {_PAPER[name]}",
                    middle, low, high, "<= 50", bool(needed["joint"].max() <= 50))
            )  # fmt: skip
            gap = level["joint"] - level["literal"]
            spread = level["literal"].std(ddof=1)
            low, middle, high = np.quantile(gap, [0.1, 0.5, 0.9])
            rows.append(
                Row(f"log likelihood reached, joint, {name}",
                    f"literal's (difference, not ratio; its spread over seeds is {spread:.0f})",
                    middle, low, high, f">= {-spread:.0f}", bool(middle >= -spread))
            )  # fmt: skip
    return rows
