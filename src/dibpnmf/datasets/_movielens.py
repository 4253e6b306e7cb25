"""MovieLens-100K: users by films, from GroupLens."""

from __future__ import annotations

from functools import partial
from io import BytesIO
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.utils import Bunch

from dibpnmf._validation import whole_number
from dibpnmf.datasets._archives import Archive, BadArchiveError

ARCHIVE = Archive("https://files.grouplens.org/datasets/movielens/ml-100k.zip")
N_FOLDS = 5
N_RATINGS = 100_000
SHAPE = (943, 1682)

_FOLDER = "ml-100k"
_ALL, _USERS, _ITEMS = (f"{_FOLDER}/{name}" for name in ("u.data", "u.user", "u.item"))


class Ratings(NamedTuple):
    """Observed cells of a users × items matrix, one entry of each array per rating.

    Attributes
    ----------
    rows : ndarray of int
        Index of the user, from 0.
    cols : ndarray of int
        Index of the item, from 0.
    values : ndarray of float
        The rating.
    """

    rows: NDArray[np.intp]
    cols: NDArray[np.intp]
    values: NDArray[np.float64]

    def to_csr(self, shape: tuple[int, int] = SHAPE) -> sparse.csr_array:
        """Return the ratings as a sparse matrix, whose empty cells are missing, not zero.

        Parameters
        ----------
        shape : tuple of int, default=(943, 1682)
            Size of the matrix.

        Returns
        -------
        scipy.sparse.csr_array
            Stores exactly the ratings.
        """
        return sparse.csr_array((self.values, (self.rows, self.cols)), shape=shape)


def fetch_movielens_100k(fold: int | None = None) -> Bunch:
    """Load MovieLens-100K: 100,000 ratings from 1 to 5, by 943 users of 1682 films.

    Downloads once, into the user's cache; set the environment variable DIBPNMF_DATA to a
    folder that has ``ml-100k.zip`` to use that instead. GroupLens permits use in research,
    asks for acknowledgement, and forbids passing the data on.

    Parameters
    ----------
    fold : {1, 2, 3, 4, 5} or None, default=None
        Which of the publisher's five splits (u1 to u5) into 80,000 ratings to learn from and
        20,000 to test on. None for all ratings in ``train`` and no ``test``.

    Returns
    -------
    sklearn.utils.Bunch
        ``train`` and ``test`` are `Ratings` (``test`` is None when `fold` is), ``shape`` is
        (943, 1682), ``user_names`` the publisher's numbers of the users, ``item_names`` the
        titles of the films (a few stand for two items).

    Raises
    ------
    TypeError, ValueError
        If `fold` is not None or an integer from 1 to 5.
    FileNotFoundError
        If DIBPNMF_DATA names a folder without the archive.
    BadArchiveError
        If the archive does not hold exactly this data set.
    OSError
        If it cannot be downloaded.

    References
    ----------
    F. M. Harper and J. A. Konstan, "The MovieLens Datasets: History and Context", ACM
    Transactions on Interactive Intelligent Systems 5(4), 2015.
    """
    if fold is None:
        sizes = {_ALL: N_RATINGS}
    else:
        if whole_number("fold", fold, 1) > N_FOLDS:
            raise ValueError(f"fold must be None or an integer from 1 to {N_FOLDS}; got {fold!r}.")
        stem = f"{_FOLDER}/u{fold}"
        test_size = N_RATINGS // N_FOLDS
        sizes = {f"{stem}.base": N_RATINGS - test_size, f"{stem}.test": test_size}
    return ARCHIVE.load({*sizes, _USERS, _ITEMS}, partial(_parse, sizes))


def _parse(sizes: dict[str, int], members: dict[str, bytes]) -> Bunch:
    """Make the data set from the file to learn from and, with a fold, the one to test on."""
    parts = [_ratings(name, members[name], size) for name, size in sizes.items()]
    cells = np.concatenate([part.rows * SHAPE[1] + part.cols for part in parts])
    if repeated := len(cells) - len(np.unique(cells)):
        raise BadArchiveError(f"{' and '.join(sizes)} rate {repeated} cells more than once")
    return Bunch(
        train=parts[0],
        test=parts[1] if len(parts) > 1 else None,
        shape=SHAPE,
        user_names=_names(_USERS, members[_USERS], column=0, expected=SHAPE[0]),
        item_names=_names(_ITEMS, members[_ITEMS], column=1, expected=SHAPE[1]),
    )


def _ratings(name: str, content: bytes, expected: int) -> Ratings:
    """Parse lines of: user, item, rating, time; users and items count from 1."""
    try:
        table = np.loadtxt(BytesIO(content), dtype=np.int64, delimiter="\t", ndmin=2)
    except ValueError as error:
        raise BadArchiveError(f"{name} is not a table of integers: {error}") from error
    if table.shape != (expected, 4):
        raise BadArchiveError(
            f"{name} is a table of shape {table.shape} where {(expected, 4)} is expected"
        )
    limits = (("user", SHAPE[0]), ("item", SHAPE[1]), ("rating", 5))
    for column, (what, largest) in zip(table.T, limits, strict=False):
        if column.min() < 1 or column.max() > largest:
            raise BadArchiveError(
                f"{name} has a {what} outside 1 to {largest}: "
                f"they run from {column.min()} to {column.max()}"
            )
    users, items, values, _ = table.T
    return Ratings(
        rows=(users - 1).astype(np.intp),
        cols=(items - 1).astype(np.intp),
        values=values.astype(np.float64),
    )


def _names(name: str, content: bytes, *, column: int, expected: int) -> NDArray[np.str_]:
    """One column of a table separated by bars, in order of the identifiers 1, 2, ...."""
    # The publisher writes Latin-1: "Misérables, Les (1995)".
    lines = [line.split("|") for line in content.decode("latin-1").split("\n") if line.strip()]
    if [fields[0] for fields in lines] != [str(number + 1) for number in range(expected)]:
        raise BadArchiveError(
            f"{name} has {len(lines)} lines where the identifiers 1 to {expected} are expected, "
            f"in order"
        )
    return np.array([fields[column] if len(fields) > column else "" for fields in lines])
