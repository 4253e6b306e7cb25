"""Draws kept compactly, and what is read off them: point estimate, alignment, ArviZ layout."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.optimize import linear_sum_assignment

from dibpnmf.inference.chain import is_truncated
from dibpnmf.inference.gibbs import Info, State
from dibpnmf.inference.labels import relabel
from dibpnmf.loadings.base import LoadingsPrior
from dibpnmf.loadings.exponential import Shared
from dibpnmf.priors.base import Prior

if TYPE_CHECKING:
    import xarray

Floats = NDArray[np.float64]
Ints = NDArray[np.intp]
Sides = tuple[Floats, Floats]

# Draws that are aligned at a time, at most, and the number of their entries.
_TOGETHER, _ENTRIES = 64, 200_000
_MATCH = 0.5  # cosine on both sides from which a factor of another draw is the same one


@dataclass(frozen=True)
class CompactDraw:
    """The on-entries of A and X of one draw."""

    shape: tuple[int, int]
    K: int
    index: tuple[NDArray[np.integer], NDArray[np.integer]]
    values: Sides

    @classmethod
    def pack(cls, loadings: Sides) -> CompactDraw:
        """Keep the on-entries only."""
        # Of truth values in a third of the time.
        index = [np.flatnonzero(side > 0.0) for side in loadings]
        values = [side.ravel()[at] for side, at in zip(loadings, index, strict=True)]
        K = loadings[0].shape[1]
        small: list[NDArray[np.integer]] = [
            at.astype(np.int32) if side.size < 2**31 else at
            for at, side in zip(index, loadings, strict=True)
        ]
        shape = (loadings[0].shape[0], loadings[1].shape[0])
        return cls(shape, K, (small[0], small[1]), (values[0], values[1]))

    def unpack(self) -> Sides:
        """Dense A (M×K) and X (N×K)."""
        sides = []
        for n, at, values in zip(self.shape, self.index, self.values, strict=True):
            side = np.zeros(n * self.K)
            side[at] = values
            sides.append(side.reshape(n, self.K))
        return sides[0], sides[1]


def shares(sums: Floats) -> Floats:
    """Share of each column in the total of λ − ε, from the columns' sums (2, K)."""
    carried = sums[0] * sums[1]
    total = carried.sum()
    return carried / total if total > 0.0 else carried


def count_effective(share: Floats, min_share: float) -> int:
    """Factors that carry something, and at least ``min_share`` of the total."""
    return int(np.count_nonzero((share >= min_share) & (share > 0.0)))


@dataclass
class ChainRecord:
    """Takes the draws of one chain: scalars always, loadings compactly if they are kept.

    Without draws it keeps, of every effective K met, the draw with the largest likelihood, and
    the running sums of factors aligned with the first draw.
    """

    prior: Prior[Any]
    min_share: float
    keep_draws: bool
    loadings: LoadingsPrior = field(default_factory=Shared)
    log_likelihood: list[float] = field(default_factory=list)
    n_active: list[int] = field(default_factory=list)
    n_components: list[int] = field(default_factory=list)
    truncated: list[bool] = field(default_factory=list)
    acceptance: list[float] = field(default_factory=list)
    theta: list[Floats] = field(default_factory=list)
    tau: list[Floats] = field(default_factory=list)
    noise: list[Floats] = field(default_factory=list)
    log_odds: list[Floats] = field(default_factory=list)
    draws: list[CompactDraw] = field(default_factory=list)
    best: dict[int, tuple[int, CompactDraw]] = field(default_factory=dict)
    aligned: Alignment | None = None

    def record(self, state: State, info: Info) -> None:
        """Keep what is to be kept of a draw."""
        K = count_effective(shares(info.sums), self.min_share)
        self.log_likelihood.append(info.log_likelihood)
        self.n_active.append(info.n_active)
        self.n_components.append(K)
        self.truncated.append(is_truncated(info.counts))
        self.acceptance.append(info.acceptance)
        self.theta.append(state.prior.theta.copy())
        self.tau.append(state.tau.copy())
        self.noise.append(state.noise.copy())
        self.log_odds.append(self.prior.log_odds(state.prior))
        if self.keep_draws:
            self.draws.append(CompactDraw.pack(state.loadings))
        else:
            self._summarise(state, K)

    def _summarise(self, state: State, K: int) -> None:
        at = len(self.log_likelihood) - 1
        known, packed = self.best.get(K), CompactDraw.pack(state.loadings)
        if known is None or self.log_likelihood[at] > self.log_likelihood[known[0]]:
            self.best[K] = (at, packed)
        if self.aligned is None:
            self.aligned = Alignment(state.loadings)
        self.aligned.add([packed])

    def __len__(self) -> int:
        return len(self.log_likelihood)


class Alignment:
    """Mean and inclusion of a reference draw's columns over other draws.

    A column of a draw is the same factor as a reference column when the assignment that
    maximises the product of the two sides' cosines pairs them with at least ``_MATCH`` on both
    sides. A reference column without a partner counts as absent from that draw. Scales are
    those of the reference: a matched X_k is multiplied by ΣA_k over the reference's ΣA_k.
    """

    def __init__(self, reference: Sides) -> None:
        self.totals = np.maximum(reference[0].sum(axis=0), 1e-300)
        # Only for telling factors apart: half the memory is enough.
        self._units = tuple(unit_columns(side).astype(np.float32) for side in reference)
        self.mean = np.zeros(reference[1].shape)
        self.inclusion = np.zeros(reference[1].shape, np.float32)
        self.n = 0

    def add(self, draws: Sequence[CompactDraw]) -> None:
        """Add draws of one truncation, together: most of their entries are off."""
        X = _columns(draws, 1)
        cosines = [_unit(X) @ self._units[1]]
        A = _columns(draws, 0)
        totals = np.asarray(A.sum(axis=1))
        cosines.append(_unit(A) @ self._units[0])
        del A
        shape = len(draws), draws[0].K, self.totals.size
        at, own = same_factors([part.reshape(shape) for part in cosines])
        into = sp.csr_array(
            (totals[at] / self.totals[own], (own, at)), shape=(self.totals.size, totals.size)
        )
        # By place: `+=` of a sparse matrix would make a new array, of another type.
        part = (into @ X).tocoo()
        self.mean[part.col, part.row] += part.data
        into.data[:], X.data[:] = 1.0, 1.0
        part = (into @ X).tocoo()
        self.inclusion[part.col, part.row] += part.data
        self.n += len(draws)

    def merge(self, part: Alignment) -> None:
        """Add the draws of another alignment, its reference's columns matched with these."""
        cosines = [(b.T @ a)[None] for a, b in zip(self._units, part._units, strict=True)]
        for other, own in zip(*same_factors(cosines), strict=True):
            self.mean[:, own] += part.mean[:, other] * (part.totals[other] / self.totals[own])
            self.inclusion[:, own] += part.inclusion[:, other]
        self.n += part.n


def same_factors(cosines: Sequence[NDArray[np.floating]]) -> tuple[Ints, Ints]:
    """Columns of draws, counted through all of them, and the reference columns that they are.

    From the two sides' cosines (draw, column, reference column).
    """
    n, K, rank = cosines[0].shape
    if 0 in (n, K, rank):
        return np.empty(0, np.intp), np.empty(0, np.intp)
    pairs = [linear_sum_assignment(part) for part in -cosines[0] * cosines[1]]
    other, own = (np.concatenate(columns) for columns in zip(*pairs, strict=True))
    draw = np.repeat(np.arange(n), min(K, rank))
    same = np.minimum(cosines[0], cosines[1])[draw, other, own] >= _MATCH
    return (draw * K + other)[same], own[same]


def _columns(draws: Sequence[CompactDraw], t: int) -> sp.csr_array:
    """Columns of the loadings of side t, those of all draws one after the other, as lines."""
    K = draws[0].K
    row, column = np.divmod(np.concatenate([draw.index[t] for draw in draws]), K)
    column += np.repeat(np.arange(len(draws)) * K, [draw.index[t].size for draw in draws])
    values = np.concatenate([draw.values[t] for draw in draws])
    return sp.coo_array((values, (column, row)), (len(draws) * K, draws[0].shape[t])).tocsr()


def _unit(side: sp.csr_array) -> sp.csr_array:
    """Lines of length one, as `unit_columns` makes columns, as precise as a reference is."""
    size = np.diff(side.indptr)
    used = size > 0
    size, starts = size[used], side.indptr[:-1][used]
    largest = side.max(axis=1).toarray().ravel()[used]
    data = side.data / np.repeat(largest, size)  # so that no square overflows
    data /= np.repeat(np.sqrt(np.add.reduceat(data * data, starts)), size)
    return sp.csr_array((data.astype(np.float32), side.indices, side.indptr), side.shape)


def unit_columns(side: NDArray[np.floating]) -> NDArray[np.floating]:
    """Nonnegative columns of length one; those of zeros stay."""
    largest = side.max(axis=0, initial=0.0)
    side = side / np.where(largest > 0.0, largest, 1.0)  # so that no square overflows
    norms = np.sqrt(np.einsum("ik,ik->k", side, side))  # makes no square of the whole
    side /= np.maximum(norms, 1.0)  # they are 0, or 1 at least
    return side


@dataclass(frozen=True)
class Chosen:
    """The point estimate: one draw's columns that matter, sorted by share."""

    chain: int
    draw: int
    loadings: Sides
    shares: Floats  # of the total of all the draw's columns
    log_odds: Floats
    slabs: Floats  # of the loadings' prior
    noise: Floats  # of the likelihood


def long_enough(records: Sequence[ChainRecord]) -> list[ChainRecord]:
    """Chains of an interrupted run with at least half as many draws as the longest.

    Shorter ones, most of them still waiting for a thread, would cut the others short.
    """
    longest = max(len(record) for record in records)
    return [record for record in records if len(record) and 2 * len(record) >= longest]


def frequencies(values: Iterable[int]) -> dict[int, float]:
    """Share of each value, in increasing order of the values."""
    found, counts = np.unique(list(values), return_counts=True)
    return dict(zip(found.tolist(), (counts / counts.sum()).tolist(), strict=True))


def posterior_mode(values: Iterable[int]) -> int:
    """Most frequent value; of equals the smallest."""
    share = frequencies(values)
    return max(share, key=lambda value: share[value])


def choose(records: Sequence[ChainRecord], keep_all: bool) -> Chosen:
    """Choose the draw with the largest likelihood among those at the mode of the effective K.

    ``keep_all`` keeps every column, in use or not (a fixed number of components).
    """
    mode = posterior_mode(K for record in records for K in record.n_components)
    candidates = [
        (record.log_likelihood[at], c, at)
        for c, record in enumerate(records)
        for at in range(len(record))
        if record.n_components[at] == mode
    ]
    _, c, at = max(candidates, key=lambda item: (item[0], -item[1], -item[2]))
    record = records[c]
    packed = record.draws[at] if record.keep_draws else record.best[mode][1]
    A, X = packed.unpack()
    share = shares(np.stack([A.sum(axis=0), X.sum(axis=0)]))
    order = np.argsort(-share, kind="stable")
    for side in (A, X):
        relabel(side, np.ones(order.size), order)
    if not keep_all:
        order = order[:mode]
        A, X = A[:, :mode].copy(), X[:, :mode].copy()
    log_odds = record.log_odds[at][:, order]
    slabs = record.loadings.slabs(record.tau[at], packed.K)[:, order]
    return Chosen(
        c, at, (A, X), share[order], log_odds, np.ascontiguousarray(slabs), record.noise[at]
    )


def align(records: Sequence[ChainRecord], chosen: Chosen) -> tuple[Floats, Floats]:
    """Posterior mean of the chosen columns of X, and their inclusion probabilities.

    The running sums of records without draws are used up: each is as large as X twice over.
    """
    total = Alignment(chosen.loadings)
    for record in records:
        if record.keep_draws:
            size = sum(values.size for values in record.draws[0].values)
            at_once = max(1, min(_TOGETHER, _ENTRIES // max(size, 1)))
            for start in range(0, len(record.draws), at_once):
                total.add(record.draws[start : start + at_once])
        elif record.aligned is not None:
            total.merge(record.aligned)
            record.aligned = None
    total.mean /= total.n
    return total.mean, total.inclusion / np.float64(total.n)


def stack_scalars(
    records: Sequence[ChainRecord], prior: Prior[Any], noise_names: Sequence[str] = ()
) -> dict[str, Floats]:
    """Label-free scalars by name, each (chain, draw), cut to the shortest chain."""
    n = min(len(record) for record in records)
    table = {
        "log_likelihood": [record.log_likelihood[:n] for record in records],
        "n_active": [record.n_active[:n] for record in records],
        "n_components": [record.n_components[:n] for record in records],
        "acceptance": [record.acceptance[:n] for record in records],
    }
    scalars: dict[str, Floats] = {name: np.array(values) for name, values in table.items()}
    theta = np.array([record.theta[:n] for record in records])
    for position, name in enumerate(prior.theta_names):
        scalars[name] = theta[..., position]
    loadings = [record.loadings.scalars(np.array(record.tau[:n])) for record in records]
    scalars |= {name: np.stack([table[name] for table in loadings]) for name in loadings[0]}
    for position, name in enumerate(noise_names):
        scalars[name] = np.array(
            [[noise[position] for noise in record.noise[:n]] for record in records]
        )
    return scalars


def to_datatree(
    records: Sequence[ChainRecord],
    scalars: dict[str, Floats],
    observed: dict[str, Any],
    max_bytes: float = 2e8,
) -> xarray.DataTree:
    """Build an ArviZ DataTree: posterior (θ, τ, noise, A, X), sample_stats, observed-data facts.

    A and X are padded to the largest truncation, X in the units of Y as `components_` is, and
    left out where that would take more than ``max_bytes`` (``attrs["loadings"]`` says so).
    τ and κ belong to data in units of their mean.
    """
    import xarray as xr

    statistics = ("log_likelihood", "n_active", "n_components", "acceptance")
    n_chains, n_draws = scalars["log_likelihood"].shape
    axes = ("chain", "draw")
    coords = {"chain": np.arange(n_chains), "draw": np.arange(n_draws)}
    posterior = {name: (axes, values) for name, values in scalars.items() if name not in statistics}
    variables: dict[str, Any] = dict(posterior)
    note = "not kept (keep_draws=False)"
    if all(len(record.draws) >= n_draws for record in records):
        M, N = records[0].draws[0].shape
        K = max(draw.K for record in records for draw in record.draws)
        note = "left out: too large; iterate over iter_draws() of the model instead"
        if 8.0 * n_chains * n_draws * (M + N) * K <= max_bytes:
            note = "A (row × component), X (column × component) in units of Y; zero where off"
            A, X = _padded(records, n_draws, K)
            X *= observed["mean"]
            variables["A"] = ((*axes, "row", "component"), A)
            variables["X"] = ((*axes, "column", "component"), X)
    stats = {name: (axes, values) for name, values in scalars.items()}
    return xr.DataTree.from_dict(
        {
            "posterior": xr.Dataset(variables, coords, attrs={"loadings": note}),
            "sample_stats": xr.Dataset(stats, coords),
            "observed_data": xr.Dataset(attrs=observed),
        }
    )


def _padded(records: Sequence[ChainRecord], n_draws: int, K: int) -> Sides:
    M, N = records[0].draws[0].shape
    sides = (np.zeros((len(records), n_draws, M, K)), np.zeros((len(records), n_draws, N, K)))
    for c, record in enumerate(records):
        for d, draw in enumerate(record.draws[:n_draws]):
            for side, values in zip(sides, draw.unpack(), strict=True):
                side[c, d, :, : draw.K] = values
    return sides
