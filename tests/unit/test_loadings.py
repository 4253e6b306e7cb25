"""Fits with each prior of the loadings, as a user makes them."""

from __future__ import annotations

import numpy as np
import pytest

from dibpnmf import DIBPNMF
from dibpnmf.loadings import LOADINGS

SMALL = {"likelihood": "gaussian", "n_warmup": 15, "n_draws": 15, "n_chains": 2, "random_state": 0}


def ratings(seed: int = 0) -> np.ndarray:
    """A matrix that everyone's one factor explains, a third of it missing."""
    rng = np.random.default_rng(seed)
    Y = np.outer(rng.normal(2.0, 0.2, 40), rng.normal(1.5, 0.2, 30))
    Y = np.maximum(Y + rng.normal(0.0, 0.3, Y.shape), 0.0)
    Y[rng.random(Y.shape) < 0.33] = np.nan
    return Y


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("loadings", LOADINGS)
def test_fit_transform_predict_and_resume(loadings, tmp_path):
    Y = ratings()
    model = DIBPNMF(loadings=loadings, checkpoint=tmp_path / "run", **SMALL).fit(Y)
    assert model.transform(Y[:3]).shape == (3, model.n_components_)
    assert np.isfinite(model.score(ratings(1)))
    mean, low, high = model.predict([0, 1], [2, 3], interval=0.9)
    assert np.all((low <= mean) & (mean <= high))
    read = DIBPNMF.load(tmp_path / "run")
    assert read.loadings == loadings
    np.testing.assert_array_equal(read.predict([0, 1], [2, 3]), model.predict([0, 1], [2, 3]))
    np.testing.assert_array_equal(read.transform(Y[:3]), model.transform(Y[:3]))
    assert ("tau_rows" in model.diagnostics_["r_hat"]) == (loadings == "shared")


@pytest.mark.filterwarnings("ignore")
def test_loadings_that_gather_about_a_mean_are_predicted_better():
    """Few cells a row: an exponential prior draws loadings to zero, a learned mean does not."""
    rng = np.random.default_rng(3)
    A, X = rng.normal(2.0, 0.2, 150), rng.normal(1.5, 0.2, 40)
    truth = np.outer(A, X)
    Y = np.maximum(truth + rng.normal(0.0, 0.8, truth.shape), 0.0)
    Y[rng.random(Y.shape) < 0.85] = np.nan
    rows, columns = np.nonzero(np.isnan(Y))
    error = {}
    for loadings in ("shared", "truncated-normal"):
        model = DIBPNMF(loadings=loadings, **SMALL | {"n_warmup": 100, "n_draws": 100}).fit(Y)
        gap = model.predict(rows, columns) - truth[rows, columns]
        error[loadings] = float(np.sqrt(np.mean(gap**2)))
    assert error["truncated-normal"] < 0.9 * error["shared"], error


@pytest.mark.parametrize(
    ("parameters", "words"),
    [
        ({"loadings": "normal"}, "truncated-normal"),
        ({"loadings": "truncated-normal"}, "likelihood='gaussian'"),
        ({"loadings": "per-factor", "scheme": "literal"}, "scheme='joint'"),
    ],
)
def test_wrong_pairs_say_so(parameters, words):
    with pytest.raises(ValueError, match=words):
        DIBPNMF(**parameters).fit(np.ones((4, 4)))
