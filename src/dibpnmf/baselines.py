"""Sparse nonnegative matrix factorization, the paper's Eq. (1), plain and masked.

Minimises over A ≥ 0 (M×K) and X ≥ 0 (N×K)

    J(A, X) = Σ_{(m,n) observed} (y_mn − Σ_k a_mk x_nk)² + l1 (Σ a + Σ x)

by exact coordinate minimisation. Given X the rows of A are independent, and one entry has

    a_mk ← max(0, a_mk + (Σ_n x_nk r_mn − l1/2) / Σ_n x_nk²),   r = y − a X^T,  n observed.

Given A, the same update on the transpose serves X. J never rises.
"""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cached_property
from math import inf
from typing import Any, Self, TypeAlias

import numpy as np
from numba import njit
from numpy.typing import ArrayLike, NDArray
from scipy import sparse
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state
from sklearn.utils.extmath import randomized_svd
from sklearn.utils.validation import check_array, check_is_fitted, validate_data

from dibpnmf._kernel_cache import kept
from dibpnmf._validation import (
    cell_indices,
    nonnegative,
    one_of,
    real_number,
    some_observed,
    whole_number,
)
from dibpnmf.observations import Observations

__all__ = ["SparseNMF"]

FloatArray: TypeAlias = NDArray[np.float64]
Matrix: TypeAlias = ArrayLike | sparse.sparray | sparse.spmatrix

# Given X the problem of a row is convex: transform passes over it until nothing moves by more
# than this share of its largest entry.
_PASSES_TO_THE_END = 1000
_STILL = 1e-10

_BELOW_ZERO = np.nextafter(0.0, -1.0)  # the open bound that lets zero in


class SparseNMF(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """Nonnegative factors with an l1 penalty: min ‖Y − A Xᵀ‖²_F + l1 (‖A‖₁ + ‖X‖₁).

    The sum of squares runs over the observed cells only. The cost of an iteration is
    O(nnz K + (M+N) K²) when all cells are observed (nnz = M N for a dense matrix) and
    O(nnz K) over the observed cells otherwise.

    Parameters
    ----------
    n_components : int, default=10
        Number of factors K.
    l1 : float, default=1.0
        Weight of the penalty on both sides; the paper's is 1.
    zeros : {"observed", "missing"}, default="observed"
        What the cells are that a sparse matrix does not store. NaN is missing in any matrix.
    init : {"nndsvda", "random"}, default="nndsvda"
        The start. "nndsvda" splits the leading singular vectors (of the matrix with missing
        cells set to zero) by sign, and puts the mean in place of zeros; factors beyond
        min(M, N) start at random.
    n_init : int, default=3
        Number of starts; the one that reaches the lowest objective is kept. All after the
        first are random.
    max_iter : int, default=1000
        Largest number of iterations from each start.
    tol : float, default=1e-6
        Stop when an iteration lowers the objective by less than this share of it.
    random_state : int, numpy.random.RandomState or None, default=None
        Seed of the starts.

    Attributes
    ----------
    components_ : ndarray of shape (K, N)
        Xᵀ.
    embedding_ : ndarray of shape (M, K)
        A: the best one for this X, so `transform` of the same data gives it again.
    objective_ : float
        J at these factors.
    objective_path_ : ndarray of shape (n_iter_ + 1,)
        J after each iteration, and at the end; never rising.
    n_iter_ : int
        Iterations from the start that was kept.
    n_features_in_ : int
        Number of columns N.
    feature_names_in_ : ndarray of str
        Names of the columns, where the input had any.

    Examples
    --------
    >>> import numpy as np
    >>> from dibpnmf import SparseNMF
    >>> Y = np.outer([1.0, 2.0, 0.0], [3.0, 0.0, 4.0])
    >>> model = SparseNMF(n_components=1, l1=0.0, random_state=0).fit(Y)
    >>> bool(np.allclose(model.inverse_transform(model.embedding_), Y))
    True
    """

    components_: FloatArray
    embedding_: FloatArray
    objective_: float
    objective_path_: FloatArray
    n_iter_: int

    def __init__(
        self,
        n_components: int = 10,
        *,
        l1: float = 1.0,
        zeros: str = "observed",
        init: str = "nndsvda",
        n_init: int = 3,
        max_iter: int = 1000,
        tol: float = 1e-6,
        random_state: int | np.random.RandomState | None = None,
    ) -> None:
        self.n_components = n_components
        self.l1 = l1
        self.zeros = zeros
        self.init = init
        self.n_init = n_init
        self.max_iter = max_iter
        self.tol = tol
        self.random_state = random_state

    def fit(self, Y: Matrix, y: object = None) -> Self:
        """Find the factors of a matrix.

        Parameters
        ----------
        Y : array-like or sparse matrix of shape (M, N)
            Values of at least zero; NaN where missing.
        y : object
            Ignored; present by scikit-learn's convention.

        Returns
        -------
        SparseNMF
            This object.

        Raises
        ------
        TypeError, ValueError
            If a parameter or a value of Y is not as described.

        Warns
        -----
        ConvergenceWarning
            If `max_iter` ended the descent, or the penalty drove every factor to zero.
        """
        self._check_parameters()
        rows = self._observe(Y, reset=True)
        some_observed(rows.n_observed)
        rng = check_random_state(self.random_state)
        columns = rows.transposed()
        inits = [self.init] + ["random"] * (self.n_init - 1)
        starts = (_start(init, rows, self.n_components, rng) for init in inits)
        best = min(
            (self._descend(rows, columns, A, X) for A, X in starts),
            key=lambda descent: descent.path[-1],
        )
        self.embedding_, self.components_ = best.A, np.ascontiguousarray(best.X.T)
        self.objective_path_ = np.array(best.path)
        self.objective_ = best.path[-1]
        self.n_iter_ = len(best.path) - 1
        self._warn_about(best, rows)
        return self

    def fit_transform(self, Y: Matrix, y: object = None) -> FloatArray:
        """Find the factors of a matrix and return those of its rows.

        Parameters
        ----------
        Y : array-like or sparse matrix of shape (M, N)
            Values of at least zero; NaN where missing.
        y : object
            Ignored; present by scikit-learn's convention.

        Returns
        -------
        ndarray of shape (M, K)
            A, which is ``embedding_``.
        """
        return self.fit(Y).embedding_

    def transform(self, Y: Matrix) -> FloatArray:
        """Find the row factors of a matrix, with the column factors as fitted.

        Parameters
        ----------
        Y : array-like or sparse matrix of shape (m, N)
            Rows with the same columns as in `fit`.

        Returns
        -------
        ndarray of shape (m, K)
            A that minimises J given X; zeros for a row without observed cells.
        """
        check_is_fitted(self)
        rows = self._observe(Y, reset=False)
        A = np.zeros((rows.shape[0], len(self.components_)))
        rows.update(A, np.ascontiguousarray(self.components_.T), self.l1, finish=True)
        return A

    def inverse_transform(self, A: ArrayLike) -> FloatArray:
        """Multiply row factors by the fitted column factors.

        Parameters
        ----------
        A : array-like of shape (m, K)
            Factors of rows.

        Returns
        -------
        ndarray of shape (m, N)
            A Xᵀ, dense; `predict` gives single cells of it.
        """
        check_is_fitted(self)
        factors = check_array(A, dtype=np.float64, input_name="A")
        if factors.shape[1] != len(self.components_):
            raise ValueError(
                f"A must have a column for each of the {len(self.components_)} factors, "
                f"got shape {factors.shape}"
            )
        return factors @ self.components_

    def predict(self, rows: Matrix, cols: ArrayLike | None = None) -> FloatArray:
        """Predict single cells of the matrix that was fitted, or all cells of other rows.

        Parameters
        ----------
        rows : array-like of int of shape (n,), or matrix of shape (m, N)
            With `cols`, the rows of the cells, counted from 0. Without, a matrix as for
            `transform`.
        cols : array-like of int of shape (n,) or None, default=None
            The columns of the cells, counted from 0.

        Returns
        -------
        ndarray
            The n values of the cells in A Xᵀ; or a matrix of shape (m, N), A Xᵀ with the A
            that `transform` finds.
        """
        check_is_fitted(self)
        if cols is None:
            return self.inverse_transform(self.transform(rows))
        i = cell_indices("rows", rows, len(self.embedding_))
        j = cell_indices("cols", cols, self.components_.shape[1])
        if i.shape != j.shape:
            raise ValueError(f"rows and cols must have one length; got {len(i)} and {len(j)}.")
        # A factor at a time: never more than a few arrays of the size asked for.
        cells = np.zeros(i.shape)
        for a, x in zip(self.embedding_.T, self.components_, strict=True):
            cells += a[i] * x[j]
        return cells

    @property
    def _n_features_out(self) -> int:
        return len(self.components_)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.input_tags.allow_nan = True
        tags.input_tags.positive_only = True
        return tags

    def _check_parameters(self) -> None:
        for name in ("n_components", "n_init", "max_iter"):
            whole_number(name, getattr(self, name), 1)
        for name in ("l1", "tol"):
            real_number(name, getattr(self, name), _BELOW_ZERO, inf, "a finite number >= 0")
        one_of("zeros", self.zeros, ("observed", "missing"))
        one_of("init", self.init, ("nndsvda", "random"))

    def _observe(self, Y: Matrix, *, reset: bool) -> _Side:
        """Check a matrix and decide which of its cells are observed."""
        cells: Any = validate_data(
            self,
            Y,
            reset=reset,
            accept_sparse="csr",
            dtype=np.float64,
            ensure_all_finite="allow-nan",
        )
        nonnegative(cells, "SparseNMF")
        _squares_must_not_overflow(_values(cells))
        if isinstance(cells, np.ndarray) and not np.isnan(cells).any():
            return _Complete(cells)
        observed = Observations.from_matrix(cells, self.zeros, scale=1.0)
        indptr, indices, values = observed.side(0)[:3]
        csr = sparse.csr_array((values, indices, indptr), shape=observed.shape)
        return _Complete(csr) if observed.is_complete else _Masked(csr)

    def _descend(self, rows: _Side, columns: _Side, A: FloatArray, X: FloatArray) -> _Descent:
        """Lower the objective from one start."""
        rounding = np.finfo(np.float64).eps * rows.sum_squares
        path: list[float] = []

        def record(squared_error: float) -> None:
            objective = squared_error + self.l1 * float(A.sum() + X.sum())
            # Each step is an exact minimum: a rise can only be rounding.
            path.append(min([objective, *path[-1:]]))

        converged = False
        while not converged and len(path) < self.max_iter:
            # One pass each: more passes over one side, before the other has answered, empty
            # factors that would have lived, and end in worse minima.
            rows.update(A, X, self.l1)
            squared_error = columns.update(X, A, self.l1)
            if self.l1 > 0:
                _balance(A, X)
            record(squared_error)
            small = self.tol * path[-1] + rounding
            converged = len(path) > 1 and bool(path[-2] - path[-1] <= small)
        columns.update(X, A, self.l1, finish=True)
        squared_error = rows.update(A, X, self.l1, finish=True)
        X[:, ~A.any(axis=0)] = 0.0
        record(squared_error)
        return _Descent(A, X, path, converged)

    def _warn_about(self, best: _Descent, rows: _Side) -> None:
        if rows.sum_squares > 0 and not (best.A.any() and best.X.any()):
            warnings.warn(
                f"the penalty l1={self.l1} drove all {self.n_components} factors to zero; "
                f"lower l1, or try another init or more starts (n_init)",
                ConvergenceWarning,
                stacklevel=3,
            )
        if not best.converged:
            warnings.warn(
                f"max_iter={self.max_iter} iterations ended while the objective, now "
                f"{best.path[-1]:.6g}, still fell by more than the share tol={self.tol} at each; "
                f"raise max_iter or tol",
                ConvergenceWarning,
                stacklevel=3,
            )


@dataclass
class _Descent:
    """Where one start led."""

    A: FloatArray
    X: FloatArray
    path: list[float]
    converged: bool


@dataclass(frozen=True)
class _Side(ABC):
    """A matrix seen by its rows; zero where it is missing."""

    cells: Any  # ndarray or csr_array

    @property
    def shape(self) -> tuple[int, int]:
        return self.cells.shape

    @property
    @abstractmethod
    def n_observed(self) -> int:
        """Number of observed cells."""

    @property
    def mean(self) -> float:
        """Mean of the observed cells."""
        return float(self.cells.sum()) / self.n_observed

    @cached_property
    def sum_squares(self) -> float:
        """Objective at A = X = 0."""
        return float(np.linalg.norm(_values(self.cells)) ** 2)

    def transposed(self) -> Self:
        """Return the same matrix seen by its columns."""
        flipped = self.cells.T
        return type(self)(flipped if isinstance(flipped, np.ndarray) else flipped.tocsr())

    @abstractmethod
    def update(self, F: FloatArray, other: FloatArray, l1: float, *, finish: bool = False) -> float:
        """Lower J over the rows of F in place; return Σ (y − F otherᵀ)² over observed cells.

        Passes once over each row; with `finish`, until nothing moves. An entry whose factor is
        empty on the other side stays as it is, so that the factor may come back; with
        `finish` it becomes zero, which is its minimum.
        """


class _Complete(_Side):
    """All cells are observed."""

    @property
    def n_observed(self) -> int:
        return self.shape[0] * self.shape[1]

    def update(self, F: FloatArray, other: FloatArray, l1: float, *, finish: bool = False) -> float:
        gram = other.T @ other
        product = np.ascontiguousarray(self.cells @ other)
        _update_complete(F, gram, product, l1 / 2, finish)
        # ‖Y − F otherᵀ‖² without forming the product; rounding may take it below zero.
        return max(0.0, self.sum_squares - 2 * np.vdot(product, F) + np.vdot(F.T @ F, gram))


class _Masked(_Side):
    """The cells that a CSR array stores are observed, the zeros among them too."""

    @property
    def n_observed(self) -> int:
        return self.cells.nnz

    def update(self, F: FloatArray, other: FloatArray, l1: float, *, finish: bool = False) -> float:
        csr = self.cells
        return _update_masked(F, other, csr.indptr, csr.indices, csr.data, l1 / 2, finish)


@kept
@njit(nogil=True, fastmath={"reassoc", "contract"})
def _update_complete(F, gram, product, half_l1, finish):  # type: ignore[no-untyped-def]
    """Minimise J over F one entry at a time, row after row.

    Parameters
    ----------
    F : ndarray of shape (n, K)
        Factors of the rows, changed in place.
    gram, product : ndarray of shape (K, K), (n, K)
        otherᵀ other and Y other: all that J needs of the matrix.
    half_l1 : float
        Half the weight of the penalty.
    finish : bool
        As for `_Side.update`.
    """
    n_rows, K = F.shape
    for i in range(n_rows):
        for _ in range(_PASSES_TO_THE_END if finish else 1):
            largest, moved = 0.0, 0.0
            for k in range(K):
                slope = product[i, k] - half_l1
                for m in range(K):
                    slope -= gram[k, m] * F[i, m]
                new = _coordinate_minimum(F[i, k], slope, gram[k, k], finish)
                largest = max(largest, new)
                moved = max(moved, abs(new - F[i, k]))
                F[i, k] = new
            if moved <= _STILL * largest:
                break


@kept
@njit(nogil=True, fastmath={"reassoc", "contract"})
def _update_masked(F, other, indptr, indices, values, half_l1, finish):  # type: ignore[no-untyped-def]
    """Minimise J over F one entry at a time, with the sums over observed cells only.

    Parameters are those of `_update_complete`, with the matrix as a CSR array. Returns the sum
    of squared residuals of the observed cells.
    """
    n_rows, K = F.shape
    longest = np.max(np.diff(indptr))
    x = np.empty((K, longest))  # the other side's factors at the row's observed cells
    residual = np.empty(longest)
    square = np.empty(K)
    total = 0.0
    for i in range(n_rows):
        start, n = indptr[i], indptr[i + 1] - indptr[i]
        for j in range(n):
            residual[j] = values[start + j]
            for k in range(K):
                x[k, j] = other[indices[start + j], k]
        for k in range(K):
            f, sum_x2 = F[i, k], 0.0  # scalars in the inner loops let them vectorise
            for j in range(n):
                sum_x2 += x[k, j] * x[k, j]
                residual[j] -= f * x[k, j]
            square[k] = sum_x2
        for _ in range(_PASSES_TO_THE_END if finish else 1):
            largest, moved = 0.0, 0.0
            for k in range(K):
                slope = -half_l1
                for j in range(n):
                    slope += x[k, j] * residual[j]
                new = _coordinate_minimum(F[i, k], slope, square[k], finish)
                step = new - F[i, k]
                for j in range(n):
                    residual[j] -= step * x[k, j]
                largest = max(largest, new)
                moved = max(moved, abs(step))
                F[i, k] = new
            if moved <= _STILL * largest:
                break
        for j in range(n):
            total += residual[j] * residual[j]
    return total


@kept
@njit(nogil=True)
def _coordinate_minimum(current, slope, curvature, finish):  # type: ignore[no-untyped-def]
    """Where a parabola is lowest from zero up, given half its downward slope and curvature."""
    if curvature > 0.0:
        return max(0.0, current + slope / curvature)
    return 0.0 if finish else current


def _balance(A: FloatArray, X: FloatArray) -> None:
    """Scale each pair of columns to equal sums, which minimises the penalty at a given A Xᵀ."""
    a, x = np.sqrt(A.sum(axis=0)), np.sqrt(X.sum(axis=0))
    scale = np.divide(x, a, out=np.ones_like(a), where=(a > 0) & (x > 0))
    A *= scale
    X /= scale


def _start(
    init: str, side: _Side, n_components: int, rng: np.random.RandomState
) -> tuple[FloatArray, FloatArray]:
    """Factors to start from: all random, or as many as there are from singular vectors."""
    scale = np.sqrt(side.mean / n_components)
    A, X = (scale * np.abs(rng.standard_normal((size, n_components))) for size in side.shape)
    if init == "nndsvda":
        _set_nndsvda(side, A, X, rng)
    return A, X


def _set_nndsvda(side: _Side, A: FloatArray, X: FloatArray, rng: np.random.RandomState) -> None:
    """Replace the leading columns by the signed parts of the singular vectors.

    Of each pair of singular vectors u, v either the positive or the negative parts are kept,
    whichever has more weight; zeros become the mean of the cells (C. Boutsidis and
    E. Gallopoulos, Pattern Recognition 41(4), 2008).
    """
    n_vectors = min(A.shape[1], *side.shape)
    U, singular, Vt = randomized_svd(side.cells, n_vectors, random_state=rng)
    for k, (u, s, v) in enumerate(zip(U.T, singular, Vt, strict=True)):
        parts = [(np.maximum(sign * u, 0), np.maximum(sign * v, 0)) for sign in (1, -1)]
        weights = [np.linalg.norm(up) * np.linalg.norm(vp) for up, vp in parts]
        best = int(np.argmax(weights))
        for factor, part in zip((A, X), parts[best], strict=True):
            norm = np.linalg.norm(part)
            factor[:, k] = np.sqrt(s * weights[best]) * part / norm if norm > 0 else 0.0
    for factor in (A[:, :n_vectors], X[:, :n_vectors]):
        factor[factor <= 0] = side.cells.mean()


def _values(cells: Any) -> FloatArray:
    """Return the numbers that a dense or sparse matrix stores, without a copy."""
    return cells if isinstance(cells, np.ndarray) else cells.data


def _squares_must_not_overflow(values: FloatArray) -> None:
    limit = np.sqrt(np.finfo(np.float64).max / max(1, values.size))
    # NaN compares as false, so missing cells pass.
    if np.any(values > limit):
        raise ValueError(
            f"Y has values up to {np.nanmax(values):g}, whose squares overflow; rescale it."
        )
