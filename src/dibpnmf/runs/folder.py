"""A run's folder: who may write into it, which run it holds, and the names of its files.

    run.json       every parameter, versions, seed, background rate, checksum of the data
    data.npz       the matrix in units of its mean; names.json: names of its rows and columns
    chain-N.draws, chain-N.state    see `dibpnmf.runs.chain_files`
    summary.json, report.html       written when sampling ends
    point.npz      loadings of the point estimate, where the matrix was left where it lay

``run.json`` is written last of what a run starts with: a folder without it holds no run.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

import numpy as np
from numpy.typing import NDArray

from dibpnmf._atomic import PART, replacing, sync_folder
from dibpnmf.inference.executors import Executor
from dibpnmf.observations import Absent, Cells, Observations
from dibpnmf.runs import data
from dibpnmf.runs.chain_files import ChainFiles
from dibpnmf.runs.errors import RunFolderError, saving

FORMAT = 1
_ATTEMPTS = 10  # to lock a folder, with pauses
HEADER, DATA, NAMES, SUMMARY, REPORT, POINT = (
    "run.json", "data.npz", "names.json", "summary.json", "report.html", "point.npz",
)  # fmt: skip

Floats = NDArray[np.float64]
Names = tuple[list[str] | None, list[str] | None]


@dataclass(frozen=True)
class Header:
    """What makes a run the run it is."""

    parameters: dict[str, Any]
    seed: int
    epsilon: float
    checksum: str
    versions: dict[str, str]

    def refuse_changes(
        self, path: Path, parameters: Mapping[str, Any], seed: int | None, checksum: str
    ) -> None:
        """Refuse to go on with another seed, other data or parameters, but for more draws."""
        asked = {**_plain(parameters), "random_state's seed": self.seed if seed is None else seed}
        known = {**self.parameters, "random_state's seed": self.seed}
        if self.is_shorter(parameters):
            known["n_draws"] = asked["n_draws"]
        changes = [
            f"{name} is {known.get(name)!r} there and {asked.get(name)!r} here"
            for name in dict.fromkeys([*known, *asked])
            if known.get(name) != asked.get(name)
        ]
        if not self.checksum:
            changes.append("it was begun by a version of dibpnmf whose draws differ")
        elif self.checksum != checksum:
            changes.append("the data are not those it was started with")
        if changes:
            raise RunFolderError(
                f"{path} holds another run: {'; '.join(changes)}. A run goes on only with its own "
                "data and parameters, or with more draws; give those, or another folder. (In "
                "cross-validation, which fits many matrices, leave checkpoint out.)"
            )

    def is_shorter(self, parameters: Mapping[str, Any]) -> bool:
        """Whether the run has fewer draws than these parameters ask for."""
        known, asked = self.parameters.get("n_draws"), _plain(parameters).get("n_draws")
        return isinstance(known, int) and isinstance(asked, int) and known < asked


class RunFolder:
    """Reads a run's folder, and writes into one that is `claimed`."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)

    def chain(self, chain: int) -> ChainFiles:
        """Files of one chain."""
        return ChainFiles(self.path, chain)

    def header(self) -> Header | None:
        """The run that the folder holds, or None."""
        try:
            table = read_json(self.path / HEADER)
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError as error:
            raise RunFolderError(f"cannot read {self.path / HEADER}: {error.strerror}.") from error
        try:
            if table["format"] != FORMAT:
                raise RunFolderError(
                    f"{self.path} was written in format {table['format']!r}, and this version "
                    f"of dibpnmf reads format {FORMAT}."
                )
            return Header(
                dict(table["parameters"]), int(table["seed"]), float(table["epsilon"]),
                str(table["data"].get("checksum", "")), dict(table["versions"]),
            )  # fmt: skip
        except (KeyError, TypeError, ValueError) as error:
            if isinstance(error, RunFolderError):
                raise
            text = f"{self.path / HEADER} is damaged: {type(error).__name__} {error}."
            raise RunFolderError(text) from error

    def known_header(self) -> Header:
        """The run that the folder holds, or an error that tells what it is instead."""
        header = self.header()
        if header is not None:
            return header
        if not self.path.is_dir():
            raise RunFolderError(f"{self.path} is not a folder; a run's folder is wanted.")
        if any(map(_is_ours, os.listdir(self.path))):
            raise RunFolderError(
                f"{self.path} was left half-written, before its run started. Start it again."
            )
        raise RunFolderError(f"{self.path} holds no run: it has no {HEADER}.")

    def begin(
        self,
        parameters: Mapping[str, Any],
        seed: int,
        random_state: int | None,
        epsilon: float,
        observations: Observations,
        names: Names,
        executor: Executor | None = None,
    ) -> None:
        """Write what a run starts with; its header last.

        A matrix that lies elsewhere stays there: only its checksum is written.
        """
        here = observations.here()
        with saving(self.path, has_begun=False):
            if here is not None:
                data.write(self.path / DATA, here)
            write_json(self.path / NAMES, {"rows": names[0], "columns": names[1]})
            table = {
                "format": FORMAT,
                "started": datetime.now(UTC).isoformat(timespec="seconds"),
                "parameters": _plain(parameters),
                "random_state": random_state,
                "seed": seed,
                "epsilon": epsilon,
                "data": {
                    "checksum": data.checksum(observations, executor),
                    "kept": here is not None,
                    "complete": observations.is_complete,
                    "rows": observations.shape[0],
                    "columns": observations.shape[1],
                    "observed": observations.n_observed,
                    "mean": observations.scale,
                },
                "versions": versions(),
            }
            write_json(self.path / HEADER, table)

    def prolong(self, n_draws: int) -> None:
        """Let the run have more draws: the same as if it had been begun with them."""
        table = read_json(self.path / HEADER)
        table["parameters"]["n_draws"] = n_draws
        self.write_json(HEADER, table)

    def observations(self) -> Observations:
        """The run's matrix; of one that was left where it lay, all but its cells."""
        facts = read_json(self.path / HEADER)["data"]
        if facts.get("kept", True):
            return data.read(self.path / DATA)
        shape = (facts["rows"], facts["columns"])
        cells = Cells(np.zeros(1, np.int64), np.empty(0, np.int32), np.empty(0))
        return Absent(shape, (cells, cells), facts["complete"], facts["mean"], facts["observed"])

    def write_point(self, draw: tuple[int, int], A: Floats, X: Floats) -> None:
        """Keep the loadings of the point estimate: without the matrix they cannot be had again.

        ``draw`` names the chain and draw that they belong to.
        """
        with saving(self.path / POINT), replacing(self.path / POINT) as file:
            np.savez_compressed(file, draw=draw, A=A, X=X)

    def point(self, draw: tuple[int, int]) -> tuple[Floats, Floats] | None:
        """Loadings of the point estimate made from this draw, if there are any."""
        try:
            with np.load(self.path / POINT, allow_pickle=False) as stored:
                same = tuple(stored["draw"].tolist()) == draw
                return (stored["A"], stored["X"]) if same else None
        except FileNotFoundError:
            return None
        except (OSError, ValueError, KeyError, EOFError, BadZipFile) as error:
            raise RunFolderError(f"{self.path / POINT} is damaged: {error}.") from error

    def names(self) -> Names:
        """Names of rows and columns, where the data had them."""
        try:
            table = read_json(self.path / NAMES)
        except FileNotFoundError:
            return None, None
        return table.get("rows"), table.get("columns")

    def summary(self) -> dict[str, Any] | None:
        """What was found, if sampling has ended."""
        return read_json(self.path / SUMMARY) if (self.path / SUMMARY).exists() else None

    def write_json(self, name: str, table: Mapping[str, Any]) -> None:
        """Write one of the folder's JSON files, whole or not at all."""
        with saving(self.path / name):
            write_json(self.path / name, table)

    def is_in_use(self) -> bool:
        """Whether a run is writing into the folder now."""
        descriptor = os.open(self.path, os.O_RDONLY)
        try:
            return not _lock(descriptor)
        finally:
            os.close(descriptor)


@contextmanager
def claimed(path: str | os.PathLike[str]) -> Iterator[RunFolder]:
    """Make or open a folder for one run, and keep others out of it.

    A folder that was made here goes again if no run was begun in it.
    """
    folder = RunFolder(path)
    header = folder.path / HEADER
    made = _make(folder.path)
    try:
        with _locked(folder.path):
            if not header.exists():
                _sweep_out(folder.path)
            try:
                yield folder
            finally:
                if not header.exists():
                    with suppress(OSError, RunFolderError):
                        _sweep_out(folder.path)
    finally:
        if not header.exists():
            for directory in made:
                with suppress(OSError):
                    directory.rmdir()


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    """Keep other runs out. The lock is the system's own and ends with the process."""
    if sys.platform == "win32":  # where folders cannot be opened, nor locked
        yield
        return
    with _telling(path):
        descriptor = os.open(path, os.O_RDONLY)
    try:
        for attempt in range(_ATTEMPTS):  # someone may only be looking
            if _lock(descriptor):
                break
            if attempt == _ATTEMPTS - 1:
                raise RunFolderError(
                    f"{path} is in use by another run; wait for it, or give another folder."
                )
            time.sleep(0.05)
        yield
    finally:
        os.close(descriptor)


def _make(path: Path) -> list[Path]:
    """Make a folder and those above it; return the new ones, innermost first."""
    with _telling(path):
        new = [p for p in (path, *path.parents) if not p.exists()]
        path.mkdir(parents=True, exist_ok=True)
    sync_folder(path.parent)
    return new


@contextmanager
def _telling(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        reason = "it is a file" if path.is_file() else error.strerror
        raise RunFolderError(f"cannot make or open the folder {path}: {reason}.") from error


def _lock(descriptor: int) -> bool:
    """Lock an open folder until it is closed; return whether that succeeded."""
    if sys.platform != "win32":
        import fcntl

        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        except OSError:  # a file system without locks: better unlocked than not at all
            return True
    return True


def _sweep_out(path: Path) -> None:
    """Empty a folder in which no run was begun; refuse one with anything of others."""
    found = sorted(os.listdir(path))
    foreign = [name for name in found if not _is_ours(name)]
    if foreign:
        raise RunFolderError(
            f"{path} is not empty and holds no run: it has {foreign[0]!r}"
            f"{' and others' if len(foreign) > 1 else ''}. Give a new or empty folder."
        )
    for name in found:
        (path / name).unlink()


def _is_ours(name: str) -> bool:
    if name.startswith(".") and name.endswith(PART):
        name = name[1 : -len(PART)]
        return _is_ours(name) or name == HEADER
    # A state, a summary or a report without a header: someone took the header away.
    return name in (DATA, NAMES)


def read_json(path: Path) -> dict[str, Any]:
    """Read a JSON object, or say that the file is damaged."""
    try:
        table = json.loads(path.read_bytes())
    except ValueError as error:
        raise RunFolderError(f"{path} is damaged: {error}.") from error
    if not isinstance(table, dict):
        raise RunFolderError(f"{path} is damaged: it holds no object.")
    return table


def write_json(path: Path, table: Mapping[str, Any]) -> None:
    """Write a JSON object, whole or not at all."""
    text = json.dumps(_plain(table), indent=2, ensure_ascii=False, allow_nan=False)
    with replacing(path) as file:
        file.write(text.encode("utf-8", "backslashreplace") + b"\n")


def _plain(value: Any) -> Any:
    """Make a value what JSON would give back: NumPy's numbers plain, NaN and infinity null."""
    if isinstance(value, Mapping):
        return {str(key): _plain(inner) for key, inner in value.items()}
    if isinstance(value, (np.ndarray, np.generic)):
        return _plain(value.tolist())
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [_plain(inner) for inner in value]
    if isinstance(value, float) and not np.isfinite(value):
        return None
    return value


def versions() -> dict[str, str]:
    """Versions of all that draws depend on."""
    import platform

    import numba
    import scipy

    from dibpnmf import __version__

    return {
        "dibpnmf": __version__,
        "python": platform.python_version(),
        "numpy": np.__version__,
        "scipy": scipy.__version__,
        "numba": numba.__version__,
    }
