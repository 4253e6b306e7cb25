"""Slow twins of the samplers' moves: plain Python on the formulas of docs/model.md.

They read the same streams in the same order as the compiled moves, so results must be equal.
Every conditional is written as the joint density with one variable replaced, never as the
simplified expression that the library uses.
"""

from __future__ import annotations

import math

import numpy as np
from scipy import special, stats

from dibpnmf.priors.gp_moves import SLICED
from dibpnmf.priors.unseen import TAIL_TRIES
from dibpnmf.random import exponential, gamma, normal, normal_below, uniform

from . import formulas

STEPS = 200


def slice_sample(s, log_density, x, low, high, width):
    """Neal (2003): stepping out with a split limit, then shrinkage."""
    level = log_density(x) - exponential(s)
    if high - low <= width:
        left, right = low, high
    else:
        left = x - width * uniform(s)
        right = left + width
        allowed_left = int(STEPS * uniform(s))
        allowed_right = STEPS - 1 - allowed_left
        while allowed_left > 0 and left > low and log_density(left) > level:
            left, allowed_left = left - width, allowed_left - 1
        while allowed_right > 0 and right < high and log_density(right) > level:
            right, allowed_right = right + width, allowed_right - 1
        left, right = max(left, low), min(right, high)
    for _ in range(1000):
        trial = left + uniform(s) * (right - left)
        if log_density(trial) > level:
            return trial
        left, right = (trial, right) if trial < x else (left, trial)
    raise AssertionError("the density is not finite at the present point")


def last_width(x: float) -> float:
    return 2.0 + 0.2 * abs(x)


def moved(log_nu: np.ndarray, t: int, k: int, x: float) -> np.ndarray:
    """Set log ν_k of side t to x, keeping every other weight μ of the side."""
    new = log_nu.copy()
    if k + 1 < new.shape[1]:
        new[t, k + 1] += new[t, k] - x
    new[t, k] = x
    return new


NOTHING = np.zeros(2)  # sizes of sides without rows: masks say nothing


def pair_target(name: str, theta, log_nu, counts, sizes, sum_out=False) -> float:
    """Joint log density of (log ν, masks): the density of ν times the Jacobian Π ν."""
    joint = formulas.log_joint_sticks(name, theta, log_nu, counts, sizes, sum_out)
    return joint + float(log_nu.sum())


def update_pair_theta(s, name, theta, log_nu, which=None):
    """Slice-sample each parameter (or one) from hyper-prior × Π_k p_θ(ν_k), Eq. (13)-(15)."""
    theta = theta.copy()
    nothing = np.zeros(log_nu.shape)

    def target(j, value):
        trial = theta.copy()
        trial[j] = value
        return pair_target(name, trial, log_nu, nothing, NOTHING)

    for j in range(theta.size) if which is None else [which]:
        if j == 2:
            theta[2] = slice_sample(s, lambda x: target(2, x), theta[2], -1.0, 1.0, math.inf)
            continue
        x = slice_sample(
            s, lambda x, j=j: target(j, math.exp(x)) - math.exp(x) + x,
            math.log(theta[j]), -700.0, 700.0, 1.0,
        )  # fmt: skip
        theta[j] = math.exp(x)
    return theta


def update_pair_sticks(s, name, theta, log_nu, counts, sizes):
    """Slice-sample each log μ_k of each side from Eq. (7)."""
    log_nu = log_nu.copy()
    K = log_nu.shape[1]
    for t in range(2):
        for k in range(K):

            def target(x, t=t, k=k, log_nu=log_nu):
                trial = moved(log_nu, t, k, x)
                return pair_target(name, theta, trial, counts, sizes, sum_out=True)

            x = log_nu[t, k]
            if k == K - 1:
                new = slice_sample(s, target, x, -math.inf, 0.0, last_width(x))
            else:
                new = slice_sample(s, target, x, x + log_nu[t, k + 1], 0.0, math.inf)
            log_nu = moved(log_nu, t, k, new)
    return log_nu


def truncated_beta(u: float, c: float, low: float, high: float) -> float:
    """Quantile at 1 − u of Beta(c, 1) on (low, high): its distribution function is μ^c."""
    return (high**c - u * (high**c - low**c)) ** (1.0 / c)


def update_pair_sticks_literal(s, name, theta, log_nu, counts, sizes):
    """Propose both μ_k from q and accept with Eq. (11), in μ itself."""
    log_nu = log_nu.copy()
    K = log_nu.shape[1]

    def log_density_in_mu(log_nu):
        # From log μ to μ: divide by every μ.
        return pair_target(name, theta, log_nu, counts, sizes) - np.cumsum(log_nu, axis=1).sum()

    for k in range(K):
        proposal = log_nu
        log_q = 0.0
        for t in range(2):
            log_mu = np.cumsum(log_nu[t])
            high = np.exp(log_mu[k] - log_nu[t, k])
            low = 0.0 if k == K - 1 else np.exp(log_mu[k + 1])
            c = theta[t] / K
            mu = truncated_beta(1.0 - uniform(s), c, low, high)
            log_q += (c - 1.0) * (log_mu[k] - math.log(mu))
            proposal = moved(proposal, t, k, math.log(mu / high))
        log_ratio = log_density_in_mu(proposal) - log_density_in_mu(log_nu) + log_q
        if math.log(uniform(s)) < log_ratio:
            log_nu = proposal
    return log_nu


def gp_target(theta, log_nu, g, counts, sizes, noise, sum_out=False) -> float:
    """Joint log density of (θ, log ν, g, masks)."""
    joint = formulas.log_joint_gp(*theta, log_nu, g, counts, sizes, *noise, sum_out)
    return joint + float(log_nu.sum())


def draw_gp_prior(s, sigma, length):
    root = np.linalg.cholesky(formulas.gp_covariance(sigma, length))
    first = normal(s)
    return root @ np.array([first, normal(s)])


def is_left_to_redraw(s, counts, k) -> bool:
    """Whether an unseen column is not moved by slices this time: a coin says."""
    return counts[:, k].min() == 0.0 and uniform(s) > SLICED


def redraw_gp_column(s, theta, log_nu, g, k, log_density, noise):
    """Propose log ν_k and g_k from q, the prior given the weights around, by Metropolis-Hastings.

    ``log_density`` is that of everything, given (log ν, g).
    """
    is_last = k == log_nu.size - 1
    total = -math.inf if is_last else log_nu[k] + log_nu[k + 1]
    u = uniform(s)
    trial, new_g = gp_moved(log_nu, k, math.log(u) / theta[0] if is_last else u * total), g.copy()
    new_g[:, k] = draw_gp_prior(s, noise[0], theta[1])

    def log_q(log_nu, g):
        normal_pair = stats.multivariate_normal(cov=formulas.gp_covariance(noise[0], theta[1]))
        stick = theta[0] * log_nu[k] if is_last else 0.0
        return normal_pair.logpdf(g[:, k]) + stick

    log_ratio = log_density(trial, new_g) - log_density(log_nu, g)
    log_ratio -= log_q(trial, new_g) - log_q(log_nu, g)
    return (trial, new_g) if log_ratio > -exponential(s) else (log_nu, g)


def update_gp_g(s, theta, log_nu, g, counts, sizes, noise):
    """Elliptical slice sampling (Murray et al., 2010) of each g_k, h summed out."""
    g = g.copy()
    for k in range(g.shape[1]):

        def log_likelihood(pair, k=k):
            trial = g.copy()
            trial[:, k] = pair
            return formulas.log_masks_of_gp(log_nu, trial, counts, sizes, *noise, sum_out=True)

        if is_left_to_redraw(s, counts, k):
            continue
        other = draw_gp_prior(s, noise[0], theta[1])
        level = math.log(uniform(s)) + log_likelihood(g[:, k])
        angle = 2.0 * math.pi * uniform(s)
        low, high = angle - 2.0 * math.pi, angle
        while True:
            trial = g[:, k] * math.cos(angle) + other * math.sin(angle)
            if log_likelihood(trial) > level:
                break
            low, high = (angle, high) if angle < 0.0 else (low, angle)
            angle = low + uniform(s) * (high - low)
        g[:, k] = trial
    return g


def update_gp_theta(s, theta, log_nu, g, noise, which=(1, 0)):
    """Slice-sample log s from Eq. (17); draw α from Eq. (9)."""
    theta = theta.copy()
    nothing = np.zeros(g.shape)

    def target(x):
        trial = np.array([theta[0], math.exp(x)])
        return gp_target(trial, log_nu, g, nothing, NOTHING, noise) + x

    if 1 in which:
        theta[1] = math.exp(slice_sample(s, target, math.log(theta[1]), -700.0, 16.0, 1.0))
    if 0 in which:
        theta[0] = gamma(s, 1.0 + log_nu.size, 1.0 - np.sum(log_nu))
    return theta


def gp_moved(log_nu, k, x):
    return moved(log_nu[None], 0, k, x)[0]


def update_gp_sticks(s, theta, log_nu, g, counts, sizes, noise):
    """Slice-sample each log μ_k from Eq. (8), then (log μ_k, g_k) along the line that keeps γ.

    Most unseen columns are redrawn instead.
    """
    log_nu, g = log_nu.copy(), g.copy()
    K = log_nu.size
    scale = math.hypot(*noise)

    def log_density(log_nu, g):
        return gp_target(theta, log_nu, g, counts, sizes, noise, True)

    for k in range(K):
        if is_left_to_redraw(s, counts, k):
            log_nu, g = redraw_gp_column(s, theta, log_nu, g, k, log_density, noise)
            continue
        is_last = k == K - 1
        low = -math.inf if is_last else log_nu[k] + log_nu[k + 1]
        width = last_width(log_nu[k]) if is_last else math.inf

        def target(x, k=k, log_nu=log_nu, g=g):
            return gp_target(theta, gp_moved(log_nu, k, x), g, counts, sizes, noise, True)

        log_nu = gp_moved(log_nu, k, slice_sample(s, target, log_nu[k], low, 0.0, width))

        def shifted(x, k=k, log_nu=log_nu, g=g):
            new = g.copy()
            gap = special.ndtri_exp(np.cumsum(gp_moved(log_nu, k, x))[k])
            new[:, k] += scale * (gap - special.ndtri_exp(np.cumsum(log_nu)[k]))
            return new

        def ridge(x, k=k, log_nu=log_nu, shifted=shifted):
            return gp_target(theta, gp_moved(log_nu, k, x), shifted(x), counts, sizes, noise, True)

        new = slice_sample(s, ridge, log_nu[k], low, 0.0, width)
        g = shifted(new)
        log_nu = gp_moved(log_nu, k, new)
    return log_nu, g


def draw_gp_g_given_h(s, theta, log_nu, g, counts, sizes, noise):
    """Draw every h from its truncated normal, then g given h, Eq. (16)."""
    new = np.empty(g.shape)
    sigma, eta = noise
    drawn = []
    for k in range(g.shape[1]):
        threshold = math.hypot(sigma, eta) * special.ndtri(np.exp(np.cumsum(log_nu)[k]))
        h = []
        for t in range(2):
            bound = (threshold - g[t, k]) / eta
            side = [normal_below(s, bound) for _ in range(int(counts[t, k]))]
            side += [-normal_below(s, -bound) for _ in range(int(sizes[t] - counts[t, k]))]
            h.append(g[t, k] + eta * np.array(side))
            assert np.all((h[t] < threshold) == (np.arange(int(sizes[t])) < counts[t, k]))
        drawn.append(h)
    for k, h in enumerate(drawn):
        mean, covariance = formulas.gp_g_given_h(*h, sigma, eta, theta[1])
        root = np.linalg.cholesky(covariance)
        first = normal(s)
        new[:, k] = mean + root @ np.array([first, normal(s)])
    return new


def update_gp_sticks_literal(s, theta, log_nu, g, counts, sizes, noise):
    """Propose μ_k from q and accept with Eq. (11), in μ itself."""
    log_nu = log_nu.copy()
    K = log_nu.size

    def log_density_in_mu(log_nu):
        return gp_target(theta, log_nu, g, counts, sizes, noise) - np.cumsum(log_nu).sum()

    for k in range(K):
        log_mu = np.cumsum(log_nu)
        high = np.exp(log_mu[k] - log_nu[k])
        low = 0.0 if k == K - 1 else np.exp(log_mu[k + 1])
        c = theta[0] / K
        mu = truncated_beta(1.0 - uniform(s), c, low, high)
        proposal = gp_moved(log_nu, k, math.log(mu / high))
        log_ratio = log_density_in_mu(proposal) - log_density_in_mu(log_nu)
        log_ratio += (c - 1.0) * (log_mu[k] - math.log(mu))
        if math.log(uniform(s)) < log_ratio:
            log_nu = proposal
    return log_nu


def empty_tail(counts) -> int:
    """First of the last columns that have an empty side."""
    used = np.flatnonzero(counts.min(axis=0))
    return int(used[-1]) + 1 if used.size else 0


def stretch_tail(s, state, counts, log_density, side, first=None):
    """Move log α of one side and stretch its sticks in the unseen tail along, Eq. (27).

    ``log_density`` is that of (θ, log ν, masks); ``side`` is an index of θ and into log ν. With
    ``first`` all sticks from there on are stretched.
    """
    first = empty_tail(counts) if first is None else first
    alpha = state.theta[side]

    def stretched(x):
        theta, log_nu = state.theta.copy(), state.log_nu.copy()
        theta[side] = math.exp(x)
        own = log_nu[side] if log_nu.ndim == 2 else log_nu
        own[first:] *= alpha / theta[side]
        return state._replace(theta=theta, log_nu=log_nu)

    def target(x):
        # As α grows by a factor, each stick of the tail shrinks by it.
        return log_density(stretched(x)) - (counts.shape[1] - first - 1) * x

    return stretched(slice_sample(s, target, math.log(alpha), -700.0, 700.0, 1.0))


def move_runs(s, state, counts, log_density, runs, width):
    """Move the weights of some runs of columns, Eq. (38); ``log_density`` as in `stretch_tail`."""
    K = counts.shape[1]
    log_nu = state.log_nu.copy()
    for t in range(2):
        for _ in range(runs):
            r = int(uniform(s) * min(empty_tail(counts) + 1, K))
            stop = r + 1 + int(uniform(s) * (K - r))
            total = log_nu[t, r] + (log_nu[t, stop] if stop < K else 0.0)

            def moved(x, t=t, r=r, stop=stop, total=total, old=log_nu):
                new = old.copy()
                new[t, r] = x
                if stop < K:
                    new[t, stop] = total - x
                return new

            def target(x, moved=moved):
                return log_density(state._replace(log_nu=moved(x)))

            low = total if stop < K else -math.inf
            log_nu = moved(slice_sample(s, target, log_nu[t, r], low, 0.0, width))
    return state._replace(log_nu=log_nu)


def refresh_tail(s, state, counts, move_one, redraw, log_masks):
    """Move one parameter given the sticks before a column r of the empty tail, Eq. (26).

    The other sticks are redrawn from the prior, and the masks' probability decides.
    ``state`` is a prior's state with a θ; the three functions know the prior.
    """
    K = counts.shape[1]
    first = empty_tail(counts)
    for _ in range(TAIL_TRIES if first < K else 0):
        r = first + int(uniform(s) * (K - first))
        which = int(uniform(s) * state.theta.size)
        trial = redraw(s, state._replace(theta=move_one(s, state, r, which)), r)
        if math.log(uniform(s)) < log_masks(trial) - log_masks(state):
            state = trial
    return state
