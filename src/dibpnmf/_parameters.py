"""Checks of the parameters of DIBPNMF, all of them before any work starts."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dibpnmf import _validation as check
from dibpnmf.inference.chain import SCHEMES
from dibpnmf.likelihoods import LIKELIHOODS
from dibpnmf.loadings import LOADINGS
from dibpnmf.priors import PRIORS

if TYPE_CHECKING:
    from dibpnmf.estimator import DIBPNMF

STARTS = ("auto", "nmf", "prior")

# Streams of random numbers name a sweep by 32 bits. The other two would fill any memory.
_MOST_SWEEPS, _MOST_CHAINS, _MOST_COLUMNS = 2**32 - 1, 10_000, 10_000


def check_parameters(model: DIBPNMF) -> None:
    """Refuse a wrong parameter, naming it, its value and what is taken."""
    check.one_of("prior", model.prior, PRIORS)
    check.one_of("likelihood", model.likelihood, LIKELIHOODS)
    check.one_of("scheme", model.scheme, SCHEMES)
    _check_loadings(model)
    check.one_of("zeros", model.zeros, ("observed", "missing"))
    _check_columns(model)
    check.whole_number("n_warmup", model.n_warmup, 0)
    for name in ("n_draws", "n_thin"):
        check.whole_number(name, getattr(model, name), 1)
    check.whole_number("n_chains", model.n_chains, 1, _MOST_CHAINS)
    sweeps = int(model.n_warmup) + int(model.n_draws) * int(model.n_thin)
    check.whole_number("n_warmup + n_draws * n_thin", sweeps, 1, _MOST_SWEEPS)
    if not (isinstance(model.epsilon, str) and model.epsilon == "auto"):
        taken = "'auto' or a positive number, 1e-300 to 1e30 (in units of the mean of Y)"
        check.real_number("epsilon", model.epsilon, 0.99e-300, 1e30, taken)
    check.real_number("min_share", model.min_share, -1e-300, 1.0, "a number in [0, 1)")
    if not (isinstance(model.progress, str) and model.progress == "auto"):
        check.true_or_false("progress (unless 'auto')", model.progress)
    check.true_or_false("keep_draws", model.keep_draws)
    check.path_or_none("checkpoint", model.checkpoint)
    taken = "a number of seconds, 0 or more"
    check.real_number("checkpoint_every", model.checkpoint_every, -1e-300, 1e12, taken)
    check.seed("random_state", model.random_state)
    check.threads("n_jobs", model.n_jobs)
    check.executor("executor", model.executor)
    for start in starts_of(model.init):
        check.one_of("init (or each of a list)", start, STARTS)
    check.mapping_or_none("prior_params", model.prior_params)
    PRIORS[model.prior].from_params(model.prior_params)


def _check_loadings(model: DIBPNMF) -> None:
    check.one_of("loadings", model.loadings, LOADINGS)
    if LOADINGS[model.loadings].needs_gaussian and model.likelihood != "gaussian":
        raise ValueError(
            f"loadings={model.loadings!r} goes with likelihood='gaussian' only; got "
            f"likelihood={model.likelihood!r}. Use loadings='per-factor' or 'shared' with it."
        )
    if model.loadings != "shared" and model.scheme == "literal":
        raise ValueError(
            "scheme='literal' is the paper's sampler, whose loadings share one rate a side; got "
            f"loadings={model.loadings!r}. Use scheme='joint' with it."
        )


def _check_columns(model: DIBPNMF) -> None:
    for name in ("n_components", "max_components"):
        if getattr(model, name) is not None:
            check.whole_number(name, getattr(model, name), 1, _MOST_COLUMNS)
    if model.n_components is not None and model.max_components is not None:
        raise ValueError(
            "n_components fixes the number of columns and max_components bounds a learned "
            f"one; give one of them. Got n_components={model.n_components!r} and "
            f"max_components={model.max_components!r}."
        )


def starts_of(init: str | list[str], best: str = "nmf") -> list[str]:
    """Names of starts, to be dealt to the chains in turn."""
    names = list(init) if isinstance(init, (list, tuple)) else [init]
    if not names:
        raise ValueError(f"init must name at least one of {', '.join(STARTS)}; got {init!r}.")
    # Chains that start apart and meet are better evidence than chains that start alike.
    return [kind for name in names for kind in ((best, "prior") if name == "auto" else (name,))]
