"""Waiting before the first result: import, first fit with a warm cache, first fit ever."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile

import numpy as np

from benchmarks.measure import Row

_REPEATS = 5

_IMPORT = """
import json, sys, time
start = time.perf_counter()
import numpy
middle = time.perf_counter()
import dibpnmf
end = time.perf_counter()
print(json.dumps([middle - start, end - middle]))
"""

_COMPILED = """
from numba.core import event
with event.install_recorder("numba:compile") as recorder:
    import dibpnmf
    print(len(recorder.buffer))
"""

_FIT = """
import json, time, warnings
warnings.simplefilter("ignore")
from dibpnmf import DIBPNMF
from dibpnmf.datasets import make_planted
Y = make_planted(random_state=0).data
times = []
for _ in range(2):
    start = time.perf_counter()
    DIBPNMF(n_warmup=20, n_draws=20, random_state=0).fit(Y)
    times.append(time.perf_counter() - start)
print(json.dumps(times))
"""


def _child(code: str, cache: str | None = None) -> object:
    environment = {**os.environ, **({"NUMBA_CACHE_DIR": cache} if cache else {})}
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True,
                          env=environment)  # fmt: skip
    return json.loads(done.stdout)


def _seconds(what: str, other: str, values: np.ndarray, bar: float) -> Row:
    low, middle, high = np.quantile(values, [0.1, 0.5, 0.9])
    return Row(what, other, middle, low, high, f"< {bar} s", bool(middle < bar))


def run() -> list[Row]:
    _child(_IMPORT)
    added = np.array([_child(_IMPORT)[1] for _ in range(_REPEATS)])  # type: ignore[index]
    compiled = _child(_COMPILED)
    with tempfile.TemporaryDirectory() as cache:
        cold = _child(_FIT, cache)[0]  # type: ignore[index]
        warm = np.array([np.subtract(*_child(_FIT, cache)) for _ in range(_REPEATS)])
    return [
        _seconds(f"`import dibpnmf` (kernels compiled meanwhile: {compiled})",
                 "seconds more than `import numpy`", added, 0.4),
        _seconds("first fit in a process, warm cache", "seconds more than the same fit again",
                 warm, 1.5),
        _seconds("first fit ever, cold cache", "seconds", np.array([cold]), 25.0),
    ]  # fmt: skip
