"""Functions that numba resolves, while compiling, by the type of their first argument.

A kernel such as the row update is written once and calls ``log_ratio(likelihood, ...)``; each
likelihood implements that call for its own NamedTuple of parameters. numba then compiles one
kernel per NamedTuple type and keeps it in its disk cache, which a function passed as an
argument would miss in every new process.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from numba import types
from numba.extending import overload, register_jitable

F = TypeVar("F", bound=Callable[..., Any])


class KernelFunction:
    """A function with one implementation per NamedTuple type of its first argument.

    Called from Python it runs the plain Python implementation, which is what tests and
    profilers want; called from a compiled kernel it is resolved at compile time.
    """

    def __init__(self, name: str, doc: str) -> None:
        self.__name__ = name
        self.__doc__ = doc
        self._implementations: dict[type, Callable[..., Any]] = {}

        def stub(*args: Any) -> Any:
            return self._implementations[type(args[0])](*args)

        stub.__name__ = name
        stub.__doc__ = doc
        self.call = stub

    def implement(self, kind: type) -> Callable[[F], F]:
        """Register the decorated function as the implementation for ``kind``."""

        def register(implementation: F) -> F:
            self._implementations[kind] = implementation
            register_jitable(implementation)

            def choose(*args: Any) -> Callable[..., Any] | None:
                first = args[0]
                matches = (
                    isinstance(first, types.BaseNamedTuple)
                    and getattr(first, "instance_class", None) is kind
                )
                return implementation if matches else None

            # Inlined: a call would copy the fields of every array handed over. From Python nobody
            # calls what is compiled, so it needs no wrappers.
            options: Any = {
                "forceinline": True, "error_model": "numpy", "no_cpython_wrapper": True,
                "no_cfunc_wrapper": True,
            }  # fmt: skip
            overload(self.call, strict=False, jit_options=options)(choose)
            return implementation

        return register
