"""Special functions that stay exact in the tails, for use inside compiled kernels."""

from __future__ import annotations

import math

from dibpnmf._compile import kernel

LOG_2 = math.log(2.0)
HALF_LOG_2PI = 0.5 * math.log(2.0 * math.pi)
SQRT_HALF = math.sqrt(0.5)
_MILLS_TERMS = 20  # at t = −5 they leave an error below 1e-14


@kernel
def log1mexp(x: float) -> float:
    """Log of 1 − eˣ for x <= 0, accurate at both ends (−inf at x = 0)."""
    if x >= 0.0:
        return -math.inf
    if x > -LOG_2:
        return math.log(-math.expm1(x))
    return math.log1p(-math.exp(x))


@kernel
def times_log(n: float, log_p: float) -> float:
    """Product n · log p with the convention 0 · (−inf) = 0."""
    if n == 0.0:
        return 0.0
    return n * log_p


@kernel
def log_ndtr(x: float) -> float:
    """Log of the standard normal distribution function."""
    if x > 0.0:
        return math.log1p(-0.5 * math.erfc(x * SQRT_HALF))
    if x > -30.0:
        return math.log(0.5 * math.erfc(-x * SQRT_HALF))
    # Asymptotic series; at x = −30 the first term left out is below 1e-12.
    r = 1.0 / (x * x)
    series = 1.0 - r * (1.0 - 3.0 * r * (1.0 - 5.0 * r * (1.0 - 7.0 * r * (1.0 - 9.0 * r))))
    return -0.5 * x * x - math.log(-x) - HALF_LOG_2PI + math.log(series)


@kernel
def log_positive_mass(t: float) -> float:
    """Log of ∫₀^∞ exp(t x − x²/2) dx, the mass on x > 0 of a normal density that is 1 at x = 0.

    The plain formula is t²/2 + log Φ(t) + log √(2π), whose terms cancel in the far left tail.
    """
    if t > -5.0:
        return 0.5 * t * t + log_ndtr(t) + HALF_LOG_2PI
    # Laplace's continued fraction of Mills' ratio at −t.
    fraction = -t
    for j in range(_MILLS_TERMS, 0, -1):
        fraction = -t + j / fraction
    return -math.log(fraction)


@kernel
def _ndtri_exp_lower(log_p: float) -> float:
    """Quantile of exp(log_p) <= 1/2 by Newton's method on the concave log_ndtr."""
    if log_p < -1e300:
        return -math.inf
    if log_p > -2.0:
        x = -math.sqrt(max(0.0, -2.0 * (log_p + LOG_2))) * 0.8
    else:
        t = -2.0 * log_p
        x = -math.sqrt(max(t - math.log(t) - 2.0 * HALF_LOG_2PI, 0.25))
    for _ in range(60):
        value = log_ndtr(x)
        step = (value - log_p) * math.exp(value + 0.5 * x * x + HALF_LOG_2PI)
        x -= step
        if x > 1.0:
            x = 1.0
        if abs(step) <= 4e-16 * abs(x) + 1e-300:
            break
    return x


@kernel
def ndtri_exp(log_p: float) -> float:
    """Standard normal quantile of a probability given by its logarithm."""
    if log_p >= 0.0:
        return math.inf
    if log_p > -LOG_2:
        return -_ndtri_exp_lower(log1mexp(log_p))
    return _ndtri_exp_lower(log_p)
