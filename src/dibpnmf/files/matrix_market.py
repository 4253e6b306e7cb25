"""Matrix Market files.

Read here rather than by scipy, whose reader crashes the interpreter on some damaged files.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import scipy.sparse as sp

from dibpnmf.files.numbers import to_number
from dibpnmf.files.opening import read_text
from dibpnmf.files.table import MOST_ROWS, FileError, Floats, Table, from_sparse, shown

_SYMMETRIES = ("general", "symmetric", "skew-symmetric")
# Numbers in a line, by what the banner says.
_WIDTHS = {("coordinate", "real"): 3, ("coordinate", "integer"): 3, ("coordinate", "pattern"): 2,
           ("array", "real"): 1, ("array", "integer"): 1}  # fmt: skip


@dataclass(frozen=True)
class _Head:
    """Banner and sizes."""

    layout: str
    width: int
    symmetry: str
    shape: tuple[int, int]
    count: int  # lines that follow
    line: int  # where the sizes stand


def read_matrix_market(path: Path) -> Table:
    """Read coordinates or a dense array; a pattern's entries are ones."""
    lines = list(read_text(path))
    head = _head(path, lines)
    body = _body(path, head, lines)
    if head.layout == "array":
        return Table(_dense(head, body))
    at = body[:, :2]
    outside = np.flatnonzero(((at < 1.0) | (at > head.shape) | (at % 1.0 != 0.0)).any(axis=1))
    if outside.size:
        i, j = at[outside[0]]
        raise FileError(path, f"entry {outside[0] + 1} is the cell ({i:g}, {j:g}) of a matrix of "
                              f"{head.shape[0]} × {head.shape[1]}")  # fmt: skip
    rows, columns = (at - 1.0).astype(np.int64).T
    values = body[:, 2] if head.width == 3 else np.ones(len(body))
    if head.symmetry != "general":
        off = rows != columns
        sign = 1.0 if head.symmetry == "symmetric" else -1.0
        rows, columns = np.append(rows, columns[off]), np.append(columns, rows[off])
        values = np.append(values, sign * values[off])
    coo = sp.coo_array((values, (rows, columns)), shape=head.shape)
    return Table(from_sparse(path, coo))


def _head(path: Path, lines: list[str]) -> _Head:
    banner = lines[0].split() if lines else []
    words = [word.lower() for word in banner]
    if len(words) != 5 or words[0] != "%%matrixmarket" or words[1] != "matrix":
        found = shown(lines[0].strip()) if lines else "nothing"
        raise FileError(path, f"found {found}, and not the banner of a matrix", 1)
    width = _WIDTHS.get((words[2], words[3]))
    if width is None or words[4] not in _SYMMETRIES:
        raise FileError(path, f"a matrix of kind {shown(' '.join(words[2:]))} is not read", 1)
    n, text = next(_content(lines[1:], 2), (0, ""))
    sizes = [int(word) if word.isascii() and word.isdigit() else -1 for word in text.split()]
    if len(sizes) != (3 if width > 1 else 2) or min(sizes) < 0 or not n:
        raise FileError(path, f"found {shown(text.strip())}, and not the sizes", n or None)
    shape, symmetric = (sizes[0], sizes[1]), words[4] != "general"
    if symmetric and shape[0] != shape[1]:
        raise FileError(path, f"a symmetric matrix of {shape[0]} × {shape[1]}", n)
    if max(shape) > MOST_ROWS:
        raise FileError(path, f"a matrix of {shape[0]} × {shape[1]}; at most {MOST_ROWS} rows and "
                              "columns can be read", n)  # fmt: skip
    count = sizes[2] if width > 1 else _stored(shape[0], shape[1], words[4])
    return _Head(words[2], width, words[4], shape, count, n)


def _stored(rows: int, columns: int, symmetry: str) -> int:
    """Entries of an array that the file has."""
    if symmetry == "general":
        return rows * columns
    return rows * (rows + 1) // 2 if symmetry == "symmetric" else rows * (rows - 1) // 2


def _content(lines: list[str], start: int) -> Iterator[tuple[int, str]]:
    """Lines that are neither blank nor comments, with their numbers."""
    for n, line in enumerate(lines, start):
        if line.strip() and not line.startswith("%"):
            yield n, line


def _body(path: Path, head: _Head, lines: list[str]) -> Floats:
    """Numbers of the lines below the sizes."""
    rest = list(_content(lines[head.line :], head.line + 1))
    if len(rest) != head.count:
        what = "cut off?" if len(rest) < head.count else "too many"
        text = f"found {len(rest)} entries where {head.count} are expected ({what})"
        raise FileError(path, text, rest[-1][0] if rest else head.line)
    if not rest:
        return np.empty((0, head.width))
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            body = np.loadtxt([line for _, line in rest], np.float64, comments=None, ndmin=2)
        if body.shape == (head.count, head.width):
            return body
    except (ValueError, Warning):
        pass
    raise _first_bad(path, head, rest)


def _first_bad(path: Path, head: _Head, rest: list[tuple[int, str]]) -> FileError:
    for n, line in rest:
        words = line.split()
        if len(words) != head.width:
            return FileError(path, f"found {len(words)} numbers where {head.width} are expected", n)
        for at, word in enumerate(words, 1):
            if to_number(word, frozenset()) is None:
                return FileError(path, f"found {shown(word)}, which is not a number", n, at)
    return FileError(path, "not a whole Matrix Market file")


def _dense(head: _Head, body: Floats) -> Floats:
    rows, columns = head.shape
    if head.symmetry == "general":
        return body.reshape(columns, rows).T.copy()
    matrix = np.zeros((rows, columns))
    j, i = np.triu_indices(rows, 0 if head.symmetry == "symmetric" else 1)  # column by column
    matrix[j, i] = body[:, 0] * (1.0 if head.symmetry == "symmetric" else -1.0)
    matrix[i, j] = body[:, 0]
    return matrix
