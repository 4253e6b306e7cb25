"""How this package compiles: what Python calls, and its parts."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cached_property
from types import FunctionType
from typing import Any, TypeVar

from numba import njit, types
from numba.core.compiler_lock import global_compiler_lock
from numba.core.registry import CPUDispatcher

from dibpnmf._kernel_cache import kept
from dibpnmf._parts import PartCompiler

F = TypeVar("F", bound=Callable[..., Any])

_OBJECTS = 10_000  # new ones between two looks for garbage, while compiling


@contextmanager
def _seldom_collecting() -> Iterator[None]:
    """Look for garbage less often: while numba compiles, an eighth of the time goes there."""
    found = gc.get_threshold()
    gc.set_threshold(max(found[0], _OBJECTS) if found[0] else 0, *found[1:])
    try:
        yield
    finally:
        gc.set_threshold(*found)


class _Kernel(CPUDispatcher):
    """A compiled function that Python calls."""

    def compile(self, sig: Any) -> Any:
        """Compile, or load from disk, for these types of arguments."""
        with global_compiler_lock, _seldom_collecting():
            return super().compile(sig)

    def get_call_template(self, args: Any, kws: Any) -> Any:
        """Resolve a call from compiled code; integers that it spells out are like all others."""
        return super().get_call_template([types.unliteral(arg) for arg in args], kws)


class _Part(_Kernel):
    """A compiled function that only others call: neither machine code nor wrappers of its own."""

    def __call__(self, *args: Any) -> Any:
        """Run what kernels call, compiled once more for Python: for tests."""
        return self._kernel(*args)

    @cached_property
    def _kernel(self) -> _Kernel:
        own = self.py_func
        copy = FunctionType(own.__code__, own.__globals__, own.__name__, own.__defaults__)
        copy.__qualname__ = f"{own.__qualname__}.from_python"  # a file of its own in the cache
        copy.__module__ = own.__module__
        return kept(_Kernel(copy, {}, self.targetoptions | {"no_cpython_wrapper": False}))


def _compile(function: F, kind: type[_Kernel], **options: Any) -> F:
    if kind is _Part and getattr(function, "__closure__", None):
        raise TypeError(
            f"{function.__name__} closes over variables, so that there may be several of its name. "
            "A kernel that was loaded from disk would call any of them: make it a kernel, or pass "
            "what it needs."
        )
    # numba hands inlining on from a caller to whatever it compiles for it; said here, a function
    # comes out the same whoever calls it first, and does not swell everything above it.
    settings: dict[str, Any] = {"forceinline": False, "inline": "never"} | options
    settings |= {"nogil": True, "error_model": "numpy", "no_cfunc_wrapper": True}
    if kind is _Part:
        settings |= {"no_cpython_wrapper": True, "pipeline_class": PartCompiler}
    compiled: Any = njit(**settings)(function)
    if isinstance(compiled, CPUDispatcher):  # not with NUMBA_DISABLE_JIT
        compiled.__class__ = kind
    return compiled if kind is _Part else kept(compiled)


def kernel(function: F) -> F:
    """Compile on first call, without the interpreter lock, kept on disk: for what Python calls.

    Division by zero gives inf or NaN as in NumPy: a check per division would be slower.
    """
    return _compile(function, _Kernel)


def part(function: F) -> F:
    """Compile into the kernels that call it, and keep nothing on disk but them.

    These know it by its name, which no other part of its module may have; and parts may call
    themselves, but not each other in a circle.
    """
    return _compile(function, _Part)


def inlined(function: F) -> F:
    """Compile as `part` does, into every caller: for what is called once a cell or entry."""
    return _compile(function, _Part, forceinline=True)


def spliced(function: F) -> F:
    """Compile as text of its caller: for long functions with one caller.

    A function that is `inlined` is compiled by itself before it becomes part of its callers. This
    one only if Python calls it, which only tests do, and so as a kernel.
    """
    return _compile(function, _Kernel, inline="always")


def reassociated(function: F) -> F:
    """Compile as `inlined` does, and let sums and products be reordered into vector lanes."""
    return _compile(function, _Part, forceinline=True, fastmath={"reassoc", "contract", "nsz"})


@part
def overwrite(array, values) -> None:  # type: ignore[no-untyped-def]
    """Write values over an array of the same shape.

    ``array[:] = values`` would compile, for seconds, a message about shapes that differ.
    """
    for at in range(array.size):
        array.flat[at] = values.flat[at]
