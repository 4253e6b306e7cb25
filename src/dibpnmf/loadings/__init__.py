"""Priors of the loadings that are on, by the name that `DIBPNMF(loadings=...)` takes."""

from dibpnmf.loadings.base import LoadingsPrior
from dibpnmf.loadings.exponential import PerFactor, Shared
from dibpnmf.loadings.truncated_normal import TruncatedNormal

LOADINGS: dict[str, type[LoadingsPrior]] = {
    prior.name: prior for prior in (Shared, PerFactor, TruncatedNormal)
}
