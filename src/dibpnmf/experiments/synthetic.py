"""The paper's synthetic run: reconstruction, factors and traces, and error against sparse NMF."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from dibpnmf.baselines import SparseNMF
from dibpnmf.datasets import make_binary
from dibpnmf.experiments import chains
from dibpnmf.experiments.base import MODELS, Experiment, Results, Settings, select
from dibpnmf.experiments.claims import Claim, markdown_table, verdict
from dibpnmf.experiments.pieces import Outcome, Piece
from dibpnmf.metrics import reconstruction_error

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Floats = NDArray[np.float64]

N_FACTORS = tuple(range(1, 31))
_TRACES = ("log_likelihood", "K", "K1", "K2")
# What the paper may mean by ‖·‖₁: it says neither over entries nor the norm of an operator.
NORMS = ("entries", "operator", "frobenius")


def sparse_errors(n_components: int, seed: int) -> dict[str, float]:
    """Errors of sparse NMF with a given number of factors."""
    Y = make_binary(random_state=seed)
    model = SparseNMF(n_components, n_init=5, tol=1e-7, random_state=seed).fit(Y)
    return errors(Y, model.embedding_, model.components_.T)


def errors(Y: Floats, A: Floats, X: Floats) -> dict[str, float]:
    """Norms of Y − A Xᵀ: over entries as we read the paper, and two others."""
    residual = Y - A @ X.T
    return {
        "entries": reconstruction_error(Y, A, X),
        "operator": float(np.linalg.norm(residual, 1)),
        "frobenius": float(np.linalg.norm(residual)),
    }


class Synthetic(Experiment):
    """One random binary matrix, the three models, and sparse NMF over K."""

    name = "synthetic"
    title = "Synthetic data: reconstruction, sparsity, number of factors"
    about = """
A random 20 × 30 matrix of zeros and ones is factorised by the three models, started from a draw
of the prior. The figures show the draw of largest likelihood, which is the paper's output, and
the traces of the chain: by the paper's own updates (`literal`) and by this library's (`joint`).
The error is compared with sparse NMF (penalty 1, best of five starts) over its number of factors.
"""

    def sizes(self, settings: Settings) -> dict[str, Any]:
        """Sizes of chains, and the numbers of factors of sparse NMF."""
        return {**chains.sizes(settings), "matrices": 1, "factors of sparse NMF": "1 to 30"}

    def pieces(self, settings: Settings) -> list[Piece]:
        """Chains on the first matrix; sparse NMF for each K."""
        sparse = [
            Piece("synthetic:sparse_errors", {"n_components": K, "seed": settings.seed}, 0.2)
            for K in N_FACTORS
        ]
        return chains.pieces(settings, n_matrices=1) + sparse

    def results(self, settings: Settings, outcomes: list[Outcome]) -> Results:
        """Chains with their errors, and the errors of sparse NMF."""
        Y = make_binary(random_state=settings.seed)
        runs: dict[str, Any] = {}
        for scheme in chains.SCHEMES:
            for prior in MODELS:
                (run,) = select(outcomes, prior=prior, scheme=scheme)
                runs.setdefault(scheme, {})[prior] = {**run, **_measure(Y, run), **_thin(run)}
        sparse = [{"K": K, **select(outcomes, n_components=K)[0]} for K in N_FACTORS]
        return {"Y": Y.astype(int).tolist(), "chains": runs, "sparse_nmf": sparse}

    def claims(self, results: Results) -> list[Claim]:
        """Claims of the section on synthetic data, but for convergence and flexibility."""
        return [
            _zeros_claim(results),
            _sparsity_claim(results),
            _changing_claim(results),
            _likelihood_claim(results),
            _worst_error_claim(results),
            _no_number_claim(results),
        ]

    def figures(self, results: Results) -> dict[str, Figure]:
        """One figure a model, as the paper has, for each scheme; and the errors over K."""
        found = {
            f"{scheme}-{prior}": draw_run(results["Y"], run, f"{MODELS[prior]}, {scheme} scheme")
            for scheme, runs in results["chains"].items()
            for prior, run in runs.items()
        }
        return {**found, "error": draw_errors(results)}

    def tables(self, results: Results) -> str:
        """All numbers of the six chains."""
        header = ("scheme", "model", "log likelihood", "K", "on in A", "on in X", "error of A Xᵀ",
                  "error of the posterior mean", "mean at zeros", "mean at ones")  # fmt: skip
        rows = (
            (scheme, MODELS[prior], f"{run['largest']:.0f}", len(run["A"][0]),
             f"{run['density'][0]:.0%}", f"{run['density'][1]:.0%}",
             f"{run['errors']['entries']:.0f}", f"{run['error_of_mean']:.0f}",
             run["at_zeros"], run["at_ones"])
            for scheme, runs in results["chains"].items()
            for prior, run in runs.items()
        )  # fmt: skip
        return "## The draw of largest likelihood\n\n" + markdown_table(header, rows)


def _measure(Y: Floats, run: dict[str, Any]) -> dict[str, Any]:
    A, X = (np.asarray(run[side]).reshape(n, -1) for side, n in zip("AX", Y.shape, strict=True))
    product = A @ X.T
    return {
        "largest": max(run["log_likelihood"]),
        "errors": errors(Y, A, X),
        "error_of_mean": float(np.abs(Y - np.asarray(run["posterior_mean"])).sum()),
        "at_zeros": float(product[Y == 0].mean()),
        "zeros_below_tenth": float((product[Y == 0] < 0.1).mean()),
        "at_ones": float(product[Y == 1].mean()),
        "density": [float((side > 0).mean()) for side in (A, X)],
    }


def _thin(run: dict[str, Any]) -> dict[str, Any]:
    """Traces with at most 1000 points: more cannot be seen in a figure."""
    step = -(-len(run["log_likelihood"]) // 1000)
    return {"step": step, **{name: run[name][::step] for name in _TRACES}}


def _each(results: Results, scheme: str, text: str) -> str:
    """The same text for the three models, filled with their numbers."""
    return "; ".join(
        f"{MODELS[prior]} {text.format(**run, K_best=len(run['A'][0]))}"
        for prior, run in results["chains"][scheme].items()
    )


def _zeros_claim(results: Results) -> Claim:
    good = [
        run["zeros_below_tenth"] > 0.9 for runs in results["chains"].values()
        for run in runs.values()
    ]  # fmt: skip
    text = "{zeros_below_tenth:.0%} below 0.1, mean {at_zeros:.3f} against {at_ones:.2f} at ones"
    return Claim(
        "The positions with zero values are reconstructed well by all three algorithms",
        "VI-A, synthetic figures",
        f"zeros of Y in A Xᵀ: {_each(results, 'literal', text)} (literal); "
        f"{_each(results, 'joint', text)} (joint)",
        verdict(*good),
    )


def _sparsity_claim(results: Results) -> Claim:
    dense = [max(run["density"]) for runs in results["chains"].values() for run in runs.values()]
    text = "{density[0]:.0%} and {density[1]:.0%}"
    return Claim(
        "The factor matrices A and X are sparse", "VI-A, synthetic figures",
        f"entries of A and X that are not zero: {_each(results, 'literal', text)} (literal); "
        f"{_each(results, 'joint', text)} (joint)",
        verdict(*(value < 0.5 for value in dense)),
    )  # fmt: skip


def _changing_claim(results: Results) -> Claim:
    runs = [run for runs in results["chains"].values() for run in runs.values()]
    text = "{K[0]} to {K_best}"
    return Claim(
        "The number of columns of A and X changes with the iterations", "VI-A",
        f"columns in use, at the start and in the best draw: {_each(results, 'literal', text)} "
        f"(literal); {_each(results, 'joint', text)} (joint)",
        verdict(*(len(set(run["K"])) > 1 for run in runs)),
    )  # fmt: skip


def _likelihood_claim(results: Results) -> Claim:
    parts, texts = [], []
    for scheme, runs in results["chains"].items():
        level = {p: float(np.mean(_last_quarter(r["log_likelihood"]))) for p, r in runs.items()}
        deviation = max(float(np.std(_last_quarter(r["log_likelihood"]))) for r in runs.values())
        bb, c, gp = (level[prior] for prior in MODELS)
        parts += [abs(bb - c) <= 2 * deviation, min(bb, c) > gp + 2 * deviation]
        texts.append(f"{scheme}: {bb:.0f}, {c:.0f}, {gp:.0f} (within a chain ±{deviation:.0f})")
    return Claim(
        "In log likelihood BB-dIBP-NMF is similar to C-dIBP-NMF but better than GP-dIBP-NMF",
        "VI-A, synthetic figures",
        "mean of the last quarter for BB, C, GP: " + "; ".join(texts)
        + ". One matrix; over ten: see convergence",
        verdict(*parts),
    )  # fmt: skip


def _last_quarter(trace: list[float]) -> list[float]:
    return trace[-(len(trace) // 4) :]


def _worst_error_claim(results: Results) -> Claim:
    worst = {norm: max(row[norm] for row in results["sparse_nmf"]) for norm in NORMS}
    ours = [run["errors"]["entries"] for runs in results["chains"].values()
            for run in runs.values()]  # fmt: skip
    return Claim(
        "The worst reconstruction error ‖Y − A Xᵀ‖₁ is around 25",
        "VI-A, error figure",
        f"worst of sparse NMF over K = 1 to 30: {worst['entries']:.0f} summed over entries, "
        f"{worst['operator']:.1f} as the operator norm (largest column sum), "
        f"{worst['frobenius']:.1f} as the Frobenius norm; the models {min(ours):.0f} to "
        f"{max(ours):.0f} over entries",
        verdict(any(abs(value - 25) <= 5 for value in worst.values())),
    )


def _no_number_claim(results: Results) -> Claim:
    found, better = [], []
    for scheme, runs in results["chains"].items():
        for prior, run in runs.items():
            error = run["errors"]["entries"]
            K = next((row["K"] for row in results["sparse_nmf"] if row["entries"] <= error), None)
            reached = f"sparse NMF needs K = {K}" if K else "sparse NMF does not get there by K=30"
            found.append(f"{MODELS[prior]} ({scheme}) {error:.0f}, {reached}")
            better.append(error < results["sparse_nmf"][0]["entries"])
    return Claim(
        "The proposed algorithms factorise without a predefined number of factors",
        "VI-A, error figure; conclusion", "errors over entries: " + "; ".join(found),
        verdict(*better),
    )  # fmt: skip


def draw_run(Y: Any, run: dict[str, Any], title: str) -> Figure:
    """Y, its reconstruction, A, X, log likelihood, K, K1 and K2, as in the paper."""
    from dibpnmf.experiments.figures import INK, draw_matrix, label, new_figure

    figure = new_figure(12, 5.6)
    grid = figure.subplots(2, 4)
    A, X = (np.asarray(run[side]) for side in "AX")
    draw_matrix(grid[0, 0], Y, "Y", "column", "row", vmax=1)
    draw_matrix(grid[0, 1], A @ X.T, "A Xᵀ", "column", "row", vmax=1)
    for axes, side, name in ((grid[0, 2], A, "A"), (grid[0, 3], X, "X")):
        top = float(np.quantile(side[side > 0], 0.95)) if np.any(side > 0) else 1.0
        draw_matrix(axes, side, f"{name}, {side.shape[1]} factors", "factor",
                    "row" if name == "A" else "column", vmax=top)  # fmt: skip
    trace = np.asarray(run["log_likelihood"])
    sweeps = 1 + run["step"] * np.arange(len(trace))
    grid[1, 0].plot(sweeps, trace, color=INK, lw=0.6)
    grid[1, 0].set_ylim(*_without_the_start(trace))
    label(grid[1, 0], "log likelihood (L list)", "sweep", "")
    titles = {"K": "K, in use on both sides", "K1": "K1, columns of A in use",
              "K2": "K2, columns of X in use"}  # fmt: skip
    for axes, (name, text) in zip(grid[1, 1:], titles.items(), strict=True):
        axes.plot(sweeps, run[name], color=INK, lw=0.8, drawstyle="steps-post")
        axes.set_ylim(0, None)
        label(axes, text, "sweep", "")
    figure.suptitle(title, fontsize=11)
    return figure


def _without_the_start(trace: Floats) -> tuple[float, float]:
    """Limits that show the climb but not the depth of the first draw."""
    low, high = float(np.quantile(trace, 0.005)), float(trace.max())
    margin = 0.05 * (high - low) + 1.0
    return low - margin, high + margin


def draw_errors(results: Results) -> Figure:
    """Error of sparse NMF over K, and the models' as horizontal lines."""
    from dibpnmf.experiments.figures import COLORS, INK, STYLES, label, new_figure

    figure = new_figure(10, 3.8)
    panels = figure.subplots(1, 2, sharey=True)
    K = [row["K"] for row in results["sparse_nmf"]]
    for axes, (scheme, runs) in zip(panels, results["chains"].items(), strict=True):
        axes.plot(K, [row["entries"] for row in results["sparse_nmf"]], "o-", color=INK, ms=3,
                  label="sparse NMF")  # fmt: skip
        for prior, run in runs.items():
            axes.axhline(
                run["errors"]["entries"], color=COLORS[prior], ls=STYLES[prior], lw=1.8,
                label=f"{MODELS[prior]}, K = {len(run['A'][0])}",
            )  # fmt: skip
        axes.set_ylim(0, None)
        label(axes, f"{scheme} scheme", "number of factors of sparse NMF", "‖Y − A Xᵀ‖₁")
        axes.legend(fontsize=7, frameon=False)
    return figure
