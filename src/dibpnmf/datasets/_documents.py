"""Cora and CiteSeer: papers by words, from LINQS."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.utils import Bunch

from dibpnmf.datasets._archives import Archive, BadArchiveError

_PUBLISHER = "https://linqs-data.soe.ucsc.edu/public/lbc"


@dataclass(frozen=True)
class _Corpus:
    """What a corpus must hold: the numbers its publisher states."""

    name: str
    n_documents: int
    n_words: int
    n_ones: int
    n_classes: int

    @property
    def member(self) -> str:
        return f"{self.name}/{self.name}.content"

    @property
    def archive(self) -> Archive:
        return Archive(f"{_PUBLISHER}/{self.name}.tgz")


CORA = _Corpus("cora", n_documents=2708, n_words=1433, n_ones=49_216, n_classes=7)
CITESEER = _Corpus("citeseer", n_documents=3312, n_words=3703, n_ones=105_165, n_classes=6)


def fetch_cora() -> Bunch:
    """Load Cora: 2708 papers on machine learning by 1433 words, in 7 classes.

    Downloads once, into the user's cache; set the environment variable DIBPNMF_DATA to a
    folder that has ``cora.tgz`` to use that instead.

    Returns
    -------
    sklearn.utils.Bunch
        ``data`` is a CSR array of zeros and ones (1 where the paper uses the word), ``target``
        the class of each paper as an index into ``target_names``, ``document_ids`` the
        publisher's identifiers. The publisher does not say which words the columns are, so
        there are no ``feature_names``.

    Raises
    ------
    FileNotFoundError
        If DIBPNMF_DATA names a folder without the archive.
    BadArchiveError
        If the archive does not hold exactly this data set.
    OSError
        If it cannot be downloaded.

    References
    ----------
    P. Sen et al., "Collective classification in network data", AI Magazine 29(3), 2008.
    """
    return CORA.archive.load({CORA.member}, partial(_parse, CORA))


def fetch_citeseer() -> Bunch:
    """Load CiteSeer: 3312 papers of computer science by 3703 words, in 6 classes.

    Downloads once, into the user's cache; set the environment variable DIBPNMF_DATA to a
    folder that has ``citeseer.tgz`` to use that instead.

    Returns
    -------
    sklearn.utils.Bunch
        As for `fetch_cora`.

    Raises
    ------
    FileNotFoundError, BadArchiveError, OSError
        As for `fetch_cora`.

    References
    ----------
    P. Sen et al., "Collective classification in network data", AI Magazine 29(3), 2008.
    """
    return CITESEER.archive.load({CITESEER.member}, partial(_parse, CITESEER))


def _parse(corpus: _Corpus, members: dict[str, bytes]) -> Bunch:
    """Make the data set from lines of: identifier, one 0 or 1 per word, class."""
    lines = [line for line in members[corpus.member].splitlines() if line.strip()]
    _expect(corpus, "documents", len(lines), corpus.n_documents)
    words, ids, classes = [], [], []
    for number, line in enumerate(lines, start=1):
        identifier, _, rest = line.partition(b"\t")
        cells, _, label = rest.rpartition(b"\t")
        words.append(_words(corpus, number, cells))
        ids.append(identifier.decode("utf-8", "replace"))
        classes.append(label.decode("utf-8", "replace").strip())
    indices = np.concatenate(words)
    _expect(corpus, "ones", len(indices), corpus.n_ones)
    target_names, target = np.unique(classes, return_inverse=True)
    _expect(corpus, "classes", len(target_names), corpus.n_classes)
    indptr = np.cumsum([0, *map(len, words)], dtype=np.int32)
    data = sparse.csr_array(
        (np.ones(len(indices)), indices, indptr), shape=(corpus.n_documents, corpus.n_words)
    )
    return Bunch(data=data, target=target, target_names=target_names, document_ids=np.array(ids))


def _words(corpus: _Corpus, number: int, cells: bytes) -> NDArray[np.int32]:
    """Find the ones in a row of digits (at even places) and tabs (at odd places)."""
    characters = np.frombuffer(cells, dtype=np.uint8)
    digits, tabs = characters[::2], characters[1::2]
    ones = digits == ord("1")
    regular = (
        len(characters) == 2 * corpus.n_words - 1
        and bool(np.all(ones | (digits == ord("0"))))
        and bool(np.all(tabs == ord("\t")))
    )
    if not regular:
        raise BadArchiveError(
            f"line {number} of {corpus.member} is not an identifier, {corpus.n_words} values "
            f"0 or 1, and a class, separated by tabs"
        )
    return np.flatnonzero(ones).astype(np.int32)


def _expect(corpus: _Corpus, what: str, found: int, expected: int) -> None:
    if found != expected:
        raise BadArchiveError(f"{corpus.member} has {found} {what} where {expected} are expected")
