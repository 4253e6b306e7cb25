"""Fits inside other people's threads and processes: the same draws, and no thread too many."""

from __future__ import annotations

import os
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from unittest import mock

import numpy as np
import pytest
from joblib import Parallel, delayed

from dibpnmf import DIBPNMF, sampling
from dibpnmf.datasets import make_planted
from dibpnmf.inference import gibbs
from dibpnmf.inference.executors import Threads
from dibpnmf.observations import Observations
from dibpnmf.sampling import most_threads, n_threads

pytestmark = pytest.mark.filterwarnings(
    "ignore::sklearn.exceptions.ConvergenceWarning", "ignore:The last of"
)

CORES = n_threads(-1)


@pytest.fixture(autouse=True)
def work_for_all(monkeypatch):
    """However small the data, let all threads work."""
    monkeypatch.setattr(sampling, "CELLS_A_THREAD", 1)


class Count:
    """How many threads were in a row kernel at once, in all and by the fit they belong to."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.now: dict[int, int] = {}
        self.most, self.most_of_a_fit = 0, 0

    def run(self, lik, start, stop, *arguments) -> None:
        fit = int(arguments[7])  # its seed
        with self.lock:
            self.now[fit] = self.now.get(fit, 0) + 1
            self.most = max(self.most, sum(self.now.values()))
            self.most_of_a_fit = max(self.most_of_a_fit, self.now[fit])
        try:
            _update_rows(lik, start, stop, *arguments)
        finally:
            with self.lock:
                self.now[fit] -= 1


_update_rows = gibbs.update_rows


@contextmanager
def counted():
    """Count the threads in row kernels, and see that none of ours is left."""
    count = Count()
    with mock.patch.object(gibbs, "update_rows", count.run):
        yield count
    assert not [t for t in threading.enumerate() if t.name.startswith("dibpnmf")]


def fit(seed: int, n_jobs: int | None, n_chains: int = 1) -> np.ndarray:
    Y = make_planted(40, 30, 3, random_state=0).data
    model = DIBPNMF(n_warmup=8, n_draws=4, n_chains=n_chains, n_jobs=n_jobs, random_state=seed)
    return model.fit(Y).components_


def fit_and_count(seed: int, n_jobs: int | None) -> tuple[np.ndarray, int]:
    with counted() as count:
        return fit(seed, n_jobs), count.most


@pytest.fixture(scope="module")
def alone() -> list[np.ndarray]:
    return [fit(seed, 1) for seed in range(3)]


def in_joblib_threads(n_jobs):
    return Parallel(3, backend="threading")(delayed(fit)(seed, n_jobs) for seed in range(3))


def in_a_pool(n_jobs):
    with ThreadPoolExecutor(3) as pool:
        return list(pool.map(lambda seed: fit(seed, n_jobs), range(3)))


@pytest.mark.parametrize("together", [in_joblib_threads, in_a_pool])
@pytest.mark.parametrize("n_jobs", [None, 2, -1])
def test_fits_in_threads(together, n_jobs, alone):
    with counted() as count:
        found = together(n_jobs)
    np.testing.assert_equal(found, alone)
    if n_jobs == -1:  # one takes all cores, and the others, finding none left, a thread each
        assert count.most <= CORES + 2
    else:
        assert count.most_of_a_fit <= (n_jobs or 1)


@pytest.mark.parametrize("n_jobs", [None, 2, -1])
def test_fits_in_processes(n_jobs, alone):
    found = Parallel(2)(delayed(fit_and_count)(seed, n_jobs) for seed in range(3))
    np.testing.assert_equal([components for components, _ in found], alone)
    share = {None: 1, 2: 2, -1: max(1, (os.cpu_count() or 1) // 2)}[n_jobs]
    assert max(most for _, most in found) <= share


@pytest.mark.parametrize("n_chains", [1, 2, 3])
@pytest.mark.parametrize("n_jobs", [1, 2, 3])
def test_never_more_threads_than_jobs(n_jobs, n_chains):
    """Chains beside each other or rows: the threads of a fit work, and are, n_jobs at most."""
    most = []
    submit = ThreadPoolExecutor.submit

    def look(*arguments):
        most.append(len([t for t in threading.enumerate() if t.name.startswith("dibpnmf")]))
        return submit(*arguments)

    with counted() as count, mock.patch.object(ThreadPoolExecutor, "submit", look):
        fit(0, n_jobs, n_chains)
    assert 1 <= count.most <= n_jobs
    assert max(most) <= n_jobs


def test_negative_jobs_count_the_cores_that_are_left():
    assert n_threads(-1) == CORES
    assert n_threads(-1, taken=CORES) == 1
    assert n_threads(2, taken=100) == 2  # asked for by number: given


def test_few_cells_are_not_divided_among_threads(monkeypatch):
    monkeypatch.undo()
    few, many = (Observations.from_matrix(np.ones(shape)) for shape in ((100, 80), (200, 160)))
    assert (most_threads(few), most_threads(few, 4), most_threads(many, 4)) == (1, 4, 16)


def test_an_error_in_one_thread_reaches_the_caller_and_stops_the_others():
    done = []

    def kernel(likelihood, start, stop):
        done.append(start)
        if start == 3:
            raise FloatingPointError("in row 3")

    executor = Threads(2, block_size=1)
    with pytest.raises(FloatingPointError, match="in row 3"):
        executor.map_blocks(kernel, None, 1000)
    executor.close()
    assert len(done) < 1000


def test_a_thread_to_spare_helps_and_nobody_waits_for_it_while_it_helps_another():
    """Three threads for two callers: the second is done while the third still helps the first."""
    is_helped, is_second_done = threading.Event(), threading.Event()
    callers: list[threading.Thread] = []

    def kernel(caller, start, stop):
        if caller == 1:
            return
        if threading.current_thread() in callers:
            assert is_helped.wait(60.0)
        else:
            is_helped.set()
            assert is_second_done.wait(60.0)

    def first():
        callers.append(threading.current_thread())
        executor.map_blocks(kernel, 0, 2)

    with closing(Threads(3, block_size=1, n_callers=2)) as executor, ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(first)
        assert is_helped.wait(60.0)
        executor.map_blocks(kernel, 1, 10)
        is_second_done.set()
        waiting.result()


@pytest.mark.parametrize(("n_threads", "n_callers"), [(1, 1), (2, 2), (1, 2)])
def test_without_threads_to_spare_the_caller_works_alone(n_threads, n_callers):
    workers = []

    def kernel(likelihood, start, stop):
        workers.append(threading.current_thread())
        time.sleep(0.01)  # for anybody else to begin

    with closing(Threads(n_threads, block_size=1, n_callers=n_callers)) as executor:
        executor.map_blocks(kernel, None, 10)
    assert workers == [threading.current_thread()] * 10


@pytest.mark.parametrize("n_jobs", [2, 3, 5])
def test_chains_with_threads_to_spare_draw_the_same(n_jobs):
    np.testing.assert_equal(fit(0, n_jobs, 2), fit(0, 1, 2))
