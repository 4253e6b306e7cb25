"""Command line of dibpnmf."""

from __future__ import annotations

from pathlib import Path

import click

from dibpnmf import __version__
from dibpnmf.commands.lazy import LazyGroup
from dibpnmf.experiments.command import reproduce


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="dibpnmf")
def main() -> None:
    """Nonnegative matrix factorization that learns its number of factors."""


main.add_command(reproduce)


@main.command()
@click.option(
    "--out",
    type=click.Path(file_okay=False, writable=True, path_type=Path),
    default=Path("demo"),
    show_default=True,
    help="Folder for the figures.",
)
@click.option("--seed", type=click.IntRange(min=0), default=0, show_default=True)
@click.option("--quiet", is_flag=True, help="Show no progress.")
def demo(out: Path, seed: int, quiet: bool) -> None:
    """Factorise a planted matrix and images of digits, and draw what was found."""
    from dibpnmf.demo import run_demo

    try:
        summary = run_demo(out, seed, progress=False if quiet else "auto")
    except OSError as error:
        raise click.UsageError(f"cannot write into {out}: {error.strerror or error}") from error
    click.echo(summary)


if __name__ == "__main__":
    main()
