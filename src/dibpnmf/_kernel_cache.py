"""Kernels on disk, which follow every source of the package.

numba compares only a kernel's own file with what it has kept, so a kernel would go on calling what
another file held when it was compiled. Here it counts only beside the sources that it was compiled
from, wherever numba keeps it.
"""

from __future__ import annotations

import warnings
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Any

from numba.core.caching import FunctionCache, IndexDataCacheFile, NullCache
from numba.core.registry import CPUDispatcher

_PACKAGE = Path(__file__).parent


@cache
def stamp_of(package: Path) -> str:
    """Return a digest of all sources below a folder."""
    digest = sha256()
    for path in sorted(package.rglob("*.py")):
        digest.update(path.relative_to(package).as_posix().encode())
        digest.update(sha256(path.read_bytes()).digest())
    return digest.hexdigest()


class _KernelCache(FunctionCache):
    """What is kept of one kernel."""

    def __init__(self, function: Any) -> None:
        super().__init__(function)
        self._cache_file = IndexDataCacheFile(
            self._cache_path,
            self._impl.filename_base,
            (self._impl.locator.get_source_stamp(), stamp_of(_PACKAGE)),
        )


class _NoCache(NullCache):
    """Keeps nothing, and says so when something is compiled."""

    def save_overload(self, sig: Any, data: Any) -> None:
        """Warn once in a process."""
        _warn()


@cache
def _warn() -> None:
    warnings.warn(
        "Compiled kernels cannot be kept, so every process compiles its own: the folders of the "
        "package and of the user's caches are read-only. Set NUMBA_CACHE_DIR to one that is not.",
        RuntimeWarning,
        stacklevel=2,
    )


def kept(compiled: Any) -> Any:
    """Keep on disk what is compiled of a function, or in memory if no folder can be written to."""
    if isinstance(compiled, CPUDispatcher):  # not with NUMBA_DISABLE_JIT
        compiled._cache = _cache_of(compiled.py_func)  # type: ignore[attr-defined]
    return compiled


def _cache_of(function: Any) -> FunctionCache | NullCache:
    try:
        return _KernelCache(function)
    except RuntimeError:  # numba finds no folder
        return _NoCache()
