"""The factors as the page needs them: their columns, rows, images, and every row's shares.

All numbers are free of the scale that A and X share: weights of a factor's columns sum to one,
and so do the shares of the factors in a row's reconstruction.
"""

from __future__ import annotations

import base64
from io import BytesIO
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from dibpnmf.posterior import unit_columns

if TYPE_CHECKING:
    from dibpnmf.estimator import DIBPNMF

Floats = NDArray[np.float64]

_COLUMNS, _ROWS = 30, 5  # top columns and rows of a factor that are named
_VISIBLE = 0.005  # share of a factor's weight below which a bar would look empty
_IN_A_LABEL = 3  # columns that stand for a factor where there is little room
_MOST_ROWS, _MOST_SHARES = 20_000, 4_000_000  # rows, and rows × factors, that can be searched
_INK = (36, 89, 166)


def label(k: int) -> str:
    """What a factor is called."""
    return f"Factor {k + 1}"


def describe(
    model: DIBPNMF, rows: list[str], columns: list[str], image: tuple[int, int] | None
) -> list[dict[str, Any]]:
    """Everything about each factor, sorted by share."""
    row_weights = _to_one(model.embedding_, axis=0)
    return [
        {
            "label": label(k),
            "share": float(model.shares_[k]),
            "rowsUsing": int(np.sum(model.embedding_[:, k] > 0.0)),
            "columnsUsing": int(np.sum(model.components_[k] > 0.0)),
            # A column of a factor is on only in draws that have the factor.
            "found": float(model.inclusion_probabilities_[k].max(initial=0.0)),
            "columns": _top_columns(model, k, columns),
            "rows": [rows[i] for i in _largest(row_weights[:, k], _ROWS)],
            "image": None if image is None else picture(model.components_mean_[k], image),
        }
        for k in range(model.n_components_)
    ]


def _top_columns(model: DIBPNMF, k: int, names: list[str]) -> list[list[Any]]:
    """Name, weight and inclusion probability of the columns with the largest weights."""
    weights = _to_one(model.components_mean_[k], axis=0)
    probability = model.inclusion_probabilities_[k]
    return [
        [names[j], round(float(weights[j]), 5), round(float(probability[j]), 3)]
        for j in _largest(weights, _COLUMNS)
        if weights[j] >= _VISIBLE
    ]


def short(factor: dict[str, Any]) -> str:
    """Name a factor by its first columns."""
    return ", ".join(str(column[0]) for column in factor["columns"][:_IN_A_LABEL])


def _largest(values: Floats, n: int) -> list[int]:
    order = np.argsort(-values, kind="stable")[:n]
    return [int(i) for i in order if values[i] > 0.0]


def _to_one(values: Floats, axis: int) -> Floats:
    total = values.sum(axis=axis, keepdims=True)
    return values / np.where(total > 0.0, total, 1.0)


def picture(values: Floats, shape: tuple[int, int]) -> str:
    """PNG as a data address, opaque where the values are large: it suits any background."""
    from matplotlib.image import imsave

    high = float(values.max(initial=0.0)) or 1.0
    pixels = np.empty((*shape, 4), np.uint8)
    pixels[..., :3] = _INK
    pixels[..., 3] = np.round(255.0 * (values / high).reshape(shape))
    buffer = BytesIO()
    imsave(buffer, pixels, format="png")
    return "data:image/png;base64," + base64.b64encode(buffer.getvalue()).decode()


def row_shares(model: DIBPNMF, names: list[str]) -> dict[str, Any]:
    """Shares of the factors in each row's reconstruction, a byte each, for search.

    A byte holds 255 times the root of the share: small shares keep their precision, and what
    is on stays above zero. Of very many rows an evenly spread part is taken.
    """
    M, K = model.embedding_.shape
    n = min(M, _MOST_ROWS, _MOST_SHARES // max(K, 1))
    kept = np.unique(np.linspace(0, M - 1, n).astype(int))
    parts = model.embedding_[kept] * model.components_.sum(axis=1)
    roots = np.sqrt(_to_one(parts, axis=1))
    coded = np.where(parts > 0.0, np.maximum(np.round(255.0 * roots), 1.0), 0.0).astype(np.uint8)
    return {
        "names": [names[i] for i in kept],
        "of": M,
        "shares": base64.b64encode(coded.tobytes()).decode(),
        "totals": _four_digits(parts.sum(axis=1) + model.epsilon_ * model._shape[1]),
    }


def _four_digits(values: Floats) -> list[float]:
    return [float(f"{value:.4g}") for value in values]


def similarities(model: DIBPNMF) -> tuple[Floats, Floats]:
    """Cosines between factors: by the columns they are made of, by the rows that use them."""
    return _cosines(model.components_.T), _cosines(model.embedding_)


def _cosines(side: Floats) -> Floats:
    unit = unit_columns(side)
    return np.clip(unit.T @ unit, 0.0, 1.0)
