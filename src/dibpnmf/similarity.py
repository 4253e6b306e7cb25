"""How alike rows are, averaged over draws: by their means, or by the factors' profiles."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from dibpnmf.observations import Observations
from dibpnmf.posterior import Sides, unit_columns

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

ENOUGH_DRAWS = 100  # that a similarity is averaged over, evenly spread


class Deviations(NamedTuple):
    """Entries less their column's mean, missing ones zero: ``stored`` − 1 · ``shift``ᵀ."""

    stored: sp.csr_array
    shift: Floats

    @classmethod
    def of(cls, observations: Observations) -> Deviations:
        """Take the mean of each column's observed cells away."""
        (M, N), cells = observations.shape, observations.side(0)
        stored = sp.csr_array((cells.values, cells.indices, cells.indptr), shape=(M, N))
        sums = np.bincount(cells.indices, cells.values, minlength=N)
        if observations.is_complete:
            return cls(stored, sums / M)
        counts = np.bincount(cells.indices, minlength=N)
        means = sums / np.maximum(counts, 1)
        centred = (cells.values - means[cells.indices], cells.indices, cells.indptr)
        return cls(sp.csr_array(centred, shape=(M, N)), np.zeros(N))

    def times(self, right: Floats) -> Floats:
        """Product with a matrix that has a row for each column."""
        return self.stored @ right - self.shift @ right

    def transposed_times(self, right: Floats) -> Floats:
        """Product of the transpose with a matrix that has a row for each row."""
        return self.stored.T @ right - np.outer(self.shift, right.sum(axis=0))


def similarity_of_means(draws: Iterable[Sides], rows: Ints) -> Floats:
    """Posterior mean cosine of rows of AXᵀ; rows without factors are alike, and like no others.

    Of AXᵀ and not of A: two draws may divide the same AXᵀ among factors differently.
    """
    return _mean(_cosines_of_means(A[rows], X) for A, X in draws)


def similarity_by_profiles(draws: Iterable[Sides], deviations: Deviations, rows: Ints) -> Floats:
    """Posterior mean cosine of the rows' correlations with the profiles of the factors.

    The profile of factor k is what is special to the rows that use it: Σ_i a_ik (y_i − ȳ). It has
    all columns, those too that a sparse factor leaves out.
    """
    return _mean(_cosines(_correlations(A, deviations)[rows]) for A, _ in draws)


def _correlations(A: Floats, deviations: Deviations) -> Floats:
    profiles = deviations.transposed_times(np.asarray(unit_columns(A), np.float64))
    return deviations.times(unit_rows(profiles.T).T)


def _cosines_of_means(A: Floats, X: Floats) -> Floats:
    directions = unit_columns(X)
    lengths = np.einsum("nk,nk->k", X, directions)
    own = unit_columns((A * lengths).T).T
    product = own @ (directions.T @ directions) @ own.T
    norms = np.sqrt(product.diagonal())
    of_zeros = np.flatnonzero(norms == 0.0)
    norms[of_zeros] = 1.0
    return _alike(product / norms[:, None] / norms, of_zeros)


def _cosines(embedding: Floats) -> Floats:
    unit = unit_rows(embedding)
    return _alike(unit @ unit.T, np.flatnonzero(~unit.any(axis=1)))


def _alike(cosines: Floats, of_zeros: Ints) -> Floats:
    """Let rows of zeros, which are all the same, have a cosine of 1 with each other; in place."""
    cosines[np.ix_(of_zeros, of_zeros)] = 1.0
    return cosines


def unit_rows(signed: Floats) -> Floats:
    """Rows of length one; those of zeros stay."""
    largest = np.abs(signed).max(axis=1, initial=0.0, keepdims=True)
    scaled = signed / np.where(largest > 0.0, largest, 1.0)  # so that no square overflows
    norms = np.linalg.norm(scaled, axis=1, keepdims=True)
    return scaled / np.maximum(norms, 1.0)  # they are 0, or 1 at least


def _mean(cosines: Iterable[Floats]) -> Floats:
    """Mean over draws, from 0 to 1, and 1 for a row with itself."""
    cosines = iter(cosines)
    total, n = next(cosines), 1
    for product in cosines:
        total += product
        n += 1
    total /= n
    np.fill_diagonal(total, 1.0)
    return np.clip(total, 0.0, 1.0, out=total)
