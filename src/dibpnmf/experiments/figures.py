"""Drawing that the experiments share."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from dibpnmf.experiments.base import MODELS

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

COLORS = {"bivariate-beta": "#d1495b", "copula": "#00798c", "gaussian-process": "#edae49"}
INK = "#1f3a5f"
PALE = "#9aa5b1"
STYLES = {"bivariate-beta": "-", "copula": "--", "gaussian-process": "-."}


def new_figure(width: float, height: float) -> Figure:
    """Make a figure of our own: pyplot's state is the user's."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), layout="constrained")
    FigureCanvasAgg(figure)
    return figure


def save(figure: Figure, folder: Path, name: str) -> list[Path]:
    """Write a figure as PNG and PDF, each under a temporary name first."""
    figure.draw_without_rendering()
    figure.set_layout_engine("none")  # once is enough: laying out takes longer than drawing
    paths = []
    for ending, options in (
        ("png", {"dpi": 130}),
        ("pdf", {"metadata": {"CreationDate": None}}),
    ):
        path = folder / f"{name}.{ending}"
        temporary = folder / f".{name}.{os.getpid()}.part"
        figure.savefig(temporary, format=ending, **options)
        temporary.replace(path)
        paths.append(path)
    return paths


def label(axes: Axes, title: str, x: str, y: str) -> None:
    """Title and axis labels in the size of all figures."""
    axes.set_title(title, fontsize=10)
    axes.set_xlabel(x, fontsize=9)
    axes.set_ylabel(y, fontsize=9)
    axes.tick_params(labelsize=8)


def draw_matrix(axes: Axes, values: ArrayLike, title: str, x: str, y: str, **options: Any) -> Any:
    """Draw a matrix in grey, zeros dark as in the paper."""
    from matplotlib.ticker import MaxNLocator

    shown: dict[str, Any] = {"cmap": "gray", "vmin": 0.0, **options}
    image = axes.imshow(np.asarray(values), aspect="auto", interpolation="nearest", **shown)
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_locator(MaxNLocator(integer=True))
    label(axes, title, x, y)
    return image


def draw_level(axes: Axes, prior: str, values: Sequence[float], note: str = "") -> None:
    """Draw a horizontal line at the mean of a model's values, and a band of one deviation."""
    mean, spread = float(np.mean(values)), float(np.std(values))
    axes.axhline(
        mean, color=COLORS[prior], ls=STYLES[prior], lw=1.8, label=f"{MODELS[prior]}{note}"
    )
    axes.axhspan(mean - spread, mean + spread, color=COLORS[prior], alpha=0.12, lw=0)
