"""DIBPNMF: the scikit-learn face. Validate, run the chains, set the attributes."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import scipy.sparse as sp
from joblib import effective_n_jobs
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data

from dibpnmf import _validation as check
from dibpnmf import prediction
from dibpnmf._progress import Progress, should_show
from dibpnmf.inference import starts
from dibpnmf.inference.chain import SCHEMES, Schedule, run_chain
from dibpnmf.inference.embedding import embed
from dibpnmf.inference.executors import Executor, Serial, Threads
from dibpnmf.inference.gibbs import Problem
from dibpnmf.inference.run import run_chains
from dibpnmf.likelihoods import LIKELIHOODS
from dibpnmf.model import Model
from dibpnmf.observations import Observations
from dibpnmf.posterior import (
    ChainRecord,
    Chosen,
    CompactDraw,
    align,
    choose,
    diagnose,
    stack_scalars,
    to_datatree,
)
from dibpnmf.priors import PRIORS

if TYPE_CHECKING:
    import xarray

Floats = NDArray[np.float64]

STARTS = ("auto", "nmf", "prior")
_MAX_R_HAT, _MIN_ESS = 1.05, 50.0
_HEADROOM = 10  # empty columns beyond those of the start
_TRUNCATED_SHARE = 0.1  # share of draws in which the last columns may be in use
_SCORED_CELLS = 2_000_000  # cells of new rows made explicit at once


class DIBPNMF(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):
    """Nonnegative matrix factorization that learns its number of factors.

    Y ≈ (V1∘Z1)(V2∘Z2)ᵀ with binary masks Z1, Z2 under a dependent Indian Buffet Process prior,
    sampled by Gibbs sweeps.

    Parameters
    ----------
    prior : {"bivariate-beta", "copula", "gaussian-process"}, default="bivariate-beta"
        How the two sides' column usages depend on each other.
    likelihood : {"exponential"}, default="exponential"
        Distribution of an entry given its mean λ.
    n_components : int, optional
        Fixes the number of columns; excludes ``max_components``. By default it is learned.
    max_components : int, optional
        Truncation: the most columns a draw may use. By default chosen from the data, and
        grown during warm-up while the last columns are in use.
    scheme : {"joint", "literal"}, default="joint"
        Fast exact moves, or the paper's algorithms update by update. Same posterior.
    epsilon : "auto" or float, default="auto"
        Background rate ε in units of the mean of Y. "auto" takes the mean of the cells that
        no factor of a quick factorization covers.
    zeros : {"observed", "missing"}, default="observed"
        What cells not stored in a sparse Y are. NaN is missing in any case.
    n_warmup, n_draws : int, default=500
        Sweeps dropped and draws kept, per chain.
    n_thin : int, default=1
        Sweeps per draw.
    n_chains : int, default=4
        Independent chains, each from its own start.
    init : {"auto", "nmf", "prior"} or a list of them, default="auto"
        Start of a chain: a quick factorization cut to masks, or a draw from the prior. A list
        is dealt to the chains in turn. "auto" is "nmf", from another random point each chain.
    random_state : int, RandomState or None
        The draws are a function of the data, the parameters and this seed, to the bit,
        whatever ``n_jobs``.
    n_jobs : int, optional
        Threads (None is 1, -1 is all cores): chains beside each other where there are enough
        of them, rows otherwise.
    progress : bool or "auto", default="auto"
        Show progress; "auto" on a terminal only.
    prior_params : dict, optional
        Hyper-parameters of the prior: a parameter's name fixes it, ``NAME_shape`` and
        ``NAME_rate`` set its gamma prior. Names: a, b (bivariate beta); alpha1, alpha2, rho
        (copula); alpha, s, and the fixed scales sigma, eta (Gaussian process).
    min_share : float, default=0.01
        A factor is effective if it carries at least this share of the total of λ − ε.
    keep_draws : bool, default=True
        Keep all draws of A and X (needed by predict, reconstruct, score of fitted rows and
        posterior_similarity), or summaries only.

    Attributes
    ----------
    n_components_ : int
        Effective factors of the chosen draw: the one with the largest likelihood among those
        at the posterior mode of the effective number. With ``n_components`` fixed, that number.
    n_active_ : int
        Columns in use in both masks, the paper's count: posterior mode.
    components_ : ndarray (n_components_, n_features)
        X of the chosen draw, transposed, in the units of Y, sorted by share.
    embedding_ : ndarray (n_samples, n_components_)
        A of the chosen draw.
    components_mean_, inclusion_probabilities_ : ndarray (n_components_, n_features)
        Posterior mean of the chosen components, and the probability that a column of Y uses
        them, over all draws aligned with the chosen one.
    shares_ : ndarray (n_components_,)
        Share of each factor in the total of λ − ε.
    component_counts_ : dict of int to float
        Posterior probability of each effective number of factors.
    log_likelihood_ : float
        Log likelihood of the chosen draw, in the units of Y.
    epsilon_ : float
        Background rate in the units of Y.
    max_components_ : int
        Truncation reached.
    diagnostics_ : dict
        ``r_hat``, ``ess_bulk``, ``ess_tail`` by scalar, and ``acceptance`` rates.
    posterior_ : xarray.DataTree
        Draws in ArviZ's layout, built on access.

    Examples
    --------
    >>> from dibpnmf import DIBPNMF
    >>> from dibpnmf.datasets import make_planted
    >>> Y = make_planted(random_state=0).data
    >>> model = DIBPNMF(n_warmup=100, n_draws=100, random_state=0).fit(Y)
    >>> model.n_components_
    5
    """

    def __init__(
        self,
        prior: str = "bivariate-beta",
        likelihood: str = "exponential",
        n_components: int | None = None,
        max_components: int | None = None,
        scheme: str = "joint",
        epsilon: float | str = "auto",
        zeros: str = "observed",
        n_warmup: int = 500,
        n_draws: int = 500,
        n_thin: int = 1,
        n_chains: int = 4,
        init: str | list[str] = "auto",
        random_state: int | np.random.RandomState | None = None,
        n_jobs: int | None = None,
        progress: bool | str = "auto",
        prior_params: dict[str, float] | None = None,
        min_share: float = 0.01,
        keep_draws: bool = True,
    ) -> None:
        self.prior = prior
        self.likelihood = likelihood
        self.n_components = n_components
        self.max_components = max_components
        self.scheme = scheme
        self.epsilon = epsilon
        self.zeros = zeros
        self.n_warmup = n_warmup
        self.n_draws = n_draws
        self.n_thin = n_thin
        self.n_chains = n_chains
        self.init = init
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.progress = progress
        self.prior_params = prior_params
        self.min_share = min_share
        self.keep_draws = keep_draws

    # ------------------------------------------------------------------ fitting

    def fit(self, Y: ArrayLike, y: object = None) -> Self:
        """Sample the posterior of the factorization of Y.

        Parameters
        ----------
        Y : array-like, sparse matrix or DataFrame of shape (n_samples, n_features)
            Nonnegative; NaN is a missing cell.
        y : ignored
        """
        self._check_parameters()
        matrix = self._read(Y, reset=True)
        observations = Observations.from_matrix(matrix, self.zeros)
        check.some_observed(observations.n_observed)
        seed = int(check_random_state(self.random_state).randint(0, 2**31 - 1))
        epsilon = self._background(observations, seed)
        records, interrupted = self._sample(observations, epsilon, seed)
        self._set_results(observations, epsilon, records)
        self._warn(interrupted)
        return self

    def fit_transform(self, Y: ArrayLike, y: object = None, **params: Any) -> Floats:
        """Fit and return A of the chosen draw, `embedding_`."""
        return self.fit(Y).embedding_

    def _check_parameters(self) -> None:
        check.one_of("prior", self.prior, PRIORS)
        check.one_of("likelihood", self.likelihood, LIKELIHOODS)
        check.one_of("scheme", self.scheme, SCHEMES)
        check.one_of("zeros", self.zeros, ("observed", "missing"))
        for name in ("n_components", "max_components"):
            if getattr(self, name) is not None:
                check.whole_number(name, getattr(self, name), 1)
        if self.n_components is not None and self.max_components is not None:
            raise ValueError(
                "n_components fixes the number of columns and max_components bounds a learned "
                f"one; give one of them. Got n_components={self.n_components!r} and "
                f"max_components={self.max_components!r}."
            )
        check.whole_number("n_warmup", self.n_warmup, 0)
        for name in ("n_draws", "n_thin", "n_chains"):
            check.whole_number(name, getattr(self, name), 1)
        if not (isinstance(self.epsilon, str) and self.epsilon == "auto"):
            taken = "'auto' or a positive number (in units of the mean of Y)"
            check.real_number("epsilon", self.epsilon, 0.0, np.inf, taken)
        check.real_number("min_share", self.min_share, -1e-300, 1.0, "a number in [0, 1)")
        if self.progress != "auto":
            check.true_or_false("progress (unless 'auto')", self.progress)
        check.true_or_false("keep_draws", self.keep_draws)
        for start in self._starts():
            check.one_of("init", start, STARTS)
        if self.n_jobs is not None and (
            isinstance(self.n_jobs, bool) or not isinstance(self.n_jobs, (int, np.integer))
            or self.n_jobs == 0
        ):  # fmt: skip
            raise ValueError(
                f"n_jobs must be None or an integer other than 0; got {self.n_jobs!r}."
            )
        check.mapping_or_none("prior_params", self.prior_params)
        PRIORS[self.prior].from_params(self.prior_params)

    def _starts(self) -> list[str]:
        return list(self.init) if isinstance(self.init, (list, tuple)) else [self.init]

    def _read(self, Y: ArrayLike, reset: bool) -> Floats | sp.csr_array:
        """Check a matrix and make it float64, dense or CSR."""
        method = f"{type(self).__name__}.{'fit' if reset else 'transform'}"
        matrix = validate_data(
            self, Y, reset=reset, accept_sparse=["csr", "csc", "coo"], dtype=np.float64,
            ensure_all_finite="allow-nan",
        )  # fmt: skip
        if sp.issparse(matrix):
            matrix = sp.csr_array(matrix)
            matrix.sum_duplicates()
        check.nonnegative(matrix, method)
        return matrix

    def _background(self, observations: Observations, seed: int) -> float:
        if isinstance(self.epsilon, str):
            return starts.background_rate(observations, seed)
        return float(self.epsilon)

    def _truncation(self, shape: tuple[int, int]) -> tuple[int, int]:
        """Columns to start with, and the most that warm-up may grow them to."""
        if self.n_components is not None:
            return self.n_components, self.n_components
        if self.max_components is not None:
            return self.max_components, self.max_components
        start = starts.default_rank(shape) + _HEADROOM
        return start, max(start, min(500, 2 * sum(shape)))

    def _sample(
        self, observations: Observations, epsilon: float, seed: int
    ) -> tuple[list[ChainRecord], bool]:
        """Run all chains; return their records and whether they were interrupted."""
        prior = PRIORS[self.prior].from_params(self.prior_params)
        likelihood = LIKELIHOODS[self.likelihood]()
        model = Model(prior, likelihood, epsilon)
        K, most_columns = self._truncation(observations.shape)
        schedule = Schedule(self.n_warmup, self.n_draws, self.n_thin, self.scheme, most_columns)
        records = [
            ChainRecord(prior, self.min_share, bool(self.keep_draws)) for _ in range(self.n_chains)
        ]
        kinds = self._starts()
        progress = Progress(
            self.n_chains, schedule.n_sweeps, self.n_warmup, should_show(self.progress)
        )

        def run_one(chain: int, executor: Executor) -> None:
            if progress.should_stop():
                return
            problem = Problem(
                observations, prior, likelihood.kernel(epsilon), seed, chain, executor
            )
            kind = kinds[chain % len(kinds)]
            state = starts.start_state(problem, model, K, "nmf" if kind == "auto" else kind)
            run_chain(problem, state, schedule, records[chain], progress)

        with progress:
            interrupted = run_chains(run_one, range(self.n_chains), self._n_threads(), progress)
        if interrupted and not all(len(record) for record in records):
            raise KeyboardInterrupt("interrupted before every chain had a draw")
        return records, interrupted

    def _n_threads(self) -> int:
        return int(effective_n_jobs(self.n_jobs))

    def _set_results(
        self, observations: Observations, epsilon: float, records: list[ChainRecord]
    ) -> None:
        """Read everything off the records."""
        prior = records[0].prior
        chosen = choose(records, self.min_share, self.n_components is not None)
        mean, inclusion = align(records, chosen)
        scale = observations.scale
        offset = observations.n_observed * np.log(scale)
        scalars = stack_scalars(records, prior)
        scalars["log_likelihood"] = scalars["log_likelihood"] - offset
        A, X = chosen.loadings
        self.embedding_ = A
        self.components_ = np.ascontiguousarray(X.T) * scale
        self.components_mean_ = np.ascontiguousarray(mean.T) * scale
        self.inclusion_probabilities_ = np.ascontiguousarray(inclusion.T)
        carried = A.sum(axis=0) * X.sum(axis=0)
        self.shares_ = carried / max(carried.sum(), 1e-300)
        self.n_components_ = A.shape[1]
        K, count = np.unique(scalars["n_components"], return_counts=True)
        self.component_counts_ = {int(k): float(c / count.sum())
                                  for k, c in zip(K, count, strict=True)}  # fmt: skip
        K, count = np.unique(scalars["n_active"], return_counts=True)
        self.n_active_ = int(K[np.argmax(count)])
        self.log_likelihood_ = float(records[chosen.chain].log_likelihood[chosen.draw] - offset)
        self.epsilon_ = epsilon * scale
        self.max_components_ = max(record.log_odds[-1].shape[1] for record in records)
        self.diagnostics_ = diagnose(scalars)
        self._keep(observations, epsilon, chosen, records, scalars)

    def _keep(
        self,
        observations: Observations,
        epsilon: float,
        chosen: Chosen,
        records: list[ChainRecord],
        scalars: dict[str, Floats],
    ) -> None:
        """Keep what later calls need, in plain arrays."""
        self._scale, self._relative_epsilon = observations.scale, epsilon
        self._chosen, self._records, self._scalars = chosen, records, scalars
        self._shape = observations.shape
        self._touched = float(np.mean([t for record in records for t in record.truncated]))
        cells = observations.side(0)
        self._observed = None if observations.is_complete else (cells.indptr, cells.indices)
        self._facts = {
            "n_rows": observations.shape[0],
            "n_columns": observations.shape[1],
            "n_observed": observations.n_observed,
            "is_complete": int(observations.is_complete),
            "mean": observations.scale,
            "epsilon": self.epsilon_,
        }

    def _warn(self, interrupted: bool) -> None:
        """Tell what the user should know before trusting the result."""
        if interrupted:
            n = [len(record) for record in self._records]
            warnings.warn(
                f"Interrupted: the results rest on the draws made so far, {n} per chain.",
                UserWarning, stacklevel=3,
            )  # fmt: skip
        if self.n_components is None and self._touched > _TRUNCATED_SHARE:
            warnings.warn(
                f"The last of {self.max_components_} columns are in use in "
                f"{self._touched:.0%} of the draws, so the truncation may bind. Pass "
                f"max_components={2 * self.max_components_} or more.",
                UserWarning, stacklevel=3,
            )  # fmt: skip
        rough = [
            f"{name} (R-hat {r_hat:.2f}, ESS {ess:.0f})"
            for name, r_hat in self.diagnostics_["r_hat"].items()
            for ess in [min(self.diagnostics_["ess_bulk"][name],
                            self.diagnostics_["ess_tail"][name])]
            if not (r_hat <= _MAX_R_HAT and ess >= _MIN_ESS)
        ]  # fmt: skip
        if rough:
            warnings.warn(
                f"The chains have not converged: {', '.join(rough)}; wanted are R-hat <= "
                f"{_MAX_R_HAT} and ESS >= {_MIN_ESS:.0f}. Raise n_warmup and n_draws (now "
                f"{self.n_warmup} and {self.n_draws}); if R-hat stays high the posterior has "
                "several modes, and point estimates come from the best of them.",
                ConvergenceWarning, stacklevel=3,
            )  # fmt: skip

    # ------------------------------------------------------------------ using a fit

    def transform(self, Y: ArrayLike) -> Floats:
        """Embed new rows given the learned columns.

        Each row's loadings are drawn repeatedly given `components_`; entries that are on in at
        least half of the draws get their mean, others 0. A row's result depends on its own
        cells only.
        """
        check_is_fitted(self)
        observations = Observations.from_matrix(
            self._read(Y, reset=False), self.zeros, scale=self._scale
        )
        draws = self._embed(observations)
        return np.where((draws > 0.0).mean(axis=0) >= 0.5, draws.mean(axis=0), 0.0)

    def _embed(self, observations: Observations) -> Floats:
        likelihood = LIKELIHOODS[self.likelihood]().kernel(self._relative_epsilon)
        n_threads = min(self._n_threads(), observations.shape[0])
        executor = Threads(n_threads) if n_threads > 1 else Serial()
        try:
            return embed(
                executor, likelihood, observations, self._chosen.loadings[1],
                self._chosen.log_odds[0], self._chosen.tau[0],
            )  # fmt: skip
        finally:
            executor.close()

    def inverse_transform(self, A: ArrayLike) -> Floats:
        """Return A @ components_, the mean of Y without the background `epsilon_`."""
        check_is_fitted(self)
        A = np.asarray(A, dtype=np.float64)
        if A.ndim != 2 or A.shape[1] != self.n_components_:
            raise ValueError(
                f"A must have shape (n_samples, {self.n_components_}), one column a component; "
                f"got {A.shape}."
            )
        return A @ self.components_

    def reconstruct(self) -> Floats:
        """Posterior mean of λ for every cell of the fitted matrix."""
        return prediction.mean_matrix(self._draws(), self._relative_epsilon) * self._scale

    def predict(
        self, rows: ArrayLike, cols: ArrayLike | None = None, interval: float | None = None
    ) -> Floats | tuple[Floats, Floats, Floats]:
        """Posterior mean of λ at single cells of the fitted matrix.

        Parameters
        ----------
        rows, cols : int or array of int
            Cells, pairwise; a single index is repeated. Without ``cols``, ``rows`` is a dense
            matrix of new rows, and the mean of every one of their cells is returned.
        interval : float in (0, 1), optional
            Also return an equal-tailed interval of the posterior predictive of y with this
            probability.

        Returns
        -------
        mean, or (mean, lower, upper) : ndarray
        """
        check_is_fitted(self)
        if cols is None:
            return self._predict_new(rows, interval)
        draws = self._draws()
        i, j = check.cells(rows, cols, self._shape)
        mean = prediction.mean_at(draws, i, j, self._relative_epsilon) * self._scale
        if interval is None:
            return mean
        check.real_number("interval", interval, 0.0, 1.0, "None or a number in (0, 1)")
        lower, upper = prediction.interval_at(
            LIKELIHOODS[self.likelihood](), draws, i, j, self._relative_epsilon, interval
        )
        return mean, lower * self._scale, upper * self._scale

    def _predict_new(self, Y: ArrayLike, interval: float | None) -> Floats:
        """Mean of every cell of new rows."""
        if sp.issparse(Y):
            raise TypeError(
                "predict without cols takes a dense matrix of new rows, not a sparse one: its "
                "result has every cell. Name cells of the fitted matrix with rows and cols."
            )
        if interval is not None:
            raise ValueError("interval goes with rows and cols, the indices of single cells.")
        return self.transform(Y) @ self.components_ + self.epsilon_

    def score(self, Y: ArrayLike, y: object = None) -> float:
        """Log predictive density per cell, held out.

        A matrix of the fitted shape whose observed cells were all missing in `fit` is taken as
        other cells of the fitted rows. Otherwise rows are new: each is embedded from a random
        half of its observed cells and scored on the other half.
        """
        check_is_fitted(self)
        matrix = self._read(Y, reset=False)
        observations = Observations.from_matrix(matrix, self.zeros, scale=self._scale)
        check.some_observed(observations.n_observed)
        if self._is_held_out(observations):
            total, n = self._score_cells(observations)
        else:
            total, n = self._score_rows(matrix)
        return float(total / n - np.log(self._scale))

    def _is_held_out(self, observations: Observations) -> bool:
        if self._observed is None or observations.is_complete:
            return False
        if observations.shape != self._shape:
            return False
        cells = observations.side(0)
        ours, theirs = (
            sp.csr_array((np.ones(indices.size), indices, indptr), shape=self._shape)
            for indptr, indices in (self._observed, (cells.indptr, cells.indices))
        )
        return ours.multiply(theirs).nnz == 0

    def _score_cells(self, observations: Observations) -> tuple[float, int]:
        cells = observations.side(0)
        rows = np.repeat(np.arange(observations.shape[0]), np.diff(cells.indptr))
        columns = cells.indices.astype(np.int64)
        likelihood = LIKELIHOODS[self.likelihood]()
        total = 0.0
        for part, table in prediction.table_at(
            self._draws(), rows, columns, self._relative_epsilon
        ):
            log_p = prediction.log_predictive(likelihood, cells.values[part], table)
            total += float(log_p.sum())
        return total, rows.size

    def _score_rows(self, matrix: Floats | sp.csr_array) -> tuple[float, int]:
        rng = np.random.default_rng(0)
        likelihood = LIKELIHOODS[self.likelihood]()
        X = self._chosen.loadings[1]
        chunk = max(1, _SCORED_CELLS // matrix.shape[1])
        total, n = 0.0, 0
        for start in range(0, matrix.shape[0], chunk):
            part = matrix[start : start + chunk]
            if sp.issparse(part):
                part = self._explicit(sp.csr_array(part))
            observed = ~np.isnan(part)
            # A random half of each row's observed cells, by rank of random numbers.
            order = np.argsort(np.where(observed, rng.random(part.shape), 2.0), axis=1)
            rank = np.argsort(order, axis=1)
            given = rank < observed.sum(axis=1, keepdims=True) // 2
            shown = Observations.from_matrix(
                np.where(given, part, np.nan), self.zeros, scale=self._scale
            )
            draws = self._embed(shown)
            for i in range(part.shape[0]):
                held = observed[i] & ~given[i]
                table = draws[:, i] @ X[held].T + self._relative_epsilon
                log_p = prediction.log_predictive(likelihood, part[i, held] / self._scale, table)
                total += float(log_p.sum())
                n += int(held.sum())
        return total, n

    def _explicit(self, part: sp.csr_array) -> Floats:
        """Dense rows with NaN for what is missing."""
        if self.zeros == "observed":
            return part.toarray()
        coo = part.tocoo()
        dense = np.full(part.shape, np.nan)
        dense[coo.row, coo.col] = coo.data
        return dense

    def posterior_similarity(self, rows: ArrayLike | None = None) -> Floats:
        """Posterior mean cosine similarity of rows of A, all of them or a subset."""
        draws = self._draws()
        chosen = np.arange(self._shape[0]) if rows is None else rows
        index = check.cell_indices("rows", chosen, self._shape[0])
        return prediction.similarity((draw.unpack() for draw in draws), index)

    @property
    def posterior_(self) -> xarray.DataTree:
        """Draws as an xarray DataTree in ArviZ's layout, built anew on each access."""
        check_is_fitted(self)
        return to_datatree(self._records, self._scalars, self._facts)

    def _draws(self) -> list[CompactDraw]:
        """All kept draws, or an error that tells how to keep them."""
        check_is_fitted(self)
        draws = [draw for record in self._records for draw in record.draws]
        if not draws:
            raise ValueError(
                "This needs the draws, and keep_draws=False kept summaries only. Fit again "
                "with keep_draws=True; n_thin makes the draws fewer."
            )
        return draws

    # ------------------------------------------------------------------ scikit-learn

    @property
    def _n_features_out(self) -> int:
        return self.n_components_

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "_records")

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.positive_only = True
        tags.input_tags.sparse = True
        tags.input_tags.allow_nan = True
        tags.transformer_tags.preserves_dtype = ["float64"]
        return tags
