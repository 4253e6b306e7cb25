"""Finished units of an experiment, kept on disk so that a stopped run continues.

A piece is a function of this package with parameters that JSON can hold. What it returned is
stored under a name made of all of them, so a run that finds a piece there does not do it again.
"""

from __future__ import annotations

import hashlib
import json
import os
import signal
import time
import warnings
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

from joblib import Parallel, delayed

from dibpnmf import __version__

_STAND = "dibpnmf.experiments."


@dataclass(frozen=True)
class Piece:
    """One unit of work.

    Attributes
    ----------
    task : str
        ``module:function`` below `dibpnmf.experiments`; takes the parameters as keywords and
        returns what JSON can hold (NumPy numbers and arrays included).
    parameters : dict
    cost : float
        Seconds it takes, about: for the order of the pieces and the time left.
    """

    task: str
    parameters: dict[str, Any]
    cost: float = field(default=1.0, compare=False)

    @property
    def name(self) -> str:
        """File name: the task, and a digest of everything that the result depends on."""
        identity = {"task": self.task, "parameters": self.parameters, "version": __version__}
        digest = hashlib.sha256(json.dumps(identity, sort_keys=True).encode()).hexdigest()
        return f"{self.task.replace(':', '-')}-{digest[:20]}.json"

    def run(self) -> Any:
        """Do the work."""
        module, _, function = self.task.partition(":")
        return getattr(import_module(_STAND + module), function)(**self.parameters)


class Outcome(NamedTuple):
    """What a piece gave, with the parameters it had."""

    parameters: dict[str, Any]
    value: Any
    seconds: float


class Store:
    """A folder with one JSON file per finished piece.

    Parameters
    ----------
    folder : Path
        Made if it does not exist.
    """

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.folder = folder

    def load(self, piece: Piece) -> Outcome | None:
        """Return a finished piece; None if it is not there or its file is damaged."""
        try:
            found = json.loads((self.folder / piece.name).read_text("utf-8"))
            return Outcome(found["parameters"], found["value"], found["seconds"])
        except (FileNotFoundError, ValueError, KeyError, TypeError):
            return None

    def finish(self, piece: Piece) -> None:
        """Run a piece and keep what it gave."""
        start = time.perf_counter()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the tables say how far to trust a short chain
            value = piece.run()
        outcome = Outcome(piece.parameters, value, round(time.perf_counter() - start, 3))
        write_json(self.folder / piece.name, outcome._asdict())


def write_text(path: Path, text: str) -> None:
    """Write under a temporary name, then rename: never half a file."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}.part")
    temporary.write_text(text, "utf-8")
    temporary.replace(path)


def write_json(path: Path, content: Any, indent: int | None = None) -> None:
    """Write JSON, NumPy numbers and arrays included, under a temporary name, then rename."""
    text = json.dumps(content, default=lambda array: array.tolist(), allow_nan=False, indent=indent)
    write_text(path, text + "\n")


def run_pieces(
    pieces: Sequence[Piece], store: Store, jobs: int, report: Callable[[Piece], None]
) -> list[Outcome]:
    """Run the pieces that are not finished, and return what all of them gave, in their order.

    Parameters
    ----------
    pieces : sequence of Piece
    store : Store
    jobs : int
        Processes that work at once.
    report : callable
        Told of each piece as it is finished, those found finished first.
    """
    todo = []
    for piece in {piece.name: piece for piece in pieces}.values():
        if store.load(piece) is None:
            todo.append(piece)
        else:
            report(piece)
    # Long ones first: a long one last would leave the other cores idle.
    todo.sort(key=lambda piece: -piece.cost)
    for piece in _finished(todo, store, jobs):
        report(piece)
    outcomes = [store.load(piece) for piece in pieces]
    return [outcome for outcome in outcomes if outcome is not None]


def _finished(todo: list[Piece], store: Store, jobs: int) -> Iterable[Piece]:
    """Yield pieces as they are finished."""
    if min(jobs, len(todo)) <= 1:
        for piece in todo:
            store.finish(piece)
            yield piece
        return
    work = Parallel(n_jobs=min(jobs, len(todo)), batch_size=1, return_as="generator_unordered")
    with warnings.catch_warnings():
        # joblib renews workers whose memory has grown, and says so.
        warnings.filterwarnings("ignore", "A worker stopped while some jobs were given")
        yield from work(delayed(_finish_in_worker)(piece, store) for piece in todo)


def _finish_in_worker(piece: Piece, store: Store) -> Piece:
    # Ctrl-C reaches every process of a terminal; the parent alone answers it, by ending the
    # others, so that no half-done fit is taken for a finished one.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    store.finish(piece)
    return piece
