"""With every cell missing a chain must sample the prior."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy import special, stats

from dibpnmf.likelihoods import LIKELIHOODS
from dibpnmf.model import Model
from dibpnmf.priors import PRIORS

from .cases import Run, Snapshot, run_on_data, stack
from .errors import N_BATCHES, chain_error, t_threshold, thin_to_independence
from .geweke import Outcome


@dataclass(frozen=True)
class Setting:
    """A prior at fixed θ, with the parameters of its margins on the two sides."""

    prior: str
    params: tuple[tuple[str, float], ...]
    margins: tuple[float, float]
    # Known dependence: (measure, value, how far its printed digits may be off).
    dependence: tuple[str, float, float] | None = None

    def __str__(self) -> str:
        return f"{self.prior}({', '.join(f'{key}={value:g}' for key, value in self.params)})"


SETTINGS = [
    Setting("bivariate-beta", (("a", 2.5), ("b", 4.0)), (2.5, 4.0), ("pearson", 0.687, 5e-4)),
    Setting("bivariate-beta", (("a", 0.05), ("b", 0.1)), (0.05, 0.1), ("pearson", 0.0802, 5e-5)),
    Setting(
        "copula", (("alpha1", 1.5), ("alpha2", 0.7), ("rho", 0.9)), (1.5, 0.7), ("spearman", 0.3, 0)
    ),
    Setting(
        "copula", (("alpha1", 0.8), ("alpha2", 2.0), ("rho", -0.6)), (0.8, 2.0),
        ("spearman", -0.2, 0),
    ),
    Setting("gaussian-process", (("alpha", 2.0), ("s", 1.5)), (2.0, 2.0)),
    Setting("gaussian-process", (("alpha", 0.7), ("s", 0.6)), (0.7, 0.7)),
]  # fmt: skip


def missing_chain(
    prior: str, params: dict[str, float], scheme: str, shape: tuple[int, int], K: int, sweeps: int,
    seed: int,
) -> Snapshot:  # fmt: skip
    """Draws of a chain that sees no data, started from the prior itself."""
    likelihood = LIKELIHOODS[next(iter(LIKELIHOODS))]()
    model = Model(PRIORS[prior].from_params(params), likelihood, 0.1)
    run = Run(model, scheme, np.zeros(shape, bool), seed, 0, K)
    return stack(list(run_on_data(run, np.zeros(0), sweeps)))


def counts_of(trace: Snapshot) -> list[np.ndarray]:
    """Counts n_k of the two sides, each (draws, K)."""
    return [(side > 0.0).sum(axis=1) for side in (trace.A, trace.X)]


def ones_in_a_row(alpha: float, K: int) -> float:
    return alpha * (1.0 - (alpha / (alpha + 1.0)) ** K)


def columns_in_use(alpha: float, size: int, K: int) -> float:
    """Expected number of columns with a one among ``size`` rows, for sticks Beta(α, 1).

    1 − E(1 − μ_k)^size by quadrature over −log μ_k ~ Gamma(k, α).
    """
    return sum(
        stats.gamma(k, scale=1.0 / alpha).expect(
            lambda x: 1.0 - (-math.expm1(-x)) ** size, epsabs=1e-10
        )
        for k in range(1, K + 1)
    )


def simulate_gp_masks(alpha, s, shape, K, n, seed) -> list[np.ndarray]:
    """Counts of the two sides by direct simulation of h, as docs/model.md draws them."""
    rng = np.random.default_rng(seed)
    counts = [np.empty((n, K), int) for _ in range(2)]
    r = math.exp(-1.0 / s**2)
    root = np.linalg.cholesky([[1.0, r], [r, 1.0]])
    for i in range(n):
        mu = np.cumprod(rng.beta(alpha, 1.0, K))
        threshold = math.sqrt(2.0) * special.ndtri(mu)
        g = root @ rng.normal(size=(2, K))
        for t in range(2):
            h = g[t] + rng.normal(size=(shape[t], K))
            counts[t][i] = (h < threshold).sum(axis=0)
    return counts


def _used(counts: np.ndarray) -> np.ndarray:
    return (counts > 0).sum(axis=1).astype(float)


def _agreement(counts: list[np.ndarray], shape: tuple[int, int]) -> np.ndarray:
    """Mean over columns of (share of ones on side 1) × (share of ones on side 2)."""
    return (counts[0] * counts[1]).mean(axis=1) / (shape[0] * shape[1])


def _score(x: np.ndarray, expected: float, error: float = 0.0) -> float:
    return float((x.mean() - expected) / math.hypot(chain_error(x), error))


def mask_scores(setting: Setting, trace: Snapshot, seed: int) -> dict[str, float]:
    """Ones in a row, columns in use, and agreement of the two sides."""
    counts = counts_of(trace)
    shape = (trace.A.shape[1], trace.X.shape[1])
    K = trace.A.shape[2]
    scores = {}
    for t in range(2):
        ones = counts[t].sum(axis=1) / shape[t]
        scores[f"ones in a row, side {t + 1}"] = _score(ones, ones_in_a_row(setting.margins[t], K))
    if setting.prior != "gaussian-process":
        for t in range(2):
            expected = columns_in_use(setting.margins[t], shape[t], K)
            scores[f"columns in use, side {t + 1}"] = _score(_used(counts[t]), expected)
        return scores
    direct = simulate_gp_masks(*dict(setting.params).values(), shape, K, 20_000, seed)
    pairs = {
        "agreement of masks": (_agreement(counts, shape), _agreement(direct, shape)),
        "columns in use, side 1": (_used(counts[0]), _used(direct[0])),
        "columns in use, side 2": (_used(counts[1]), _used(direct[1])),
    }
    for name, (ours, theirs) in pairs.items():
        scores[name] = _score(ours, theirs.mean(), theirs.std() / math.sqrt(theirs.size))
    return scores


def dependence_score(setting: Setting, trace: Snapshot) -> dict[str, float]:
    """Correlation of ν1 and ν2, from products centred and scaled by the known margins."""
    if setting.dependence is None:
        return {}
    kind, expected, rounding = setting.dependence
    nu = np.exp(trace.prior.log_nu)
    alpha = np.array(setting.margins)[:, None]
    if kind == "spearman":
        product = np.prod(nu**alpha - 0.5, axis=1) * 12.0
    else:
        deviation = np.sqrt(alpha / (alpha + 2.0)) / (alpha + 1.0)
        product = np.prod((nu - alpha / (alpha + 1.0)) / deviation, axis=1)
    return {f"{kind} {expected}": _score(product.mean(axis=1), expected, rounding)}


def margin_p_values(setting: Setting, trace: Snapshot) -> dict[str, float]:
    """Kolmogorov-Smirnov tests of ν^α, uniform if ν is Beta(α, 1), on thinned draws."""
    log_nu = np.atleast_3d(trace.prior.log_nu)
    if trace.prior.log_nu.ndim == 2:  # one stick for both sides
        log_nu = trace.prior.log_nu[:, None]
    values = {}
    for t in range(log_nu.shape[1]):
        for k in range(log_nu.shape[2]):
            u = thin_to_independence(np.exp(setting.margins[t] * log_nu[:, t, k]))
            values[f"ν{t + 1}[{k + 1}]"] = float(stats.kstest(u, "uniform").pvalue)
    return values


def parameter_p_values(prior: str, trace: Snapshot) -> dict[str, float]:
    """With θ and τ learned they must follow Gamma(1, 1); a correlation is uniform."""
    values = {}
    columns = dict(zip(PRIORS[prior].theta_names, trace.prior.theta.T, strict=True))
    columns |= {"τ1": trace.tau[:, 0], "τ2": trace.tau[:, 1]}
    for name, x in columns.items():
        u = (x + 1.0) / 2.0 if name == "rho" else -np.expm1(-x)
        values[name] = float(stats.kstest(thin_to_independence(u), "uniform").pvalue)
    return values


def outcome(scores: dict[str, float], p_values: dict[str, float], level: float, n: int) -> Outcome:
    """Put p-values on the scale of the t statistics, so that one threshold serves all."""
    equivalent = {name: float(stats.t.isf(p / 2.0, N_BATCHES - 1)) for name, p in p_values.items()}
    statistics = scores | equivalent
    return Outcome(statistics, t_threshold(len(statistics) * n, level))


def recover(setting: Setting, scheme: str, sweeps: int, seed: int, level: float, n: int) -> Outcome:
    trace = missing_chain(setting.prior, dict(setting.params), scheme, (3, 4), 3, sweeps, seed)
    scores = mask_scores(setting, trace, seed) | dependence_score(setting, trace)
    return outcome(scores, margin_p_values(setting, trace), level, n)


def recover_parameters(
    prior: str, scheme: str, sweeps: int, seed: int, level: float, n: int
) -> Outcome:
    trace = missing_chain(prior, {}, scheme, (3, 4), 3, sweeps, seed)
    return outcome({}, parameter_p_values(prior, trace), level, n)
