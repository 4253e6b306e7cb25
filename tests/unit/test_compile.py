"""The disk cache of compiled kernels follows the sources."""

from __future__ import annotations

import os
import subprocess
import sys
import time

from dibpnmf._compile import drop_stale_cache


def make_package(folder):
    cache = folder / "__pycache__"
    cache.mkdir()
    source, index = folder / "kernel.py", cache / "kernel.nbi"
    source.write_text("")
    index.write_text("")
    return source, index


def date(path, age):
    stamp = time.time() - age
    os.utime(path, (stamp, stamp))


def test_kernels_older_than_a_source_are_dropped(tmp_path):
    source, index = make_package(tmp_path)
    date(source, 10.0)
    date(index, 20.0)
    assert drop_stale_cache(tmp_path) == 1
    assert not index.exists()


def test_newer_kernels_stay_and_sources_of_the_future_do_not_count(tmp_path):
    source, index = make_package(tmp_path)
    date(index, 20.0)
    for age in (30.0, -1000.0):
        date(source, age)
        assert drop_stale_cache(tmp_path) == 0
    assert index.exists()


def test_import_compiles_nothing_and_loads_no_heavy_library():
    code = (
        "import sys, dibpnmf; "
        "print([name for name in ('numba', 'sklearn', 'matplotlib', 'scipy') "
        "if name in sys.modules])"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout.strip() == "[]"
