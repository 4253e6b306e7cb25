"""CSV, TSV and the like: a header and names of rows are recognised."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

import numpy as np

from dibpnmf.files.numbers import to_number
from dibpnmf.files.opening import read_text
from dibpnmf.files.table import FileError, Floats, Table, shown

# A comma last: where it is as frequent as another, it may be a decimal comma.
DELIMITERS = ("\t", ";", "|", ",")
_NAMES_ABOVE = ("", "id", "name", "names", "index")  # what a header may have above names of rows
_FIELD = 10_000_000  # characters in a cell; the csv module's own default is 131,072


Cells = Sequence[str] | Mapping[int, str]


@dataclass(frozen=True)
class Line:
    """One record, and the line of the file it starts in."""

    number: int
    cells: list[str]


def read_lines(path: Path) -> Iterator[Line]:
    """Split a file into records, at least one; blank lines are left out."""
    text = read_text(path)
    first = next((line for line in text if line.strip()), "")
    if not first:
        raise FileError(path, "an empty file")
    text.seek(0)
    delimiter = "\t" if path_ends(path, ".tsv", ".tab") else _most_frequent(first)
    return _records(path, csv.reader(text, delimiter=delimiter, strict=True))


def path_ends(path: Path, *ends: str) -> bool:
    """Whether a name, without .gz, ends in one of these."""
    return path.name.lower().removesuffix(".gz").endswith(ends)


def _most_frequent(line: str) -> str:
    """The delimiter that a line has most of; of equals the first listed."""
    return max(DELIMITERS, key=line.count)


def _records(path: Path, reader: Iterator[list[str]]) -> Iterator[Line]:
    line_num = 0
    csv.field_size_limit(_FIELD)
    while True:
        start = line_num + 1
        try:
            cells = next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            found = "an unclosed quote" if "unexpected end" in str(error) else str(error)
            raise FileError(path, f"found {found}", start) from error
        line_num = reader.line_num  # type: ignore[attr-defined]
        if any(cell.strip() for cell in cells):
            yield Line(start, cells)


def parse_table(
    path: Path, first: Line, rest: Iterable[Line], missing: Set[str], label: str | None = None
) -> Table:
    """Read a table of numbers.

    The first line is a header unless all of its cells are numbers. The first column holds the
    names of rows if the header has nothing (or "id", "name") above it, or if any of its cells is
    no number. The column named ``label`` is kept apart.
    """
    header = first.cells if _is_header(first.cells) else None
    body = _Body(path, header, missing, label)
    for line in rest if header is not None else chain([first], rest):
        body.add(line)
    if not body.rows:
        raise FileError(path, "a header and no row below it", first.number)
    return body.table()


def _is_header(cells: list[str]) -> bool:
    """Whether a first line names columns: something is no number, or nothing stands first."""
    if len(cells) > 1 and not cells[0].strip() and all(cell.strip() for cell in cells[1:]):
        return True
    return any(to_number(cell) is None for cell in cells[1:] or cells)


class _Body:
    """The rows below a header: the first cell of each as text, the others as numbers."""

    def __init__(
        self, path: Path, header: list[str] | None, missing: Set[str], label: str | None
    ) -> None:
        self.path, self.header, self.missing, self.label = path, header, missing, label
        # Where a number may mean missing, every cell has to be looked up.
        self.all_texts = any(to_number(text, frozenset()) is not None for text in missing - {"nan"})
        self.width = 0
        self.places: list[int] = []  # of the columns kept
        self.numbers: list[int] = []  # of lines
        self.rows: list[Floats] = []
        self.firsts: list[str] = []
        self.labels: list[str] = []

    def add(self, line: Line) -> None:
        """Take one row."""
        if not self.width:
            self._start(line)
        if len(line.cells) != self.width:
            text = f"found {len(line.cells)} cells where {self.width} are expected (cut off?)"
            raise FileError(self.path, text, line.number)
        self.numbers.append(line.number)
        self.firsts.append(line.cells[self.places[0]])
        self.rows.append(self._values(line.number, line.cells, self.places[1:]))
        if self.label is not None:
            self.labels.append(line.cells[self.label_place])

    def _start(self, line: Line) -> None:
        self.width = len(line.cells)
        if self.header is not None:
            if len(self.header) == self.width - 1:
                self.header = ["", *self.header]  # as R writes it: nothing above names of rows
            self.width = len(self.header)
        self.places = list(range(self.width))
        if self.label is not None:
            names = [name.strip() for name in self.header or []]
            if self.label not in names:
                raise FileError(self.path, f"no column is called {shown(self.label)}", 1)
            self.label_place = names.index(self.label)
            self.places.remove(self.label_place)
        if not self.places:
            raise FileError(self.path, "labels and no column of numbers", line.number)

    def _values(self, number: int, cells: Cells, places: list[int]) -> Floats:
        texts = [cells[at] for at in places]
        try:
            if self.all_texts or any("_" in text for text in texts):
                raise ValueError
            values = np.array([float(text) for text in texts])  # most rows: numbers only
        except ValueError:
            read = [to_number(text, self.missing) for text in texts]
            if None in read:
                at = places[read.index(None)]
                what = "which is not a number"
                if to_number(cells[at].replace(",", ".")) is not None:
                    what += " (a decimal comma? write a point)"
                raise self._bad(number, at, cells[at], what) from None
            values = np.array(read, dtype=np.float64)
        wrong = np.flatnonzero((values < 0.0) | np.isinf(values))
        if wrong.size:
            what = "a negative value" if values[wrong[0]] < 0.0 else "an infinite value"
            at = places[wrong[0]]
            raise self._bad(number, at, cells[at], what)
        return values

    def _bad(self, number: int, at: int, text: str, what: str) -> FileError:
        if self.width in (3, 4):
            what += "; if the lines are row,column,value the layout is triplets"
        name = f" ({shown(self.header[at])})" if self.header is not None else ""
        return FileError(self.path, f"found {shown(text)}, {what}", number, f"{at + 1}{name}")

    def table(self) -> Table:
        """Decide what the first column is, and put the table together."""
        matrix = np.array(self.rows)
        labels = self.labels if self.label is not None else None
        names = [self.header[at] for at in self.places] if self.header is not None else None
        above = names[0].strip().casefold() if names is not None else None
        if above in _NAMES_ABOVE or any(
            to_number(text, self.missing) is None for text in self.firsts
        ):
            if not matrix.shape[1]:
                raise FileError(self.path, f"found {shown(self.firsts[0])}, which is not a number, "
                                "in the only column", self.numbers[0])  # fmt: skip
            return Table(matrix, self.firsts, names[1:] if names is not None else None, labels)
        first = [
            self._values(number, {self.places[0]: text}, self.places[:1])
            for number, text in zip(self.numbers, self.firsts, strict=True)
        ]
        return Table(np.hstack([np.array(first), matrix]), None, names, labels)
