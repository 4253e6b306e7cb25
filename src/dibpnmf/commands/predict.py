"""dibpnmf predict: what a run says about single cells."""

from __future__ import annotations

import json
from pathlib import Path

import click

from dibpnmf.commands.endings import in_one_line
from dibpnmf.commands.escaping import escaped, to_csv
from dibpnmf.commands.runs import load, names_of, run_argument


@click.command()
@run_argument
@click.option(
    "--cells",
    required=True,
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="CSV or TSV with the names of a row and a column in each line.",
)
@click.option(
    "--interval",
    type=float,
    metavar="P",
    help="Also an interval that holds the value with this probability, as in 0.9.",
)
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Write here instead of to the screen.",
)
@click.option("--json", "as_json", is_flag=True, help="JSON instead of CSV.")
def predict(
    run: Path, cells: Path, interval: float | None, output: Path | None, as_json: bool
) -> None:
    """Predict cells of RUN's matrix, missing or not.

    Rows and columns without names are numbered from 0.
    """
    from dibpnmf._atomic import replacing

    with in_one_line():
        model = load(run)
        rows, columns = names_of(model)
        i, j = _read_cells(cells, rows, columns)
        found = model.predict(i, j, interval)
        numbers = found if isinstance(found, tuple) else (found,)
        header = ["row", "col", "mean", "lower", "upper"][: 2 + len(numbers)]
        table = [
            [rows[a], columns[b], *values]
            for a, b, values in zip(i, j, zip(*(n.tolist() for n in numbers), strict=True),
                                    strict=True)
        ]  # fmt: skip
        if as_json:
            text = json.dumps([dict(zip(header, row, strict=True)) for row in table], indent=1)
            text += "\n"
        else:
            text = to_csv(header, table)
        if output is None:
            click.echo(text, nl=False)
        else:
            with replacing(output) as file:
                file.write(text.encode())


def _read_cells(path: Path, rows: list[str], columns: list[str]) -> tuple[list[int], list[int]]:
    """Find the cells that a file names."""
    from dibpnmf.files.delimited import read_lines
    from dibpnmf.files.table import FileError, shown

    sides = (_places(rows), _places(columns))
    found: tuple[list[int], list[int]] = ([], [])
    for n, line in enumerate(read_lines(path)):
        names = [cell.strip() for cell in line.cells]
        if len(names) < 2:
            text = f"found {len(names)} cell where a row and a column are expected"
            raise FileError(path, text, line.number)
        known = [name in side for name, side in zip(names, sides, strict=False)]
        if n == 0 and names[0].casefold() == "row" and not all(known):
            continue
        for t, side in enumerate(sides):
            if names[t] not in side:
                what = f"no {('row', 'column')[t]} is called {shown(names[t])}"
                raise FileError(path, what, line.number, t + 1)
            found[t].append(side[names[t]])
    if not found[0]:
        raise FileError(path, "no cell in it")
    return found


def _places(names: list[str]) -> dict[str, int]:
    """Places by name, also as our own exports write them; of equal names the first."""
    places: dict[str, int] = {}
    for at, name in enumerate(names):
        places.setdefault(name.strip(), at)
    for at, name in enumerate(names):
        places.setdefault(escaped(name).strip(), at)
    return places
