"""Row kernels against their twins: bookkeeping, conditionals, and the literal scheme's draws."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dibpnmf.inference.chain import SCHEMES
from dibpnmf.inference.executors import Serial
from dibpnmf.inference.gibbs import Problem, State
from dibpnmf.likelihoods import LIKELIHOODS
from dibpnmf.likelihoods.lists import LANES, list_entries
from dibpnmf.likelihoods.literal_rows import update_loadings_literal, update_masks_literal
from dibpnmf.likelihoods.rows import (
    FRESH,
    HELD,
    log_ratio,
    put_entry,
    row_log_likelihood,
    update_rows,
)
from dibpnmf.likelihoods.supports import first_hit, is_full
from dibpnmf.loadings import Shared
from dibpnmf.model import Model
from dibpnmf.priors import PRIORS
from dibpnmf.random import ROW_LOADINGS, ROWS, START, exponential, stream, uniform

from . import formulas
from .problems import SMALL, make_small, opened, taken

FIXED = settings(derandomize=True, deadline=None, max_examples=60)
SEED = 11


def slabs_of(tau, K):
    return Shared().slabs(np.full(2, tau), K)[0]


def reference_log_density(small):
    """The page's own formula where it has one; else the likelihood's plain density."""
    return formulas.LOG_DENSITIES.get(small.likelihood.name, small.likelihood.log_density)


def stored_cells(small, i):
    """Cells of row i that the library stores."""
    seen = small.Y != 0.0 if small.observations.is_complete else small.observed
    return np.flatnonzero(seen[i])


def assert_row_is_kept(small, row, i, a) -> None:
    """Whatever a likelihood keeps of row i while it is open, if its loadings are a."""
    mean = small.X @ a + small.epsilon
    left = np.where(small.observed[i], small.Y[i] - mean, 0.0)
    name, complete = small.likelihood.name, small.observations.is_complete
    # The Gaussian adds and subtracts without care: errors are those of the largest part.
    largest = max(np.abs(small.Y[i]).max(), mean.max(), (small.A * small.X.max()).max())
    if name == "gaussian" and complete:
        scale = 1e-12 * largest * (1.0 + small.X.sum(axis=0))
        assert np.all(np.abs(row.totals[:-1] - small.X.T @ left) <= scale)
        rounding = 1e-12 * left.size * largest**2
        assert row.totals[-1] == pytest.approx(np.sum(left**2), rel=1e-9, abs=rounding)
        return
    if name == "poisson":
        observed = small.observed[i][:, None]
        np.testing.assert_allclose(row.totals[:-1], (small.X * observed).sum(axis=0), rtol=1e-12)
        total = np.sum(mean[small.observed[i]])
        assert row.totals[-1] == pytest.approx(total, rel=1e-9, abs=1e-12 * largest)
    stored = stored_cells(small, i)
    if name == "gaussian":
        kept = row.y[: stored.size]
        np.testing.assert_allclose(kept, left[stored], rtol=1e-9, atol=1e-12 * largest)
        return
    local = mean if name == "exponential" and complete else mean[stored]
    np.testing.assert_allclose(row.mean[: local.size], local, rtol=1e-9)


@FIXED
@given(small=SMALL)
def test_density_is_the_page_s(small):
    mean = small.A @ small.X.T + small.epsilon
    expected = reference_log_density(small)(small.Y, mean)
    np.testing.assert_allclose(small.likelihood.log_density(small.Y, mean), expected, rtol=1e-12)


def test_rows_that_fill_their_lanes_are_listed():
    """One more entry that is off has no place left, and takes none from the row that follows."""
    X = np.zeros((3, LANES + 2))
    X[:, :LANES] = np.arange(1.0, 3.0 * LANES + 1.0).reshape(3, LANES)
    X[1, 0] = 0.0
    lists = list_entries(X, True)
    np.testing.assert_array_equal(lists.row_ptr, LANES * np.arange(4))
    assert lists.row_columns.size == lists.row_values.size == 3 * LANES
    for n in range(3):
        at = slice(lists.row_ptr[n], lists.row_stop[n])
        np.testing.assert_array_equal(lists.row_columns[at], np.flatnonzero(X[n]))
        np.testing.assert_array_equal(lists.row_values[at], X[n][X[n] > 0.0])
    assert lists.row_values[lists.row_stop[1] : lists.row_ptr[2]].sum() == 0.0


@FIXED
@given(small=SMALL)
def test_list_entries(small):
    lists = list_entries(small.X, True)
    N, K = small.X.shape
    by_column, by_row = np.zeros((N, K)), np.zeros((N, K))
    for k in range(K):
        part = slice(lists.column_ptr[k], lists.column_ptr[k + 1])
        by_column[lists.column_rows[part], k] = lists.column_values[part]
    for n in range(N):
        part = slice(lists.row_ptr[n], lists.row_stop[n])
        by_row[n, lists.row_columns[part]] = lists.row_values[part]
        assert 0 <= lists.row_ptr[n + 1] - lists.row_stop[n] < LANES
        assert np.all(lists.row_values[lists.row_stop[n] : lists.row_ptr[n + 1]] == 0.0)
    np.testing.assert_array_equal(by_column, small.X)
    np.testing.assert_array_equal(by_row, small.X)
    np.testing.assert_allclose(lists.sums, small.X.sum(axis=0), rtol=1e-12)
    np.testing.assert_allclose(lists.gram, small.X.T @ small.X, rtol=1e-12)
    assert np.all(lists.row_ptr % LANES == 0)
    assert np.all(lists.row_columns < K)
    assert lists.column_ptr[-1] == np.count_nonzero(small.X)


@FIXED
@given(small=SMALL)
def test_lists_without_columns_tell_which_are_in_use(small):
    lists = list_entries(small.X, False)
    np.testing.assert_array_equal(np.diff(lists.column_ptr), np.count_nonzero(small.X, axis=0))
    assert lists.column_rows.size == lists.column_values.size == 0


@pytest.mark.parametrize("complete", [True, False])
@pytest.mark.parametrize("likelihood", sorted(LIKELIHOODS))
def test_columns_that_the_other_side_does_not_use_are_left_alone(likelihood, complete):
    """`inference.unseen` draws them; all others move."""
    small = make_small(likelihood, 3, complete, 0.5, (6, 8), 4)
    small.X[:, 1] = 0.0
    small.A[:] = 1.0
    data, A, out = small.observations, small.A.copy(), np.empty((6, 3))
    lists = list_entries(small.X, complete)
    for sweep in range(FRESH + 10):
        update_rows(
            small.kernel, 0, 6, data.side(0), complete, A, small.X, lists, np.zeros(4),
            slabs_of(1.0, 4), np.uint64(SEED), 0, sweep, ROWS, out,
        )  # fmt: skip
    np.testing.assert_array_equal(A[:, 1], 1.0)
    assert np.all(A[:, [0, 2, 3]] != 1.0)


@FIXED
@given(small=SMALL)
def test_open_row(small):
    """What is kept of the row, and the stored cells that each column reaches."""
    for i in range(small.A.shape[0]):
        row, _ = opened(small, i)
        assert_row_is_kept(small, row, i, small.A[i])
        kept = stored_cells(small, i)
        assert row.stored[0] == kept.size
        if small.likelihood.name == "gaussian":
            if not small.observations.is_complete:  # x of the stored cells, zeros included
                K = small.X.shape[1]
                gathered = row.hit_x[: K * kept.size].reshape(K, kept.size)
                np.testing.assert_array_equal(gathered, small.X[kept].T)
            continue
        np.testing.assert_array_equal(row.column[: kept.size], kept)
        # Local cells: of the exponential likelihood of complete data all of them.
        complete = small.observations.is_complete and small.likelihood.name == "exponential"
        local = kept if complete else np.arange(kept.size)
        np.testing.assert_array_equal(row.y[local], small.Y[i, kept])
        if is_full(row, complete):
            continue  # the columns' lists serve
        for k in range(small.X.shape[1]):
            part = slice(first_hit(row, k), row.hit_end[k])
            reached = kept[small.X[kept, k] > 0.0]
            np.testing.assert_array_equal(row.hit[part], local[small.X[kept, k] > 0.0])
            np.testing.assert_array_equal(row.hit_x[part], small.X[reached, k])


@FIXED
@given(small=SMALL, v=st.floats(1e-6, 50.0))
def test_log_ratio(small, v):
    """Eq. (19) over the support equals the whole row's likelihood, whatever is taken out."""
    log_density = reference_log_density(small)
    for i in range(small.A.shape[0]):
        for k in range(small.X.shape[1]):
            entry, _, _ = taken(small, i, k)
            expected = formulas.entry_log_ratio(
                log_density, small.Y, small.observed, small.A, small.X, small.epsilon, i, k, v
            )
            scale = np.abs(log_density(small.Y, np.full(small.Y.shape, small.epsilon))).sum()
            got = log_ratio(small.kernel, entry.support, entry.m, entry.c, entry.level, v)
            assert got == pytest.approx(expected, rel=1e-8, abs=1e-10 * max(1.0, scale))


@FIXED
@given(small=SMALL, v=st.floats(0.0, 50.0))
def test_put_entry_leaves_no_stale_mean(small, v):
    """After an entry is replaced, λ and the row's likelihood are those of the new row."""
    for i in range(small.A.shape[0]):
        for k in range(small.X.shape[1]):
            entry, row, lists = taken(small, i, k)
            complete = small.observations.is_complete
            put_entry(small.kernel, row, entry, complete, lists, k, v)
            changed = small.A.copy()
            changed[i, k] = v
            mean = changed[i] @ small.X.T + small.epsilon
            cells = small.observed[i]
            expected = np.sum(reference_log_density(small)(small.Y[i], mean)[cells])
            got = row_log_likelihood(small.kernel, row, complete, small.X)
            assert got == pytest.approx(expected, rel=1e-8, abs=1e-9)
            assert_row_is_kept(small, row, i, changed[i])


@FIXED
@given(small=SMALL, tau=st.floats(0.3, 3.0))
def test_update_masks_literal(small, tau):
    """Eq. (20) through the same stream to equality."""
    M, K = small.A.shape
    data = small.observations
    V = np.where(small.A > 0.0, small.A, 0.7 / tau)
    log_odds = np.linspace(-1.0, 1.0, K)
    got = small.A.copy()
    update_masks_literal(
        small.kernel, 0, M, data.side(0), data.is_complete, got, V, small.X,
        list_entries(small.X, True), log_odds, np.uint64(SEED), 2, 3, ROWS,
    )  # fmt: skip
    expected = small.A.copy()
    for i in range(M):
        s = stream(SEED, 2, 3, ROWS, i)
        for k in range(K):
            u = uniform(s)
            gain = formulas.entry_log_ratio(
                reference_log_density(small), small.Y, small.observed, expected, small.X,
                small.epsilon, i, k, V[i, k],
            )  # fmt: skip
            on = math.log(u / (1.0 - u)) < log_odds[k] + gain
            expected[i, k] = V[i, k] if on else 0.0
    np.testing.assert_array_equal(got, expected)


def slice_in_log_v(s, log_density, v):
    """Step out by one in log v on either side, then shrink, Eq. (21)."""
    x = math.log(v)
    level = log_density(x) - exponential(s)
    left = x - uniform(s)
    right = left + 1.0
    while log_density(left) > level:
        left -= 1.0
    while log_density(right) > level:
        right += 1.0
    while True:
        trial = left + uniform(s) * (right - left)
        if log_density(trial) > level:
            return math.exp(trial)
        left, right = (trial, right) if trial < x else (left, trial)


@FIXED
@given(small=SMALL, tau=st.floats(0.3, 3.0))
def test_update_loadings_literal(small, tau):
    """Eq. (21) through the same stream to equality; off entries are drawn from their prior."""
    M, K = small.A.shape
    data = small.observations
    got, V, out = small.A.copy(), np.where(small.A > 0.0, small.A, 1.0), np.empty((M, 3))
    update_loadings_literal(
        small.kernel, 0, M, data.side(0), data.is_complete, got, V, small.X,
        list_entries(small.X, True), slabs_of(tau, K), np.uint64(SEED), 2, 3, ROW_LOADINGS, out,
    )  # fmt: skip
    expected, kept = small.A.copy(), V.copy()
    for i in range(M):
        s = stream(SEED, 2, 3, ROW_LOADINGS, i)
        for k in range(K):
            if expected[i, k] == 0.0:
                kept[i, k] = exponential(s) / tau
                continue

            def log_density(x, i=i, k=k):
                gain = formulas.entry_log_ratio(
                    reference_log_density(small), small.Y, small.observed, expected, small.X,
                    small.epsilon, i, k, math.exp(x),
                )  # fmt: skip
                return x - tau * math.exp(x) + gain

            kept[i, k] = expected[i, k] = slice_in_log_v(s, log_density, expected[i, k])
    np.testing.assert_allclose(got, expected, rtol=1e-9)
    np.testing.assert_allclose(V, kept, rtol=1e-9)


@FIXED
@given(small=SMALL, tau=st.floats(0.3, 3.0))
def test_update_rows_reports_the_row_it_leaves(small, tau):
    M, K = small.A.shape
    data = small.observations
    A, out = small.A.copy(), np.empty((M, 3))
    update_rows(
        small.kernel, 0, M, data.side(0), data.is_complete, A, small.X, list_entries(small.X, True),
        np.linspace(-1.0, 1.0, K), slabs_of(tau, K), np.uint64(SEED), 2, 3, ROWS, out,
    )  # fmt: skip
    mean = A @ small.X.T + small.epsilon
    rows = np.where(small.observed, reference_log_density(small)(small.Y, mean), 0.0).sum(axis=1)
    np.testing.assert_allclose(out[:, 0], rows, rtol=1e-8, atol=1e-9)
    assert np.all(out[:, 2] <= out[:, 1])
    assert np.all(A >= 0.0)


def sweep_held(small, A, lists, sweep, seed=SEED):
    """One update of the rows with their masks held."""
    data, (M, K) = small.observations, A.shape
    update_rows(
        small.kernel, 0, M, data.side(0), data.is_complete, A, small.X, lists,
        np.full(K, HELD), slabs_of(1.0, K), np.uint64(seed), 2, sweep, ROWS, np.empty((M, 3)),
    )  # fmt: skip


@FIXED
@given(small=SMALL)
def test_masks_are_held(small):
    lists = list_entries(small.X, small.observations.is_complete)
    A = small.A.copy()
    for sweep in (*range(3), *range(FRESH, FRESH + 100)):
        sweep_held(small, A, lists, sweep)
    np.testing.assert_array_equal(A > 0.0, small.A > 0.0)
    assert np.all(np.isfinite(A))


@pytest.mark.parametrize("local", [False, True])
@pytest.mark.parametrize("complete", [True, False])
@pytest.mark.parametrize("likelihood", sorted(LIKELIHOODS))
def test_loadings_with_masks_held_have_the_law_of_the_literal_scheme(likelihood, complete, local):
    """Means and mean logs of 8,000 draws of Eq. (21), afresh and by the moves of later sweeps.

    The bookkeeping of λ is one, and the latter are slices, too; laws by themselves are tested in
    test_grid_proposal.py.
    """
    small = make_small(likelihood, 5, complete, 0.5, (4, 5), 3)
    small = small._replace(A=np.where(small.A > 0.0, 1.0, 0.0))
    M, K = small.A.shape
    data, n = small.observations, 8000
    lists = list_entries(small.X, True)
    held, sliced, V = small.A.copy(), small.A.copy(), np.ones((M, K))
    draws = np.empty((2, n, M, K))
    for sweep in range(n):
        sweep_held(small, held, lists, FRESH if local else 0, seed=sweep)
        update_loadings_literal(
            small.kernel, 0, M, data.side(0), data.is_complete, sliced, V, small.X,
            lists, slabs_of(1.0, K), np.uint64(SEED), 2, sweep, ROW_LOADINGS, np.empty((M, 3)),
        )  # fmt: skip
        draws[:, sweep] = held, sliced
    on = small.A > 0.0
    assert on.any()
    for values in (draws[..., on], np.log(draws[..., on])):
        batches = values.reshape(2, 40, n // 40, -1).mean(axis=2)
        error = np.sqrt((batches.var(axis=1, ddof=1) / 40).sum(axis=0))
        assert np.all(np.abs(np.diff(batches.mean(axis=1), axis=0)[0]) < 4.5 * error)


@pytest.mark.parametrize("scheme", sorted(SCHEMES))
@pytest.mark.parametrize("prior", sorted(PRIORS))
@FIXED
@given(small=SMALL)
def test_sweep_reports_the_state_it_leaves(scheme, prior, small):
    model = Model(PRIORS[prior](), small.likelihood, small.epsilon)
    problem = Problem(small.observations, model.prior, small.kernel, SEED, 0, Serial())
    draw = model.simulate(stream(SEED, 0, 0, START), small.Y.shape, small.A.shape[1])
    state = State((small.A.copy(), small.X.copy()), draw.prior, draw.tau, noise=draw.noise)
    for sweep in range(3):
        state, info = SCHEMES[scheme](problem, state, sweep)
    A, X = state.loadings
    plain = reference_log_density(small)

    def log_density(y, mean):
        return plain(y, mean, *state.noise)

    expected = formulas.log_likelihood(log_density, small.Y, small.observed, A, X, small.epsilon)
    assert info.log_likelihood == pytest.approx(expected, rel=1e-8, abs=1e-8)
    assert model.log_likelihood(state.loadings, state.noise, small.observations) == pytest.approx(
        expected, rel=1e-10, abs=1e-9
    )
    for t, side in enumerate(state.loadings):
        np.testing.assert_array_equal(info.counts[t], (side > 0.0).sum(axis=0))
        np.testing.assert_allclose(info.sums[t], side.sum(axis=0), rtol=1e-10)
    assert 0.0 <= info.acceptance <= 1.0
    if state.kept is not None:
        for kept, side in zip(state.kept, state.loadings, strict=True):
            np.testing.assert_array_equal(np.where(side > 0.0, kept, 0.0), side)
