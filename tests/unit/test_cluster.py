"""On a Dask cluster: the draws of one machine, whatever the workers, blocks and input."""

from __future__ import annotations

import pickle
from contextlib import contextmanager

import numpy as np
import pytest
from sklearn.base import clone

pytest.importorskip("distributed", reason="needs the extra dibpnmf[dask]")

from distributed import Client, LocalCluster

from dibpnmf import DIBPNMF
from dibpnmf.cluster.blocks import Call, OtherVersionError, Parcel, cut_cells, run_block
from dibpnmf.cluster.executor import ClusterError, Dask
from dibpnmf.cluster.packing import Broadcast, pack, unpack
from dibpnmf.cluster.placed import even_bounds
from dibpnmf.datasets import make_planted
from dibpnmf.inference import starts
from dibpnmf.inference.executors import Serial
from dibpnmf.observations import Observations
from dibpnmf.runs.data import checksum

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")

Y = make_planted(30, 24, 3, random_state=0).data
SHORT = {"n_warmup": 2, "n_draws": 2, "n_chains": 1, "random_state": 0, "init": "prior",
         "epsilon": 0.05, "max_components": 6}  # fmt: skip


@contextmanager
def in_process(n_workers: int):
    """Workers that are threads of this process: they start at once and share its kernels."""
    with (
        LocalCluster(
            n_workers=n_workers, threads_per_worker=1, processes=False, dashboard_address=None
        ) as cluster,
        Client(cluster) as client,
    ):
        yield client


@pytest.fixture(scope="module")
def client():
    with in_process(2) as client:
        yield client


def with_missing(Y):
    Y = Y.copy()
    Y[np.random.default_rng(1).random(Y.shape) < 0.3] = np.nan
    return Y


def assert_same(ours: DIBPNMF, theirs: DIBPNMF) -> None:
    for name in ("components_", "embedding_", "components_mean_", "shares_"):
        np.testing.assert_array_equal(getattr(ours, name), getattr(theirs, name))
    assert ours.log_likelihood_ == theirs.log_likelihood_
    for one, other in zip(ours._records, theirs._records, strict=True):
        assert one.log_likelihood == other.log_likelihood
        for draw, twin in zip(one.draws, other.draws, strict=True):
            for side, same in zip(draw.unpack(), twin.unpack(), strict=True):
                np.testing.assert_array_equal(side, same)


# ---------------------------------------------------------------------- parts


@pytest.mark.parametrize("density", [0.0, 0.3, 1.0])
def test_loadings_arrive_as_they_left(density):
    rng = np.random.default_rng(0)
    A = rng.random((7, 5)) * (rng.random((7, 5)) < density)
    np.testing.assert_array_equal(unpack(pack(A)), A)
    arrived = pickle.loads(pickle.dumps(Broadcast(pack(A))))
    np.testing.assert_array_equal(arrived.array(), A)
    assert arrived.lists().row_ptr[-1] == np.count_nonzero(A)


def test_arrays_that_arrive_read_only_are_copied():
    frozen = np.ones((2, 2))
    frozen.flags.writeable = False
    assert unpack(frozen).flags.writeable


@pytest.mark.parametrize("weights", [np.ones(9), np.arange(9) ** 3, np.eye(9)[0], np.eye(9)[8]])
@pytest.mark.parametrize("n_blocks", [1, 2, 4, 9, 20])
def test_blocks_cover_the_rows(weights, n_blocks):
    bounds = even_bounds(weights + 1e-9, n_blocks)
    assert bounds[0] == 0
    assert bounds[-1] == 9
    assert np.all(np.diff(bounds) > 0)
    assert bounds.size - 1 == min(n_blocks, 9)


def test_blocks_are_about_equally_heavy():
    weights = np.random.default_rng(0).exponential(size=1000)
    heavy = np.add.reduceat(weights, even_bounds(weights, 10)[:-1])
    assert heavy.max() < 1.2 * heavy.min()


def test_a_worker_with_another_version_refuses_the_block():
    cells = cut_cells(Observations.from_matrix(Y).side(0), 0, 3)
    parcel = Parcel(Call("dibpnmf.runs.data", "digest_rows", None, (), "0.0.1"), [])
    with pytest.raises(OtherVersionError, match=r"this process has dibpnmf .*0\.0\.1 is asked"):
        run_block(cells, parcel, None)


# ---------------------------------------------------------------------- same draws


@pytest.mark.parametrize("n_workers", [1, 2, 4])
def test_same_draws_on_any_number_of_workers(n_workers, monkeypatch):
    monkeypatch.setattr(starts, "_ITERATIONS", 3)
    model = DIBPNMF(**{**SHORT, "init": "nmf", "epsilon": "auto"})
    expected = clone(model).fit(Y)
    with in_process(n_workers) as client:
        # The client is the current one.
        assert_same(clone(model).set_params(executor="dask").fit(Y), expected)


@pytest.mark.parametrize("n_blocks", [1, 3, 30])
def test_same_bits_in_any_blocks(client, n_blocks):
    observations = Observations.from_matrix(with_missing(Y))
    cluster = Dask(client, n_blocks)
    placed = cluster.place(observations)
    assert len(placed.side(0).blocks) == n_blocks
    assert checksum(placed, cluster) == checksum(observations, Serial())


def test_threads_and_serial_are_executors():
    assert_same(DIBPNMF(**SHORT, executor="serial", n_jobs=2).fit(Y), DIBPNMF(**SHORT).fit(Y))


# ---------------------------------------------------------------------- as a parameter


@pytest.mark.parametrize("wrong", ["processes", 3, None])
def test_other_executors_are_refused(wrong):
    with pytest.raises(ValueError, match="executor must be 'threads', 'serial', 'dask' or"):
        DIBPNMF(executor=wrong).fit(Y)


def test_a_model_with_a_client_is_cloned_and_pickled(client):
    model = DIBPNMF(**SHORT, executor=client)
    assert clone(model).executor is client
    model.fit(Y)
    arrived = pickle.loads(pickle.dumps(model))
    assert arrived.executor == "dask"
    assert_same(arrived, model)


def test_a_cluster_without_workers_is_refused():
    with in_process(0) as client, pytest.raises(ClusterError, match="was lost"):
        import dask

        with dask.config.set({"distributed.comm.timeouts.connect": "0.1s"}):
            DIBPNMF(**SHORT, executor=client).fit(Y)
