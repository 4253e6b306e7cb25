"""On a Dask cluster: the draws of one machine, whatever the workers, blocks and input."""

from __future__ import annotations

import itertools
import pickle
import shutil
from contextlib import contextmanager

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from sklearn.base import clone

pytest.importorskip("distributed", reason="needs the extra dibpnmf[dask]")

import dask
import dask.array as da
from distributed import Client, LocalCluster

from dibpnmf import DIBPNMF
from dibpnmf._progress import Progress
from dibpnmf.cluster import executor
from dibpnmf.cluster.blocks import Call, OtherVersionError, Parcel, cut_cells, run_block
from dibpnmf.cluster.executor import ClusterError, Dask
from dibpnmf.cluster.packing import Broadcast, pack, unpack
from dibpnmf.cluster.placed import even_bounds
from dibpnmf.cluster.reading import place_elsewhere
from dibpnmf.datasets import make_planted
from dibpnmf.diagnostics import InterruptedWarning
from dibpnmf.inference import starts
from dibpnmf.inference.executors import Serial
from dibpnmf.likelihoods.base import Moments
from dibpnmf.observations import Observations
from dibpnmf.runs.data import checksum
from dibpnmf.runs.errors import RunFolderError

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")

Y = make_planted(30, 24, 3, random_state=0).data
SHORT = {"n_warmup": 2, "n_draws": 2, "n_chains": 1, "random_state": 0, "init": "prior",
         "epsilon": 0.05, "max_components": 6}  # fmt: skip


@contextmanager
def in_process(n_workers: int, **options):
    """Workers that are threads of this process: they start at once and share its kernels."""
    with (
        LocalCluster(
            n_workers=n_workers,
            threads_per_worker=1,
            processes=False,
            dashboard_address="127.0.0.1:0",
            **options,
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
    assert arrived.lists(for_all_cells=False).column_ptr[-1] == np.count_nonzero(A)


def test_kernels_may_write_what_arrives_and_the_sender_does_not_see_it():
    sent = np.ones((2, 2))
    sent.flags.writeable = False
    arrived = unpack(pack(sent))
    arrived[0, 0] = 5.0
    assert sent[0, 0] == 1.0


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
    with in_process(n_workers):
        # The client is the current one.
        assert_same(clone(model).set_params(executor="dask").fit(Y), expected)


@pytest.mark.parametrize("n_blocks", [1, 3, 30])
def test_same_bits_in_any_blocks(client, n_blocks):
    observations = Observations.from_matrix(with_missing(Y))
    cluster = Dask(client, n_blocks)
    placed = cluster.place(observations)
    assert len(placed.side(0).blocks) == n_blocks
    assert checksum(placed, cluster) == checksum(observations, Serial())


def test_same_draws_when_workers_spill_to_disk(tmp_path):
    # Only what workers hold decides: the memory of this process is not theirs.
    tight = {"target": 0.002, "spill": False, "pause": False, "terminate": False}
    config = {f"distributed.worker.memory.{name}": value for name, value in tight.items()}
    options = {"memory_limit": "1 MB", "local_directory": str(tmp_path)}
    with dask.config.set(config), in_process(2, **options) as client:
        model = DIBPNMF(**SHORT, executor=client).fit(da.from_array(Y, chunks=(9, 8)))
        spilled = client.run(lambda dask_worker: dask_worker.data.spilled_total.disk)
    assert_same(model, DIBPNMF(**SHORT).fit(Y))
    assert min(spilled.values()) > 0


def test_threads_and_serial_are_executors():
    assert_same(DIBPNMF(**SHORT, executor="serial", n_jobs=2).fit(Y), DIBPNMF(**SHORT).fit(Y))


# ---------------------------------------------------------------------- data elsewhere

COUNTS = np.random.default_rng(3).poisson(1.5, Y.shape).astype(float)


def folder_of(path, matrix, kind: str):
    """Cells of a matrix that are not zero, shuffled over three files."""
    coo = sp.coo_array(matrix)
    order = np.random.default_rng(0).permutation(coo.nnz)
    for number, part in enumerate(np.array_split(order, 3)):
        columns = {"row": coo.row[part], "column": coo.col[part], "value": coo.data[part]}
        if kind == "npz":
            np.savez(path / f"{number}.npz", **columns)
        else:
            pd.DataFrame(columns).to_parquet(path / f"{number}.parquet")
    return path


def stacked(matrix, sizes):
    ends = np.cumsum([0, *sizes])
    return [dask.delayed(matrix[a:b]) for a, b in itertools.pairwise(ends)]


SPARSE = sp.csr_array(COUNTS)
FORMS = {
    "dense": (Y, lambda Y, _: da.from_array(Y, chunks=(7, 10))),
    "dense, one chunk": (Y, lambda Y, _: da.from_array(Y, chunks=Y.shape)),
    "dense, missing cells": (with_missing(Y), lambda Y, _: da.from_array(Y, chunks=(13, 24))),
    "unknown chunks": (Y, lambda Y, _: da.from_array(Y, chunks=(7, 24))[da.ones(30) > 0]),
    "sparse chunks": (SPARSE, lambda Y, _: da.from_array(Y.toarray(), chunks=(11, 24)).map_blocks(
        sp.csr_array, dtype=float)),
    "delayed": (SPARSE, lambda Y, _: stacked(Y, [1, 9, 0, 20])),
    "npz": (SPARSE, lambda Y, path: folder_of(path, Y, "npz")),
    "parquet": (SPARSE, lambda Y, path: str(folder_of(path, Y, "parquet"))),
}  # fmt: skip


@pytest.mark.parametrize("zeros", ["observed", "missing"])
@pytest.mark.parametrize("form", FORMS)
def test_same_bits_wherever_the_data_lie(client, tmp_path, form, zeros):
    matrix, elsewhere = FORMS[form]
    cluster = Dask(client, 3)
    placed, moments = place_elsewhere(
        cluster, elsewhere(matrix, tmp_path), zeros, "exponential", 1e250
    )
    expected = Observations.from_matrix(matrix, zeros)
    assert placed.here() is None
    for name in ("shape", "is_complete", "scale", "n_observed", "n_stored"):
        assert getattr(placed, name) == getattr(expected, name)
    for t in range(2):
        blocks = client.gather(placed.side(t).blocks)
        assert [block.first for block in blocks] == placed.side(t).bounds[:-1].tolist()
        for name in ("indices", "values"):
            whole = np.concatenate([getattr(block, name) for block in blocks])
            np.testing.assert_array_equal(whole, getattr(expected.side(t), name))
        assert all(block.indices.dtype == np.int32 for block in blocks)
        sizes = np.concatenate([np.diff(block.indptr) for block in blocks])
        np.testing.assert_array_equal(sizes, np.diff(expected.side(t).indptr))
    values = matrix.data if sp.issparse(matrix) else matrix[~np.isnan(matrix)]
    known = Moments.of([values], expected.n_observed, expected.scale)
    np.testing.assert_allclose(moments, known, rtol=1e-12)


@pytest.mark.parametrize("likelihood", ["exponential", "poisson"])
def test_same_draws_of_a_dask_array(client, likelihood):
    model = DIBPNMF(**SHORT, likelihood=likelihood)
    elsewhere = da.from_array(COUNTS, chunks=(9, 8))
    ours = clone(model).set_params(executor=client).fit(elsewhere)
    assert_same(ours, clone(model).fit(COUNTS))
    assert ours.n_features_in_ == COUNTS.shape[1]


def spoilt(value):
    matrix = COUNTS.copy()
    matrix[17, 20] = value
    return matrix


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (lambda _: da.from_array(spoilt(-1.0), chunks=(7, 10)), r"Y\[17, 20\] is -1.0"),
        (lambda _: stacked(spoilt(np.inf), [20, 10]), r"Y\[17, 20\] is inf"),
        (lambda _: da.from_array(spoilt(0.5), chunks=(7, 10)), "whole numbers from 0 up"),
        (lambda _: da.from_array(spoilt(np.nan) * np.nan, chunks=(7, 10)), "no observed cell"),
        (lambda _: da.ones(5), "dask array with 1 dimension"),
        (lambda _: da.ones((5, 5), dtype=complex), "dtype complex"),
        (lambda _: [dask.delayed(COUNTS), dask.delayed(COUNTS[:, :3])], "do not fit together"),
        (lambda _: [dask.delayed("text")], "Blocks of Y must be matrices"),
        (lambda path: path, "has no file of triplets"),
        (lambda path: path / "absent", "no folder here"),
        (lambda path: np.savez(path / "a.npz", row=[1], value=[1.0]) or path, "must hold arrays"),
        (lambda path: (path / "a.npz").write_bytes(b"PK") and path, "cannot be read"),
        (
            lambda path: np.savez(path / "a.npz", row=[1, 1], col=[0, 0], value=[1, 2]) or path,
            r"Y\[1, 0\] is given twice",
        ),
        (
            lambda path: np.savez(path / "a.npz", row=[-1], col=[0], value=[1]) or path,
            "row must lie in 0",
        ),
    ],
)
def test_bad_data_elsewhere_are_refused(client, tmp_path, given, words):
    model = DIBPNMF(**SHORT, likelihood="poisson", executor=client)
    with pytest.raises((ValueError, TypeError), match=words):
        model.fit(given(tmp_path))


def test_an_error_of_the_source_is_the_users_to_see(client):
    absent = dask.delayed(np.load)("absent.npy")
    with pytest.raises(FileNotFoundError, match=r"absent\.npy"):
        DIBPNMF(**SHORT, executor=client).fit([absent])


def test_data_elsewhere_are_not_gathered_silently(tmp_path):
    for elsewhere in (da.from_array(Y), stacked(Y, [10, 20]), tmp_path):
        with pytest.raises(TypeError, match="would gather Y"):
            DIBPNMF(**SHORT).fit(elsewhere)
    with pytest.raises(TypeError, match="Y must be a matrix"):
        DIBPNMF(**SHORT).fit("no folder")


def test_without_a_client_there_is_a_cluster_here_for_as_long_as_the_fit(monkeypatch):
    started = []

    def in_this_process(**options):
        assert options.pop("host") == "127.0.0.1"
        started.append(LocalCluster(**options, processes=False))
        return started[-1]

    def current():
        raise ValueError("No clients found")

    monkeypatch.setattr(executor, "LocalCluster", in_this_process)
    monkeypatch.setattr(Client, "current", current)
    assert_same(DIBPNMF(**SHORT, executor="dask", n_jobs=2).fit(Y), DIBPNMF(**SHORT).fit(Y))
    assert len(started) == 1
    assert started[0].status.name == "closed"


# ---------------------------------------------------------------------- checkpoints


class StopError(Exception):
    pass


@pytest.mark.parametrize("keep_draws", [True, False])
def test_a_run_is_resumed_anywhere(client, tmp_path, monkeypatch, keep_draws):
    """Begun on a cluster over a matrix elsewhere, gone on with there, ended in threads."""
    elsewhere = da.from_array(Y, chunks=(9, 8))
    model = DIBPNMF(**{**SHORT, "n_chains": 2}, keep_draws=keep_draws, checkpoint_every=0.0)
    expected = clone(model).fit(Y)
    model.set_params(checkpoint=tmp_path / "run")
    report = Progress.report
    for last in (1, 3):

        def stopping(self, chain, sweep, K, log_likelihood, last=last):
            report(self, chain, sweep, K, log_likelihood)
            if sweep == last:
                raise StopError

        with monkeypatch.context() as patched:
            patched.setattr(Progress, "report", stopping)
            with pytest.raises(StopError):
                clone(model).set_params(executor=client).fit(elsewhere)
    assert not (tmp_path / "run" / "data.npz").exists()
    shutil.copytree(tmp_path / "run", tmp_path / "copy")
    ended = clone(model).set_params(executor=client).fit(elsewhere)
    assert_same(ended, expected)
    assert_same(clone(model).set_params(checkpoint=tmp_path / "copy").fit(Y), expected)
    assert_same(DIBPNMF.load(tmp_path / "run"), expected)


def test_a_run_over_data_elsewhere_that_has_not_ended_is_read_with_a_warning(client, tmp_path):
    run = tmp_path / "run"
    model = DIBPNMF(**SHORT, executor=client, checkpoint=run).fit(da.from_array(Y))
    (run / "point.npz").unlink()
    with pytest.warns(InterruptedWarning, match="left where it lay"):
        loaded = DIBPNMF.load(run)
    # In order of shares, which are those of one draw here and of a mean there.
    masks = [sorted((m.components_ > 0).tolist()) for m in (loaded, model)]
    assert masks[0] == masks[1]


def test_other_data_are_refused(client, tmp_path):
    model = DIBPNMF(**SHORT, executor=client, checkpoint=tmp_path / "run")
    model.fit(da.from_array(Y))
    other = Y.copy()
    other[[0, 1]] = other[[1, 0]]
    with pytest.raises(RunFolderError, match="data are not those"):
        model.fit(da.from_array(other))


# ---------------------------------------------------------------------- lazily


@pytest.fixture(scope="module")
def fitted():
    return DIBPNMF(**SHORT).fit(Y)


@pytest.mark.parametrize("method", ["transform", "predict"])
@pytest.mark.parametrize("chunks", [(7, 10), (30, 24), (1, 24)])
def test_new_rows_lazily(fitted, method, chunks):
    new = with_missing(Y[::-1])
    new[4:9] = Y[4:9]  # rows without a missing cell among others
    lazy = getattr(fitted, method)(da.from_array(new, chunks=chunks))
    assert isinstance(lazy, da.Array)
    assert lazy.shape == (30, fitted.n_components_ if method == "transform" else 24)
    found = lazy.compute(scheduler="synchronous")
    # Products are rounded as the shape of their factors has it.
    tolerance = 0.0 if method == "transform" else 1e-14
    np.testing.assert_allclose(found, getattr(fitted, method)(new), rtol=tolerance)


def test_nothing_is_computed_before_it_is_asked_for(fitted):
    never = da.map_blocks(lambda: 1 / 0, chunks=((5, 5), (24,)), dtype=float)
    lazy = fitted.transform(never)
    with pytest.raises(ZeroDivisionError):
        lazy.compute(scheduler="synchronous")


def test_sparse_rows_lazily(fitted):
    lazy = da.from_array(COUNTS, chunks=(11, 24)).map_blocks(sp.csr_array, dtype=float)
    expected = fitted.transform(SPARSE)
    np.testing.assert_array_equal(fitted.transform(lazy).compute(), expected)


@pytest.mark.parametrize("options", [{}, {"point": "median"}, {"interval": 0.9},
                                     {"levels": [0, 1, 2], "interval": 0.5}])  # fmt: skip
def test_cells_lazily(fitted, options):
    rows, columns = np.arange(30) % 7, np.arange(30) % 5
    expected = fitted.predict(rows, columns, **options)
    lazy = fitted.predict(da.from_array(rows, chunks=8), columns, **options)
    for ours, theirs in zip(np.atleast_2d(dask.compute(*lazy) if "interval" in options
                                          else lazy.compute()),
                            np.atleast_2d(expected), strict=True):  # fmt: skip
        np.testing.assert_array_equal(ours, theirs)


def test_wrong_rows_are_refused_before_anything_is_computed(fitted):
    with pytest.raises(ValueError, match="24 columns of the fitted one"):
        fitted.transform(da.ones((5, 3)))
    with pytest.raises(TypeError, match="integers"):
        fitted.predict(da.ones(3), da.ones(3))
    with pytest.raises(TypeError, match="would gather Y"):
        fitted.score(da.from_array(Y))


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
    with (
        dask.config.set({"distributed.comm.timeouts.connect": "0.1s"}),
        in_process(0) as client,
        pytest.raises(ClusterError, match="no worker"),
    ):
        Dask(client)
