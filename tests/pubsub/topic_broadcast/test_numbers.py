"""Sets of numbers as a mark and ranges behave like sets, however large they are."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from pubsub.topic_broadcast.numbers import MOST_RANGES, Numbers

SOME = st.lists(st.integers(1, 60), max_size=60)
RANGES = st.lists(
    st.tuples(st.integers(1, 60), st.integers(0, 9)).map(lambda pair: (pair[0], sum(pair))),
    max_size=12,
)


def members(numbers: Numbers) -> list[int]:
    return [number for number in range(1, 80) if number in numbers]


def all_in(ranges: list[tuple[int, int]]) -> set[int]:
    return {number for first, last in ranges for number in range(first, last + 1)}


@settings(deadline=None)
@given(SOME, st.integers(0, 30), RANGES)
def test_numbers_are_a_set(added: list[int], mark: int, ranges: list[tuple[int, int]]) -> None:
    numbers = Numbers()
    reference: set[int] = set()
    for number in added:
        assert numbers.add(number) == (number not in reference)
        reference.add(number)
    more = {*range(1, mark + 1), *all_in(ranges)}
    assert numbers.update(mark, ranges) == bool(more - reference)
    reference |= more
    assert members(numbers) == sorted(reference)
    assert numbers.highest == max(reference, default=0)
    assert numbers == Numbers(*numbers.wire())
    assert numbers.mark + 1 not in numbers
    ends = [numbers.mark, *(number for pair in numbers.wire()[1] for number in pair)]
    assert all(last + 1 < first for last, first in zip(ends[::2], ends[1::2], strict=False))


@settings(deadline=None)
@given(RANGES, RANGES)
def test_the_difference_of_two_sets(
    mine: list[tuple[int, int]], theirs: list[tuple[int, int]]
) -> None:
    difference = Numbers(0, mine).without(Numbers(0, theirs))
    assert all_in(difference) == all_in(mine) - all_in(theirs)
    assert difference == sorted(difference)


def test_a_set_of_numbers_without_end_costs_two_numbers() -> None:
    numbers = Numbers(3)
    assert numbers.add_range(5, 1 << 61)
    assert numbers.wire() == (3, ((5, 1 << 61),))
    assert Numbers(1 << 61).without(numbers) == [(4, 4)]
    assert numbers.add(4)
    assert numbers.wire() == (1 << 61, ())


def test_a_set_that_is_too_scattered_grows_where_it_has_grown_only() -> None:
    numbers = Numbers(0, ((2 * place, 2 * place) for place in range(1, MOST_RANGES + 1)))
    far = 2 * MOST_RANGES + 2
    assert not numbers.add(far)
    assert numbers.add(far - 1)
    assert numbers.add(1)
    assert numbers.mark == 2
    assert numbers.add(far + 8)


def test_at_most_so_many_ranges_are_remembered() -> None:
    numbers = Numbers(0, ((10, 19), (21, 21), (30, 39)))
    numbers.remember_at_most(2)
    assert numbers.wire() == (19, ((21, 21), (30, 39)))
