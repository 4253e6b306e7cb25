"""Run experiments: pieces, then results, figures and the table of claims."""

from __future__ import annotations

import sys
import time
from collections import Counter
from importlib import import_module
from pathlib import Path
from typing import Any

from dibpnmf import __version__
from dibpnmf._progress import OnTerminal
from dibpnmf.experiments.base import Experiment, Settings
from dibpnmf.experiments.claims import Claim, claims_table, markdown_table
from dibpnmf.experiments.pieces import Outcome, Piece, Store, run_pieces, write_json, write_text

# In the order of the paper; each module has a class of its name.
EXPERIMENTS = (
    "copula",
    "synthetic",
    "convergence",
    "flexibility",
    "clustering",
    "recommender",
)


def experiment_of(name: str) -> Experiment:
    """Make the experiment of a name."""
    module = import_module(f"dibpnmf.experiments.{name}")
    experiment: Experiment = getattr(module, name.capitalize())()
    return experiment


def reproduce(
    experiments: list[Experiment], settings: Settings, out: Path, jobs: int
) -> dict[str, list[Claim]]:
    """Run experiments and write what they found into folders of their names below ``out``.

    Returns
    -------
    dict of str to list of Claim
        The claims of each experiment.
    """
    store = Store(out / "pieces")
    plans = {experiment.name: experiment.pieces(settings) for experiment in experiments}
    unique = {piece.name: piece for plan in plans.values() for piece in plan}
    todo = [piece for piece in unique.values() if store.load(piece) is None]
    found: dict[str, list[Claim]] = {}
    with Meter(todo, len(unique), jobs, show=sys.stderr.isatty()) as meter:
        for experiment in experiments:
            meter.begin(experiment.name)
            outcomes = run_pieces(plans[experiment.name], store, jobs, meter.finish)
            found[experiment.name] = write_experiment(experiment, settings, outcomes, out)
    return found


def write_experiment(
    experiment: Experiment, settings: Settings, outcomes: list[Outcome], out: Path
) -> list[Claim]:
    """Write results.json, figures and the page of one experiment; return its claims."""
    from dibpnmf.experiments.figures import save

    folder = out / experiment.name
    folder.mkdir(parents=True, exist_ok=True)
    results = experiment.results(settings, outcomes)
    claims = experiment.claims(results)
    figures = experiment.figures(results)
    for name, figure in figures.items():
        save(figure, folder, name)
    record = {
        "experiment": experiment.name,
        "version": __version__,
        "quick": settings.quick,
        "seed": settings.seed,
        "sizes": experiment.sizes(settings),
        "pieces": len(outcomes),
        "seconds": round(sum(outcome.seconds for outcome in outcomes), 1),
        "claims": [claim.as_dict() for claim in claims],
        "results": results,
    }
    write_json(folder / "results.json", record, indent=1)
    write_text(folder / "README.md", _page(experiment, settings, record, claims, list(figures)))
    return claims


def _page(
    experiment: Experiment,
    settings: Settings,
    record: dict[str, Any],
    claims: list[Claim],
    figures: list[str],
) -> str:
    """Page of one experiment."""
    quick = " --quick" if settings.quick else ""
    command = f"dibpnmf reproduce {experiment.name}{quick} --seed {settings.seed}"
    warning = (
        "\nA quick run: it shows that everything works and what it looks like. Its numbers rest "
        "on chains that are too short to judge the paper by.\n"
        if settings.quick
        else ""
    )
    parts = [
        f"# {experiment.title}\n",
        experiment.about.strip() + "\n",
        f"Command: `{command}` (dibpnmf {__version__}; {record['pieces']} pieces, "
        f"{record['seconds'] / 60:.0f} minutes of one core). {warning}",
        "## Claims\n",
        claims_table(claims),
        experiment.tables(record["results"]),
        "## Sizes\n",
        markdown_table(("size", "value"), record["sizes"].items()),
        "## Figures\n",
        "\n".join(f"![{name}]({name}.png)\n" for name in figures),
    ]
    return "\n".join(part for part in parts if part).rstrip() + "\n"


def write_index(
    experiments: list[Experiment],
    found: dict[str, list[Claim]],
    settings: Settings,
    out: Path,
) -> None:
    """Write the page that leads to all experiments, with every claim on it."""
    rows = []
    for experiment in experiments:
        tally = Counter(claim.holds for claim in found[experiment.name])
        verdicts = [tally[word] for word in ("yes", "in part", "no", "not testable")]
        rows.append((f"[{experiment.title}]({experiment.name}/README.md)", *verdicts))
    quick = " --quick" if settings.quick else ""
    header = ("experiment", "hold", "hold in part", "do not hold", "not testable")
    parts = [
        "# The paper's experiments\n",
        f"Command: `dibpnmf reproduce all{quick} --seed {settings.seed}` "
        f"(dibpnmf {__version__}).\n",
        "Claims of the paper that\n",
        markdown_table(header, rows),
    ]
    for experiment in experiments:
        parts += [f"## {experiment.title}\n", claims_table(found[experiment.name])]
    write_text(out / "README.md", "\n".join(parts))


class Meter(OnTerminal):
    """Shows pieces finished and time left on a terminal.

    Parameters
    ----------
    todo : list of Piece
        The pieces that are not finished yet, each once.
    n_pieces : int
        Number of all pieces.
    jobs : int
    show : bool
    """

    def __init__(self, todo: list[Piece], n_pieces: int, jobs: int, show: bool) -> None:
        self._left = {piece.name: piece.cost for piece in todo}
        self._total, self._n, self._jobs = sum(self._left.values()), n_pieces, jobs
        self._start = time.monotonic()
        self._experiment = ""
        self._bar: Any = _bar() if show else None
        self._task: Any = None

    def begin(self, experiment: str) -> None:
        """Name the experiment at hand."""
        self._experiment = experiment
        self.refresh()

    def finish(self, piece: Piece) -> None:
        """Count a piece that was run, or found finished."""
        self._left.pop(piece.name, None)
        self.refresh()

    def seconds_left(self) -> float:
        """Cost of what is left, at the pace so far."""
        left = sum(self._left.values())
        done = self._total - left
        pace = (time.monotonic() - self._start) / done if done > 0.0 else 1.0 / self._jobs
        return left * pace

    def refresh(self) -> None:
        """Redraw."""
        if self._bar is not None and self._task is not None:
            minutes, seconds = divmod(int(self.seconds_left()), 60)
            done = self._n - len(self._left)
            text = f"{done}/{self._n} pieces, {minutes}:{seconds:02d} left"
            self._bar.update(self._task, completed=done, description=self._experiment, text=text)

    def _add_tasks(self) -> None:
        self._task = self._bar.add_task("", total=self._n, text="")


def _bar() -> Any:
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    return Progress(
        TextColumn("{task.description}"),
        BarColumn(bar_width=24),
        TextColumn("{task.fields[text]}"),
        TimeElapsedColumn(),
        console=Console(stderr=True),
    )
