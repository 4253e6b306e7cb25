import os
import subprocess
import sys
import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse
from sklearn.decomposition import NMF
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.utils.estimator_checks import parametrize_with_checks

from dibpnmf import baselines
from dibpnmf.baselines import SparseNMF
from dibpnmf.datasets import fetch_cora, make_binary, make_planted

seeds = st.integers(0, 2**32 - 1)
penalties = st.sampled_from([0.0, 0.1, 1.0])

ONE_VALUE_PER_ROW = "expects one prediction per row; predict gives one per cell"


@parametrize_with_checks(
    [SparseNMF(n_components=2)],
    expected_failed_checks=lambda estimator: {
        "check_estimator_sparse_array": ONE_VALUE_PER_ROW,
        "check_estimator_sparse_matrix": ONE_VALUE_PER_ROW,
    },
)
def test_scikit_learn_contract(estimator, check):
    check(estimator)


def definition(Y, A, X, l1, observed=None):
    """Eq. (1), summed over the observed cells."""
    squares = (np.where(np.isnan(Y), 0, Y) - A @ X.T) ** 2
    observed = ~np.isnan(Y) if observed is None else observed
    return squares[observed].sum() + l1 * (A.sum() + X.sum())


def objective_of(model, Y):
    return definition(Y, model.embedding_, model.components_.T, model.l1)


def holed(Y, seed, share=0.3):
    return np.where(np.random.default_rng(seed).random(Y.shape) < share, np.nan, Y)


def sides(Y):
    """The matrix seen by rows as SparseNMF sees it."""
    return SparseNMF()._observe(Y, reset=True)


def slow_pass(Y, A, X, l1):
    """One pass over A by the formula of the module's description."""
    A = A.copy()
    for i, k in np.ndindex(A.shape):
        n = ~np.isnan(Y[i])
        residual = Y[i, n] - X[n] @ A[i]
        curvature = X[n, k] @ X[n, k]
        if curvature > 0:
            A[i, k] = max(0.0, A[i, k] + (X[n, k] @ residual - l1 / 2) / curvature)
    return A


def random_problem(seed, *, missing):
    rng = np.random.default_rng(seed)
    M, N, K = rng.integers(1, 9, 3)
    Y = rng.exponential(size=(M, N)) * (rng.random((M, N)) < 0.7)
    A, X = (rng.exponential(size=(size, K)) * (rng.random((size, K)) < 0.8) for size in (M, N))
    return (holed(Y, seed) if missing else Y), A, X


@pytest.mark.parametrize("missing", [False, True])
@settings(max_examples=60, deadline=None)
@given(seed=seeds, l1=penalties)
def test_kernel_is_the_formula(missing, seed, l1):
    Y, A, X = random_problem(seed, missing=missing)
    expected = slow_pass(Y, A, X, l1)
    error = sides(Y).update(A, X, l1)
    np.testing.assert_allclose(A, expected, rtol=1e-9, atol=1e-12)
    assert error == pytest.approx(definition(Y, A, X, 0.0), abs=1e-10)


@pytest.mark.parametrize("missing", [False, True])
@pytest.mark.parametrize("finish", [False, True])
@settings(max_examples=60, deadline=None)
@given(seed=seeds, l1=penalties)
def test_objective_never_rises(missing, finish, seed, l1):
    Y, A, X = random_problem(seed, missing=missing)
    rows = sides(Y)
    columns = rows.transposed()
    values = [definition(Y, A, X, l1)]
    for _ in range(4):
        rows.update(A, X, l1, finish=finish)
        values.append(definition(Y, A, X, l1))
        columns.update(X, A, l1, finish=finish)
        values.append(definition(Y, A, X, l1))
        if l1 > 0:
            baselines._balance(A, X)
            values.append(definition(Y, A, X, l1))
    assert np.all(np.diff(values) <= 1e-12 * values[0])


@settings(max_examples=40, deadline=None)
@given(seed=seeds, l1=penalties)
def test_masked_kernel_without_missing_cells_is_the_complete_one(seed, l1):
    Y, A, X = random_problem(seed, missing=False)
    complete, masked = A.copy(), A.copy()
    everything = sparse.csr_array(np.ones_like(Y))
    everything.data = Y.ravel().copy()
    baselines._Complete(Y).update(complete, X, l1)
    baselines._Masked(everything).update(masked, X, l1)
    np.testing.assert_allclose(masked, complete, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("missing", [False, True])
@pytest.mark.parametrize("l1", [0.1, 1.0])
def test_transform_meets_the_optimality_conditions(missing, l1):
    Y = make_planted(30, 20, 3, random_state=0).data
    Y = holed(Y, 1) if missing else Y
    model = SparseNMF(4, l1=l1, random_state=0).fit(Y)
    A, X = model.transform(Y), model.components_.T
    residual = np.where(np.isnan(Y), 0, Y - A @ X.T)
    slope = l1 - 2 * residual @ X
    assert np.all(slope >= -1e-6)
    assert np.all(np.abs(slope[A > 0]) <= 1e-6)


def scikit_learn_objective(Y, K, l1):
    # It minimises half our objective, with penalties scaled by the other side's size.
    M, N = Y.shape
    model = NMF(
        K,
        init="nndsvda",
        alpha_W=l1 / (2 * N),
        alpha_H=l1 / (2 * M),
        l1_ratio=1.0,
        max_iter=1000,
        tol=1e-5,
        random_state=0,
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        A = model.fit_transform(Y)
    Y = Y.toarray() if sparse.issparse(Y) else Y
    return definition(Y, A, model.components_.T, l1)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("K", [2, 5, 10])
@pytest.mark.parametrize("l1", [0.1, 1.0])
@pytest.mark.parametrize("kind", ["dense", "sparse"])
def test_objective_is_no_worse_than_scikit_learns(kind, l1, K, seed):
    if kind == "dense":
        Y = make_planted(random_state=seed).data
    else:
        Y = sparse.csr_array(make_planted(noise="poisson", random_state=seed).data)
    model = SparseNMF(K, l1=l1, random_state=seed).fit(Y)
    assert model.objective_ <= 1.01 * scikit_learn_objective(Y, K, l1)


@pytest.mark.parametrize("missing", [False, True])
def test_objective_and_path_are_those_of_the_factors(missing):
    Y = make_planted(random_state=3).data
    Y = holed(Y, 0) if missing else Y
    model = SparseNMF(5, random_state=0).fit(Y)
    assert model.objective_ == pytest.approx(objective_of(model, Y), rel=1e-10)
    assert model.objective_ == model.objective_path_[-1]
    assert len(model.objective_path_) == model.n_iter_ + 1
    assert np.all(np.diff(model.objective_path_) <= 0)


def test_more_starts_are_never_worse():
    Y = make_planted(random_state=4).data
    objectives = [SparseNMF(12, n_init=n, random_state=0).fit(Y).objective_ for n in (1, 2, 4)]
    assert objectives == sorted(objectives, reverse=True)


def test_nndsvda_keeps_the_heavier_signed_part_of_each_singular_pair():
    Y = make_binary(12, 10, random_state=0)
    A, X = baselines._start("nndsvda", sides(Y), 4, np.random.RandomState(0))
    U, singular, Vt = np.linalg.svd(Y)
    for k in range(4):
        pairs = [(np.maximum(s * U[:, k], 0), np.maximum(s * Vt[k], 0)) for s in (1, -1)]
        u, v = max(pairs, key=lambda pair: np.linalg.norm(np.outer(*pair)))
        kept = np.outer(u, v) > 0
        product = np.outer(A[:, k], X[:, k])
        np.testing.assert_allclose(product[kept], singular[k] * np.outer(u, v)[kept], rtol=1e-6)
        np.testing.assert_allclose(A[u == 0, k], Y.mean())
        np.testing.assert_allclose(X[v == 0, k], Y.mean())


@pytest.mark.parametrize("seed", range(8))
def test_a_factor_is_empty_on_both_sides_or_on_neither(seed):
    model = SparseNMF(10, l1=2.0, init="random", n_init=1, max_iter=1, random_state=seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        A = model.fit_transform(make_binary(random_state=seed))
    np.testing.assert_array_equal(A.any(axis=0), model.components_.any(axis=1))


@pytest.mark.parametrize("init", ["nndsvda", "random"])
def test_same_seed_same_factors(init):
    Y = make_binary(random_state=0)
    one, two = (SparseNMF(4, init=init, random_state=7).fit(Y) for _ in range(2))
    np.testing.assert_array_equal(one.components_, two.components_)


@pytest.mark.parametrize(
    "layout",
    [
        f"{name}_{kind}"
        for name in ("csr", "csc", "coo", "lil", "dok", "bsr")
        for kind in ("array", "matrix")
    ],
)
def test_sparse_layouts_give_the_dense_result(layout):
    Y = make_binary(random_state=1)
    dense = SparseNMF(3, random_state=0).fit(Y)
    model = SparseNMF(3, random_state=0).fit(getattr(sparse, layout)(Y))
    np.testing.assert_allclose(model.components_, dense.components_, rtol=1e-6, atol=1e-8)
    np.testing.assert_allclose(
        model.transform(getattr(sparse, layout)(Y)), dense.embedding_, rtol=1e-5, atol=1e-7
    )


def test_cells_not_stored_are_missing_on_request():
    Y = make_planted(random_state=0).data + 0.1
    present = np.random.default_rng(0).random(Y.shape) < 0.4
    stored = sparse.csr_array(np.where(present, Y, 0))
    by_storage = SparseNMF(3, zeros="missing", random_state=0).fit(stored)
    by_nan = SparseNMF(3, random_state=0).fit(np.where(present, Y, np.nan))
    np.testing.assert_allclose(by_storage.components_, by_nan.components_)
    np.testing.assert_allclose(by_storage.transform(stored), by_nan.embedding_, atol=1e-6)


def test_stored_zeros_are_observed_and_stored_nan_missing():
    cells = sparse.csr_array(([0.0, 5.0, np.nan], ([0, 0, 1], [0, 1, 1])), shape=(2, 2))
    rows = SparseNMF(zeros="missing")._observe(cells, reset=True)
    assert rows.n_observed == 2
    assert rows.mean == 2.5


def test_missing_cells_of_a_rank_one_matrix_are_found():
    rng = np.random.default_rng(0)
    truth = np.outer(1 + rng.random(30), 1 + rng.random(20))
    model = SparseNMF(1, l1=0.0, tol=1e-12, random_state=0).fit(holed(truth, 1, share=0.5))
    np.testing.assert_allclose(model.inverse_transform(model.embedding_), truth, rtol=1e-4)


def test_rows_and_columns_without_cells_are_zero():
    Y = make_planted(20, 15, 2, random_state=0).data
    Y[3], Y[:, 5] = np.nan, np.nan
    model = SparseNMF(3, random_state=0).fit(Y)
    assert not model.embedding_[3].any()
    assert not model.components_[:, 5].any()
    assert np.isfinite(model.objective_)


def test_predict_gives_cells_of_the_product():
    Y = make_planted(12, 9, 2, random_state=0).data
    model = SparseNMF(3, random_state=0).fit(Y)
    product = model.inverse_transform(model.embedding_)
    rows, cols = [0, 11, 5, 0], [8, 0, 3, 3]
    np.testing.assert_allclose(model.predict(rows, cols), product[rows, cols])
    assert model.predict([], []).shape == (0,)
    np.testing.assert_allclose(model.predict(Y), product, rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize(
    ("rows", "cols", "error", "message"),
    [
        ([0], [9], ValueError, "cols must lie in 0..8; got 9"),
        ([-1], [0], ValueError, "rows must lie in 0..11; got -1"),
        ([0.5], [0], TypeError, "rows must be an integer or a 1-d array .* float64"),
        ([0, 1], [0], ValueError, "rows and cols must have one length; got 2 and 1"),
    ],
)
def test_predict_says_what_is_wrong(rows, cols, error, message):
    model = SparseNMF(2, random_state=0).fit(make_planted(12, 9, 2, random_state=0).data)
    with pytest.raises(error, match=message):
        model.predict(rows, cols)


def test_predict_before_fit():
    with pytest.raises(NotFittedError):
        SparseNMF().predict([0], [0])


def test_inverse_transform_needs_a_column_per_factor():
    model = SparseNMF(2, random_state=0).fit(make_binary(random_state=0))
    with pytest.raises(ValueError, match=r"each of the 2 factors, got shape \(4, 3\)"):
        model.inverse_transform(np.ones((4, 3)))


@pytest.mark.parametrize(
    "Y",
    [
        np.array([[2.0]]),
        np.array([[1.0, 0.0, 3.0]]),
        np.array([[1.0], [0.0], [3.0]]),
        np.zeros((4, 3)),
        np.ones((3, 4)),
        np.array([[1.0, np.nan], [np.nan, 2.0]]),
        np.array([[0.0, 0.0], [0.0, np.nan]]),
        np.full((3, 3), 1e-12),
        np.full((3, 3), 1e12),
        np.array([[1, 2], [3, 4]], dtype=np.int8),
        np.eye(5, dtype=np.float32),
        sparse.csr_array((3, 4)),
    ],
    ids=str,
)
@pytest.mark.parametrize("l1", [0.0, 1.0])
@pytest.mark.parametrize("init", ["nndsvda", "random"])
def test_small_and_odd_matrices(Y, l1, init):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.simplefilter("ignore", ConvergenceWarning)
        model = SparseNMF(3, l1=l1, init=init, random_state=0).fit(Y)
    dense = Y.toarray() if sparse.issparse(Y) else Y.astype(float)
    assert model.embedding_.shape == (Y.shape[0], 3)
    assert model.objective_ <= np.nansum(dense**2) * (1 + 1e-12)
    assert np.isfinite(model.components_).all()


def test_input_is_left_alone():
    Y = sparse.csr_array(
        (np.array([1.0, 2.0, 3.0]), np.array([1, 1, 0]), np.array([0, 2, 3])), shape=(2, 2)
    )
    before = [part.copy() for part in (Y.data, Y.indices, Y.indptr)]
    SparseNMF(1, random_state=0).fit(Y)
    for part, copy in zip((Y.data, Y.indices, Y.indptr), before, strict=True):
        np.testing.assert_array_equal(part, copy)


def test_warns_when_the_penalty_empties_every_factor():
    with pytest.warns(ConvergenceWarning, match=r"l1=50.0 drove all 3 factors to zero"):
        model = SparseNMF(3, l1=50.0, random_state=0).fit(make_binary(random_state=0))
    assert not model.components_.any()
    assert not model.embedding_.any()


@pytest.mark.skipif(
    not os.path.isfile(os.path.join(os.environ.get("DIBPNMF_DATA", ""), "cora.tgz")),
    reason="DIBPNMF_DATA names no folder with cora.tgz",
)
def test_random_starts_of_many_factors_die_on_cora():
    Y = fetch_cora().data
    with pytest.warns(ConvergenceWarning, match="drove all 50 factors to zero"):
        SparseNMF(50, init="random", n_init=1, random_state=0).fit(Y)
    model = SparseNMF(15, n_init=1, random_state=0).fit(Y)
    assert model.objective_ <= 1.01 * scikit_learn_objective(Y, 15, 1.0)


def test_zero_matrix_is_no_reason_to_warn():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert SparseNMF(2).fit(np.zeros((3, 3))).objective_ == 0.0


def test_warns_when_not_converged():
    with pytest.warns(ConvergenceWarning, match="max_iter=2 iterations ended"):
        SparseNMF(5, max_iter=2, random_state=0).fit(make_planted(random_state=0).data)


@pytest.mark.parametrize(
    ("parameters", "error", "message"),
    [
        ({"n_components": 0}, ValueError, "n_components must be at least 1; got 0"),
        (
            {"n_components": 2.5},
            TypeError,
            "n_components must be an integer of at least 1; got 2.5",
        ),
        ({"l1": -1.0}, ValueError, "l1 must be a finite number >= 0; got -1.0"),
        ({"l1": np.nan}, ValueError, "l1 must be a finite number >= 0; got nan"),
        ({"l1": "1"}, TypeError, "l1 must be a finite number >= 0; got '1'"),
        ({"tol": np.inf}, ValueError, "tol must be a finite number >= 0; got inf"),
        ({"n_init": 0}, ValueError, "n_init must be at least 1; got 0"),
        ({"max_iter": 0}, ValueError, "max_iter must be at least 1; got 0"),
        ({"zeros": "nan"}, ValueError, "zeros must be one of 'observed', 'missing'; got 'nan'"),
        ({"init": None}, ValueError, "init must be one of 'nndsvda', 'random'; got None"),
        ({"random_state": "x"}, ValueError, "'x' cannot be used to seed"),
    ],
)
def test_bad_parameters(parameters, error, message):
    with pytest.raises(error, match=message):
        SparseNMF(**parameters).fit(np.ones((3, 3)))


@pytest.mark.parametrize(
    ("Y", "message"),
    [
        (np.array([[1.0, -2.0]]), r"Y\[0, 1\] is -2.0"),
        (sparse.csr_array([[0.0, -2.0]]), r"Y\[0, 1\] is -2.0"),
        (np.array([[1.0, np.inf]]), "infinity"),
        (np.array([[1.0, 1e200]]), r"values up to 1e\+200, whose squares overflow"),
        (np.full((2, 2), np.nan), "no observed cell"),
        (np.empty((0, 3)), "0 sample"),
        (np.ones((2, 2, 2)), "dim 3"),
        (np.array([["a", "b"]]), "could not convert"),
        (np.array([[1j]]), "Complex data not supported"),
    ],
)
def test_bad_matrices(Y, message):
    with pytest.raises(ValueError, match=message):
        SparseNMF(1).fit(Y)


def test_nothing_compiles_at_import():
    code = (
        "import dibpnmf.baselines as b;"
        "assert not b._update_complete.signatures and not b._update_masked.signatures"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
