"""Rows of tables: different processes, never oneself, everyone as likely as anyone."""

from __future__ import annotations

import numpy as np
import pytest

from bench.simulate.randomness import LOSSES, TABLES, chance32, stream_keys
from bench.simulate.rounds import drop, fill_sliced
from bench.simulate.tables import LANES, draw_row, select_row, slice_width

KEYS = stream_keys(7, 0)


def row(size: int, count: int, who: int) -> list[int]:
    block = np.zeros((max(count, 1), LANES), np.uint32)
    drawn = draw_row(block, 0, count, KEYS[TABLES], who, who + 1, size - 1, size)
    return [int(target) for target in block[:drawn, 0]]


@pytest.mark.parametrize(("size", "count"), [(2, 1), (10, 7), (100, 9), (1000, 11), (100_000, 16)])
def test_a_row_names_different_others(size: int, count: int) -> None:
    for who in (0, 1, size // 2, size - 1):
        found = row(size, count, who)
        assert len(found) == count == len(set(found))
        assert who not in found
        assert all(0 <= target < size for target in found)


@pytest.mark.parametrize("count", [9, 10, 50])
def test_a_row_that_takes_all_names_all_others(count: int) -> None:
    assert sorted(row(10, count, 4)) == [0, 1, 2, 3, 5, 6, 7, 8, 9]


def test_an_empty_row_and_a_group_of_one() -> None:
    assert row(10, 0, 4) == []
    assert row(1, 3, 0) == []


@pytest.mark.parametrize(("size", "count"), [(60, 9), (1000, 11)])
def test_everyone_is_in_as_many_tables_as_chance_has_it(size: int, count: int) -> None:
    assert (slice_width(count, size - 1) > 0) == (size == 1000)
    known = np.zeros(size)
    for who in range(size):
        known[row(size, count, who)] += 1
    assert known.sum() == size * count
    # In-degrees are binomial: the variance is that of size - 1 trials of probability count / (size - 1).
    expected = count * (1 - count / (size - 1))
    assert known.var() == pytest.approx(expected, rel=4 * np.sqrt(2 / size))


def test_no_place_in_the_window_is_preferred() -> None:
    distances = [(target - who) % 60 for who in range(60) for target in row(60, 9, who)]
    found = np.bincount(distances, minlength=60)[1:]
    expected = 60 * 9 / 59
    assert ((found - expected) ** 2 / expected).sum() < 95  # chi-square, 58 degrees, p < 0.002


def test_drawing_lanes_at_once_gives_the_same_rows_and_losses() -> None:
    size, count = 5000, 13
    senders = np.array([0, 17, 4999, 2500, 3], np.uint32)
    loss = chance32(0.15)
    one = np.zeros((count, LANES), np.uint32)
    for lane, who in enumerate(senders.tolist()):
        draw_row(one, lane, count, KEYS[TABLES], who, who + 1, size - 1, size)
    left = drop(one, senders, count, size, KEYS[LOSSES], loss)
    other = np.zeros((count, LANES), np.uint32)
    width, words = slice_width(count, size - 1), np.zeros(3 * LANES, np.uint64)
    fill_sliced(other, senders, count, width, size, KEYS[TABLES], KEYS[LOSSES], loss, words)
    lanes = len(senders)
    assert (one[:, :lanes] == other[:, :lanes]).all()
    assert left == (other[:, :lanes] != size).sum() < count * lanes


def test_a_selection_from_a_view_takes_different_entries_of_it() -> None:
    view = np.arange(100, 120, dtype=np.uint32)
    block, room = np.zeros((30, LANES), np.uint32), np.zeros(20, np.uint32)
    chosen = np.zeros(20)
    for who in range(2000):
        assert select_row(block, 2, 5, KEYS[TABLES], who, view, room) == 5
        found = block[:5, 2].tolist()
        assert len(set(found)) == 5
        chosen[np.array(found) - 100] += 1
    assert ((chosen - 500) ** 2 / 500).sum() < 45
    assert select_row(block, 0, 30, KEYS[TABLES], 1, view, room) == 20
    assert sorted(block[:20, 0].tolist()) == view.tolist()
