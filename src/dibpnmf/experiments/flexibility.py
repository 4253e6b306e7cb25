"""How far the two sides' numbers of non-zero entries differ, over ten matrices."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from dibpnmf import random as streams
from dibpnmf.experiments import chains
from dibpnmf.experiments.base import MODELS, Experiment, Results, Settings, select
from dibpnmf.experiments.claims import Claim, markdown_table, verdict
from dibpnmf.experiments.pieces import Outcome, Piece
from dibpnmf.likelihoods import Exponential
from dibpnmf.metrics import flexibility
from dibpnmf.model import Model
from dibpnmf.priors import PRIORS

if TYPE_CHECKING:
    from matplotlib.figure import Figure

NEW = ("bivariate-beta", "copula")


def prior_flexibility(prior: str, n_draws: int, seed: int) -> dict[str, float]:
    """Flexibility of masks drawn from a prior alone, 20 × 30, columns in use on both sides."""
    model = Model(PRIORS[prior](), Exponential(), 0.01)
    values = []
    for draw in range(n_draws):
        s = streams.stream(seed, 0, draw, streams.PRIOR)
        A, X = model.simulate(s, (20, 30), 30).loadings
        used = A.any(axis=0) & X.any(axis=0)
        if used.any():
            values.append(flexibility(A[:, used], X[:, used]))
    return {"mean": float(np.mean(values)), "sd": float(np.std(values)), "n": len(values)}


class Flexibility(Experiment):
    """The paper's (1/K) Σ |n1_k − n2_k| on ten matrices, and under the priors alone."""

    name = "flexibility"
    title = "Flexibility: difference of the two sides' numbers of non-zero entries"
    about = """
The mean over factors of |n1_k − n2_k|, the difference of the numbers of non-zero entries in
column k of A and of X, on ten random 20 × 30 matrices: of the draw with the largest likelihood,
as in the paper, and averaged over the second half of the chain. Beside it the same number for
masks drawn from each prior alone (hyper-parameters from their priors): what a prior allows,
without data.
"""

    def sizes(self, settings: Settings) -> dict[str, Any]:
        """Sizes of the chains, and draws from the priors."""
        return {**chains.sizes(settings), "draws from each prior": settings.choose(20000, 2000)}

    def pieces(self, settings: Settings) -> list[Piece]:
        """Chains on all matrices, and the priors."""
        n = settings.choose(20000, 2000)
        priors = [
            Piece("flexibility:prior_flexibility",
                  {"prior": prior, "n_draws": n, "seed": settings.seed}, n / 2000)
            for prior in MODELS
        ]  # fmt: skip
        return chains.pieces(settings) + priors

    def results(self, settings: Settings, outcomes: list[Outcome]) -> Results:
        """Ten values a model and scheme, and the priors' own."""
        found: dict[str, Any] = {}
        for scheme in chains.SCHEMES:
            for prior in MODELS:
                runs = select(outcomes, prior=prior, scheme=scheme)
                found.setdefault(scheme, {})[prior] = {
                    "best": [run["flexibility_best"] for run in runs],
                    "mean": [run["flexibility_mean"] for run in runs],
                }
        n = settings.choose(20000, 2000)
        alone = {prior: select(outcomes, prior=prior, n_draws=n)[0] for prior in MODELS}
        return {"trials": found, "prior": alone}

    def claims(self, results: Results) -> list[Claim]:
        """Larger differences, more fluctuation."""
        return [
            _larger_claim(results["trials"]),
            _fluctuation_claim(results["trials"]),
            _prior_claim(results["prior"]),
        ]

    def figures(self, results: Results) -> dict[str, Figure]:
        """The paper's figure, for both schemes."""
        return {"flexibility": draw(results["trials"])}

    def tables(self, results: Results) -> str:
        """Means and deviations."""
        header = ("scheme", "model", "best draw: mean", "sd over trials", "chain: mean",
                  "sd over trials")  # fmt: skip
        rows = [
            (scheme, MODELS[prior], float(np.mean(m["best"])), float(np.std(m["best"], ddof=1)),
             float(np.mean(m["mean"])), float(np.std(m["mean"], ddof=1)))
            for scheme, models in results["trials"].items()
            for prior, m in models.items()
        ]  # fmt: skip
        alone = [(MODELS[p], r["mean"], r["sd"], r["n"]) for p, r in results["prior"].items()]
        return "\n".join(
            [
                "## Ten trials\n",
                markdown_table(header, rows),
                "## Under the priors alone\n",
                markdown_table(("model", "mean", "sd", "draws with a column in use"), alone),
            ]
        )


def _compare(trials: Any, scheme: str, other: str) -> tuple[float, float, int]:
    """Mean difference to the GP model with standard error, and trials in which it is larger."""
    difference = np.subtract(
        trials[scheme][other]["best"], trials[scheme]["gaussian-process"]["best"]
    )
    error = np.std(difference, ddof=1) / np.sqrt(len(difference))
    return float(np.mean(difference)), float(error), int(np.sum(difference > 0))


def _larger_claim(trials: Any) -> Claim:
    parts, texts = [], []
    for scheme in trials:
        for prior in NEW:
            mean, error, larger = _compare(trials, scheme, prior)
            parts.append(mean > 2 * error)
            texts.append(f"{MODELS[prior]} {mean:+.2f} ± {error:.2f} (larger in {larger} of "
                         f"{len(trials[scheme][prior]['best'])}; {scheme})")  # fmt: skip
    return Claim(
        "BB-dIBP-NMF and C-dIBP-NMF have larger differences of non-zero entries than "
        "GP-dIBP-NMF", "abstract, VI-A, flexibility figure; conclusion",
        "best draw, difference to GP-dIBP-NMF with standard error: " + "; ".join(texts),
        verdict(*parts),
    )  # fmt: skip


def _fluctuation_claim(trials: Any) -> Claim:
    parts, texts = [], []
    for scheme, models in trials.items():
        bb, c, gp = (float(np.std(models[prior]["best"], ddof=1)) for prior in MODELS)
        parts += [bb > gp, c > gp]
        texts.append(f"{scheme}: {bb:.2f}, {c:.2f}, {gp:.2f}")
    return Claim(
        "BB-dIBP-NMF and C-dIBP-NMF have more fluctuations over the trials than GP-dIBP-NMF",
        "VI-A, flexibility figure",
        "standard deviation over ten trials of BB, C, GP: " + "; ".join(texts)
        + " (each known to about a quarter of itself)",
        verdict(*parts),
    )  # fmt: skip


def _prior_claim(alone: Any) -> Claim:
    bb, c, gp = (alone[prior]["mean"] for prior in MODELS)
    return Claim(
        "The new dIBPs allow the two sides greater variation in their non-zero entries than "
        "the GP-based one", "abstract, introduction",
        f"mean of the measure under the priors alone, 20 × 30: BB {bb:.2f}, C {c:.2f}, GP {gp:.2f}",
        verdict(bb > gp, c > gp),
    )  # fmt: skip


def draw(trials: Any) -> Figure:
    """Measure by trial and model, one panel a scheme."""
    from dibpnmf.experiments.figures import COLORS, STYLES, label, new_figure

    figure = new_figure(10, 3.6)
    for axes, (scheme, models) in zip(figure.subplots(1, 2, sharey=True), trials.items(),
                                      strict=True):  # fmt: skip
        for prior, model in models.items():
            x = 1 + np.arange(len(model["best"]))
            axes.plot(x, model["best"], marker="o", ms=4, color=COLORS[prior], ls=STYLES[prior],
                      label=MODELS[prior])  # fmt: skip
        axes.set_ylim(0, None)
        axes.set_xticks(x)
        label(axes, f"{scheme} scheme", "trial", "(1/K) Σ |n1 − n2|")
        axes.legend(fontsize=8, frameon=False)
    return figure
