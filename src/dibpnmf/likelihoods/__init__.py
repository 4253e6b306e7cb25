"""Likelihoods, by name.

Listing a likelihood here is all it takes to offer it in the estimator and to put it through
the whole statistical test-suite.
"""

from __future__ import annotations

from dibpnmf.likelihoods.base import Likelihood
from dibpnmf.likelihoods.exponential import Exponential
from dibpnmf.likelihoods.gaussian import Gaussian
from dibpnmf.likelihoods.poisson import Poisson

LIKELIHOODS: dict[str, type[Likelihood]] = {
    likelihood.name: likelihood for likelihood in (Exponential, Gaussian, Poisson)
}

__all__ = ["LIKELIHOODS", "Exponential", "Gaussian", "Likelihood", "Poisson"]
