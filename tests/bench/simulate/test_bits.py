"""64 repetitions as the bits of a word: chances and counts."""

from __future__ import annotations

import numpy as np
import pytest

from bench.simulate.bits import (
    ALL,
    PLANES,
    chosen,
    counts,
    draw_masks,
    mask_digits,
    tally,
    tally_row,
    tally_times,
)
from bench.simulate.randomness import chance64
from tests.bench.simulate.statistics import assert_share


def ones(words: object) -> int:
    return int(np.unpackbits(np.asarray(words, np.uint64).view(np.uint8)).sum())


@pytest.mark.parametrize("chance", [0.15, 0.5, 0.003, 0.97])
def test_bits_are_kept_with_their_chance(chance: float) -> None:
    place, words = np.uint64(1), []
    for _ in range(2000):
        kept, at = chosen(ALL, place, chance64(chance))
        place = np.uint64(at)
        words.append(kept)
    assert_share(ones(words), 64 * 2000, chance)


def test_only_given_bits_are_kept_and_all_or_none_at_the_limits() -> None:
    among = np.uint64(0b1011)
    for place in range(50):
        assert int(chosen(among, np.uint64(place), chance64(0.5))[0]) & ~0b1011 == 0
    assert int(chosen(among, np.uint64(3), chance64(0))[0]) == 0
    assert int(chosen(among, np.uint64(3), chance64(1))[0]) == 0b1011


@pytest.mark.parametrize("chance", [0.15, 0.5, 0.01, 0.99])
def test_masks_have_their_chance_in_every_word_and_bit(chance: float) -> None:
    masks, states = np.zeros(16, np.uint64), np.zeros(16, np.uint64)
    found = np.zeros((14, 64), np.int64)
    for place in range(1000):
        draw_masks(masks, 14, np.uint64(place * 977), mask_digits(chance), states)
        bits = np.unpackbits(masks[:14].view(np.uint8), bitorder="little").reshape(14, 64)
        found += bits
    assert_share(int(found.sum()), 14 * 64 * 1000, chance)
    expected = 1000 * chance
    chi_square = ((found - expected) ** 2 / (expected * (1 - chance))).sum()
    assert chi_square < 14 * 64 + 4 * np.sqrt(2 * 14 * 64)


def test_masks_at_the_limits() -> None:
    masks, states = np.zeros(8, np.uint64), np.zeros(8, np.uint64)
    draw_masks(masks, 5, np.uint64(1), mask_digits(1), states)
    assert ones(masks[:5]) == 5 * 64
    draw_masks(masks, 5, np.uint64(1), mask_digits(0), states)
    assert ones(masks[:5]) == 0


@pytest.mark.parametrize("length", [0, 1, 3, 4, 15, 28, 29, 100])
def test_all_ways_of_counting_agree(length: int) -> None:
    words = np.random.default_rng(length).integers(0, 1 << 63, length, dtype=np.uint64)
    expected = [sum(int(word) >> bit & 1 for word in words) for bit in range(64)]
    single, row = np.zeros(PLANES, np.uint64), np.zeros(PLANES, np.uint64)
    padded = np.concatenate([words, np.full(4, ALL)])  # what lies behind is not counted
    for word in words:
        tally(single, word)
    for _ in range(3):
        tally_row(row, padded.copy(), length)
    assert counts(single).tolist() == expected
    assert counts(row).tolist() == [3 * count for count in expected]


def test_counting_several_times_at_once() -> None:
    planes = np.zeros(PLANES, np.uint64)
    tally_times(planes, np.uint64(0b101), 21)
    tally_times(planes, np.uint64(0b100), 1000)
    assert counts(planes)[:4].tolist() == [21, 0, 1021, 0]
