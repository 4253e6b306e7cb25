"""Files that are whole or not there: written under a temporary name, then renamed."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

PART = ".part"  # how temporary names end


@contextmanager
def temporary(path: Path) -> Iterator[Path]:
    """Give a name to write under; what is there at the end takes the path, or goes on an error."""
    if not path.parent.is_dir():
        raise FileNotFoundError(errno.ENOENT, "No such folder", str(path.parent))
    part = path.with_name(f".{path.name}{PART}")
    try:
        yield part
        os.replace(part, path)
    except BaseException:
        with suppress(OSError):
            part.unlink(missing_ok=True)
        raise
    sync_folder(path.parent)


@contextmanager
def replacing(path: Path) -> Iterator[IO[bytes]]:
    """Open a file that takes its name when it is whole and on the disk, and goes otherwise."""
    with temporary(path) as part, open(part, "wb") as file:
        yield file
        file.flush()
        os.fsync(file.fileno())


def sync_folder(path: Path) -> None:
    """Put a folder's list of names on the disk, where the system can."""
    with suppress(OSError):
        folder = os.open(path, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)
