"""Loadings on their way: where most entries are off, a bit each and the values of the others."""

from __future__ import annotations

import threading
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dibpnmf.likelihoods.lists import Lists, list_entries

Floats = NDArray[np.float64]

_DENSE = 0.95  # share of on-entries from which packing would save nothing


class Packed(NamedTuple):
    """An array as a bit for each entry and the values of those that are not zero."""

    shape: tuple[int, ...]
    bits: NDArray[np.uint8]
    values: NDArray[Any]


def pack(array: NDArray[Any]) -> Packed | NDArray[Any]:
    """Pack an array if that makes it smaller."""
    on = array != 0
    if array.dtype != np.float64 or np.count_nonzero(on) > _DENSE * array.size:
        return np.ascontiguousarray(array)
    return Packed(array.shape, np.packbits(on), array[on])


def unpack(packed: Packed | NDArray[Any]) -> NDArray[Any]:
    """Return an array of its own, that kernels may write to.

    A worker in the client's process would write into the client's loadings otherwise, and a
    block that is run again would not start where it did.
    """
    if not isinstance(packed, Packed):
        return np.array(packed, order="C")
    array = np.zeros(packed.shape, packed.values.dtype)
    on = np.unpackbits(packed.bits, count=array.size).view(np.bool_).reshape(packed.shape)
    array[on] = packed.values
    return array


def writable(array: NDArray[Any]) -> NDArray[Any]:
    """Copy what came read-only or unaligned: kernels would be compiled anew for such an array."""
    return np.require(array, requirements=("C", "A", "W"))


class Broadcast:
    """Loadings of the other side on a worker: unpacked and listed once, by whoever is first."""

    def __init__(self, packed: Packed | NDArray[Any]) -> None:
        self.packed = packed
        self._lock = threading.Lock()
        self._array: Floats | None = None
        self._lists: dict[bool, Lists] = {}  # without and with their Gram matrix

    def __reduce__(self) -> Any:
        return Broadcast, (self.packed,)

    def __sizeof__(self) -> int:
        parts = self.packed if isinstance(self.packed, Packed) else (self.packed,)
        return sum(part.nbytes for part in parts if isinstance(part, np.ndarray))

    def array(self) -> Floats:
        """The loadings."""
        with self._lock:
            if self._array is None:
                self._array = unpack(self.packed)
            return self._array

    def lists(self, for_all_cells: bool) -> Lists:
        """Their on-entries, listed."""
        array = self.array()
        with self._lock:
            if for_all_cells not in self._lists:
                self._lists[for_all_cells] = list_entries(array, for_all_cells)
            return self._lists[for_all_cells]
