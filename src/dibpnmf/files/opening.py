"""Bytes of a file, unpacked if it is gzipped, and its text."""

from __future__ import annotations

import codecs
import gzip
import io
import zlib
from pathlib import Path

from dibpnmf.files.table import FileError

_GZIP = b"\x1f\x8b"
MOST_BYTES = 16 * 2**30  # unpacked
_CHUNK = 2**22


def read_bytes(path: Path) -> bytes:
    """Read a whole file; gzip is recognised by its first bytes, whatever the name."""
    try:
        with open(path, "rb") as file:
            packed = file.read(2) == _GZIP
            file.seek(0)
            if not packed:
                return file.read()
            with gzip.open(file) as unpacked:
                return _unpack(path, unpacked)
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise FileError(path, f"damaged or cut off gzip: {error}") from error
    except OSError as error:
        raise FileError(path, f"cannot be read: {error.strerror or error}") from error


def _unpack(path: Path, unpacked: gzip.GzipFile) -> bytes:
    """Read to the end, but no further than anyone's data go."""
    data = bytearray()
    while part := unpacked.read(_CHUNK):
        data += part
        if len(data) > MOST_BYTES:
            raise FileError(path, f"unpacks to more than {MOST_BYTES} bytes")
    return bytes(data)


def read_text(path: Path) -> io.TextIOWrapper:
    """Open a file as UTF-8, or as UTF-16 if it starts with such a mark; all of it is checked."""
    data = read_bytes(path)
    is_wide = data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))
    encoding = "utf-16" if is_wide else "utf-8-sig"
    try:
        text = data.decode(encoding)
    except UnicodeDecodeError as error:
        row = data.count(b"\n", 0, error.start) + 1
        found = f"byte 0x{data[error.start]:02x} is not {encoding.removesuffix('-sig')} text"
        raise FileError(path, found, row) from error
    if "\0" in text:
        row = text.count("\n", 0, text.index("\0")) + 1
        raise FileError(path, "found a zero byte: not a text file", row)
    return io.TextIOWrapper(io.BytesIO(data), encoding, newline="")
