"""Clusters of rows that all draws and chains agree on: spectral clustering of their similarity."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import eigh
from sklearn.cluster import KMeans

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

MOST_CLUSTERS = 30  # that the eigengap is looked for among
_STARTS = 20


def leading_eigenvectors(similarity: Floats, n: int) -> tuple[Floats, Floats]:
    """Largest n eigenvalues of D^−½ S D^−½, falling, and their eigenvectors."""
    degree = np.sqrt(similarity.sum(axis=1))
    size = similarity.shape[0]
    values, vectors = eigh(
        similarity / degree[:, None] / degree, subset_by_index=[size - n, size - 1]
    )
    return values[::-1], vectors[:, ::-1]


def eigengap(values: Floats) -> int:
    """Number of clusters, at least two, before the largest fall of the eigenvalues."""
    return int(np.argmax(values[1:-1] - values[2:])) + 2 if values.size > 2 else values.size


def consensus(similarity: Floats, n_clusters: int | None, seed: int) -> Ints:
    """Label the rows of a similarity matrix; the largest cluster is 0.

    The rows of the embedding are brought to length 1 before k-means: rows with few
    neighbours lie near the origin and would otherwise make one huge cluster.
    """
    size = similarity.shape[0]
    most = min(size, MOST_CLUSTERS + 1) if n_clusters is None else n_clusters
    values, vectors = leading_eigenvectors(similarity, most)
    n = eigengap(values) if n_clusters is None else n_clusters
    embedding = vectors[:, :n]
    length = np.linalg.norm(embedding, axis=1, keepdims=True)
    embedding = embedding / np.where(length > 0.0, length, 1.0)
    labels = KMeans(n, n_init=_STARTS, random_state=seed).fit_predict(embedding)
    by_size = np.argsort(-np.bincount(labels, minlength=n), kind="stable")
    return np.argsort(by_size)[labels]
