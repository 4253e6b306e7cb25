"""Known classes of the rows, beside the factors that were found."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from dibpnmf.estimator import DIBPNMF


def read_labels(path: Path, n_rows: int) -> list[str]:
    """Read one label a line."""
    from dibpnmf.files.opening import read_text
    from dibpnmf.files.table import FileError

    labels = [line.strip() for line in read_text(path).read().splitlines()]
    if len(labels) != n_rows:
        raise FileError(path, f"found {len(labels)} labels, and the data have {n_rows} rows")
    return labels


def agreement(model: DIBPNMF, labels: list[str]) -> dict[str, float]:
    """How well the factor that carries most of a row agrees with the row's label."""
    from dibpnmf import metrics

    carried = model.embedding_ * model.components_.sum(axis=1)
    found = np.where(carried.any(axis=1), carried.argmax(axis=1), -1) if carried.size else (
        np.full(len(labels), -1)
    )  # fmt: skip
    return {
        "pair_f1": metrics.pair_f1(labels, found),
        "jaccard": metrics.jaccard_coefficient(labels, found),
        "fowlkes_mallows": metrics.fowlkes_mallows(labels, found),
        "mutual_information": metrics.normalized_mutual_information(labels, found),
        "adjusted_rand": metrics.adjusted_rand_index(labels, found),
    }
