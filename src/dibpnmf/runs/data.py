"""The matrix of a run, kept in its folder: a run is read without the file it came from."""

from __future__ import annotations

import hashlib
import zipfile
import zlib
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from dibpnmf._atomic import replacing
from dibpnmf.inference.executors import Executor, Rows, Serial
from dibpnmf.observations import Cells, Observations
from dibpnmf.runs.errors import RunFolderError

_DIGEST = 16  # bytes a row


def checksum(observations: Observations, executor: Executor | None = None) -> str:
    """SHA-256 of everything that a sampler sees of a matrix, wherever its rows are."""
    digest = hashlib.sha256()
    facts = (observations.shape, observations.is_complete, float(observations.scale).hex())
    digest.update(repr(facts).encode())
    rows = np.empty((observations.shape[0], _DIGEST), np.uint8)
    out = Rows(rows, is_read=False)
    (executor or Serial()).map_blocks(digest_rows, None, len(rows), observations.side(0), out)
    digest.update(rows.tobytes())
    return digest.hexdigest()


def digest_rows(_: None, start: int, stop: int, cells: Cells, out: NDArray[np.uint8]) -> None:
    """Digest each row's cells: on their own, so that blocks do not matter."""
    indices, values = (
        cells.indices.astype("<i4", copy=False),
        cells.values.astype("<f8", copy=False),
    )
    for i in range(start, stop):
        part = slice(cells.indptr[i], cells.indptr[i + 1])
        row = hashlib.blake2b(indices[part].tobytes(), digest_size=_DIGEST)
        row.update(values[part].tobytes())
        out[i] = np.frombuffer(row.digest(), np.uint8)


def write(path: Path, observations: Observations) -> None:
    """Keep a matrix in units of its mean, by row."""
    cells = observations.side(0)
    facts: dict[str, Any] = {
        "shape": observations.shape,
        "scale": observations.scale,
        "is_complete": observations.is_complete,
    }
    with replacing(path) as file:
        np.savez_compressed(
            file, indptr=cells.indptr, indices=cells.indices, values=cells.values, **facts
        )


def read(path: Path) -> Observations:
    """Read a matrix back, the same to the bit."""
    try:
        with np.load(path, allow_pickle=False) as stored:
            arrays = {name: stored[name] for name in stored.files}
        parts = (arrays["values"], arrays["indices"], arrays["indptr"])
        csr = sp.csr_array(parts, shape=tuple(arrays["shape"].tolist()))
        csr.check_format(full_check=True)
        zeros = "observed" if arrays["is_complete"] else "missing"
        observations = Observations.from_matrix(csr, zeros, scale=1.0)
        return replace(observations, scale=float(arrays["scale"]))
    except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile, zlib.error) as error:
        raise RunFolderError(f"{path} is damaged or missing: {error}.") from error
