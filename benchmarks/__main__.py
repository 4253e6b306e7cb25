"""Run the benchmarks: a table on the terminal, results.json beside this file, and the docs.

    python -m benchmarks                   # all, as `make bench` does
    python -m benchmarks cora row_kernel   # some; the others keep their last figures

Most figures are ratios of things run in turn in one process; each line says what it is.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

from benchmarks import (
    convergence,
    cora,
    dask_cluster,
    growth,
    memory,
    mixing,
    movielens,
    row_kernel,
    startup,
)
from benchmarks.measure import Row
from benchmarks.tables import replace_text, write_tables

_SUITES = {
    "row_kernel": row_kernel.run, "cora": cora.run, "movielens": movielens.run,
    "startup": startup.run, "growth": growth.run, "memory": memory.run,
    "convergence": convergence.run, "mixing": mixing.run,
    "dask_cluster": dask_cluster.run,
}  # fmt: skip
_NEED_DATA = ("cora", "movielens")


def main(names: list[str]) -> None:
    path = Path(__file__).parent / "results.json"
    results = json.loads(path.read_text()) if path.exists() else {}
    print(f"{'ratio':>9}  {'10%-90%':>15}  {'to reach':>8}  what / compared with")
    for name in names or list(_SUITES):
        if name in _NEED_DATA and not os.environ.get("DIBPNMF_DATA"):
            print(f"{name} skipped: set DIBPNMF_DATA to a folder with its archive", file=sys.stderr)
            continue
        rows = _SUITES[name]()
        for line in rows:
            _show(line)
        load = os.getloadavg()[0] / (os.cpu_count() or 1)
        results[name] = {"load": round(load, 1), "rows": [line._asdict() for line in rows]}
        replace_text(path, json.dumps(results, indent=1, ensure_ascii=False))
    write_tables(results, [name for name in _SUITES if name in results])
    print(f"\nwritten to {path}, docs/benchmarks.md and README.md")


def _show(line: Row) -> None:
    mark = "" if line.reached else "  (not reached)"
    spread = f"{line.low:.2f}-{line.high:.2f}"
    print(
        f"{line.ratio:9.2f}  {spread:>15}  {line.bar:>8}  {line.what} / {line.compared_with}{mark}"
    )


if __name__ == "__main__":
    main(sys.argv[1:])
