from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse

from dibpnmf import metrics

labellings = st.integers(1, 25).flatmap(
    lambda n: st.tuples(*[st.lists(st.integers(0, 4), min_size=n, max_size=n)] * 2)
)


def slow_pair_counts(true, pred):
    """Count over all pairs of points: the definition."""
    together = [
        (true[i] == true[j], pred[i] == pred[j]) for i, j in combinations(range(len(true)), 2)
    ]
    return tuple(together.count(kind) for kind in ((True, True), (True, False), (False, True)))


@given(labellings)
def test_pair_counts_are_those_over_all_pairs(labels):
    counts = metrics.pair_counts(*labels)
    assert counts == slow_pair_counts(*labels)
    assert all(type(count) is int for count in counts)


@given(labellings)
def test_scores_are_the_papers_formulas(labels):
    a, b, c = slow_pair_counts(*labels)
    if a == 0:
        expected = (1.0,) * 3 if b == c == 0 else (0.0,) * 3
    else:
        expected = (
            a / (a + b + c),
            (a / (a + b) * a / (a + c)) ** 0.5,
            2 * a**2 / (2 * a**2 + a * c + a * b),
        )
    scores = (metrics.jaccard_coefficient, metrics.fowlkes_mallows, metrics.pair_f1)
    assert [score(*labels) for score in scores] == pytest.approx(expected)


def test_pair_counts_of_a_million_points_are_exact():
    n = 10**6
    counts = metrics.pair_counts(np.zeros(n, int), np.arange(n) % 2)
    half = n // 2
    assert counts == (half * (half - 1), half * half, 0)


def test_labels_may_be_names():
    assert metrics.pair_counts(["x", "x", "y"], [0, 0, 0]) == (1, 0, 2)


@pytest.mark.parametrize(
    "score",
    [
        metrics.jaccard_coefficient,
        metrics.fowlkes_mallows,
        metrics.pair_f1,
        metrics.normalized_mutual_information,
        metrics.adjusted_rand_index,
    ],
)
class TestEveryClusteringScore:
    def test_is_one_for_renamed_clusters(self, score):
        assert score([0, 0, 1, 1, 2], ["b", "b", "a", "a", "c"]) == pytest.approx(1.0)

    def test_is_one_for_one_point(self, score):
        assert score([3], [7]) == 1.0

    @pytest.mark.parametrize(
        ("true", "pred", "message"),
        [
            ([0, 1], [0], "same points, got 2 and 1"),
            ([], [], "labels_true must be .* at least one"),
            ([0], [[0]], r"labels_pred must be a one-dimensional .* got shape \(1, 1\)"),
            ([0.0, 1.0], [0.0, np.nan], "labels_pred has 1 NaN"),
        ],
    )
    def test_says_what_is_wrong(self, score, true, pred, message):
        with pytest.raises(ValueError, match=message):
            score(true, pred)


class TestReconstructionError:
    rng = np.random.default_rng(0)
    A, X = rng.random((7, 3)), rng.random((5, 3))
    Y = rng.integers(0, 2, (7, 5)).astype(float)

    @pytest.mark.parametrize("block", [1, 12, 10**6])
    @pytest.mark.parametrize("kind", [np.asarray, np.ndarray.tolist, sparse.csr_array])
    def test_is_the_sum_over_entries(self, monkeypatch, block, kind):
        monkeypatch.setattr(metrics, "_CELLS_PER_BLOCK", block)
        expected = np.abs(self.Y - self.A @ self.X.T).sum()
        assert metrics.reconstruction_error(kind(self.Y), self.A, self.X) == pytest.approx(expected)

    @pytest.mark.parametrize("layout", [sparse.coo_array, sparse.csc_matrix, sparse.lil_array])
    def test_takes_any_sparse_layout(self, layout):
        dense = metrics.reconstruction_error(self.Y, self.A, self.X)
        assert metrics.reconstruction_error(layout(self.Y), self.A, self.X) == pytest.approx(dense)

    def test_passes_over_missing_cells(self):
        holed = self.Y.copy()
        holed[2, 3] = np.nan
        missing = np.abs(self.Y - self.A @ self.X.T)[2, 3]
        total = metrics.reconstruction_error(self.Y, self.A, self.X)
        assert metrics.reconstruction_error(holed, self.A, self.X) == pytest.approx(total - missing)

    def test_refuses_shapes_that_do_not_fit(self):
        with pytest.raises(ValueError, match=r"Y has shape \(5, 7\)"):
            metrics.reconstruction_error(self.Y.T, self.A, self.X)
        with pytest.raises(ValueError, match="same number of columns"):
            metrics.reconstruction_error(self.Y, self.A, self.X.T)


def test_flexibility_is_the_mean_difference_of_supports():
    A = [[1.0, 0, 2], [3, 0, 0]]
    X = [[1.0, 1, 0], [0, 1, 0], [0, 1, 0]]
    assert metrics.flexibility(A, X) == pytest.approx((abs(2 - 1) + abs(0 - 3) + abs(1 - 0)) / 3)


def test_flexibility_without_factors_is_zero():
    assert metrics.flexibility(np.empty((4, 0)), np.empty((3, 0))) == 0.0


def test_flexibility_needs_matching_columns():
    with pytest.raises(ValueError, match=r"got shapes \(2, 3\) and \(3, 2\)"):
        metrics.flexibility(np.ones((2, 3)), np.ones((3, 2)))


def test_rating_errors_by_hand():
    true, pred = [1, 2, 3, 4], [1, 4, 3, 3]
    assert metrics.mean_absolute_error(true, pred) == 0.75
    assert metrics.total_absolute_error(true, pred) == 3.0
    assert metrics.root_mean_squared_error(true, pred) == pytest.approx(1.25**0.5)


@pytest.mark.parametrize(
    "error",
    [
        metrics.mean_absolute_error,
        metrics.total_absolute_error,
        metrics.root_mean_squared_error,
    ],
)
@pytest.mark.parametrize(
    ("true", "pred", "message"),
    [
        ([1.0, 2.0], [1.0], r"shapes \(2,\) and \(1,\)"),
        ([], [], "at least one value"),
        ([1.0], [np.nan], "y_pred must be finite, got 1"),
        ([np.inf, np.nan], [1.0, 1.0], "y_true must be finite, got 2"),
    ],
)
def test_rating_errors_say_what_is_wrong(error, true, pred, message):
    with pytest.raises(ValueError, match=message):
        error(true, pred)
