"""Test functions of (Y, A, X, τ, sticks, θ), all with finite variance under the model."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.special import expit, log_ndtr, ndtr

from dibpnmf.model import Model
from dibpnmf.priors import PRIORS

from .cases import Snapshot

Table = dict[str, np.ndarray]


def _by_column(name: str, values: np.ndarray) -> Table:
    return {f"{name}[{k + 1}]": values[:, k] for k in range(values.shape[1])}


def data_functions(model: Model, trace: Snapshot, cells: Any) -> Table:
    """Functions of the data and of its mean; the distribution function is uniform."""
    mean = (np.einsum("nik,njk->nij", trace.A, trace.X) + model.epsilon)[:, cells[0], cells[1]]
    level = model.likelihood.at(trace.noise).cdf(trace.y, mean)
    n_on = (trace.A > 0.0).sum(axis=(1, 2))
    return {
        "1/(1+y)": (1.0 / (1.0 + np.abs(trace.y))).mean(axis=1),
        "1/(1+λ)": (1.0 / (1.0 + mean)).mean(axis=1),
        "F(y)": level.mean(axis=1),
        "(F(y)−½)²": ((level - 0.5) ** 2).mean(axis=1),
        "F(y)·n": (level.mean(axis=1) - 0.5) * n_on,
        "F(y)/(1+λ)": ((level - 0.5) / (1.0 + mean)).mean(axis=1),
    } | noise_functions(model, trace, mean)


def noise_functions(model: Model, trace: Snapshot, mean: np.ndarray) -> Table:
    """Functions of a likelihood's own parameters, all positive with Gamma(1, 1) priors."""
    table: Table = {}
    gap = np.abs(trace.y - mean)
    n_on = (trace.A > 0.0).sum(axis=(1, 2))
    for j, name in enumerate(model.likelihood.noise_names):
        value = trace.noise[:, j]
        level = -np.expm1(-value) - 0.5
        table[f"log {name}"] = np.log(value)
        table[f"F({name})²"] = level**2
        table[f"F({name})·n"] = level * n_on
        table[f"F({name})/(1+|y−λ|)"] = level * (1.0 / (1.0 + gap)).mean(axis=1)
    return table


def parameter_levels(model: Model, trace: Snapshot) -> Table:
    """Distribution functions at the parameters of by-column priors, (draw, side, column) each."""
    if model.loadings.name == "per-factor":
        return {"τ": -np.expm1(-trace.tau)}
    mean, precision = trace.tau[:, :, 0], trace.tau[:, :, 1]
    return {"μ": ndtr(mean), "p": -np.expm1(-0.1 * precision)}


def survival(model: Model, trace: Snapshot, t: int) -> np.ndarray:
    """Prior probability of a larger loading, uniform under the prior, (draw, row, column)."""
    side = (trace.A, trace.X)[t]
    if model.loadings.name == "per-factor":
        return np.exp(-trace.tau[:, t, None] * side)
    mean, root = trace.tau[:, t, 0, None], np.sqrt(trace.tau[:, t, 1, None])
    return np.exp(log_ndtr(-(side - mean) * root) - log_ndtr(mean * root))


def column_functions(model: Model, trace: Snapshot) -> Table:
    """Functions of masks, loadings and the parameters of their columns; all bounded."""
    table: Table = {}
    counts = []
    levels = parameter_levels(model, trace)
    for t, side in enumerate((trace.A, trace.X)):
        on = side > 0.0
        n = on.sum(axis=1).astype(float)
        counts.append(n)
        table |= _by_column(f"n{t + 1}", n)
        u = np.where(on, survival(model, trace, t) - 0.5, 0.0)
        table[f"F(v), side {t + 1}"] = u.mean(axis=(1, 2))
        table[f"F(v)², side {t + 1}"] = np.where(on, u**2 - 1.0 / 12.0, 0.0).mean(axis=(1, 2))
        table[f"F(v) of two rows, side {t + 1}"] = (u[:, 0] * u[:, 1]).mean(axis=1)
        for name, level in levels.items():
            own = level[:, t] - 0.5
            table |= _by_column(f"F({name}), side {t + 1}, ", own)
            table[f"F({name})², side {t + 1}"] = (own**2).mean(axis=1)
            table[f"F({name})·n, side {t + 1}"] = (own * n).sum(axis=1)
            table[f"F({name})·F(v), side {t + 1}"] = (own * u.mean(axis=1)).sum(axis=1)
    for name, level in levels.items():
        both = (level[:, 0] - 0.5) * (level[:, 1] - 0.5)
        table[f"F({name}1)·F({name}2)"] = both.mean(axis=1)
    table |= _by_column("n1·n2", counts[0] * counts[1])
    table["columns in use"] = ((counts[0] > 0) & (counts[1] > 0)).sum(axis=1).astype(float)
    return table


def loading_functions(model: Model, trace: Snapshot) -> Table:
    """Functions of τ, masks and loadings."""
    if model.loadings.by_column:
        return column_functions(model, trace)
    table: Table = {}
    counts, level = [], []
    for t, side in enumerate((trace.A, trace.X)):
        on = side > 0.0
        tau = trace.tau[:, t]
        n = on.sum(axis=1)
        counts.append(n)
        total = tau * side.sum(axis=(1, 2))
        table[f"log τ{t + 1}"] = np.log(tau)
        table[f"τΣv−n, side {t + 1}"] = total - n.sum(axis=1)
        # Bounded in τ: products of logarithms have tails too heavy for means of 64 chains.
        level.append(-np.expm1(-tau) - 0.5)
        table[f"F(τ)·n, side {t + 1}"] = level[t] * n.sum(axis=1)
        table[f"exp(−τv), side {t + 1}"] = np.where(
            on, np.exp(-tau[:, None, None] * side) - 0.5, 0.0
        ).mean(axis=(1, 2))
        table |= _by_column(f"n{t + 1}", n.astype(float))
        # Rows that shared a stream would agree too often.
        table[f"first two rows, side {t + 1}"] = (on[:, 0] == on[:, 1]).mean(axis=1)
        both = on[:, 0] & on[:, 1]
        table[f"v ranks, side {t + 1}"] = np.where(
            both, np.abs(np.exp(-tau[:, None] * side[:, 0]) - np.exp(-tau[:, None] * side[:, 1])), 0
        ).mean(axis=1)
    table |= _by_column("n1·n2", (counts[0] * counts[1]).astype(float))
    table["columns in use"] = ((counts[0] > 0) & (counts[1] > 0)).sum(axis=1).astype(float)
    table["F(τ1)·F(τ2)"] = level[0] * level[1]
    return table


def prior_functions(model: Model, trace: Snapshot) -> Table:
    """Functions of π and θ that every prior has, and those of its own."""
    inclusion = expit(trace.log_odds)
    table: Table = {}
    for t in range(2):
        table |= _by_column(f"π{t + 1}", inclusion[:, t])
        counts = ((trace.A, trace.X)[t] > 0.0).sum(axis=1)
        table[f"π·n, side {t + 1}"] = (inclusion[:, t] * counts).sum(axis=1)
    for j, name in enumerate(model.prior.theta_names):
        theta = trace.prior.theta[:, j]
        # A correlation may be negative; everything else is positive.
        table[name] = theta if name == "rho" else np.log(theta)
        table[f"{name}·n1[K]"] = table[name] * (trace.A[:, :, -1] > 0.0).sum(axis=1)
    extra = OWN_FUNCTIONS.get(model.prior.name)
    return table | extra(trace) if extra else table


def _pair_functions(trace: Snapshot) -> Table:
    nu = np.exp(trace.prior.log_nu)
    return {
        **_by_column("ν1", nu[:, 0]),
        **_by_column("ν2", nu[:, 1]),
        **_by_column("ν1·ν2", nu[:, 0] * nu[:, 1]),
        "ν1[1]·ν1[2]": nu[:, 0, 0] * nu[:, 0, 1],
        "ν1²·ν2": (nu[:, 0] ** 2 * nu[:, 1]).mean(axis=1),
        "ν1·ν2²": (nu[:, 0] * nu[:, 1] ** 2).mean(axis=1),
    }


def _bivariate_beta_functions(trace: Snapshot) -> Table:
    nu = np.exp(trace.prior.log_nu)
    log_a, log_b = np.log(trace.prior.theta).T
    return _pair_functions(trace) | {
        "log a·Σν1": log_a * nu[:, 0].sum(axis=1),
        "log b·Σν1": log_b * nu[:, 0].sum(axis=1),
        "log a·Σν2": log_a * nu[:, 1].sum(axis=1),
        "log b·Σν2": log_b * nu[:, 1].sum(axis=1),
    }


def _copula_functions(trace: Snapshot) -> Table:
    prior = trace.prior
    u, w = np.moveaxis(np.exp(prior.theta[:, :2, None] * prior.log_nu), 1, 0)
    rho = prior.theta[:, 2, None]
    return _pair_functions(trace) | {
        "ρ(2u−1)(2w−1)": (rho * (2 * u - 1) * (2 * w - 1)).mean(axis=1),
        "Σu": u.mean(axis=1),
        "Σw": w.mean(axis=1),
    }


def _gaussian_process_functions(trace: Snapshot) -> Table:
    prior = trace.prior
    counts = [(side > 0.0).sum(axis=1) for side in (trace.A, trace.X)]
    g1, g2 = prior.g[:, 0], prior.g[:, 1]
    u = np.exp(prior.theta[:, :1] * prior.log_nu)
    r = np.exp(-1.0 / prior.theta[:, 1] ** 2)
    return {
        **_by_column("ν", np.exp(prior.log_nu)),
        **_by_column("g1", g1),
        **_by_column("g2", g2),
        **_by_column("g1·n1", g1 * counts[0]),
        **_by_column("g2·n2", g2 * counts[1]),
        "g1·g2": (g1 * g2).mean(axis=1),
        "r·g1·g2": r * (g1 * g2).mean(axis=1),
        "g²": (g1**2 + g2**2).mean(axis=1),
        "Σu": u.mean(axis=1),
    }


OWN_FUNCTIONS: dict[str, Callable[[Snapshot], Table]] = {
    "bivariate-beta": _bivariate_beta_functions,
    "copula": _copula_functions,
    "gaussian-process": _gaussian_process_functions,
}
assert OWN_FUNCTIONS.keys() <= PRIORS.keys()


def all_functions(model: Model, trace: Snapshot, cells: Any) -> Table:
    """Every test function, each an array with one value per draw."""
    table = data_functions(model, trace, cells)
    return table | loading_functions(model, trace) | prior_functions(model, trace)
