"""Dependent Indian Buffet Process priors, by name.

Listing a prior here is all it takes to offer it in the estimator and to put it through the
whole statistical test-suite.
"""

from __future__ import annotations

from typing import Any

from dibpnmf.priors.base import Prior
from dibpnmf.priors.bivariate_beta import BivariateBeta
from dibpnmf.priors.fgm_copula import FGMCopula
from dibpnmf.priors.gaussian_process import GaussianProcess

PRIORS: dict[str, type[Prior[Any]]] = {
    prior.name: prior for prior in (BivariateBeta, FGMCopula, GaussianProcess)
}

__all__ = ["PRIORS", "BivariateBeta", "FGMCopula", "GaussianProcess", "Prior"]
