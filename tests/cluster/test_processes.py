"""Workers as processes of their own: four of them, short of memory, or behind TLS."""

from __future__ import annotations

import shutil
import subprocess
import sys

import numpy as np
import pytest
import scipy.sparse as sp

pytest.importorskip("distributed", reason="needs the extra dibpnmf[dask]")

import dask.array as da
from distributed import Client
from distributed.security import Security

from dibpnmf import DIBPNMF
from dibpnmf.datasets import make_planted

from .test_draws import SHORT, Y, assert_same, folder_of, with_missing
from .test_faults import Cluster, cluster_in

pytestmark = [
    pytest.mark.filterwarnings("ignore::UserWarning"),
    pytest.mark.skipif(sys.platform == "win32", reason="cluster_in kills processes"),
]


@pytest.mark.slow  # most of it is six interpreters that start; the fast suite has four workers here
def test_same_draws_on_four_processes_however_the_data_are_cut(tmp_path):
    """Likelihoods, complete and missing, two chunkings and a folder, on one cluster."""
    counts = np.random.default_rng(3).poisson(1.5, Y.shape).astype(float)
    triplets = folder_of(tmp_path, counts, "npz")
    gaps = with_missing(Y)
    cases = [  # parameters, the matrix here, what the cluster is given
        ({"likelihood": "exponential"}, Y, da.from_array(Y, chunks=(9, 8))),
        ({"likelihood": "gaussian"}, gaps, da.from_array(gaps, chunks=(30, 5))),
        ({"likelihood": "poisson", "zeros": "missing"}, sp.csr_array(counts), triplets),
    ]
    # Here first: what is compiled here is on disk for the four, who would each compile it.
    expected = [DIBPNMF(**SHORT, **params).fit(here) for params, here, _ in cases]
    with cluster_in(tmp_path / "cluster") as cluster:
        for number in range(4):
            cluster.worker(f"worker-{number}")
        with cluster.client(4) as client:
            for (params, _, elsewhere), theirs in zip(cases, expected, strict=True):
                assert_same(DIBPNMF(**SHORT, **params, executor=client).fit(elsewhere), theirs)


def test_same_draws_when_processes_spill_to_disk(tmp_path):
    Y = make_planted(300, 240, 3, random_state=0).data
    expected = DIBPNMF(**SHORT).fit(Y)
    # Only what workers hold decides: an interpreter with numba has most of 250 MB already.
    tight = {"TARGET": "0.002", "SPILL": "False", "PAUSE": "False", "TERMINATE": "False"}
    environment = {
        f"DASK_DISTRIBUTED__WORKER__MEMORY__{key}": value for key, value in tight.items()
    }
    with cluster_in(tmp_path / "cluster") as cluster:
        for name in ("first", "second"):
            cluster.worker(name, "--memory-limit", "250MB", **environment)
        with cluster.client(2) as client:
            model = DIBPNMF(**SHORT, executor=client).fit(da.from_array(Y, chunks=(90, 80)))
            spilled = client.run(lambda dask_worker: dask_worker.data.spilled_total.disk)
    assert_same(model, expected)
    assert len(spilled) == 2
    assert min(spilled.values()) > 0


class Encrypted(Cluster):
    """Scheduler and workers that speak TLS only, with one self-signed certificate for all."""

    def __init__(self, folder) -> None:
        self.key, self.certificate = folder / "key.pem", folder / "certificate.pem"
        subprocess.run(
            ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "1", "-subj",
             "/CN=127.0.0.1", "-addext", "subjectAltName=IP:127.0.0.1", "-keyout", str(self.key),
             "-out", str(self.certificate)],
            check=True, capture_output=True,
        )  # fmt: skip
        super().__init__(folder)

    def _start(self, kind: str, *options: str, **environment: str) -> subprocess.Popen:
        files = ("--tls-ca-file", self.certificate, "--tls-cert", self.certificate, "--tls-key",
                 self.key)  # fmt: skip
        return super()._start(kind, *options, *map(str, files), "--protocol", "tls", **environment)

    def client(self, n_workers: int) -> Client:
        security = Security(
            tls_ca_file=str(self.certificate),
            tls_client_cert=str(self.certificate),
            tls_client_key=str(self.key),
            require_encryption=True,
        )
        client = Client(
            scheduler_file=str(self.file), timeout=60, set_as_default=False, security=security
        )
        client.wait_for_workers(n_workers, timeout=120)
        return client


@pytest.mark.skipif(shutil.which("openssl") is None, reason="needs openssl for a certificate")
def test_same_draws_over_tls(tmp_path):
    expected = DIBPNMF(**SHORT).fit(Y)
    with cluster_in(tmp_path / "cluster", Encrypted) as cluster:
        cluster.worker("first")
        cluster.worker("second")
        with cluster.client(2) as client:
            info = client.scheduler_info()
            model = DIBPNMF(**SHORT, executor=client).fit(da.from_array(Y, chunks=(9, 8)))
    addresses = [info["address"], *info["workers"]]
    assert all(address.startswith("tls://127.0.0.1:") for address in addresses)
    assert_same(model, expected)
