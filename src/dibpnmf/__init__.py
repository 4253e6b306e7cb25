"""Nonnegative matrix factorization with dependent Indian Buffet Process priors.

>>> from dibpnmf import DIBPNMF
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

# Public names by the module that holds them; loaded on first use, so that `import dibpnmf` is
# quick.
_PUBLIC = {"DIBPNMF": "dibpnmf.estimator", "SparseNMF": "dibpnmf.baselines"}

if TYPE_CHECKING:
    from dibpnmf.baselines import SparseNMF
    from dibpnmf.estimator import DIBPNMF

__all__ = ["DIBPNMF", "SparseNMF", "__version__"]


def __getattr__(name: str) -> Any:
    if name in _PUBLIC:
        return getattr(import_module(_PUBLIC[name]), name)
    raise AttributeError(f"module 'dibpnmf' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
