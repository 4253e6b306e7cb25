"""Several chains at once: who gets which thread, progress, and a clean stop on Ctrl-C."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from typing import Any, Protocol

from dibpnmf.inference.chain import Monitor
from dibpnmf.inference.executors import Executor, executor_of


class Watch(Monitor, Protocol):
    """A monitor that the main thread redraws and may stop."""

    def refresh(self) -> None:
        """Redraw."""

    def stop(self) -> None:
        """Ask all chains to stop after the sweep at hand."""


_BESIDE_ELSEWHERE = 8  # chains at once on an executor elsewhere

ChainRunner = Callable[[int, Executor], None]


class _Stop:
    """Whether Ctrl-C was pressed; asks the chains to stop when it is."""

    def __init__(self, watch: Watch) -> None:
        self.watch = watch
        self.is_asked = False

    def ask(self, *_signal: Any) -> None:
        self.watch.stop()
        if self.is_asked:  # asked twice: the user wants out, not what was drawn
            raise KeyboardInterrupt
        self.is_asked = True


@contextmanager
def _stopped_by_ctrl_c(watch: Watch) -> Iterator[_Stop]:
    """Let Ctrl-C ask the chains to stop, and ask them on any error.

    As an exception Ctrl-C could strike between two statements that belong together; so Python's
    own handler, and no other, is replaced while the chains run.
    """
    stop = _Stop(watch)
    replaced = (
        threading.current_thread() is threading.main_thread()
        and signal.getsignal(signal.SIGINT) is signal.default_int_handler
    )
    try:
        if replaced:
            signal.signal(signal.SIGINT, stop.ask)
        yield stop
    except BaseException:
        watch.stop()
        raise
    finally:
        if replaced:
            signal.signal(signal.SIGINT, signal.default_int_handler)


def _wait(futures: list[Future[None]], stop: _Stop) -> None:
    """Wait for the chains, redrawing the progress; a chain that fails stops the others."""
    pending = set(futures)
    while pending:
        try:
            _, pending = wait(pending, timeout=0.1, return_when="FIRST_EXCEPTION")
            stop.watch.refresh()
            if any(f.done() and f.exception() for f in futures):
                stop.watch.stop()
        except KeyboardInterrupt:  # from a handler that is not Python's own
            stop.ask()


def run_chains(
    run_one: ChainRunner,
    chains: Sequence[int],
    n_jobs: int,
    watch: Watch,
    elsewhere: Executor | None = None,
) -> bool:
    """Run the chains; return whether they were interrupted.

    Chains run beside each other, each in one thread; threads that are left help with the rows of
    any. Never more than ``n_jobs`` threads work. The main thread only waits, so that Ctrl-C reaches
    it: chains then finish their sweep and stop. A second Ctrl-C is raised.

    With an executor ``elsewhere`` threads here only wait for it, and chains, up to a few, run
    beside each other: one's rows are updated there while another's come and go.
    """
    at_once = n_jobs if elsewhere is None else _BESIDE_ELSEWHERE
    beside = min(at_once, len(chains))
    with (
        executor_of(n_jobs, elsewhere, beside) as executor,
        ThreadPoolExecutor(beside, thread_name_prefix="dibpnmf-chain") as pool,
        _stopped_by_ctrl_c(watch) as stop,
    ):
        futures = [pool.submit(run_one, chain, executor) for chain in chains]
        _wait(futures, stop)
    for future in futures:
        future.result()
    return stop.is_asked
