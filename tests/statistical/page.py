"""Make docs/validation.md and its figures from the results of the full suite."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
from scipy import stats

mpl.use("Agg")
import matplotlib.pyplot as plt
from matplotlib.figure import Figure

from dibpnmf.priors import PRIORS

from .cases import CASES, Case
from .geweke import N_CHAINS
from .mutants import MUTANTS, NOT_REACHED

Results = dict[str, Any]
_COLUMNS = 4  # of panels in a figure

INTRODUCTION = """# Validation

Every sampler of this library is tested against the model it claims to sample from. This page
is written by the suite, not by hand, and says at which commits its parts were run.

- Command: `{command}`
{commits}

Five tests, each at a family-wise level of 1% over all of its cases (Bonferroni):

1. **Geweke.** Data and parameters drawn forwards from the model, against chains that alternate
   "data given parameters" with one sweep. {n_chains} independent chains start from forward
   draws, so the spread of their means is a standard error whatever the autocorrelation.
2. **Exact posteriors.** 2×2 and 2×3 problems with K = 1 and 2, sticks and θ fixed and free,
   against numerical integration: masks summed over, the rest by scrambled Sobol rules.
3. **Prior recovery.** With every cell missing: margins and dependence of the sticks, θ and τ,
   ones in a row, columns in use.
4. **Simulation-based calibration.** Ranks of θ, τ, columns in use, log likelihood and three
   cells of λ; tests of shape (chi-square), bias and spread (Kolmogorov-Smirnov, plain and folded).
5. **Mutants.** {n_mutants} samplers broken on purpose, each of which must be caught.

Slow twins of every kernel, and equality to the bit over threads, blocks and chains, are tested
by the fast suite (`make test`).

## Cases

Largest |t| of all test functions beside its limit; for calibration the smallest p-value beside
its limit, and the share of independent draws among those that were ranked.

"""


def _cell(rows: list[Any]) -> str:
    """Worst of some rows: statistic / limit."""
    if not rows:
        return "–"
    worst = max(rows, key=lambda row: row["worst"] / row["limit"])
    mark = "" if all(row["passed"] for row in rows) else " **fails**"
    return f"{worst['worst']:.2f} / {worst['limit']:.2f} ({worst['function']}){mark}"


def _rows(results: Results, part: str, **match: str) -> list[Any]:
    rows = results.get(part, {}).get("rows", [])
    return [row for row in rows if all(row[key] == value for key, value in match.items())]


def _recovered(results: Results, case: Case) -> list[Any]:
    """Rows of the prior's recovery, which was run with shared rates."""
    if case.loadings != "shared":
        return []
    return _rows(results, "recovery", prior=case.prior, scheme=case.scheme)


def case_table(results: Results) -> str:
    lines = [
        "| prior | likelihood | scheme | data | loadings | Geweke | exact, sticks free "
        "| exact, sticks fixed | prior recovery | calibration |",
        "|---|---|---|---|---|---|---|---|---|---|",
    ]
    for case in CASES:
        fixed = str(replace(case, prior="fixed"))
        ranks = "–"
        for row in _rows(results, "sbc", case=str(case)):
            mark = "" if row["passed"] else " **fails**"
            ranks = (
                f"{row['p']:.1e} / {row['limit']:.1e} ({row['function']}), "
                f"{row['effective']:.2f}{mark}"
            )
        cells = [
            case.prior, case.likelihood, case.scheme, case.data, case.loadings,
            _cell(_rows(results, "geweke", case=str(case))),
            _cell(_rows(results, "exact", case=str(case))),
            _cell(_rows(results, "exact", case=fixed)),
            _cell(_recovered(results, case)),
            ranks,
        ]  # fmt: skip
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


COLUMNS = {"geweke": "Geweke", "tests": "twins", "exact": "exact", "recovery": "recovery"}


def mutant_table(results: Results) -> str:
    """Which test catches which mutant, and by what."""
    lines = [
        "| mutant | " + " | ".join(COLUMNS.values()) + " |",
        "|---|" + "---|" * len(COLUMNS),
    ]
    for row in _rows(results, "mutants"):
        cells = dict.fromkeys(COLUMNS, "")
        for spec, reason in row["reasons"].items():
            kind = spec.split(":")[0]
            sweeps = f" in {int(spec.split(':')[-1]):,} sweeps" if kind == "geweke" else ""
            verdict = f"caught{sweeps} ({reason})" if reason else f"passes{sweeps}"
            if reason == NOT_REACHED:
                verdict = reason
            if row["mutant"].startswith("unchanged"):
                verdict = "passes" if not reason else f"**{spec}: {reason}**"
            # The control runs many checks of a kind: one word if they agree.
            cells[kind] = verdict if cells[kind] in ("", "passes", verdict) else cells[kind]
        mark = "" if row["passed"] else " **not caught**"
        lines.append(f"| {row['mutant']}{mark} | " + " | ".join(cells.values()) + " |")
    return "\n".join(lines)


def _panels(n: int, height: float) -> tuple[Figure, Any]:
    """A figure with room for n panels, four beside each other, those that are too many left out."""
    rows = max(1, -(-n // _COLUMNS))
    figure, axes = plt.subplots(
        rows, _COLUMNS, figsize=(3.2 * _COLUMNS, height * rows), sharex=True, sharey=True,
        squeeze=False,
    )  # fmt: skip
    for axis in axes.flat[n:]:
        axis.set_axis_off()
    return figure, axes


def geweke_figure(results: Results, path: Path) -> None:
    """Ordered statistics of each case against the quantiles of their distribution."""
    rows = _rows(results, "geweke")
    figure, axes = _panels(len(rows), 2.6)
    for axis, row in zip(axes.flat, rows, strict=False):
        x = np.sort(row["statistics"])
        q = stats.t.ppf((np.arange(x.size) + 0.5) / x.size, N_CHAINS - 1)
        axis.plot(q, q, color="0.7", linewidth=1)
        axis.plot(q, x, ".", markersize=4)
        axis.set_title(row["case"], fontsize=7)
        axis.set_ylim(-row["limit"], row["limit"])
    figure.supxlabel("quantile of t")
    figure.supylabel("statistic (the frame is the limit)")
    figure.tight_layout()
    figure.savefig(path, dpi=110)
    plt.close(figure)


def sbc_figure(results: Results, prior: str, path: Path) -> None:
    """Excess of the ranks' distribution function over uniform, with a simultaneous band."""
    rows = [row for row in _rows(results, "sbc") if row["case"].split("/")[0] == prior]
    figure, axes = _panels(len(rows), 3.0)
    for axis, row in zip(axes.flat, rows, strict=False):
        for name, counts in row["counts"].items():
            n = sum(counts)
            at = np.arange(1, len(counts) + 1) / len(counts)
            axis.plot(at, np.cumsum(counts) / n - at, linewidth=1, label=name)
        axis.legend(fontsize=5, ncols=2)
        band = stats.kstwobign.isf(row["limit"]) / np.sqrt(n)
        axis.axhline(band, color="0.5", linestyle="--", linewidth=1)
        axis.axhline(-band, color="0.5", linestyle="--", linewidth=1)
        axis.set_title("/".join(row["case"].split("/")[1:]), fontsize=8)
    figure.supxlabel("rank")
    figure.supylabel("ECDF − uniform")
    figure.tight_layout()
    figure.savefig(path, dpi=110)
    plt.close(figure)


def write(results: Results, docs: Path, command: str) -> None:
    """Write the page and its figures."""
    folder = docs / "validation"
    folder.mkdir(parents=True, exist_ok=True)
    commits = "\n".join(
        f"- {part}: commit {result['commit']}, {result['minutes']:.0f} minutes"
        for part, result in results.items()
    )
    parts = [
        INTRODUCTION.format(
            command=command, commits=commits, n_chains=N_CHAINS, n_mutants=len(MUTANTS)
        ),
        case_table(results),
        "\n\n## Geweke's statistics\n\n![Ordered statistics of each case](validation/geweke.png)\n",
        "\n## Calibration\n\nDashed: the Kolmogorov-Smirnov band at the level of the table.\n\n",
    ]
    geweke_figure(results, folder / "geweke.png")
    for prior in PRIORS:
        sbc_figure(results, prior, folder / f"calibration-{prior}.png")
        parts.append(f"![Ranks under the {prior} prior](validation/calibration-{prior}.png)\n\n")
    parts += [
        "## Broken on purpose\n\n",
        "Number in brackets: the largest |t| that gave the mutant away, its limit about 5.7.\n\n",
        mutant_table(results),
        "\n",
    ]
    (docs / "validation.md").write_text("".join(parts), "utf-8")
