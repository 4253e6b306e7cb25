"""scikit-learn's own checks, for every prior."""

from __future__ import annotations

import pickle
import warnings

import joblib
import numpy as np
import pytest
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer
from sklearn.utils.estimator_checks import parametrize_with_checks

from dibpnmf import DIBPNMF
from dibpnmf.datasets import make_planted
from dibpnmf.priors import PRIORS

# A sampler cannot meet these two; every other check passes.
_REASON = (
    "fit_transform gives A of the chosen posterior draw, transform the mean of rows that are "
    "sampled anew given X: equal in distribution, not in value."
)
EXPECTED_TO_FAIL = dict.fromkeys(
    ("check_transformer_general", "check_transformer_data_not_an_array"), _REASON
)


def small(prior: str = "bivariate-beta", **params: object) -> DIBPNMF:
    return DIBPNMF(prior=prior, n_warmup=15, n_draws=15, n_chains=2, **params)


@parametrize_with_checks(
    [small(prior) for prior in PRIORS], expected_failed_checks=lambda _: EXPECTED_TO_FAIL
)
def test_scikit_learn_checks(estimator, check):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        check(estimator)


@pytest.fixture(scope="module")
def planted():
    return make_planted(40, 30, 3, random_state=0).data


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_pipeline_clone_and_grid_search_over_priors(planted):
    pipeline = make_pipeline(FunctionTransformer(), small(random_state=0))
    assert pipeline.fit_transform(planted).shape[0] == 40
    search = GridSearchCV(small(random_state=0), {"prior": list(PRIORS)}, cv=2).fit(planted)
    assert np.isfinite(search.cv_results_["mean_test_score"]).all()
    assert clone(search.best_estimator_).get_params()["prior"] == search.best_params_["prior"]


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("prior", PRIORS)
def test_pickle_and_joblib_round_trips(planted, prior, tmp_path):
    model = small(prior, random_state=0).fit(planted)
    joblib.dump(model, tmp_path / "model.joblib")
    for copy in (pickle.loads(pickle.dumps(model)), joblib.load(tmp_path / "model.joblib")):
        np.testing.assert_array_equal(copy.components_, model.components_)
        np.testing.assert_array_equal(copy.transform(planted), model.transform(planted))
        np.testing.assert_array_equal(copy.predict([0, 1], [2, 3]), model.predict([0, 1], [2, 3]))
        assert copy.posterior_["posterior"].sizes["draw"] == 15


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_names_and_output_containers(planted):
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame(planted, columns=[f"word{n}" for n in range(30)])
    model = small(random_state=0).fit(frame)
    assert list(model.feature_names_in_) == list(frame.columns)
    names = model.get_feature_names_out()
    assert list(names) == [f"dibpnmf{k}" for k in range(model.n_components_)]
    model.set_output(transform="pandas")
    assert list(model.transform(frame).columns) == list(names)
    assert isinstance(model.predict(frame), np.ndarray)
