"""Named arrays as bytes, in frames that tell whether they are whole. Nothing is pickled.

A frame is the length and CRC-32 of its payload, then the payload. A payload is the length of a
JSON table {name: [dtype, shape]}, the table, and the arrays' bytes in its order. The bytes are a
function of the arrays, so that equal draws make equal files.
"""

from __future__ import annotations

import json
import math
import struct
import zlib
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

Arrays = dict[str, NDArray[Any]]

_FRAME = struct.Struct("<QI")
_LENGTH = struct.Struct("<I")


class DamagedError(ValueError):
    """Bytes that are not what was written."""


def frame(arrays: Mapping[str, Any]) -> bytes:
    """Make one frame of named arrays of numbers."""
    plain = {name: _little_endian(value) for name, value in arrays.items()}
    table = json.dumps({name: [a.dtype.str, a.shape] for name, a in plain.items()}).encode()
    payload = b"".join([_LENGTH.pack(len(table)), table, *(a.tobytes() for a in plain.values())])
    return _FRAME.pack(len(payload), zlib.crc32(payload)) + payload


def _little_endian(value: Any) -> NDArray[Any]:
    array = np.asarray(value)
    return array.astype(array.dtype.newbyteorder("<"), copy=False)


def read_frames(data: bytes) -> Iterator[Arrays]:
    """Yield the arrays of every frame; raise `DamagedError` at one that is not whole."""
    at = 0
    while at < len(data):
        payload = _payload(data, at)
        yield _arrays(payload)
        at += _FRAME.size + len(payload)


def _payload(data: bytes, at: int) -> memoryview:
    start = at + _FRAME.size
    if start > len(data):
        raise DamagedError(f"byte {at}: cut off within the head of a frame")
    length, crc = _FRAME.unpack_from(data, at)
    if length > len(data) - start:
        raise DamagedError(f"byte {at}: a frame of {length} bytes, of which only "
                           f"{len(data) - start} are there")  # fmt: skip
    payload = memoryview(data)[start : start + length]
    if zlib.crc32(payload) != crc:
        raise DamagedError(f"byte {at}: the checksum of the frame does not match")
    return payload


def _arrays(payload: memoryview) -> Arrays:
    """Read named arrays; only what `frame` makes passes the checksum and gets here."""
    (length,) = _LENGTH.unpack_from(payload, 0)
    at = _LENGTH.size + length
    arrays: Arrays = {}
    for name, (code, shape) in json.loads(bytes(payload[_LENGTH.size : at])).items():
        dtype, count = np.dtype(code), math.prod(shape)
        if dtype.kind not in "biuf":
            raise DamagedError(f"the array {name} has dtype {code}")
        arrays[name] = np.frombuffer(payload, dtype, count, at).reshape(shape).copy()
        at += dtype.itemsize * count
    return arrays


def flatten(name: str, value: Any) -> Arrays:
    """Name every array inside tuples, named tuples and dicts: state/prior/theta."""
    if value is None:
        return {}
    if isinstance(value, dict):
        items = value.items()
    elif isinstance(value, tuple):
        items = dict(zip(getattr(value, "_fields", range(len(value))), value, strict=True)).items()
    else:
        return {name: np.asarray(value)}
    return {key: a for part, inner in items for key, a in flatten(f"{name}/{part}", inner).items()}


def below(arrays: Arrays, name: str) -> Arrays:
    """Arrays whose names start with ``name/``, without that part."""
    start = f"{name}/"
    return {key[len(start) :]: a for key, a in arrays.items() if key.startswith(start)}
