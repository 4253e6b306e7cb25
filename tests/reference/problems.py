"""Small random problems with everything awkward in them: zeros, gaps, empty rows and columns."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from hypothesis import strategies as st

from dibpnmf.likelihoods import LIKELIHOODS, Likelihood
from dibpnmf.likelihoods.lists import Lists, list_entries
from dibpnmf.likelihoods.rows import open_row, take_entry
from dibpnmf.likelihoods.supports import Row, new_row
from dibpnmf.observations import Observations


class Small(NamedTuple):
    """Data Y with its observed cells, loadings, and the same data as the library holds it."""

    likelihood: Likelihood
    epsilon: float
    Y: np.ndarray
    observed: np.ndarray
    A: np.ndarray
    X: np.ndarray
    observations: Observations

    @property
    def kernel(self) -> NamedTuple:
        return self.likelihood.kernel(self.epsilon)

    def side(self, t: int) -> Small:
        """Return the problem as it looks from side t."""
        if t == 0:
            return self
        return self._replace(Y=self.Y.T, observed=self.observed.T, A=self.X, X=self.A)


def make_small(
    likelihood: str, seed: int, complete: bool, epsilon: float, shape: tuple[int, int], K: int,
    zeros: float = 0.3,
) -> Small:  # fmt: skip
    rng = np.random.default_rng(seed)
    family = LIKELIHOODS[likelihood]()
    A, X = (np.where(rng.random((n, K)) < 0.6, rng.exponential(size=(n, K)), 0.0) for n in shape)
    # Loadings over five orders of magnitude make λ cancel; some columns are empty.
    A = A * 10.0 ** rng.uniform(-4, 1, K)
    X[:, rng.random(K) < 0.2] = 0.0
    Y = family.simulate(rng, A @ X.T + epsilon)
    Y = np.where(rng.random(shape) < zeros, 0.0, Y)
    observed = np.ones(shape, bool)
    if not complete:
        observed = rng.random(shape) < 0.6
        observed[rng.random(shape[0]) < 0.3] = False
        observed[0, 0] = False
    data = Observations.from_matrix(np.where(observed, Y, np.nan), "observed", scale=1.0)
    return Small(family, epsilon, Y, observed, A, X, data)


SMALL = st.builds(
    make_small,
    likelihood=st.sampled_from(sorted(LIKELIHOODS)),
    seed=st.integers(0, 10**6),
    complete=st.booleans(),
    epsilon=st.sampled_from([1e-8, 1e-3, 0.5]),
    shape=st.tuples(st.integers(1, 4), st.integers(1, 5)),
    K=st.integers(1, 4),
)


# As documents are: most of many cells are zero.
WIDE = st.builds(
    make_small,
    likelihood=st.just("exponential"),
    seed=st.integers(0, 10**6),
    complete=st.just(True),
    epsilon=st.sampled_from([1e-3, 0.5]),
    shape=st.tuples(st.integers(1, 2), st.sampled_from([40, 200, 900])),
    K=st.integers(1, 3),
    zeros=st.sampled_from([0.94, 0.99]),
)


def opened(small: Small, i: int) -> tuple[Row, Lists]:
    """Open row i of the first side."""
    data = small.observations
    lists = list_entries(small.X, True)
    row = new_row(data.side(0), data.is_complete, *small.X.shape)
    open_row(small.kernel, row, data.side(0), data.is_complete, small.A, small.X, lists, i)
    return row, lists


def taken(small: Small, i: int, k: int):
    """Open row i of the first side and take entry k out."""
    row, lists = opened(small, i)
    complete = small.observations.is_complete
    return take_entry(small.kernel, row, complete, small.A, small.X, lists, i, k), row, lists
