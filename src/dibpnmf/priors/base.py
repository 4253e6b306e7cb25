"""What every dependent Indian Buffet Process prior offers to the samplers.

The samplers see a prior only through the log odds of a mask entry being on, one number per
side and column, and give back only the column counts of the masks: K-sized summaries.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any, ClassVar, Generic, NamedTuple, Self, TypeVar

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from dibpnmf.random import Stream, gamma

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
State = TypeVar("State", bound=NamedTuple)


@dataclass(frozen=True)
class Prior(ABC, Generic[State]):
    """A dependent IBP prior: a frozen set of hyper-parameters with updates of its state.

    A state is a NamedTuple of arrays whose ``theta`` field holds the parameters in
    ``theta_names`` order. Each parameter is either fixed at a value or learned under a gamma
    (for a correlation: uniform) hyper-prior.
    """

    name: ClassVar[str]
    theta_names: ClassVar[tuple[str, ...]]

    @classmethod
    def from_params(cls, params: Mapping[str, Any] | None) -> Self:
        """Make the prior from a user's ``prior_params``, with errors that say what is taken."""
        given = dict(params or {})
        known = [field.name for field in fields(cls)]
        for key in given:
            if key not in known:
                raise ValueError(
                    f"prior_params has the key {key!r}, which the prior {cls.name!r} does not "
                    f"have; it takes {', '.join(known)}."
                )
        return cls(**given)

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if value is None and field.default is None:
                continue
            self._check_value(field.name, value)
            object.__setattr__(self, field.name, float(value))

    def _check_value(self, key: str, value: object) -> None:
        """Refuse what is not a positive finite number; overridden for other ranges."""
        require_number(key, value)
        if not 0.0 < float(value) < math.inf:  # type: ignore[arg-type]
            raise ValueError(
                f"prior_params[{key!r}] must be a positive finite number; got {value!r}."
            )

    def _fixed_theta(self) -> list[float | None]:
        """Fixed values of θ, None where learned."""
        return []

    def _hyper(self) -> list[list[float]]:
        """Shape and rate of the gamma hyper-priors of the first two parameters."""
        return []

    @cached_property
    def _learned(self) -> NDArray[np.bool_]:
        return np.array([value is None for value in self._fixed_theta()])

    @cached_property
    def _hypers(self) -> Floats:
        return np.array(self._hyper())

    @abstractmethod
    def init(self, s: Stream, K: int) -> State:
        """Draw θ and K sticks from the prior."""

    @abstractmethod
    def grow(self, s: Stream, state: State, K: int) -> State:
        """Append sticks drawn from the prior until there are K."""

    @abstractmethod
    def log_odds(self, state: State) -> Floats:
        """Log π/(1−π) of a mask entry, shape (2, K): all that the row kernels see."""

    @abstractmethod
    def update(self, s: Stream, state: State, counts: Floats, sizes: Floats) -> State:
        """One exact move of sticks and θ given the column counts (2, K) of the masks.

        ``sizes`` (2,) tells out of how many entries they are counted. Where a count is 0, the
        masks of both sides are summed out over all that leave a side of the column empty.
        """

    def exchange(self, s: Stream, state: State, counts: Floats, order: Ints) -> None:
        """Exchange columns with their π, where the prior allows for that; all in place.

        ``order[k]`` is the column that moves to k, and ``counts`` are those of the masks then.
        """

    @abstractmethod
    def update_literal(self, s: Stream, state: State, counts: Floats, sizes: Floats) -> State:
        """The paper's own moves of sticks and θ, word for word where they are valid."""

    @abstractmethod
    def log_density(self, state: State) -> float:
        """Log density of the state: hyper-prior of θ, and sticks as log ν."""

    def inclusion(self, state: State) -> Floats:
        """Probability π of a mask entry being on, shape (2, K)."""
        return expit(self.log_odds(state))

    def theta(self, state: State) -> dict[str, float]:
        """Parameters by name."""
        return dict(zip(self.theta_names, state.theta.tolist(), strict=True))  # type: ignore[attr-defined]


def require_number(key: str, value: object) -> None:
    """Refuse a hyper-parameter that is not a real number."""
    if isinstance(value, bool) or not isinstance(value, (int, float, np.integer, np.floating)):
        raise TypeError(f"prior_params[{key!r}] must be a number; got {value!r}.")


def start_value(s: Stream, fixed: float | None, hyper: list[float]) -> float:
    """Return the fixed value of a positive parameter, or a draw from its hyper-prior."""
    return fixed if fixed is not None else max(gamma(s, *hyper), 1e-300)


def positive_log_density(value: float, fixed: float | None, shape: float, rate: float) -> float:
    """Log of the Gamma(shape, rate) hyper-prior density; a fixed value contributes nothing."""
    if fixed is not None:
        return 0.0
    constant = shape * math.log(rate) - math.lgamma(shape)
    return constant + (shape - 1.0) * math.log(value) - rate * value
