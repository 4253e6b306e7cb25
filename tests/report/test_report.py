"""The report's words and payload, without a browser."""

from __future__ import annotations

import base64
import json
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy import sparse

from dibpnmf.datasets import make_planted
from dibpnmf.report import page, reconstruction, words, write_report
from dibpnmf.report.reconstruction import Fit
from tests.report.conftest import EVIL, fit


def payload_of(path) -> dict:
    text = path.read_text(encoding="utf-8")
    return json.loads(re.search(r'id="payload">(.*?)</script>', text, re.DOTALL)[1])


def words_of(path) -> str:
    """Text of the page outside scripts and styles."""
    text = path.read_text(encoding="utf-8")
    text = re.sub(r"<(script|style).*?</\1>|<!--.*?-->", "", text, flags=re.DOTALL)
    return re.sub(r"<[^>]+>", " ", text)


# ---------------------------------------------------------------------- what is in it


def test_says_in_words_what_was_found(report, planted):
    model, _ = planted
    text = words_of(report)
    assert f"{model.n_components_} factors, with probability" in text
    assert "of the variation between cells" in text
    assert "Can I trust it?" in text


def test_factors_are_the_models(report, planted):
    model, data = planted
    found = payload_of(report)
    assert [f["share"] for f in found["factors"]] == pytest.approx(model.shares_.tolist())
    first = found["factors"][0]
    order = np.argsort(-model.components_mean_[0])
    assert [c[0] for c in first["columns"][:5]] == [data.columns[j] for j in order[:5]]
    assert first["columns"][0][0] == EVIL
    weights = model.components_mean_[0] / model.components_mean_[0].sum()
    for (_, weight, probability), j in zip(first["columns"], order, strict=False):
        assert weight == pytest.approx(weights[j], abs=1e-4)
        assert probability == pytest.approx(model.inclusion_probabilities_[0, j], abs=1e-2)
    assert first["rowsUsing"] == np.sum(model.embedding_[:, 0] > 0)


def test_shares_of_rows_survive_their_bytes(report, planted):
    model, data = planted
    rows = payload_of(report)["rows"]
    coded = np.frombuffer(base64.b64decode(rows["shares"]), np.uint8)
    decoded = (coded.reshape(model.embedding_.shape) / 255.0) ** 2
    parts = model.embedding_ * model.components_.sum(axis=1)
    exact = parts / np.maximum(parts.sum(axis=1, keepdims=True), 1e-300)
    np.testing.assert_allclose(decoded, exact, atol=0.005)
    np.testing.assert_array_equal(decoded > 0, model.embedding_ > 0)
    assert rows["names"] == list(data.index)


def test_maps_average_all_cells(planted):
    model, data = planted
    observations = reconstruction.read_data(model, data)
    maps = reconstruction.maps(
        model, observations, reconstruction.sample_cells(model, observations)
    )
    rows, columns = (np.concatenate(part) for part in (maps.rows, maps.columns))
    # 40 × 30 cells: each is a block of its own.
    np.testing.assert_allclose(maps.data, data.to_numpy()[np.ix_(rows, columns)])
    # The map averages a part of the draws.
    mean = model.reconstruct()[np.ix_(rows, columns)]
    assert np.abs(maps.mean - mean).mean() < 0.05 * mean.mean()


def test_maps_of_blocks_are_means_of_their_cells(planted, monkeypatch):
    monkeypatch.setattr(reconstruction, "_SIDE", 7)
    monkeypatch.setattr(reconstruction, "_DRAWS", 1000)
    model, data = planted
    observations = reconstruction.read_data(model, data)
    maps = reconstruction.maps(
        model, observations, reconstruction.sample_cells(model, observations)
    )
    for values, blocks in ((data.to_numpy(), maps.data), (model.reconstruct(), maps.mean)):
        for i, rows in enumerate(maps.rows):
            for j, columns in enumerate(maps.columns):
                assert blocks[i, j] == pytest.approx(values[np.ix_(rows, columns)].mean())


def test_names_cannot_leave_the_payload(report):
    text = report.read_text(encoding="utf-8")
    assert EVIL not in text
    assert "\\u003cscript\\u003ealert(1)" in text


def test_no_address_outside_the_file(report):
    text = words_of(report) + re.search(r"<head>.*?<style>", report.read_text(), re.DOTALL)[0]
    assert "http:" not in text
    assert "https:" not in text
    assert "default-src 'none'" in text


@pytest.mark.parametrize(
    ("given", "shown"),
    [
        (["a", "a", ""], ["a (row 1)", "a (row 2)", "no name (row 3)"]),
        ([1, 2.5, None], ["1", "2.5", "None"]),
        (["x" * 500, "two\nlines", "\ud800"], ["x" * 119 + "…", "two lines", "?"]),
    ],
)
def test_names_are_text_and_differ(tmp_path, given, shown):
    model = fit(make_planted(3, 12, 1, random_state=0).data, n_draws=4, n_warmup=4)
    path = write_report(model, tmp_path / "r.html", row_names=given, title="<b>\ud800")
    assert payload_of(path)["rows"]["names"] == shown
    assert "&lt;b&gt;?" in path.read_text(encoding="utf-8")


# ---------------------------------------------------------------------- every kind of fit


def test_without_data_it_does_not_judge_the_fit(planted, tmp_path):
    model, _ = planted
    path = write_report(model, tmp_path / "r.html")
    assert "made without the data" in words_of(path)
    found = payload_of(path)
    assert "data" not in found["charts"]
    assert "mean" in found["charts"]
    assert found["rows"]["names"][0] == "row 1"
    assert EVIL in [c[0] for c in found["factors"][0]["columns"]]  # the fit knew its columns


def test_without_draws(tmp_path):
    Y = make_planted(20, 15, 2, random_state=0).data
    model = fit(Y, keep_draws=False)
    path = write_report(model, tmp_path / "r.html", data=Y)
    assert "of the variation between cells" in words_of(path)


def test_missing_cells_are_left_out_of_both_maps(tmp_path):
    Y = make_planted(20, 15, 2, random_state=0).data
    Y[3:7, 2:9] = np.nan
    model = fit(Y)
    maps = reconstruction.maps(
        model,
        observations := reconstruction.read_data(model, Y),
        reconstruction.sample_cells(model, observations),
    )
    rows, columns = (np.concatenate(part) for part in (maps.rows, maps.columns))
    np.testing.assert_allclose(maps.data, Y[np.ix_(rows, columns)])
    np.testing.assert_array_equal(np.isnan(maps.mean), np.isnan(maps.data))
    assert "272 cells observed" in words_of(write_report(model, tmp_path / "r.html", data=Y))


def test_sparse_ratings(tmp_path):
    Y = sparse.random_array((20, 15), density=0.3, rng=np.random.default_rng(0), format="csr")
    model = fit(Y, zeros="missing")
    path = write_report(model, tmp_path / "r.html", data=Y)
    assert "90 cells observed" in words_of(path)


def test_nothing_to_find(tmp_path):
    Y = np.zeros((6, 5))
    model = fit(Y, n_draws=10)
    path = write_report(model, tmp_path / "r.html", data=Y)
    assert payload_of(path)["factors"] == []
    assert "0 factors" in words_of(path)


def test_a_fixed_number_and_a_single_chain(tmp_path):
    Y = make_planted(20, 15, 2, random_state=0).data
    text = words_of(write_report(fit(Y, n_components=3, n_chains=1), tmp_path / "r.html"))
    assert "fixed at 3 before fitting" in text
    assert "A single chain cannot show" in text


def test_images_are_pictures(tmp_path):
    Y = make_planted(20, 12, 2, random_state=0).data
    model = fit(Y)
    path = write_report(model, tmp_path / "r.html", data=Y, image_shape=(3, 4))
    factor = payload_of(path)["factors"][0]
    from matplotlib.image import imread

    png = base64.b64decode(factor["image"].removeprefix("data:image/png;base64,"))
    (tmp_path / "f.png").write_bytes(png)
    alpha = imread(tmp_path / "f.png")[..., 3]
    expected = model.components_mean_[0].reshape(3, 4)
    np.testing.assert_allclose(alpha, expected / expected.max(), atol=0.003)
    at = np.unravel_index(expected.argmax(), (3, 4))
    assert factor["columns"][0][0] == f"pixel ({at[0] + 1}, {at[1] + 1})"


def test_of_very_many_rows_a_part_is_searched(planted, tmp_path, monkeypatch):
    from dibpnmf.report import factors

    monkeypatch.setattr(factors, "_MOST_ROWS", 10)
    model, data = planted
    rows = payload_of(write_report(model, tmp_path / "r.html", data=data))["rows"]
    assert (len(rows["names"]), rows["of"]) == (10, 40)


# ---------------------------------------------------------------------- verdicts


@pytest.mark.parametrize(
    ("explained", "expected", "level", "says"),
    [
        (0.5, (0.45, 0.55), words.GOOD, "as well as can be asked"),
        (0.9, (0.45, 0.55), words.GOOD, "less noisy than the model takes them to be"),
        (0.3, (0.45, 0.55), words.CARE, "more in the data than the factors say"),
        (-0.2, (0.45, 0.55), words.BAD, "more in the data than the factors say"),
    ],
)
def test_verdict_on_the_fit(planted, explained, expected, level, says):
    verdict = words.about_fit(planted[0], Fit(explained, expected, None, 0.02))
    assert verdict.level == level
    assert says in verdict.sentences[0]
    assert ("none" in verdict.headline) == (explained < 0)


def test_a_reconstruction_that_is_off_on_average_is_told(planted):
    verdict = words.about_fit(planted[0], Fit(0.5, (0.45, 0.55), None, 0.19))
    assert verdict.level == words.GOOD
    assert "On average it lies 19% above the data." in verdict.sentences
    assert words.about_fit(planted[0], Fit(0.5, (0.45, 0.55), None, -0.3)).level == words.CARE


def test_data_of_the_model_itself_fit_as_expected(planted):
    model, _ = planted
    rng = np.random.default_rng(3)
    data = pd.DataFrame(rng.exponential(model.reconstruct()), columns=model.feature_names_in_)
    sample = reconstruction.sample_cells(model, reconstruction.read_data(model, data))
    low, high = reconstruction.judge(model, sample).expected
    assert low - 0.05 < reconstruction.judge(model, sample).explained < high + 0.05
    noise = replace(sample, y=rng.permutation(sample.y))
    assert words.about_fit(model, reconstruction.judge(model, noise)).level == words.BAD


def settled(model, **scalars):
    """The model with diagnostics as good as they can be, but for those given."""
    import copy

    model = copy.copy(model)
    good = {"r_hat": 1.0, "ess_bulk": 400.0, "ess_tail": 400.0}
    model.diagnostics_ = {
        part: {name: scalars.get(name, {}).get(part, value) for name in model.diagnostics_["r_hat"]}
        for part, value in good.items()
    }
    model._touched = 0.0
    return model


@pytest.mark.parametrize(
    ("scalars", "headline", "says"),
    [
        ({}, "Yes", "agree"),
        ({"log_likelihood": {"r_hat": 1.4}}, "Not yet", "The chains disagree: fit to the data"),
        ({"log_likelihood": {"r_hat": np.nan}}, "Not yet", "Too few draws to judge"),
        ({"tau_rows": {"ess_bulk": 20.0}}, "With care", "Too few independent draws: size of"),
    ],
)
def test_verdict_on_trust(planted, scalars, headline, says):
    verdict = words.about_trust(settled(planted[0], **scalars))
    assert verdict.headline == headline
    assert says in " ".join(verdict.sentences)
    assert ("Run longer" in " ".join(verdict.sentences)) == bool(scalars)


def test_trust_names_a_truncation_that_binds_and_a_run_stopped_early(planted):
    model = settled(planted[0])
    model._touched, model.n_draws = 0.5, 100
    verdict = words.about_trust(model)
    assert verdict.headline == "With care"
    assert f"max_components={2 * model.max_components_}" in " ".join(verdict.sentences)
    assert "stopped early: 40 draws instead of 100" in " ".join(verdict.sentences)


# ---------------------------------------------------------------------- errors and files


@pytest.mark.parametrize(
    ("arguments", "error", "says"),
    [
        ({"image_shape": (5, 5)}, ValueError, "30; got 5 × 5 = 25"),
        ({"image_shape": "5x6"}, TypeError, "(height, width); got '5x6'"),
        ({"image_shape": (-5, -6)}, ValueError, "image_shape must be at least 1; got -5"),
        ({"row_names": ["a"]}, ValueError, "each of the 40 rows; got 1 names"),
        ({"data": np.ones((3, 30))}, ValueError, "of shape (40, 30); got shape (3, 30)"),
    ],
)
def test_wrong_arguments_are_named_and_nothing_is_written(
    planted, tmp_path, arguments, error, says
):
    with pytest.raises(error, match=re.escape(says)):
        write_report(planted[0], tmp_path / "r.html", **arguments)
    assert list(tmp_path.iterdir()) == []


def test_wrong_paths(planted, tmp_path):
    with pytest.raises(ValueError, match="there is no"):
        write_report(planted[0], tmp_path / "none" / "r.html")
    with pytest.raises(ValueError, match="is a folder"):
        write_report(planted[0], tmp_path)


def test_an_old_report_survives_a_failure(planted, tmp_path, monkeypatch):
    path = tmp_path / "r.html"
    path.write_text("old")

    def fails(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(page.os, "replace", fails)
    with pytest.raises(OSError, match="No space left"):
        write_report(planted[0], path)
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.filterwarnings("ignore")
def test_the_example_of_the_documentation_runs(tmp_path, monkeypatch):
    text = (Path(__file__).parents[2] / "docs" / "report.md").read_text(encoding="utf-8")
    code = re.search(r"```python\n(.*?)```", text, re.DOTALL)[1]
    monkeypatch.chdir(tmp_path)
    exec(code.replace("=200", "=10"), {})
    assert "Genes of 100 patients" in words_of(tmp_path / "report.html")
