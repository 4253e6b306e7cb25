"""Several chains at once: who gets which thread, progress, and a clean stop on Ctrl-C."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from typing import Protocol

from dibpnmf.inference.chain import Monitor
from dibpnmf.inference.executors import Executor, executor_of


class Watch(Monitor, Protocol):
    """A monitor that the main thread redraws and may stop."""

    def refresh(self) -> None:
        """Redraw."""

    def stop(self) -> None:
        """Ask all chains to stop after the sweep at hand."""


ChainRunner = Callable[[int, Executor], None]


def run_chains(run_one: ChainRunner, chains: Sequence[int], n_jobs: int, watch: Watch) -> bool:
    """Run the chains; return whether they were interrupted.

    With at least as many chains as threads, chains run beside each other, each in one thread;
    otherwise one chain after another, its rows divided among the threads. Never more than
    ``n_jobs`` threads work. The main thread only waits, so that Ctrl-C reaches it: chains then
    finish their sweep and stop. A second Ctrl-C is raised.
    """
    rows_in_parallel = n_jobs > 1 and len(chains) < n_jobs
    beside = 1 if rows_in_parallel else min(n_jobs, len(chains))
    interrupted = False
    with (
        executor_of(n_jobs if rows_in_parallel else 1) as executor,
        ThreadPoolExecutor(beside, thread_name_prefix="dibpnmf-chain") as pool,
    ):
        futures = [pool.submit(run_one, chain, executor) for chain in chains]
        pending = set(futures)
        while pending:
            try:
                _, pending = wait(pending, timeout=0.1, return_when="FIRST_EXCEPTION")
                watch.refresh()
                if any(f.done() and f.exception() for f in futures):
                    watch.stop()
            except KeyboardInterrupt:
                watch.stop()
                if interrupted:  # asked twice: the user wants out, not what was drawn
                    raise
                interrupted = True
    for future in futures:
        future.result()
    return interrupted
