"""From a matrix that lies elsewhere to its blocks on the workers, never gathered here."""

from __future__ import annotations

import operator
import os
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import dask.array as da
import numpy as np
from dask.delayed import Delayed, delayed
from numpy.typing import NDArray

from dibpnmf.cluster import cells as work
from dibpnmf.cluster.executor import Dask, translated
from dibpnmf.cluster.placed import Placed, Side, even_bounds, row_weights
from dibpnmf.inference.executors import Rows
from dibpnmf.likelihoods.base import Moments
from dibpnmf.observations import mean_of

_ADDED = 8  # counts that one task adds up


class Part(NamedTuple):
    """A future of cells, and the rows and columns that they may lie in."""

    cells: Any
    corner: tuple[int, int]
    shape: tuple[int, int]

    def span(self, t: int) -> tuple[int, int]:
        """First and last (exclusive) row or column."""
        return self.corner[t], self.corner[t] + self.shape[t]


def place_elsewhere(
    cluster: Dask, Y: Any, zeros: str, likelihood: str, largest: float
) -> tuple[Placed, Moments]:
    """Check a matrix that lies elsewhere, and have the workers hold it by row and by column."""
    with translated(cluster.client):
        parts, shape, is_complete = _parts(cluster, Y, zeros, likelihood, largest)
        counts = [_counts(cluster, parts, t, shape[t]) for t in range(2)]
        stored = int(counts[0].sum())
        n_observed = shape[0] * shape[1] if is_complete else stored
        bounds = [
            even_bounds(row_weights(counts[t], shape[1 - t], is_complete), cluster.n_blocks)
            for t in range(2)
        ]
        unscaled = _assembled(cluster, parts, 0, bounds[0], 1.0)
        scale = _mean(cluster, unscaled, shape[0], n_observed)
        sums = cluster.client.gather(
            cluster.client.map(work.moments_of, unscaled.blocks, mean=scale, pure=False)
        )
        rows = [
            _at_home(cluster, b, len(unscaled.blocks), work.rescale, block, scale)
            for b, block in enumerate(unscaled.blocks)
        ]
        by_side: Any = (
            Side(rows, bounds[0]),
            _assembled(cluster, parts, 1, bounds[1], scale),
        )
    moments = Moments.from_sums(np.array(sums), max(n_observed, 1), scale)
    return Placed(shape, by_side, is_complete, scale, n_observed, stored), moments


def _parts(
    cluster: Dask, Y: Any, zeros: str, likelihood: str, largest: float
) -> tuple[list[Part], tuple[int, int], bool]:
    """Read and check all parts; return them, the matrix's shape, and whether it is complete."""
    client = cluster.client
    grid = _grid(Y)
    flat = client.compute([one for line in grid for one in line])
    facts: list[work.Facts] = client.gather(client.map(work.facts_of, flat, pure=False))
    if isinstance(Y, (str, os.PathLike)):
        shape = (max(f.shape[0] for f in facts), max(f.shape[1] for f in facts))
        corners, shapes = [(0, 0)] * len(facts), [shape] * len(facts)
    else:
        corners = _corners([facts[i * len(grid[0]) : (i + 1) * len(grid[0])]
                            for i in range(len(grid))])  # fmt: skip
        shapes = [f.shape for f in facts]
        shape = (corners[-1][0] + shapes[-1][0], corners[-1][1] + shapes[-1][1])
    if min(shape) == 0:
        raise ValueError(f"Y must have at least one row and one column; its shape is {shape}.")
    has_missing = any(f.has_missing for f in facts)
    is_sparse = any(f.is_sparse for f in facts)
    is_complete = not has_missing and not (is_sparse and zeros == "missing")
    if isinstance(Y, (str, os.PathLike)) and zeros == "observed" and has_missing:
        raise ValueError(
            "Files of triplets have missing values (NaN) beside observed zeros, of which most "
            "are not given. Say zeros='missing', or leave those cells out."
        )
    rules = work.Rules(zeros, is_complete, likelihood, largest)
    cells = client.map(work.clean, flat, corners, rules=rules, pure=False)
    parts = [Part(*one) for one in zip(cells, corners, shapes, strict=True)]
    return parts, shape, is_complete


def _grid(Y: Any) -> list[list[Delayed]]:
    """Parts of Y, by row and by column of the grid they form."""
    if isinstance(Y, (str, os.PathLike)):
        return [[delayed(work.read_triplets)(path)] for path in work.triplet_files(Path(Y))]
    if isinstance(Y, da.Array):
        if Y.ndim != 2 or Y.dtype.kind not in "biuf":
            raise ValueError(
                "Y must be a matrix of numbers; got a dask array with "
                f"{Y.ndim} dimension(s) and dtype {Y.dtype}."
            )
        return [list(line) for line in Y.to_delayed()]
    return [[block] for block in Y]


def _corners(grid: Sequence[Sequence[work.Facts]]) -> list[tuple[int, int]]:
    """Where each part begins, in order; refuse parts that do not fit together."""
    columns = [facts.shape[1] for facts in grid[0]]
    corners = []
    row = 0
    for line in grid:
        found = [facts.shape for facts in line]
        if [shape[1] for shape in found] != columns or len({shape[0] for shape in found}) != 1:
            raise ValueError(
                f"Blocks of Y do not fit together: from row {row} on their shapes are {found}, and "
                f"columns in the first blocks {columns}."
            )
        ends = np.cumsum([0, *columns]).tolist()
        corners += [(row, end) for end in ends[:-1]]
        row += found[0][0]
    return corners


def _counts(cluster: Dask, parts: Sequence[Part], t: int, size: int) -> NDArray[np.int64]:
    """Stored cells in each row or column, added up on the workers."""
    client = cluster.client
    by_span: dict[tuple[int, int], list[Any]] = defaultdict(list)
    for part in parts:
        start, stop = part.span(t)
        one = client.submit(work.count, part.cells, t, start, stop - start, pure=False)
        by_span[start, stop].append(one)
    total = np.zeros(size, np.int64)
    for (start, stop), counts in by_span.items():
        while len(counts) > 1:
            counts = [
                client.submit(work.add, counts[i : i + _ADDED], pure=False)
                for i in range(0, len(counts), _ADDED)
            ]
        total[start:stop] += counts[0].result()
    return total


def _assembled(
    cluster: Dask, parts: Sequence[Part], t: int, bounds: NDArray[np.int64], scale: float
) -> Side:
    """Shuffle cells to the blocks of one side."""
    client = cluster.client
    pieces: list[list[Any]] = [[] for _ in range(bounds.size - 1)]
    for part in parts:
        start, stop = part.span(t)
        low = int(np.searchsorted(bounds, start, side="right")) - 1
        high = int(np.searchsorted(bounds, stop, side="left"))
        taken = client.submit(work.split, part.cells, t, bounds[low : high + 1], pure=False)
        for b, piece in zip(
            range(low, high),
            client.map(operator.getitem, [taken] * (high - low), range(high - low), pure=False),
            strict=True,
        ):
            pieces[b].append(piece)
    blocks = [
        _at_home(cluster, b, len(pieces), work.assemble, pieces[b], t, int(bounds[b]),
                 int(bounds[b + 1]), scale)
        for b in range(len(pieces))
    ]  # fmt: skip
    return Side(blocks, bounds)


def _at_home(cluster: Dask, b: int, n_blocks: int, function: Any, *arguments: Any) -> Any:
    """Submit what makes block b to the worker that it should live on."""
    return cluster.client.submit(
        function, *arguments, pure=False, workers=[cluster.home(b, n_blocks)],
        allow_other_workers=True,
    )  # fmt: skip


def _mean(cluster: Dask, side: Side, n_rows: int, n_observed: int) -> float:
    sums = np.empty((n_rows, 1))
    cluster.map_blocks(work.add_rows, None, n_rows, side, Rows(sums, is_read=False))
    return mean_of(np.ascontiguousarray(sums[:, 0]), n_observed)
