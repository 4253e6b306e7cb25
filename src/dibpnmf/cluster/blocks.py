"""What runs on a worker: one kernel on one block of rows."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dibpnmf import __version__
from dibpnmf.cluster.packing import Broadcast, Packed, pack, unpack, writable
from dibpnmf.observations import Cells


class Empty(NamedTuple):
    """Rows that a kernel only writes: their shape and type travel, not their contents."""

    tail: tuple[int, ...]
    dtype: np.dtype[Any]


@dataclass(frozen=True)
class OwnCells:
    """The place of a block's cells among the arguments of a kernel."""


@dataclass(frozen=True)
class OwnRows:
    """The place of an array of the block's rows; those that are written are returned."""

    at: int
    is_written: bool


@dataclass(frozen=True)
class OtherSide:
    """The place of the other side's loadings, and of their lists after them."""

    with_lists: bool
    for_all_cells: bool


class Call(NamedTuple):
    """A kernel and its arguments, those of a block left open.

    The kernel is named: pickled, it would be compiled anew on every worker.
    """

    module: str
    name: str
    likelihood: Any
    arguments: tuple[Any, ...]
    version: str = __version__

    def kernel(self) -> Callable[..., None]:
        """Find the kernel on this machine."""
        return getattr(importlib.import_module(self.module), self.name)


class OtherVersionError(RuntimeError):
    """A worker that has another version of this package."""


@dataclass(frozen=True)
class Parcel:
    """What one block needs beside its cells and the other side; Dask does not look inside."""

    call: Call
    rows: list[Packed | NDArray[Any] | Empty]


@dataclass(frozen=True)
class Sealed:
    """Something that Dask is not to look into."""

    content: Any


def unseal(sealed: Sealed) -> Any:
    """Take the content out."""
    return sealed.content


def run_block(cells: Cells, parcel: Parcel, whole: Broadcast | None) -> list[Packed | NDArray[Any]]:
    """Run a kernel on a block of rows; return those of their arrays that it wrote."""
    call = parcel.call
    if call.version != __version__:
        raise OtherVersionError(f"{where()} has dibpnmf {__version__}, and {call.version} is asked")
    n_rows = cells.indptr.size - 1
    arrays = [
        np.empty((n_rows, *part.tail), part.dtype) if isinstance(part, Empty) else unpack(part)
        for part in parcel.rows
    ]
    cells = as_kernels_take(cells)
    call.kernel()(call.likelihood, 0, n_rows, *_fill(call.arguments, cells, arrays, whole))
    return [
        pack(arrays[place.at])
        for place in call.arguments
        if isinstance(place, OwnRows) and place.is_written
    ]


def _fill(
    arguments: Sequence[Any],
    cells: Cells,
    arrays: Sequence[NDArray[Any]],
    whole: Broadcast | None,
) -> Iterator[Any]:
    """Put this block's parts in their places."""
    for argument in arguments:
        if isinstance(argument, OwnCells):
            yield cells
        elif isinstance(argument, OwnRows):
            yield arrays[argument.at]
        elif isinstance(argument, OtherSide):
            assert whole is not None
            yield whole.array()
            if argument.with_lists:
                yield whole.lists(argument.for_all_cells)
        else:
            yield argument


def as_kernels_take(cells: Cells) -> Cells:
    """Return the same cells in arrays for which kernels are compiled already."""
    return Cells(
        writable(cells.indptr), writable(cells.indices), writable(cells.values), int(cells.first)
    )


def cut_cells(cells: Cells, start: int, stop: int) -> Cells:
    """Return the cells of rows start..stop as a block of their own."""
    part = slice(cells.indptr[start], cells.indptr[stop])
    indptr = cells.indptr[start : stop + 1] - cells.indptr[start]
    return Cells(indptr, cells.indices[part], cells.values[part], cells.first + start)


def where() -> str:
    """Name the worker that this runs on."""
    from distributed import get_worker

    try:
        return f"the worker at {get_worker().address}"
    except ValueError:  # called outside a worker
        return "this process"
