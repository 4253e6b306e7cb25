"""Kernels and their parts, and the disk cache, which follows the sources."""

from __future__ import annotations

import gc
import os
import shutil
import subprocess
import sys
import warnings
from pathlib import Path

import numpy as np
import pytest
from numba import njit
from numba.core.caching import CacheImpl
from numba.core.errors import TypingError

import dibpnmf
from dibpnmf import _kernel_cache
from dibpnmf._compile import kernel, part


def output_of(code, folder, **environment):
    """Run code in a process of its own and return what it printed."""
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True, text=True, check=True, timeout=300, cwd=folder,
        env=os.environ | environment,
    )  # fmt: skip
    return done.stdout


CONSTANT = """
from dibpnmf._compile import part

@part
def constant(value):
    return value + {}
"""
CALL = """
from dibpnmf._compile import kernel
from dibpnmf.constants import constant

@kernel
def call(value):
    return constant(value)
"""
OF_TWO = "from call import call; print(call(2), len(call.stats.cache_hits))"


def test_kernels_are_compiled_anew_when_another_source_has_changed(tmp_path):
    package = tmp_path / "dibpnmf"
    shutil.copytree(Path(dibpnmf.__file__).parent, package)
    source = package / "constants.py"
    (tmp_path / "call.py").write_text(CALL)
    where = {"PYTHONPATH": str(tmp_path), "NUMBA_CACHE_DIR": str(tmp_path / "cache")}
    source.write_text(CONSTANT.format(1))
    times = source.stat().st_atime, source.stat().st_mtime
    assert output_of(OF_TWO, tmp_path, **where) == "3 0\n"
    assert output_of(OF_TWO, tmp_path, **where) == "3 1\n"
    source.write_text(CONSTANT.format(5))
    os.utime(source, times)  # dates do not tell
    assert output_of(OF_TWO, tmp_path, **where) == "7 0\n"


def test_without_a_folder_to_write_to_kernels_work_and_say_that_they_are_not_kept(monkeypatch):
    monkeypatch.setattr(CacheImpl, "_locator_classes", [])
    _kernel_cache._warn.cache_clear()

    @kernel
    def double(value):
        return 2 * value

    with pytest.warns(RuntimeWarning, match="Set NUMBA_CACHE_DIR"):
        assert double(3) == 6
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # once is enough
        assert double(1.5) == 3.0


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
        out = output_of(code, tmp_path, NUMBA_CACHE_DIR=str(tmp_path / "cache"))
        assert out.splitlines() == ["told 2", "told 5", "('too much', 5)", hits]


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
