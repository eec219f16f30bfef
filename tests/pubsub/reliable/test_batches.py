"""Items are cut into lists by bytes and by number: none is lost, none too large unless one item is."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pubsub.reliable.batches import batches
from tests.pubsub.reliable.mutants import assert_noticed

Cut = Callable[..., Iterator[list[int]]]


def check(cut: Cut, sizes: list[int], most_bytes: int, most: int | None) -> None:
    lists = [list(batch) for batch in cut(sizes, lambda size: size, most_bytes, most)]
    assert [size for batch in lists for size in batch] == sizes
    for batch in lists:
        assert batch, "no list is empty"
        assert sum(batch) <= most_bytes or len(batch) == 1
        assert most is None or len(batch) <= most
    for batch, following in pairwise(lists):
        fits = sum(batch) + following[0] <= most_bytes
        assert not fits or len(batch) == most, "a list takes what fits"


@given(
    st.lists(st.integers(0, 50), max_size=60), st.integers(1, 100), st.none() | st.integers(1, 9)
)
def test_lists_hold_everything_in_order_and_keep_to_their_bounds(
    sizes: list[int], most_bytes: int, most: int | None
) -> None:
    check(batches, sizes, most_bytes, most)


def _forgets_the_last(items, size_of, most_bytes, most=None):  # type: ignore[no-untyped-def]
    lists = list(batches(items, size_of, most_bytes, most))
    yield from lists[:-1]


def _counts_the_next_list_from_nothing(items, size_of, most_bytes, most=None):  # type: ignore[no-untyped-def]
    batch, size = [], 0
    for item in items:
        more = size_of(item)
        if batch and (size + more > most_bytes or len(batch) == most):
            yield batch
            batch, more = [], 0
            size = 0
        batch.append(item)
        size += more
    if batch:
        yield batch


def _drops_what_is_too_large(items, size_of, most_bytes, most=None):  # type: ignore[no-untyped-def]
    small = [item for item in items if size_of(item) <= most_bytes]
    yield from batches(small, size_of, most_bytes, most)


def _ignores_the_number(items, size_of, most_bytes, most=None):  # type: ignore[no-untyped-def]
    yield from batches(items, size_of, most_bytes)


def _one_in_each(items, size_of, most_bytes, most=None):  # type: ignore[no-untyped-def]
    yield from ([item] for item in items)


@pytest.mark.parametrize(
    "broken",
    [
        _forgets_the_last,
        _counts_the_next_list_from_nothing,
        _drops_what_is_too_large,
        _ignores_the_number,
        _one_in_each,
    ],
)
def test_mutants_are_noticed(broken: Cut) -> None:
    def play(chance: random.Random) -> None:
        sizes = [chance.randint(0, 50) for _ in range(chance.randint(0, 40))]
        check(broken, sizes, chance.randint(1, 100), chance.choice([None, 1, 3, 9]))

    assert_noticed(play)
