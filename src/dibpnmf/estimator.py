"""DIBPNMF: the scikit-learn face. Validate, run the chains, set the attributes."""

from __future__ import annotations

import copy
import os
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from dibpnmf import _validation as check
from dibpnmf import clustering, prediction, scoring, similarity
from dibpnmf._parameters import check_parameters
from dibpnmf.diagnostics import (
    InterruptedWarning,
    LikelihoodWarning,
    diagnose,
    doubts_about_draws,
    doubts_about_truncation,
)
from dibpnmf.inference.embedding import embed
from dibpnmf.inference.executors import Executor, executor_of
from dibpnmf.inference.gibbs import Problem
from dibpnmf.inference.labels import relabel
from dibpnmf.inference.point import mean_given_masks
from dibpnmf.likelihoods import LIKELIHOODS
from dibpnmf.likelihoods.base import Moments
from dibpnmf.observations import Absent, Observations
from dibpnmf.posterior import (
    ChainRecord,
    Chosen,
    CompactDraw,
    align,
    choose,
    frequencies,
    long_enough,
    posterior_mode,
    shares,
    stack_scalars,
    to_datatree,
)
from dibpnmf.priors import PRIORS
from dibpnmf.runs.errors import RunFolderError
from dibpnmf.runs.folder import HEADER, SUMMARY, Names, RunFolder
from dibpnmf.sampling import (
    Run,
    begun,
    cluster_of,
    likelihood_of,
    new_records,
    sample,
    threads_of,
)
from dibpnmf.summary import summarise

if TYPE_CHECKING:
    import xarray

    from dibpnmf.cluster.executor import Dask

Floats = NDArray[np.float64]
Cells = NDArray[np.int64]

_AVERAGED = 100  # draws of the loadings given the chosen masks
_LARGEST = 1e250  # entries up to here, so that no sum or product of them overflows


def _stored(matrix: Floats | sp.csr_array) -> Floats:
    """Entries that a matrix holds, without the missing ones."""
    values = matrix.data if sp.issparse(matrix) else matrix
    return values[~np.isnan(values)]


def with_and_without_missing(matrix: Floats | sp.csr_array) -> list[NDArray[np.int64]]:
    """Rows that lack a cell by NaN, and the others: one or two sets of them."""
    lacks = np.zeros(matrix.shape[0], np.bool_)
    if isinstance(matrix, np.ndarray):
        lacks[:] = np.isnan(matrix).any(axis=1)
    else:
        row_of = np.repeat(np.arange(matrix.shape[0]), np.diff(matrix.indptr))
        lacks[row_of[np.isnan(matrix.data)]] = True
    return [rows for rows in (np.flatnonzero(lacks), np.flatnonzero(~lacks)) if rows.size]


def _predicted_lines(model: DIBPNMF, options: dict[str, Any], rows: Cells, cols: Cells) -> Floats:
    """Predict cells as an array with a line for each answer."""
    return np.atleast_2d(model.predict(rows, cols, **options))


class DIBPNMF(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """Nonnegative matrix factorization that learns its number of factors.

    Y ≈ (V1∘Z1)(V2∘Z2)ᵀ with binary masks Z1, Z2 under a dependent Indian Buffet Process prior,
    sampled by Gibbs sweeps.

    Parameters
    ----------
    prior : {"bivariate-beta", "copula", "gaussian-process"}, default="bivariate-beta"
        How the two sides' column usages depend on each other.
    likelihood : {"exponential", "gaussian", "poisson"}, default="exponential"
        Distribution of an entry given its mean λ: exponential, the paper's, with noise as large
        as the signal; Gaussian with a learned precision, for ratings, measurements and weights;
        Poisson, for counts and binary data.
    loadings : {"shared", "per-factor", "truncated-normal"}, default="shared"
        Prior of the loadings that are on: exponential, with one rate τ for a side or one for
        each factor; or normal, cut at zero, with a mean and a precision for each factor, which
        suits factors that everyone uses, as in ratings (Gaussian likelihood only).
    n_components : int, optional
        Fixes the number of columns; excludes ``max_components``. By default it is learned.
    max_components : int, optional
        Truncation: the most columns a draw may use. By default chosen from the data, and
        grown during warm-up while the last columns are in use.
    scheme : {"joint", "literal"}, default="joint"
        Fast exact moves, or the paper's algorithms update by update. Same posterior.
    epsilon : "auto" or float, default="auto"
        Background rate ε in units of the mean of Y. "auto" takes the mean of the cells that
        no factor covers, in a quick factorization first and then in a short pilot chain. There
        is no pilot under the Poisson likelihood, nor under the exponential one where more than
        5% of the cells are exactly zero.
    zeros : {"observed", "missing"}, default="observed"
        What cells not stored in a sparse Y are. NaN is missing in any case.
    n_warmup, n_draws : int, default=500
        Sweeps dropped and draws kept, per chain.
    n_thin : int, default=1
        Sweeps per draw.
    n_chains : int, default=4
        Independent chains, each from its own start.
    init : "auto", {"nmf", "prior"} or a list of these, default="auto"
        Start of a chain: a quick factorization cut to masks (from another random point each
        chain), or a draw from the prior. A list is dealt to the chains in turn; "auto" is
        ["nmf", "prior"]. But where the exponential likelihood meets at most 30 rows or columns,
        each of these starts as a factor of its own instead of "nmf": sweeps remove the needless.
    random_state : int, RandomState or None
        The draws are a function of the data, the parameters and this seed, to the bit,
        whatever ``n_jobs``.
    n_jobs : int, optional
        Threads, at most four a core (None is 1, -1 is all cores): one for each chain first; those
        that are left help with the rows of any chain that has cells enough.
    executor : {"threads", "serial", "dask"} or distributed.Client, default="threads"
        Where rows are updated: in ``n_jobs`` threads, in one, or on the workers of a Dask cluster
        (docs/scaling.md). "dask" is the current client or, where there is none, a cluster of
        ``n_jobs`` processes on this machine that lives as long as the call. The draws are the
        same to the bit.
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
    checkpoint : path, optional
        Folder to save the run in while it samples, with a copy of Y. A fit that finds its own
        run there, stopped in whatever way, goes on with it, to the bit as if never stopped; one
        that finds another run is refused. `DIBPNMF.load` reads it.
    checkpoint_every : float, default=30
        Seconds between checkpoints.

    Attributes
    ----------
    n_components_ : int
        Effective factors of the chosen draw: the one with the largest likelihood among those
        at the posterior mode of the effective number. With ``n_components`` fixed, that number.
    n_active_ : int
        Columns in use in both masks, the paper's count: posterior mode.
    components_ : ndarray (n_components_, n_features)
        X of the chosen draw, transposed, in the units of Y, sorted by share. Here and in
        `embedding_` the masks are the draw's, and the loadings that are on their posterior mean
        given the masks: a single draw's loadings scatter as widely as the posterior.
    embedding_ : ndarray (n_samples, n_components_)
        A of the chosen draw, likewise.
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
    row_names_, column_names_ : list of str or None
        Names given to `fit`, or those of a DataFrame's index and columns.
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
        loadings: str = "shared",
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
        executor: Any = "threads",
        progress: bool | str = "auto",
        prior_params: dict[str, float] | None = None,
        min_share: float = 0.01,
        keep_draws: bool = True,
        checkpoint: str | os.PathLike[str] | None = None,
        checkpoint_every: float = 30.0,
    ) -> None:
        self.prior = prior
        self.likelihood = likelihood
        self.loadings = loadings
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
        self.executor = executor
        self.progress = progress
        self.prior_params = prior_params
        self.min_share = min_share
        self.keep_draws = keep_draws
        self.checkpoint = checkpoint
        self.checkpoint_every = checkpoint_every

    # ------------------------------------------------------------------ fitting

    def fit(
        self,
        Y: ArrayLike,
        y: object = None,
        *,
        row_names: Sequence[str] | None = None,
        column_names: Sequence[str] | None = None,
    ) -> Self:
        """Sample the posterior of the factorization of Y.

        Parameters
        ----------
        Y : array-like, sparse matrix or DataFrame of shape (n_samples, n_features)
            Nonnegative; NaN is a missing cell. With a Dask executor also a dask array with dense
            or sparse chunks, a list of delayed blocks of rows, or the path of a folder of ``.npz``
            or ``.parquet`` files with row, column (from 0) and value of stored cells: such a
            matrix is never gathered here.
        y : ignored
        row_names, column_names : sequence of str, optional
            Names to show; by default those of a DataFrame.
        """
        check_parameters(self)
        with cluster_of(self) as cluster:
            observations, moments = self._observe(Y, cluster)
            names = (
                check.names(
                    "row_names", row_names, getattr(Y, "index", None), observations.shape[0]
                ),
                check.names(
                    "column_names", column_names, getattr(Y, "columns", None), observations.shape[1]
                ),
            )
            seed = int(check_random_state(self.random_state).randint(0, 2**31 - 1))
            self._contradictions = list(likelihood_of(self, observations).doubts(moments))
            with begun(self, observations, seed, names, moments.zeros, cluster) as run:
                records, interrupted = sample(self, observations, run, cluster)
                self._set_results(observations, run, records, names, cluster)
                if run.folder is not None:
                    run.folder.write_json(SUMMARY, summarise(self))
        self._warn(interrupted)
        return self

    def _observe(self, Y: Any, cluster: Dask | None) -> tuple[Observations, Moments]:
        """Check a matrix and put it where its rows will be updated."""
        if cluster is not None and check.lies_elsewhere(Y):
            from dibpnmf.cluster.reading import place_elsewhere

            placed, moments = place_elsewhere(cluster, Y, self.zeros, self.likelihood, _LARGEST)
            check.some_observed(placed.n_observed)
            check.new_columns(self, placed.shape[1])
            return placed, moments
        matrix = self._read(Y, reset=True)
        if self.zeros == "missing" and isinstance(matrix, np.ndarray) and np.any(matrix == 0.0):
            warnings.warn(
                "zeros='missing' is about cells that a sparse matrix does not store. This one is "
                "dense, and its zeros are taken as observed: put NaN where nothing was observed, "
                "or give a sparse matrix.",
                UserWarning,
                stacklevel=3,
            )
        observations = Observations.from_matrix(matrix, self.zeros)
        check.some_observed(observations.n_observed)
        moments = Moments.of([_stored(matrix)], observations.n_observed, observations.scale)
        return (cluster.place(observations) if cluster else observations), moments

    @classmethod
    def load(cls, run: str | os.PathLike[str]) -> Self:
        """Read a fitted model from the folder of a run made with ``checkpoint``.

        A run that has not ended, or is still going on, is read up to its last checkpoint, with
        a warning.
        """
        folder = RunFolder(run)
        header = folder.known_header()
        try:
            model = cls(**header.parameters, checkpoint=os.fspath(run))
            check_parameters(model)
        except (TypeError, ValueError) as error:
            raise RunFolderError(f"{folder.path / HEADER} is damaged: {error}") from error
        records = new_records(model)
        for chain, record in enumerate(records):
            folder.chain(chain).read(record)
        is_short = any(len(record) < model.n_draws for record in records)
        records = long_enough(records)
        if not records:
            raise RunFolderError(f"{folder.path} holds no draw yet. Resume its run first.")
        observations = folder.observations()
        model.n_features_in_ = observations.shape[1]
        model._contradictions = []
        with suppress(RunFolderError):  # draws are worth having without their summary
            model._contradictions = (folder.summary() or {}).get("contradictions", [])
        known = Run(header.seed, header.epsilon, folder)
        model._set_results(observations, known, records, folder.names())
        if is_short:
            model._warn_short()
        return model

    def fit_transform(self, Y: ArrayLike, y: object = None, **params: Any) -> Floats:
        """Fit and return A of the chosen draw, `embedding_`."""
        return self.fit(Y, **params).embedding_

    def _read(self, Y: ArrayLike, reset: bool) -> Floats | sp.csr_array:
        """Check a matrix and make it float64, dense or CSR."""
        check.not_elsewhere(Y, f"{type(self).__name__}.fit" if reset else "This")
        largest = _LARGEST if reset else _LARGEST * min(1.0, self._scale)
        matrix = check.matrix(self, Y, reset, largest)
        LIKELIHOODS[self.likelihood]().refuse(_stored(matrix))
        return matrix

    def _set_results(
        self,
        observations: Observations,
        run: Run,
        records: list[ChainRecord],
        names: Names,
        elsewhere: Executor | None = None,
    ) -> None:
        """Read everything off the records."""
        epsilon = run.epsilon
        self.row_names_, self.column_names_ = names
        prior = records[0].prior
        self._likelihood = likelihood_of(self, observations)
        chosen = choose(records, self.n_components is not None)
        chosen = self._average_loadings(chosen, observations, run, elsewhere)
        scale = observations.scale
        # One after another, each let go before the next is made: all are as large as X.
        mean, inclusion = align(records, chosen)
        self.components_mean_ = np.multiply(mean.T, scale, order="C")
        del mean
        self.inclusion_probabilities_ = np.ascontiguousarray(inclusion.T)
        del inclusion
        offset = observations.n_observed * self._likelihood.log_unit(scale)
        scalars = stack_scalars(records, prior, self._likelihood.noise_names)
        scalars["log_likelihood"] = scalars["log_likelihood"] - offset
        A, X = chosen.loadings
        self.embedding_ = A
        self.components_ = np.multiply(X.T, scale, order="C")
        self.shares_ = chosen.shares
        self.n_components_ = A.shape[1]
        self.component_counts_ = frequencies(K for record in records for K in record.n_components)
        self.n_active_ = posterior_mode(K for record in records for K in record.n_active)
        self.log_likelihood_ = float(records[chosen.chain].log_likelihood[chosen.draw] - offset)
        self.epsilon_ = epsilon * scale
        self.max_components_ = max(record.log_odds[-1].shape[1] for record in records)
        self.diagnostics_ = diagnose(scalars)
        self._keep(observations, epsilon, chosen, records, scalars)

    def _average_loadings(
        self,
        chosen: Chosen,
        observations: Observations,
        run: Run,
        elsewhere: Executor | None,
    ) -> Chosen:
        """Replace the chosen draw's loadings by their posterior mean given its masks."""
        if isinstance(observations, Absent):
            A, X = self._saved_point(chosen, run)
        else:
            A, X = self._mean_loadings(chosen, observations, run, elsewhere)
            if run.folder is not None and observations.here() is None:
                run.folder.write_point((chosen.chain, chosen.draw), A, X)
        share = shares(np.stack([A.sum(axis=0), X.sum(axis=0)])) * chosen.shares.sum()
        order = np.argsort(-share, kind="stable")
        for side in (A, X):
            relabel(side, np.ones(order.size), order)
        return replace(
            chosen, loadings=(A, X), shares=share[order], log_odds=chosen.log_odds[:, order],
            slabs=np.ascontiguousarray(chosen.slabs[:, order]),
        )  # fmt: skip

    def _mean_loadings(
        self,
        chosen: Chosen,
        observations: Observations,
        run: Run,
        elsewhere: Executor | None,
    ) -> tuple[Floats, Floats]:
        kernel = self._likelihood.at(chosen.noise).kernel(run.epsilon)
        prior = PRIORS[self.prior].from_params(self.prior_params)
        with threads_of(self) as n, executor_of(n, elsewhere) as executor:
            # A chain number that no chain has: streams of its own.
            problem = Problem(observations, prior, kernel, run.seed, self.n_chains, executor)
            return mean_given_masks(
                problem, chosen.loadings, chosen.slabs, min(_AVERAGED, self.n_draws)
            )

    def _saved_point(self, chosen: Chosen, run: Run) -> tuple[Floats, Floats]:
        """Loadings that a run over a matrix elsewhere has kept; else the draw's own."""
        assert run.folder is not None
        point = run.folder.point((chosen.chain, chosen.draw))
        if point is None:
            text = (
                "The run's matrix was left where it lay: components_ and embedding_ have the "
                "loadings of a single draw until the run has ended."
            )
            warnings.warn(text, InterruptedWarning, stacklevel=5)
        return point or chosen.loadings

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
        self._observed = observations.observed_index()
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
            self._warn_short()
        doubts: list[tuple[type[Warning], str]] = [
            (LikelihoodWarning, text) for text in self._contradictions
        ]
        n_draws = min(map(len, self._records)) if interrupted else self.n_draws
        doubts += doubts_about_draws(self.diagnostics_, self.n_warmup, n_draws)
        if self.n_components is None:
            doubts += doubts_about_truncation(self._touched, self.max_components_)
        for category, text in doubts:
            warnings.warn(text, category, stacklevel=3)

    def _warn_short(self) -> None:
        n = [len(record) for record in self._records]
        left_out = self.n_chains - len(n)
        text = f"Interrupted: the results rest on the draws made so far, {n} per chain"
        text += f"; {left_out} more had none or few." if left_out else "."
        warnings.warn(text, InterruptedWarning, stacklevel=4)

    # ------------------------------------------------------------------ using a fit

    def transform(self, Y: ArrayLike) -> Floats:
        """Embed new rows given the learned columns.

        Each row's loadings are drawn repeatedly given `components_`; entries that are on in at
        least half of the draws get their mean, others 0. A row's result depends on its own
        cells only. A dask array gives a dask array, lazily.
        """
        return self._transform(Y)

    def _transform(self, Y: ArrayLike) -> Floats:
        """Embed new rows as an array, whatever `set_output` asks of `transform`."""
        check_is_fitted(self)
        if check.is_dask_array(Y):
            return self._lazily(DIBPNMF._transform, Y, self.n_components_)
        matrix = self._read(Y, reset=False)
        embedding = np.empty((matrix.shape[0], self.n_components_))
        # Apart, so that a row is embedded the same way whatever others lack.
        for rows in with_and_without_missing(matrix):
            observations = Observations.from_matrix(matrix[rows], self.zeros, scale=self._scale)
            draws = self._embed(observations)
            on = (draws > 0.0).mean(axis=0) >= 0.5
            embedding[rows] = np.where(on, draws.mean(axis=0), 0.0)
        return embedding

    def _lazily(self, method: Callable[[DIBPNMF, Any], Floats], Y: Any, n_out: int) -> Any:
        """Apply a method to the rows of a dask array, without sending the draws along."""
        from dibpnmf.cluster.lazy import map_rows

        light = copy.copy(self)
        X = self._chosen.loadings[1]
        light._chosen = replace(self._chosen, loadings=(np.empty((0, X.shape[1])), X))
        light._records, light._scalars, light._observed = [], {}, None
        del light.embedding_
        light.n_jobs, light.executor = 1, "serial"
        return map_rows(partial(method, light), Y, self.n_features_in_, n_out)

    def _embed(self, observations: Observations) -> Floats:
        likelihood = self._likelihood.at(self._chosen.noise).kernel(self._relative_epsilon)
        with threads_of(self) as n, executor_of(min(n, observations.shape[0])) as executor:
            return embed(
                executor, likelihood, observations, self._chosen.loadings[1],
                self._chosen.log_odds[0], self._chosen.slabs[0],
            )  # fmt: skip

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

    def iter_draws(self) -> Iterator[tuple[Floats, Floats]]:
        """Yield A (rows × columns in use or not) and X of every kept draw, chain after chain.

        In the units of Y, as `embedding_` and `components_` are: the mean is A Xᵀ + `epsilon_`.
        What is said of columns holds within a draw only; their order and number change.
        """
        for draw in self._draws():
            A, X = draw.unpack()
            yield A, X * self._scale

    def reconstruct(self) -> Floats:
        """Posterior mean of λ for every cell of the fitted matrix."""
        return prediction.mean_matrix(self._draws(), self._relative_epsilon) * self._scale

    def predict(
        self,
        rows: ArrayLike,
        cols: ArrayLike | None = None,
        interval: float | None = None,
        point: str = "mean",
        levels: ArrayLike | None = None,
    ) -> Floats | tuple[Floats, Floats, Floats]:
        """Predict single cells of the fitted matrix.

        Parameters
        ----------
        rows, cols : int or array of int, or names
            Cells, pairwise, by their indices or by the names of rows and columns that the fitted
            matrix had; a single one is repeated. Without ``cols``, ``rows`` is a dense
            matrix of new rows, and the mean of every one of their cells is returned. Dask arrays
            give dask arrays, lazily.
        interval : float in (0, 1), optional
            Also return an equal-tailed interval of the posterior predictive of y with this
            probability. It never reaches below zero. Where y has few values, as small counts
            or ``levels`` have, it covers more.
        point : {"mean", "median"}, default="mean"
            Mean of λ, which has the smallest squared error, or median of the posterior
            predictive of y, which has the smallest absolute error.
        levels : array of numbers, optional
            The only values that y can take, such as the ratings 1 to 5. What is predicted is
            then the nearest level: mean, median and interval are those of its distribution,
            the latter two always levels themselves.

        Returns
        -------
        point, or (point, lower, upper) : ndarray
        """
        check_is_fitted(self)
        check.one_of("point", point, ("mean", "median"))
        if cols is not None and (check.is_dask_array(rows) or check.is_dask_array(cols)):
            return self._predict_lazily(rows, cols, interval, point, levels)
        if interval is not None:
            check.real_number("interval", interval, 0.0, 1.0, "None or a number in (0, 1)")
        known = None if levels is None else check.levels("levels", levels)
        if cols is None:
            if interval is not None or point != "mean" or known is not None:
                raise ValueError(
                    "interval, point and levels go with rows and cols, the indices of single "
                    "cells; for new rows there is the mean only."
                )
            return self._predict_new(rows)
        i, j = check.cells(rows, cols, self._shape, (self.row_names_, self.column_names_))
        wanted = [] if point == "mean" else [0.5]
        if interval is not None:
            wanted += [0.5 - 0.5 * interval, 0.5 + 0.5 * interval]
        if known is None:
            predicted = self._predict_plain(i, j, point, wanted)
        else:
            predicted = self._predict_levels(i, j, point, wanted, known)
        return predicted[0] if interval is None else (predicted[0], predicted[1], predicted[2])

    def _predict_lazily(
        self, rows: Any, cols: Any, interval: Any, point: str, levels: ArrayLike | None
    ) -> Any:
        """Predict cells that are named by dask arrays."""
        from dibpnmf.cluster.lazy import map_cells

        self._draws()  # or an error now
        n_out = 1 if interval is None else 3
        options = {"interval": interval, "point": point, "levels": levels}
        lines = map_cells(partial(_predicted_lines, self, options), rows, cols, n_out)
        return lines[0] if interval is None else (lines[0], lines[1], lines[2])

    def _predict_plain(
        self, rows: Cells, columns: Cells, point: str, probabilities: list[float]
    ) -> list[Floats]:
        """Mean of λ if it is asked for, then quantiles of the predictive distribution."""
        draws, epsilon = self._draws(), self._relative_epsilon
        predicted = []
        if point == "mean":
            predicted = [prediction.mean_at(draws, rows, columns, epsilon) * self._scale]
        if probabilities:
            some = prediction.spread_evenly(len(draws))
            likelihood = self._likelihood.at(self._noise()[some])
            predicted += [
                self._likelihood.possible(line * self._scale)
                for line in prediction.quantiles_at(
                    likelihood, draws[some], rows, columns, epsilon, probabilities
                )
            ]
        return predicted

    def _predict_levels(
        self, rows: Cells, columns: Cells, point: str, probabilities: list[float], levels: Floats
    ) -> list[Floats]:
        """Mean if it is asked for, then quantiles, of the nearest level."""
        draws = self._draws()
        some = prediction.spread_evenly(len(draws))
        cumulative = prediction.level_probabilities_at(
            self._likelihood.at(self._noise()[some]), draws[some], rows, columns,
            self._relative_epsilon, levels / self._scale,
        )  # fmt: skip
        predicted = [prediction.level_mean(cumulative, levels)] if point == "mean" else []
        return predicted + [prediction.level_quantile(cumulative, levels, q) for q in probabilities]

    def _predict_new(self, Y: ArrayLike) -> Floats:
        """Mean of every cell of new rows."""
        if sp.issparse(Y):
            raise TypeError(
                "predict without cols takes a dense matrix of new rows, not a sparse one: its "
                "result has every cell. Name cells of the fitted matrix with rows and cols."
            )
        if check.is_dask_array(Y):
            return self._lazily(DIBPNMF._predict_new, Y, self.n_features_in_)
        return self._transform(Y) @ self.components_ + self.epsilon_

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
        epsilon = self._relative_epsilon
        if self._is_held_out(observations):
            draws, likelihood = self._draws(), self._likelihood.at(self._noise())
            total, n = scoring.score_cells(likelihood, draws, observations, epsilon)
        else:
            blocks = scoring.dense_blocks(matrix, self.zeros, self._scale)
            X = self._chosen.loadings[1]
            likelihood = self._likelihood.at(self._chosen.noise)
            total, n = scoring.score_rows(likelihood, blocks, self._embed_scaled, X, epsilon)
        return float(total / n - self._likelihood.log_unit(self._scale))

    def _is_held_out(self, observations: Observations) -> bool:
        if self._observed is None or observations.is_complete:
            return False
        return observations.shape == self._shape and scoring.share_no_cell(
            self._observed, observations
        )

    def _embed_scaled(self, rows: Floats) -> Floats:
        """Draw the loadings of dense rows in units of the fitted mean."""
        return self._embed(Observations.from_matrix(rows, self.zeros, scale=1.0))

    def posterior_similarity(
        self, rows: ArrayLike | None = None, *, Y: ArrayLike | None = None
    ) -> Floats:
        """How alike rows are, from 0 to 1, averaged over draws and chains.

        Averaged over 100 draws or a few more, evenly spread, if there are so many.

        Parameters
        ----------
        rows : array-like of int, optional
            Rows to compare, by default all.
        Y : array-like or sparse matrix, optional
            The matrix that was fitted, or the same in other weights (tf-idf of fitted counts).
            Without it, rows are compared by what the model says of them: the cosine of rows of
            AXᵀ. With it, by what is in them: each row is correlated with the profile of every
            factor, the mean of the rows that use it, and rows with the same correlations are
            alike. This sees columns that a sparse factor leaves out, as it does with most words,
            and is the better guide to groups of documents.

        Returns
        -------
        similarity : ndarray of shape (n_rows, n_rows)
        """
        draws = self._draws()
        some = draws[prediction.spread_evenly(len(draws), similarity.ENOUGH_DRAWS)]
        index = np.arange(self._shape[0])
        if rows is not None:
            index = check.cell_indices("rows", rows, self._shape[0], self.row_names_)
        sides = (draw.unpack() for draw in some)
        if Y is None:
            return similarity.similarity_of_means(sides, index)
        check.not_elsewhere(Y, "This")
        matrix = check.matrix(self, Y, reset=False, largest=_LARGEST)
        if matrix.shape[0] != self._shape[0]:
            raise ValueError(
                f"Y must be the matrix that was fitted, with {self._shape[0]} rows; this one has "
                f"{matrix.shape[0]}."
            )
        deviations = similarity.Deviations.of(Observations.from_matrix(matrix, self.zeros))
        return similarity.similarity_by_profiles(sides, deviations, index)

    def consensus_clusters(
        self, n_clusters: int | None = None, *, Y: ArrayLike | None = None
    ) -> NDArray[np.int64]:
        """Cluster the rows by `posterior_similarity`, averaged over all draws and chains.

        Parameters
        ----------
        n_clusters : int, optional
            By default the number before the largest gap between the eigenvalues of the
            normalised similarity, from 2 to 30.
        Y : array-like or sparse matrix, optional
            The matrix that was fitted, or the same in other weights, for the similarity by the
            factors' profiles: see `posterior_similarity`. Recommended for documents.

        Returns
        -------
        labels : ndarray of int
            From 0, the largest cluster, up.
        """
        check_is_fitted(self)
        if n_clusters is not None:
            check.whole_number("n_clusters", n_clusters, 1)
            if n_clusters > self._shape[0]:
                raise ValueError(
                    f"n_clusters must be at most the number of rows, {self._shape[0]}; "
                    f"got {n_clusters}."
                )
        alike = self.posterior_similarity(Y=Y)
        return clustering.consensus(alike, n_clusters, seed=0, uneven=Y is None)

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

    def _noise(self) -> Floats:
        """The likelihood's own parameters in every kept draw, one row a draw."""
        return np.array([noise for record in self._records for noise in record.noise])

    # ------------------------------------------------------------------ scikit-learn

    @property
    def _n_features_out(self) -> int:
        return self.n_components_

    def __getstate__(self) -> dict[str, Any]:
        """A Dask client stays behind: it is a connection of this process."""
        state: dict[str, Any] = super().__getstate__()
        return state if isinstance(self.executor, str) else {**state, "executor": "dask"}

    def __sklearn_clone__(self) -> Self:
        """Clone as any estimator, sharing a Dask client: it cannot be copied."""
        twin: Self = BaseEstimator.__sklearn_clone__(copy.copy(self))
        return twin.set_params(executor=self.executor)

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "_records")

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.positive_only = True
        tags.input_tags.sparse = True
        tags.input_tags.allow_nan = True
        tags.transformer_tags.preserves_dtype = ["float64"]
        return tags
