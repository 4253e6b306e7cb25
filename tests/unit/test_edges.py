"""Bad input is refused before any sampling; odd input works, without NaN or NumPy warnings."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.exceptions import ConvergenceWarning

from dibpnmf import DIBPNMF, sampling
from dibpnmf.diagnostics import LikelihoodWarning
from dibpnmf.inference import starts
from dibpnmf.priors import PRIORS

SCHEMES = ("joint", "literal")
BASE = np.random.default_rng(0).exponential(1.0, (8, 6))


def small(**params) -> DIBPNMF:
    defaults = {"n_warmup": 12, "n_draws": 10, "n_chains": 2, "random_state": 0}
    return DIBPNMF(**(defaults | params))


def quiet_fit(Y, **params) -> DIBPNMF:
    """Fit with every warning an error, but those about so short a run."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.simplefilter("ignore", ConvergenceWarning)
        warnings.simplefilter("ignore", LikelihoodWarning)  # of matrices that are odd on purpose
        warnings.filterwarnings("ignore", "The last of")
        return small(**params).fit(Y)


# ---------------------------------------------------------------------- refused


@pytest.fixture
def no_sampling(monkeypatch):
    """Fail if work starts."""

    def started(*_, **__):
        pytest.fail("sampling has started")

    monkeypatch.setattr(sampling, "run_chains", started)
    monkeypatch.setattr(starts, "quick_factorization", started)


def with_cell(value, Y=BASE, at=(1, 2)):
    Y = Y.astype(np.result_type(Y, type(value)))
    Y[at] = value
    return Y


BAD_MATRICES = {
    "negative": (with_cell(-3.5), r"Y\[1, 2\] is -3.5.*zero or positive"),
    "negative sparse": (sp.csc_array(with_cell(-3.5)), r"Y\[1, 2\] is -3.5.*zero or positive"),
    "infinite": (with_cell(np.inf), r"Y\[1, 2\] is inf.*must be finite"),
    "minus infinite": (with_cell(-np.inf), r"Y\[1, 2\] is -inf.*zero or positive"),
    "infinite sparse": (sp.coo_matrix(with_cell(np.inf)), r"Y\[1, 2\] is inf.*must be finite"),
    "too large": (with_cell(1e300), r"Y\[1, 2\] is 1e\+300.*at most 1e\+250"),
    "complex": (BASE + 1j, r"Y must be .* numbers >= 0.*complex128"),
    "complex sparse": (sp.csr_array(BASE + 1j), r"Y must be .* numbers >= 0.*complex128"),
    "strings": (np.array([["a", "b"], ["c", "d"]]), r"Y must be .* numbers >= 0.*<U1"),
    "numbers as strings": (BASE.astype(str), r"Y must be .* numbers >= 0.*<U32"),
    "strings as objects": (BASE.astype(str).astype(object), r"Y must be .*object"),
    "list of strings": ([["a", "b"]], r"Y must be .*list"),
    "dates": (np.full((2, 2), "2020-01-01", "M8[D]"), r"Y must be .*datetime64"),
    "no rows": (np.empty((0, 3)), r"Y must be .*\(0, 3\)"),
    "no columns": (np.empty((3, 0)), r"Y must be .*\(3, 0\)"),
    "empty sparse": (sp.csr_array((0, 3)), r"Y must be .*\(0, 3\)"),
    "empty list": ([], r"Y must be .*list"),
    "1-d": (np.ones(4), r"Y must be .*2-d.*\(4,\)"),
    "3-d": (np.ones((2, 3, 4)), r"Y must be .*2-d.*\(2, 3, 4\)"),
    "scalar": (3.0, r"Y must be .*float"),
    "None": (None, r"Y must be .*None"),
    "dict": ({"a": 1}, r"Y must be .*dict"),
    "ragged": ([[1, 2], [3]], r"Y must be .*list"),
    "all missing": (np.full((3, 2), np.nan), r"Y has no observed cell"),
    "all missing sparse": (sp.csr_array(np.full((3, 2), np.nan)), r"Y has no observed cell"),
}


@pytest.mark.usefixtures("no_sampling")
@pytest.mark.parametrize("name", BAD_MATRICES)
def test_bad_matrices_are_refused(name):
    Y, message = BAD_MATRICES[name]
    with pytest.raises((ValueError, TypeError), match=message) as refused:
        small().fit(Y)
    assert len(str(refused.value)) < 500  # the data are not printed


@pytest.mark.usefixtures("no_sampling")
def test_nothing_stored_is_all_missing_if_zeros_are():
    with pytest.raises(ValueError, match=r"Y has no observed cell.*zeros='missing'"):
        small(zeros="missing").fit(sp.csr_array((3, 4)))


BAD_PARAMETERS = [
    ("prior", "dirichlet", "'bivariate-beta', 'copula', 'gaussian-process'"),
    ("prior", None, "'bivariate-beta'"),
    ("prior", 3, "'bivariate-beta'"),
    ("likelihood", "cauchy", "'exponential'"),
    ("likelihood", None, "'exponential'"),
    ("scheme", "fast", "'joint', 'literal'"),
    ("scheme", ["joint"], "'joint', 'literal'"),
    ("zeros", "ignored", "'observed', 'missing'"),
    ("zeros", True, "'observed', 'missing'"),
    ("n_components", 0, "at least 1"),
    ("n_components", -2, "at least 1"),
    ("n_components", 2.0, "integer"),
    ("n_components", "2", "integer"),
    ("n_components", True, "integer"),
    ("max_components", 0, "at least 1"),
    ("max_components", 2.5, "integer"),
    ("max_components", np.nan, "integer"),
    ("epsilon", 0, "positive number"),
    ("epsilon", -1.0, "positive number"),
    ("epsilon", np.nan, "positive number"),
    ("epsilon", np.inf, "positive number"),
    ("epsilon", "small", "'auto'"),
    ("epsilon", None, "'auto'"),
    ("epsilon", [0.1], "'auto'"),
    ("n_warmup", -1, "at least 0"),
    ("n_warmup", 1.5, "integer"),
    ("n_warmup", None, "integer"),
    ("n_draws", 0, "at least 1"),
    ("n_draws", 10.0, "integer"),
    ("n_draws", "10", "integer"),
    ("n_thin", 0, "at least 1"),
    ("n_thin", 1.0, "integer"),
    ("n_chains", 0, "at least 1"),
    ("n_chains", [1], "integer"),
    ("init", "random", "'auto', 'nmf', 'prior'"),
    ("init", None, "'auto', 'nmf', 'prior'"),
    ("init", [], "auto, nmf, prior"),
    ("init", ["nmf", 3], "'auto', 'nmf', 'prior'"),
    ("random_state", "seed", "RandomState"),
    ("random_state", -1, "RandomState"),
    ("random_state", 1.5, "RandomState"),
    ("n_jobs", 0, "other than 0"),
    ("n_jobs", 1.5, "integer"),
    ("n_jobs", "all", "integer"),
    ("progress", "sometimes", "True or False"),
    ("progress", None, "True or False"),
    ("progress", np.ones(3), "True or False"),
    ("prior_params", [1, 2], "dict"),
    ("prior_params", "a", "dict"),
    ("min_share", -0.1, r"\[0, 1\)"),
    ("min_share", 1.0, r"\[0, 1\)"),
    ("min_share", np.nan, r"\[0, 1\)"),
    ("min_share", "1%", r"\[0, 1\)"),
    ("keep_draws", "yes", "True or False"),
    ("keep_draws", 1, "True or False"),
]


@pytest.mark.usefixtures("no_sampling")
@pytest.mark.parametrize(("name", "value", "taken"), BAD_PARAMETERS)
def test_bad_parameters_are_refused(name, value, taken):
    with pytest.raises((ValueError, TypeError), match=name) as refused:
        small(**{name: value}).fit(BASE)
    refused.match(taken)
    found = value[1] if name == "init" and isinstance(value, list) and value else value
    assert repr(found) in str(refused.value)


@pytest.mark.usefixtures("no_sampling")
def test_fixing_and_bounding_the_number_of_columns_exclude_each_other():
    with pytest.raises(ValueError, match=r"n_components=3 and max_components=4"):
        small(n_components=3, max_components=4).fit(BASE)


BAD_PRIORS = [
    ("bivariate-beta", "a", 0.0),
    ("bivariate-beta", "b", -1.0),
    ("bivariate-beta", "a_shape", 0),
    ("bivariate-beta", "b_rate", np.inf),
    ("copula", "alpha1", 0.0),
    ("copula", "alpha2", -2),
    ("copula", "alpha1", np.nan),
    ("copula", "rho", 1.5),
    ("copula", "rho", "strong"),
    ("gaussian-process", "alpha", 0),
    ("gaussian-process", "alpha", -0.5),
    ("gaussian-process", "alpha", "1"),
    ("gaussian-process", "alpha", True),
    ("gaussian-process", "sigma", 0.0),
    ("gaussian-process", "eta", None),
    ("gaussian-process", "s", -1.0),
]


@pytest.mark.usefixtures("no_sampling")
@pytest.mark.parametrize(("prior", "key", "value"), BAD_PRIORS)
def test_bad_prior_parameters_are_refused(prior, key, value):
    with pytest.raises((ValueError, TypeError), match=rf"prior_params\['{key}'\] must") as refused:
        small(prior=prior, prior_params={key: value}).fit(BASE)
    assert repr(value) in str(refused.value)


@pytest.mark.usefixtures("no_sampling")
@pytest.mark.parametrize("prior", PRIORS)
def test_unknown_prior_parameters_are_refused_with_the_known_ones(prior):
    with pytest.raises(ValueError, match=rf"'beta'.*{prior}.*takes {PRIORS[prior].theta_names[0]}"):
        small(prior=prior, prior_params={"beta": 1.0}).fit(BASE)


def test_using_a_fit_wrongly_is_refused():
    model = quiet_fit(BASE)
    for call in (model.transform, model.score):
        with pytest.raises(ValueError, match=r"Y must .* 6 columns .*\(8, 5\).*5 features"):
            call(BASE[:, :5])
        with pytest.raises(ValueError, match=r"Y\[1, 2\] is -3.5"):
            call(with_cell(-3.5))
        with pytest.raises(ValueError, match=r"Y\[1, 2\] is inf"):
            call(with_cell(np.inf))
        with pytest.raises(TypeError, match="Y must"):
            call(BASE.astype(str))
    with pytest.raises(ValueError, match="Y has no observed cell"):
        model.score(np.full((2, 6), np.nan))
    for rows, cols, kind, message in (
        (8, 0, ValueError, r"rows must lie in 0\.\.7; got 8"),
        (0, -1, ValueError, r"cols must lie in 0\.\.5; got -1"),
        (0.5, 0, TypeError, "rows must be an integer"),
        ("a", 0, TypeError, "rows must be an integer"),
        ([0, 1], [0, 1, 2], ValueError, "rows and cols .* got 2 and 3"),
        ([[0]], 0, TypeError, "rows must be an integer"),
    ):
        with pytest.raises(kind, match=message):
            model.predict(rows, cols)
    for interval in (0.0, 1.0, -1, np.nan, "wide", True):
        with pytest.raises((ValueError, TypeError), match=r"interval must be .* got"):
            model.predict(0, 0, interval=interval)
    with pytest.raises(ValueError, match=r"rows must lie in 0\.\.7; got 9"):
        model.posterior_similarity([0, 9])


def test_new_rows_far_larger_than_the_fitted_are_refused():
    model = quiet_fit(BASE * 1e-200)
    with pytest.raises(ValueError, match=r"Y\[0, 0\] is .* at most \de\+"):
        model.transform(BASE * 1e200)


# ---------------------------------------------------------------------- taken


def with_row(value):
    Y = BASE.copy()
    Y[2] = value
    return Y


def with_column(value):
    Y = BASE.copy()
    Y[:, 3] = value
    return Y


TINY = 5e-324
EDGES = {
    "1×1": np.array([[2.0]]),
    "1×1 zero": np.zeros((1, 1)),
    "one row": BASE[:1],
    "one column": BASE[:, :1],
    "all zeros": np.zeros((5, 4)),
    "all equal": np.full((6, 5), 3.0),
    "a row of zeros": with_row(0.0),
    "a column of zeros": with_column(0.0),
    "a missing row": with_row(np.nan),
    "a missing column": with_column(np.nan),
    "a single observed cell": np.where(np.arange(48).reshape(8, 6) == 7, 1.0, np.nan),
    "zeros and missing": np.where(BASE < 0.5, np.nan, 0.0),
    "times 1e-12": BASE * 1e-12,
    "times 1e12": BASE * 1e12,
    "times 1e-300": BASE * 1e-300,
    "times 1e248": BASE * 1e248,
    "subnormal": BASE * 50 * TINY,
    "smallest": np.full((3, 3), TINY),
    "float16": BASE.astype(np.float16),
    "float32": BASE.astype(np.float32),
    "int8": (BASE * 20).astype(np.int8),
    "uint8": (BASE * 40).astype(np.uint8),
    "int64": np.full((3, 3), 2**62),
    "bool": BASE > 1.0,
    "objects": BASE.astype(object),
    "lists": [[1, 2], [3, 0]],
    "more columns than rows": np.tile(BASE, (1, 4))[:3],
    "a huge cell": with_cell(1e249),
    "a large cell": with_cell(1e15),
    "a tiny cell": with_cell(1e-300),
    "a subnormal cell": with_cell(TINY),
    "sparse": sp.csr_array(np.where(BASE > 1.0, BASE, 0.0)),
    "sparse of nothing": sp.csr_array((5, 4)),
    "sparse bool": sp.coo_matrix(BASE > 1.0),
}


def assert_sane(model, Y):
    """No NaN and nothing negative or infinite in any attribute or result."""
    rows, columns = model._shape
    results = {
        name: getattr(model, name)
        for name in ("components_", "embedding_", "components_mean_", "shares_", "epsilon_",
                     "inclusion_probabilities_")
    } | {
        "reconstruct": model.reconstruct(),
        "transform": model.transform(Y),
        "inverse_transform": model.inverse_transform(model.embedding_),
        "predict": np.concatenate(model.predict(0, np.arange(columns), interval=0.9)),
        "posterior_similarity": model.posterior_similarity(),
    }  # fmt: skip
    for name, values in results.items():
        assert np.all(np.isfinite(values)), name
        assert np.all(np.asarray(values) >= 0.0), name
    assert np.isfinite([model.log_likelihood_, model.score(Y)]).all()
    for group in ("posterior", "sample_stats"):
        for name, variable in model.posterior_[group].data_vars.items():
            assert np.isfinite(variable.values).all(), name
    for statistic, numbers in model.diagnostics_.items():
        assert not np.isnan(list(numbers.values())).any(), statistic
    assert model.components_.shape == (model.n_components_, columns)
    assert model.reconstruct().shape == (rows, columns)


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("prior", PRIORS)
@pytest.mark.parametrize("name", EDGES)
def test_edges_give_sane_results(name, prior, scheme):
    Y = EDGES[name]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert_sane(quiet_fit(Y, prior=prior, scheme=scheme), Y)


@pytest.mark.parametrize(
    "params",
    [
        {"n_components": 2}, {"max_components": 1}, {"init": "prior"}, {"n_warmup": 0},
        {"min_share": 0.0}, {"min_share": 0.99}, {"epsilon": 1e-200}, {"epsilon": 1e-8},
        {"epsilon": 1e20}, {"n_chains": 1}, {"n_thin": 3},
    ],
    ids=str,
)  # fmt: skip
@pytest.mark.parametrize("prior", PRIORS)
def test_extreme_parameters_give_sane_results(prior, params):
    for name in ("1×1", "all zeros", "a missing row", "a large cell"):
        Y = EDGES[name]
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            assert_sane(quiet_fit(Y, prior=prior, **params), Y)


# Sticks this short put the odds of every mask entry near zero.
NEVER_ON = {
    "bivariate-beta": {"a": 1e-6, "b": 1e-6},
    "copula": {"alpha1": 1e-6, "alpha2": 1e-6},
    "gaussian-process": {"alpha": 1e-6},
}


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("prior", PRIORS)
def test_no_factor_at_all(prior, scheme):
    Y = np.ones((6, 5))
    none = quiet_fit(Y, prior=prior, scheme=scheme, init="prior", prior_params=NEVER_ON[prior])
    assert none.n_components_ == none.n_active_ == 0
    assert none.components_.shape == (0, 5)
    assert none.embedding_.shape == none.transform(Y).shape == (6, 0)
    assert none.component_counts_ == {0: 1.0}
    np.testing.assert_array_equal(none.reconstruct(), none.epsilon_)
    np.testing.assert_array_equal(none.inverse_transform(none.embedding_), 0.0)
    assert_sane(none, Y)


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("prior", PRIORS)
def test_a_huge_background_explains_everything(prior, scheme):
    Y = np.ones((6, 5))
    model = quiet_fit(Y, prior=prior, scheme=scheme, epsilon=1e6, n_warmup=30)
    np.testing.assert_allclose(model.reconstruct(), 1e6, rtol=1e-2)
    assert_sane(model, Y)


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("prior", PRIORS)
@pytest.mark.parametrize("power", [-40, 3, 40])
def test_a_power_of_two_scales_everything_to_the_bit(prior, scheme, power):
    factor = 2.0**power
    for Y in (BASE, EDGES["a missing row"]):
        one, other = (quiet_fit(c * Y, prior=prior, scheme=scheme) for c in (1.0, factor))
        np.testing.assert_array_equal(other.embedding_, one.embedding_)
        for name in ("components_", "components_mean_", "epsilon_"):
            np.testing.assert_array_equal(getattr(other, name), getattr(one, name) * factor)
        for mine, theirs in zip(one._draws(), other._draws(), strict=True):
            for t in range(2):
                np.testing.assert_array_equal(mine.index[t], theirs.index[t])
                np.testing.assert_array_equal(mine.values[t], theirs.values[t])
        np.testing.assert_array_equal(other.reconstruct(), one.reconstruct() * factor)
        np.testing.assert_array_equal(other.transform(factor * Y), one.transform(Y))
        shift = np.log(factor)
        assert other.score(factor * Y) == pytest.approx(one.score(Y) - shift, rel=1e-12)
        n_observed = np.sum(~np.isnan(Y))
        assert other.log_likelihood_ == pytest.approx(one.log_likelihood_ - n_observed * shift)


def test_any_scale_gives_the_same_draws_up_to_rounding():
    one = quiet_fit(BASE, n_warmup=3, n_draws=3)
    for factor in (1e-12, 1e12):
        other = quiet_fit(BASE * factor, n_warmup=3, n_draws=3)
        assert other.n_components_ == one.n_components_
        np.testing.assert_allclose(other.reconstruct(), one.reconstruct() * factor, rtol=1e-6)


@pytest.mark.parametrize("dtype", [np.float32, np.int8, np.uint8, np.bool_])
def test_dtypes_are_read_as_their_values(dtype):
    Y = (BASE * 10).astype(dtype)
    one, other = quiet_fit(Y), quiet_fit(Y.astype(np.float64))
    np.testing.assert_array_equal(one.components_, other.components_)
    assert one.components_.dtype == np.float64
    np.testing.assert_array_equal(one.transform(Y), other.transform(Y))


def test_missing_rows_and_columns_are_drawn_from_the_prior():
    Y = BASE.copy()
    Y[2] = np.nan
    Y[:, 3] = np.nan
    model = quiet_fit(Y)
    assert model.predict(2, 3)[0] >= model.epsilon_
    assert model.posterior_["observed_data"].attrs["n_observed"] == 35
    assert model.transform(np.full((1, 6), np.nan)).shape == (1, model.n_components_)


@pytest.mark.parametrize("n_draws", [1, 2, 3])
def test_fewest_draws(n_draws):
    with pytest.warns(ConvergenceWarning, match="too few draws"):
        model = small(n_draws=n_draws, n_warmup=0, n_chains=1).fit(BASE)
    assert model.posterior_["posterior"].sizes["draw"] == n_draws
    assert np.isfinite(model.reconstruct()).all()
