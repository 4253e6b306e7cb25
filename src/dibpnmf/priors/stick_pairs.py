"""Sticks that come in pairs: the part shared by the bivariate beta and the copula prior."""

from __future__ import annotations

from abc import abstractmethod
from typing import NamedTuple

import numpy as np

from dibpnmf.priors.base import Floats, Prior, positive_log_density
from dibpnmf.priors.pair_density import PairState, extend, log_odds_of_sticks, log_pair
from dibpnmf.priors.pair_literal import update_literal
from dibpnmf.priors.pair_moves import update
from dibpnmf.random import Stream


class PairedSticksPrior(Prior[PairState]):
    """A prior of stick pairs; its file adds the pair's density, its draw and the θ update."""

    @abstractmethod
    def _start_theta(self, s: Stream) -> list[float]:
        """Fixed or drawn values of θ."""

    def init(self, s: Stream, K: int) -> PairState:
        """Draw θ and K stick pairs from the prior."""
        return self.grow(s, PairState(np.empty((2, 0)), np.array(self._start_theta(s))), K)

    def grow(self, s: Stream, state: PairState, K: int) -> PairState:
        """Append stick pairs drawn from the prior until there are K."""
        log_nu = np.empty((2, K))
        start = state.log_nu.shape[1]
        log_nu[:, :start] = state.log_nu
        extend(s, self.theta_tuple(state.theta), state.theta, log_nu, start)
        return PairState(log_nu, state.theta.copy())

    def log_odds(self, state: PairState) -> Floats:
        """Log odds of a mask entry: π = μ."""
        return log_odds_of_sticks(state.log_nu)

    def update(self, s: Stream, state: PairState, counts: Floats, sizes: Floats) -> PairState:
        """Slice-sample θ and every stick, masks of unseen columns summed out."""
        return self._run(update, s, state, counts, sizes)

    def update_literal(
        self, s: Stream, state: PairState, counts: Floats, sizes: Floats
    ) -> PairState:
        """Algorithms 2 and 3: θ, then Metropolis-Hastings for μ (Z and V follow)."""
        return self._run(update_literal, s, state, counts, sizes)

    def _run(self, kernel, s, state, counts, sizes) -> PairState:  # type: ignore[no-untyped-def]
        new = PairState(state.log_nu.copy(), state.theta.copy())
        kind = self.theta_tuple(new.theta)
        kernel(s, kind, new, counts, sizes, self._learned, self._hypers)
        return new

    def log_density(self, state: PairState) -> float:
        """Log density of θ and of the sticks as log ν."""
        value = self._theta_log_density(state.theta)
        for x, y in state.log_nu.T:
            value += log_pair(self.theta_tuple(state.theta), x, y)
        return value

    @abstractmethod
    def theta_tuple(self, theta: Floats) -> NamedTuple:
        """Make the NamedTuple that `log_pair` is resolved by."""

    def _theta_log_density(self, theta: Floats) -> float:
        """Log hyper-prior of the margins; a prior with more parameters adds theirs."""
        rows = zip(theta[:2].tolist(), self._fixed_theta()[:2], self._hyper(), strict=True)
        return sum(positive_log_density(value, fixed, *hyper) for value, fixed, hyper in rows)
