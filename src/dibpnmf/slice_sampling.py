"""One-dimensional slice sampling (Neal, 2003): exact, with nothing to tune."""

from __future__ import annotations

import math

from dibpnmf._compile import part
from dibpnmf._dispatch import hook
from dibpnmf.random import Stream, exponential, uniform

log_density, implements_log_density = hook(
    "log_density",
    """Log density, up to a constant, of a target (a NamedTuple) at a scalar point.""",
    inline=False,
)

_MAX_STEPS = 200


@part
def slice_sample(s: Stream, target, x: float, low: float, high: float, width: float) -> float:  # type: ignore[no-untyped-def]
    """Leave ``target`` invariant with one slice-sampling move from ``x``.

    1. Draw a level under the density at x.
    2. Place an interval of the given width at random around x and step each end out of the
       slice, or, if the bounds are closer than that, take the bounds.
    3. Draw points from the interval, shrinking it towards x, until one lies in the slice.
    """
    level = log_density(target, x) - exponential(s)
    if not level > -math.inf:
        return x
    if high - low <= width:
        left, right = low, high
    else:
        left = x - width * uniform(s)
        right = left + width
        # Doubling would need a second check; stepping out with a randomly split limit does not.
        steps_left = int(_MAX_STEPS * uniform(s))
        steps_right = _MAX_STEPS - 1 - steps_left
        while steps_left > 0 and left > low and log_density(target, left) > level:
            left -= width
            steps_left -= 1
        while steps_right > 0 and right < high and log_density(target, right) > level:
            right += width
            steps_right -= 1
        left, right = max(left, low), min(right, high)
    for _ in range(1000):
        proposal = left + uniform(s) * (right - left)
        if log_density(target, proposal) > level:
            return proposal
        if proposal < x:
            left = proposal
        else:
            right = proposal
    return x
