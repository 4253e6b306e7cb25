"""Kernels and their parts, and the disk cache, which follows the sources."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
import time

import numpy as np
import pytest
from numba import njit
from numba.core.errors import TypingError

from dibpnmf._compile import drop_stale_cache, kernel, part


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


@part
def twice(values, n):
    return n * values[0], values


@kernel
def twice_and_thrice(values, n):
    return twice(values, 2)[0] + twice(values, 3)[0] + twice(values, n)[0]


def test_a_part_can_be_called_from_python_as_from_a_kernel():
    values = np.array([1.5])
    assert twice_and_thrice(values, 4) == 1.5 * (2 + 3 + 4)
    doubled, same = twice(values, 2)
    same[0] = 7.0
    assert doubled == 3.0
    assert values[0] == 7.0


def test_integers_that_are_spelled_out_compile_nothing_of_their_own():
    njit(twice_and_thrice.py_func)(np.array([1.5]), 4)  # whatever the cache holds
    assert len(twice.signatures) == 1


TELLTALE = """
from dibpnmf._compile import kernel, part

@part
def told(value):
    print("told", value)
    if value > 3:
        raise ValueError("too much", value)
    return value

@kernel
def tell(value):
    return told(value)
"""


def test_parts_print_and_raise_when_compiled_and_when_loaded(tmp_path):
    (tmp_path / "telltale.py").write_text(TELLTALE)
    code = (
        "from telltale import tell\ntell(2)\ntry:\n  tell(5)\n"
        "except ValueError as error:\n  print(error.args)\nprint(dict(tell.stats.cache_hits))"
    )
    for hits in ("{}", "{(int64,): 1}"):
        out = subprocess.run(
            [sys.executable, "-c", code],
            capture_output=True, text=True, check=True, timeout=300, cwd=tmp_path,
            env=os.environ | {"NUMBA_CACHE_DIR": str(tmp_path / "cache")},
        )  # fmt: skip
        assert out.stdout.splitlines() == ["told 2", "told 5", "('too much', 5)", hits]


def test_parts_make_no_machine_code():
    twice_and_thrice(np.array([1.5]), 4)
    njit(twice_and_thrice.py_func)(np.array([1.5]), 4)  # whatever the cache holds
    (signature,) = twice.signatures
    compiled = twice.overloads[signature]
    name = compiled.fndesc.llvm_func_name
    assert f"@{name}(" in compiled.library.get_llvm_str()
    assert not compiled.target_context.codegen()._engine.is_symbol_defined(name)


def test_a_part_that_there_may_be_two_of_is_refused():
    factor = 2.0

    with pytest.raises(TypeError, match="scaled closes over variables"):

        @part
        def scaled(value):
            return factor * value


def test_compiling_leaves_the_garbage_collector_as_it_was():
    @kernel
    def refused(value):
        return value.no_such_field

    found = gc.get_threshold()
    gc.set_threshold(123, 4, 5)
    try:
        with pytest.raises(TypingError):
            refused(1.0)
        assert gc.get_threshold() == (123, 4, 5)
    finally:
        gc.set_threshold(*found)
