"""What moves of factors choose from: numbers that are kept up to date equal those counted anew."""

from __future__ import annotations

import numpy as np
import pytest

from dibpnmf.inference.factors import casts, loans
from dibpnmf.inference.factors.board import Board, Room, list_seen, note, open_to

M, N, K = 3, 4, 7


def random_board(seed: int) -> tuple[Board, Room, int]:
    """A board with few rows, so that rows of many factors are alike, and its seen columns."""
    rng = np.random.default_rng(seed)
    Y = np.where(rng.random((M, N)) < 0.3, 0.0, 1.0)
    A, X = ((rng.random((n, K)) < 0.5).astype(float) for n in (M, N))
    A[:, -1] = 0.0  # a column for a new factor
    bits = np.zeros((4, K + 2), np.uint64)
    for i in range(M):
        bits[0, i] = sum(1 << int(n) for n in np.flatnonzero(Y[i]))
    odds, slabs, counts = np.zeros((2, K)), np.ones((2, K, 3)), np.zeros((2, K))
    board = Board(Y, A, X, *odds, *slabs, *counts, *bits, np.arange(K), 0)
    whole, numbers = np.zeros((4, K + 2), np.int64), np.zeros((8, K + 2))
    room = Room(
        *whole, np.zeros((K * K, 2), np.int64), numbers[0], np.zeros((M, N)), numbers[1],
        numbers[2], numbers[3:6], numbers[6], np.exp(0.5 * np.arange(K + 2)),
    )  # fmt: skip
    for k in range(K):
        note(board, k)
    return board, room, list_seen(board, room)


@pytest.mark.parametrize("seed", range(40))
def test_loans_after_one(seed):
    board, room, n_seen = random_board(seed)
    rng = np.random.default_rng(seed)
    before = loans.list_loans(board, room, n_seen)
    for f, g in room.loans[:before].copy():
        own, cells, is_open = board.own_bits[f], board.other_bits[g], board.open_bits[f]
        count = before - loans._count_touched(board, room, n_seen, f, g)
        board.own_bits[f] = own ^ board.own_bits[g]
        board.open_bits[f] = open_to(board, board.own_bits[f])
        board.other_bits[g] = rng.integers(1, 2**N)
        count += loans._count_touched(board, room, n_seen, f, g)
        assert count == loans.list_loans(board, room, n_seen)
        board.own_bits[f], board.other_bits[g], board.open_bits[f] = own, cells, is_open


@pytest.mark.parametrize("is_pair", [True, False])
@pytest.mark.parametrize("seed", range(40))
def test_ways_to_end_a_factor_beside_a_new_one(seed, is_pair):
    board, room, n_seen = random_board(seed)
    f = K - 1
    before = casts._choose_end(board, room, n_seen, is_pair, -1)[0]
    for rows in range(1, 2**M):
        with_f = casts._ends_with(board, room, n_seen, f, np.uint64(rows), is_pair)
        board.own_bits[f], room.seen[n_seen] = rows, f
        assert before + with_f == casts._choose_end(board, room, n_seen + 1, is_pair, -1)[0]


@pytest.mark.parametrize("seed", range(10))
def test_weight_of_pairs_without_a_factor(seed):
    board, room, n_seen = random_board(seed)
    total = casts._choose_pair(board, room, n_seen, -1.0)[0]
    for at in range(n_seen):
        seen = room.seen.copy()
        of_f = casts._pair_weight_of(board, room, n_seen, seen[at])
        room.seen[at : n_seen - 1] = seen[at + 1 : n_seen]
        others = casts._choose_pair(board, room, n_seen - 1, -1.0)[0]
        np.testing.assert_allclose(total - of_f, others, rtol=1e-12, atol=1e-12)
        room.seen[:] = seen
