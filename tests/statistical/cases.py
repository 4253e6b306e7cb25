"""Every case of the suite: prior × likelihood × scheme × data, read from the registries.

Priors of loadings other than the shared rate come on top. A prior, likelihood or scheme that is
added to its registry is put through the whole suite by that alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import product
from typing import Any, NamedTuple

import numpy as np

from dibpnmf.inference.chain import SCHEMES
from dibpnmf.inference.executors import Serial
from dibpnmf.inference.gibbs import Info, Problem, State
from dibpnmf.likelihoods import LIKELIHOODS, Likelihood
from dibpnmf.loadings import LOADINGS
from dibpnmf.model import Model
from dibpnmf.observations import Observations
from dibpnmf.priors import PRIORS
from dibpnmf.random import START, stream

SHAPE = (3, 4)
K = 3
EPSILON = 0.1
UNIT = 2.5  # what counts come in, as they do in a fit: the mean of the data is 1
# The last column has no observed cell and the last row only one.
PATTERNS = {
    "complete": np.ones(SHAPE, bool),
    "missing": np.array([[1, 0, 1, 0], [1, 1, 1, 0], [0, 1, 0, 0]], bool),
}


def likelihood_of(name: str) -> Likelihood:
    """A likelihood as it is used on data that were divided by their mean."""
    return LIKELIHOODS[name]().in_units_of(UNIT)


@dataclass(frozen=True)
class Case:
    """One sampler on one kind of data."""

    prior: str
    likelihood: str
    scheme: str
    data: str
    loadings: str = "shared"

    def __str__(self) -> str:
        name = "/".join((self.prior, self.likelihood, self.scheme, self.data))
        return name if self.loadings == "shared" else f"{name}/{self.loadings}"

    @property
    def pattern(self) -> np.ndarray:
        return PATTERNS[self.data]

    def model(self, epsilon: float = EPSILON, **prior_params: float) -> Model:
        return Model(
            PRIORS[self.prior].from_params(prior_params), likelihood_of(self.likelihood), epsilon,
            LOADINGS[self.loadings](),
        )  # fmt: skip


def _with_loadings() -> Iterator[Case]:
    """Other priors of loadings with all that takes them, the prior of masks another each time.

    The two kinds of prior meet through masks and loadings only.
    """
    for at, (loadings, likelihood, data) in enumerate(product(LOADINGS, LIKELIHOODS, PATTERNS)):
        fits = likelihood == "gaussian" or not LOADINGS[loadings].needs_gaussian
        if loadings != "shared" and fits:
            yield Case(list(PRIORS)[at % len(PRIORS)], likelihood, "joint", data, loadings)


CASES = [Case(*parts) for parts in product(PRIORS, LIKELIHOODS, SCHEMES, PATTERNS)]
WITH_LOADINGS = list(_with_loadings())
CASES += WITH_LOADINGS


def fast(likelihood: str, prior: str, scheme: str, data: str, loadings: str = "shared") -> bool:
    """Whether the fast suite runs a combination; the slow suite runs them all.

    All of the first likelihood. Of every other one each kind of data with both schemes, the
    prior another one each time: priors meet likelihoods through masks and loadings only. Of the
    other priors of loadings those with a Gaussian likelihood, which all of them go with.
    """
    if loadings != "shared":
        return likelihood == "gaussian"
    names = [list(LIKELIHOODS), list(PRIORS), list(SCHEMES), list(PATTERNS)]
    at = [part.index(x) for part, x in zip(names, (likelihood, prior, scheme, data), strict=True)]
    return at[0] == 0 or at[1] == (at[0] + at[2] + at[3]) % len(PRIORS)


FAST_CASES = [
    case
    for case in CASES
    if fast(case.likelihood, case.prior, case.scheme, case.data, case.loadings)
]


def parse_case(text: str) -> Case:
    return Case(*text.split("/"))


class Snapshot(NamedTuple):
    """What is kept of every sweep, stacked along the first axis once a run has ended."""

    A: Any
    X: Any
    tau: Any
    noise: Any
    log_odds: Any
    prior: Any
    y: Any
    log_likelihood: Any


class Data:
    """Observed cells whose values can be replaced in place, for both sides at once."""

    def __init__(self, pattern: np.ndarray) -> None:
        self.cells = np.nonzero(pattern)
        # Any positive number makes a cell stored; the value is replaced.
        self.observations = Observations.from_matrix(
            np.where(pattern, 1.0, np.nan), "observed", scale=1.0
        )
        by_row, by_column = self.observations.by_side
        position = np.zeros(pattern.shape, int)
        position[self.cells] = np.arange(len(self.cells[0]))
        columns = np.repeat(np.arange(pattern.shape[1]), np.diff(by_column.indptr))
        self._transposed = position[by_column.indices, columns]
        assert by_row.values.size == by_column.values.size == len(self.cells[0])

    def replace(self, y: np.ndarray) -> None:
        by_row, by_column = self.observations.by_side
        by_row.values[:] = y
        by_column.values[:] = y[self._transposed]


class Run:
    """A model, its data and a chain's state, moved one sweep at a time."""

    def __init__(
        self, model: Model, scheme: str, pattern: np.ndarray, seed: int, chain: int, K: int = K
    ) -> None:
        self.model = model
        self.data = Data(pattern)
        self.sweep: Callable[..., tuple[State, Info]] = SCHEMES[scheme]
        self.seed, self.K = seed, K
        kernel = model.likelihood.kernel(model.epsilon)
        self.problem = Problem(
            self.data.observations, model.prior, kernel, seed, chain, Serial(), model.loadings
        )
        self.restart(chain)

    def restart(self, chain: int) -> None:
        """Draw parameters and data afresh from the model."""
        self.problem = replace(self.problem, chain=chain)
        self.rng = np.random.default_rng([self.seed, chain])
        shape = self.data.observations.shape
        draw = self.model.simulate(stream(self.seed, chain, 0, START), shape, self.K)
        self.state = State(draw.loadings, draw.prior, draw.tau, noise=draw.noise)
        self.observe(self.simulate())
        self.log_likelihood = np.nan
        self.at = 0

    def mean(self) -> np.ndarray:
        """Mean λ of the observed cells."""
        return self.model.mean(self.state.loadings)[self.data.cells]

    def simulate(self) -> np.ndarray:
        """Draw the data from the present state."""
        return self.model.likelihood.at(self.state.noise).simulate(self.rng, self.mean())

    def observe(self, y: np.ndarray) -> None:
        self.y = y
        self.data.replace(y)
        self.problem = replace(self.problem)  # a new one, which has not seen the data before

    def step(self) -> None:
        self.state, info = self.sweep(self.problem, self.state, self.at)
        self.log_likelihood = info.log_likelihood
        self.at += 1

    def snapshot(self) -> Snapshot:
        state = self.state
        A, X = state.loadings
        return Snapshot(
            A.copy(), X.copy(), state.tau.copy(), state.noise.copy(),
            self.model.prior.log_odds(state.prior),
            type(state.prior)(*(field.copy() for field in state.prior)),
            self.y, self.log_likelihood,
        )  # fmt: skip


def stack(snapshots: list[Snapshot]) -> Snapshot:
    """Turn a list of snapshots into one of arrays with a leading axis of draws."""
    fields = zip(*snapshots, strict=True)
    return Snapshot(
        *(
            type(field[0])(*(np.stack(part) for part in zip(*field, strict=True)))
            if isinstance(field[0], tuple)
            else np.stack(field)
            for field in fields
        )
    )


def run_on_data(run: Run, y: np.ndarray, sweeps: int, thin: int = 1) -> Iterator[Snapshot]:
    """Sweep with the data held, yielding every thin-th state."""
    run.observe(y)
    for sweep in range(sweeps):
        run.step()
        if sweep % thin == thin - 1:
            yield run.snapshot()
