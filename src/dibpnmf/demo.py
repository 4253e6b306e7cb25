"""The demonstration: a planted matrix with known factors, and images of digits."""

from __future__ import annotations

import os
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from dibpnmf import plots
from dibpnmf.datasets import make_planted
from dibpnmf.diagnostics import InterruptedWarning
from dibpnmf.estimator import DIBPNMF
from dibpnmf.summary import factors_in_words

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from numpy.typing import NDArray

_DIGITS = 1000  # images: enough for clear parts, few enough for a demonstration


def run_demo(out: Path, seed: int = 0, progress: bool | str = "auto") -> str:
    """Fit both data sets, write figures into ``out``, and return a readable summary."""
    out.mkdir(parents=True, exist_ok=True)
    parts = [_planted(out, seed, progress), _digits(out, seed, progress)]
    return "\n\n".join(parts) + f"\n\nThe figures are in {out.resolve()}"


def _fit(Y: NDArray[np.float64], seed: int, progress: bool | str, **params: Any) -> DIBPNMF:
    """Fit quietly: the summary says how far to trust the chains."""
    model = DIBPNMF(random_state=seed, n_jobs=-1, progress=progress, **params)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        warnings.simplefilter("ignore", UserWarning)
        warnings.simplefilter("error", InterruptedWarning)
        try:
            return model.fit(Y)
        except InterruptedWarning as stop:
            raise KeyboardInterrupt from stop


def _planted(out: Path, seed: int, progress: bool | str) -> str:
    data = make_planted(random_state=seed)
    model = _fit(data.data, seed, progress, n_warmup=200, n_draws=200, n_chains=4)
    files = [
        _save(plots.plot_reconstruction(model, data.data), out / "planted.png"),
        _save(plots.plot_match(model, data.A, data.X), out / "planted-factors.png"),
    ]
    error = float(np.mean(np.abs(model.reconstruct() - data.mean)) / data.mean.mean())
    return _summary(
        "A planted matrix, 100 × 80, with 5 sparse factors and exponential noise",
        model,
        f"The posterior mean is {error:.0%} off the true mean, on average over cells; "
        "the noise is 100%.",
        files,
    )


def _digits(out: Path, seed: int, progress: bool | str) -> str:
    from sklearn.datasets import load_digits

    Y = load_digits().data[:_DIGITS]
    model = _fit(Y, seed, progress, n_warmup=120, n_draws=80, n_chains=2)
    files = [
        _save(plots.plot_image_factors(model, (8, 8)), out / "digits-factors.png"),
        _save(plots.plot_image_reconstructions(model, Y, (8, 8)), out / "digits-images.png"),
        _save(plots.plot_number_of_factors(model), out / "digits-number-of-factors.png"),
    ]
    explained = 1.0 - np.sum((Y - model.reconstruct()) ** 2) / np.sum((Y - Y.mean()) ** 2)
    return _summary(
        f"scikit-learn's digits, {_DIGITS} images of 8 × 8 pixels",
        model,
        f"The posterior mean explains {explained:.0%} of the pixels' variance.",
        files,
    )


def _summary(title: str, model: DIBPNMF, fit: str, files: list[Path]) -> str:
    r_hat = model.diagnostics_["r_hat"]["log_likelihood"]
    trust = (
        f"The chains agree (R-hat of the log likelihood {r_hat:.2f})."
        if r_hat <= 1.05
        else f"The chains have not met (R-hat of the log likelihood {r_hat:.2f}): "
        "so short a run shows the kind of factors; run longer before you quote numbers."
    )
    density = [float(np.mean(side > 0.0)) for side in (model.embedding_, model.components_)]
    return "\n".join(
        [
            title,
            "-" * len(title),
            factors_in_words(model.component_counts_),
            f"Sparsity: a row uses {density[0]:.0%} of the factors, a column {density[1]:.0%}",
            f"Fit: {fit}",
            f"Trust: {trust}",
            *(f"  {_shown(path)}" for path in files),
        ]
    )


def _shown(path: Path) -> str:
    return os.path.relpath(path)


def _save(figure: Figure, path: Path) -> Path:
    """Write under a temporary name, then rename: never half a figure."""
    temporary = path.with_name(f".{path.name}.part")
    figure.savefig(temporary, dpi=110, format=path.suffix[1:])
    temporary.replace(path)
    return path
