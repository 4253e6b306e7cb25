"""dibpnmf export: a run for other programs."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import numpy as np

from dibpnmf.commands.endings import in_one_line
from dibpnmf.commands.escaping import to_csv
from dibpnmf.commands.runs import load, names_of, run_argument

if TYPE_CHECKING:
    from dibpnmf.estimator import DIBPNMF


@click.command()
@run_argument
@click.option(
    "--format",
    "kind",
    required=True,
    type=click.Choice(["netcdf", "csv", "npz"]),
    help="netcdf: all draws, for ArviZ. csv: one line for each loading. npz: arrays.",
)
@click.option("-o", "--output", required=True, type=click.Path(path_type=Path, dir_okay=False))
def export(run: Path, kind: str, output: Path) -> None:
    """Export RUN to a file."""
    with in_one_line():
        model = load(run)
        {"netcdf": _netcdf, "csv": _csv, "npz": _npz}[kind](model, output)
        click.echo(str(output))


def _netcdf(model: DIBPNMF, path: Path) -> None:
    """All draws in ArviZ's layout."""
    from dibpnmf._atomic import temporary

    try:
        import h5netcdf  # noqa: F401
    except ImportError as error:
        raise ValueError(
            'NetCDF needs the extra "netcdf": pip install "dibpnmf[netcdf]".'
        ) from error
    with temporary(path) as part:
        model.posterior_.to_netcdf(part, engine="h5netcdf")


def _csv(model: DIBPNMF, path: Path) -> None:
    """One line for each loading that is on, or has been in some draw."""
    from dibpnmf._atomic import replacing

    header = ["side", "name", "factor", "share", "loading", "mean", "inclusion"]
    with replacing(path) as file:
        file.write(to_csv(header, _loadings(model)).encode("utf-8", "backslashreplace"))


def _loadings(model: DIBPNMF) -> Iterator[list[object]]:
    rows, columns = names_of(model)
    shares = model.shares_.tolist()
    for i, k in np.argwhere(model.embedding_ > 0.0).tolist():
        yield ["row", rows[i], k + 1, shares[k], float(model.embedding_[i, k]), None, None]
    inclusion, mean = model.inclusion_probabilities_, model.components_mean_
    for k, j in np.argwhere((model.components_ > 0.0) | (inclusion > 0.0)).tolist():
        loading = float(model.components_[k, j])
        yield ["column", columns[j], k + 1, shares[k], loading, float(mean[k, j]),
               float(inclusion[k, j])]  # fmt: skip


def _npz(model: DIBPNMF, path: Path) -> None:
    """The point estimate, its uncertainty, names, and the scalars of every draw."""
    from dibpnmf._atomic import replacing

    rows, columns = names_of(model)
    arrays: dict[str, Any] = {
        "embedding": model.embedding_,
        "components": model.components_,
        "components_mean": model.components_mean_,
        "inclusion_probabilities": model.inclusion_probabilities_,
        "shares": model.shares_,
        "epsilon": model.epsilon_,
        "row_names": np.array(rows, dtype=str),
        "column_names": np.array(columns, dtype=str),
    }
    arrays |= {f"draws/{name}": values for name, values in model._scalars.items()}
    with replacing(path) as file:
        np.savez_compressed(file, **arrays)
