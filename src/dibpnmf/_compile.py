"""How this package compiles: one decorator, and a disk cache that notices changed sources.

numba checks only the file of the outermost function against its cache, so a kernel would go on
calling what another file held when it was compiled. Cached kernels older than any source of
the package are therefore dropped when it is imported.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeVar

from numba import njit

F = TypeVar("F", bound=Callable[..., Any])

_PACKAGE = Path(__file__).parent


def _compiler(inline: bool, splice: bool = False, **options: Any) -> Callable[[F], F]:
    # numba hands inlining on from a caller to whatever it compiles for it; said here, a kernel
    # comes out the same whoever calls it first, and does not swell everything above it.
    options |= {"cache": True, "nogil": True, "error_model": "numpy", "forceinline": inline}
    options |= {"inline": "always" if splice else "never", "no_cfunc_wrapper": True}
    compile_: Any = njit(**options)
    return compile_


def kernel(function: F) -> F:
    """Compile on first call, without the interpreter lock, kept on disk.

    Division by zero gives inf or NaN as in NumPy: a check per division would be slower.
    """
    return _compiler(inline=False)(function)


def inlined(function: F) -> F:
    """Compile as `kernel` does, into every caller: for what is called once a cell or entry."""
    return _compiler(inline=True)(function)


def spliced(function: F) -> F:
    """Compile as `kernel` does, as a part of its caller: for long functions with one caller.

    A function that is `inlined` is optimised by itself first, and again with every caller.
    """
    return _compiler(inline=False, splice=True)(function)


def reassociated(function: F) -> F:
    """Compile as `inlined` does, and let sums and products be reordered into vector lanes."""
    return _compiler(inline=True, fastmath={"reassoc", "contract", "nsz"})(function)


@kernel
def overwrite(array, values) -> None:  # type: ignore[no-untyped-def]
    """Write values over an array of the same shape.

    ``array[:] = values`` would compile, for seconds, a message about shapes that differ.
    """
    for at in range(array.size):
        array.flat[at] = values.flat[at]


def drop_stale_cache(package: Path = _PACKAGE) -> int:
    """Delete cached kernels that are older than the newest source; return how many."""
    # A source dated in the future would make every cache look stale, for ever.
    ages = (path.stat().st_mtime for path in package.rglob("*.py"))
    newest = max((age for age in ages if age <= time.time()), default=0.0)
    dropped = 0
    for index in package.rglob("__pycache__/*.nbi"):
        # Another process may be doing the same, or the folder may be read-only.
        with suppress(OSError):
            if index.stat().st_mtime < newest:
                index.unlink()
                dropped += 1
    return dropped


drop_stale_cache()
