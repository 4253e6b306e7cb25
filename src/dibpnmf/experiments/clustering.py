"""Document clustering on CiteSeer and Cora: spectral clustering of the factors A."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from sklearn.cluster import KMeans
from sklearn.feature_extraction.text import TfidfTransformer
from sklearn.metrics.pairwise import cosine_similarity
from sklearn.utils import Bunch

from dibpnmf import metrics
from dibpnmf.baselines import SparseNMF
from dibpnmf.clustering import leading_eigenvectors, normalised
from dibpnmf.datasets import fetch_citeseer, fetch_cora
from dibpnmf.estimator import DIBPNMF
from dibpnmf.experiments.base import MODELS, Experiment, Results, Settings, select
from dibpnmf.experiments.claims import Claim, Verdict, markdown_table, value_range, verdict
from dibpnmf.experiments.fits import best_draw, fit_quietly
from dibpnmf.experiments.pieces import Outcome, Piece

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Floats = NDArray[np.float64]
Scores = dict[str, float]

FETCH = {"citeseer": fetch_citeseer, "cora": fetch_cora}
NAMES = {"citeseer": "CiteSeer", "cora": "Cora"}
INPUTS = ("binary", "tf-idf")
N_SEEDS = 5
SCORES = {
    "JC": metrics.jaccard_coefficient,
    "FM": metrics.fowlkes_mallows,
    "F1": metrics.pair_f1,
    "NMI": metrics.normalized_mutual_information,
    "ARI": metrics.adjusted_rand_index,
}
PAPER_FACTS = {
    "citeseer": {"documents": 3312, "words": 3703, "classes": 6, "binary": True},
    "cora": {"documents": 2708, "words": 1433, "classes": 7, "binary": True},
}
PAPER_FACTORS = {
    "citeseer": {"bivariate-beta": 10, "copula": 12, "gaussian-process": 12},
    "cora": {"bivariate-beta": 17, "copula": 15, "gaussian-process": 22},
}
# Measured by others on the same data, cosine spectral clustering where factors are clustered.
OTHERS = (
    ("Cora", "binary", "sparse NMF, K = 7", 0.126, 0.223, 0.117, None),
    ("Cora", "binary", "sparse NMF, K = 15", 0.207, 0.344, 0.271, None),
    ("Cora", "binary", "sparse NMF, K = 30", 0.198, 0.330, 0.277, None),
    ("Cora", "tf-idf", "k-means", 0.218, 0.358, 0.326, 0.214),
    ("CiteSeer", "tf-idf", "k-means", 0.31, 0.47, 0.37, 0.36),
)

# The penalty of Eq. (1) is 1 for entries of 0 and 1. A tf-idf row has norm 1, so its entries are
# several times smaller; with the same penalty nothing would be left of the factors.
_PENALTY = {"binary": 1.0, "tf-idf": 0.1}
# Affinity of papers that share no factor: joins the graph, also for papers without a factor.
_FLOOR = 1e-3
# Seconds of one sweep, about, for the order of the pieces.
_SWEEP = {"citeseer": 1.25, "cora": 0.55}


@lru_cache(maxsize=1)
def load(dataset: str) -> Bunch:
    """Fetch a data set once a process."""
    return FETCH[dataset]()


def matrix(dataset: str, kind: str) -> Any:
    """Documents by words, 0/1 or tf-idf (rows of norm 1)."""
    Y = load(dataset).data
    return Y if kind == "binary" else TfidfTransformer().fit_transform(Y)


def facts(dataset: str) -> dict[str, Any]:
    """Size of a data set, and whether it holds zeros and ones only."""
    data = load(dataset)
    return {
        "documents": data.data.shape[0],
        "words": data.data.shape[1],
        "classes": len(np.unique(data.target)),
        "binary": bool(np.all(data.data.data == 1.0)),
    }


def cluster(dataset: str, A: Floats, seed: int) -> Scores:
    """Spectral clustering of the rows of A by cosine, scored against the classes."""
    target = load(dataset).target
    if not A.any():
        return score(target, np.zeros(len(target)))
    affinity = _FLOOR + (1.0 - _FLOOR) * cosine_similarity(A)
    np.fill_diagonal(affinity, 0.0)
    n = len(np.unique(target))
    # As scikit-learn's spectral_clustering, but for the solver: where few factors leave many
    # eigenvalues alike, its iterations take minutes.
    _, vectors = leading_eigenvectors(normalised(affinity)[0], n)
    embedding = vectors / np.sqrt(affinity.sum(axis=1))[:, None]
    return score(target, KMeans(n, n_init=10, random_state=seed).fit_predict(embedding))


def score(target: Any, labels: Any) -> Scores:
    """All scores of a clustering."""
    return {name: function(target, labels) for name, function in SCORES.items()}


def fit_model(
    dataset: str, kind: str, prior: str, seed: int, n_warmup: int, n_draws: int
) -> dict[str, Any]:
    """One chain of one model; its point estimate and its best draw clustered."""
    model = fit_quietly(
        DIBPNMF(prior, n_warmup=n_warmup, n_draws=n_draws, n_chains=1, init="nmf",
                random_state=seed), matrix(dataset, kind)
    )  # fmt: skip
    A, _ = best_draw(model)
    traces = {name: model._scalars[name][0] for name in ("log_likelihood", "n_active")}
    return {
        "scores": cluster(dataset, model.embedding_, seed),
        "scores_best_draw": cluster(dataset, A[:, A.any(axis=0)], seed),
        "K": model.n_components_,
        "n_active": model.n_active_,
        "without_factor": int(np.sum(~model.embedding_.any(axis=1))),
        "first_and_last": {name: [trace[0], trace[-1]] for name, trace in traces.items()},
        "epsilon": model.epsilon_,
    }


def fit_sparse(dataset: str, kind: str, n_components: int, seeds: list[int]) -> dict[str, Any]:
    """Sparse NMF from its deterministic start, clustered with each seed."""
    model = SparseNMF(
        n_components, l1=_PENALTY[kind], n_init=1, tol=1e-7, random_state=seeds[0]
    ).fit(matrix(dataset, kind))
    A = model.embedding_
    return {
        "scores": [cluster(dataset, A, seed) for seed in seeds],
        "in_use": int(np.sum(A.any(axis=0))),
        "without_factor": int(np.sum(~A.any(axis=1))),
        "n_iter": model.n_iter_,
    }


def baselines(dataset: str, seed: int) -> dict[str, Scores]:
    """One cluster, clusters at random, and k-means on tf-idf."""
    target = load(dataset).target
    n_classes = len(np.unique(target))
    random = np.random.default_rng(seed).integers(n_classes, size=len(target))
    k_means = KMeans(n_classes, n_init=10, random_state=seed)
    return {
        "one cluster": score(target, np.zeros(len(target))),
        "random": score(target, random),
        "k-means on tf-idf": score(target, k_means.fit_predict(matrix(dataset, "tf-idf"))),
    }


class Clustering(Experiment):
    """Both data sets, binary and tf-idf, five seeds; sparse NMF over K; three baselines."""

    name = "clustering"
    title = "Document clustering: CiteSeer and Cora"
    about = """
Each model factorises documents by words: 0/1 as in the paper, and tf-idf beside it. The rows of
A are clustered by spectral clustering with cosine affinity (plus 0.001 for every pair, which
joins documents without a factor to the graph) into the true number of classes, and scored over
pairs of documents. Our point estimate and the single draw of largest likelihood, the paper's
output, are both clustered. Sparse NMF (Eq. 1, penalty 1; 0.1 on tf-idf, whose entries are
smaller; NNDSVDa start, tolerance 1e-7) runs over its number of factors. One cluster for all
documents, clusters at random and k-means on tf-idf are the baselines. A model's K is the number
of factors that carry at least 1% of the reconstruction; "active" counts every column in use on
both sides, as the paper does.

The chains are far shorter than the paper's 1000 iterations (see the sizes) and start from a quick
factorization. Where they still gain columns and likelihood at their end, as the table of claims
tells, the numbers of factors are those of this run, not of the posterior.
"""

    def check_data(self) -> None:
        """Fetch both data sets."""
        for dataset in FETCH:
            load(dataset)

    def sizes(self, settings: Settings) -> dict[str, Any]:
        """Sizes of chains and numbers of factors."""
        warmup, draws, seeds, inputs = _chain_sizes(settings)
        return {
            "sweeps of warm-up": warmup,
            "draws": draws,
            "chains a fit": 1,
            "seeds": seeds,
            "inputs": ", ".join(inputs),
            "factors of sparse NMF": ", ".join(map(str, _factors(settings))),
        }

    def pieces(self, settings: Settings) -> list[Piece]:
        """Fits of models, of sparse NMF, and baselines."""
        warmup, draws, n_seeds, inputs = _chain_sizes(settings)
        seeds = [settings.seed + place for place in range(n_seeds)]
        found = [
            Piece("clustering:fit_model",
                  {"dataset": dataset, "kind": kind, "prior": prior, "seed": seed,
                   "n_warmup": warmup, "n_draws": draws},
                  cost=10 + _SWEEP[dataset] * (warmup + draws))
            for dataset in FETCH for kind in inputs for seed in seeds for prior in MODELS
        ]  # fmt: skip
        found += [
            Piece("clustering:fit_sparse",
                  {"dataset": dataset, "kind": kind, "n_components": K, "seeds": seeds},
                  cost=5 + 2 * n_seeds + 0.3 * K)
            for dataset in FETCH for kind in inputs for K in _factors(settings)
        ]  # fmt: skip
        found += [
            Piece("clustering:baselines", {"dataset": dataset, "seed": seed}, 10)
            for dataset in FETCH for seed in seeds
        ]  # fmt: skip
        return found

    def results(self, settings: Settings, outcomes: list[Outcome]) -> Results:
        """By data set and input: models, sparse NMF; by data set: baselines."""
        _, _, n_seeds, inputs = _chain_sizes(settings)
        seeds = [settings.seed + place for place in range(n_seeds)]
        found: Results = {}
        for dataset in FETCH:
            found[dataset] = {
                "facts": facts(dataset),
                "baselines": [select(outcomes, dataset=dataset, seed=seed, kind=None,
                                     seeds=None)[0] for seed in seeds],
                "inputs": {
                    kind: {
                        "models": {prior: select(outcomes, dataset=dataset, kind=kind, prior=prior)
                                   for prior in MODELS},
                        "sparse_nmf": [
                            {"K": K, **select(outcomes, dataset=dataset, kind=kind,
                                              n_components=K)[0]}
                            for K in _factors(settings)
                        ],
                    }
                    for kind in inputs
                },
            }  # fmt: skip
        return found

    def claims(self, results: Results) -> list[Claim]:
        """Numbers of factors, order of the models, comparison with sparse NMF."""
        return [
            *(_facts_claim(results, dataset) for dataset in FETCH),
            *(_factors_claim(results, d, p) for d in FETCH for p in MODELS),
            *(_good_claim(results, dataset) for dataset in FETCH),
            *(_best_claim(results, dataset) for dataset in FETCH),
            *(_similar_claim(results, dataset) for dataset in FETCH),
        ]

    def figures(self, results: Results) -> dict[str, Figure]:
        """The paper's three panels (JC, FM, F1) a data set and input, and NMI and ARI."""
        return {
            f"{dataset}-{kind}": draw(results[dataset], kind, NAMES[dataset])
            for dataset in results
            for kind in results[dataset]["inputs"]
        }

    def tables(self, results: Results) -> str:
        """All scores, mean and deviation over seeds; the numbers of others."""
        header = ("data", "input", "method", "K", "active", *SCORES)
        rows = [row for dataset in results for row in _rows(results[dataset], NAMES[dataset])]
        others = ("data", "input", "method", "JC", "F1", "NMI", "ARI")
        return "\n".join(
            [
                "## Scores\n\nMean over seeds, ± the standard deviation over them.\n",
                markdown_table(header, rows),
                "## Measured by others on the same data\n",
                markdown_table(others, OTHERS),
            ]
        )


def _chain_sizes(settings: Settings) -> tuple[int, int, int, tuple[str, ...]]:
    """Warm-up, draws, seeds and inputs."""
    if settings.quick:
        return 6, 6, 2, ("binary",)
    return 50, 30, N_SEEDS, INPUTS


def _factors(settings: Settings) -> tuple[int, ...]:
    return settings.choose((2, 5, 7, 10, 15, 20, 30, 50, 80), (5, 15, 30))


def _values(results: Any, kind: str, prior: str, name: str, which: str = "scores") -> Floats:
    runs = results["inputs"][kind]["models"][prior]
    return np.array([run[which][name] for run in runs])


def _facts_claim(results: Results, dataset: str) -> Claim:
    text = "{documents} documents, {words} words as 0 or 1, {classes} classes"
    found, paper = results[dataset]["facts"], PAPER_FACTS[dataset]
    return Claim(
        f"{NAMES[dataset]} has {text.format(**paper)}", "VI-B",
        text.format(**found) if found["binary"] else "values other than 0 and 1",
        verdict(found == paper),
    )  # fmt: skip


def _factors_claim(results: Results, dataset: str, prior: str) -> Claim:
    paper = PAPER_FACTORS[dataset][prior]
    runs = results[dataset]["inputs"]["binary"]["models"][prior]
    K, active = [run["K"] for run in runs], [run["n_active"] for run in runs]
    holds = min(K) <= paper <= max(K) or min(active) <= paper <= max(active)
    return Claim(
        f"{MODELS[prior]} learns {paper} factors on {NAMES[dataset]}",
        "VI-B",
        f"{value_range(K)} that carry at least 1%, {value_range(active)} active, over {len(K)} "
        f"seeds; {_still_growing(runs)}",
        verdict(holds),
    )


def _still_growing(runs: list[Any]) -> str:
    """How many chains gained columns and likelihood between their first and last draw."""
    gained = [
        sum(run["first_and_last"][name][1] > run["first_and_last"][name][0] for run in runs)
        for name in ("n_active", "log_likelihood")
    ]
    return (
        f"between first and last draw {gained[0]} of {len(runs)} chains gained columns, "
        f"{gained[1]} gained likelihood"
    )


def _good_claim(results: Results, dataset: str) -> Claim:
    """Relatively good without knowing K: better than half of the choices of K, and baselines."""
    parts, texts = [], []
    part = results[dataset]
    one = float(np.mean([b["one cluster"]["F1"] for b in part["baselines"]]))
    k_means = float(np.mean([b["k-means on tf-idf"]["F1"] for b in part["baselines"]]))
    sparse = [np.mean([s["F1"] for s in row["scores"]])
              for row in part["inputs"]["binary"]["sparse_nmf"]]  # fmt: skip
    for prior in MODELS:
        mine = float(_values(part, "binary", prior, "F1").mean())
        beaten = sum(mine > value for value in sparse)
        parts.append(beaten >= len(sparse) / 2 and mine > one)
        texts.append(f"{MODELS[prior]} {mine:.3f} (above {beaten} of {len(sparse)} choices of K)")
    return Claim(
        f"Without knowing the number of factors the models do relatively well on {NAMES[dataset]}",
        "abstract, VI-B",
        f"F1, binary: {'; '.join(texts)}; sparse NMF {min(sparse):.3f} to {max(sparse):.3f}; one "
        f"cluster for all {one:.3f}; k-means on tf-idf {k_means:.3f}",
        verdict(*map(bool, parts)),
    )


def _best_claim(results: Results, dataset: str) -> Claim:
    parts, texts = [], []
    for name in ("JC", "FM", "F1"):
        values = {p: _values(results[dataset], "binary", p, name) for p in MODELS}
        best = values["bivariate-beta"]
        clear = [
            best.mean() - v.mean() > _error(best, v) for p, v in values.items()
            if p != "bivariate-beta"
        ]  # fmt: skip
        parts.append(all(clear))
        texts.append(f"{name} " + ", ".join(f"{v.mean():.3f} ± {v.std():.3f}"
                                            for v in values.values()))  # fmt: skip
    return Claim(
        f"Of the three, BB-dIBP-NMF achieves the best performance ({NAMES[dataset]})", "VI-B",
        "BB, C, GP: " + "; ".join(texts) + " (to hold, the difference must exceed two standard "
        "errors)", verdict(*parts),
    )  # fmt: skip


def _error(a: Floats, b: Floats) -> float:
    """Two standard errors of the difference of two means over seeds."""
    if len(a) < 2:
        return 0.0
    return float(2 * np.sqrt(a.var(ddof=1) / len(a) + b.var(ddof=1) / len(b)))


def _similar_claim(results: Results, dataset: str) -> Claim:
    texts, near = [], {}
    for name in ("JC", "FM", "F1"):
        c, gp = (_values(results[dataset], "binary", p, name) for p in
                 ("copula", "gaussian-process"))  # fmt: skip
        near[name] = abs(c.mean() - gp.mean()) <= max(_error(c, gp), 0.02)
        texts.append(f"{name} {c.mean():.3f} and {gp.mean():.3f}")
    if dataset == "cora":
        near["F1"] = not near["F1"]
        text = "except for F1"
    else:
        text = "in all scores"
    holds: Verdict = verdict(*near.values())
    return Claim(
        f"C-dIBP-NMF and GP-dIBP-NMF perform similarly on {NAMES[dataset]}, {text}", "VI-B",
        f"C and GP: {'; '.join(texts)} (similar: within 0.02 or two standard errors)", holds,
    )  # fmt: skip


def _rows(part: Any, name: str) -> list[tuple[Any, ...]]:
    """Rows of the table of scores of one data set."""
    rows = []
    for method in ("one cluster", "random", "k-means on tf-idf"):
        rows.append((name, "–", method, None, None,
                     *_summaries([b[method] for b in part["baselines"]])))  # fmt: skip
    for kind, found in part["inputs"].items():
        for prior, runs in found["models"].items():
            K, active = (value_range([run[key] for run in runs]) for key in ("K", "n_active"))
            for which, text in (("scores", ""), ("scores_best_draw", ", best draw")):
                rows.append((name, kind, MODELS[prior] + text, K, active,
                             *_summaries([run[which] for run in runs])))  # fmt: skip
        for row in found["sparse_nmf"]:
            rows.append((name, kind, "sparse NMF", row["K"], row["in_use"],
                         *_summaries(row["scores"])))  # fmt: skip
    return rows


def _summaries(scores: list[Scores]) -> list[str]:
    values = {name: [one[name] for one in scores] for name in SCORES}
    return [f"{np.mean(v):.3f} ± {np.std(v):.3f}" for v in values.values()]


def draw(part: Any, kind: str, title: str) -> Figure:
    """Scores of sparse NMF over K; models and baselines as horizontal lines."""
    from dibpnmf.experiments.figures import INK, PALE, draw_level, label, new_figure

    figure = new_figure(15, 3.6)
    panels = figure.subplots(1, len(SCORES))
    found = part["inputs"][kind]
    K = [row["K"] for row in found["sparse_nmf"]]
    for axes, name in zip(panels, SCORES, strict=True):
        values = np.array([[s[name] for s in row["scores"]] for row in found["sparse_nmf"]])
        axes.plot(K, values.mean(axis=1), "o-", color=INK, ms=3, label="SNMF")
        axes.fill_between(K, values.mean(axis=1) - values.std(axis=1),
                          values.mean(axis=1) + values.std(axis=1), color=INK, alpha=0.15,
                          lw=0)  # fmt: skip
        for prior in MODELS:
            draw_level(axes, prior, _values(part, kind, prior, name).tolist())
        for method, style in (("one cluster", ":"), ("random", (0, (1, 4))),
                              ("k-means on tf-idf", "-")):  # fmt: skip
            level = np.mean([b[method][name] for b in part["baselines"]])
            axes.axhline(level, color=PALE, ls=style, lw=1.4, label=method, zorder=0)
        axes.set_ylim(min(0.0, axes.get_ylim()[0]), None)
        label(axes, name, "number of factors of SNMF", "")
    panels[0].set_ylabel(f"{title}, {kind}", fontsize=10)
    handles, names = panels[0].get_legend_handles_labels()
    figure.legend(handles, names, loc="outside lower center", ncols=7, fontsize=8, frameon=False)
    return figure
