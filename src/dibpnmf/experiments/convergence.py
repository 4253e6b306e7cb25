"""How many sweeps the three models need, by the paper's updates and by this library's."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from dibpnmf.experiments import chains
from dibpnmf.experiments.base import MODELS, Experiment, Results, Settings
from dibpnmf.experiments.claims import Claim, markdown_table, verdict
from dibpnmf.experiments.pieces import Outcome, Piece

if TYPE_CHECKING:
    from matplotlib.figure import Figure

PAPER_SWEEPS = {"bivariate-beta": 200, "copula": 500, "gaussian-process": 1500}


class Convergence(Experiment):
    """Sweeps until the log likelihood reaches its final level, on ten matrices."""

    name = "convergence"
    title = "Convergence: sweeps that each model needs"
    about = """
The chains of the synthetic experiment on ten random matrices. A chain counts as converged at the
first sweep at which the running mean of its log likelihood reaches the mean of its last quarter
less one standard deviation of that quarter. A chain still rises at its end if its last eighth lies
above the eighth before it by more than one standard deviation; it has not converged, and counts
with its whole length. A chain may also settle early and low, in a poor mode, and count as quick.
The paper judged by eye, from one chain a model.
"""

    def sizes(self, settings: Settings) -> dict[str, Any]:
        """Sizes of the chains."""
        return chains.sizes(settings)

    def pieces(self, settings: Settings) -> list[Piece]:
        """Chains on all matrices."""
        return chains.pieces(settings)

    def results(self, settings: Settings, outcomes: list[Outcome]) -> Results:
        """Sweeps, levels, seconds and thinned traces by scheme and model."""
        found: dict[str, Any] = {scheme: {} for scheme in chains.SCHEMES}
        for scheme, models in found.items():
            for prior in MODELS:
                part = [o for o in outcomes if o.parameters["scheme"] == scheme
                        and o.parameters["prior"] == prior]  # fmt: skip
                models[prior] = _summary(part)
        return found

    def claims(self, results: Results) -> list[Claim]:
        """Numbers of sweeps, their order, and the levels reached."""
        return [
            *(_sweeps_claim(results, prior) for prior in MODELS),
            _order_claim(results),
            _level_claim(results),
        ]

    def figures(self, results: Results) -> dict[str, Figure]:
        """Traces of all chains, and sweeps needed."""
        return {"convergence": draw(results)}

    def tables(self, results: Results) -> str:
        """Everything by scheme and model."""
        header = ("scheme", "model", "sweeps needed, median", "smallest", "largest",
                  "not converged", "log likelihood, last quarter", "sd over matrices",
                  "ms a sweep", "seconds needed, median")  # fmt: skip
        rows = (
            (scheme, MODELS[prior], f"{np.median(m['sweeps']):.0f}", min(m["sweeps"]),
             max(m["sweeps"]), f"{sum(m['rising'])} of {len(m['rising'])}",
             f"{np.mean(m['level']):.0f}", f"{np.std(m['level']):.0f}",
             f"{1000 * m['seconds_a_sweep']:.1f}",
             f"{np.median(m['sweeps']) * m['seconds_a_sweep']:.1f}")
            for scheme, models in results.items()
            for prior, m in models.items()
        )  # fmt: skip
        return "## By scheme and model\n\n" + markdown_table(header, rows)


def _summary(outcomes: list[Outcome]) -> dict[str, Any]:
    traces = [np.asarray(o.value["log_likelihood"]) for o in outcomes]
    step = max(1, len(traces[0]) // 250)
    return {
        "n_sweeps": len(traces[0]),
        "sweeps": [
            len(trace) if _still_rising(trace) else chains.sweeps_to_converge(trace)
            for trace in traces
        ],
        "rising": [_still_rising(trace) for trace in traces],
        "level": [float(trace[-(len(trace) // 4) :].mean()) for trace in traces],
        "K": [float(np.mean(o.value["K"][-(len(traces[0]) // 4) :])) for o in outcomes],
        "seconds_a_sweep": float(
            np.median([o.seconds / o.parameters["n_sweeps"] for o in outcomes])
        ),
        "step": step,
        "traces": [np.round(trace[::step], 1).tolist() for trace in traces],
    }


def _still_rising(trace: Any) -> bool:
    before, last = np.split(trace[-2 * (len(trace) // 8) :], 2)
    return bool(last.mean() - before.mean() > last.std())


def _numbers(model: dict[str, Any]) -> str:
    sweeps = model["sweeps"]
    rising = (
        f", {sum(model['rising'])} of {len(sweeps)} not converged" if any(model["rising"]) else ""
    )
    return f"{np.median(sweeps):.0f} ({min(sweeps)} to {max(sweeps)}{rising})"


def _sweeps_claim(results: Results, prior: str) -> Claim:
    paper = PAPER_SWEEPS[prior]
    median = float(np.median(results["literal"][prior]["sweeps"]))
    at_least = prior == "gaussian-process"
    holds = verdict(median > paper if at_least else paper / 2 <= median <= paper * 2)
    if at_least and median == results["literal"][prior]["n_sweeps"] <= paper:
        holds = "not testable"  # in chains as short as these
    text = f"more than {paper}" if at_least else f"about {paper}"
    return Claim(
        f"{MODELS[prior]} takes {text} iterations to converge",
        "VI-A, L lists",
        f"median over ten matrices (range): {_numbers(results['literal'][prior])} by the paper's "
        f"updates, {_numbers(results['joint'][prior])} by ours",
        holds,
    )


def _order_claim(results: Results) -> Claim:
    parts, texts = [], []
    for scheme, models in results.items():
        bb, c, gp = (np.asarray(models[prior]["sweeps"]) for prior in MODELS)
        slower = [int(np.sum(gp > other)) for other in (bb, c)]
        parts.append(min(slower) > len(gp) / 2 and np.median(gp) > max(np.median(bb), np.median(c)))
        texts.append(f"{scheme}: GP needs more sweeps than BB on {slower[0]} and than C on "
                     f"{slower[1]} of {len(gp)} matrices")  # fmt: skip
    return Claim(
        "The convergence rate of GP-dIBP-NMF is the worst of the three; models on the new "
        "dIBPs converge better", "abstract, VI-A, conclusion", "; ".join(texts), verdict(*parts),
    )  # fmt: skip


def _level_claim(results: Results) -> Claim:
    parts, texts = [], []
    for scheme, models in results.items():
        bb, c, gp = (np.asarray(models[prior]["level"]) for prior in MODELS)
        error = max(_error(bb - c), _error(bb - gp), _error(c - gp))
        parts += [abs(np.mean(bb - c)) <= 2 * error, np.mean(bb - gp) > 2 * _error(bb - gp)]
        texts.append(
            f"{scheme}: BB − C {np.mean(bb - c):+.0f} ± {_error(bb - c):.0f}, BB − GP "
            f"{np.mean(bb - gp):+.0f} ± {_error(bb - gp):.0f}, C − GP {np.mean(c - gp):+.0f} ± "
            f"{_error(c - gp):.0f}"
        )
    return Claim(
        "The log likelihood of BB-dIBP-NMF is similar to that of C-dIBP-NMF but better than "
        "that of GP-dIBP-NMF", "VI-A",
        "mean over ten matrices and standard error, last quarter: " + "; ".join(texts),
        verdict(*map(bool, parts)),
    )  # fmt: skip


def _error(differences: Any) -> float:
    return float(np.std(differences, ddof=1) / np.sqrt(len(differences)))


def draw(results: Results) -> Figure:
    """Log likelihood of every chain (above), sweeps needed (below), by scheme."""
    from dibpnmf.experiments.figures import COLORS, INK, label, new_figure

    figure = new_figure(10, 6)
    grid = figure.subplots(2, 2, height_ratios=[1.5, 1])
    for column, (scheme, models) in enumerate(results.items()):
        above, below = grid[:, column]
        for prior, model in models.items():
            for place, trace in enumerate(model["traces"]):
                sweeps = 1 + np.arange(len(trace)) * model["step"]
                name = MODELS[prior] if place == 0 else None
                above.plot(sweeps, trace, color=COLORS[prior], lw=0.7, alpha=0.6, label=name)
        levels = [value for model in models.values() for value in model["level"]]
        above.set_ylim(min(0.0, *levels), 1.05 * max(levels))
        label(above, f"{scheme} scheme, ten matrices", "sweep", "log likelihood")
        above.legend(fontsize=8, frameon=False, loc="lower right")
        below.boxplot([m["sweeps"] for m in models.values()], orientation="horizontal",
                      tick_labels=[MODELS[p] for p in models],
                      medianprops={"color": INK})  # fmt: skip
        below.plot([PAPER_SWEEPS[p] for p in models], [1, 2, 3], "*", color="#d1495b", ms=11,
                   label="the paper")  # fmt: skip
        below.invert_yaxis()
        label(below, "", "sweeps needed", "")
        below.legend(fontsize=8, frameon=False)
    return figure
