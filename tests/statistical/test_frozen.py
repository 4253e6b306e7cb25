"""Nothing is tuned after warm-up: the truncation grows before the first draw or not at all."""

from __future__ import annotations

import numpy as np
import pytest

from dibpnmf.inference.chain import SCHEMES, Schedule, run_chain
from dibpnmf.inference.executors import Serial
from dibpnmf.inference.gibbs import Problem, State
from dibpnmf.observations import Observations
from dibpnmf.random import START, stream

from .cases import CASES

K_START = 2


class Sizes:
    """Records the truncation of every draw and never asks to stop."""

    def __init__(self) -> None:
        self.draws: list[int] = []
        self.sweeps = 0

    def record(self, state, info) -> None:
        self.draws.append(state.K)

    def report(self, chain, sweep, K, log_likelihood) -> None:
        self.sweeps = sweep

    def should_stop(self) -> bool:
        return False


def run_from_too_few(scheme: str, n_warmup: int) -> tuple[State, Sizes]:
    """A chain that starts with two columns on data that need more."""
    model = CASES[0].model(a=4.0, b=4.0)
    rng = np.random.default_rng(0)
    mean = np.kron(np.eye(6), np.full((4, 4), 30.0)) + 0.1
    data = Observations.from_matrix(model.likelihood.simulate(rng, mean), "observed", scale=1.0)
    kernel = model.likelihood.kernel(model.epsilon)
    problem = Problem(data, model.prior, kernel, 3, 0, Serial())
    draw = model.simulate(stream(3, 0, 0, START), data.shape, K_START)
    state = State(tuple(np.ones_like(side) for side in draw.loadings), draw.prior, draw.tau)
    sizes = Sizes()
    # Thinned by three: the sweeps at which growth is looked at are not all recorded ones.
    schedule = Schedule(n_warmup, 40, 3, scheme, 20)
    return run_chain(problem, state, schedule, sizes, sizes), sizes


@pytest.mark.parametrize("scheme", SCHEMES)
def test_truncation_grows_during_warmup_only(scheme):
    state, sizes = run_from_too_few(scheme, 60)
    assert sizes.sweeps == 180
    assert len(sizes.draws) == 40
    assert sizes.draws[0] > K_START
    assert set(sizes.draws) == {state.K}


@pytest.mark.parametrize("scheme", SCHEMES)
def test_truncation_never_grows_without_warmup(scheme):
    """The same data would make it grow at once, were it allowed to."""
    state, sizes = run_from_too_few(scheme, 0)
    assert set(sizes.draws) == {K_START}
    assert state.K == K_START
