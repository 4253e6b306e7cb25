"""Posteriors of tiny problems by numerical integration, for comparison with chains.

Everything unknown is a transform of the unit cube: loadings and rates by inverse distribution
functions, sticks and θ as docs/model.md draws them. The masks are summed over exactly, the rest
is integrated by a scrambled Sobol rule, whose error is known from independent scrambles.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import product

import numpy as np
from scipy import integrate, special
from scipy.stats import qmc

N_SCRAMBLES = 8
LogDensity = Callable[[np.ndarray, np.ndarray], np.ndarray]


@dataclass(frozen=True)
class Tiny:
    """A problem small enough to integrate; ``prior`` is None where sticks and τ are fixed."""

    Y: np.ndarray
    observed: np.ndarray
    K: int
    epsilon: float
    log_density: LogDensity
    prior: str | None = None
    log_odds: np.ndarray | None = None
    tau: float = 1.0


def _gamma(u: np.ndarray, shape: np.ndarray | float) -> np.ndarray:
    return special.gammaincinv(shape, u)


def bivariate_beta_inclusion(u: np.ndarray, K: int) -> np.ndarray:
    """Return π of shape (n, 2, K) from uniforms: a, b, then (U, V, W) of each pair."""
    shapes = -np.log(u[:, :2])
    parts = u[:, 2:].reshape(-1, 3, K)
    gammas = _gamma(parts[:, :2], shapes[:, :, None])
    nu = gammas / (gammas - np.log(parts[:, 2:]))
    return np.cumprod(nu, axis=2)


def copula_inclusion(u: np.ndarray, K: int) -> np.ndarray:
    """Return π from uniforms: α1, α2, ρ, then each pair by its conditional distribution."""
    shapes = -np.log(u[:, :2])
    parts = u[:, 3:].reshape(-1, 2, K)
    c = (2.0 * u[:, 2:3] - 1.0) * (2.0 * parts[:, 0] - 1.0)
    root = np.sqrt((1.0 - c) ** 2 + 4.0 * c * parts[:, 1])
    w = 2.0 * parts[:, 1] / (1.0 - c + root)
    pairs = np.stack([parts[:, 0], w], axis=1)
    return np.cumprod(pairs ** (1.0 / shapes[:, :, None]), axis=2)


def gaussian_process_inclusion(u: np.ndarray, K: int) -> np.ndarray:
    """Return γ from uniforms: α, s, then a stick and two normals a column; σ = η = 1."""
    alpha, s = -np.log(u[:, :2]).T
    parts = u[:, 2:].reshape(-1, 3, K)
    mu = np.cumprod(parts[:, 0] ** (1.0 / alpha[:, None]), axis=1)
    r = np.exp(-1.0 / s**2)[:, None]
    first, second = special.ndtri(parts[:, 1]), special.ndtri(parts[:, 2])
    g = np.stack([first, r * first + np.sqrt(1.0 - r**2) * second], axis=1)
    return special.ndtr(np.sqrt(2.0) * special.ndtri(mu)[:, None] - g)


# Uniforms needed for θ and for each column, and the map from them to π.
INCLUSION = {
    "bivariate-beta": (2, 3, bivariate_beta_inclusion),
    "copula": (3, 2, copula_inclusion),
    "gaussian-process": (2, 3, gaussian_process_inclusion),
}


def _masks(n_entries: int) -> np.ndarray:
    return np.array(list(product([0.0, 1.0], repeat=n_entries)))


def _quantities(loads: list[np.ndarray], masks: list[np.ndarray], K: int) -> np.ndarray:
    """What is compared, for every point (axis 0) of one mask: see `names`."""
    n_points = loads[0].shape[0]
    parts = [np.broadcast_to(mask.ravel(), (n_points, mask.size)) for mask in masks]
    parts += [(load * mask).reshape(n_points, -1) for load, mask in zip(loads, masks, strict=True)]
    parts += [part / (1.0 + part) for part in parts[2:]]
    used = (masks[0].any(axis=0) & masks[1].any(axis=0)).sum()
    parts.append(np.broadcast_to(np.arange(K + 1) == used, (n_points, K + 1)))
    return np.concatenate(parts, axis=1)


def chain_quantities(A: np.ndarray, X: np.ndarray) -> np.ndarray:
    """The same quantities of a chain's draws (first axis)."""
    n, _, K = A.shape
    flat = [side.reshape(n, -1) for side in (A, X)]
    used = ((A > 0.0).any(axis=1) & (X > 0.0).any(axis=1)).sum(axis=1)
    return np.concatenate(
        [
            *(side > 0.0 for side in flat),
            *flat,
            *(side / (1.0 + side) for side in flat),
            used[:, None] == np.arange(K + 1),
        ],
        axis=1,
    ).astype(float)


def names(shape: tuple[int, int], K: int) -> list[str]:
    """Names of the quantities; means of v are infinite where τ is free."""
    entries = [f"{t}{i}{k}" for t in "AX" for i in range(shape["AX".index(t)]) for k in range(K)]
    return (
        [f"p(z{e})" for e in entries]
        + [f"E v{e}" for e in entries]
        + [f"E v/(1+v){e}" for e in entries]
        + [f"p({k} in use)" for k in range(K + 1)]
    )


def _one_scramble(tiny: Tiny, m: int, seed: int) -> np.ndarray:
    """Posterior means of the quantities from one scrambled rule of 2^m points."""
    M, N = tiny.Y.shape
    K = tiny.K
    n_loads = (M + N) * K
    n_theta, n_column, inclusion_of = INCLUSION.get(tiny.prior or "", (0, 0, None))
    n_prior = n_theta + n_column * K + 2 if inclusion_of else 0
    u = qmc.Sobol(n_loads + n_prior, seed=seed).random_base2(m)
    u = np.clip(u, 1e-12, 1.0 - 1e-12)
    tau = np.full((len(u), 2), tiny.tau)
    log_odds = np.broadcast_to(tiny.log_odds if tiny.log_odds is not None else 0.0, (1, 2, K))
    if inclusion_of:
        tau = -np.log(u[:, n_loads : n_loads + 2])
        # Weights that underflow are as good as a very small one.
        pi = np.clip(inclusion_of(u[:, n_loads + 2 :], K), 1e-300, 1.0 - 1e-16)
        log_odds = special.logit(pi)
    loads = [
        (-np.log(part)).reshape(-1, size, K) / tau[:, t, None, None]
        for t, (part, size) in enumerate(
            zip(np.split(u[:, :n_loads], [M * K], axis=1), (M, N), strict=True)
        )
    ]
    total, weighted = 0.0, 0.0
    for mask in _masks(n_loads):
        masks = [mask[: M * K].reshape(M, K), mask[M * K :].reshape(N, K)]
        mean = (loads[0] * masks[0]) @ np.swapaxes(loads[1] * masks[1], 1, 2) + tiny.epsilon
        log_weight = np.sum(tiny.log_density(tiny.Y, mean)[:, tiny.observed], axis=1)
        for t in range(2):
            n_on = masks[t].sum(axis=0)
            log_weight = log_weight - (
                n_on * np.logaddexp(0.0, -log_odds[:, t])
                + (len(masks[t]) - n_on) * np.logaddexp(0.0, log_odds[:, t])
            ).sum(axis=1)
        weight = np.exp(log_weight)
        total = total + weight.sum()
        weighted = weighted + weight @ _quantities(loads, masks, K)
    return weighted / total


def integrate_posterior(tiny: Tiny, m: int) -> tuple[np.ndarray, np.ndarray]:
    """Posterior means of the quantities, and their errors, from 2^m points a scramble."""
    values = np.array([_one_scramble(tiny, m, seed) for seed in range(N_SCRAMBLES)])
    return values.mean(axis=0), values.std(axis=0, ddof=1) / np.sqrt(N_SCRAMBLES)


def integrate_one_column(tiny: Tiny) -> np.ndarray:
    """p(z) of every row of A for K = 1 and fixed sticks and τ, by nested Gauss rules.

    Given X the rows of A are independent, so the integral over A is a product: an outer rule
    over the entries of X that are on, and an inner one for each row.
    """
    nodes, weights = np.polynomial.laguerre.laggauss(48)
    v = nodes / tiny.tau
    M, N = tiny.Y.shape
    prior_on = special.expit(tiny.log_odds[:, 0])
    total, on = 0.0, np.zeros(M)
    for mask in _masks(N):
        grids = np.meshgrid(*(v if z else np.zeros(1) for z in mask), indexing="ij")
        outer = np.meshgrid(*(weights if z else np.ones(1) for z in mask), indexing="ij")
        x = np.stack([grid.ravel() for grid in grids], axis=1)
        weight = np.prod([w.ravel() for w in outer], axis=0)
        weight = weight * np.prod(np.where(mask, prior_on[1], 1.0 - prior_on[1]))
        rows = np.empty((M, 2, len(x)))
        for i in range(M):
            mean = v[:, None, None] * x + tiny.epsilon
            cells = tiny.observed[i]
            log_on = tiny.log_density(tiny.Y[i], mean)[..., cells].sum(axis=-1)
            log_off = tiny.log_density(tiny.Y[i], np.full(N, tiny.epsilon))[cells].sum()
            rows[i, 1] = prior_on[0] * (weights @ np.exp(log_on))
            rows[i, 0] = (1.0 - prior_on[0]) * np.exp(log_off)
        both = rows.sum(axis=1)
        total += weight @ np.prod(both, axis=0)
        for i in range(M):
            others = np.prod(np.delete(both, i, axis=0), axis=0)
            on[i] += weight @ (rows[i, 1] * others)
    return on / total


def quad_one_cell(tiny: Tiny) -> float:
    """p(z = 1 on both sides) of a 1×1 problem with K = 1, by adaptive quadrature."""
    odds = special.expit(tiny.log_odds[:, 0])

    def density(x: float, a: float) -> float:
        return float(
            np.exp(tiny.log_density(tiny.Y, np.array([[a * x + tiny.epsilon]]))[0, 0])
            * tiny.tau**2
            * np.exp(-tiny.tau * (a + x))
        )

    on = integrate.dblquad(density, 0.0, 60.0, 0.0, 60.0)[0] * np.prod(odds)
    off = float(np.exp(tiny.log_density(tiny.Y, np.full((1, 1), tiny.epsilon)))[0, 0])
    return on / (on + off * (1.0 - np.prod(odds)))
