"""dibpnmf report: one HTML file about a run."""

from __future__ import annotations

from pathlib import Path

import click

from dibpnmf.commands.endings import in_one_line
from dibpnmf.commands.reporting import (
    ImageShape,
    check_image_shape,
    image_shape_option,
    make_report,
)
from dibpnmf.commands.runs import load, run_argument


@click.command()
@run_argument
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path, dir_okay=False),
    help="The file; report.html in the run's folder by default.",
)
@image_shape_option
def report(run: Path, output: Path | None, image_shape: ImageShape) -> None:
    """Write the report of RUN, an HTML file that opens without a network."""
    from dibpnmf.runs.folder import REPORT

    with in_one_line():
        model = load(run)
        check_image_shape(image_shape, model.components_.shape[1])
        path = output or run / REPORT
        make_report(model, run, path, image_shape)
        click.echo(str(path))
