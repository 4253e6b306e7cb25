"""From a model's parameters and a matrix to the records of its chains."""

from __future__ import annotations

from typing import TYPE_CHECKING

from joblib import effective_n_jobs

from dibpnmf._parameters import starts_of
from dibpnmf._progress import Progress, should_show
from dibpnmf.inference import starts
from dibpnmf.inference.chain import Schedule, run_chain
from dibpnmf.inference.executors import Executor
from dibpnmf.inference.gibbs import Problem
from dibpnmf.inference.run import run_chains
from dibpnmf.likelihoods import LIKELIHOODS, Likelihood
from dibpnmf.model import Model
from dibpnmf.observations import Observations
from dibpnmf.posterior import ChainRecord, long_enough
from dibpnmf.priors import PRIORS

if TYPE_CHECKING:
    from dibpnmf.estimator import DIBPNMF

HEADROOM = 10  # empty columns beyond those of the start


def background(model: DIBPNMF, observations: Observations, seed: int) -> float:
    """Background rate ε, relative to the mean: given, or estimated from a quick start."""
    if isinstance(model.epsilon, str):
        return starts.background_rate(observations, seed)
    return float(model.epsilon)


def likelihood_of(model: DIBPNMF, observations: Observations) -> Likelihood:
    """The model's likelihood, for data in these units."""
    return LIKELIHOODS[model.likelihood]().in_units_of(observations.scale)


def truncation(model: DIBPNMF, shape: tuple[int, int]) -> tuple[int, int]:
    """Columns to start with, and the most that warm-up may grow them to."""
    if model.n_components is not None:
        return model.n_components, model.n_components
    if model.max_components is not None:
        return model.max_components, model.max_components
    start = starts.default_rank(shape) + HEADROOM
    return start, max(start, min(500, 2 * sum(shape)))


def n_threads(model: DIBPNMF) -> int:
    """Threads that ``n_jobs`` asks for."""
    return int(effective_n_jobs(model.n_jobs))


def sample(
    model: DIBPNMF, observations: Observations, epsilon: float, seed: int
) -> tuple[list[ChainRecord], bool]:
    """Run all chains; return their records and whether they were interrupted."""
    prior = PRIORS[model.prior].from_params(model.prior_params)
    likelihood = likelihood_of(model, observations)
    generative = Model(prior, likelihood, epsilon)
    K, most_columns = truncation(model, observations.shape)
    schedule = Schedule(model.n_warmup, model.n_draws, model.n_thin, model.scheme, most_columns)
    records = [
        ChainRecord(prior, model.min_share, bool(model.keep_draws)) for _ in range(model.n_chains)
    ]
    kinds = starts_of(model.init)
    progress = Progress(
        model.n_chains, schedule.n_sweeps, model.n_warmup, should_show(model.progress)
    )

    def run_one(chain: int, executor: Executor) -> None:
        if progress.should_stop():
            return
        problem = Problem(observations, prior, likelihood.kernel(epsilon), seed, chain, executor)
        state = starts.start_state(problem, generative, K, kinds[chain % len(kinds)])
        run_chain(problem, state, schedule, records[chain], progress)

    with progress:
        interrupted = run_chains(run_one, range(model.n_chains), n_threads(model), progress)
    if interrupted:
        records = long_enough(records)
        if not records:
            raise KeyboardInterrupt("interrupted before the first draw")
    return records, interrupted
