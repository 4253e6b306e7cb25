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
from dibpnmf.experiments.claims import Claim, markdown_table, value_range, verdict
from dibpnmf.experiments.fits import best_draw, fit_quietly
from dibpnmf.experiments.pieces import Outcome, Piece

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Floats = NDArray[np.float64]

PREDICTIONS = {
    "posterior mean": "the mean of λ over all draws",
    "best draw": "A Xᵀ + ε of the draw of largest likelihood",
    "best draw without ε": "A Xᵀ of the draw of largest likelihood",
    "point estimate": "A Xᵀ + ε of `embedding_` and `components_`",
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


def facts(fold: int) -> dict[str, float]:
    """Size of the data set, and of the part kept for testing."""
    data = load(fold)
    ratings = np.concatenate([data.train.values, data.test.values])
    users = np.bincount(np.concatenate([data.train.rows, data.test.rows]))
    return {
        "ratings": len(ratings),
        "lowest": ratings.min(),
        "highest": ratings.max(),
        "users": data.shape[0],
        "films": data.shape[1],
        "fewest": int(users.min()),
        "test": len(data.test.values) / len(ratings),
    }


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
    best = np.einsum("ik,ik->i", A[rows], X[cols])
    point = np.einsum("ik,ik->i", model.embedding_[rows], model.components_.T[cols])
    return {
        "posterior mean": errors(fold, np.asarray(model.predict(rows, cols))),
        "best draw": errors(fold, best + model.epsilon_),
        "best draw without ε": errors(fold, best),
        "point estimate": errors(fold, point + model.epsilon_),
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
from a quick factorization and one from the prior), and predict by the posterior mean of λ = A Xᵀ +
ε over all draws and, as the paper does, by the single draw of largest likelihood; beside these by
our point estimate. The paper predicts by A Xᵀ alone and does not give its ε. Here ε is estimated
from the data and far from negligible, so that A Xᵀ alone is not what the model predicts: the
comparison with sparse NMF is judged with ε and without. Sparse NMF ignores missing ratings
(penalty 1, one NNDSVDa start).
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
            "facts": facts(settings.folds[0]),
            "models": {prior: part(prior=prior) for prior in MODELS},
            "sparse_nmf": [{"K": K, "folds": part(n_components=K)} for K in _factors(settings)],
            "item_mean": part(prior=None, n_components=None),
        }

    def claims(self, results: Results) -> list[Claim]:
        """The crossing at 20 factors, the order of the models, their variance."""
        return [
            _facts_claim(results),
            *(_beyond_claim(results, *way) for way in (_PAPERS_WAY, *_WAYS)),
            *(_crossing_claim(results, *way) for way in (_PAPERS_WAY, *_WAYS)),
            _similar_claim(results),
            _best_claim(results),
            _worst_claim(results),
            _variance_claim(results),
            _stable_claim(results),
        ]

    def figures(self, results: Results) -> dict[str, Figure]:
        """The paper's three panels, for its prediction, the same with ε, and the posterior mean."""
        return {
            "mae-best-draw-without-epsilon": draw(results, *_PAPERS_WAY),
            "mae-best-draw": draw(results, "best draw", "raw"),
            "mae-posterior-mean": draw(results, "posterior mean", "clipped"),
        }

    def tables(self, results: Results) -> str:
        """All errors; the numbers of others."""
        header = ("method", "K", "active", "largest R-hat", "MAE raw", "MAE clipped", "RMSE raw",
                  "RMSE clipped", "the paper's sum, raw")  # fmt: skip
        epsilon = [run["epsilon"] for runs in results["models"].values() for run in runs]
        return "\n".join(
            [
                "## Errors\n\nMean over folds, ± the standard deviation over them. The estimated ε "
                f"is {min(epsilon):.2f} to {max(epsilon):.2f} stars.\n",
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


def _facts_claim(results: Results) -> Claim:
    f = results["facts"]
    size = (f["ratings"], f["lowest"], f["highest"], f["users"], f["films"])
    return Claim(
        "MovieLens-100K has 100,000 ratings (1-5) from 943 users on 1682 movies, at least 20 by "
        "each user; 20% of them are kept for testing", "VI-B",
        f"{f['ratings']:,} ratings ({f['lowest']:.0f}-{f['highest']:.0f}), {f['users']} users, "
        f"{f['films']} films, at least {f['fewest']} by each user; {f['test']:.0%} for testing",
        verdict(size == (100_000, 1, 5, 943, 1682) and f["fewest"] >= 20 and f["test"] == 0.2),
    )  # fmt: skip


def _beyond_claim(results: Results, how: str, version: str) -> Claim:
    sparse = {K: float(v.mean()) for K, v in _sparse(results, version).items()}
    parts, texts = [], []
    for prior in MODELS:
        mine = float(_model(results, prior, how, version).mean())
        better = [str(K) for K, value in sparse.items() if value < mine]
        parts.append(all(value > mine for K, value in sparse.items() if K >= 20))
        texts.append(f"{MODELS[prior]} {mine:.3f}, sparse NMF better at {_at(better, len(sparse))}")
    return Claim(
        f"The models have smaller MAE than sparse NMF for 20 factors or more ({how}, {version})",
        "VI-B, MovieLens figure",
        f"MAE: {'; '.join(texts)} (of K = {', '.join(map(str, sparse))})",
        verdict(*parts),
    )


def _at(better: list[str], n: int) -> str:
    if len(better) in (0, n):
        return "every K" if better else "no K"
    return f"K = {', '.join(better)}"


def _crossing_claim(results: Results, how: str, version: str) -> Claim:
    sparse = {K: float(v.mean()) for K, v in _sparse(results, version).items()}
    found = {p: crossing(sparse, float(_model(results, p, how, version).mean())) for p in MODELS}
    texts = [
        f"{MODELS[p]} {'no crossing' if K is None else f'at K = {K:.0f}'}" for p, K in found.items()
    ]
    return Claim(
        "Sparse NMF is better with fewer than about 20 factors: the curves cross at 20 "
        f"({how}, {version})", "VI-B, MovieLens figure",
        "where sparse NMF becomes worse: " + ", ".join(texts)
        + " (to hold, between 15 and 25)",
        verdict(*(K is not None and 15 <= K <= 25 for K in found.values())),
    )  # fmt: skip


def crossing(sparse: dict[int, float], level: float) -> float | None:
    """Number of factors from which sparse NMF stays worse than a level; None if there is none."""
    K, values = list(sparse), list(sparse.values())
    below = [place for place, value in enumerate(values) if value < level]
    if not below or below[-1] == len(K) - 1:
        return None
    last = below[-1]
    share = (level - values[last]) / (values[last + 1] - values[last])
    return K[last] + share * (K[last + 1] - K[last])


def _line(results: Results, how: str, version: str) -> str:
    return ", ".join(f"{MODELS[p]} {_model(results, p, how, version).mean():.3f}" for p in MODELS)


def _both(results: Results) -> str:
    return (f"MAE: {_line(results, 'best draw', 'raw')} (best draw, raw); "
            f"{_line(results, 'posterior mean', 'clipped')} (posterior mean, clipped)")  # fmt: skip


_PAPERS_WAY = ("best draw without ε", "raw")
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
    parts, texts = [], []
    for how, version in _WAYS:
        sparse = [float(v.std()) for v in _sparse(results, version).values()]
        mine = [float(_model(results, p, how, version).std()) for p in MODELS]
        parts.append(bool(np.median(sparse) > max(mine)))
        texts.append(
            f"sparse NMF {min(sparse):.4f} to {max(sparse):.4f} over K, median "
            f"{np.median(sparse):.4f}, the models {min(mine):.4f} to {max(mine):.4f} "
            f"({how}, {version})"
        )
    return Claim(
        "Sparse NMF is not stable over folds compared with the models", "VI-B",
        "standard deviation of the MAE over folds: " + "; ".join(texts), verdict(*parts),
    )  # fmt: skip


def _rows(results: Results) -> list[tuple[Any, ...]]:
    rows: list[tuple[Any, ...]] = [("item mean", None, None, None, *_scores(results["item_mean"]))]
    for prior, runs in results["models"].items():
        K, active = (value_range([run[key] for run in runs]) for key in ("K", "n_active"))
        r_hat = max(run["r_hat"] for run in runs)
        for how in PREDICTIONS:
            rows.append((f"{MODELS[prior]}, {how}", K, active, f"{r_hat:.2f}",
                         *_scores([run[how] for run in runs])))  # fmt: skip
    for row in results["sparse_nmf"]:
        rows.append(("sparse NMF", row["K"], None, None, *_scores(row["folds"])))
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
