"""Clusters of rows that all draws and chains agree on: spectral clustering of their similarity."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import eigh

from dibpnmf.similarity import unit_rows

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

MOST_CLUSTERS = 30  # that the eigengap is looked for among
_STARTS = 20


def normalised(similarity: Floats) -> tuple[Floats, Floats]:
    """D^−½ S D^−½, and its eigenvector D^½ 1 of length one, whose eigenvalue is 1."""
    degree = np.sqrt(similarity.sum(axis=1))
    return similarity / degree[:, None] / degree, degree / np.linalg.norm(degree)


def leading_eigenvectors(symmetric: Floats, n: int) -> tuple[Floats, Floats]:
    """Largest n eigenvalues, falling, and their eigenvectors."""
    size = symmetric.shape[0]
    values, vectors = eigh(symmetric, subset_by_index=[size - n, size - 1])
    return values[::-1], vectors[:, ::-1]


def eigengap(values: Floats) -> int:
    """Number of clusters, at least two, before the largest fall of the eigenvalues after 1."""
    return int(np.argmax(values[:-1] - values[1:])) + 2 if values.size > 1 else values.size + 1


def consensus(similarity: Floats, n_clusters: int | None, seed: int, uneven: bool = True) -> Ints:
    """Label the rows of a similarity matrix; the largest cluster is 0.

    k-means on points whose products are the normalised similarities: eigenvectors weighted by
    the roots of their eigenvalues, many of them, so that it matters little where they are cut off;
    without the first, which is the same for all rows. In an ``uneven`` similarity some rows have
    few neighbours, lie near the origin and would make one huge cluster: there points are where a
    random walk goes in one step (a diffusion map), brought to length 1.
    """
    size = similarity.shape[0]
    if size == 1:
        return np.zeros(1, np.int64)
    walk, first = normalised(similarity)
    values, vectors = leading_eigenvectors(walk - np.outer(first, first), min(size, MOST_CLUSTERS))
    n = eigengap(values) if n_clusters is None else n_clusters
    embedding = vectors * np.sqrt(np.maximum(values, 0.0))
    if uneven:
        embedding = unit_rows(vectors * np.maximum(values, 0.0))
    from sklearn.cluster import KMeans  # a tenth of a second that few users need

    labels = KMeans(n, n_init=_STARTS, random_state=seed).fit_predict(embedding)
    by_size = np.argsort(-np.bincount(labels, minlength=n), kind="stable")
    return np.argsort(by_size)[labels]
