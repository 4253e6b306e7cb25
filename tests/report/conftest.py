"""Fitted models for reports, and a real browser to open them in."""

from __future__ import annotations

import shutil
import warnings
from dataclasses import dataclass, field
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

from dibpnmf import DIBPNMF
from dibpnmf.datasets import make_planted
from dibpnmf.report import write_report

EVIL = "<script>alert(1)</script>"


@pytest.fixture(scope="session")
def planted():
    """A model fitted to named data; the first factor's strongest column has an evil name."""
    Y = make_planted(40, 30, 3, random_state=0).data
    model = fit(Y)
    columns = [f"gene {j}" for j in range(30)]
    columns[int(model.components_mean_[0].argmax())] = EVIL
    data = pd.DataFrame(Y, index=[f"patient {i:02d}" for i in range(40)], columns=columns)
    return fit(data), data


def fit(Y, **params) -> DIBPNMF:
    defaults = {"n_warmup": 40, "n_draws": 40, "n_chains": 2, "random_state": 0}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return DIBPNMF(**(defaults | params)).fit(Y)


@pytest.fixture(scope="session")
def chromium():
    """Headless Chromium, found on the system; `make browser` installs it where it can."""
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    path = next(
        filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None
    )
    if path is None:
        pytest.skip("no Chromium found: `make browser`, or install it and put it on the PATH")
    with playwright.sync_playwright() as starter:
        # Containers run tests as root, where Chromium's sandbox does not start.
        browser = starter.chromium.launch(executable_path=path, args=["--no-sandbox"])
        yield browser
        browser.close()


@dataclass
class Opened:
    """A page and everything it said or asked for."""

    page: object
    said: list[str] = field(default_factory=list)
    asked: list[str] = field(default_factory=list)
    dialogs: list[str] = field(default_factory=list)


@pytest.fixture
def open_page(chromium):
    """Open a file in a window of its own, listening."""
    contexts = []

    def open_(path, width=1280, height=900, scheme="light") -> Opened:
        context = chromium.new_context(
            viewport={"width": width, "height": height}, color_scheme=scheme
        )
        contexts.append(context)
        page = context.new_page()
        opened = Opened(page)
        page.on("console", lambda message: opened.said.append(f"{message.type}: {message.text}"))
        page.on("pageerror", lambda error: opened.said.append(str(error)))
        page.on("request", lambda request: opened.asked.append(request.url))

        def dismiss(dialog):
            opened.dialogs.append(dialog.message)
            dialog.dismiss()

        page.on("dialog", dismiss)
        page.goto(path.as_uri())
        return opened

    yield open_
    for context in contexts:
        context.close()


@pytest.fixture(scope="session")
def report(planted, tmp_path_factory):
    model, data = planted
    return write_report(model, tmp_path_factory.mktemp("report") / "report.html", data=data)


@pytest.fixture(scope="session")
def large():
    """A model of 5,000 rows, 5,000 columns and 100 factors, as a long run would leave it."""
    return make_large(5000, 5000, 100)


def make_large(M: int, N: int, K: int) -> DIBPNMF:
    from dibpnmf.diagnostics import diagnose
    from dibpnmf.likelihoods import LIKELIHOODS
    from dibpnmf.posterior import ChainRecord, CompactDraw, shares
    from dibpnmf.priors import PRIORS

    rng = np.random.default_rng(0)
    model = DIBPNMF(n_draws=500, n_chains=4)
    A, X = (rng.exponential(size=(n, K)) * (rng.random((n, K)) < 0.2) for n in (M, N))
    prior = PRIORS[model.prior].from_params(None)
    model._records = []
    for _ in range(4):
        record = ChainRecord(prior, model.min_share, keep_draws=True)
        record.n_components = rng.integers(K - 5, K + 5, 500).tolist()
        record.draws = [CompactDraw.pack((A, X))]
        model._records.append(record)
    names = (
        "log_likelihood",
        "n_active",
        "n_components",
        *prior.theta_names,
        "tau_rows",
        "tau_columns",
    )
    model._scalars = {name: rng.normal(size=(4, 500)) for name in names}
    model._scalars["acceptance"] = np.ones((4, 500))
    model.diagnostics_ = diagnose(model._scalars)
    model._shape, model._scale, model._touched = (M, N), 2.0, 0.0
    model._likelihood = LIKELIHOODS[model.likelihood]()
    model._chosen = SimpleNamespace(noise=np.empty(0))
    model._facts = {"n_observed": M * N}
    model.n_features_in_ = N
    model.embedding_, model.components_ = A, 2.0 * X.T
    model.components_mean_ = model.components_
    model.inclusion_probabilities_ = rng.random((K, N))
    model.shares_ = np.sort(shares(np.stack([A.sum(axis=0), X.sum(axis=0)])))[::-1]
    model.n_components_, model.n_active_, model.max_components_ = K, K, 2 * K
    model.component_counts_ = {K: 1.0}
    model.log_likelihood_, model.epsilon_ = -1e7, 0.01
    model._contradictions = []
    return model
