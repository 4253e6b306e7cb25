"""What the commands that read a run have in common."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from dibpnmf.estimator import DIBPNMF

run_argument = click.argument("run", type=click.Path(path_type=Path))


def load(run: Path) -> DIBPNMF:
    """Load a run; what there is to know about it goes to stderr."""
    from dibpnmf.estimator import DIBPNMF

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model = DIBPNMF.load(run)
    for warning in caught:
        click.echo(f"Warning: {warning.message}", err=True)
    return model


def names_of(model: DIBPNMF) -> tuple[list[str], list[str]]:
    """Names of rows and columns; numbers from 0 where the data had none."""
    M, N = model.embedding_.shape[0], model.components_.shape[1]
    rows = model.row_names_ or [str(i) for i in range(M)]
    columns = model.column_names_ or [str(j) for j in range(N)]
    return rows, columns
