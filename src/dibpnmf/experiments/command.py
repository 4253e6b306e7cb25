"""The command `dibpnmf reproduce`."""

from __future__ import annotations

import os
from collections import Counter
from concurrent.futures import BrokenExecutor
from pathlib import Path

import click


class _BadInput(click.ClickException):
    """One line on what is wrong, exit code 2."""

    exit_code = 2


class _OneLineErrors(click.Command):
    """A command that says what is wrong with its arguments in one line."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        try:
            return super().parse_args(ctx, args)
        except click.UsageError as error:
            raise _BadInput(f"{error.format_message()} See {ctx.command_path} --help.") from error


@click.command(cls=_OneLineErrors)
@click.argument("experiment", metavar="EXPERIMENT")
@click.option("--quick", is_flag=True, help="Small sizes: `all` in about ten minutes.")
@click.option(
    "--out",
    type=click.Path(path_type=Path),
    default=Path("results"),
    show_default=True,
    help="Folder for results, figures and finished pieces.",
)
@click.option("--seed", type=click.IntRange(0, 2**31 - 1001), default=0, show_default=True)
@click.option("--jobs", type=int, default=-1, help="Processes; by default one per core.")
@click.option(
    "--fold",
    "folds",
    type=click.IntRange(1, 5),
    multiple=True,
    help="Fold of MovieLens for the recommender; may be repeated. By default all five.",
)
def reproduce(
    experiment: str, quick: bool, out: Path, seed: int, jobs: int, folds: tuple[int, ...]
) -> None:
    """Repeat experiments of the paper and say which of its claims hold.

    EXPERIMENT is copula, synthetic, convergence, flexibility, clustering, recommender, or all.

    Each writes results.json, figures (PNG and PDF) and a page with the table "the paper says / we
    measured / holds?" into a folder of its name. A stopped run continues where it was: finished
    pieces are kept in OUT/pieces. Cora, CiteSeer and MovieLens-100K are downloaded, or taken from
    the folder that DIBPNMF_DATA names.
    """
    if jobs == 0 or jobs < -1:
        raise _BadInput(f"--jobs must be -1 (all cores) or at least 1; got {jobs}.")
    try:
        _run(experiment, quick, out, seed, jobs if jobs > 0 else os.cpu_count() or 1, folds)
    except KeyboardInterrupt:
        click.echo(f"Stopped. The same command continues from what is in {out}.", err=True)
        raise SystemExit(130) from None


def _run(name: str, quick: bool, out: Path, seed: int, jobs: int, folds: tuple[int, ...]) -> None:
    """Check experiment, folder and data before any work, then run and say what came out."""
    from dibpnmf.experiments.base import Settings
    from dibpnmf.experiments.run import EXPERIMENTS, experiment_of, reproduce, write_index

    if name not in (*EXPERIMENTS, "all"):
        raise _BadInput(
            f"there is no experiment {name!r}; choose one of {', '.join(EXPERIMENTS)}, all."
        )
    _check_folder(out)
    experiments = [experiment_of(one) for one in (EXPERIMENTS if name == "all" else [name])]
    for experiment in experiments:
        try:
            experiment.check_data()
        except (OSError, ValueError) as error:
            raise _BadInput(" ".join(str(error).split())) from error
    settings = Settings(quick, seed, tuple(sorted(set(folds))) or Settings.folds)
    try:
        found = reproduce(experiments, settings, out, jobs)
        if name == "all":
            write_index(experiments, found, settings, out)
    except BrokenExecutor as error:
        raise click.ClickException(
            "a process was ended from outside, perhaps for lack of memory. The same command "
            f"continues from what is in {out}; with --jobs 1 it needs less memory."
        ) from error
    except OSError as error:
        raise _BadInput(f"cannot go on, in {out}: {error.strerror or error}") from error
    for one, claims in found.items():
        tally = Counter(claim.holds for claim in claims)
        others = ", ".join(f"{n} {word!r}" for word, n in sorted(tally.items()) if word != "yes")
        verdict = f"{tally['yes']} of {len(claims)} claims hold" + (
            f" ({others})" if others else ""
        )
        click.echo(f"{one}: {verdict}. {out / one / 'README.md'}")
    if name == "all":
        click.echo(f"All together: {out / 'README.md'}")


def _check_folder(out: Path) -> None:
    """Make the folder and write a file into it, or say why that cannot be."""
    probe = out / f".{os.getpid()}.part"
    try:
        out.mkdir(parents=True, exist_ok=True)
        probe.touch()
        probe.unlink()
    except OSError as error:
        raise _BadInput(f"cannot write into {out}: {error.strerror or error}") from error
