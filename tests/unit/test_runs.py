"""Runs of DIBPNMF: honest about convergence, repeatable, and stopped without loss."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

from dibpnmf import DIBPNMF
from dibpnmf._progress import Progress
from dibpnmf.datasets import make_planted
from dibpnmf.diagnostics import diagnose, doubts_about_draws
from dibpnmf.inference import starts
from dibpnmf.inference.run import run_chains
from dibpnmf.priors import PRIORS

pytestmark = pytest.mark.filterwarnings(
    "ignore::sklearn.exceptions.ConvergenceWarning", "ignore:The last of"
)

SCHEMES = ("joint", "literal")


def small(**params) -> DIBPNMF:
    defaults = {"n_warmup": 30, "n_draws": 20, "n_chains": 2, "random_state": 0}
    return DIBPNMF(**(defaults | params))


def same_draws(one, other):
    for name in ("components_", "embedding_", "components_mean_", "inclusion_probabilities_"):
        np.testing.assert_array_equal(getattr(one, name), getattr(other, name))
    for group in ("posterior", "sample_stats"):
        assert one.posterior_[group].to_dataset().equals(other.posterior_[group].to_dataset())


@pytest.fixture(scope="module")
def planted():
    return make_planted(30, 20, 3, random_state=0).data * 7.0


# ---------------------------------------------------------------------- honesty


def test_convergence_warning_names_scalars_and_remedy(planted):
    with pytest.warns(ConvergenceWarning) as caught:
        small().fit(planted)
    text = next(str(w.message) for w in caught if w.category is ConvergenceWarning)
    for words in ("log_likelihood (R-hat", "ESS", "1.05", "50", "n_warmup", "n_draws", "30 and 20"):
        assert words in text


def test_doubts_follow_r_hat_and_ess():
    rng = np.random.default_rng(0)
    fine = {"log_likelihood": rng.normal(size=(4, 500)), "acceptance": np.ones((4, 500)),
            "n_active": np.full((4, 500), 3)}  # fmt: skip
    assert not list(doubts_about_draws(diagnose(fine), 1, 1))
    apart = fine | {"a": rng.normal(size=(4, 500)) + np.arange(4)[:, None]}
    slow = fine | {"b": np.cumsum(rng.normal(size=(1, 500)), axis=1)}
    few = fine | {"tau": rng.normal(size=(4, 3))}
    for scalars, name in ((apart, "a (R-hat"), (slow, "b (R-hat"), (few, "tau (too few draws")):
        ((category, text),) = doubts_about_draws(diagnose(scalars), 1, 1)
        assert category is ConvergenceWarning
        assert name in text
        assert "log_likelihood" not in text


# ---------------------------------------------------------------------- repeatable runs


def test_random_state_makes_runs_repeatable(planted):
    seeded = small(random_state=0).fit(planted)
    same_draws(small(random_state=0).fit(planted), seeded)
    one = small(random_state=np.random.RandomState(5)).fit(planted)
    same_draws(one, small(random_state=np.random.RandomState(5)).fit(planted))
    assert one.log_likelihood_ != seeded.log_likelihood_


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("prior", PRIORS)
def test_draws_do_not_depend_on_the_number_of_threads(planted, prior, scheme):
    models = [
        small(prior=prior, scheme=scheme, n_jobs=n_jobs, n_draws=5).fit(planted)
        for n_jobs in (1, 2, 3)  # chains in turn, chains beside each other, rows in parallel
    ]
    for model in models[1:]:
        same_draws(model, models[0])
        np.testing.assert_array_equal(model.transform(planted), models[0].transform(planted))


# ---------------------------------------------------------------------- Ctrl-C and progress


def interrupt_when(monkeypatch, due):
    """Raise KeyboardInterrupt in the main thread's redraw, once, when ``due(progress)``."""
    raised = []

    def refresh(self):
        if due(self) and not raised:
            raised.append(True)
            raise KeyboardInterrupt

    monkeypatch.setattr(Progress, "refresh", refresh)


@pytest.mark.parametrize("keep_draws", [True, False])
@pytest.mark.parametrize("n_jobs", [1, 2])
def test_ctrl_c_keeps_the_draws(planted, monkeypatch, n_jobs, keep_draws):
    interrupt_when(monkeypatch, lambda p: max(sweep for sweep, *_ in p._latest) > 40)
    model = small(n_draws=200_000, n_jobs=n_jobs, keep_draws=keep_draws)
    with pytest.warns(UserWarning, match=r"Interrupted: .* draws made so far, \[\d+") as caught:
        model.fit(planted)
    n = [len(record) for record in model._records]
    said = " ".join(str(warning.message) for warning in caught)
    assert ("more had none or few" in said) == (len(n) < model.n_chains)
    assert "200000" not in said
    assert all(0 < count < 200_000 for count in n)
    assert len(n) <= 2
    assert 2 * min(n) >= max(n)
    assert model.posterior_["sample_stats"].sizes["draw"] == min(n)
    assert np.isfinite(model.components_).all()
    assert sum(model.component_counts_.values()) == pytest.approx(1.0)
    assert model.transform(planted).shape == (30, model.n_components_)


def test_ctrl_c_before_the_first_draw_is_raised(planted, monkeypatch):
    interrupt_when(monkeypatch, lambda p: max(sweep for sweep, *_ in p._latest) > 2)
    with pytest.raises(KeyboardInterrupt, match="before the first draw"):
        small(n_warmup=10**6).fit(planted)


def test_ctrl_c_while_the_background_is_estimated_is_raised(planted, monkeypatch, tmp_path):
    interrupt_when(monkeypatch, lambda p: p.name == "background")
    with pytest.raises(KeyboardInterrupt, match="before the first draw"):
        small(checkpoint=tmp_path / "run").fit(planted)
    assert not (tmp_path / "run").exists()


def test_an_error_in_a_chain_is_raised(planted, monkeypatch):
    def fail(*_):
        raise RuntimeError("broken start")

    monkeypatch.setattr(starts, "start_state", fail)
    with pytest.raises(RuntimeError, match="broken start"):
        small(n_draws=10**6).fit(planted)


CHILD = """
import sys, threading, warnings
import numpy as np
from dibpnmf import DIBPNMF
from dibpnmf._progress import Progress
first = threading.Event()
report = Progress.report
def tell(self, chain, sweep, *rest):
    report(self, chain, sweep, *rest)
    if sweep == 20 and self.name == "chain" and not first.is_set():
        first.set()
        print("sampling", flush=True)
Progress.report = tell
warnings.simplefilter("always")
Y = np.random.default_rng(0).exponential(size=(30, 20))
model = DIBPNMF(n_warmup=5, n_draws=1_000_000, n_chains=2, n_jobs=2, random_state=0).fit(Y)
print("draws", model.posterior_["sample_stats"].sizes["draw"])
"""


@pytest.mark.skipif(os.name == "nt", reason="POSIX signals")
def test_a_real_sigint_keeps_the_draws():
    with subprocess.Popen(
        [sys.executable, "-c", CHILD], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as child:
        try:
            assert child.stdout.readline() == "sampling\n"
            child.send_signal(signal.SIGINT)
            out, err = child.communicate(timeout=120)
        finally:
            child.kill()  # or leaving the block would wait for ever
    assert child.returncode == 0, err
    assert int(out.split()[-1]) > 0
    assert "Interrupted" in err
    # Standard error is a pipe: warnings only, no progress.
    assert "chain 1" not in err


class PressesCtrlC(list):
    """Chains whose second one is handed over after somebody pressed Ctrl-C."""

    def __iter__(self):
        yield self[0]
        os.kill(os.getpid(), signal.SIGINT)
        yield from self[1:]


def test_ctrl_c_while_chains_are_being_submitted_stops_those_that_run():
    class Watch:
        is_stopped = False

        def refresh(self):
            pass

        def stop(self):
            self.is_stopped = True

    watch, deadline = Watch(), time.monotonic() + 20.0
    told = []

    def run_one(chain, _executor):
        while not watch.is_stopped and time.monotonic() < deadline:
            time.sleep(0.01)
        told.append(watch.is_stopped)

    before = signal.getsignal(signal.SIGINT)
    assert run_chains(run_one, PressesCtrlC([0, 1, 2]), 2, watch)
    assert told == [True] * 3
    assert signal.getsignal(signal.SIGINT) is before


def test_progress_is_silent_in_a_pipe_and_shown_on_demand(planted, capfd):
    small(n_draws=3).fit(planted)
    assert capfd.readouterr() == ("", "")
    small(n_draws=3, progress=False).fit(planted)
    assert capfd.readouterr() == ("", "")
    small(n_draws=3, progress=True).fit(planted)
    out, err = capfd.readouterr()
    assert out == ""
    assert "chain 2" in err
