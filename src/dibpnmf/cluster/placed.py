"""A matrix that lies on the workers: what the client knows of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dibpnmf.observations import Observations


@dataclass(frozen=True)
class Side:
    """Blocks of rows of one side: a future of `Cells` each, and where they begin and end."""

    blocks: list[Any]
    bounds: NDArray[np.int64]  # block b has rows bounds[b]..bounds[b + 1]


@dataclass(frozen=True)
class Placed(Observations):
    """Observations whose sides are on the workers (`by_side` has a `Side` each).

    Attributes
    ----------
    stored : int
        Cells that are stored.
    local : Observations or None
        The matrix itself if the client has it.
    """

    stored: int = 0
    local: Observations | None = None

    @property
    def n_stored(self) -> int:
        """Cells that are stored."""
        return self.stored

    def here(self) -> Observations | None:
        """The matrix itself, if this process has it."""
        return self.local

    def observed_index(self) -> tuple[NDArray[np.int64], NDArray[np.int32]] | None:
        """Where the observed cells are, if the client knows it."""
        return self.local.observed_index() if self.local else None


def even_bounds(weights: NDArray[Any], n_blocks: int) -> NDArray[np.int64]:
    """Cut rows into blocks of about equal weight, none of them empty."""
    n_rows = weights.size
    n_blocks = max(1, min(n_blocks, n_rows))
    total = np.cumsum(weights, dtype=np.float64)
    wanted = total[-1] * np.arange(1, n_blocks) / n_blocks
    cuts = np.searchsorted(total, wanted) + 1
    # At least one row a block, to the left and to the right.
    at = np.arange(1, n_blocks)
    cuts = np.maximum.accumulate(cuts - at) + at
    cuts = np.minimum(cuts, n_rows - n_blocks + at)
    return np.concatenate([[0], cuts, [n_rows]]).astype(np.int64)


def row_weights(counts: NDArray[Any], n_columns: int, is_complete: bool) -> NDArray[np.float64]:
    """What rows cost, roughly: their stored cells, and a share of all if zeros are observed."""
    return counts + (0.25 * n_columns if is_complete else 1.0)
