"""Plain NumPy versions of docs/model.md, one per equation: slow, short, and written from the page.

Nothing here calls the library.
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np
from scipy import integrate, special

MASK_32 = 0xFFFFFFFF


def philox(key: list[int], counter: list[int]) -> list[int]:
    """Philox4x32-10 in Python integers (Salmon et al., 2011)."""
    k, c = list(key), list(counter)
    for _ in range(10):
        high0, low0 = divmod(0xD2511F53 * c[0], 2**32)
        high1, low1 = divmod(0xCD9E8D57 * c[2], 2**32)
        c = [high1 ^ c[1] ^ k[0], low1, high0 ^ c[3] ^ k[1], low0]
        k = [(k[0] + 0x9E3779B9) & MASK_32, (k[1] + 0xBB67AE85) & MASK_32]
    return c


def stream_uniforms(
    seed: int, chain: int, sweep: int, purpose: int, row: int, n: int
) -> list[float]:
    """The first n numbers of a stream, from its name."""
    values: list[float] = []
    for block in range((n + 1) // 2):
        c = philox([seed & MASK_32, seed >> 32], [block, row, sweep, chain << 8 | purpose])
        for high, low in ((c[0], c[1]), (c[2], c[3])):
            values.append(((high << 32 | low) // 2**12 + 0.5) / 2**52)
    return values[:n]


def log_masks(n: float, size: float, log_p: float, log_q: float) -> float:
    """Return n log p + (size − n) log q, with 0 · (−inf) = 0."""
    return (n * log_p if n else 0.0) + ((size - n) * log_q if size != n else 0.0)


def log_one_minus(log_x: float) -> float:
    """Log of 1 − x."""
    return float(np.log(-np.expm1(log_x)) if log_x > -1.0 else np.log1p(-np.exp(log_x)))


def log_bivariate_beta(theta: np.ndarray, log_x: float, log_y: float) -> float:
    """Eq. (2)."""
    a, b = theta
    constant = special.gammaln(a) + special.gammaln(b) - special.gammaln(a + b + 1.0)
    powers = (a - 1) * log_x + (b - 1) * log_y + b * log_one_minus(log_x) + a * log_one_minus(log_y)
    return float(powers - constant - (a + b + 1) * log_one_minus(log_x + log_y))


def log_copula(theta: np.ndarray, log_x: float, log_y: float) -> float:
    """Eq. (3)-(4)."""
    alpha1, alpha2, rho = theta
    u, w = np.exp(alpha1 * log_x), np.exp(alpha2 * log_y)
    c = 1 + rho * (2 * u - 1) * (2 * w - 1)
    margins = np.log(alpha1 * alpha2) + (alpha1 - 1) * log_x + (alpha2 - 1) * log_y
    return float(np.log(c) + margins)


LOG_PAIR_DENSITIES = {"bivariate-beta": log_bivariate_beta, "copula": log_copula}


def log_masks_of_columns(counts, sizes, log_p, log_q, sum_out: bool) -> float:
    """Log probability of masks with these counts, from log π and log(1 − π) of every column.

    With ``sum_out`` a column with an empty side counts as any such column, Eq. (37).
    """
    value = 0.0
    for k in range(counts.shape[1]):
        if sum_out and counts[:, k].min() == 0.0:
            first, second = np.exp(sizes * log_q[:, k])
            value += np.log(first + second - first * second)
        else:
            value += sum(
                log_masks(counts[t, k], sizes[t], log_p[t, k], log_q[t, k]) for t in range(2)
            )
    return float(value)


def log_masks_of_sticks(log_nu, counts, sizes, sum_out=False) -> float:
    """Log probability of masks with these counts out of these sizes, π = μ, Eq. (6)."""
    log_mu = np.cumsum(log_nu, axis=1)
    log_rest = np.vectorize(log_one_minus, otypes=[float])(log_mu)
    return log_masks_of_columns(counts, sizes, log_mu, log_rest, sum_out)


def log_joint_sticks(name: str, theta, log_nu, counts, sizes, sum_out=False) -> float:
    """Log density of stick ratios ν (2, K) and masks with these counts, Eq. (2)-(6)."""
    pairs = sum(LOG_PAIR_DENSITIES[name](theta, *pair) for pair in log_nu.T)
    return pairs + log_masks_of_sticks(log_nu, counts, sizes, sum_out)


def gp_covariance(sigma: float, s: float) -> np.ndarray:
    r = np.exp(-1.0 / s**2)
    return sigma**2 * np.array([[1.0, r], [r, 1.0]])


def gp_bounds(log_nu: np.ndarray, g: np.ndarray, sigma: float, eta: float) -> np.ndarray:
    """Arguments of Φ in Eq. (5), (2, K), from log ν (K) and g (2, K)."""
    return (np.sqrt(sigma**2 + eta**2) * special.ndtri_exp(np.cumsum(log_nu)) - g) / eta


def log_masks_of_gp(log_nu, g, counts, sizes, sigma, eta, sum_out=False) -> float:
    """Log probability of masks with these counts, π = γ, Eq. (5)."""
    x = gp_bounds(log_nu, g, sigma, eta)
    return log_masks_of_columns(counts, sizes, special.log_ndtr(x), special.log_ndtr(-x), sum_out)


def log_joint_gp(alpha, s, log_nu, g, counts, sizes, sigma=1.0, eta=1.0, sum_out=False) -> float:
    """Log density of θ, ν, g and masks with these counts."""
    value = -alpha - s + np.sum(np.log(alpha) + (alpha - 1.0) * log_nu)
    gap = -np.expm1(-2.0 / s**2)
    for x, y in g.T:
        # N(0, Σ) written out, because for large s the matrix is singular to rounding.
        square = (x - y) ** 2 + 2.0 * -np.expm1(-1.0 / s**2) * x * y
        value += (
            -0.5 * square / (sigma**2 * gap) - 0.5 * np.log(gap) - np.log(2.0 * np.pi * sigma**2)
        )
    return float(value + log_masks_of_gp(log_nu, g, counts, sizes, sigma, eta, sum_out))


def gp_g_given_h(h1: np.ndarray, h2: np.ndarray, sigma, eta, s) -> tuple[np.ndarray, np.ndarray]:
    """Mean and covariance of Eq. (16) for one column."""
    precision = np.linalg.inv(gp_covariance(sigma, s))
    precision = precision + np.diag([h1.size, h2.size]) / eta**2
    covariance = np.linalg.inv(precision)
    return covariance @ (np.array([h1.sum(), h2.sum()]) / eta**2), covariance


def exponential_log_density(y: np.ndarray, mean: np.ndarray) -> np.ndarray:
    """Eq. (10)."""
    return -np.log(mean) - y / mean


def gaussian_log_density(y: np.ndarray, mean: np.ndarray, kappa: float = 1.0) -> np.ndarray:
    """Eq. (28)."""
    return np.log(np.sqrt(kappa / (2.0 * np.pi))) - kappa * (y - mean) ** 2 / 2.0


def poisson_log_density(y: np.ndarray, mean: np.ndarray, unit: float = 1.0) -> np.ndarray:
    """Eq. (31)."""
    count, rate = unit * y, unit * mean
    return count * np.log(rate) - rate - special.loggamma(count + 1.0)


LOG_DENSITIES = {
    "exponential": exponential_log_density,
    "gaussian": gaussian_log_density,
    "poisson": poisson_log_density,
}


def entry_log_ratio(log_density, Y, observed, A, X, epsilon, i, k, v) -> float:
    """L(v) − L(0) of Eq. (19) over all observed cells of row i, without any support."""
    without = A.copy()
    without[i, k] = 0.0
    mean = without[i] @ X.T + epsilon
    with_v = mean + v * X[:, k]
    cells = observed[i]
    gain = log_density(Y[i], with_v) - log_density(Y[i], mean)
    return float(np.sum(gain[cells]))


def log_mass_bound(ratios, hits, tau: float, exp=np.exp) -> float:
    """Bound of E[p(y | b + v x) / p(y | b)] over the prior of v, exponential likelihood.

    Over intervals of v: the gain of the stored cells (b, x, y) at the right end, and the cost of
    all cells, with x/b = ``ratios``, at the left one, where it is read off two chords.
    """
    b, x, y = hits
    ends = np.concatenate([[0.0], 3.0 ** (0.5 * np.arange(-11, 5)), [np.inf]]) / tau
    probes = np.array([0.0, 1.0 / 16.0, 1.0]) / tau
    cost = np.interp(ends[:-1], probes, np.log1p(np.outer(probes, ratios)).sum(axis=1))
    with np.errstate(invalid="ignore", over="ignore"):
        after = np.array([np.sum(y / (b + v * x)) for v in ends[1:-1]] + [0.0])
        gain = np.sum(y / b) - after
        mass = np.exp(-tau * ends[:-1]) - np.exp(-tau * ends[1:])
        return float(np.log(np.sum(mass * exp(gain - cost))))


def log_likelihood(log_density, Y, observed, A, X, epsilon) -> float:
    return float(np.sum(log_density(Y, A @ X.T + epsilon)[observed]))


def entry_odds(log_ratio, log_odds: float, tau: float) -> float:
    """Posterior odds of z = 1 of Eq. (18), v integrated out by quadrature in log v."""

    def density(u: float) -> float:
        v = np.exp(u)
        return np.exp(log_odds + np.log(tau) + u - tau * v + log_ratio(v))

    peaks = np.linspace(-15.0, 10.0, 26)
    return sum(integrate.quad(density, a, b)[0] for a, b in pairwise(peaks))


def entry_cdf(log_ratio, tau: float, points: np.ndarray) -> np.ndarray:
    """Distribution function of v given z = 1 at sorted points, by a fine trapezium rule."""
    u = np.linspace(-30.0, 12.0, 40_001)
    f = np.array([x - tau * np.exp(x) + log_ratio(np.exp(x)) for x in u])
    density = np.exp(f - f.max())
    total = np.concatenate([[0.0], np.cumsum(0.5 * (density[1:] + density[:-1]))])
    return np.interp(np.log(points), u, total / total[-1])


def gig_cdf(p: float, a: float, b: float, points: np.ndarray) -> np.ndarray:
    """Distribution function in x = log c of the GIG of Eq. (23), by a fine trapezium rule."""
    mode = np.arcsinh(p / np.sqrt(a * b)) + 0.5 * np.log(b / a)
    reach = 2.0

    def log_density(x):
        return p * x - 0.5 * (a * np.exp(x) + b * np.exp(-x))

    for side in (-1.0, 1.0):
        while log_density(mode + side * reach) > log_density(mode) - 60.0:
            reach *= 1.5
    x = np.linspace(mode - reach, mode + reach, 400_001)
    density = np.exp(log_density(x) - log_density(mode))
    total = np.concatenate([[0.0], np.cumsum(0.5 * (density[1:] + density[:-1]))])
    return np.interp(points, x, total / total[-1])
