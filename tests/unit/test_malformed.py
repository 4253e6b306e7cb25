# ruff: noqa: E501
"""Whatever comes in, a result or a clear error comes out: no traceback, hang, NaN or litter."""

from __future__ import annotations

import io
import json
import os
import shutil
import signal
import subprocess
import sys
import warnings
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp
from click.testing import CliRunner
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from tests.corpus.parameters import ARGUMENTS, PARAMETERS

from dibpnmf import DIBPNMF
from dibpnmf.cli import main
from dibpnmf.files import FORMATS, FileError, read_table
from dibpnmf.priors import PRIORS

FILES = sorted((Path(__file__).parents[1] / "corpus" / "files").iterdir())
TINY = {"n_warmup": 2, "n_draws": 2, "n_chains": 1, "random_state": 0}
TINY_OPTIONS = ["--warmup", "2", "--draws", "2", "--chains", "1", "--seed", "0", "--jobs", "1"]
SECONDS = 120  # far beyond what anything here takes


def test_the_corpus_is_all_there():
    assert len(FILES) + len(PARAMETERS) + len(ARGUMENTS) >= 500
    assert len(FILES) >= 200


class Hang(BaseException):
    """Nothing catches it."""


@contextmanager
def no_hang():
    """Fail a case that goes on for ever; compiled code is left at its end only."""

    def late(*_):
        raise Hang

    before = signal.signal(signal.SIGALRM, late)
    signal.alarm(SECONDS)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def check_clear(error: Exception, path: Path | None = None) -> None:
    """Words that a person can read; about a file in one line that names it."""
    text = str(error)
    assert path is None or (text.startswith(str(path)) and text.isprintable())
    assert text.strip()
    assert len(text) < 2000


def check_finite(model: DIBPNMF) -> None:
    for name in ("components_", "embedding_", "components_mean_", "inclusion_probabilities_",
                 "shares_", "log_likelihood_", "epsilon_"):  # fmt: skip
        assert np.isfinite(getattr(model, name)).all(), name
    assert (model.components_ >= 0.0).all()
    assert np.isfinite(model.reconstruct()).all() if model.keep_draws else True


def try_fit(Y, **params) -> bool:
    """Fit; return whether there was a result, which is then a number everywhere."""
    with no_hang(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            model = DIBPNMF(**(TINY | params)).fit(Y)
        except (ValueError, TypeError) as error:
            check_clear(error)
            return False
        check_finite(model)
        return True


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    """An empty folder to be in."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


def command(*arguments: object) -> int:
    """Call fit; check how it ended, and that nothing is left of what was refused."""
    before = sorted(os.listdir())
    with no_hang():
        result = CliRunner().invoke(main, ["fit", *map(str, arguments)])
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    assert result.exit_code in (0, 2, 3), result.output
    assert "Traceback" not in result.output
    if result.exit_code == 2:
        assert "Error: " in result.stderr
        error = result.stderr[result.stderr.index("Error: ") :]
        assert error.rstrip("\n").isprintable() or result.stderr.startswith("Usage")
        assert sorted(os.listdir()) == before
    else:
        summary = (Path("run") / "summary.json").read_text()
        json.loads(summary, parse_constant=lambda word: pytest.fail(word))
        assert not [name for name in os.listdir("run") if name.startswith(".")]
        shutil.rmtree("run")
        assert sorted(os.listdir()) == before
    return result.exit_code


# ---------------------------------------------------------------------- the corpus


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_files(path):
    try:
        table = read_table(path)
    except FileError as error:
        check_clear(error, path)
        assert command(path, "--out", "run", *TINY_OPTIONS) == 2
        return
    fitted = try_fit(table.matrix)
    assert (command(path, "--out", "run", *TINY_OPTIONS) != 2) == fitted


@pytest.mark.parametrize("params", PARAMETERS, ids=lambda params: ascii(params)[:60])
def test_parameters(params, folder):
    rng = np.random.default_rng(0)
    try_fit(rng.exponential(1.0, (6, 5)), **params)
    assert not os.listdir(folder)


@pytest.mark.parametrize("arguments", ARGUMENTS, ids=lambda arguments: ascii(arguments)[:60])
def test_arguments(arguments, folder):
    np.save(folder / "a.npy", np.random.default_rng(0).exponential(1.0, (6, 5)))
    command("a.npy", "--out", "run", *TINY_OPTIONS, *arguments)


@pytest.mark.parametrize(
    "arguments",
    [["fit"], ["fit", "nothing.csv", "--out", "run"], ["fit", str(FILES[0]), "--out", "run"],
     ["export", ".", "--format", "csv", "-o", "x"], ["nothing"]],
)  # fmt: skip
def test_in_a_process_of_its_own(arguments, folder):
    done = subprocess.run([sys.executable, "-m", "dibpnmf.cli", *arguments], capture_output=True,
                          text=True, timeout=SECONDS, check=False)  # fmt: skip
    assert done.returncode == 2
    assert "Error: " in done.stderr
    assert "Traceback" not in done.stderr
    assert not os.listdir(folder)


# ---------------------------------------------------------------------- at random

HEALTH = [HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
FAST = settings(max_examples=60, deadline=None, derandomize=True, suppress_health_check=HEALTH)
MORE = settings(FAST, max_examples=300)


cells = st.one_of(
    st.floats(0, 100).map(str),
    st.sampled_from(["", "NA", "-1", "inf", "1e999", '"', '""', "x", "=1", " 2", "1,5", "0"]),
    st.text(max_size=4),
)
tables = st.lists(st.lists(cells, min_size=1, max_size=4), max_size=5).map(
    lambda rows: "\n".join(",".join(row) for row in rows)
)
contents = st.one_of(
    tables.map(lambda text: text.encode("utf-8", "replace")), st.binary(max_size=60)
)


def read_anything(folder: Path, content: bytes, end: str) -> None:
    path = folder / f"fuzz{end}"
    path.write_bytes(content)
    try:
        table = read_table(path)
    except FileError as error:
        check_clear(error, path)
    else:
        values = table.matrix.data if sp.issparse(table.matrix) else table.matrix
        assert not (values < 0.0).any()
        assert not np.isinf(values).any()


@MORE
@given(content=contents, end=st.sampled_from([*FORMATS, ".csv.gz"]))
def test_any_bytes_are_read_or_refused(folder, content, end):
    read_anything(folder, content, end)


good = {path.name.removeprefix("twice-"): path.read_bytes()[: path.stat().st_size // 2]
        for path in FILES if path.name.startswith("twice-")}  # fmt: skip


@MORE
@given(data=st.data(), name=st.sampled_from(sorted(good)))
def test_any_change_to_a_good_file_is_read_or_refused(folder, data, name):
    content = bytearray(good[name])
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, len(content) - 1))
        content[at] = data.draw(st.integers(0, 255))
    read_anything(folder, bytes(content), "".join(Path(name).suffixes))


values = st.one_of(
    st.floats(0, 1e250, allow_subnormal=True),
    st.sampled_from([0.0, 1.0, float("nan"), 1e-300, 1e250, 5e-324, -1.0, float("inf")]),
)
matrices = hnp.arrays(
    np.float64, hnp.array_shapes(min_dims=1, max_dims=3, min_side=0, max_side=5), elements=values
)


@FAST
@given(Y=matrices, prior=st.sampled_from(sorted(PRIORS)), scheme=st.sampled_from(["joint", "literal"]),
       zeros=st.sampled_from(["observed", "missing"]), make=st.sampled_from([np.asarray, sp.coo_matrix]))  # fmt: skip
def test_any_matrix_is_fitted_or_refused(folder, Y, prior, scheme, zeros, make):
    if Y.ndim != 2:
        make = np.asarray
    try_fit(make(Y), prior=prior, scheme=scheme, zeros=zeros)


anything = st.one_of(st.none(), st.booleans(), st.integers(-3, 8), st.floats(), st.text(max_size=5),
                     st.lists(st.integers(), max_size=2))  # fmt: skip


@FAST
@given(params=st.dictionaries(st.sampled_from(sorted(set(DIBPNMF().get_params()) - {"checkpoint"})),
                              anything, max_size=3))  # fmt: skip
def test_any_parameter_is_taken_or_refused(folder, params):
    try_fit(np.array([[1.0, 0.0], [0.5, 2.0], [0.0, 0.0]]), **params)


@FAST
@given(table=tables)
def test_any_table_on_the_command_line(folder, table):
    (folder / "fuzz.csv").write_text(table, encoding="utf-8", errors="replace")
    command("fuzz.csv", "--out", "run", *TINY_OPTIONS)


@pytest.mark.slow
@settings(max_examples=5000, deadline=None, suppress_health_check=HEALTH)
@given(
    Y=matrices, prior=st.sampled_from(sorted(PRIORS)), scheme=st.sampled_from(["joint", "literal"])
)
def test_many_matrices_are_fitted_or_refused(folder, Y, prior, scheme):
    try_fit(Y, prior=prior, scheme=scheme)


@pytest.mark.slow
@settings(max_examples=20_000, deadline=None, suppress_health_check=HEALTH)
@given(content=contents, end=st.sampled_from([*FORMATS, ".csv.gz"]))
def test_many_bytes_are_read_or_refused(folder, content, end):
    read_anything(folder, content, end)


def test_an_archive_writes_nothing(folder):
    """Names inside archives are never paths to write to: nothing is unpacked."""
    file = io.BytesIO()
    np.savez(file, **{"../outside": np.ones((2, 2))})
    (folder / "a.npz").write_bytes(file.getvalue())
    read_table(folder / "a.npz")
    assert os.listdir(folder) == ["a.npz"]
    assert not (folder.parent / "outside.npy").exists()
