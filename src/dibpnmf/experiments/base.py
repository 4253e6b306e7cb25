"""What every experiment offers: pieces of work, and what is read off them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from dibpnmf.experiments.claims import Claim
from dibpnmf.experiments.pieces import Outcome, Piece

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# The paper's names of the models, by the name of the prior.
MODELS = {
    "bivariate-beta": "BB-dIBP-NMF",
    "copula": "C-dIBP-NMF",
    "gaussian-process": "GP-dIBP-NMF",
}

Results = dict[str, Any]


@dataclass(frozen=True)
class Settings:
    """What a user chose.

    Attributes
    ----------
    quick : bool
        Small sizes, to see that everything works and what it looks like.
    seed : int
        First of the seeds that are used.
    folds : tuple of int
        Folds of MovieLens.
    """

    quick: bool = False
    seed: int = 0
    folds: tuple[int, ...] = (1, 2, 3, 4, 5)

    def choose(self, full: Any, quick: Any) -> Any:
        """One of two sizes."""
        return quick if self.quick else full


class Experiment(ABC):
    """One experiment of the paper.

    Results are made of the outcomes of the pieces; claims, figures and tables of the results
    alone, which are written as JSON.
    """

    name: ClassVar[str]
    title: ClassVar[str]
    about: ClassVar[str]

    def check_data(self) -> None:
        """Raise OSError or ValueError if data that the experiment needs cannot be had."""
        return None

    @abstractmethod
    def sizes(self, settings: Settings) -> dict[str, Any]:
        """Sizes of the runs, for the record."""

    @abstractmethod
    def pieces(self, settings: Settings) -> list[Piece]:
        """All work of the experiment."""

    @abstractmethod
    def results(self, settings: Settings, outcomes: list[Outcome]) -> Results:
        """Summarise what the pieces gave."""

    @abstractmethod
    def claims(self, results: Results) -> list[Claim]:
        """Hold the paper's claims against the results."""

    @abstractmethod
    def figures(self, results: Results) -> dict[str, Figure]:
        """Figures by file name (without ending), in the paper's layout."""

    def tables(self, results: Results) -> str:
        """Further Markdown for the page of the experiment."""
        return ""


def select(outcomes: Iterable[Outcome], **match: Any) -> list[Any]:
    """Values of the outcomes whose parameters match."""
    return [
        outcome.value
        for outcome in outcomes
        if all(outcome.parameters.get(key) == value for key, value in match.items())
    ]
