"""Figures of a fitted model, with matplotlib. Each function returns a Figure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dibpnmf.posterior import unit_columns

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from dibpnmf.estimator import DIBPNMF

Floats = NDArray[np.float64]

_INK = "#1f3a5f"
_ACCENT = "#d1495b"
_CHAINS = ("#1f3a5f", "#d1495b", "#edae49", "#00798c", "#66a182", "#8d6a9f")


def _figure(width: float, height: float) -> Figure:
    # Not pyplot: a figure of our own leaves the user's backend and open figures alone.
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), layout="constrained")
    FigureCanvasAgg(figure)
    return figure


def _matrix(axes: Axes, values: ArrayLike, title: str, x: str, y: str, **options: Any) -> Any:
    options.setdefault("cmap", "magma_r")
    image = axes.imshow(values, aspect="auto", interpolation="nearest", **options)
    axes.set_title(title, fontsize=10)
    axes.set_xlabel(x, fontsize=8)
    axes.set_ylabel(y, fontsize=8)
    axes.tick_params(labelsize=7)
    return image


def plot_number_of_factors(model: DIBPNMF) -> Figure:
    """Posterior of the effective number of factors."""
    figure = _figure(4, 3)
    _draw_number_of_factors(model, figure.subplots())
    return figure


def _draw_number_of_factors(model: DIBPNMF, axes: Axes) -> None:
    numbers = np.array(sorted(model.component_counts_))
    heights = np.array([model.component_counts_[k] for k in numbers])
    colors = np.where(heights == heights.max(), _ACCENT, _INK)
    axes.bar(numbers, heights, color=colors.tolist(), width=0.8)
    axes.set_xticks(np.arange(numbers.min() - 1, numbers.max() + 2))
    axes.set_ylim(0, 1)
    axes.set_title("How many factors?", fontsize=10)
    axes.set_xlabel("effective factors", fontsize=8)
    axes.set_ylabel("posterior probability", fontsize=8)
    axes.tick_params(labelsize=7)


def plot_traces(model: DIBPNMF) -> Figure:
    """Log likelihood of every chain, draw by draw."""
    figure = _figure(4, 3)
    _draw_traces(model, figure.subplots())
    return figure


def _draw_traces(model: DIBPNMF, axes: Axes) -> None:
    lines = np.asarray(model.posterior_["sample_stats"]["log_likelihood"])
    for chain, line in enumerate(lines):
        axes.plot(line, lw=0.7, color=_CHAINS[chain % len(_CHAINS)], label=f"chain {chain + 1}")
    axes.set_title("Log likelihood", fontsize=10)
    axes.set_xlabel("draw", fontsize=8)
    axes.tick_params(labelsize=7)
    axes.legend(fontsize=7, frameon=False)


def plot_reconstruction(model: DIBPNMF, Y: ArrayLike) -> Figure:
    """Data beside the posterior mean, the factors A and X, the number of factors, the traces."""
    Y = np.asarray(Y, dtype=np.float64)
    figure = _figure(11, 6.5)
    axes = figure.subplots(2, 3)
    mean = model.reconstruct()
    top = float(np.nanquantile(Y, 0.98)) or 1.0
    _matrix(axes[0, 0], Y, "Y, the data", "column", "row", vmin=0, vmax=top)
    image = _matrix(axes[0, 1], mean, "λ, its posterior mean", "column", "row", vmin=0, vmax=top)
    figure.colorbar(image, ax=axes[0, 1], shrink=0.8)
    _draw_number_of_factors(model, axes[0, 2])
    _matrix(axes[1, 0], model.embedding_, "A, rows by factor", "factor", "row")
    _matrix(axes[1, 1], model.components_, "Xᵀ, factors by column", "column", "factor")
    _draw_traces(model, axes[1, 2])
    return figure


def plot_match(model: DIBPNMF, A: Floats, X: Floats) -> Figure:
    """True factors beside those found, in the order of the best match."""
    from scipy.optimize import linear_sum_assignment

    truth = [unit_columns(side) for side in (A, X)]
    found = [unit_columns(side) for side in (model.embedding_, model.components_.T)]
    cosines = [one.T @ other for one, other in zip(truth, found, strict=True)]
    true, ours = linear_sum_assignment(-cosines[0] * cosines[1])
    figure = _figure(10, 5.5)
    axes = figure.subplots(2, 3, width_ratios=[1, 1, 0.9])
    for line, (name, unit) in enumerate((("A", "row"), ("X", "column"))):
        _matrix(axes[line, 0], truth[line][:, true].T, f"true {name}", unit, "factor")
        _matrix(axes[line, 1], found[line][:, ours].T, f"found {name}", unit, "factor")
        values = cosines[line][true, ours]
        axes[line, 2].barh(np.arange(values.size), values, color=_INK)
        axes[line, 2].set(xlim=(0, 1), yticks=np.arange(values.size))
        axes[line, 2].bar_label(axes[line, 2].containers[0], fmt="%.2f", label_type="center",
                                color="white", fontsize=7)  # fmt: skip
        axes[line, 2].invert_yaxis()
        axes[line, 2].set_title(f"cosine of found and true {name}", fontsize=10)
        axes[line, 2].tick_params(labelsize=7)
    return figure


def plot_image_factors(model: DIBPNMF, shape: tuple[int, int], columns: int = 10) -> Figure:
    """Factors as images of the given shape, sorted by share."""
    K = model.n_components_
    rows = max(1, -(-K // columns))
    figure = _figure(1.1 * columns, 1.35 * rows + 0.4)
    grid = figure.subplots(rows, columns, squeeze=False)
    for k, axes in enumerate(grid.flat):
        axes.axis("off")
        if k < K:
            axes.imshow(model.components_mean_[k].reshape(shape), cmap="magma_r")
            axes.set_title(f"{model.shares_[k]:.1%}", fontsize=8)
    figure.suptitle(f"{K} factors and their share of the reconstruction", fontsize=11)
    return figure


def plot_image_reconstructions(
    model: DIBPNMF, Y: ArrayLike, shape: tuple[int, int], n: int = 10
) -> Figure:
    """Some rows of Y as images, above their posterior means."""
    Y = np.asarray(Y, dtype=np.float64)
    mean = model.reconstruct()
    figure = _figure(1.1 * n, 2.6)
    grid = figure.subplots(2, n)
    for j, i in enumerate(np.linspace(0, Y.shape[0] - 1, n).astype(int)):
        for axes, values in zip(grid[:, j], (Y[i], mean[i]), strict=True):
            axes.imshow(values.reshape(shape), cmap="magma_r", vmin=0, vmax=Y[i].max())
            axes.axis("off")
    figure.suptitle("Images (above) and their posterior means (below)", fontsize=11)
    return figure
