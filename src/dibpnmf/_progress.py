"""Progress on a terminal, silence in a pipe."""

from __future__ import annotations

import math
import sys
import threading
from abc import ABC, abstractmethod
from types import TracebackType
from typing import Any, Self


class OnTerminal(ABC):
    """Something with a bar that is shown inside a ``with`` block, or with none (``_bar`` None)."""

    _bar: Any

    @abstractmethod
    def refresh(self) -> None:
        """Redraw (called from the main thread)."""

    @abstractmethod
    def _add_tasks(self) -> None:
        """Add the lines to be shown."""

    def __enter__(self) -> Self:
        if self._bar is not None:
            self._bar.start()
            self._add_tasks()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._bar is not None:
            self.refresh()
            self._bar.stop()


class Progress(OnTerminal):
    """Counts sweeps of all chains; shows them with K, log likelihood and time left.

    Parameters
    ----------
    n_chains, n_sweeps, n_warmup : int
    show : bool
    done : list of int, optional
        Sweeps that the chains of a resumed run have behind them.
    name : str, default="chain"
        What the lines are of; several are numbered.
    """

    def __init__(
        self,
        n_chains: int,
        n_sweeps: int,
        n_warmup: int,
        show: bool,
        done: list[int] | None = None,
        name: str = "chain",
    ) -> None:
        self.n_chains, self.n_sweeps, self.n_warmup = n_chains, n_sweeps, n_warmup
        self._stop = threading.Event()
        self._latest: list[tuple[int, int, float]] = [(0, 0, math.nan)] * n_chains
        self._done = done or [0] * n_chains
        self.name = name
        self._bar = _bar() if show else None
        self._tasks: list[Any] = []

    def report(self, chain: int, sweep: int, K: int, log_likelihood: float) -> None:
        """Take note of a finished sweep (called from the chains' threads)."""
        self._latest[chain] = (sweep, K, log_likelihood)

    def should_stop(self) -> bool:
        """Whether chains should stop after the sweep at hand."""
        return self._stop.is_set()

    def stop(self) -> None:
        """Ask all chains to stop after the sweep at hand."""
        self._stop.set()

    def refresh(self) -> None:
        """Redraw (called from the main thread)."""
        if self._bar is None:
            return
        for task, (sweep, K, log_likelihood) in zip(self._tasks, self._latest, strict=True):
            if sweep == 0 and self._bar.tasks[task].completed:
                continue  # resumed, and not reported yet
            if sweep == 0:
                # Only the first chains to run compile; the others wait for a thread.
                nobody = all(latest[0] == 0 for latest in self._latest)
                phase = "compiling, the first time only" if nobody else "waiting"
            else:
                phase = "warm-up" if sweep <= self.n_warmup else "sampling"
            text = "" if sweep == 0 else f"K {K:3d}  log lik {log_likelihood:,.0f}"
            self._bar.update(task, completed=sweep, phase=phase, text=text)

    def _add_tasks(self) -> None:
        self._tasks = [
            self._bar.add_task(
                self.name if self.n_chains == 1 else f"{self.name} {c + 1}",
                total=self.n_sweeps,
                completed=done,
                phase="",
                text="",
            )
            for c, done in enumerate(self._done)
        ]


def should_show(progress: bool | str) -> bool:
    """Resolve progress="auto": show on a terminal only."""
    return sys.stderr.isatty() if progress == "auto" else bool(progress)


def _bar() -> Any:
    from rich.console import Console
    from rich.progress import BarColumn, TextColumn, TimeRemainingColumn
    from rich.progress import Progress as RichProgress
    from rich.table import Column

    return RichProgress(
        TextColumn("{task.description}"),
        BarColumn(bar_width=12),
        TextColumn("{task.completed}/{task.total}", table_column=Column(no_wrap=True)),
        TextColumn("{task.fields[phase]}"),
        TextColumn("{task.fields[text]}"),
        TimeRemainingColumn(),
        console=Console(stderr=True),
        auto_refresh=True,
        refresh_per_second=5,
    )
