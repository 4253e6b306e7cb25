"""Peak memory above the input: 50,000×50,000 with 5 million observed cells, 50 columns."""

from __future__ import annotations

import json
import subprocess
import sys

from benchmarks.measure import Row

_SIDE, _CELLS, _COLUMNS = 50_000, 5_000_000, 50

# In a process of its own, since a peak of memory can be reset but not divided.
_CHILD = f"""
import json, warnings
import numpy as np, scipy.sparse as sp
from dibpnmf import DIBPNMF
from dibpnmf.datasets import make_planted
warnings.simplefilter("ignore")

def resident(field):
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) * 1024 for line in status if line.startswith(field))

def model(K):
    return DIBPNMF(n_components=K, n_warmup=2, n_draws=2, n_chains=1, zeros="missing",
                   keep_draws=False, random_state=0, n_jobs=2)

model(3).fit(sp.csr_array(make_planted(random_state=0).data))  # compile and import everything
rng = np.random.default_rng(0)
rows = np.sort(rng.integers(0, {_SIDE}, {_CELLS})).astype(np.int32)
columns = rng.integers(0, {_SIDE}, {_CELLS}).astype(np.int32)
Y = sp.csr_array(sp.coo_array((rng.exponential(size={_CELLS}), (rows, columns)),
                              shape=({_SIDE}, {_SIDE})))
Y.sum_duplicates()
del rows, columns
before = resident("VmRSS")
with open("/proc/self/clear_refs", "w") as refs:
    refs.write("5")  # the peak counts from here
model({_COLUMNS}).fit(Y)
print(json.dumps({{"above": resident("VmHWM") - before, "cells": int(Y.nnz)}}))
"""


def run() -> list[Row]:
    command = [sys.executable, "-c", _CHILD]
    # Twice, for the first may have to compile, which takes memory of its own.
    done = [subprocess.run(command, check=True, capture_output=True, text=True) for _ in range(2)]
    result = json.loads(done[-1].stdout)
    needed = result["cells"] * 12 * 2 + 2 * _SIDE * _COLUMNS * 8
    ratio = result["above"] / needed
    return [
        Row(f"peak memory above the input, {_CELLS:,} observed cells, K = {_COLUMNS} "
            f"({result['above'] / 1e6:.0f} MB)",
            f"both copies of the cells and the loadings ({needed / 1e6:.0f} MB)",
            ratio, ratio, ratio, "<= 2", ratio <= 2.0)
    ]  # fmt: skip
