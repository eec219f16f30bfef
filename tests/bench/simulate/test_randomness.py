"""Numbers from counters are uniform, repeatable, and of no relation between streams."""

from __future__ import annotations

import numpy as np

from bench.simulate.randomness import (
    GOLDEN,
    LOSSES,
    STREAMS,
    TABLES,
    chance32,
    chance64,
    derived,
    draw,
    sequence,
    stream_keys,
)


def draws(
    stream: int, processes: int, seed: int = 1
) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    key = stream_keys(seed, 0)[stream]
    starts = np.array([sequence(key, np.uint64(p)) for p in range(processes)], np.uint64)
    return np.array([draw(place) for place in starts + GOLDEN], np.float64) / 2**32


def test_draws_are_uniform() -> None:
    found = np.histogram(draws(LOSSES, 20_000), bins=20, range=(0, 1))[0]
    assert ((found - 1000) ** 2 / 1000).sum() < 45  # chi-square, 19 degrees of freedom, p < 0.001


def test_tables_and_losses_of_equal_seeds_are_unrelated() -> None:
    tables, losses = draws(TABLES, 20_000), draws(LOSSES, 20_000)
    assert abs(np.corrcoef(tables, losses)[0, 1]) < 4 / np.sqrt(20_000)


def test_keys_differ_between_streams_parts_and_seeds() -> None:
    keys = np.concatenate([stream_keys(seed, part) for seed in range(20) for part in range(5)])
    assert len(np.unique(keys)) == 20 * 5 * STREAMS


def test_derived_seeds_differ_and_repeat() -> None:
    seeds = {derived(seed, part) for seed in (-1, 0, 1, 2**70 + 7) for part in range(1000)}
    assert len(seeds) == 4000
    assert derived(5, 1, 2) == derived(5, 1, 2) != derived(5, 2, 1)


def test_chances_at_their_limits() -> None:
    assert (int(chance32(0)), int(chance32(1)), int(chance64(0))) == (0, 1 << 32, 0)
    assert int(chance64(1)) == (1 << 64) - 1
    assert int(chance32(0.15)) == round(0.15 * 2**32)
