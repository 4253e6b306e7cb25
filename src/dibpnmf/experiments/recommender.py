"""Ratings of MovieLens-100K: held-out error over the publisher's five folds."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import Bunch

from dibpnmf import metrics
from dibpnmf.baselines import SparseNMF
from dibpnmf.datasets import fetch_movielens_100k
from dibpnmf.estimator import DIBPNMF
from dibpnmf.experiments.base import MODELS, Experiment, Results, Settings
from dibpnmf.experiments.claims import Claim, markdown_table, verdict
from dibpnmf.experiments.fits import best_draw, fit_quietly
from dibpnmf.experiments.pieces import Outcome, Piece

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Floats = NDArray[np.float64]

PREDICTIONS = {
    "posterior mean": "mean of λ over all draws",
    "best draw": "A Xᵀ of the draw of largest likelihood, as in the paper",
    "point estimate": "A Xᵀ of `embedding_` and `components_`",
}
# Measured by others: five folds, predictions clipped to [1, 5].
OTHERS = (
    ("item mean", 0.817, 1.025),
    ("bias model", 0.745, 0.942),
    ("sparse NMF, K = 2 (its best)", 0.734, 0.941),
    ("sparse NMF, K = 20", 0.853, 1.114),
    ("sparse NMF, K = 100", 0.992, 1.283),
    ("Surprise NMF", 0.760, 0.967),
    ("Surprise SVD", 0.740, 0.939),
    ("Surprise SVD++", 0.723, 0.920),
    ("smurff, Bayesian PMF, K = 32", 0.704, 0.900),
)
_LOWEST, _HIGHEST = 1.0, 5.0


@lru_cache(maxsize=1)
def load(fold: int) -> Bunch:
    """Fetch a fold once a process."""
    return fetch_movielens_100k(fold)


def errors(fold: int, predicted: Floats) -> dict[str, dict[str, float]]:
    """MAE, the paper's sum, and RMSE, of predictions as they are and clipped to the scale."""
    truth = load(fold).test.values
    versions = {"raw": predicted, "clipped": np.clip(predicted, _LOWEST, _HIGHEST)}
    return {
        name: {
            "MAE": metrics.mean_absolute_error(truth, values),
            "sum": metrics.total_absolute_error(truth, values),
            "RMSE": metrics.root_mean_squared_error(truth, values),
        }
        for name, values in versions.items()
    }


def fit_model(prior: str, fold: int, seed: int, n_warmup: int, n_draws: int) -> dict[str, Any]:
    """Fit one model to one fold and predict in three ways."""
    data = load(fold)
    rows, cols = data.test.rows, data.test.cols
    model = fit_quietly(
        DIBPNMF(prior, zeros="missing", n_warmup=n_warmup, n_draws=n_draws, n_chains=2,
                random_state=seed), data.train.to_csr()
    )  # fmt: skip
    A, X = best_draw(model)
    point = model.embedding_, model.components_.T
    return {
        "posterior mean": errors(fold, np.asarray(model.predict(rows, cols))),
        "best draw": errors(fold, np.einsum("ik,ik->i", A[rows], X[cols])),
        "point estimate": errors(fold, np.einsum("ik,ik->i", point[0][rows], point[1][cols])),
        "K": model.n_components_,
        "n_active": model.n_active_,
        "r_hat": float(model.diagnostics_["r_hat"]["log_likelihood"]),
        "epsilon": model.epsilon_,
    }


def fit_sparse(n_components: int, fold: int, seed: int) -> dict[str, Any]:
    """Masked sparse NMF on one fold."""
    data = load(fold)
    model = SparseNMF(n_components, zeros="missing", n_init=1, random_state=seed)
    model.fit(data.train.to_csr())
    return errors(fold, model.predict(data.test.rows, data.test.cols))


def item_mean(fold: int) -> dict[str, Any]:
    """Mean rating of each film; the mean of all for films without one."""
    data = load(fold)
    n = np.bincount(data.train.cols, minlength=data.shape[1])
    total = np.bincount(data.train.cols, data.train.values, minlength=data.shape[1])
    means = np.where(n > 0, total / np.maximum(n, 1), data.train.values.mean())
    return errors(fold, means[data.test.cols])


class Recommender(Experiment):
    """The five folds, three models, sparse NMF over K, and the item mean."""

    name = "recommender"
    title = "Recommender system: MovieLens-100K"
    about = """
The publisher's five folds u1 to u5. The models see the training ratings only (two chains, one
from a quick factorization and one from the prior), and predict by the posterior mean over all
draws and, as the paper does, by A Xᵀ of the single draw of largest likelihood; beside these by A
Xᵀ of our point estimate. Sparse NMF ignores missing ratings (penalty 1, one NNDSVDa start).
Predictions are scored as they are and clipped to [1, 5]. The paper's MAE is a sum over the 20,000
test ratings of a fold; the mean is the usual one.
"""

    def check_data(self) -> None:
        """Fetch one fold."""
        load(1)

    def sizes(self, settings: Settings) -> dict[str, Any]:
        """Sizes of chains, folds, numbers of factors."""
        warmup, draws = _chain_sizes(settings)
        return {
            "folds": ", ".join(map(str, settings.folds)),
            "sweeps of warm-up": warmup,
            "draws a chain": draws,
            "chains a fit": 2,
            "factors of sparse NMF": ", ".join(map(str, _factors(settings))),
        }

    def pieces(self, settings: Settings) -> list[Piece]:
        """Fits on every fold."""
        warmup, draws = _chain_sizes(settings)
        seed = settings.seed
        found = [
            Piece("recommender:fit_model",
                  {"prior": prior, "fold": fold, "seed": seed, "n_warmup": warmup,
                   "n_draws": draws}, cost=5 + 0.2 * (warmup + draws))
            for fold in settings.folds for prior in MODELS
        ]  # fmt: skip
        found += [
            Piece("recommender:fit_sparse", {"n_components": K, "fold": fold, "seed": seed},
                  cost=1 + 0.33 * K)
            for fold in settings.folds for K in _factors(settings)
        ]  # fmt: skip
        return found + [
            Piece("recommender:item_mean", {"fold": fold}, 0.5) for fold in settings.folds
        ]

    def results(self, settings: Settings, outcomes: list[Outcome]) -> Results:
        """Errors by method, one entry a fold."""

        def part(**match: Any) -> list[Any]:
            return [
                o.value
                for o in outcomes
                if all(o.parameters.get(key) == value for key, value in match.items())
            ]

        return {
            "folds": list(settings.folds),
            "models": {prior: part(prior=prior) for prior in MODELS},
            "sparse_nmf": [{"K": K, "folds": part(n_components=K)} for K in _factors(settings)],
            "item_mean": part(prior=None, n_components=None),
        }

    def claims(self, results: Results) -> list[Claim]:
        """The crossing at 20 factors, the order of the models, their variance."""
        return [
            _crossing_claim(results, "best draw", "raw"),
            _crossing_claim(results, "posterior mean", "clipped"),
            _similar_claim(results),
            _best_claim(results),
            _worst_claim(results),
            _variance_claim(results),
            _stable_claim(results),
        ]

    def figures(self, results: Results) -> dict[str, Figure]:
        """The paper's three panels; for its prediction raw, and for the posterior mean clipped."""
        return {
            "mae-best-draw": draw(results, "best draw", "raw"),
            "mae-posterior-mean": draw(results, "posterior mean", "clipped"),
        }

    def tables(self, results: Results) -> str:
        """All errors; the numbers of others."""
        header = ("method", "K", "active", "MAE raw", "MAE clipped", "RMSE raw", "RMSE clipped",
                  "the paper's sum, raw")  # fmt: skip
        return "\n".join(
            [
                "## Errors\n\nMean over folds, ± the standard deviation over them.\n",
                markdown_table(header, _rows(results)),
                "## Measured by others on the same folds, clipped\n",
                markdown_table(("method", "MAE", "RMSE"), OTHERS),
            ]
        )


def _chain_sizes(settings: Settings) -> tuple[int, int]:
    """Warm-up and draws of a chain."""
    return settings.choose((150, 200), (20, 20))


def _factors(settings: Settings) -> tuple[int, ...]:
    return settings.choose((1, 2, 3, 5, 8, 12, 16, 20, 25, 30, 40, 60, 80, 100), (2, 10, 20, 30))


def _errors(folds: list[Any], version: str, score: str = "MAE") -> Floats:
    return np.array([fold[version][score] for fold in folds])


def _model(results: Results, prior: str, how: str, version: str, score: str = "MAE") -> Floats:
    return _errors([run[how] for run in results["models"][prior]], version, score)


def _sparse(results: Results, version: str) -> dict[int, Floats]:
    return {row["K"]: _errors(row["folds"], version) for row in results["sparse_nmf"]}


def _crossing_claim(results: Results, how: str, version: str) -> Claim:
    sparse = {K: v.mean() for K, v in _sparse(results, version).items()}
    parts, texts = [], []
    for prior in MODELS:
        mine = _model(results, prior, how, version).mean()
        better = [K for K, value in sparse.items() if value < mine]
        from_20_on = not any(K >= 20 for K in better)
        parts += [from_20_on, any(K < 20 for K in better)]
        which = f"better at K = {', '.join(map(str, better))}" if better else "better at no K"
        texts.append(f"{MODELS[prior]} {mine:.3f}, sparse NMF {which}")
    return Claim(
        "Sparse NMF is better than the models only with fewer than 20 factors "
        f"({how}, {version})", "VI-B, MovieLens figure",
        "MAE: " + "; ".join(texts) + f" (of K = {', '.join(map(str, sparse))})",
        verdict(*parts),
    )  # fmt: skip


def _line(results: Results, how: str, version: str) -> str:
    return ", ".join(f"{MODELS[p]} {_model(results, p, how, version).mean():.3f}" for p in MODELS)


def _both(results: Results) -> str:
    return (f"MAE: {_line(results, 'best draw', 'raw')} (best draw, raw); "
            f"{_line(results, 'posterior mean', 'clipped')} (posterior mean, clipped)")  # fmt: skip


_WAYS = (("best draw", "raw"), ("posterior mean", "clipped"))


def _similar_claim(results: Results) -> Claim:
    spans = [np.ptp([_model(results, p, *way).mean() for p in MODELS]) for way in _WAYS]
    return Claim(
        "The three algorithms perform similarly to one another", "VI-B",
        f"{_both(results)}; largest difference {spans[0]:.3f} and {spans[1]:.3f}",
        verdict(*(bool(span < 0.02) for span in spans)),
    )  # fmt: skip


def _best_claim(results: Results) -> Claim:
    return Claim("BB-dIBP-NMF is the best of the three, with relatively smaller MAE", "VI-B",
                 _paired(results, "bivariate-beta"),
                 verdict(*_extreme(results, "bivariate-beta", -1)))  # fmt: skip


def _worst_claim(results: Results) -> Claim:
    return Claim("C-dIBP-NMF is the worst of the three", "VI-B", _paired(results, "copula"),
                 verdict(*_extreme(results, "copula", +1)))  # fmt: skip


def _extreme(results: Results, prior: str, sign: int) -> list[bool]:
    """Whether a model lies clearly below (−1) or above (+1) the others, for both predictions."""
    return [
        all(sign * gap > 2 * error for _, gap, error in _gaps(results, prior, *way))
        for way in _WAYS
    ]


def _gaps(results: Results, prior: str, how: str, version: str) -> list[tuple[str, float, float]]:
    """Mean difference to each other model over folds, with its standard error."""
    found = []
    for other in MODELS:
        if other != prior:
            gap = _model(results, prior, how, version) - _model(results, other, how, version)
            error = gap.std(ddof=1) / np.sqrt(len(gap)) if len(gap) > 1 else 0.0
            found.append((other, float(gap.mean()), float(error)))
    return found


def _paired(results: Results, prior: str) -> str:
    texts = [
        f"{gap:+.4f} ± {error:.4f} to {MODELS[other]} ({how})"
        for how, version in _WAYS
        for other, gap, error in _gaps(results, prior, how, version)
    ]
    return "MAE, mean difference over folds with standard error: " + "; ".join(texts)


def _variance_claim(results: Results) -> Claim:
    parts, texts = [], []
    for how, version in _WAYS:
        spread = {p: float(_model(results, p, how, version).std()) for p in MODELS}
        parts.append(min(spread, key=lambda p: spread[p]) == "copula")
        texts.append(", ".join(f"{MODELS[p]} {v:.4f}" for p, v in spread.items()) + f" ({how})")
    return Claim("C-dIBP-NMF has the smallest variance over folds", "VI-B",
                 "standard deviation of the MAE over folds: " + "; ".join(texts),
                 verdict(*parts))  # fmt: skip


def _stable_claim(results: Results) -> Claim:
    sparse = {K: float(v.std()) for K, v in _sparse(results, "raw").items()}
    mine = [float(_model(results, p, "best draw", "raw").std()) for p in MODELS]
    return Claim(
        "Sparse NMF is not stable over folds compared with the models", "VI-B",
        f"standard deviation of the MAE over folds, raw: sparse NMF {min(sparse.values()):.4f} to "
        f"{max(sparse.values()):.4f} over K, median {np.median(list(sparse.values())):.4f}; the "
        f"models {min(mine):.4f} to {max(mine):.4f}",
        verdict(bool(np.median(list(sparse.values())) > max(mine))),
    )  # fmt: skip


def _rows(results: Results) -> list[tuple[Any, ...]]:
    rows: list[tuple[Any, ...]] = [("item mean", None, None, *_scores(results["item_mean"]))]
    for prior, runs in results["models"].items():
        K, active = (f"{min(v)} to {max(v)}" for v in
                     ([run[key] for run in runs] for key in ("K", "n_active")))  # fmt: skip
        for how in PREDICTIONS:
            rows.append((f"{MODELS[prior]}, {how}", K, active,
                         *_scores([run[how] for run in runs])))  # fmt: skip
    for row in results["sparse_nmf"]:
        rows.append(("sparse NMF", row["K"], None, *_scores(row["folds"])))
    return rows


def _scores(folds: list[Any]) -> list[str]:
    def text(version: str, score: str, digits: int) -> str:
        values = _errors(folds, version, score)
        return f"{values.mean():.{digits}f} ± {values.std():.{digits}f}"

    table = [("raw", "MAE"), ("clipped", "MAE"), ("raw", "RMSE"), ("clipped", "RMSE")]
    return [*(text(version, score, 3) for version, score in table), text("raw", "sum", 0)]


def draw(results: Results, how: str, version: str) -> Figure:
    """Sparse NMF over K with its deviation over folds, against one model a panel."""
    from dibpnmf.experiments.figures import INK, PALE, draw_level, label, new_figure

    figure = new_figure(12, 3.8)
    sparse = _sparse(results, version)
    K = list(sparse)
    mean = np.array([values.mean() for values in sparse.values()])
    spread = np.array([values.std() for values in sparse.values()])
    item = _errors(results["item_mean"], version).mean()
    for axes, prior in zip(figure.subplots(1, 3, sharey=True), MODELS, strict=True):
        axes.plot(K, mean, "o-", color=INK, ms=3, label="SNMF")
        axes.fill_between(K, mean - spread, mean + spread, color="0.8", lw=0)
        draw_level(axes, prior, _model(results, prior, how, version).tolist())
        axes.axhline(item, color=PALE, ls=":", label="item mean", zorder=0)
        axes.axvline(20, color="0.85", lw=0.8, zorder=0)
        label(axes, MODELS[prior], "number of factors of SNMF", f"MAE, {version}")
        axes.legend(fontsize=8, frameon=False)
    figure.suptitle(f"Models predict by {PREDICTIONS[how]}", fontsize=10)
    return figure
