"""Memory that is free goes back to the system."""

from __future__ import annotations

import ctypes
from contextlib import suppress


def give_back_free_memory() -> None:
    """Ask the C library to return what it holds free; where it cannot, nothing happens.

    glibc keeps a pool for each thread, and what a chain's thread has freed is of no use to the
    thread that reads the results: they would need their memory twice.
    """
    with suppress(OSError, AttributeError, TypeError):  # no glibc
        ctypes.CDLL(None).malloc_trim(0)
