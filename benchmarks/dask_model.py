"""The model of docs/scaling.md: its tables, from the constants that `dask_cluster` measured.

    python -m benchmarks.dask_model

A sweep takes the sum of four times:

    compute    terms × seconds a term / threads
    client     entries of the loadings × seconds an entry, in one thread
    transfer   bytes through the client's link, and bytes into each worker, / bandwidth
    scheduling half-sweeps and tasks × seconds each
"""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import NamedTuple

import numpy as np

from benchmarks.dask_cluster import _GROWTH_K, _K, _SIDE, _USED, Size, loadings
from benchmarks.measure import seconds
from dibpnmf.cluster.packing import pack, unpack
from dibpnmf.inference.gibbs import summarise
from dibpnmf.inference.labels import relabel

_BANDWIDTH = 1.25e9  # bytes a second: a network of 10 Gbit/s, assumed, not measured
_BLOCKS = 2  # a thread, each side
_CALIBRATED = 2  # sizes that constants come from; the others check them
_PATH = Path(__file__).parents[1] / "docs" / "scaling.json"


class Time(NamedTuple):
    compute: float
    client: float
    transfer: float
    scheduling: float


def entry_cost() -> float:
    """Seconds that the client spends on an entry of the loadings in a sweep."""
    A, X = loadings(Size(100_000, 20_000, 0, _K))
    order, ones = np.arange(_K), np.ones(_K)

    def work() -> None:
        for side in (A, X):
            pack(side)  # as the rows' own
            side[:] = unpack(pack(side))  # as the other side's; and what comes back
            relabel(side, ones, order)
        summarise((A, X))
        summarise((A, X))

    work()
    return min(seconds(work) for _ in range(5)) / (A.size + X.size)


def packed(entries: float) -> float:
    """Bytes of so many entries on their way: a bit each, and the values of those that are on."""
    return entries * (1 / 8 + 8 * _USED)


def predict(record: dict, cells: float, rows: float, columns: float, K: int, workers: int,
            bandwidth: float = _BANDWIDTH) -> Time:  # fmt: skip
    """Time of a sweep with workers of one thread each."""
    entries = (rows + columns) * K
    per_cell = record["seconds_a_cell"] + record["seconds_a_term"] * K * _USED
    link = 3.0 * packed(entries)  # own rows, the broadcast, and updated rows
    into = packed(entries) * max(1.0, math.log2(workers))  # workers hand the broadcast on
    return Time(
        2.0 * cells * per_cell / workers,
        entries * record["seconds_an_entry"],
        (link + into) / bandwidth,
        2.0 * (record["seconds_a_half_sweep"] + _BLOCKS * workers * record["seconds_a_task"]),
    )


def calibrated(record: dict) -> dict:
    """Constants from the measured sweeps of 2 workers with the fewest cells, at either K."""
    overhead = 2.0 * (record["seconds_a_half_sweep"] + 2 * _BLOCKS * record["seconds_a_task"])

    def each(seconds: float, cells: int, K: int) -> float:
        """Seconds of one of two threads, a cell and side."""
        return (seconds - overhead - 2 * _SIDE * K * record["seconds_an_entry"]) / cells

    few = [(int(n), t) for n, t in record["growth"].items()][:_CALIBRATED]
    small = float(np.mean([each(t, n, _GROWTH_K) for n, t in few]))
    large = each(record["seconds_a_sweep_workers"], few[0][0], _K)
    slope = max(0.0, large - small) / ((_K - _GROWTH_K) * _USED)
    return {
        **record,
        "seconds_a_term": slope,
        "seconds_a_cell": small - slope * _GROWTH_K * _USED,
    }


def memory(cells: float, rows: float, columns: float, K: int, workers: int) -> tuple[float, float]:
    """Bytes that a worker and the client hold: cells by row and column, loadings and lists."""
    larger = max(rows, columns) * K * (8 + 24 * _USED)
    return 2 * 12 * cells / workers + larger, 8 * (rows + columns) * K


_CASES = (  # observed cells, rows, columns
    (1e9, 5e6, 5e5),
    (1e11, 2e8, 5e6),
)


def main() -> None:
    record = json.loads(_PATH.read_text())
    record["seconds_an_entry"] = entry_cost()
    record = calibrated(record)
    print("constants")
    for name in ("seconds_a_term", "seconds_a_cell", "seconds_an_entry", "seconds_a_half_sweep",
                 "seconds_a_task", "bytes_a_half_sweep"):  # fmt: skip
        print(f"  {name:22} {record[name]:.3g}")
    print("\nobserved cells  measured  predicted  error   (2 workers, not used for calibration)")
    for n, measured in list(record["growth"].items())[_CALIBRATED:]:
        # On loopback a transfer is a copy in memory.
        time = sum(predict(record, int(n), _SIDE, _SIDE, _GROWTH_K, 2, bandwidth=math.inf))
        print(f"{int(n):14,}  {measured:7.2f}s  {time:8.2f}s  {time / measured - 1:+.0%}")
    print("\nseconds of a sweep, K = 50, and GB that a worker and the client hold")
    print("cells   workers   compute    client  transfer  scheduling   a sweep  worker  client")
    for cells, rows, columns in _CASES:
        for workers in (10, 100, 1000):
            time = predict(record, cells, rows, columns, 50, workers)
            parts = "  ".join(f"{part:8.1f}" for part in time)
            held = "  ".join(f"{x / 1e9:6.1f}" for x in memory(cells, rows, columns, 50, workers))
            print(f"{cells:.0e}  {workers:6}  {parts}  {sum(time):10.1f}  {held}")
    _PATH.write_text(json.dumps(record, indent=1) + "\n")


if __name__ == "__main__":
    main()
