"""Counter-based random streams: every draw is a function of where it is used.

A stream is named by (seed, chain, sweep, purpose, row). Whoever opens it, in whichever thread,
process or resumed run, reads the same numbers, so draws do not depend on how work is divided.
The generator is Philox4x32-10 (Salmon et al., 2011): 128-bit counter, 64-bit key.
"""

from __future__ import annotations

import math
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from dibpnmf._compile import kernel, part, spliced
from dibpnmf.special import log_ndtr, ndtri_exp

Stream: TypeAlias = NDArray[np.uint64]

# What a stream is used for; the last part of its name.
ROWS, COLUMNS, PRIOR, LABELS, START, EMBED, GROWTH, ROW_LOADINGS, COLUMN_LOADINGS = range(9)
NOISE, FACTORS, EXCHANGES = 9, 10, 11

_M0 = np.uint64(0xD2511F53)
_M1 = np.uint64(0xCD9E8D57)
_W0 = np.uint64(0x9E3779B9)
_W1 = np.uint64(0xBB67AE85)
_LOW = np.uint64(0xFFFFFFFF)
_32 = np.uint64(32)
_12 = np.uint64(12)
_2 = np.uint64(2)
_1 = np.uint64(1)
_0 = np.uint64(0)
_TO_UNIT = 2.0**-52

# Places in a stream's array: key, counter, how many of the words were read, and the words.
_KEY, _COUNTER, _READ, _WORDS = 0, 2, 6, np.uint64(7)
# Blocks made at once, in vector lanes: five times as fast as one after another.
_BLOCKS = np.uint64(8)
_MADE = _2 * _BLOCKS


@spliced
def philox(k0, k1, c0, c1, c2, c3):  # type: ignore[no-untyped-def]
    """Ten rounds of Philox4x32; words are 32 bits held in uint64."""
    for _ in range(10):
        p0 = _M0 * c0
        p1 = _M1 * c2
        c0, c1, c2, c3 = (p1 >> _32) ^ c1 ^ k0, p1 & _LOW, (p0 >> _32) ^ c3 ^ k1, p0 & _LOW
        k0 = (k0 + _W0) & _LOW
        k1 = (k1 + _W1) & _LOW
    return c0, c1, c2, c3


@kernel
def new_stream() -> Stream:
    """Room for one stream; name it with `open_stream` before drawing."""
    return np.zeros(_WORDS + _MADE, np.uint64)


@kernel
def open_stream(s: Stream, seed: int, chain: int, sweep: int, purpose: int, row: int) -> None:
    """Point ``s`` at the start of the stream with this name."""
    key = np.uint64(seed)
    s[_KEY] = key & _LOW
    s[_KEY + 1] = key >> _32
    s[_COUNTER] = _0
    s[_COUNTER + 1] = np.uint64(row) & _LOW
    s[_COUNTER + 2] = np.uint64(sweep) & _LOW
    s[_COUNTER + 3] = ((np.uint64(chain) << np.uint64(8)) | np.uint64(purpose)) & _LOW
    s[_READ] = _MADE


def stream(seed: int, chain: int, sweep: int, purpose: int, row: int = 0) -> Stream:
    """Make a stream from its name."""
    s = new_stream()
    key: Any = np.uint64(seed)
    open_stream(s, key, chain, sweep, purpose, row)
    return s


@part
def _make_words(s: Stream) -> None:
    """Make the next words, two to a block."""
    k0, k1 = s[_KEY], s[_KEY + 1]
    first, c1_, c2_, c3_ = s[_COUNTER], s[_COUNTER + 1], s[_COUNTER + 2], s[_COUNTER + 3]
    for block in range(_BLOCKS):
        c0, c1, c2, c3 = philox(k0, k1, (first + block) & _LOW, c1_, c2_, c3_)
        s[_WORDS + _2 * block] = (c0 << _32) | c1
        s[_WORDS + _2 * block + _1] = (c2 << _32) | c3
    s[_COUNTER] += _BLOCKS
    s[_READ] = _0


@kernel
def uniform(s: Stream) -> float:
    """Draw from the open interval (0, 1) with 52 bits."""
    if s[_READ] == _MADE:
        _make_words(s)
    at = s[_READ]
    s[_READ] = at + _1
    return (np.float64(s[_WORDS + at] >> _12) + 0.5) * _TO_UNIT


@kernel
def exponential(s: Stream) -> float:
    """Draw from the exponential distribution of rate 1."""
    return -math.log(uniform(s))


def _layers() -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Right edges of the layers, from below, and exp(−x²/2) there.

    All have the same area; the lowest is as wide as its rectangle would be with the tail in it.
    """
    height = math.exp(-0.5 * _TAIL * _TAIL)
    area = _TAIL * height + math.sqrt(0.5 * math.pi) * math.erfc(_TAIL * math.sqrt(0.5))
    edges = [area / height, _TAIL]
    while len(edges) < _N_LAYERS:
        height += area / edges[-1]
        edges.append(math.sqrt(-2.0 * math.log(height)))
    x = np.array([*edges, 0.0])
    return x, np.exp(-0.5 * x * x)


# With this many layers of equal area the lowest ends, and the tail begins, here (Doornik, 2005).
_N_LAYERS, _TAIL = 256, 3.6541528853610088
_EDGES, _HEIGHTS = _layers()


@part
def normal(s: Stream) -> float:
    """Draw from the standard normal distribution (ziggurat of Marsaglia and Tsang, 2000)."""
    while True:
        place = _N_LAYERS * uniform(s)
        layer = int(place)
        x = (2.0 * (place - layer) - 1.0) * _EDGES[layer]
        if abs(x) < _EDGES[layer + 1]:
            return x
        if layer == 0:
            return math.copysign(_normal_tail(s), x)
        below, above = _HEIGHTS[layer], _HEIGHTS[layer + 1]
        if below + uniform(s) * (above - below) < math.exp(-0.5 * x * x):
            return x


@spliced
def _normal_tail(s: Stream) -> float:
    """Draw from the standard normal distribution beyond the lowest layer."""
    while True:
        beyond = exponential(s) / _TAIL
        if 2.0 * exponential(s) > beyond * beyond:
            return _TAIL + beyond


@part
def normal_below(s: Stream, bound: float) -> float:
    """Draw from the standard normal distribution restricted to (−inf, bound)."""
    return ndtri_exp(math.log(uniform(s)) + log_ndtr(bound))


@part
def positive_normal(s: Stream, t: float) -> float:
    """Draw from N(t, 1) restricted to the positive numbers, density ∝ exp(t x − x²/2).

    Rejection: from the normal itself where t > 0, else from an exponential distribution with
    the best rate (Robert, 1995). Nothing cancels however far in the tail.
    """
    if t > 0.0:
        while True:
            x = t + normal(s)
            if x > 0.0:
                return x
    rate = 0.5 * (math.sqrt(t * t + 4.0) - t)
    top = 1.0 / rate  # = rate + t, without its cancellation: where target over proposal peaks
    while True:
        x = exponential(s) / rate
        if exponential(s) > 0.5 * (x - top) ** 2:
            return x


@part
def log_gamma_draw(s: Stream, shape: float) -> float:
    """Log of a draw from Gamma(shape, 1), without underflow for any shape > 0.

    Marsaglia and Tsang (2000); a shape below 1 is lifted by one and multiplied by U^(1/shape).
    """
    lift = 0.0
    if shape < 1.0:
        lift = math.log(uniform(s)) / shape
        shape += 1.0
    d = shape - 1.0 / 3.0
    c = 1.0 / math.sqrt(9.0 * d)
    while True:
        x = normal(s)
        t = 1.0 + c * x
        if t <= 0.0:
            continue
        v = t * t * t
        if math.log(uniform(s)) < 0.5 * x * x + d - d * v + d * math.log(v):
            return lift + math.log(d * v)


@kernel
def gamma(s: Stream, shape: float, rate: float) -> float:
    """Draw from Gamma(shape, rate)."""
    return math.exp(log_gamma_draw(s, shape)) / rate


_WIDE = 10.0  # in log c: beyond, the density is flat, and falls as exp(−eˣ) at either end


@part
def log_gig_draw(s: Stream, p: float, a: float, b: float) -> float:
    """Log of a draw from the generalised inverse Gaussian c^(p−1) exp(−(ac + b/c)/2).

    In x = log c the density p·x − (a eˣ + b e⁻ˣ)/2 is log-concave: rejection from a flat top
    with two exponential tails, tangent where the density has fallen by a factor e
    (Devroye, 1986, VII.2). Needs a > 0 and b > 0.
    """
    root = math.sqrt(p * p + a * b)
    # The larger of the two forms of the mode has no cancellation.
    mode = math.log((p + root) / a) if p >= 0.0 else math.log(b / (root - p))
    ea = 0.5 * a * math.exp(mode)
    eb = 0.5 * b * math.exp(-mode)
    width = min(1.0 / math.sqrt(ea + eb), _WIDE)
    right = _gig_fall(p, ea, eb, width)
    left = _gig_fall(-p, eb, ea, width)
    slope_r = ea * math.exp(right) - eb * math.exp(-right) - p
    slope_l = eb * math.exp(left) - ea * math.exp(-left) + p
    fall_r = -_gig_drop(p, ea, eb, right)
    fall_l = -_gig_drop(-p, eb, ea, left)
    # Tangents at left and right meet the flat top this far from the mode.
    top_r = right - fall_r / slope_r
    top_l = left - fall_l / slope_l
    tail_r = 1.0 / slope_r
    tail_l = 1.0 / slope_l
    total = top_r + top_l + tail_r + tail_l
    while True:
        u = uniform(s) * total
        if u < top_r + top_l:
            x = u - top_l
            cover = 0.0
        elif u < top_r + top_l + tail_r:
            e = exponential(s)
            x = top_r + e * tail_r
            cover = -e
        else:
            e = exponential(s)
            x = -top_l - e * tail_l
            cover = -e
        if math.log(uniform(s)) + cover <= _gig_drop(p, ea, eb, x):
            return mode + x


@part
def _gig_drop(p: float, ea: float, eb: float, x: float) -> float:
    """Log density of the GIG at mode·eˣ, less that at its mode."""
    return p * x - ea * math.expm1(x) - eb * math.expm1(-x)


@part
def _gig_fall(p: float, ea: float, eb: float, x: float) -> float:
    """Find x > 0 where the log density has fallen by about 1 (any x is valid)."""
    for _ in range(50):
        drop = _gig_drop(p, ea, eb, x)
        if drop < -2.0:
            x *= 0.7
        elif drop > -0.5:
            x *= 1.5
        else:
            break
    return x
