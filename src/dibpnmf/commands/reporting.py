"""The report of a fitted model, from the command line's options."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from dibpnmf.estimator import DIBPNMF

ImageShape = tuple[int, int] | None


def parse_image_shape(ctx: click.Context, param: click.Parameter, value: str | None) -> ImageShape:
    """Read HEIGHTxWIDTH."""
    if value is None:
        return None
    match = re.fullmatch(r"([1-9][0-9]{0,5})[x×]([1-9][0-9]{0,5})", value.strip())
    if match is None:
        raise click.BadParameter(f"{value!r} is not HEIGHTxWIDTH, as in 8x8")
    return int(match[1]), int(match[2])


image_shape_option = click.option(
    "--image-shape", metavar="HxW", callback=parse_image_shape,
    help="The columns are pixels of images of this height and width, as in 8x8.",
)  # fmt: skip


def check_image_shape(shape: ImageShape, n_columns: int) -> None:
    """Refuse images that do not have as many pixels as the data have columns."""
    if shape is not None and shape[0] * shape[1] != n_columns:
        raise ValueError(
            f"--image-shape {shape[0]}x{shape[1]} has {shape[0] * shape[1]} pixels, and the data "
            f"have {n_columns} columns."
        )


def make_report(model: DIBPNMF, run: Path, path: Path, image_shape: ImageShape) -> None:
    """Write the report of a run, with the data that its folder holds."""
    from dibpnmf.report import write_report
    from dibpnmf.runs.folder import RunFolder

    write_report(
        model, path, data=RunFolder(run).observations().here(), row_names=model.row_names_,
        column_names=model.column_names_, image_shape=image_shape,
    )  # fmt: skip
