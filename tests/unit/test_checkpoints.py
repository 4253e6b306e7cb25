"""Runs saved in a folder: resumed to the bit, refused when they are others, never half-read."""

from __future__ import annotations

import errno
import json
import os
import signal
import subprocess
import sys
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp

from dibpnmf import DIBPNMF, sampling
from dibpnmf._progress import Progress
from dibpnmf.datasets import make_planted
from dibpnmf.diagnostics import InterruptedWarning
from dibpnmf.priors import PRIORS
from dibpnmf.runs import chain_files
from dibpnmf.runs.chain_files import ChainFiles
from dibpnmf.runs.errors import CannotSaveError, RunFolderError
from dibpnmf.runs.folder import RunFolder, claimed
from dibpnmf.runs.frames import DamagedError, frame, read_frames

pytestmark = pytest.mark.filterwarnings(
    "ignore::sklearn.exceptions.ConvergenceWarning", "ignore:The last of"
)

Y = make_planted(12, 10, 2, random_state=0).data


def small(**params) -> DIBPNMF:
    defaults = {"n_warmup": 12, "n_draws": 8, "n_chains": 2, "random_state": 0}
    return DIBPNMF(**(defaults | params))


def same_results(one, other):
    for name in ("components_", "embedding_", "components_mean_", "inclusion_probabilities_",
                 "shares_", "log_likelihood_", "epsilon_", "component_counts_"):  # fmt: skip
        np.testing.assert_equal(getattr(one, name), getattr(other, name))
    for group in ("posterior", "sample_stats"):
        assert one.posterior_[group].to_dataset().equals(other.posterior_[group].to_dataset())


def stop_after(monkeypatch, sweeps):
    """Interrupt a run once its first chain has made some sweeps."""
    report = Progress.report

    def counting(self, chain, sweep, *rest):
        report(self, chain, sweep, *rest)
        if sweep >= sweeps and self.name == "chain":  # not the pilot of ε
            self.stop()

    monkeypatch.setattr(Progress, "report", counting)


# ---------------------------------------------------------------------- killed


def kill(*arguments):
    script = Path(__file__).with_name("killing.py")
    done = subprocess.run(
        [sys.executable, str(script), *map(str, arguments)], capture_output=True, text=True,
        timeout=600, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-2000:]
    runs, kills = map(int, done.stdout.split())
    return runs, kills


def test_a_run_killed_at_twenty_random_moments_makes_the_same_draws(tmp_path):
    runs, kills = kill("moments", tmp_path, 20)
    assert runs >= 1
    assert kills == 20


def test_a_run_killed_at_any_write_makes_the_same_draws(tmp_path):
    _, kills = kill("writes", tmp_path)
    assert kills >= 15


# ---------------------------------------------------------------------- saved and read


@pytest.mark.parametrize("keep_draws", [True, False])
@pytest.mark.parametrize("scheme", ["joint", "literal"])
@pytest.mark.parametrize("prior", PRIORS)
def test_stopped_in_warm_up_and_in_sampling_then_resumed(
    tmp_path, monkeypatch, prior, scheme, keep_draws
):
    params = {"prior": prior, "scheme": scheme, "keep_draws": keep_draws, "n_warmup": 15}
    whole = small(**params).fit(Y)
    for sweeps in (11, 18):  # after the truncation may have grown; between draws
        with monkeypatch.context() as patched:
            stop_after(patched, sweeps)
            # A run that is stopped without an interrupt is not an end: leave before its results.
            patched.setattr(DIBPNMF, "_set_results", lambda *_: (_ for _ in ()).throw(EOFError))
            with pytest.raises(EOFError):
                small(checkpoint=tmp_path / "run", **params).fit(Y)
    assert ChainFiles(tmp_path / "run", 0).saved().sweep == 18
    resumed = small(checkpoint=tmp_path / "run", **params).fit(Y)
    same_results(resumed, whole)
    same_results(DIBPNMF.load(tmp_path / "run"), whole)


def test_load_gives_back_parameters_names_and_missing_cells(tmp_path):
    frame_ = pd.DataFrame(Y, index=[f"row {i}" for i in range(12)], columns=list("abcdefghij"))
    frame_.iloc[2, 3] = np.nan
    params = {"prior_params": {"a": 2.5}, "init": ["prior"], "min_share": 0.05}
    model = small(checkpoint=tmp_path / "run", **params).fit(frame_)
    loaded = DIBPNMF.load(str(tmp_path / "run"))
    same_results(loaded, model)
    assert loaded.row_names_ == [f"row {i}" for i in range(12)]
    assert loaded.column_names_ == list("abcdefghij")
    assert {k: loaded.get_params()[k] for k in params} == params
    np.testing.assert_array_equal(
        loaded.transform(frame_.to_numpy())[:3], model.transform(frame_)[:3]
    )
    held = np.full_like(Y, np.nan)
    held[2, 3] = Y[2, 3]
    assert loaded.score(held) == model.score(pd.DataFrame(held, columns=frame_.columns))
    assert loaded.predict([2], [3]) == model.predict([2], [3])


@pytest.mark.parametrize("zeros", ["observed", "missing"])
def test_sparse_data_come_back_to_the_bit(tmp_path, zeros):
    cells = sp.csr_array(np.where(np.median(Y) < Y, Y, 0.0))
    model = small(zeros=zeros, checkpoint=tmp_path / "run").fit(cells)
    same_results(DIBPNMF.load(tmp_path / "run"), model)


def test_a_finished_run_is_not_sampled_again(tmp_path, monkeypatch):
    whole = small(checkpoint=tmp_path / "run").fit(Y)
    monkeypatch.setattr(sampling, "run_chain", lambda *a: None)
    same_results(small(checkpoint=tmp_path / "run", n_jobs=2).fit(Y), whole)


@pytest.mark.parametrize("keep_draws", [True, False])
def test_more_draws_are_those_of_a_longer_run(tmp_path, keep_draws):
    few = small(checkpoint=tmp_path / "run", keep_draws=keep_draws).fit(Y)
    assert few.diagnostics_
    more = small(checkpoint=tmp_path / "run", keep_draws=keep_draws, n_draws=20)
    long = small(n_draws=20, keep_draws=keep_draws).fit(Y)
    same_results(more.fit(Y), long)
    same_results(DIBPNMF.load(tmp_path / "run"), long)
    with pytest.raises(RunFolderError, match="n_draws is 20 there and 8 here"):
        small(checkpoint=tmp_path / "run", keep_draws=keep_draws).fit(Y)


def test_without_a_seed_the_folder_remembers_it(tmp_path):
    first = small(random_state=None, checkpoint=tmp_path / "run").fit(Y)
    same_results(small(random_state=None, checkpoint=tmp_path / "run").fit(Y), first)


def test_run_json_holds_what_is_needed_to_repeat_it(tmp_path):
    small(checkpoint=tmp_path / "run").fit(Y)
    table = json.loads((tmp_path / "run" / "run.json").read_text())
    assert table["parameters"]["n_draws"] == 8
    assert table["seed"] == RunFolder(tmp_path / "run").header().seed
    assert set(table["versions"]) >= {"dibpnmf", "numpy", "numba", "scipy", "python"}
    assert len(table["data"]["checksum"]) == 64
    summary = json.loads((tmp_path / "run" / "summary.json").read_text())
    assert summary["status"] == "done"
    assert summary["draws_per_chain"] == [8, 8]


def test_other_versions_are_told(tmp_path):
    small(checkpoint=tmp_path / "run").fit(Y)
    path = tmp_path / "run" / "run.json"
    path.write_text(path.read_text().replace('"numba": "', '"numba": "0.'))
    with pytest.warns(UserWarning, match="numba 0.*then"):
        small(checkpoint=tmp_path / "run").fit(Y)


# ---------------------------------------------------------------------- refused


@pytest.mark.parametrize(
    ("change", "text"),
    [({"n_draws": 7}, "n_draws is 8 there and 7 here"),
     ({"prior": "copula"}, "prior is 'bivariate-beta' there"),
     ({"prior_params": {"a": 2.0}}, "prior_params is None there and {'a': 2.0} here"),
     ({"random_state": 1}, "seed"),
     ({"keep_draws": False}, "keep_draws is True")],
)  # fmt: skip
def test_other_parameters_are_refused(tmp_path, change, text):
    small(checkpoint=tmp_path / "run").fit(Y)
    before = {p.name: p.read_bytes() for p in (tmp_path / "run").iterdir()}
    with pytest.raises(RunFolderError, match=text):
        small(checkpoint=tmp_path / "run", **change).fit(Y)
    assert before == {p.name: p.read_bytes() for p in (tmp_path / "run").iterdir()}


def test_other_data_are_refused(tmp_path):
    small(checkpoint=tmp_path / "run").fit(Y)
    for other in (Y * 2.0, np.where(Y.max() == Y, np.nan, Y), Y[:, ::-1]):
        with pytest.raises(RunFolderError, match="data are not those"):
            small(checkpoint=tmp_path / "run").fit(other)


def test_two_runs_at_once_are_refused(tmp_path):
    with claimed(tmp_path / "run") as folder:
        assert folder.is_in_use()
        with pytest.raises(RunFolderError, match="in use by another run"):
            small(checkpoint=tmp_path / "run").fit(Y)
    assert not (tmp_path / "run").exists()
    small(checkpoint=tmp_path / "run").fit(Y)
    assert not RunFolder(tmp_path / "run").is_in_use()


@pytest.mark.parametrize("name", ["thesis.docx", "chain-1.draws", "summary.json", ".hidden"])
def test_a_folder_with_files_of_others_is_refused_and_left(tmp_path, name):
    (tmp_path / name).write_text("precious")
    with pytest.raises(RunFolderError, match="not empty and holds no run"):
        small(checkpoint=tmp_path).fit(Y)
    assert [p.name for p in tmp_path.iterdir()] == [name]


def test_a_half_written_folder_is_recognised(tmp_path):
    run = tmp_path / "run"
    run.mkdir()
    (run / "data.npz").write_bytes(b"PK")
    (run / ".run.json.part").write_bytes(b"{")
    with pytest.raises(RunFolderError, match="left half-written"):
        DIBPNMF.load(run)
    same_results(small(checkpoint=run).fit(Y), small().fit(Y))
    assert not (run / ".run.json.part").exists()


def test_what_is_no_folder_is_refused(tmp_path):
    (tmp_path / "file").write_text("")
    for path in (tmp_path / "file", tmp_path / "file" / "run"):
        with pytest.raises(RunFolderError, match="cannot make or open"):
            small(checkpoint=path).fit(Y)
    for path, text in ((tmp_path / "file", "not a folder"), (tmp_path / "none", "not a folder"),
                       (tmp_path, "holds no run")):  # fmt: skip
        with pytest.raises(RunFolderError, match=text):
            DIBPNMF.load(path)


@pytest.mark.parametrize("value", ["", 3, b"run", "a\0b"])
def test_checkpoint_must_be_a_path(value):
    with pytest.raises((TypeError, ValueError), match="checkpoint must be"):
        small(checkpoint=value).fit(Y)


def test_bad_data_leave_no_folder(tmp_path):
    with pytest.raises(ValueError, match="Negative"):
        small(checkpoint=tmp_path / "new" / "run").fit(-Y)
    assert not list(tmp_path.iterdir())


# ---------------------------------------------------------------------- damage


def test_a_torn_end_is_dropped(tmp_path):
    whole = small(checkpoint=tmp_path / "run").fit(Y)
    draws = tmp_path / "run" / "chain-1.draws"
    before = draws.read_bytes()
    draws.write_bytes(before + before[16:60])  # a frame that was cut off while being written
    same_results(DIBPNMF.load(tmp_path / "run"), whole)
    same_results(small(checkpoint=tmp_path / "run").fit(Y), whole)
    assert draws.read_bytes() == before


@pytest.mark.parametrize("name", ["chain-1.draws", "chain-2.state", "run.json", "data.npz"])
@pytest.mark.parametrize("how", ["cut", "flipped", "emptied", "random"])
def test_damage_is_told_in_one_line(tmp_path, name, how):
    small(checkpoint=tmp_path / "run").fit(Y)
    path = tmp_path / "run" / name
    data = bytearray(path.read_bytes())
    if how == "flipped":
        data[len(data) // 2] ^= 0xFF
    elif how == "random":
        data = bytearray(np.random.default_rng(0).bytes(len(data)))
    path.write_bytes(b"" if how == "emptied" else data[: len(data) // 2] if how == "cut" else data)
    with pytest.raises(RunFolderError, match="damaged") as caught:
        DIBPNMF.load(tmp_path / "run")
    assert "\n" not in str(caught.value)
    assert name in str(caught.value)


def test_frames_tell_where_they_are_cut():
    arrays = {"a": np.arange(3), "b": np.array(2.5), "none": np.empty((0, 4))}
    data = frame(arrays) * 2
    found = list(read_frames(data))
    assert len(found) == 2
    for name, array in arrays.items():
        np.testing.assert_array_equal(found[1][name], array)
        assert found[1][name].dtype == array.dtype
    for n in range(1, len(data)):
        if n != len(data) // 2:
            with pytest.raises(DamagedError, match="byte"):
                list(read_frames(data[:n]))


# ---------------------------------------------------------------------- full disks


@pytest.mark.parametrize("at", [0, 1, 2, 3, 5, 7, 9, 12])
def test_a_full_disk_stops_with_a_message_and_resumes(tmp_path, monkeypatch, at):
    calls = []

    def full(descriptor):
        calls.append(descriptor)
        if len(calls) > at:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patched:
        patched.setattr(os, "fsync", full)
        with pytest.raises(CannotSaveError, match=r"cannot write .*No space left") as caught:
            small(checkpoint=tmp_path / "run", checkpoint_every=0).fit(Y)
    has_begun = at >= 6  # three files and the folder after each
    assert ("and resume" if has_begun else "start again") in str(caught.value)
    assert (tmp_path / "run").exists() == has_begun
    same_results(small(checkpoint=tmp_path / "run").fit(Y), small().fit(Y))
    assert not list((tmp_path / "run").glob(".*"))


LIMITED = """
import resource, sys, warnings
warnings.simplefilter("ignore")
import numpy as np
from dibpnmf import DIBPNMF
Y = np.load(sys.argv[1])
small = dict(n_warmup=12, n_draws=150, n_chains=2, random_state=0, checkpoint=sys.argv[2],
             checkpoint_every=0.05)
resource.setrlimit(resource.RLIMIT_FSIZE, (25_000, resource.RLIM_INFINITY))
try:
    DIBPNMF(**small).fit(Y)
except OSError as error:
    print(error)
resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
"""


def test_a_file_that_the_system_lets_grow_no_further(tmp_path):
    np.save(tmp_path / "Y.npy", Y)
    done = subprocess.run(
        [sys.executable, "-c", LIMITED, str(tmp_path / "Y.npy"), str(tmp_path / "run")],
        capture_output=True, text=True, timeout=300, check=True,
    )  # fmt: skip
    assert "cannot write" in done.stdout
    assert "File too large" in done.stdout
    assert len(done.stdout.splitlines()) == 1
    params = {"n_draws": 150}
    same_results(small(checkpoint=tmp_path / "run", **params).fit(Y), small(**params).fit(Y))


# ---------------------------------------------------------------------- interrupted

INTERRUPTED = """
import os, signal, sys, threading, warnings
import numpy as np
from dibpnmf import DIBPNMF
from dibpnmf._progress import Progress
from dibpnmf.diagnostics import InterruptedWarning
report = Progress.report
together = threading.Barrier(2)
def tell(self, chain, sweep, *rest):
    report(self, chain, sweep, *rest)
    if sweep == 30:  # chains that stop far apart would not both be kept
        if together.wait(120) == 0:
            os.kill(os.getpid(), signal.SIGINT)
        assert self._stop.wait(120)
Progress.report = tell
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    model = DIBPNMF(n_warmup=12, n_draws=10**6, n_chains=2, n_jobs=2, random_state=0,
                    checkpoint=sys.argv[2]).fit(np.load(sys.argv[1]))
assert any(w.category is InterruptedWarning for w in caught)
assert np.isfinite(model.components_).all()
print(len(model._records))
"""


def test_a_real_ctrl_c_returns_a_fitted_model_and_saves_it(tmp_path):
    np.save(tmp_path / "Y.npy", Y)
    done = subprocess.run(
        [sys.executable, "-c", INTERRUPTED, str(tmp_path / "Y.npy"), str(tmp_path / "run")],
        capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-2000:]
    assert done.stdout.split() == ["2"]
    summary = json.loads((tmp_path / "run" / "summary.json").read_text())
    assert summary["status"] == "interrupted"
    with pytest.warns(InterruptedWarning, match="draws made so far"):
        loaded = DIBPNMF.load(tmp_path / "run")
    assert [len(record) for record in loaded._records] == summary["draws_per_chain"]


def test_a_run_without_a_draw_cannot_be_loaded(tmp_path, monkeypatch):
    def interrupt(self):
        if self.name == "chain" and max(sweep for sweep, *_ in self._latest) > 2:
            monkeypatch.undo()
            raise KeyboardInterrupt

    monkeypatch.setattr(Progress, "refresh", interrupt)
    with pytest.raises(KeyboardInterrupt):
        small(n_warmup=10**6, checkpoint=tmp_path / "run").fit(Y)
    assert ChainFiles(tmp_path / "run", 0).saved().sweep > 2
    with pytest.raises(RunFolderError, match="no draw yet"):
        DIBPNMF.load(tmp_path / "run")


def test_nothing_is_saved_from_a_sweep_that_failed(tmp_path, monkeypatch):
    saved = []
    monkeypatch.setattr(chain_files.ChainSaver, "save", lambda self: saved.append(self))

    def fail(*_):
        raise RuntimeError("broken")

    monkeypatch.setattr(sampling, "run_chain", fail)
    with pytest.raises(RuntimeError, match="broken"):
        small(checkpoint=tmp_path / "run").fit(Y)
    assert not saved


def test_names_are_checked():
    with pytest.raises(ValueError, match=r"row_names must be 12 names.*got 2"):
        small().fit(Y, row_names=["a", "b"])
    with pytest.raises(TypeError, match="column_names must be a sequence"):
        small().fit(Y, column_names="abcdefghij")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = small().fit(Y.tolist(), column_names=range(10))
    assert model.row_names_ is None
    assert model.column_names_ == [str(j) for j in range(10)]


def test_signals_are_left_alone(tmp_path):
    before = signal.getsignal(signal.SIGINT)
    small(checkpoint=tmp_path / "run").fit(Y)
    assert signal.getsignal(signal.SIGINT) is before
