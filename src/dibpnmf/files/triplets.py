"""One cell a line: row, column, value."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Sequence, Set
from itertools import chain
from pathlib import Path

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from dibpnmf.files.delimited import Line
from dibpnmf.files.numbers import to_number
from dibpnmf.files.opening import read_bytes
from dibpnmf.files.table import FileError, Table, shown

Ints = NDArray[np.int64]

_HEADERS = (("row",), ("col", "column"), ("value",))


def are_triplets(line: Line, leaves_out: bool = False) -> bool:
    """Whether a header reads row, col, value; or, of a file that leaves cells out, has room for it.

    A fourth column may hold when a rating was given.
    """
    if leaves_out and len(line.cells) in (3, 4):
        return True
    names = [cell.strip().casefold() for cell in line.cells]
    return len(names) == 3 and all(n in known for n, known in zip(names, _HEADERS, strict=True))


def parse_triplets(path: Path, first: Line, rest: Iterable[Line], missing: Set[str]) -> Table:
    """Make a sparse table; columns beyond the third are not read.

    Names that are whole numbers are sorted as such, others stay in the order they come in.
    """
    is_header = len(first.cells) >= 3 and to_number(first.cells[2], missing) is None
    numbers, values = array("q"), array("d")
    rows, columns = _Names(), _Names()
    line = first
    for line in rest if is_header else chain([first], rest):
        values.append(_value(path, line, missing))
        numbers.append(line.number)
        rows.add(line.cells[0].strip())
        columns.add(line.cells[1].strip())
    if not values:
        raise FileError(path, "a header and no row below it", first.number)
    if not line.cells[2].strip() and not read_bytes(path).endswith((b"\n", b"\r")):
        found = "found no value at the file's end (cut off?)"
        raise FileError(path, found, line.number, "3 (value)")
    i, row_names = rows.sorted()
    j, column_names = columns.sorted()
    _refuse_repeated(path, numbers, i * len(column_names) + j, column_names, row_names)
    shape = (len(row_names), len(column_names))
    # A CSR matrix made from one in coordinates keeps zeros that are given.
    matrix = sp.csr_array(sp.coo_array((np.array(values), (i, j)), shape=shape))
    return Table(matrix, row_names, column_names)


class _Names:
    """Names of one side, numbered as they come."""

    def __init__(self) -> None:
        self.known: dict[str, int] = {}
        self.codes = array("q")

    def add(self, name: str) -> None:
        self.codes.append(self.known.setdefault(name, len(self.known)))

    def sorted(self) -> tuple[Ints, list[str]]:
        """Codes and names, in the order of the names if they are whole numbers."""
        names, codes = list(self.known), np.array(self.codes, dtype=np.int64)
        if not all(name.isascii() and name.isdigit() for name in names):
            return codes, names
        # By length first, as Python refuses to turn very long texts into integers.
        bare = [name.lstrip("0") for name in names]
        order = sorted(range(len(names)), key=lambda at: (len(bare[at]), bare[at], names[at]))
        place = np.empty(len(names), np.int64)
        place[order] = np.arange(len(names))
        return place[codes], [names[at] for at in order]


def _value(path: Path, line: Line, missing: Set[str]) -> float:
    if len(line.cells) < 3:
        text = f"found {len(line.cells)} cells where row, column and value are expected (cut off?)"
        raise FileError(path, text, line.number)
    for column in (0, 1):
        if not line.cells[column].strip():
            what = "no name of a row" if column == 0 else "no name of a column"
            raise FileError(path, f"found {what}", line.number, column + 1)
    value = to_number(line.cells[2], missing)
    if value is None or value < 0.0 or value == np.inf:
        what = "not a number" if value is None else "negative" if value < 0.0 else "infinite"
        found = f"found {shown(line.cells[2])}, which is {what}"
        raise FileError(path, found, line.number, "3 (value)")
    return value


def _refuse_repeated(
    path: Path, numbers: Sequence[int], cells: Ints, columns: list[str], rows: list[str]
) -> None:
    order = np.argsort(cells, kind="stable")
    again = np.flatnonzero(np.diff(cells[order]) == 0)
    if again.size:
        at = again[np.argmin(order[again + 1])]
        one, other = order[at], order[at + 1]
        row, column = divmod(int(cells[one]), len(columns))
        text = f"repeats the cell {shown(rows[row])}, {shown(columns[column])} of row "
        raise FileError(path, f"{text}{numbers[one]}", numbers[other])
