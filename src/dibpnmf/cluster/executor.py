"""An executor on a Dask cluster, and the client it uses."""

from __future__ import annotations

import threading
import uuid
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import dask
import numpy as np
from distributed import Client, KilledWorker, LocalCluster
from distributed.client import FutureCancelledError
from distributed.comm.core import CommClosedError

from dibpnmf import __version__
from dibpnmf.cluster.blocks import (
    Call,
    Empty,
    OtherSide,
    OwnCells,
    OwnRows,
    Parcel,
    Sealed,
    cut_cells,
    run_block,
    unseal,
)
from dibpnmf.cluster.packing import Broadcast, pack, unpack
from dibpnmf.cluster.placed import Placed, Side, even_bounds, row_weights
from dibpnmf.inference.executors import Rows, Whole
from dibpnmf.observations import Observations

_BLOCKS = 2  # a thread: an uneven block leaves the others idle, many blocks cost a task each


_PATIENCE = 60.0  # seconds that a half-sweep may take before its workers are looked at


class ClusterError(RuntimeError):
    """The cluster was lost, or cannot run this version."""


class Dask:
    """Blocks of rows on the workers of a Dask client.

    Parameters
    ----------
    client : distributed.Client
        The caller's: it is neither configured nor closed here.
    n_blocks : int, optional
        Blocks that each side is cut into; by default two a thread of the cluster.
    """

    def __init__(self, client: Client, n_blocks: int | None = None) -> None:
        self.client = client
        self.name = f"dibpnmf-{uuid.uuid4().hex[:12]}"
        self.workers = check_workers(client)
        self.n_blocks = n_blocks or _BLOCKS * max(1, sum(client.nthreads().values()))

    def home(self, block: int, n_blocks: int) -> str:
        """Worker that a block should live on, as long as that worker lives."""
        return self.workers[block * len(self.workers) // n_blocks]

    def place(self, observations: Observations) -> Placed:
        """Send a matrix that the client has to the workers, by row and by column."""
        sides = []
        for t in range(2):
            cells = observations.side(t)
            weights = row_weights(
                np.diff(cells.indptr), observations.shape[1 - t], observations.is_complete
            )
            bounds = even_bounds(weights, self.n_blocks)
            blocks = [
                self.client.submit(
                    unseal, Sealed(cut_cells(cells, int(bounds[b]), int(bounds[b + 1]))),
                    key=self.key(f"cells{t}-{b}"), workers=[self.home(b, bounds.size - 1)],
                    allow_other_workers=True,
                )
                for b in range(bounds.size - 1)
            ]  # fmt: skip
            sides.append(Side(blocks, bounds))
        o = observations
        by_side: Any = (sides[0], sides[1])
        return Placed(o.shape, by_side, o.is_complete, o.scale, o.n_observed, o.n_stored, o)

    def key(self, what: str) -> str:
        """A name for a task that no other has."""
        return f"{self.name}-{what}"

    def map_blocks(
        self, kernel: Callable[..., None], likelihood: Any, n_rows: int, *arguments: Any
    ) -> None:
        """Run the kernel where the cells are; write what it changed into the marked rows."""
        side = next(argument for argument in arguments if isinstance(argument, Side))
        call, rows, whole = _call(kernel, likelihood, arguments)
        unique = uuid.uuid4().hex[:12]
        spans = [slice(a, b) for a, b in zip(side.bounds[:-1], side.bounds[1:], strict=True)]
        parcels = [Parcel(call, [_part(argument, span) for argument in rows]) for span in spans]
        with translated(self.client), warned_if_paused(self.client):
            # A task, not scattered data: if its worker dies, Dask sends it to another.
            other = whole and self.client.submit(
                unseal, Sealed(Broadcast(pack(whole.array))), key=self.key(f"other-{unique}")
            )
            futures = self.client.map(
                run_block, side.blocks, parcels, whole=other, pure=False,
                key=[self.key(f"{call.name}-{unique}-{b}") for b in range(len(parcels))],
            )  # fmt: skip
            results = self.client.gather(futures)
        written = [argument.array for argument in rows if argument.is_written]
        for span, parts in zip(spans, results, strict=True):
            for array, part in zip(written, parts, strict=True):
                array[span] = unpack(part)

    def close(self) -> None:
        """Nothing is held: blocks go with the matrix they belong to."""


@contextmanager
def warned_if_paused(client: Client) -> Iterator[None]:
    """Warn, if what is done here takes long, that all workers are paused for want of memory."""
    timer = threading.Timer(_PATIENCE, _warn_if_paused, [client])
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def _warn_if_paused(client: Client) -> None:
    workers = client.scheduler_info()["workers"].values()
    if workers and all(worker["status"] == "paused" for worker in workers):
        warnings.warn(
            f"Dask has paused all workers ({len(workers)}): they use most of their memory limit, "
            "so this fit waits. Start them with a larger --memory-limit; one needs some 600 MB "
            "beside its data, most of it while it compiles.",
            UserWarning,
            stacklevel=2,
        )


def _call(
    kernel: Any, likelihood: Any, arguments: tuple[Any, ...]
) -> tuple[Call, list[Rows], Whole | None]:
    """Separate what is common to all blocks from what each has of its own."""
    places: list[Any] = []
    rows: list[Rows] = []
    whole: Whole | None = None
    for argument in arguments:
        if isinstance(argument, Side):
            places.append(OwnCells())
        elif isinstance(argument, Rows):
            places.append(OwnRows(len(rows), argument.is_written))
            rows.append(argument)
        elif isinstance(argument, Whole):
            places.append(OtherSide(argument.with_lists, argument.for_all_cells))
            whole = argument
        else:
            places.append(argument)
    return Call(kernel.__module__, kernel.__name__, likelihood, tuple(places)), rows, whole


def _part(rows: Rows, span: slice) -> Any:
    array = rows.array
    return pack(array[span]) if rows.is_read else Empty(array.shape[1:], array.dtype)


@contextmanager
def translated(client: Client) -> Iterator[None]:
    """Say what became of the cluster, and what to do."""
    try:
        yield
    except KilledWorker as error:
        raise ClusterError(
            f"Workers died again and again while they ran one block of rows ({error}). They may "
            "lack memory: use more of them, or smaller blocks (more threads in all). A fit with "
            "checkpoint= goes on from its last checkpoint."
        ) from error
    except (FutureCancelledError, OSError) as error:
        if not isinstance(error, (FutureCancelledError, CommClosedError)) and (
            client.status == "running"
        ):
            raise  # of a task, such as one that reads Y
        reason = next(iter(str(error).splitlines()), "")
        raise ClusterError(
            f"The Dask scheduler at {_address(client)} was lost ({type(error).__name__}: "
            f"{reason}). Start it, or another, and fit again with a new client: with checkpoint= "
            "the run goes on from its last checkpoint, to the bit."
        ) from error


def _address(client: Client) -> str:
    return str(client.scheduler.address) if client.scheduler else "an unknown address"


def _facts() -> Callable[[], dict[str, str]]:
    """Make the question that workers are asked, sent as it stands: they may lack the package."""

    def facts() -> dict[str, str]:
        import platform

        found = {"python": platform.python_version()}
        for name in ("dibpnmf", "numba", "numpy", "llvmlite"):
            try:
                found[name] = __import__(name).__version__
            except Exception as error:
                found[name] = f"missing ({type(error).__name__}: {error})"
        try:
            found["processor"] = str(__import__("llvmlite.binding").binding.get_host_cpu_name())
        except Exception:
            found["processor"] = "unknown"
        return found

    return facts


def check_workers(client: Client) -> list[str]:
    """Refuse workers without this version of the package; return their addresses in order.

    Other versions of what kernels are compiled with, or other processors, are warned of: draws
    are as good, but the last bits may differ.
    """
    facts = _facts()
    try:
        client.wait_for_workers(1, timeout=dask.config.get("distributed.comm.timeouts.connect"))
    except TimeoutError as error:
        raise ClusterError(f"The Dask scheduler at {_address(client)} has no worker.") from error
    with translated(client):
        answers: dict[str, dict[str, str]] = client.run(facts)
    here = facts()
    bad = [
        f"the worker at {address} has {_said(found['dibpnmf'])}"
        for address, found in sorted(answers.items())
        if found["dibpnmf"] != __version__
    ]
    if bad:
        raise ClusterError(
            f"All workers need dibpnmf {__version__}, as this process has; {'; '.join(bad)}. "
            "Install it there, or leave those workers out."
        )
    for name in ("python", "numba", "numpy", "llvmlite", "processor"):
        others = sorted({found[name] for found in answers.values()} - {here[name]})
        if others:
            text = (
                f"Some workers have another {name} ({', '.join(others)}; here {here[name]}): the "
                "draws are as good, but may differ from those of one machine."
            )
            warnings.warn(text, UserWarning, stacklevel=2)
    return sorted(answers)


def _said(version: str) -> str:
    if version.startswith("missing (ModuleNotFoundError"):
        return "no dibpnmf"
    return f"dibpnmf {version}"


@contextmanager
def opened(executor: Any, n_jobs: int) -> Iterator[Dask]:
    """Use a client, or for "dask" the current one, or else a cluster on this machine."""
    with _client(executor, n_jobs) as client, _large_graphs():
        yield Dask(client)


@contextmanager
def _client(executor: Any, n_jobs: int) -> Iterator[Client]:
    if isinstance(executor, Client):
        yield executor
        return
    try:
        current = Client.current()
    except ValueError:
        current = None
    if current is not None:
        yield current
        return
    with (
        LocalCluster(
            n_workers=n_jobs,
            threads_per_worker=1,
            host="127.0.0.1",
            dashboard_address="127.0.0.1:0",
        ) as cluster,
        Client(cluster, set_as_default=False) as client,
    ):
        yield client


@contextmanager
def _large_graphs() -> Iterator[None]:
    """Loadings travel inside graphs on purpose, so that Dask can send them again."""
    with dask.config.set({"distributed.admin.large-graph-warning-threshold": "100 GB"}):
        yield
