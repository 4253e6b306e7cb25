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

from dibpnmf._atomic import replacing
from dibpnmf.observations import Observations
from dibpnmf.runs.errors import RunFolderError


def checksum(observations: Observations) -> str:
    """SHA-256 of everything that a sampler sees of a matrix."""
    digest = hashlib.sha256()
    facts = (observations.shape, observations.is_complete, float(observations.scale).hex())
    digest.update(repr(facts).encode())
    for array in observations.side(0):
        digest.update(array.astype(array.dtype.newbyteorder("<"), copy=False).tobytes())
    return digest.hexdigest()


def write(path: Path, observations: Observations) -> None:
    """Keep a matrix in units of its mean, by row."""
    cells = observations.side(0)
    facts: dict[str, Any] = {
        "shape": observations.shape,
        "scale": observations.scale,
        "is_complete": observations.is_complete,
    }
    with replacing(path) as file:
        np.savez_compressed(file, **cells._asdict(), **facts)


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
