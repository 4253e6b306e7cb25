"""One chain on disk: a file of draws that only grows, and a state that replaces the last one.

Draws are appended and put on the disk first, the state after them; the state says how long the
file of draws was. Whatever the file holds beyond that, whole or torn, was written by a run
that died before its state: it is dropped and drawn again, to the bit.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from dibpnmf._atomic import replacing
from dibpnmf.inference.gibbs import State
from dibpnmf.posterior import ChainRecord
from dibpnmf.runs import records
from dibpnmf.runs.errors import RunFolderError, saving
from dibpnmf.runs.frames import Arrays, DamagedError, frame, read_frames

_MAGIC = b"dibpnmf chain 1\n"


@dataclass(frozen=True)
class Saved:
    """Where a chain was saved: its state's arrays, and how far it had come."""

    arrays: Arrays
    sweep: int
    n_draws: int
    n_bytes: int  # of the file of draws


class ChainFiles:
    """Reads the files of one chain.

    Parameters
    ----------
    folder : Path
    chain : int
        From 0; file names count from 1.
    """

    def __init__(self, folder: Path, chain: int) -> None:
        self.draws = folder / f"chain-{chain + 1}.draws"
        self.state = folder / f"chain-{chain + 1}.state"

    def saved(self) -> Saved | None:
        """The last state, or None if none was saved."""
        try:
            data = self.state.read_bytes()
        except FileNotFoundError:
            return None
        if not data.startswith(_MAGIC):
            raise RunFolderError(f"{self.state} is damaged: it does not start as such a file does.")
        with _damage(self.state):
            (arrays,) = read_frames(data[len(_MAGIC) :])
        numbers = (int(arrays.pop(name)) for name in ("sweep", "n_draws", "n_bytes"))
        return Saved(arrays, *numbers)

    def read(self, record: ChainRecord) -> Saved | None:
        """Fill an empty record with the draws that belong to the last state."""
        saved = self.saved()
        if saved is None:
            return None
        with open(self.draws, "rb") as file:
            data = file.read(saved.n_bytes)
        if len(data) < saved.n_bytes or not data.startswith(_MAGIC):
            raise RunFolderError(
                f"{self.draws} is damaged: it has {len(data)} of {saved.n_bytes} bytes."
            )
        with _damage(self.draws):
            for arrays in read_frames(data[len(_MAGIC) :]):
                records.append_draw(record, arrays)
        if not record.keep_draws:
            records.restore_summary(record, saved.arrays)
        return saved


@contextmanager
def _damage(path: Path) -> Iterator[None]:
    """Name the file that is damaged."""
    try:
        yield
    except (DamagedError, KeyError, ValueError, TypeError) as error:
        raise RunFolderError(f"{path} is damaged: {error}.") from error


class ChainSaver:
    """Saves a chain while it runs: every so many seconds, and when it ends.

    Parameters
    ----------
    files : ChainFiles
    record : ChainRecord
        Takes the chain's draws; filled with those already saved by `resume`.
    every : float
        Seconds between checkpoints.
    """

    def __init__(self, files: ChainFiles, record: ChainRecord, every: float) -> None:
        self.files, self.record, self.every = files, record, every
        self._n_bytes = 0
        self._n_draws = 0
        self._due = 0.0
        self._last: tuple[State, int] | None = None

    def resume(self) -> Saved | None:
        """Read what was saved, and drop whatever was written after it."""
        saved = self.files.read(self.record)
        with saving(self.files.draws):
            if saved is None:
                with replacing(self.files.draws) as file:
                    file.write(_MAGIC)
                self._n_bytes = len(_MAGIC)
            else:
                os.truncate(self.files.draws, saved.n_bytes)
                self._n_bytes, self._n_draws = saved.n_bytes, saved.n_draws
        self._due = time.monotonic() + self.every
        return saved

    def visit(self, state: State, sweep: int) -> None:
        """Take note of a state after ``sweep`` sweeps; save it if it is time."""
        self._last = (state, sweep)
        if time.monotonic() >= self._due:
            self.save()

    def save(self) -> None:
        """Append the new draws, then replace the state."""
        if self._last is None:
            return
        state, sweep = self._last
        self._last = None
        n_draws = len(self.record)
        with saving(self.files.draws):
            n_bytes = self._append(range(self._n_draws, n_draws))
        arrays = records.state_arrays(state)
        if not self.record.keep_draws:
            arrays |= records.summary_arrays(self.record)
        numbers = {"sweep": sweep, "n_draws": n_draws, "n_bytes": n_bytes}
        with saving(self.files.state), replacing(self.files.state) as file:
            file.write(_MAGIC)
            file.write(frame(numbers | arrays))
        self._n_bytes, self._n_draws = n_bytes, n_draws
        self._due = time.monotonic() + self.every

    def _append(self, draws: range) -> int:
        """Put draws at the end of their file; return its length."""
        try:
            with open(self.files.draws, "r+b") as file:
                file.seek(self._n_bytes)
                for at in draws:
                    file.write(frame(records.draw_arrays(self.record, at)))
                file.flush()
                os.fsync(file.fileno())
                return file.tell()
        except OSError:
            with suppress(OSError):  # a torn end is dropped on resuming in any case
                os.truncate(self.files.draws, self._n_bytes)
            raise
