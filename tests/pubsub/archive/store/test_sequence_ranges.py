"""Sets of numbers as spans behave as sets."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given, settings
from hypothesis import strategies as st

from pubsub.archive.store import SequenceRanges

numbers = st.integers(min_value=0, max_value=40)
steps = st.lists(st.tuples(st.sampled_from(["add", "remove", "forget"]), numbers, numbers))


@settings(deadline=None)
@given(steps)
def test_they_are_sets_of_numbers_in_few_spans(steps: list[tuple[str, int, int]]) -> None:
    ranges, plain = SequenceRanges(), set[int]()
    for step, first, last in steps:
        if step == "add":
            ranges.add(first, last)
            plain |= set(range(first, last + 1))
        elif step == "remove":
            ranges.remove(first, last)
            plain -= set(range(first, last + 1))
        else:
            ranges.forget_to(first)
            plain = {number for number in plain if number > first}
    assert list(ranges) == sorted(plain)
    assert len(ranges) == len(plain)
    spans = ranges.spans()
    assert all(a.last + 1 < b.first for a, b in pairwise(spans))
    assert all((number in ranges) == (number in plain) for number in range(42))
    assert ranges == SequenceRanges.of(plain)


@settings(deadline=None)
@given(st.sets(numbers), numbers)
def test_a_run_ends_where_the_first_number_is_missing(plain: set[int], first: int) -> None:
    end = first - 1
    while end + 1 in plain:
        end += 1
    assert SequenceRanges.of(plain).end_of_run(first) == end
