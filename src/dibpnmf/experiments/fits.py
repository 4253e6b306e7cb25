"""Fits that make no noise and are never half done, and the paper's point estimate."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dibpnmf.diagnostics import InterruptedWarning
from dibpnmf.estimator import DIBPNMF

Floats = NDArray[np.float64]


def fit_quietly(model: DIBPNMF, Y: Any) -> DIBPNMF:
    """Fit without progress or doubts; Ctrl-C ends the run instead of shortening a chain."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        warnings.simplefilter("error", InterruptedWarning)
        try:
            return model.set_params(progress=False).fit(Y)
        except InterruptedWarning as stop:
            raise KeyboardInterrupt from stop


def best_draw(model: DIBPNMF) -> tuple[Floats, Floats]:
    """A and X of the draw with the largest likelihood, the paper's output, in the units of Y."""
    likelihoods = np.asarray(model._scalars["log_likelihood"])
    chain, draw = np.unravel_index(np.argmax(likelihoods), likelihoods.shape)
    A, X = model._records[chain].draws[draw].unpack()
    return A, X * model._scale
