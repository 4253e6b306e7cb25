"""Where a block of rows runs: in this thread, or in a pool of threads."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import contextmanager
from typing import Any, Protocol


class Executor(Protocol):
    """Runs a row kernel over all rows of one side."""

    def map_blocks(
        self, kernel: Callable[..., None], likelihood: Any, n_rows: int, *arguments: Any
    ) -> None:
        """Call ``kernel(likelihood, start, stop, *arguments)`` on blocks that cover the rows."""

    def close(self) -> None:
        """Let go of what the executor holds."""


class Serial:
    """One block, here and now."""

    def map_blocks(
        self, kernel: Callable[..., None], likelihood: Any, n_rows: int, *arguments: Any
    ) -> None:
        """Run the kernel on all rows at once."""
        kernel(likelihood, 0, n_rows, *arguments)

    def close(self) -> None:
        """Nothing is held."""


class Threads:
    """Blocks of rows in this thread and a pool of others; kernels release the interpreter lock.

    Parameters
    ----------
    n_threads : int
        Threads that work, the calling one among them.
    block_size : int, optional
        Rows a block; by default eight blocks a thread, so that an expensive block does not
        leave the other threads idle for long.
    """

    def __init__(self, n_threads: int, block_size: int | None = None) -> None:
        self.n_threads = n_threads
        self.block_size = block_size
        self._pool = ThreadPoolExecutor(max(1, n_threads - 1), thread_name_prefix="dibpnmf")

    def map_blocks(
        self, kernel: Callable[..., None], likelihood: Any, n_rows: int, *arguments: Any
    ) -> None:
        """Run the kernel on blocks of rows and wait for all of them."""
        size = self.block_size or max(1, -(-n_rows // (8 * self.n_threads)))
        starts = deque(range(0, n_rows, size))

        def work() -> None:
            # Taking from a deque is atomic: each block is done once, by whoever is free.
            while True:
                try:
                    start = starts.popleft()
                except IndexError:
                    return
                try:
                    kernel(likelihood, start, min(start + size, n_rows), *arguments)
                except BaseException:
                    starts.clear()  # nobody takes another
                    raise

        helpers = min(self.n_threads, len(starts)) - 1
        futures = [self._pool.submit(work) for _ in range(helpers)]
        try:
            work()
        finally:
            wait(futures)
        for future in futures:
            future.result()

    def close(self) -> None:
        """Let the threads go."""
        self._pool.shutdown(wait=True)


@contextmanager
def executor_of(n_threads: int) -> Iterator[Executor]:
    """An executor with this many threads, closed at the end."""
    executor: Executor = Threads(n_threads) if n_threads > 1 else Serial()
    try:
        yield executor
    finally:
        executor.close()
