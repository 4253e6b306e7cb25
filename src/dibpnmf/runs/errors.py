"""What can go wrong with a run's folder, in words."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


class RunFolderError(ValueError):
    """A folder that is in use, damaged, not a run's, or of another run."""


class CannotSaveError(OSError):
    """A run could not be written; what it saved before is whole."""

    def __str__(self) -> str:
        return str(self.strerror)


@contextmanager
def saving(path: Path, has_begun: bool = True) -> Iterator[None]:
    """Say which file could not be written, why, and what to do."""
    try:
        yield
    except CannotSaveError:
        raise
    except OSError as error:
        reason = error.strerror or str(error)
        kept = "Everything up to the last checkpoint" if has_begun else "Nothing"
        text = (
            f"cannot write {path}: {reason}. {kept} is kept; mend the cause (free some space?) "
            f"and {'resume' if has_begun else 'start again'}."
        )
        raise CannotSaveError(error.errno, text) from error
