"""The interface of DIBPNMF: every name, what it means, and that runs can be repeated."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.exceptions import ConvergenceWarning, NotFittedError

from dibpnmf import DIBPNMF, sampling
from dibpnmf.datasets import make_planted
from dibpnmf.inference import starts
from dibpnmf.posterior import posterior_mode
from dibpnmf.priors import PRIORS
from dibpnmf.scoring import random_half

pytestmark = pytest.mark.filterwarnings(
    "ignore::sklearn.exceptions.ConvergenceWarning", "ignore:The last of"
)

SCHEMES = ("joint", "literal")


def small(**params) -> DIBPNMF:
    defaults = {"n_warmup": 30, "n_draws": 20, "n_chains": 2, "random_state": 0}
    return DIBPNMF(**(defaults | params))


def hide(Y, share, seed=0):
    """Y with some cells missing, and those cells alone."""
    hidden = np.random.default_rng(seed).random(Y.shape) < share
    return np.where(hidden, np.nan, Y), np.where(hidden, Y, np.nan)


def draws_of(model):
    """A, X (chain, draw, ...) and log likelihoods, as a user reads them."""
    tree = model.posterior_
    A, X = tree["posterior"]["A"].values, tree["posterior"]["X"].values
    return A, X, tree["sample_stats"]["log_likelihood"].values


def log_likelihood(Y, mean):
    seen = ~np.isnan(Y)
    return float(np.sum(-np.log(mean[seen]) - Y[seen] / mean[seen]))


@pytest.fixture(scope="module")
def planted():
    return make_planted(30, 20, 3, random_state=0).data * 7.0


@pytest.fixture(scope="module")
def fitted(planted):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return small().fit(planted)


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("prior", PRIORS)
def test_attributes_have_their_shapes_and_order(planted, prior, scheme):
    model = small(prior=prior, scheme=scheme)
    assert model.fit(planted) is model
    K = model.n_components_
    assert model.components_.shape == (K, 20)
    assert model.components_mean_.shape == (K, 20)
    assert model.inclusion_probabilities_.shape == (K, 20)
    assert model.embedding_.shape == (30, K)
    assert model.n_features_in_ == 20
    for name in ("components_", "components_mean_", "embedding_", "inclusion_probabilities_"):
        assert type(getattr(model, name)) is np.ndarray
        assert getattr(model, name).min(initial=0.0) >= 0.0
    assert model.inclusion_probabilities_.max(initial=0.0) <= 1.0
    carried = model.embedding_.sum(axis=0) * model.components_.sum(axis=1)
    assert np.all(np.diff(carried) <= 0.0)
    assert np.all(np.diff(model.shares_) <= 0.0)
    assert model.shares_.sum() <= 1.0 + 1e-12
    assert sum(model.component_counts_.values()) == pytest.approx(1.0)


@pytest.mark.parametrize("min_share", [0.0, 0.01, 0.2])
def test_chosen_draw_is_the_most_likely_at_the_mode_of_the_effective_number(planted, min_share):
    model = small(min_share=min_share).fit(planted)
    A, X, log_p = draws_of(model)
    carried = A.sum(axis=2) * X.sum(axis=2)
    share = carried / carried.sum(axis=2, keepdims=True)
    effective = ((share >= min_share) & (share > 0.0)).sum(axis=2)
    stats = model.posterior_["sample_stats"]
    np.testing.assert_array_equal(stats["n_components"], effective)
    mode = posterior_mode(effective.ravel().tolist())
    assert (
        model.n_components_
        == mode
        == max(model.component_counts_, key=lambda K: model.component_counts_[K])
    )
    best = np.unravel_index(np.argmax(np.where(effective == mode, log_p, -np.inf)), log_p.shape)
    assert model.log_likelihood_ == log_p[best]
    columns = np.flatnonzero((share[best] >= min_share) & (share[best] > 0.0))
    masks = {(*(A[best][:, k] > 0), *(X[best][:, k] > 0)) for k in columns}
    found = {
        (*(a > 0), *(x > 0)) for a, x in zip(model.embedding_.T, model.components_, strict=True)
    }
    assert found == masks
    assert model.shares_.sum() == pytest.approx(share[best][columns].sum())


def test_n_active_counts_columns_in_use_on_both_sides(fitted):
    A, X, _ = draws_of(fitted)
    active = (A.any(axis=2) & X.any(axis=2)).sum(axis=2)
    np.testing.assert_array_equal(fitted.posterior_["sample_stats"]["n_active"], active)
    assert fitted.n_active_ == posterior_mode(active.ravel().tolist())


def test_posterior_mode_takes_the_smallest_of_equals():
    assert posterior_mode([3, 2, 3, 2, 7]) == 2


def test_means_over_a_single_draw_are_that_draw(planted):
    model = small(n_draws=1, n_chains=1, min_share=0.05).fit(planted)
    _, X, _ = draws_of(model)
    on = model.components_ > 0.0
    np.testing.assert_array_equal(model.inclusion_probabilities_, on.astype(float))
    for row, mean in zip(on, model.components_mean_, strict=True):
        gaps = [np.max(np.abs(mean - x)) for x in X[0, 0].T if np.array_equal(x > 0, row)]
        assert min(gaps) < 1e-9 * mean.max()


def test_means_over_draws_recover_planted_factors():
    truth = make_planted(60, 40, 2, random_state=3)
    model = small(n_warmup=60).fit(truth.data)
    mean = model.components_mean_[:2]
    norm = mean / np.linalg.norm(mean, axis=1, keepdims=True)
    X = truth.X.T
    cosines = norm @ (X / np.linalg.norm(X, axis=1, keepdims=True)).T
    assert np.all(cosines.max(axis=0) > 0.9)
    sure = model.inclusion_probabilities_[:2] > 0.9
    assert np.all(X[cosines.argmax(axis=1)][sure] > 0.0)


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("prior", PRIORS)
@pytest.mark.parametrize("missing", [False, True])
def test_log_likelihood_is_that_of_the_draw(planted, prior, scheme, missing):
    Y = hide(planted, 0.3)[0] if missing else planted
    model = small(prior=prior, scheme=scheme, n_draws=5).fit(Y)
    A, X, log_p = draws_of(model)
    for at in np.ndindex(log_p.shape):
        mean = A[at] @ X[at].T + model.epsilon_
        assert log_p[at] == pytest.approx(log_likelihood(Y, mean), rel=1e-9)


@pytest.mark.parametrize("prior", PRIORS)
def test_posterior_has_arviz_groups(planted, prior):
    model = small(prior=prior).fit(planted)
    tree = model.posterior_
    assert {"posterior", "sample_stats", "observed_data"} <= set(tree.children)
    for group in ("posterior", "sample_stats"):
        assert tree[group].sizes["chain"] == 2
        assert tree[group].sizes["draw"] == 20
        for name in PRIORS[prior].theta_names:
            assert tree[group][name].dims == ("chain", "draw")
    assert {"log_likelihood", "n_active", "n_components"} <= set(tree["sample_stats"].data_vars)
    facts = tree["observed_data"].attrs
    assert (facts["n_rows"], facts["n_columns"], facts["n_observed"]) == (30, 20, 600)
    assert facts["epsilon"] == model.epsilon_


def test_diagnostics_name_the_label_free_scalars(fitted):
    scalars = {"log_likelihood", "n_active", "n_components", "a", "b"}
    for statistic in ("r_hat", "ess_bulk", "ess_tail"):
        assert scalars <= set(fitted.diagnostics_[statistic])
    assert 0.0 < fitted.diagnostics_["acceptance"]["entries"] <= 1.0


def test_summaries_only(planted, fitted):
    model = small(keep_draws=False).fit(planted)
    for name in ("components_", "embedding_", "n_components_", "n_active_", "log_likelihood_"):
        np.testing.assert_array_equal(getattr(model, name), getattr(fitted, name))
    np.testing.assert_array_equal(model.transform(planted), fitted.transform(planted))
    assert model.score(planted) == fitted.score(planted)
    assert model.components_mean_.shape == fitted.components_mean_.shape
    strong = fitted.shares_ > 0.1
    np.testing.assert_allclose(
        model.inclusion_probabilities_[strong], fitted.inclusion_probabilities_[strong], atol=0.6
    )
    assert "A" not in model.posterior_["posterior"]
    assert "log_likelihood" in model.posterior_["sample_stats"]
    for call in (
        model.reconstruct,
        model.posterior_similarity,
        lambda: model.predict(0, 0),
    ):
        with pytest.raises(ValueError, match="keep_draws=True"):
            call()


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("prior", PRIORS)
@pytest.mark.parametrize("k", [1, 2, 25])
def test_fixed_number_of_components(planted, prior, scheme, k):
    model = small(prior=prior, scheme=scheme, n_components=k, n_draws=5).fit(planted)
    assert model.n_components_ == k == model.max_components_
    assert model.components_.shape == (k, 20)
    assert model.embedding_.shape == (30, k)
    assert model.transform(planted).shape == (30, k)


def test_fixed_number_is_never_called_truncated(planted):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.simplefilter("ignore", ConvergenceWarning)
        small(n_components=1).fit(planted)


def test_binding_truncation_is_told_with_what_to_pass(planted):
    with pytest.warns(UserWarning, match="max_components=4 or more"):
        model = small(max_components=2).fit(planted)
    assert model.max_components_ == 2
    assert model.posterior_["sample_stats"]["n_active"].max() <= 2


def test_truncation_grows_in_warmup_and_is_frozen_after(planted, monkeypatch):
    monkeypatch.setattr(starts, "best_start", lambda shape, likelihood: ("nmf", 1))
    monkeypatch.setattr(sampling, "HEADROOM", 1)
    assert small(n_warmup=0).fit(planted).max_components_ == 2
    model = small(n_warmup=60, init="prior", random_state=1).fit(planted)
    assert model.max_components_ > 2
    for record in model._records:
        assert len({draw.K for draw in record.draws}) == 1


# ---------------------------------------------------------------------- parameters


def test_starts_are_dealt_to_the_chains():
    Y = make_planted(40, 31, 3, random_state=0).data  # too large for a trivial start
    by_init = {
        init if isinstance(init, str) else "both": draws_of(small(init=init, n_draws=4).fit(Y))
        for init in ("nmf", "prior", "auto", ["nmf", "prior"])
    }
    log_p = {name: values[2] for name, values in by_init.items()}
    np.testing.assert_array_equal(log_p["auto"], log_p["both"])
    np.testing.assert_array_equal(log_p["both"][0], log_p["nmf"][0])
    np.testing.assert_array_equal(log_p["both"][1], log_p["prior"][1])
    assert not np.array_equal(log_p["nmf"], log_p["prior"])


FIXED = {
    "bivariate-beta": {"a": 2.5, "b": 0.5},
    "copula": {"alpha1": 2.0, "alpha2": 3.0, "rho": -0.5},
    "gaussian-process": {"alpha": 1.5, "s": 0.7, "sigma": 2.0, "eta": 0.5},
}


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("prior", PRIORS)
def test_fixed_prior_parameters_stay(planted, prior, scheme):
    model = small(prior=prior, scheme=scheme, prior_params=FIXED[prior], n_draws=5).fit(planted)
    for name in PRIORS[prior].theta_names:
        assert np.all(model.posterior_["posterior"][name] == FIXED[prior][name])


@pytest.mark.parametrize(
    ("prior", "name"), [("bivariate-beta", "a"), ("copula", "alpha1"), ("gaussian-process", "s")]
)
def test_a_sharp_hyper_prior_holds_its_parameter(planted, prior, name):
    params = {f"{name}_shape": 4e6, f"{name}_rate": 1e6}
    model = small(prior=prior, prior_params=params).fit(planted)
    values = model.posterior_["posterior"][name].values
    np.testing.assert_allclose(values, 4.0, rtol=0.01)
    assert values.std() > 0.0


def test_thinning_keeps_every_second_sweep(planted):
    every = draws_of(small(n_draws=10).fit(planted))[2]
    second = draws_of(small(n_draws=5, n_thin=2).fit(planted))[2]
    np.testing.assert_array_equal(second, every[:, 1::2])


# ---------------------------------------------------------------------- input


def same(one, other):
    assert one.n_components_ == other.n_components_
    for name in ("components_", "embedding_", "components_mean_", "inclusion_probabilities_"):
        np.testing.assert_array_equal(getattr(one, name), getattr(other, name))
    np.testing.assert_array_equal(draws_of(one)[2], draws_of(other)[2])


@pytest.mark.parametrize("kind", ["csr", "csc", "coo", "lil", "dok", "bsr"])
def test_sparse_formats_are_one_matrix(planted, kind):
    Y = np.where(planted > 5.0, planted, 0.0)
    dense = small(n_draws=5).fit(Y)
    for container in (sp.csr_array(Y), sp.csr_matrix(Y)):
        same(small(n_draws=5).fit(container.asformat(kind)), dense)


def test_cells_not_stored_are_missing_if_asked(planted):
    seen, _ = hide(planted, 0.4)
    seen[0, :3] = 0.0, np.nan, 2.0  # a stored zero is observed
    rows, columns = np.nonzero(~np.isnan(seen))
    Y = sp.coo_array((seen[rows, columns], (rows, columns)), shape=seen.shape)
    model = small(zeros="missing").fit(Y)
    same(model, small().fit(seen))
    assert model.posterior_["observed_data"].attrs["n_observed"] == rows.size
    np.testing.assert_array_equal(model.transform(Y), model.transform(seen))


def test_nan_stored_in_a_sparse_matrix_is_missing(planted):
    Y = np.where(planted > 5.0, planted, 0.0)
    Y[2, 3] = np.nan
    same(small(n_draws=5).fit(sp.csr_array(Y)), small(n_draws=5).fit(Y))


def test_masked_cells_are_missing(planted):
    mask = np.random.default_rng(0).random(planted.shape) < 0.2
    Y = np.ma.array(np.where(mask, 1e4, planted), mask=mask)
    hidden = np.where(mask, np.nan, planted)
    model = small(n_draws=5).fit(Y)
    same(model, small(n_draws=5).fit(hidden))
    np.testing.assert_array_equal(model.transform(Y), model.transform(hidden))


def test_a_column_of_text_is_named(planted):
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame(planted[:, :3], columns=["a", "b", "c"])
    frame["b"] = "low"
    with pytest.raises(TypeError, match="in column 'b'"):
        small().fit(frame)


def test_cells_by_name(planted):
    rows, columns = [f"r{i}" for i in range(30)], [f"c{j}" for j in range(20)]
    model = small(n_draws=5).fit(planted, row_names=rows, column_names=columns)
    by_index = model.predict([3, 29], [0, 7])
    np.testing.assert_array_equal(model.predict(["r3", "r29"], ["c0", "c7"]), by_index)
    np.testing.assert_array_equal(model.predict("r3", np.array(["c0"])), by_index[:1])
    alike = model.posterior_similarity(["r3", "r29"])
    np.testing.assert_array_equal(alike, model.posterior_similarity([3, 29]))
    with pytest.raises(ValueError, match="cols must be known names or indices; got 'c20'"):
        model.predict("r3", "c20")
    with pytest.raises(TypeError, match="rows must be an integer"):
        small(n_draws=5).fit(planted).predict("r3", "c0")


def test_draws_can_be_gone_through(planted):
    model = small(n_draws=5, n_chains=2).fit(planted)
    draws = list(model.iter_draws())
    assert len(draws) == 10
    mean = np.mean([A @ X.T for A, X in draws], axis=0) + model.epsilon_
    np.testing.assert_allclose(mean, model.reconstruct())
    with pytest.raises(ValueError, match="keep_draws=True"):
        next(small(n_draws=5, keep_draws=False).fit(planted).iter_draws())


def test_input_is_left_alone(planted):
    Y = planted.copy()
    small(n_draws=3).fit(Y).transform(Y)
    np.testing.assert_array_equal(Y, planted)
    indptr, indices = np.array([0, 3, 4]), np.array([1, 0, 1, 0])  # unsorted, with a duplicate
    for kind in (sp.csr_array, sp.csr_matrix):
        Y = kind((np.array([1.0, 2.0, 3.0, 0.0]), indices.copy(), indptr.copy()), shape=(2, 2))
        small(n_draws=3).fit(Y).transform(Y)
        np.testing.assert_array_equal(Y.indices, indices)
        np.testing.assert_array_equal(Y.data, [1.0, 2.0, 3.0, 0.0])


def test_data_frames(planted):
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame(planted, columns=[f"word{n}" for n in range(20)])
    frame.iloc[0, 0] = np.nan
    model = small(n_draws=5).fit(frame)
    same(model, small(n_draws=5).fit(frame.to_numpy()))
    assert list(model.feature_names_in_) == list(frame.columns)
    assert len(model.get_feature_names_out()) == model.n_components_


# ---------------------------------------------------------------------- using a fit


def test_fit_transform_and_inverse_transform(planted, fitted):
    A = small().fit_transform(planted, y=np.arange(30))
    np.testing.assert_array_equal(A, fitted.embedding_)
    np.testing.assert_array_equal(fitted.inverse_transform(A), A @ fitted.components_)
    with pytest.raises(ValueError, match=r"A must have shape .* got \(30, 99\)"):
        fitted.inverse_transform(np.ones((30, 99)))


def test_transform_depends_on_the_row_alone(planted, fitted):
    A = fitted.transform(planted)
    assert A.shape == fitted.embedding_.shape
    np.testing.assert_array_equal(fitted.transform(planted[5:6]), A[5:6])
    np.testing.assert_array_equal(fitted.transform(planted[::-1]), A[::-1])
    np.testing.assert_array_equal(fitted.transform(sp.csr_array(planted)), A)
    used = fitted.embedding_.sum(axis=1) > 0.0
    cosines = (
        np.sum(A * fitted.embedding_, axis=1)[used]
        / np.maximum(np.linalg.norm(A, axis=1) * np.linalg.norm(fitted.embedding_, axis=1), 1e-300)[
            used
        ]
    )
    assert np.median(cosines) > 0.8


def test_reconstruct_and_predict_are_means_over_draws(fitted):
    A, X, _ = draws_of(fitted)
    mean = np.mean(A @ np.swapaxes(X, 2, 3), axis=(0, 1)) + fitted.epsilon_
    np.testing.assert_allclose(fitted.reconstruct(), mean, rtol=1e-10)
    np.testing.assert_allclose(fitted.predict([0, 5], [3, 7]), mean[[0, 5], [3, 7]], rtol=1e-10)
    np.testing.assert_allclose(fitted.predict(2, np.arange(20)), mean[2], rtol=1e-10)
    np.testing.assert_allclose(fitted.predict(2, 4), mean[2, [4]], rtol=1e-10)
    assert fitted.predict([], []).shape == (0,)


def test_intervals_cover_held_out_cells():
    Y = make_planted(40, 30, 2, random_state=1).data
    seen, held = hide(Y, 0.3)
    model = small(n_warmup=60, n_draws=40).fit(seen)
    rows, columns = np.nonzero(~np.isnan(held))
    for interval in (0.5, 0.9):
        mean, lower, upper = model.predict(rows, columns, interval=interval)
        y = held[rows, columns]
        assert np.all((lower < mean) & (lower < upper) & (lower >= 0.0))
        assert np.mean((lower <= y) & (y <= upper)) == pytest.approx(interval, abs=0.1)
        # Equal tails: as many below as above.
        assert np.mean(y < lower) == pytest.approx(0.5 - interval / 2, abs=0.08)


def test_interval_of_a_known_predictive_is_its_quantiles():
    # With ε so large that nothing else matters, y is exponential with mean ε.
    model = small(epsilon=1e9, n_draws=5).fit(np.ones((3, 3)))
    _, lower, upper = model.predict(0, 0, interval=0.9)
    np.testing.assert_allclose([lower[0], upper[0]], -1e9 * np.log([0.95, 0.05]), rtol=1e-6)


def test_score_of_held_out_cells_of_fitted_rows(planted):
    seen, held = hide(planted, 0.2)
    model = small().fit(seen)
    A, X, _ = draws_of(model)
    mean = (A @ np.swapaxes(X, 2, 3) + model.epsilon_).reshape(-1, 30, 20)
    cells = ~np.isnan(held)
    density = np.mean(np.exp(-held[cells] / mean[:, cells]) / mean[:, cells], axis=0)
    assert model.score(held) == pytest.approx(np.mean(np.log(density)), rel=1e-9)


def test_score_of_new_rows_is_held_out():
    Y = make_planted(80, 30, 2, random_state=2).data
    model = small().fit(Y[:60])
    score = model.score(Y[60:])
    assert score == model.score(Y[60:]) == model.score(sp.csr_array(Y[60:]))
    assert score > -np.log(Y[:60].mean()) - 1.0  # one mean for all cells
    # Half of a row is scored: what the other half holds cannot be read off it.
    noise = np.random.default_rng(0).permuted(Y[60:], axis=1)
    assert score > model.score(noise)


def test_half_of_the_observed_cells_is_given():
    rng = np.random.default_rng(0)
    observed = rng.random((50, 11)) < 0.6
    given = random_half(rng, observed)
    assert not np.any(given & ~observed)
    np.testing.assert_array_equal(given.sum(axis=1), observed.sum(axis=1) // 2)


def test_posterior_similarity_is_the_mean_cosine(fitted):
    A, X, _ = draws_of(fitted)
    mean = A @ np.swapaxes(X, 2, 3)
    norm = np.linalg.norm(mean, axis=3, keepdims=True)
    unit = mean / np.where(norm > 0.0, norm, 1.0)
    without = (norm == 0.0).astype(float)  # rows without factors are alike
    cosines = unit @ np.swapaxes(unit, 2, 3) + without @ np.swapaxes(without, 2, 3)
    expected = np.mean(cosines, axis=(0, 1))
    np.fill_diagonal(expected, 1.0)
    similarity = fitted.posterior_similarity()
    np.testing.assert_allclose(similarity, expected, atol=1e-12)
    rows = [4, 0, 17]
    subset = fitted.posterior_similarity(rows)
    np.testing.assert_allclose(subset, similarity[np.ix_(rows, rows)], atol=1e-12)


@pytest.mark.parametrize("is_complete", [True, False])
def test_similarity_by_profiles_is_the_mean_cosine_of_correlations(is_complete):
    rng = np.random.default_rng(1)
    Y = rng.gamma(0.5, 1.0, (12, 9)) * (rng.random((12, 9)) < 0.7)
    if not is_complete:
        Y[rng.random(Y.shape) < 0.3] = np.nan
    model = small(likelihood="gaussian", n_draws=6).fit(Y)
    deviations = np.nan_to_num(Y - np.nanmean(Y, axis=0))
    cosines = []
    for A in draws_of(model)[0].reshape(-1, *draws_of(model)[0].shape[2:]):
        used = A[:, A.any(axis=0)]
        profiles = used.T @ deviations
        embedding = deviations @ (profiles.T / np.linalg.norm(profiles, axis=1))
        unit = embedding / np.linalg.norm(embedding, axis=1, keepdims=True)
        cosines.append(unit @ unit.T)
    expected = np.clip(np.mean(cosines, axis=0), 0.0, 1.0)
    np.testing.assert_allclose(model.posterior_similarity(Y=Y), expected, atol=1e-10)
    np.testing.assert_allclose(
        model.posterior_similarity([3, 1], Y=Y), expected[np.ix_([3, 1], [3, 1])], atol=1e-10
    )
    with pytest.raises(ValueError, match="with 12 rows; this one has 11"):
        model.posterior_similarity(Y=Y[1:])


def test_dense_zeros_are_observed_and_a_warning_says_so():
    Y = np.random.default_rng(0).poisson(1.0, (8, 6)).astype(float)
    with pytest.warns(UserWarning, match="its zeros are taken as observed: put NaN"):
        small(n_draws=5, zeros="missing").fit(Y)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        small(n_draws=5, zeros="missing").fit(sp.csr_array(Y))
        small(n_draws=5, zeros="missing").fit(np.where(Y == 0.0, np.nan, Y))
    assert not any("taken as observed" in str(w.message) for w in caught)


def test_methods_need_a_fit(planted):
    for call in (
        lambda m: m.transform(planted), lambda m: m.inverse_transform([[1.0]]),
        lambda m: m.reconstruct(), lambda m: m.predict(0, 0), lambda m: m.score(planted),
        lambda m: m.posterior_similarity(), lambda m: m.posterior_,
    ):  # fmt: skip
        with pytest.raises(NotFittedError):
            call(small())


def test_arviz_summarises_the_posterior(planted):
    import arviz_stats

    model = small(n_draws=12).fit(planted)
    table = arviz_stats.summary(model.posterior_, var_names=["a", "tau_rows"])
    assert list(table.index) == ["a", "tau_rows"]
