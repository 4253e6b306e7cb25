"""Scores of a factorization: clusterings, reconstructions, predicted ratings.

Every function takes the truth first. Scores of a clustering count pairs of points: with

- a: together in the truth and in the clustering,
- b: together in the truth, apart in the clustering,
- c: apart in the truth, together in the clustering,

the paper's three scores are JC = a/(a+b+c), FM = √(a/(a+b) · a/(a+c)) and
F1 = 2a²/(2a²+ac+ab).
"""

from __future__ import annotations

from collections.abc import Iterator
from math import sqrt
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse
from sklearn.metrics import adjusted_rand_score, normalized_mutual_info_score
from sklearn.metrics.cluster import pair_confusion_matrix

__all__ = [
    "PairCounts",
    "adjusted_rand_index",
    "flexibility",
    "fowlkes_mallows",
    "jaccard_coefficient",
    "mean_absolute_error",
    "normalized_mutual_information",
    "pair_counts",
    "pair_f1",
    "reconstruction_error",
    "root_mean_squared_error",
    "total_absolute_error",
]

Matrix: TypeAlias = ArrayLike | sparse.sparray | sparse.spmatrix

# Cells of A Xᵀ held at once by reconstruction_error: 8 MB.
_CELLS_PER_BLOCK = 1 << 20


class PairCounts(NamedTuple):
    """Numbers of unordered pairs of points, as exact integers.

    Attributes
    ----------
    a : int
        Pairs together in the truth and in the clustering.
    b : int
        Pairs together in the truth, apart in the clustering.
    c : int
        Pairs apart in the truth, together in the clustering.
    """

    a: int
    b: int
    c: int


def pair_counts(labels_true: ArrayLike, labels_pred: ArrayLike) -> PairCounts:
    """Count the pairs of points on which two clusterings agree and disagree.

    The counts come from the sparse contingency table of the labels; the n² pairs are never
    listed.

    Parameters
    ----------
    labels_true, labels_pred : array-like of shape (n,)
        Two labellings of the same points, by numbers or by names.

    Returns
    -------
    PairCounts
        The integers a, b and c of the module's description.

    Raises
    ------
    ValueError
        If a labelling is not one-dimensional, is empty, has NaN, or the lengths differ.
    """
    true, pred = _labels(labels_true, labels_pred)
    # scikit-learn counts each pair in both orders.
    pairs = pair_confusion_matrix(true, pred) // 2
    return PairCounts(a=int(pairs[1, 1]), b=int(pairs[1, 0]), c=int(pairs[0, 1]))


def jaccard_coefficient(labels_true: ArrayLike, labels_pred: ArrayLike) -> float:
    """Jaccard coefficient over pairs, JC = a/(a+b+c).

    Parameters
    ----------
    labels_true, labels_pred : array-like of shape (n,)
        The classes and the clusters of the same points.

    Returns
    -------
    float
        Between 0 and 1, larger is better. When both put every point alone (a+b+c = 0) they
        agree, and the score is 1.
    """
    a, b, c = pair_counts(labels_true, labels_pred)
    return a / (a + b + c) if a + b + c else 1.0


def fowlkes_mallows(labels_true: ArrayLike, labels_pred: ArrayLike) -> float:
    """Fowlkes-Mallows score over pairs, FM = √(a/(a+b) · a/(a+c)).

    Parameters
    ----------
    labels_true, labels_pred : array-like of shape (n,)
        The classes and the clusters of the same points.

    Returns
    -------
    float
        Between 0 and 1, larger is better. When both put every point alone (a+b+c = 0) they
        agree, and the score is 1; any other clustering with a = 0 scores 0.
    """
    a, b, c = pair_counts(labels_true, labels_pred)
    if a == 0:
        return 0.0 if b + c else 1.0
    return sqrt(a / (a + b)) * sqrt(a / (a + c))


def pair_f1(labels_true: ArrayLike, labels_pred: ArrayLike) -> float:
    """F1 over pairs, 2a²/(2a²+ac+ab): the harmonic mean of a/(a+b) and a/(a+c).

    Parameters
    ----------
    labels_true, labels_pred : array-like of shape (n,)
        The classes and the clusters of the same points.

    Returns
    -------
    float
        Between 0 and 1, larger is better. When both put every point alone (a+b+c = 0) they
        agree, and the score is 1; any other clustering with a = 0, where the formula reads
        0/0, scores 0.
    """
    a, b, c = pair_counts(labels_true, labels_pred)
    # The formula with the common factor a cancelled, which settles a = 0 as well.
    return 2 * a / (2 * a + b + c) if a + b + c else 1.0


def normalized_mutual_information(labels_true: ArrayLike, labels_pred: ArrayLike) -> float:
    """Mutual information of two clusterings over the mean of their entropies.

    Parameters
    ----------
    labels_true, labels_pred : array-like of shape (n,)
        The classes and the clusters of the same points.

    Returns
    -------
    float
        Between 0 and 1, larger is better; `sklearn.metrics.normalized_mutual_info_score`.
    """
    return float(normalized_mutual_info_score(*_labels(labels_true, labels_pred)))


def adjusted_rand_index(labels_true: ArrayLike, labels_pred: ArrayLike) -> float:
    """Share of pairs on which two clusterings agree, corrected for chance.

    Parameters
    ----------
    labels_true, labels_pred : array-like of shape (n,)
        The classes and the clusters of the same points.

    Returns
    -------
    float
        1 for equal clusterings, about 0 for random ones; `sklearn.metrics.adjusted_rand_score`.
    """
    return float(adjusted_rand_score(*_labels(labels_true, labels_pred)))


def reconstruction_error(Y: Matrix, A: ArrayLike, X: ArrayLike) -> float:
    """Sum of the absolute entries of Y − A Xᵀ.

    The product is formed a block of rows at a time, so the memory needed beside the input is
    a few megabytes for any size of Y.

    Parameters
    ----------
    Y : array-like or sparse matrix of shape (M, N)
        The data. NaN cells of a dense matrix are missing and add nothing; cells that a sparse
        matrix does not store are zeros.
    A : array-like of shape (M, K)
        Factors of the rows.
    X : array-like of shape (N, K)
        Factors of the columns: the transpose of an estimator's ``components_``.

    Returns
    -------
    float
        ‖Y − A Xᵀ‖₁ over the observed entries.

    Raises
    ------
    ValueError
        If the shapes do not fit together.
    """
    rows, columns = _factors(A, X)
    data: Any = sparse.csr_array(Y) if sparse.issparse(Y) else np.asarray(Y, dtype=np.float64)
    if data.shape != (len(rows), len(columns)):
        raise ValueError(
            f"Y has shape {data.shape}, but A ({len(rows)} rows) and X ({len(columns)} rows) "
            f"make a matrix of shape {(len(rows), len(columns))}"
        )
    total = 0.0
    for block in _row_blocks(*data.shape):
        cells = data[block] if isinstance(data, np.ndarray) else data[block].toarray()
        total += float(np.nansum(np.abs(cells - rows[block] @ columns.T)))
    return total


def flexibility(A: ArrayLike, X: ArrayLike) -> float:
    """Mean difference of the column supports, (1/K) Σ_k |n1_k − n2_k|.

    n1_k and n2_k are the numbers of non-zero entries in column k of A and of X, and K is the
    number of columns, with those that are empty on both sides counted: drop them first to
    average over the factors in use.

    Parameters
    ----------
    A : array-like of shape (M, K)
        Factors of the rows.
    X : array-like of shape (N, K)
        Factors of the columns.

    Returns
    -------
    float
        The paper's measure of how far the two sides may differ; 0 when K = 0.
    """
    rows, columns = _factors(A, X)
    differences = np.count_nonzero(rows, axis=0) - np.count_nonzero(columns, axis=0)
    return float(np.abs(differences).mean()) if differences.size else 0.0


def mean_absolute_error(y_true: ArrayLike, y_pred: ArrayLike) -> float:
    """Mean of |y_true − y_pred| over the ratings.

    Parameters
    ----------
    y_true, y_pred : array-like of the same shape
        The ratings and their predictions.

    Returns
    -------
    float
        The usual MAE. The paper's is the sum: `total_absolute_error`.
    """
    return float(np.abs(_residuals(y_true, y_pred)).mean())


def total_absolute_error(y_true: ArrayLike, y_pred: ArrayLike) -> float:
    """Sum of |y_true − y_pred| over the ratings, which the paper calls MAE.

    Parameters
    ----------
    y_true, y_pred : array-like of the same shape
        The ratings and their predictions.

    Returns
    -------
    float
        The mean absolute error times the number of ratings.
    """
    return float(np.abs(_residuals(y_true, y_pred)).sum())


def root_mean_squared_error(y_true: ArrayLike, y_pred: ArrayLike) -> float:
    """Square root of the mean of (y_true − y_pred)² over the ratings.

    Parameters
    ----------
    y_true, y_pred : array-like of the same shape
        The ratings and their predictions.

    Returns
    -------
    float
        The RMSE.
    """
    return sqrt(float(np.square(_residuals(y_true, y_pred)).mean()))


def _labels(labels_true: ArrayLike, labels_pred: ArrayLike) -> tuple[NDArray[Any], NDArray[Any]]:
    """Two labellings as arrays, checked."""
    true, pred = np.asarray(labels_true), np.asarray(labels_pred)
    for name, labels in (("labels_true", true), ("labels_pred", pred)):
        if labels.ndim != 1 or labels.size == 0:
            raise ValueError(
                f"{name} must be a one-dimensional array with at least one label, "
                f"got shape {labels.shape}"
            )
        if labels.dtype.kind == "f" and np.isnan(labels).any():
            raise ValueError(f"{name} has {np.isnan(labels).sum()} NaN; give every point a label")
    if len(true) != len(pred):
        raise ValueError(
            f"labels_true and labels_pred must label the same points, "
            f"got {len(true)} and {len(pred)} labels"
        )
    return true, pred


def _factors(A: ArrayLike, X: ArrayLike) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Two factor matrices with one number of columns, checked."""
    rows, columns = np.asarray(A, dtype=np.float64), np.asarray(X, dtype=np.float64)
    if rows.ndim != 2 or columns.ndim != 2 or rows.shape[1] != columns.shape[1]:
        raise ValueError(
            f"A and X must be matrices with the same number of columns (one per factor), "
            f"got shapes {rows.shape} and {columns.shape}"
        )
    return rows, columns


def _residuals(y_true: ArrayLike, y_pred: ArrayLike) -> NDArray[np.float64]:
    """y_true − y_pred, checked: same shape, at least one, all finite."""
    true, pred = np.asarray(y_true, dtype=np.float64), np.asarray(y_pred, dtype=np.float64)
    if true.shape != pred.shape or true.size == 0:
        raise ValueError(
            f"y_true and y_pred must have the same shape and at least one value, "
            f"got shapes {true.shape} and {pred.shape}"
        )
    for name, values in (("y_true", true), ("y_pred", pred)):
        bad = values.size - np.count_nonzero(np.isfinite(values))
        if bad:
            raise ValueError(f"{name} must be finite, got {bad} NaN or infinite values")
    return true - pred


def _row_blocks(n_rows: int, n_columns: int) -> Iterator[slice]:
    """Slices of rows with at most _CELLS_PER_BLOCK cells each, at least one row."""
    step = max(1, _CELLS_PER_BLOCK // max(1, n_columns))
    for start in range(0, n_rows, step):
        yield slice(start, start + step)
