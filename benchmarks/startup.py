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
import json, time
{}
start = time.perf_counter()
{}
print(json.dumps(time.perf_counter() - start))
"""
_PACKAGE = _IMPORT.format("import numpy", "import dibpnmf")
# scikit-learn and numba take several times as long, whoever imports them.
_ESTIMATOR = _IMPORT.format("import numba, sklearn.base", "from dibpnmf import DIBPNMF")

_COMPILED = """
from numba.core import event
with event.install_recorder("numba:compile") as recorder:
    from dibpnmf import DIBPNMF
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
    _child(_ESTIMATOR)
    package, estimator = (
        np.array([_child(code) for _ in range(_REPEATS)]) for code in (_PACKAGE, _ESTIMATOR)
    )
    compiled = _child(_COMPILED)
    with tempfile.TemporaryDirectory() as cache:
        cold = _child(_FIT, cache)[0]  # type: ignore[index]
        warm = np.array([np.subtract(*_child(_FIT, cache)) for _ in range(_REPEATS)])
    return [
        _seconds("`import dibpnmf`", "seconds more than `import numpy`", package, 0.4),
        _seconds(f"`from dibpnmf import DIBPNMF` (kernels compiled meanwhile: {compiled})",
                 "seconds more than `import numba, sklearn.base`", estimator, 0.4),
        _seconds("first fit in a process, warm cache", "seconds more than the same fit again",
                 warm, 1.5),
        _seconds("first fit ever, cold cache", "seconds", np.array([cold]), 25.0),
    ]  # fmt: skip
