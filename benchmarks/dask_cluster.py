"""A Dask cluster of two processes beside two threads: time, bytes, memory of the client, growth.

    python -m benchmarks dask_cluster

Data are drawn on the workers from a model with K factors, each used by a fifth of the rows and
columns. What docs/scaling.md computes with is written to docs/scaling.json.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import threading
import warnings
from contextlib import closing, contextmanager
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from benchmarks.measure import Row, row, seconds
from dibpnmf.inference.executors import Executor, Serial, Threads
from dibpnmf.inference.gibbs import Problem, State, sweep_joint
from dibpnmf.likelihoods import Exponential
from dibpnmf.likelihoods.rows import FRESH
from dibpnmf.observations import Observations
from dibpnmf.priors import BivariateBeta

_K, _USED, _FLOOR = 30, 0.2, 0.1
_CELLS, _SIDE = 5_000_000, 20_000
_REPEATS = 5
_GROWTH = (5_000_000, 10_000_000, 20_000_000, 50_000_000)
_GROWTH_K = 10
_RECORD = Path(__file__).parents[1] / "docs" / "scaling.json"


class Size(NamedTuple):
    rows: int
    columns: int
    cells: int
    K: int


def loadings(size: Size) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    A, X = (
        rng.exponential(size=(n, size.K)) * (rng.random((n, size.K)) < _USED)
        for n in (size.rows, size.columns)
    )
    return A, X


def block_of(size: Size, start: int, stop: int) -> sp.csr_array:
    """Rows start..stop of the matrix, wherever they are drawn and with whatever others."""
    A, X = loadings(size)
    per_row = size.cells // size.rows
    rows, columns, values = [], [], []
    for i in range(start, stop):
        rng = np.random.default_rng([1, i])
        at = np.unique(rng.integers(0, size.columns, per_row, dtype=np.int32))
        rows.append(np.full(at.size, i - start, np.int32))
        columns.append(at)
        values.append(rng.exponential(X[at] @ A[i] + _FLOOR) + 1e-9)
    cells = (np.concatenate(values), (np.concatenate(rows), np.concatenate(columns)))
    return sp.csr_array(sp.coo_array(cells, shape=(stop - start, size.columns)))


def delayed_blocks(size: Size, n_blocks: int) -> list[Any]:
    import dask

    ends = np.linspace(0, size.rows, n_blocks + 1).astype(int)
    make = dask.delayed(block_of)
    return [make(size, int(a), int(b)) for a, b in pairwise(ends)]


@contextmanager
def two_workers():
    from distributed import Client, LocalCluster

    with (
        LocalCluster(n_workers=2, threads_per_worker=1, host="127.0.0.1", memory_limit=0,
                     dashboard_address="127.0.0.1:0") as cluster,
        Client(cluster) as client,
    ):  # fmt: skip
        yield client


class Sweeper:
    """Sweeps from the same state each time: the number of factors in use must not change."""

    def __init__(self, observations: Observations, executor: Executor, size: Size) -> None:
        prior = BivariateBeta()
        kernel = Exponential().kernel(_FLOOR)
        self.problem = Problem(observations, prior, kernel, 0, 0, executor)
        A, X = loadings(size)
        self.start = State(
            (A, X / observations.scale), prior.init(self.problem.stream(0, 0), size.K), np.ones(2)
        )

    def sweep(self, number: int = 0) -> tuple[float, State]:
        """Return the seconds that a sweep takes, and where it arrives."""
        start = self.start
        copy = State((start.loadings[0].copy(), start.loadings[1].copy()), start.prior,
                     start.tau.copy())  # fmt: skip
        reached: list[State] = []
        taken = seconds(lambda: reached.append(sweep_joint(self.problem, copy, FRESH + number)[0]))
        return taken, reached[0]


def observe(cluster, size: Size, n_blocks: int):
    from dibpnmf.cluster.reading import place_elsewhere

    data = delayed_blocks(size, n_blocks)
    placed, _ = place_elsewhere(cluster, data, "missing", "exponential", 1e250)
    return placed


# ---------------------------------------------------------------------- bytes


def _install_counter() -> None:
    """Count the bytes that this process reads and writes on Dask's connections."""
    from distributed.comm import tcp

    if hasattr(tcp, "dibpnmf_counted"):
        return
    counted = {"in": 0, "out": 0}
    tcp.dibpnmf_counted = counted
    lock = threading.Lock()
    read, write = tcp.read_bytes_rw, tcp.TCP.write

    async def counting_read(stream, n):
        with lock:
            counted["in"] += n
        return await read(stream, n)

    async def counting_write(self, *args, **kwargs):
        n = await write(self, *args, **kwargs)
        with lock:
            counted["out"] += n
        return n

    tcp.read_bytes_rw, tcp.TCP.write = counting_read, counting_write


def _counted(dask_worker) -> int:
    """Bytes into a worker, and out of it to others than workers: each counted once."""
    from distributed.comm import tcp

    counts = tcp.dibpnmf_counted
    return counts["in"] + counts["out"] - dask_worker.transfer_outgoing_bytes_total


def moved(client, work) -> int:
    """Bytes that the workers send and receive during some work."""
    client.run(_install_counter)
    before = sum(client.run(_counted).values())
    idle = sum(client.run(_counted).values()) - before  # the question itself
    before += idle
    work()
    return sum(client.run(_counted).values()) - before - idle


# ---------------------------------------------------------------------- memory

_CHILD = """
import json, sys, warnings
from benchmarks.dask_cluster import Size, delayed_blocks, two_workers
from dibpnmf import DIBPNMF
warnings.simplefilter("ignore")

def main():
    size = Size(5_000, 5_000, int(sys.argv[1]), 10)
    with two_workers() as client:
        model = DIBPNMF(n_components=10, n_warmup=1, n_draws=1, n_chains=1, zeros="missing",
                        epsilon=0.1, init="prior", random_state=0, executor=client)
        model.fit(delayed_blocks(size, 8))
    with open("/proc/self/status") as status:
        peak = next(int(line.split()[1]) * 1024 for line in status if line.startswith("VmHWM"))
    print(json.dumps({"peak": peak, "cells": model._facts["n_observed"]}))

if __name__ == "__main__":
    main()
"""


def client_memory(folder: Path) -> tuple[float, float]:
    """Peak memory of the client with 8 times the cells, over that with few."""
    script = folder / "client_memory.py"
    script.write_text(_CHILD)
    peaks = []
    for cells in (500_000, 4_000_000):
        done = subprocess.run(
            [sys.executable, str(script), str(cells)], check=True, capture_output=True, text=True,
            env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[1])},
        )  # fmt: skip
        peaks.append(json.loads(done.stdout.splitlines()[-1])["peak"])
    return peaks[1] / peaks[0], peaks[1]


# ---------------------------------------------------------------------- constants


def overhead(cluster, blocks: int) -> float:
    """Seconds of a half-sweep that has next to nothing to compute."""
    from dibpnmf.cluster.executor import Dask

    size = Size(64, 64, 640, 5)
    few = Dask(cluster.client, blocks)
    local = Observations.from_matrix(block_of(size, 0, 64), "missing")
    sweeper = Sweeper(few.place(local), few, size)
    sweeper.sweep()
    return 0.5 * float(np.median([sweeper.sweep(i)[0] for i in range(15)]))


def side_by_side(cluster, threads: Threads, size: Size) -> tuple[list[Row], dict[str, Any]]:
    """Time of sweeps in turn, bytes, and the constants of the model."""
    local = Observations.from_matrix(block_of(size, 0, size.rows), "missing")
    placed = observe(cluster, size, 8)
    ours, theirs = Sweeper(placed, cluster, size), Sweeper(local, threads, size)
    for a, b in zip(ours.sweep()[1].loadings, theirs.sweep()[1].loadings, strict=True):
        np.testing.assert_array_equal(a, b)
    times = np.array([(ours.sweep(i)[0], theirs.sweep(i)[0]) for i in range(_REPEATS)])
    workers, in_threads = np.median(times, axis=0)
    half = moved(cluster.client, partial(ours.sweep, 1)) / 2
    bound = (size.rows + size.columns * 2) * size.K * 8
    serial = Sweeper(local, Serial(), size)
    per_blocks = {blocks: overhead(cluster, blocks) for blocks in (2, 8, 32)}
    slope, base = np.polyfit(list(per_blocks), list(per_blocks.values()), 1)
    what = f"a sweep on 2 workers, {local.n_stored:,} cells, K = {size.K} ({workers:.2f} s)"
    rows = [
        row(what, "in 2 threads", times[:, 0] / times[:, 1], "<= 1.3", lambda r: r <= 1.3),
        row(f"bytes moved a half-sweep ({half / 1e6:.2f} MB)",
            "(rows updated + rows broadcast × workers) × K × 8", np.array([half / bound]),
            "<= 1.1", lambda r: r <= 1.1),
    ]  # fmt: skip
    return rows, {
        "seconds_a_sweep_serial": min(serial.sweep(i)[0] for i in range(2)),
        "seconds_a_sweep_threads": in_threads,
        "seconds_a_sweep_workers": workers,
        "bytes_a_half_sweep": half,
        "bytes_bound": bound,
        "seconds_a_half_sweep": base,
        "seconds_a_task": slope,
        "half_sweep_by_blocks": per_blocks,
    }


def run() -> list[Row]:
    from dibpnmf.cluster.executor import Dask

    warnings.simplefilter("ignore")
    with two_workers() as client, closing(Threads(2)) as threads:
        cluster = Dask(client)
        rows, record = side_by_side(cluster, threads, Size(_SIDE, _SIDE, _CELLS, _K))
        grown = growth(cluster)
    sizes, times = np.log(list(grown)), np.log(list(grown.values()))
    exponent, slopes = float(np.polyfit(sizes, times, 1)[0]), np.diff(times) / np.diff(sizes)
    with tempfile.TemporaryDirectory() as folder:
        memory, peak = client_memory(Path(folder))
    rows += [
        Row(f"exponent of a sweep's time in observed cells, K = {_GROWTH_K}",
            f"{min(grown):,} to {max(grown):,} cells", exponent, float(slopes.min()),
            float(slopes.max()), "<= 1.1", exponent <= 1.1),
        Row(f"peak memory of the client with 4 million cells ({peak / 1e6:.0f} MB)",
            "with 0.5 million", memory, memory, memory, "<= 1.05", memory <= 1.05),
    ]  # fmt: skip
    record |= {
        "machine": {"cores": os.cpu_count(), "load": os.getloadavg()},
        "growth": {str(n): grown[n] for n in grown},
        "client_peak": peak,
    }
    temporary = _RECORD.with_suffix(".part")
    temporary.write_text(json.dumps(record, indent=1) + "\n")
    temporary.replace(_RECORD)
    return rows


def growth(cluster) -> dict[int, float]:
    """Seconds of a sweep by number of observed cells."""
    grown: dict[int, float] = {}
    for cells in _GROWTH:
        size = Size(_SIDE, _SIDE, cells, _GROWTH_K)
        placed = observe(cluster, size, 16)
        sweeper = Sweeper(placed, cluster, size)
        n = placed.n_stored
        grown[n] = min(sweeper.sweep(i)[0] for i in range(2))
        print(f"  {n:,} cells: {grown[n]:.2f} s a sweep", file=sys.stderr)
        del placed, sweeper
    return grown
