"""Sets of numbers as marks and exceptions behave like sets."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from pubsub.topic_broadcast.garbage import Garbage
from pubsub.topic_broadcast.numbers import FARTHEST, Numbers

SOME = st.lists(st.integers(1, 60), max_size=60)


@settings(deadline=None)
@given(SOME, st.integers(0, 30), SOME)
def test_numbers_are_a_set(added: list[int], mark: int, above: list[int]) -> None:
    numbers = Numbers()
    reference: set[int] = set()
    for number in added:
        assert numbers.add(number) == (number not in reference)
        reference.add(number)
    more = {*range(1, mark + 1), *above}
    assert numbers.update(mark, above) == bool(more - reference)
    reference |= more
    assert [n for n in range(1, 70) if n in numbers] == sorted(reference)
    assert numbers.missing_until(65) == sorted(set(range(1, 66)) - reference)
    assert numbers == Numbers(*numbers.wire())
    assert numbers.mark + 1 not in numbers


def test_a_number_that_is_too_far_is_not_believed() -> None:
    numbers = Numbers(5)
    assert not numbers.add(6 + FARTHEST)
    assert not numbers.update(0, [6 + FARTHEST])
    assert numbers.wire() == (5, ())


def test_at_most_so_many_are_remembered_one_by_one() -> None:
    numbers = Numbers(0, range(10, 20))
    numbers.remember_at_most(9)
    assert numbers.wire() == (19, ())


@settings(deadline=None)
@given(SOME, SOME)
def test_garbage_is_a_set_whatever_order_it_is_collected_in(
    mine: list[int], theirs: list[int]
) -> None:
    garbage, other = Garbage(), Garbage()
    for number in mine:
        garbage.collect(number)
    for number in theirs:
        other.collect(number)
    assert [n for n in range(1, 70) if n in garbage] == sorted(set(mine))
    garbage.learn(*other.wire())
    assert [n for n in range(1, 70) if n in garbage] == sorted({*mine, *theirs})
    garbage.learn(*other.wire())
    assert [n for n in range(1, 70) if n in garbage] == sorted({*mine, *theirs})
