"""Pieces, claims, the command line, and a tiny version of every experiment."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner, Result
from scipy import sparse
from sklearn.utils import Bunch

from dibpnmf.cli import main
from dibpnmf.datasets import Ratings
from dibpnmf.experiments import chains, clustering, convergence, recommender, run, synthetic
from dibpnmf.experiments.base import MODELS, Experiment, Settings, select
from dibpnmf.experiments.claims import Claim, claims_table, verdict
from dibpnmf.experiments.pieces import Outcome, Piece, Store, run_pieces

# ------------------------------------------------------------------ claims


def test_verdict_counts_its_parts() -> None:
    assert verdict(True, True) == "yes"
    assert verdict(True, False) == "in part"
    assert verdict(False, False) == "no"


def test_claims_table_has_a_row_per_claim_and_escapes_bars() -> None:
    table = claims_table(
        [Claim("|x| < 1", "IV", "0.5", "yes"), Claim("y", "V", "two\nlines", "no")]
    )
    lines = table.strip().split("\n")
    assert lines[0] == "| the paper says | where | we measured | holds? |"
    assert lines[2] == "| \\|x\\| < 1 | IV | 0.5 | **yes** |"
    assert lines[3] == "| y | V | two lines | **no** |"
    assert len(lines) == 4


# ------------------------------------------------------------------ pieces


def _pieces(n: int = 4) -> list[Piece]:
    return [
        Piece("copula:copula_sample",
              {"rho": 0.5, "alpha1": 1.0, "alpha2": 1.0, "n": 500, "seed": seed})
        for seed in range(n)
    ]  # fmt: skip


@pytest.fixture
def runs(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Seeds of the pieces that are run, in order."""
    seen: list[int] = []
    original = Piece.run

    def counted(piece: Piece) -> Any:
        seen.append(piece.parameters["seed"])
        return original(piece)

    monkeypatch.setattr(Piece, "run", counted)
    return seen


def test_a_stopped_run_does_not_redo_finished_pieces(tmp_path: Path, runs: list[int]) -> None:
    done: list[Piece] = []

    def stop_after_two(piece: Piece) -> None:
        done.append(piece)
        if len(done) == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_pieces(_pieces(), Store(tmp_path), 1, stop_after_two)
    assert runs == [0, 1]
    outcomes = run_pieces(_pieces(), Store(tmp_path), 1, done.append)
    assert runs == [0, 1, 2, 3]
    assert [outcome.parameters["seed"] for outcome in outcomes] == [0, 1, 2, 3]
    assert [piece.parameters["seed"] for piece in done[2:]] == [0, 1, 2, 3]


def test_an_interrupted_piece_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(piece: Piece) -> Any:
        raise KeyboardInterrupt

    monkeypatch.setattr(Piece, "run", interrupted)
    with pytest.raises(KeyboardInterrupt):
        run_pieces(_pieces(1), Store(tmp_path), 1, print)
    assert list(tmp_path.iterdir()) == []


def test_a_damaged_piece_is_run_again(tmp_path: Path, runs: list[int]) -> None:
    (piece,) = _pieces(1)
    first = run_pieces([piece], Store(tmp_path), 1, lambda piece: None)
    (tmp_path / piece.name).write_text('{"parameters": {')
    second = run_pieces([piece], Store(tmp_path), 1, lambda piece: None)
    assert runs == [0, 0]
    assert first[0].value == second[0].value


def test_other_parameters_are_another_piece_but_another_cost_is_not() -> None:
    one, other = Piece("a:b", {"x": 1}), Piece("a:b", {"x": 2})
    assert one.name != other.name
    assert one.name == Piece("a:b", {"x": 1}, cost=9.0).name
    assert one.name != Piece("a:c", {"x": 1}).name


def test_processes_give_what_one_gives(tmp_path: Path) -> None:
    alone = run_pieces(_pieces(3), Store(tmp_path / "1"), 1, lambda piece: None)
    told: list[Piece] = []
    together = run_pieces(_pieces(3), Store(tmp_path / "2"), 2, told.append)
    assert [o.value for o in alone] == [o.value for o in together]
    assert len(told) == 3
    assert not list((tmp_path / "2").glob(".*"))  # no temporary files are left


def test_meter_counts_down_to_nothing() -> None:
    meter = run.Meter(_pieces(), n_pieces=6, jobs=2, show=False)
    assert meter.seconds_left() == pytest.approx(2.0)
    for piece in _pieces():
        meter.finish(piece)
    assert meter.seconds_left() == 0.0


# ------------------------------------------------------------------ command line


def _call(*arguments: str) -> Result:
    return CliRunner().invoke(main, ["reproduce", *arguments])


def _is_one_clear_line(result: Result, *words: str) -> None:
    assert result.exit_code == 2
    lines = result.output.strip().split("\n")
    assert len(lines) == 1
    assert lines[0].startswith("Error: ")
    for word in words:
        assert word in lines[0]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["nonsense"], ["nonsense", "recommender"]),
        ([], ["EXPERIMENT"]),
        (["copula", "--seed", "-1"], ["--seed", "-1"]),
        (["copula", "--jobs", "0"], ["--jobs", "0"]),
        (["recommender", "--fold", "6"], ["--fold", "6"]),
        (["copula", "--unknown"], ["--unknown"]),
    ],
)
def test_wrong_arguments(arguments: list[str], words: list[str]) -> None:
    _is_one_clear_line(_call(*arguments), *words)


def test_a_folder_that_cannot_be_written(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.touch()
    _is_one_clear_line(_call("copula", "--out", str(file / "inside")), "cannot write", "inside")


@pytest.mark.parametrize(
    ("experiment", "archive"), [("clustering", "citeseer.tgz"), ("recommender", "ml-100k.zip")]
)
def test_missing_data(
    experiment: str, archive: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DIBPNMF_DATA", str(tmp_path / "nowhere"))
    clustering.load.cache_clear()
    recommender.load.cache_clear()
    result = _call(experiment, "--out", str(tmp_path / "out"))
    _is_one_clear_line(result, archive, "DIBPNMF_DATA")


def test_ctrl_c_is_one_line_and_130(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*arguments: Any) -> Any:
        raise KeyboardInterrupt

    monkeypatch.setattr(run, "reproduce", interrupted)
    result = _call("copula", "--out", str(tmp_path))
    assert result.exit_code == 130
    assert result.output.strip().count("\n") == 0
    assert "continues" in result.output


# ------------------------------------------------------------------ tiny experiments

SMALL = {"n_sweeps": 40, "n": 400, "n_warmup": 2}


def _tiny(experiment: Experiment, settings: Settings) -> list[Outcome]:
    """Outcomes under the parameters of a quick run, made with far smaller ones."""
    outcomes = []
    for piece in experiment.pieces(settings):
        small = {key: SMALL.get(key, value) for key, value in piece.parameters.items()}
        if "n_draws" in small:
            small["n_draws"] = min(small["n_draws"], 20)
        outcomes.append(Outcome(piece.parameters, _plain(Piece(piece.task, small).run()), 0.1))
    return outcomes


def _plain(value: Any) -> Any:
    return json.loads(json.dumps(value, default=lambda array: array.tolist()))


def _documents(dataset: str) -> Bunch:
    rng = np.random.default_rng(0)
    target = np.repeat([0, 1, 2], 20)
    rate = np.where(np.arange(45) // 15 == target[:, None], 0.4, 0.03)
    return Bunch(data=sparse.csr_array((rng.random(rate.shape) < rate) * 1.0), target=target)


def _ratings(fold: int) -> Bunch:
    rng = np.random.default_rng(fold)
    cells = rng.permutation(40 * 30)[:500]
    values = rng.integers(1, 6, 500).astype(float)
    parts = [
        Ratings(cells[part] // 30, cells[part] % 30, values[part])
        for part in (slice(0, 400), slice(400, 500))
    ]
    # The last film is never seen in training.
    train = Ratings(*(array[parts[0].cols < 29] for array in parts[0]))
    return Bunch(train=_Shaped(*train), test=parts[1], shape=(40, 30))


class _Shaped(Ratings):
    def to_csr(self, shape: tuple[int, int] = (40, 30)) -> sparse.csr_array:
        return super().to_csr(shape)


@pytest.fixture
def _small_data(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clustering, "load", _documents)
    monkeypatch.setattr(recommender, "load", _ratings)
    monkeypatch.setattr(synthetic, "N_FACTORS", (1, 2, 5))


@pytest.fixture(scope="module")
def chain_outcomes() -> dict[str, Any]:
    """Tiny chains, run once for the three experiments that read them."""
    found: dict[str, Any] = {}
    for piece in chains.pieces(Settings(quick=True)):
        parameters = {**piece.parameters, "n_sweeps": 40, "seed": piece.parameters["seed"] % 2}
        same = found.get(Piece(piece.task, {**piece.parameters, "seed": parameters["seed"]}).name)
        found[piece.name] = same or _plain(Piece(piece.task, parameters).run())
    return found


@pytest.mark.filterwarnings("ignore")  # chains and descents this short do not converge
@pytest.mark.usefixtures("_small_data")
@pytest.mark.parametrize("name", run.EXPERIMENTS)
def test_tiny(
    name: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    chain_outcomes: dict[str, Any],
) -> None:
    experiment = run.experiment_of(name)
    settings = Settings(quick=True, folds=(1, 2))
    original = Piece.run
    by_parameters = {
        json.dumps({**piece.parameters, "n_sweeps": 40}): chain_outcomes[piece.name]
        for piece in chains.pieces(settings)
    }

    def remembered(piece: Piece) -> Any:
        if piece.task == "chains:run_chain":
            return by_parameters[json.dumps(piece.parameters)]
        return original(piece)

    monkeypatch.setattr(Piece, "run", remembered)
    draw_all = experiment.figures
    monkeypatch.setattr(  # drawing takes longest: two of the figures are enough
        experiment, "figures", lambda results: dict(list(draw_all(results).items())[-2:])
    )
    outcomes = _tiny(experiment, settings)
    claims = run.write_experiment(experiment, settings, outcomes, tmp_path)
    folder = tmp_path / name
    record = json.loads((folder / "results.json").read_text())
    assert record["claims"] == [claim.as_dict() for claim in claims]
    assert record["sizes"]
    page = (folder / "README.md").read_text()
    assert "| the paper says | where | we measured | holds? |" in page
    for claim in claims:
        assert claim.paper.replace("|", "\\|") in page
    figures = list(folder.glob("*.png"))
    assert figures
    for figure in figures:
        assert figure.read_bytes().startswith(b"\x89PNG")
        assert figure.with_suffix(".pdf").read_bytes().startswith(b"%PDF")
        assert figure.name in page
    assert not list(folder.glob(".*"))


def test_copula_claims_reject_wrong_numbers() -> None:
    experiment = run.experiment_of("copula")
    settings = Settings(quick=True)
    outcomes = [
        Outcome(piece.parameters,
                {"spearman": piece.parameters["rho"] / 3, "margin_distance": 0.001}, 0.1)
        if "rho" in piece.parameters
        else Outcome(piece.parameters, _fake_copula(piece), 0.1)
        for piece in experiment.pieces(settings)
    ]  # fmt: skip
    holds = {c.paper: c.holds for c in experiment.claims(experiment.results(settings, outcomes))}
    assert holds["The Spearman correlation of the FGM copula is ρ/3"] == "yes"
    assert holds["The correlation of the bivariate beta at a = 2.5, b = 4 is 0.978"] == "no"
    assert holds["The correlation of the bivariate beta at a = 0.05, b = 0.1 is 0.080"] == "yes"


def _fake_copula(piece: Piece) -> dict[str, float]:
    if "spearman" in piece.parameters:
        return {"bivariate-beta": 0.0, "copula": 1.0}
    pearson = 0.687 if piece.parameters["a"] == 2.5 else 0.08
    return {"pearson": pearson, "error": 0.0001, "spearman": 0.5, "margin_distance": 0.0}


def test_all_writes_an_index_with_every_claim(tmp_path: Path) -> None:
    experiments = [run.experiment_of(name) for name in run.EXPERIMENTS]
    found = {e.name: [Claim(f"claim of {e.name}", "VI", "1", "in part")] for e in experiments}
    run.write_index(experiments, found, Settings(), tmp_path)
    index = (tmp_path / "README.md").read_text()
    for experiment in experiments:
        assert f"| [{experiment.title}]({experiment.name}/README.md) | 0 | 1 | 0 | 0 |" in index
        assert f"claim of {experiment.name}" in index


def test_convergence_is_when_the_level_is_reached() -> None:
    noise = np.random.default_rng(0).normal(0, 1, 1000)
    climb = np.minimum(np.arange(1000), 300.0) + noise
    assert 280 <= chains.sweeps_to_converge(climb) <= 305
    assert chains.sweeps_to_converge(noise) < 100
    assert convergence._still_rising(np.arange(800.0))
    assert not convergence._still_rising(climb)


def test_select_takes_absent_parameters_as_none() -> None:
    outcomes = [Outcome({"a": 1}, "x", 0.0), Outcome({"a": 1, "b": 2}, "y", 0.0)]
    assert select(outcomes, a=1, b=None) == ["x"]
    assert select(outcomes, a=1) == ["x", "y"]


def test_documents_without_a_factor_do_not_break_the_clustering(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(clustering, "load", _documents)
    A = np.eye(3)[np.repeat([0, 1, 2], 20)]
    A[:5] = 0.0
    assert clustering.cluster("cora", A, 0)["NMI"] > 0.8
    assert clustering.cluster("cora", np.zeros((60, 3)), 0)["NMI"] == 0.0


def test_every_model_of_the_paper_is_a_prior() -> None:
    from dibpnmf.priors import PRIORS

    assert set(MODELS) == set(PRIORS)


def test_crossing_is_where_sparse_nmf_stays_worse() -> None:
    sparse = {2: 0.7, 10: 0.8, 20: 1.0}
    assert recommender.crossing(sparse, 0.9) == pytest.approx(15.0)
    assert recommender.crossing(sparse, 0.6) is None  # never better
    assert recommender.crossing(sparse, 1.1) is None  # never worse
