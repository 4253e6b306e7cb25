"""Where a block of rows runs: in this thread, in a pool of threads, or elsewhere.

Arguments of a kernel that belong to its rows, and loadings of the other side, are marked as such:
here they are handed on as they are, on a cluster they travel.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import contextmanager
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from dibpnmf._compile import kernel
from dibpnmf.likelihoods.lists import list_entries
from dibpnmf.observations import Cells, Observations


class Rows(NamedTuple):
    """An argument with a line for each row, of which a kernel sees those of its block."""

    array: NDArray[Any]
    is_read: bool = True
    is_written: bool = True


class Whole(NamedTuple):
    """Loadings of the other side, all of them for every block, followed by their lists."""

    array: NDArray[Any]
    with_lists: bool = True
    for_all_cells: bool = True  # whether lists for sums over all cells are among them


class Executor(Protocol):
    """Runs a row kernel over all rows of one side."""

    def map_blocks(
        self, kernel: Callable[..., None], likelihood: Any, n_rows: int, *arguments: Any
    ) -> None:
        """Call ``kernel(likelihood, start, stop, *arguments)`` on blocks that cover the rows.

        `Rows` are unwrapped, and a `Whole` becomes two arguments unless it has no lists.
        """

    def close(self) -> None:
        """Let go of what the executor holds."""


def _unwrapped(arguments: tuple[Any, ...]) -> Iterator[Any]:
    for argument in arguments:
        if isinstance(argument, (Rows, Whole)):
            yield argument.array
        else:
            yield argument
        if isinstance(argument, Whole) and argument.with_lists:
            yield list_entries(argument.array, argument.for_all_cells)


class Serial:
    """One block, here and now."""

    def map_blocks(
        self, kernel: Callable[..., None], likelihood: Any, n_rows: int, *arguments: Any
    ) -> None:
        """Run the kernel on all rows at once."""
        kernel(likelihood, 0, n_rows, *_unwrapped(arguments))

    def close(self) -> None:
        """Nothing is held."""


class Threads:
    """Blocks of rows in this thread and a pool of others; kernels release the interpreter lock.

    Parameters
    ----------
    n_threads : int
        Threads that work, the calling ones among them.
    block_size : int, optional
        Rows a block; by default eight blocks a thread, so that an expensive block does not
        leave the other threads idle for long.
    n_callers : int
        Threads that may call at once; the others help whichever has work left.
    """

    def __init__(self, n_threads: int, block_size: int | None = None, n_callers: int = 1) -> None:
        self.block_size = block_size
        self._n_blocks = 8 * -(-n_threads // n_callers)
        self._n_helpers = max(0, n_threads - n_callers)
        self._pool = ThreadPoolExecutor(max(1, self._n_helpers), thread_name_prefix="dibpnmf")

    def map_blocks(
        self, kernel: Callable[..., None], likelihood: Any, n_rows: int, *arguments: Any
    ) -> None:
        """Run the kernel on blocks of rows and wait for all of them."""
        size = self.block_size or max(1, -(-n_rows // self._n_blocks))
        starts = deque(range(0, n_rows, size))
        plain = list(_unwrapped(arguments))

        def work() -> None:
            # Taking from a deque is atomic: each block is done once, by whoever is free.
            while True:
                try:
                    start = starts.popleft()
                except IndexError:
                    return
                try:
                    kernel(likelihood, start, min(start + size, n_rows), *plain)
                except BaseException:
                    starts.clear()  # nobody takes another
                    raise

        n_helpers = min(self._n_helpers, len(starts) - 1)
        futures = [self._pool.submit(work) for _ in range(n_helpers)]
        try:
            work()
        finally:
            # Those that have not begun, helping others, would find nothing to do.
            begun = [future for future in futures if not future.cancel()]
            wait(begun)
        for future in begun:
            future.result()

    def close(self) -> None:
        """Let the threads go."""
        self._pool.shutdown(wait=True)


@contextmanager
def executor_of(
    n_threads: int, elsewhere: Executor | None = None, n_callers: int = 1
) -> Iterator[Executor]:
    """An executor with this many threads, closed at the end, or the one given."""
    if elsewhere is not None:
        yield elsewhere
        return
    is_alone = n_threads <= n_callers
    executor: Executor = Serial() if is_alone else Threads(n_threads, n_callers=n_callers)
    try:
        yield executor
    finally:
        executor.close()


@kernel
def _copy_rows(_, start: int, stop: int, cells: Cells, Y: NDArray[np.float64]) -> None:  # type: ignore[no-untyped-def]
    """Write the stored cells of rows start..stop into Y."""
    for i in range(start, stop):
        for p in range(cells.indptr[i], cells.indptr[i + 1]):
            Y[i, cells.indices[p]] = cells.values[p]


def gathered(
    executor: Executor, observations: Observations, missing: float = 0.0
) -> NDArray[np.float64]:
    """All cells of a matrix that is small, wherever they lie, in one array."""
    Y = np.full(observations.shape, 0.0 if observations.is_complete else missing)
    executor.map_blocks(_copy_rows, None, Y.shape[0], observations.side(0), Rows(Y))
    return Y
