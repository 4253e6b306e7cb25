"""The command line: results on stdout, errors in one line, exit codes, runs kept."""

from __future__ import annotations

import csv
import html
import io
import json
import os
import pty
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp
from click.testing import CliRunner

from dibpnmf import DIBPNMF
from dibpnmf._progress import Progress
from dibpnmf.cli import main
from dibpnmf.commands.escaping import escaped
from dibpnmf.commands.options import in_options
from dibpnmf.datasets import make_planted

pytestmark = pytest.mark.filterwarnings(
    "ignore::sklearn.exceptions.ConvergenceWarning", "ignore:The last of"
)

Y = make_planted(12, 10, 2, random_state=0).data
Y[-1] += 5.0  # so that it has a factor in every draw
ROWS = [f"row {i}" for i in range(11)] + ["=HYPERLINK(1)"]
COLUMNS = [f"c{j}" for j in range(9)] + ["<script>alert(1)</script>"]
SHORT_WITHOUT_SEED = ["--warmup", "12", "--draws", "8", "--chains", "2", "--jobs", "1"]
SHORT = [*SHORT_WITHOUT_SEED, "--seed", "0"]


def run(*arguments, code=None):
    """Call a command in this process; errors are one line, and never a traceback."""
    result = CliRunner().invoke(main, [str(argument) for argument in arguments])
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    assert "Traceback" not in result.output
    if result.exit_code in (1, 2) and not result.stderr.startswith("Usage"):
        assert result.stderr.startswith("Error: ")
        assert len(result.stderr.splitlines()) == 1
    if code is not None:
        assert result.exit_code == code, result.output
    return result


def write_csv(path, Y=Y, rows=ROWS, columns=COLUMNS):
    with open(path, "w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["", *columns])
        writer.writerows(
            [name, *map(repr, line.tolist())] for name, line in zip(rows, Y, strict=True)
        )
    return path


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    return write_csv(tmp_path_factory.mktemp("data") / "data.csv")


@pytest.fixture(scope="module")
def finished(data, tmp_path_factory):
    """A run, and what fit said."""
    out = tmp_path_factory.mktemp("runs") / "run"
    return out, run("fit", data, "--out", out, *SHORT, code=3)


# ---------------------------------------------------------------------- fit


def test_fit_keeps_a_run_equal_to_the_one_in_python(finished):
    out, said = finished
    model = DIBPNMF(n_warmup=12, n_draws=8, n_chains=2, random_state=0).fit(Y)
    loaded = DIBPNMF.load(out)
    np.testing.assert_array_equal(loaded.components_, model.components_)
    np.testing.assert_array_equal(loaded.embedding_, model.embedding_)
    assert (loaded.row_names_, loaded.column_names_) == (ROWS, COLUMNS)
    assert {"run.json", "summary.json", "chain-1.draws", "chain-2.draws"} <= set(os.listdir(out))
    assert f"Factors found: {model.n_components_}" in said.stdout
    assert "not converged" in said.stdout
    assert said.stderr == ""


def test_exit_code_0_when_converged(data, tmp_path, monkeypatch):
    monkeypatch.setattr("dibpnmf.summary.doubts_about_draws", lambda *_: iter(()))
    said = run("fit", data, "--out", tmp_path / "run", *SHORT, "--max-components", 30, code=0)
    assert "the chains agree" in said.stdout


def test_json_is_strict_and_quiet_prints_the_result_only(data, tmp_path):
    said = run("fit", data, "--out", tmp_path / "a", *SHORT, "--json", "--quiet", code=3)

    def refuse(constant):
        raise AssertionError(constant)

    table = json.loads(said.stdout, parse_constant=refuse)
    assert table["draws_per_chain"] == [8, 8]
    assert table["run"] == str(tmp_path / "a")
    assert said.stderr == ""


def test_an_existing_run_needs_resume_and_the_same_options(data, finished):
    out, said = finished
    assert "--resume" in run("fit", data, "--out", out, *SHORT, code=2).stderr
    assert run("fit", data, "--out", out, "--resume", code=3).stdout == said.stdout
    assert run("fit", data, "--out", out, *SHORT, "--resume", code=3).stdout == said.stdout
    assert "--draws is 8" in run("fit", data, "--out", out, "--resume", "--draws", 7, code=2).stderr
    assert "seed" in run("fit", data, "--out", out, "--resume", "--seed", 9, code=2).stderr


def test_more_draws_on_resume_are_those_of_a_longer_run(data, tmp_path):
    for name, first in (("grown", 8), ("long", 20)):
        run("fit", data, "--out", tmp_path / name, *SHORT, "--draws", first, code=3)
    said = run("fit", data, "--out", tmp_path / "grown", "--resume", "--draws", 20, code=3)
    assert "(now 12 and 20)" in said.stdout
    one, two = ((tmp_path / name / "chain-1.draws").read_bytes() for name in ("grown", "long"))
    assert one == two
    assert run("fit", data, "--out", tmp_path / "grown", "--resume", code=3).stdout == said.stdout
    assert "--warmup is 12" in run("fit", data, "--out", tmp_path / "grown", "--resume", "--warmup",
                                   20, code=2).stderr  # fmt: skip


def test_what_draws_do_not_depend_on_is_free_on_resume(data, finished, monkeypatch):
    seen = []
    fit = DIBPNMF.fit
    monkeypatch.setattr(
        DIBPNMF, "fit", lambda self, *a, **k: seen.append(self) or fit(self, *a, **k)
    )
    run("fit", data, "--out", finished[0], "--resume", code=3)
    run("fit", data, "--out", finished[0], "--resume", "--jobs", 2, "--checkpoint-every", 1, code=3)
    assert [(m.n_jobs, m.checkpoint_every) for m in seen] == [(-1, 30.0), (2, 1.0)]


def test_other_data_are_refused_on_resume(tmp_path, finished):
    other = write_csv(tmp_path / "other.csv", Y * 2.0)
    assert "data are not" in run("fit", other, "--out", finished[0], "--resume", code=2).stderr


def test_a_configuration_file_gives_defaults(data, tmp_path):
    config = tmp_path / "fit.toml"
    config.write_text(
        'warmup = 5\ndraws = 3\nchains = 1\nseed = 4\nprior = "copula"\ninit = ["prior"]\n'
        "checkpoint-every = 1.5\nquiet = true\n[prior_params]\nrho = 0.5\n"
    )
    run("fit", data, "--out", tmp_path / "run", "--config", config, "--draws", 2, code=3)
    parameters = json.loads((tmp_path / "run" / "run.json").read_text())["parameters"]
    expected = {"n_warmup": 5, "n_draws": 2, "n_chains": 1, "prior": "copula", "init": ["prior"],
                "prior_params": {"rho": 0.5}}  # fmt: skip
    assert {name: parameters[name] for name in expected} == expected


@pytest.mark.parametrize(
    ("text", "message"),
    [("draws = 1.5", "--draws"), ("draws = true", "--draws"), ("draw = 5", "'draw'"),
     ("draws = [1, 2]", "single value"), ("= 3", "not TOML"), ("prior_params = 3", "table"),
     ("[prior_params]\na = 'x'", "must be a number"), ("prior = 3", "prior must be one of")],
)  # fmt: skip
def test_a_wrong_configuration_is_refused(data, tmp_path, text, message):
    (tmp_path / "fit.toml").write_text(text)
    result = run("fit", data, "--out", tmp_path / "run", "--config", tmp_path / "fit.toml", code=2)
    assert message in result.stderr
    assert not (tmp_path / "run").exists()


def test_labels_are_compared_not_fitted(tmp_path):
    kinds = ["a", "b"] * 6
    labelled = write_csv(tmp_path / "labelled.csv", np.hstack([Y]), ROWS)
    lines = labelled.read_text().splitlines()
    text = [
        lines[0] + ",kind",
        *(f"{line},{kind}" for line, kind in zip(lines[1:], kinds, strict=True)),
    ]
    labelled.write_text("\n".join(text))
    run("fit", labelled, "--out", tmp_path / "run", *SHORT, "--labels", "kind", code=3)
    summary = json.loads((tmp_path / "run" / "summary.json").read_text())
    assert set(summary["labels"]) >= {"pair_f1", "jaccard", "fowlkes_mallows"}
    assert DIBPNMF.load(tmp_path / "run").column_names_ == COLUMNS
    (tmp_path / "kinds.txt").write_text("\n".join(kinds))
    data = write_csv(tmp_path / "data.csv")
    said = run("fit", data, "--out", tmp_path / "b", *SHORT, "--labels", tmp_path / "kinds.txt")
    assert "Labels: pair_f1" in said.stdout
    (tmp_path / "kinds.txt").write_text("a\nb")
    said = run("fit", data, "--out", tmp_path / "c", "--labels", tmp_path / "kinds.txt", code=2)
    assert "found 2 labels, and the data have 12 rows" in said.stderr


@pytest.mark.parametrize(("missing", "observed"), [("none", 120), ("absent", 31), ("zeros", 30)])
def test_missing_cells(tmp_path, missing, observed):
    cells = sp.random_array((12, 10), density=0.25, rng=np.random.default_rng(0)).tocoo()
    absent = np.argwhere(cells.toarray() == 0.0)[0]
    lines = [f"{i},{j},{v}" for i, j, v in zip(cells.row, cells.col, cells.data, strict=True)]
    path = tmp_path / "t.csv"
    path.write_text("\n".join(["row,col,value", *lines, f"{absent[0]},{absent[1]},0"]))
    said = run("fit", path, "--out", tmp_path / "run", *SHORT, "--missing", missing, "--json")
    table = json.loads(said.stdout)["data"]
    cells_in_all = table["n_rows"] * table["n_columns"]
    assert table["n_observed"] == (cells_in_all if missing == "none" else observed)


@pytest.mark.parametrize(
    "lines",
    [["userId,movieId,rating", "1,31,2.5", "1,32,3", "2,31,4"],
     ["userId,movieId,rating,timestamp", "1,31,2.5,99", "1,32,3,98", "2,31,4,97"],
     ["1\t31\t2.5\t99", "1\t32\t3\t98", "2\t31\t4\t97"],
     ["user,film,rating", "ann,Alien,2.5", "ann,Brazil,3", "bob,Alien,4"]],
)  # fmt: skip
def test_ratings_as_people_have_them(tmp_path, lines):
    (tmp_path / "ratings.csv").write_text("\n".join(lines) + "\n")
    options = ("--out", tmp_path / "run", *SHORT, "--missing", "absent", "--json")
    said = run("fit", tmp_path / "ratings.csv", *options, code=None)
    found = json.loads(said.stdout)["data"]
    assert (found["n_rows"], found["n_columns"], found["n_observed"]) == (2, 2, 3)


def test_a_table_leaves_no_cell_out(data, tmp_path):
    said = run("fit", data, "--out", tmp_path / "run", *SHORT, "--missing", "absent", code=2)
    assert "--layout triplets" in said.stderr
    assert "12 rows × 10 columns" in said.stderr


def test_what_may_be_triplets_is_told(tmp_path):
    (tmp_path / "t.csv").write_text("user,film,rating\n" + "1,2,3\n2,1,4\n" * 3)
    said = run("fit", tmp_path / "t.csv", "--out", tmp_path / "run", *SHORT, code=None)
    assert "if its lines are row,column,value give --layout triplets" in said.stderr
    (tmp_path / "t.csv").write_text("user,film,rating\nann,Alien,3\n")
    said = run("fit", tmp_path / "t.csv", "--out", tmp_path / "other", *SHORT, code=2)
    assert "layout is triplets" in said.stderr


def test_contradictions_of_the_likelihood_are_kept(tmp_path):
    np.save(tmp_path / "even.npy", np.random.default_rng(0).uniform(9.0, 10.0, (12, 10)))
    out = tmp_path / "run"
    said = run("fit", tmp_path / "even.npy", "--out", out, *SHORT, "--json", code=None)
    wanted = "--likelihood gaussian fits better"
    assert wanted in " ".join(json.loads(said.stdout)["doubts"])
    assert wanted in run("info", out).stdout
    assert "likelihood='gaussian' fits better" in html.unescape(
        (out / "report.html").read_text("utf-8")
    )
    assert DIBPNMF.load(out)._contradictions


def test_image_shapes_are_checked_before_any_work(data, tmp_path):
    out = tmp_path / "run"
    for shape, message in (("3x3", "has 9 pixels, and the data have 10"), ("3", "HEIGHTxWIDTH")):
        assert message in run("fit", data, "--out", out, "--image-shape", shape, code=2).stderr
    assert not out.exists()


def test_a_full_disk_ends_with_1_and_a_folder_that_resumes(data, tmp_path, monkeypatch, finished):
    calls = []

    def full(_):
        calls.append(1)
        if len(calls) > 8:  # the run has begun by then
            raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr("os.fsync", full)
        said = run("fit", data, "--out", tmp_path / "run", *SHORT, code=1)
    assert "No space left on device" in said.stderr
    assert "resume" in said.stderr
    again = run("fit", data, "--out", tmp_path / "run", *SHORT, "--resume", code=3)
    # The last two lines tell the folder and the report.
    assert again.stdout.splitlines()[:-2] == finished[1].stdout.splitlines()[:-2]
    assert (tmp_path / "run" / "report.html").exists()


def test_ctrl_c_ends_with_130_and_keeps_results(data, tmp_path, monkeypatch, finished):
    raised = []

    def interrupt(self):
        if max(sweep for sweep, *_ in self._latest) > 20 and not raised:
            raised.append(True)
            raise KeyboardInterrupt

    options = ["--warmup", 12, "--draws", 100_000, "--chains", 1, "--seed", 0]
    with monkeypatch.context() as patched:
        patched.setattr(Progress, "refresh", interrupt)
        said = run("fit", data, "--out", tmp_path / "run", *options, code=130)
    assert "Interrupted: this rests on" in said.stdout
    assert json.loads((tmp_path / "run" / "summary.json").read_text())["status"] == "interrupted"
    told = run("info", tmp_path / "run", code=0).stdout
    assert "Status: stopped; fit --resume goes on with it" in told


COMMAND = [sys.executable, "-m", "dibpnmf.cli"]


def wait_for_draws(out: Path) -> None:
    """Wait until every chain of a run has saved a draw."""
    for _ in range(3000):
        result = run("info", out, "--json")
        if result.exit_code == 0 and all(c["draws"] for c in json.loads(result.stdout)["chains"]):
            return
        time.sleep(0.05)
    raise AssertionError("no draw was saved")


def test_a_real_run_in_a_terminal_and_a_real_ctrl_c(data, tmp_path):
    """One line a chain on a terminal, exit code 130, and a second run kept out meanwhile."""
    ours, theirs = pty.openpty()
    out = tmp_path / "run"
    options = ["--warmup", "5", "--draws", "1000000", "--chains", "2", "--jobs", "2",
               "--checkpoint-every", "0.2", "--seed", "0"]  # fmt: skip
    process = subprocess.Popen(
        [*COMMAND, "fit", str(data), "--out", str(out), *options], stderr=theirs,
        stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    os.close(theirs)
    wait_for_draws(out)
    assert "Status: running" in run("info", out, code=0).stdout
    assert (
        "in use by another run"
        in run("fit", data, "--out", out, *options, "--resume", code=2).stderr
    )
    process.send_signal(signal.SIGINT)
    shown = b""
    try:
        while part := os.read(ours, 65536):
            shown += part
    except OSError:  # the other end is closed
        pass
    printed, _ = process.communicate(timeout=120)
    assert process.returncode == 130
    assert "Interrupted: this rests on" in printed
    for words in (b"chain 1", b"chain 2", b"sampling", b"log lik"):
        assert words in shown


def test_a_pipe_gets_the_result_only(data, tmp_path):
    done = subprocess.run(
        [*COMMAND, "fit", str(data), "--out", str(tmp_path / "run"), *SHORT], capture_output=True,
        text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 3
    assert done.stderr == ""
    assert done.stdout.startswith("Data: 12 rows × 10 columns\nFactors found: ")


# ---------------------------------------------------------------------- predict, export, info


def test_predict_by_name(finished, tmp_path):
    out, _ = finished
    cells = tmp_path / "cells.csv"
    cells.write_text("row,col\nrow 3,c4\n=HYPERLINK(1),<script>alert(1)</script>\n")
    said = run("predict", out, "--cells", cells, "--interval", 0.8, code=0)
    table = list(csv.reader(io.StringIO(said.stdout)))
    assert table[0] == ["row", "col", "mean", "lower", "upper"]
    assert table[2][:2] == ["'=HYPERLINK(1)", "<script>alert(1)</script>"]
    mean, lower, upper = DIBPNMF.load(out).predict([3, 11], [4, 9], interval=0.8)
    found = np.array([row[2:] for row in table[1:]], dtype=float)
    np.testing.assert_array_equal(found, np.column_stack([mean, lower, upper]))
    # What was written is read again, to a file.
    run("predict", out, "--cells", cells, "-o", tmp_path / "first.csv", code=0)
    run("predict", out, "--cells", tmp_path / "first.csv", "--json", "-o", tmp_path / "b.json",
        code=0)  # fmt: skip
    assert json.loads((tmp_path / "b.json").read_text())[1]["row"] == "=HYPERLINK(1)"


@pytest.mark.parametrize(
    ("text", "message"),
    [("row 3,c99\n", "row 1, column 2: no column is called 'c99'"),
     ("row,col\nrow 99,c1\n", "row 2, column 1: no row is called 'row 99'"),
     ("row 3\n", "found 1 cell where"), ("", "an empty file"), ("row,col\n", "no cell in it")],
)  # fmt: skip
def test_unknown_cells_are_refused(finished, tmp_path, text, message):
    (tmp_path / "cells.csv").write_text(text)
    assert message in run("predict", finished[0], "--cells", tmp_path / "cells.csv", code=2).stderr


def test_predict_refuses_a_wrong_interval(finished, tmp_path):
    (tmp_path / "cells.csv").write_text("row 1,c1")
    for p in ("1", "0", "nan", "-1"):
        run("predict", finished[0], "--cells", tmp_path / "cells.csv", "--interval", p, code=2)


def test_rows_without_names_are_numbered(tmp_path):
    np.save(tmp_path / "a.npy", Y)
    run("fit", tmp_path / "a.npy", "--out", tmp_path / "run", *SHORT, code=3)
    (tmp_path / "cells.tsv").write_text("0\t9\n11\t0")
    said = run("predict", tmp_path / "run", "--cells", tmp_path / "cells.tsv", code=0)
    assert said.stdout.splitlines()[2].startswith("11,0,")


def test_export_csv_has_no_formula(finished, tmp_path):
    run("export", finished[0], "--format", "csv", "-o", tmp_path / "a.csv", code=0)
    with open(tmp_path / "a.csv", newline="") as file:
        table = list(csv.DictReader(file))
    assert all(line["name"][0] not in "=+-@" for line in table)
    assert any(line["name"] == "'=HYPERLINK(1)" for line in table)
    model = DIBPNMF.load(finished[0])
    rows = [line for line in table if line["side"] == "row"]
    assert len(rows) == np.count_nonzero(model.embedding_)
    assert sum(float(line["loading"]) for line in rows) == pytest.approx(model.embedding_.sum())


@pytest.mark.parametrize("name", ["=1+1", "+1", "-1", "@SUM(A1)", "\t=1", "\r=1", " =1", "\n=1"])
def test_formulas_are_escaped(name):
    assert escaped(name) == f"'{name}"
    assert escaped(f"a{name}") == f"a{name}"


def test_export_npz_and_netcdf(finished, tmp_path):
    model = DIBPNMF.load(finished[0])
    run("export", finished[0], "--format", "npz", "-o", tmp_path / "a.npz", code=0)
    with np.load(tmp_path / "a.npz", allow_pickle=False) as arrays:
        np.testing.assert_array_equal(arrays["components"], model.components_)
        assert arrays["row_names"].tolist() == ROWS
        assert arrays["draws/log_likelihood"].shape == (2, 8)
    xarray = pytest.importorskip("xarray")
    pytest.importorskip("h5netcdf")
    run("export", finished[0], "--format", "netcdf", "-o", tmp_path / "a.nc", code=0)
    with xarray.open_datatree(tmp_path / "a.nc", engine="h5netcdf") as tree:
        assert tree["posterior"].to_dataset().equals(model.posterior_["posterior"].to_dataset())
    assert sorted(os.listdir(tmp_path)) == ["a.nc", "a.npz"]


def test_without_its_writer_the_extra_is_named(finished, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "h5netcdf", None)
    said = run("export", finished[0], "--format", "netcdf", "-o", tmp_path / "a.nc", code=2)
    assert 'pip install "dibpnmf[netcdf]"' in said.stderr


def test_export_to_a_place_that_is_not_there(finished, tmp_path):
    said = run("export", finished[0], "--format", "npz", "-o", tmp_path / "no" / "a.npz", code=1)
    assert "No such folder" in said.stderr


def test_info(finished, data):
    told = run("info", finished[0], code=0).stdout
    assert "Status: done" in told
    assert "Chain 2: 20 of 20 sweeps, 8 draws" in told
    table = json.loads(run("info", finished[0], "--json", code=0).stdout)
    assert table["parameters"]["n_draws"] == 8
    assert "holds no run" in run("info", data.parent, code=2).stderr
    assert "not a folder" in run("info", data, code=2).stderr


@pytest.mark.parametrize(
    "arguments",
    [["info"], ["report"], ["predict", "--cells", "x"],
     ["export", "--format", "csv", "-o", "x.csv"]],
)  # fmt: skip
def test_what_is_no_run_is_refused(tmp_path, monkeypatch, arguments):
    monkeypatch.chdir(tmp_path)
    command, *options = arguments
    for path in (".", "nothing"):
        run(command, path, *options, code=2)
    assert not os.listdir(tmp_path)


def test_help_of_every_command():
    for command in ("fit", "report", "predict", "export", "info", "demo"):
        assert "Usage" in run(command, "--help", code=0).stdout


def test_the_seed_that_is_shown_repeats_the_run(data, tmp_path):
    run("fit", data, "--out", tmp_path / "one", *SHORT_WITHOUT_SEED, code=3)
    shown = run("info", tmp_path / "one", "--json")
    seed = json.loads(shown.stdout)["random_state"]
    run("fit", data, "--out", tmp_path / "two", *SHORT_WITHOUT_SEED, "--seed", str(seed), code=3)
    one, two = ((tmp_path / name / "chain-1.draws").read_bytes() for name in ("one", "two"))
    assert one == two


def test_cells_not_listed_are_told_to_be_zeros(tmp_path):
    (tmp_path / "t.csv").write_text("row,col,value\na,x,1\nb,y,2\na,y,3\n")
    said = run("fit", tmp_path / "t.csv", "--out", tmp_path / "run", *SHORT, code=3)
    assert "--missing absent" in said.stderr


def test_a_triplet_file_cut_before_its_last_value_is_refused(tmp_path):
    (tmp_path / "t.csv").write_text("row,col,value\na,x,1\nb,y,")
    said = run("fit", tmp_path / "t.csv", "--out", tmp_path / "run", *SHORT, code=2)
    assert "cut off?" in said.stderr


def test_a_decimal_comma_is_not_a_separator(tmp_path):
    (tmp_path / "t.csv").write_text("1;2,5\n3;4,1\n")
    said = run("fit", tmp_path / "t.csv", "--out", tmp_path / "run", *SHORT, code=2)
    assert "decimal comma" in said.stderr


def test_quantities_of_the_posterior_keep_their_names():
    text = "n_components (R-hat 1.60, ESS 8): more n_draws, or n_components=3"
    assert in_options(text) == "n_components (R-hat 1.60, ESS 8): more --draws, or --components 3"
    assert in_options("n_components (too few draws)") == "n_components (too few draws)"
    assert in_options("--epsilon is a number") == "--epsilon is a number"
    assert in_options("likelihood='poisson' fits") == "--likelihood poisson fits"


def test_python_runs_the_package():
    done = subprocess.run([sys.executable, "-m", "dibpnmf", "--help"], capture_output=True,
                          text=True, timeout=60, check=True)  # fmt: skip
    assert "Commands:" in done.stdout


def test_messages_name_options_not_parameters(data, tmp_path):
    said = run("fit", data, "--out", tmp_path / "run", "--draws", "0", code=2)
    assert "--draws must be" in said.stderr
