"""Special functions that stay exact in the tails, for use inside compiled kernels."""

from __future__ import annotations

import math
from typing import NamedTuple

from dibpnmf._compile import inlined, kernel, part

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


class LogProduct(NamedTuple):
    """Log of a product of factors in (0, 2], a logarithm at a time for many of them."""

    done: float
    product: float


@inlined
def multiplied(so_far: LogProduct, factor: float) -> LogProduct:
    """Multiply by one more factor."""
    product = so_far.product * factor
    if 1e-100 < product < 1e100:
        return LogProduct(so_far.done, product)
    return LogProduct(so_far.done + math.log(product), 1.0)


@inlined
def log_of(so_far: LogProduct) -> float:
    """Log of the product."""
    return so_far.done + math.log(so_far.product)


@kernel
def times_log(n: float, log_p: float) -> float:
    """Product n · log p with the convention 0 · (−inf) = 0."""
    if n == 0.0:
        return 0.0
    return n * log_p


@part
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


@part
def log_ndtr_both(x: float):  # type: ignore[no-untyped-def]
    """Log of the standard normal distribution function at x and at −x, at the price of one."""
    low = log_ndtr(-abs(x))
    high = math.log1p(-math.exp(low))
    return (high, low) if x > 0.0 else (low, high)


@part
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


@part
def _ratio(r: float, P, Q) -> float:  # type: ignore[no-untyped-def]
    """Quotient of two polynomials of degree 7, highest powers first."""
    above, below = P[0], Q[0]
    for j in range(1, 8):
        above = above * r + P[j]
        below = below * r + Q[j]
    return above / below


# Wichura (1988), algorithm AS 241: relative errors of about 1e-16.
_MIDDLE = (
    (2.5090809287301226727e3, 3.3430575583588128105e4, 6.7265770927008700853e4,
     4.5921953931549871457e4, 1.3731693765509461125e4, 1.9715909503065514427e3,
     1.3314166789178437745e2, 3.3871328727963666080e0),
    (5.2264952788528545610e3, 2.8729085735721942674e4, 3.9307895800092710610e4,
     2.1213794301586595867e4, 5.3941960214247511077e3, 6.8718700749205790830e2,
     4.2313330701600911252e1, 1.0),
)  # fmt: skip
_OUTER = (
    (7.74545014278341407640e-4, 2.27238449892691845833e-2, 2.41780725177450611770e-1,
     1.27045825245236838258e0, 3.64784832476320460504e0, 5.76949722146069140550e0,
     4.63033784615654529590e0, 1.42343711074968357734e0),
    (1.05075007164441684324e-9, 5.47593808499534494600e-4, 1.51986665636164571966e-2,
     1.48103976427480074590e-1, 6.89767334985100004550e-1, 1.67638483018380384940e0,
     2.05319162663775882187e0, 1.0),
)  # fmt: skip
_FAR = (
    (2.01033439929228813265e-7, 2.71155556874348757815e-5, 1.24266094738807843860e-3,
     2.65321895265761230930e-2, 2.96560571828504891230e-1, 1.78482653991729133580e0,
     5.46378491116411436990e0, 6.65790464350110377720e0),
    (2.04426310338993978564e-15, 1.42151175831644588870e-7, 1.84631831751005468180e-5,
     7.86869131145613259100e-4, 1.48753612908506148525e-2, 1.36929880922735805310e-1,
     5.99832206555887937690e-1, 1.0),
)  # fmt: skip
_LOG_MIDDLE = math.log(0.075)  # from here to 1/2
_FARTHEST = -700.0  # log of the smallest probability that the algorithm is made for


@part
def _ndtri_exp_lower(log_p: float) -> float:
    """Quantile of exp(log_p) <= 1/2."""
    if log_p > _LOG_MIDDLE:
        q = math.exp(log_p) - 0.5
        return q * _ratio(0.180625 - q * q, _MIDDLE[0], _MIDDLE[1])
    if log_p > _FARTHEST:
        r = math.sqrt(-log_p)
        if r <= 5.0:
            return -_ratio(r - 1.6, _OUTER[0], _OUTER[1])
        return -_ratio(r - 5.0, _FAR[0], _FAR[1])
    if log_p < -1e300:
        return -math.inf
    # log Φ(x) = −x²/2 − log(−x √2π) − 1/x² + ...: a few steps to its fixed point.
    x = math.sqrt(-2.0 * log_p)
    for _ in range(8):
        r = 1.0 / (x * x)
        log_series = math.log1p(-r * (1.0 - 3.0 * r * (1.0 - 5.0 * r)))
        x = math.sqrt(2.0 * (log_series - log_p - math.log(x) - HALF_LOG_2PI))
    return -x


@part
def ndtri_exp(log_p: float) -> float:
    """Standard normal quantile of a probability given by its logarithm."""
    if log_p >= 0.0:
        return math.inf
    if log_p > -LOG_2:
        return -_ndtri_exp_lower(log1mexp(log_p))
    return _ndtri_exp_lower(log_p)
