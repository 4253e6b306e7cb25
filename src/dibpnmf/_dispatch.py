"""Functions that numba resolves, while compiling, by the type of their first argument.

A kernel such as the row update is written once and calls ``log_ratio(likelihood, ...)``; each
likelihood implements that call for its own NamedTuple of parameters. numba then compiles one
kernel per NamedTuple type and keeps it in its disk cache, which a function passed as an
argument would miss in every new process.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from numba.extending import overload, register_jitable

from dibpnmf._parts import PartCompiler

F = TypeVar("F", bound=Callable[..., Any])


def hook(
    name: str, doc: str, inline: bool = True
) -> tuple[Callable[..., Any], Callable[[type], Callable[[F], F]]]:
    """Return a function, and the decorator factory that implements it for a NamedTuple type.

    Called from Python it runs the plain Python implementation, which is what tests and
    profilers want; called from a compiled kernel it is resolved at compile time. It is inlined
    there, as a call would copy the fields of every array handed over, unless that is said not to
    matter: what is long and called in several places then compiles sooner.
    """
    implementations: dict[type, Callable[..., Any]] = {}

    def call(*args: Any) -> Any:
        return implementations[type(args[0])](*args)

    call.__name__, call.__doc__ = name, doc

    def choose(first: Any, *_: Any) -> Callable[..., Any] | None:
        return implementations.get(getattr(first, "instance_class", type(None)))

    # From Python nobody calls what is compiled, so it needs no wrappers.
    options: Any = {
        "forceinline": inline, "error_model": "numpy", "no_cpython_wrapper": True,
        "no_cfunc_wrapper": True, "pipeline_class": PartCompiler,
    }  # fmt: skip
    overload(call, strict=False, jit_options=options)(choose)

    def implement(kind: type) -> Callable[[F], F]:
        def register(implementation: F) -> F:
            implementations[kind] = implementation
            return register_jitable(implementation)

        return register

    return call, implement
