"""The paper's data sets, and synthetic matrices whose truth is known."""

from dibpnmf.datasets._archives import BadArchiveError
from dibpnmf.datasets._documents import fetch_citeseer, fetch_cora
from dibpnmf.datasets._movielens import Ratings, fetch_movielens_100k
from dibpnmf.datasets.synthetic import make_binary, make_planted

__all__ = [
    "BadArchiveError",
    "Ratings",
    "fetch_citeseer",
    "fetch_cora",
    "fetch_movielens_100k",
    "make_binary",
    "make_planted",
]
