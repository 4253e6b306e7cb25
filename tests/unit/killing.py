"""Runs in children that are killed; a script of its own, so that it may fork.

    python killing.py moments FOLDER KILLS   at random moments, until KILLS were delivered
    python killing.py writes FOLDER          at the first, second, ... write to the disk

Every run is resumed until it ends, and its draws compared, byte by byte, with those of a run
never stopped. Prints how many runs and kills there were.
"""

from __future__ import annotations

import os
import random
import signal
import sys
import time
import traceback
import warnings
from pathlib import Path

from dibpnmf import DIBPNMF
from dibpnmf.datasets import make_planted

Y = make_planted(12, 10, 2, random_state=0).data
VARIANTS = (
    {"prior": "bivariate-beta"},
    {"prior": "bivariate-beta", "keep_draws": False, "n_thin": 2},
    {"prior": "bivariate-beta", "scheme": "literal"},
)


def fit(folder: Path, variant: int, every: float, n_draws: int, n_warmup: int = 10) -> None:
    DIBPNMF(
        n_warmup=n_warmup, n_draws=n_draws, n_chains=2, n_jobs=2, random_state=3, checkpoint=folder,
        checkpoint_every=every, **VARIANTS[variant],
    ).fit(Y)  # fmt: skip


def in_child(work) -> int:
    """Start work in a child process; return its id."""
    child = os.fork()
    if child:
        return child
    code = 1
    try:
        work()
        code = 0
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(code)


def status_of(child: int) -> int:
    """Wait for a child; -9 is killed, 0 is done, and anything else a bug."""
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    if status not in (0, -signal.SIGKILL):
        raise SystemExit(f"a child ended with {status}")
    return status


def draws(folder: Path) -> list[bytes]:
    return [path.read_bytes() for path in sorted(folder.glob("chain-*.draws"))]


def check_same(folder: Path, reference: Path) -> None:
    """Compare the draws, and everything that is read off them."""
    assert draws(folder) == draws(reference)
    assert len(draws(folder)) == 2
    for name in ("summary.json", "names.json"):
        assert (folder / name).read_bytes() == (reference / name).read_bytes()
    assert not list(folder.glob(".*")), "a temporary file was left"


def at_random_moments(folder: Path, kills: int) -> tuple[int, int]:
    rng = random.Random(7)
    runs = delivered = 0
    while delivered < kills:
        variant = runs % len(VARIANTS)
        start = time.monotonic()
        reference, run = folder / f"whole-{runs}", folder / f"killed-{runs}"
        status_of(in_child(lambda r=reference, v=variant: fit(r, v, 30.0, 150, 60)))
        span = time.monotonic() - start
        status = -9
        while status != 0:
            child = in_child(lambda r=run, v=variant: fit(r, v, 0.002, 150, 60))
            if delivered < kills:
                time.sleep(rng.uniform(0.0, 0.6 * span))
                os.kill(child, signal.SIGKILL)  # a child that has ended waits to be waited for
            status = status_of(child)
            delivered += status != 0
        check_same(run, reference)
        runs += 1
    return runs, delivered


def kill_at(n: int) -> None:
    """Have this process killed at its n-th call that changes what is on the disk."""
    left = [n]

    def deadly(call):
        def called(*arguments, **named):
            left[0] -= 1
            if left[0] == 0:
                os.kill(os.getpid(), signal.SIGKILL)
            return call(*arguments, **named)

        return called

    for name in ("replace", "fsync", "truncate", "mkdir"):
        setattr(os, name, deadly(getattr(os, name)))


def at_every_write(folder: Path) -> tuple[int, int]:
    """A run with a checkpoint at its end only, killed at its first write, its second, ..."""
    reference = folder / "whole"
    status_of(in_child(lambda: fit(reference, 0, 30.0, 5)))
    for n in range(1, 1000):
        run = folder / f"killed-{n}"

        def work(n=n, run=run):
            kill_at(n)
            fit(run, 0, 30.0, 5)

        if status_of(in_child(work)) == 0:
            return n, n - 1
        status_of(in_child(lambda r=run: fit(r, 0, 30.0, 5)))
        check_same(run, reference)
    raise SystemExit("the run never ended")


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    how, where = sys.argv[1], Path(sys.argv[2])
    # Compiled kernels are loaded here, once, and inherited by every child.
    for number in range(len(VARIANTS)):
        fit(where / f"warm-{number}", number, 30.0, 5)
    counts = (
        at_random_moments(where, int(sys.argv[3])) if how == "moments" else at_every_write(where)
    )
    print(*counts)
