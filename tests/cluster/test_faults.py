"""A scheduler and workers as processes of their own: killed, late, or of another version."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import warnings
from contextlib import contextmanager

import numpy as np
import pytest

pytest.importorskip("distributed", reason="needs the extra dibpnmf[dask]")

import dask.array as da
from distributed import Client

from dibpnmf import DIBPNMF
from dibpnmf.cluster import executor
from dibpnmf.cluster.executor import ClusterError

from .test_draws import SHORT, Y, assert_same

pytestmark = [
    pytest.mark.filterwarnings("ignore::UserWarning"),
    pytest.mark.skipif(sys.platform == "win32", reason="needs signals"),
]


class Cluster:
    """`dask scheduler` and `dask worker` on loopback."""

    def __init__(self, folder) -> None:
        self.folder = folder
        self.file = folder / "scheduler.json"
        self.processes: list[subprocess.Popen] = []
        self.scheduler = self._start(
            "scheduler", "--host", "127.0.0.1", "--port", "0", "--no-dashboard"
        )

    def _start(self, kind: str, *options: str, **environment: str) -> subprocess.Popen:
        process = subprocess.Popen(
            [sys.executable, "-m", "dask", kind, "--scheduler-file", str(self.file), *options],
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, cwd=self.folder,
            env={**os.environ, **environment},
        )  # fmt: skip
        self.processes.append(process)
        return process

    def worker(self, name: str, *options: str, **environment: str) -> subprocess.Popen:
        return self._start(
            "worker", "--name", name, "--no-nanny", "--nthreads", "1", "--no-dashboard", "--host",
            "127.0.0.1", "--local-directory", str(self.folder / name), *options, **environment,
        )  # fmt: skip

    def client(self, n_workers: int) -> Client:
        client = Client(scheduler_file=str(self.file), timeout=60, set_as_default=False)
        client.wait_for_workers(n_workers, timeout=120)
        return client


@contextmanager
def cluster_in(folder, kind=Cluster):
    folder.mkdir(exist_ok=True)
    cluster = kind(folder)
    try:
        yield cluster
    finally:
        for process in cluster.processes:
            process.kill()
        for process in cluster.processes:
            process.wait()


def strike(monkeypatch, blows) -> None:
    """Do something when results are waited for the n-th time: blocks are being updated then."""
    gather = Client.gather
    lock, calls = threading.Lock(), iter(range(10**9))

    def striking(self, *args, **kwargs):
        with lock:
            blow = blows.get(next(calls))
        if blow is not None:
            blow()
        return gather(self, *args, **kwargs)

    monkeypatch.setattr(Client, "gather", striking)


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(Y, id="here"),
        pytest.param(da.from_array(Y, chunks=(9, 8)), id="elsewhere", marks=pytest.mark.slow),
    ],
)
def test_workers_killed_in_mid_sweep_and_one_that_joins_late(tmp_path, monkeypatch, data):
    expected = DIBPNMF(**SHORT).fit(Y)
    with cluster_in(tmp_path / "cluster") as cluster:
        first, second = cluster.worker("first"), cluster.worker("second")
        with cluster.client(2) as client:

            def replace_first():
                first.send_signal(signal.SIGKILL)
                cluster.worker("late")

            def kill_second():
                client.wait_for_workers(2, timeout=120)  # the late one is there
                second.send_signal(signal.SIGKILL)

            strike(monkeypatch, {4: replace_first, 7: kill_second})
            model = DIBPNMF(**SHORT, executor=client).fit(data)
            names = [worker["name"] for worker in client.scheduler_info()["workers"].values()]
            assert names == ["late"]
        assert [first.wait(), second.wait()] == [-signal.SIGKILL] * 2
    assert_same(model, expected)


def test_a_scheduler_that_is_killed_and_a_run_that_goes_on_with_another(tmp_path, monkeypatch):
    expected = DIBPNMF(**SHORT).fit(Y)
    saved = {**SHORT, "checkpoint": tmp_path / "run", "checkpoint_every": 0.0}
    with cluster_in(tmp_path / "one") as cluster:
        cluster.worker("worker")
        client = cluster.client(1)
        address = client.scheduler.address
        with monkeypatch.context() as patched:
            strike(patched, {6: cluster.scheduler.kill})
            with pytest.raises(ClusterError, match=f"scheduler at {address} was lost.*checkpoint"):
                DIBPNMF(**saved, executor=client).fit(Y)
        client.close(timeout=1)
    assert (tmp_path / "run" / "chain-1.state").exists()
    with cluster_in(tmp_path / "two") as cluster:
        cluster.worker("worker")
        with cluster.client(1) as client:
            assert_same(DIBPNMF(**saved, executor=client).fit(Y), expected)


@pytest.mark.parametrize(
    ("source", "found"),
    [
        ("__version__ = '0.0.9'\n", r"has dibpnmf 0\.0\.9"),
        ("raise ModuleNotFoundError('No module named dibpnmf')\n", "has no dibpnmf"),
    ],
)
def test_a_worker_with_another_version_is_named_and_refused(tmp_path, source, found):
    package = tmp_path / "other" / "dibpnmf"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text(source)
    with cluster_in(tmp_path / "cluster") as cluster:
        cluster.worker("other", PYTHONPATH=str(package.parent))
        with cluster.client(1) as client:
            (address,) = client.scheduler_info()["workers"]
            with pytest.raises(ClusterError, match=f"worker at {address} {found}"):
                DIBPNMF(**SHORT, executor=client).fit(np.asarray(Y))


def test_workers_that_dask_has_paused_are_told_of(monkeypatch):
    """A fit that waits for them would otherwise look hung."""

    class Client:
        statuses = ("paused", "paused")

        def scheduler_info(self):
            return {"workers": {str(n): {"status": s} for n, s in enumerate(self.statuses)}}

    client = Client()
    with pytest.warns(UserWarning, match=r"paused all workers \(2\).*larger --memory-limit"):
        executor._warn_if_paused(client)
    client.statuses = ("paused", "running")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        executor._warn_if_paused(client)
    looked = threading.Event()
    monkeypatch.setattr(executor, "_warn_if_paused", lambda _: looked.set())
    with executor.warned_if_paused(client):
        pass
    monkeypatch.setattr(executor, "_PATIENCE", 0.01)
    assert not looked.is_set()
    with executor.warned_if_paused(client):
        assert looked.wait(30)
