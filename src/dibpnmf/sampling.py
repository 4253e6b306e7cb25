"""From a model's parameters and a matrix to the records of its chains."""

from __future__ import annotations

import math
import os
import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from numbers import Integral
from typing import TYPE_CHECKING, Any, NamedTuple

from joblib import effective_n_jobs
from numba.core.config import NUMBA_NUM_THREADS  # type: ignore[attr-defined]

from dibpnmf._memory import give_back_free_memory
from dibpnmf._parameters import starts_of
from dibpnmf._progress import Progress, should_show
from dibpnmf.inference import starts
from dibpnmf.inference.background import N_SWEEPS, PILOT, background_rate, refined_rate
from dibpnmf.inference.chain import Schedule, run_chain
from dibpnmf.inference.executors import Executor, executor_of
from dibpnmf.inference.gibbs import Problem
from dibpnmf.inference.run import run_chains
from dibpnmf.likelihoods import LIKELIHOODS, Likelihood
from dibpnmf.loadings import LOADINGS
from dibpnmf.model import Model
from dibpnmf.observations import Observations
from dibpnmf.posterior import ChainRecord, long_enough
from dibpnmf.priors import PRIORS
from dibpnmf.runs.chain_files import ChainSaver
from dibpnmf.runs.data import checksum
from dibpnmf.runs.folder import Names, RunFolder, claimed, versions
from dibpnmf.runs.records import state_from_arrays

if TYPE_CHECKING:
    from dibpnmf.cluster.executor import Dask
    from dibpnmf.estimator import DIBPNMF

HEADROOM = 10  # empty columns beyond those of the start
# Small matrices may use more factors than they have rows. Were their truncation to grow in warm-up,
# chains from different starts would have different ones, and so different posteriors.
_AMPLE = 3


def first_truncation(kind: str, rank: int) -> int:
    """Columns that chains begin with, for a start of this kind and rank."""
    return max(rank + HEADROOM, _AMPLE * rank if kind == "trivial" else 0)


def background(
    model: DIBPNMF,
    observations: Observations,
    zeros: float,
    seed: int,
    elsewhere: Executor | None,
) -> float:
    """Background rate ε, relative to the mean: given, or estimated; ``zeros`` is their share."""
    if not isinstance(model.epsilon, str):
        return float(model.epsilon)
    with threads_of(model) as n, executor_of(n, elsewhere) as executor:
        epsilon = background_rate(observations, seed, executor)
    generative = model_of(model, observations, epsilon)
    if not generative.likelihood.trusts_pilot(zeros):
        return epsilon
    kind, K, _ = beginning_of(model, observations.shape, generative.likelihood)

    def run_pilot(_: int, executor: Executor) -> None:
        nonlocal epsilon
        problem = problem_of(generative, observations, seed, PILOT, executor)
        epsilon = refined_rate(problem, generative, K, kind, progress)

    show = should_show(model.progress)
    progress = Progress(1, N_SWEEPS, N_SWEEPS, show, name="background")
    with progress, threads_of(model, most_threads(observations)) as n:
        if run_chains(run_pilot, [0], n, progress, elsewhere):
            raise KeyboardInterrupt("interrupted before the first draw")
    give_back_free_memory()
    return epsilon


def model_of(model: DIBPNMF, observations: Observations, epsilon: float) -> Model:
    """The generative model that an estimator's parameters make."""
    prior = PRIORS[model.prior].from_params(model.prior_params)
    return Model(prior, likelihood_of(model, observations), epsilon, LOADINGS[model.loadings]())


def problem_of(
    generative: Model, observations: Observations, seed: int, chain: int, executor: Executor
) -> Problem:
    """What the sweeps of one chain are given."""
    kernel = generative.likelihood.kernel(generative.epsilon)
    return Problem(
        observations, generative.prior, kernel, seed, chain, executor, generative.loadings
    )


def likelihood_of(model: DIBPNMF, observations: Observations) -> Likelihood:
    """The model's likelihood, for data in these units."""
    return LIKELIHOODS[model.likelihood]().in_units_of(observations.scale)


class Beginning(NamedTuple):
    """How chains begin: the kind of start, its columns, and what warm-up may grow them to."""

    kind: str
    K: int
    most_columns: int


def beginning_of(model: DIBPNMF, shape: tuple[int, int], likelihood: Likelihood) -> Beginning:
    """Choose start and truncation."""
    kind, rank = starts.best_start(shape, likelihood)
    asked = model.max_components if model.n_components is None else model.n_components
    if asked is not None:
        return Beginning(kind if rank <= asked else "nmf", asked, asked)
    K = first_truncation(kind, rank)
    return Beginning(kind, K, max(K, min(500, 2 * sum(shape))))


CELLS_A_THREAD = 8_000  # that a chain's rows have: with fewer, handing out blocks takes longer
_taken = 0  # threads that fits of this process work in
_taken_lock = threading.Lock()


def n_threads(n_jobs: int | None, taken: int = 0) -> int:
    """Threads that ``n_jobs`` asks for, at most a few a core: more are in each other's way.

    A negative one counts the cores that are left: without those that are ``taken``, and of
    those that numba may use, by which joblib tells its processes how many are theirs.
    """
    asked = int(effective_n_jobs(n_jobs))
    if n_jobs is not None and n_jobs < 0:
        return max(1, min(asked, NUMBA_NUM_THREADS) - taken)
    return min(asked, 4 * (os.cpu_count() or 1))


def most_threads(observations: Observations, n_chains: int = 1) -> int:
    """Threads that chains have work for."""
    return n_chains * max(1, observations.n_observed // CELLS_A_THREAD)


@contextmanager
def threads_of(model: DIBPNMF, most: float = math.inf) -> Iterator[int]:
    """Number of threads, at most so many, that the model may work in, taken until the end."""
    global _taken
    is_serial = isinstance(model.executor, str) and model.executor == "serial"
    with _taken_lock:
        n = 1 if is_serial else int(min(most, n_threads(model.n_jobs, _taken)))
        _taken += n
    try:
        yield n
    finally:
        with _taken_lock:
            _taken -= n


@contextmanager
def cluster_of(model: DIBPNMF) -> Iterator[Dask | None]:
    """Open the Dask executor that a model asks for; None if its rows run in threads here."""
    if isinstance(model.executor, str) and model.executor != "dask":
        yield None
        return
    try:
        from dibpnmf.cluster.executor import opened
    except ImportError as error:
        raise ImportError(
            f"executor={model.executor!r} needs Dask, which is not installed ({error}). Install "
            "it with `pip install 'dibpnmf[dask]'`, or use executor='threads'."
        ) from error
    with opened(model.executor, n_threads(model.n_jobs)) as cluster:
        yield cluster


# Parameters that draws do not depend on: a run may go on with others.
_FREE = ("n_jobs", "executor", "progress", "checkpoint", "checkpoint_every", "random_state")


@dataclass(frozen=True)
class Run:
    """What the chains share: seed, background rate, and the folder they are saved in."""

    seed: int
    epsilon: float
    folder: RunFolder | None = None


def identity(model: DIBPNMF) -> dict[str, Any]:
    """Parameters that make a run the run it is."""
    return {name: value for name, value in model.get_params().items() if name not in _FREE}


@contextmanager
def begun(
    model: DIBPNMF,
    observations: Observations,
    seed: int,
    names: Names,
    zeros: float,
    elsewhere: Executor | None = None,
) -> Iterator[Run]:
    """Begin a run, or go on with the one that the folder ``checkpoint`` holds.

    ``zeros`` is their share among the observed cells.
    """
    if model.checkpoint is None:
        yield Run(seed, background(model, observations, zeros, seed, elsewhere))
        return
    with claimed(model.checkpoint) as folder:
        header = folder.header()
        if header is None:
            epsilon = background(model, observations, zeros, seed, elsewhere)
            given = model.random_state
            known = int(given) if isinstance(given, Integral) else None
            folder.begin(identity(model), seed, known, epsilon, observations, names, elsewhere)
            yield Run(seed, epsilon, folder)
        else:
            asked = None if model.random_state is None else seed
            found = checksum(observations, elsewhere)
            header.refuse_changes(folder.path, identity(model), asked, found)
            if header.is_shorter(identity(model)):
                folder.prolong(int(model.n_draws))
            _warn_of_versions(folder, header.versions)
            yield Run(header.seed, header.epsilon, folder)


def _warn_of_versions(folder: RunFolder, then: dict[str, str]) -> None:
    changed = [
        f"{k} {then.get(k)} then, {v} now" for k, v in versions().items() if v != then.get(k)
    ]
    if changed:
        text = (
            f"{folder.path} was started with other versions ({'; '.join(changed)}): the draws are "
            "as good, but may differ from those of a run never stopped."
        )
        warnings.warn(text, UserWarning, stacklevel=5)


def new_records(model: DIBPNMF) -> list[ChainRecord]:
    """One empty record a chain."""
    prior = PRIORS[model.prior].from_params(model.prior_params)
    return [
        ChainRecord(prior, model.min_share, bool(model.keep_draws), LOADINGS[model.loadings]())
        for _ in range(model.n_chains)
    ]


def sample(
    model: DIBPNMF, observations: Observations, run: Run, elsewhere: Executor | None = None
) -> tuple[list[ChainRecord], bool]:
    """Run all chains; return their records and whether they were interrupted."""
    generative = model_of(model, observations, run.epsilon)
    likelihood = generative.likelihood
    kind, K, most_columns = beginning_of(model, observations.shape, likelihood)
    # A start that is kept may have factors twice; a number that was asked for stays.
    with_merges = (
        likelihood.keeps_its_start and model.scheme == "joint" and model.n_components is None
    )
    schedule = Schedule(
        model.n_warmup, model.n_draws, model.n_thin, model.scheme, most_columns, with_merges
    )
    records = new_records(model)
    savers = [
        ChainSaver(run.folder.chain(c), record, model.checkpoint_every) if run.folder else None
        for c, record in enumerate(records)
    ]
    saved = [saver.resume() if saver else None for saver in savers]
    kinds = starts_of(model.init, kind)
    progress = Progress(
        model.n_chains, schedule.n_sweeps, model.n_warmup, should_show(model.progress),
        [last.sweep if last else 0 for last in saved],
    )  # fmt: skip

    def run_one(chain: int, executor: Executor) -> None:
        if progress.should_stop():
            return
        problem = problem_of(generative, observations, run.seed, chain, executor)
        last, saver = saved[chain], savers[chain]
        if last is None:
            state = starts.start_state(problem, generative, K, kinds[chain % len(kinds)])
        else:
            state = state_from_arrays(problem, last.arrays)
        visit = saver.visit if saver else None
        first = last.sweep if last else 0
        run_chain(problem, state, schedule, records[chain], progress, first, visit)
        if saver:
            saver.save()

    with progress, threads_of(model, most_threads(observations, model.n_chains)) as n:
        interrupted = run_chains(run_one, range(model.n_chains), n, progress, elsewhere)
    give_back_free_memory()
    if interrupted:
        records = long_enough(records)
        if not records:
            raise KeyboardInterrupt("interrupted before the first draw")
    return records, interrupted
