"""Shares of draws against probabilities."""

from __future__ import annotations

import math

import numpy as np
from scipy import stats

# A hundred or two of probabilities are tested in all.
P_VALUE = 1e-6


def check_probability(events: np.ndarray, expected: float) -> None:
    """Compare with batch means, with at least the binomial error for events that are rare."""
    means = events.reshape(64, -1).mean(axis=1)
    binomial = math.sqrt(expected * (1.0 - expected) / events.size)
    error = max(means.std(ddof=1) / 8.0, binomial)
    assert abs(means.mean() - expected) <= stats.t.isf(P_VALUE / 2.0, 63) * error + 1e-6
