"""Sets of numbers behave like sets, cost what their holes cost, and broken ones are noticed."""

from __future__ import annotations

import random
from collections.abc import Callable
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pubsub.reliable.numbers import MOST_SPANS, Numbers, Span, spans_of
from tests.pubsub.reliable.mutants import assert_noticed

TOP = 40
Step = tuple[str, int, int]
ACTIONS = ("add", "span", "remove", "forget", "update", "give up")
STEPS = st.lists(
    st.tuples(st.sampled_from(ACTIONS), st.integers(-2, TOP), st.integers(-2, TOP)), max_size=40
)


def span(first: int, last: int) -> set[int]:
    return set(range(max(first, 1), last + 1))


def act(numbers: Numbers, plain: set[int], step: Step) -> set[int]:
    """Do one step with both, compare what is told, and return the plain set after it."""
    action, first, last = step
    if action == "add":
        assert numbers.add(first) == bool(span(first, first) - plain)
        return plain | span(first, first)
    if action == "span":
        assert numbers.add_span(first, last) == bool(span(first, last) - plain)
        return plain | span(first, last)
    if action == "remove":
        numbers.remove(first, last)
        return plain - span(first, last)
    if action == "forget":
        numbers.remove(1, first)
        return plain - span(1, first)
    if action == "update":
        new = span(1, first // 4) | span(first, last)
        assert numbers.update(first // 4, [(first, last)]) == bool(new - plain)
        return plain | new
    most = abs(first) % 4
    numbers.give_up_holes(most)
    above = [one for one in spans_of(sorted(plain)) if one.first > 1]
    if len(above) > most:
        plain = plain | span(1, above[len(above) - most - 1].last)
    return plain


def compare(numbers: Numbers, plain: set[int]) -> None:
    assert list(numbers) == sorted(plain)
    assert [one for one in range(-3, TOP + 3) if one in numbers] == sorted(plain)
    assert numbers.count == len(plain)
    assert bool(numbers) == bool(plain)
    assert numbers.highest == max(plain, default=0)
    assert numbers.mark + 1 not in numbers
    assert span(1, numbers.mark) <= plain
    assert all(a.last + 1 < b.first for a, b in pairwise(numbers.spans()))
    assert numbers.spans() == spans_of(sorted(plain))
    assert numbers == Numbers(*numbers.wire())
    assert {one for hole in numbers.holes(TOP) for one in range(hole[0], hole[1] + 1)} == (
        span(1, TOP) - plain
    )


def play(steps: list[Step], other: list[Step]) -> None:
    """What a set of numbers promises, over some steps."""
    numbers, plain = Numbers(), set[int]()
    for step in steps:
        plain = act(numbers, plain, step)
        compare(numbers, plain)
    theirs, plain_theirs = Numbers(), set[int]()
    for step in other:
        plain_theirs = act(theirs, plain_theirs, step)
    rest = numbers.without(theirs)
    assert rest.spans() == spans_of(sorted(plain - plain_theirs))
    assert rest == Numbers.of(plain - plain_theirs)


@settings(deadline=None, max_examples=150)
@given(STEPS, STEPS)
def test_they_are_sets_of_numbers(steps: list[Step], other: list[Step]) -> None:
    play(steps, other)


@settings(deadline=None)
@given(st.sets(st.integers(-5, 60)))
def test_spans_of_numbers_in_order(plain: set[int]) -> None:
    spans = spans_of(sorted(plain))
    assert [one for first, last in spans for one in range(first, last + 1)] == sorted(plain)
    assert all(a.last + 1 < b.first for a, b in pairwise(spans))


HUGE = st.integers(-(1 << 70), 1 << 70)


@settings(deadline=None)
@given(st.lists(st.tuples(HUGE, HUGE), max_size=50), st.integers(0, 8))
def test_whatever_a_peer_says_costs_no_more_than_the_bound(
    spans: list[tuple[int, int]], most: int
) -> None:
    """Huge, overlapping, empty and wrapping spans, and a bound of few spans."""
    numbers, roomy = Numbers(most=most), Numbers(most=None)
    for first, last in spans:
        numbers.add_span(first, last)
        roomy.add_span(first, last)
        assert numbers.span_count <= most
    assert not numbers.without(roomy)
    assert numbers.count <= roomy.count
    assert numbers.highest >= numbers.mark >= 0


def test_a_set_without_end_costs_two_numbers() -> None:
    numbers = Numbers(3)
    assert numbers.add_span(5, 1 << 80)
    assert numbers.wire() == (3, ((5, 1 << 80),))
    assert Numbers(1 << 80).without(numbers).spans() == ((4, 4),)
    assert numbers.add(4)
    assert numbers.wire() == (1 << 80, ())
    assert numbers.count == 1 << 80


def test_a_set_that_is_too_scattered_grows_where_it_has_grown_only() -> None:
    numbers = Numbers(0, ((2 * place, 2 * place) for place in range(1, MOST_SPANS + 1)))
    far = 2 * MOST_SPANS + 2
    assert not numbers.add(far)
    assert numbers.add(far - 1)
    assert numbers.add(1)
    assert numbers.mark == 2
    assert numbers.add(far + 8)


def test_the_oldest_holes_are_given_up() -> None:
    numbers = Numbers(0, ((10, 19), (21, 21), (30, 39)))
    numbers.give_up_holes(2)
    assert numbers.wire() == (19, ((21, 21), (30, 39)))
    assert numbers.spans()[0] == Span(1, 19)


# Broken sets, each of which the steps above must notice.


def touching_spans_stay_apart(patch: pytest.MonkeyPatch) -> None:
    def add(self: Numbers, number: int) -> bool:
        if number in self or number < 1:
            return False
        if number == self.mark + 1 and not self._firsts:
            self.mark = number
        else:
            place = sum(first < number for first in self._firsts)
            self._firsts.insert(place, number)
            self._lasts.insert(place, number)
        return True

    patch.setattr(Numbers, "add", add)


def the_mark_does_not_rise_over_spans(patch: pytest.MonkeyPatch) -> None:
    add_span = Numbers.add_span

    def add(self: Numbers, first: int, last: int) -> bool:
        if first <= self.mark + 1 <= last and self._firsts and self._firsts[0] == last + 1:
            self.mark = last
            return True
        return add_span(self, first, last)

    patch.setattr(Numbers, "add_span", add)


def a_number_that_is_there_counts_as_new(patch: pytest.MonkeyPatch) -> None:
    add_span = Numbers.add_span
    patch.setattr(
        Numbers, "add_span", lambda self, first, last: add_span(self, first, last) or first <= last
    )


def a_span_swallows_only_the_first_it_meets(patch: pytest.MonkeyPatch) -> None:
    def add(self: Numbers, first: int, last: int) -> bool:
        for place, (low, high) in enumerate(zip(self._firsts, self._lasts, strict=True)):
            if first <= high + 1 and last >= low - 1 and first > self.mark + 1:
                grew = first < low or last > high
                self._firsts[place], self._lasts[place] = min(low, first), max(high, last)
                return grew
        return add_span(self, first, last)

    add_span = Numbers.add_span
    patch.setattr(Numbers, "add_span", add)


def removing_below_the_mark_forgets_the_rest(patch: pytest.MonkeyPatch) -> None:
    remove = Numbers.remove

    def cut(self: Numbers, first: int, last: int | None = None) -> None:
        mark = self.mark
        remove(self, first, last)
        if self.mark < mark and self._firsts and self._lasts[0] == mark:
            del self._firsts[0], self._lasts[0]

    patch.setattr(Numbers, "remove", cut)


def removing_inside_a_span_cuts_its_end_off(patch: pytest.MonkeyPatch) -> None:
    remove = Numbers.remove

    def cut(self: Numbers, first: int, last: int | None = None) -> None:
        ends = [one.last for one in self.spans() if one.first <= first <= one.last]
        remove(self, first, max(first if last is None else last, *ends, 0))

    patch.setattr(Numbers, "remove", cut)


def the_difference_forgets_what_lies_behind_a_hole(patch: pytest.MonkeyPatch) -> None:
    without = Numbers.without
    patch.setattr(
        Numbers, "without", lambda self, other: Numbers(spans=without(self, other).spans()[:1])
    )


def numbers_below_one_are_in_the_set(patch: pytest.MonkeyPatch) -> None:
    contains = Numbers.__contains__
    patch.setattr(Numbers, "__contains__", lambda self, one: one <= 0 or contains(self, one))


def giving_up_goes_further_than_asked(patch: pytest.MonkeyPatch) -> None:
    give_up = Numbers.give_up_holes
    patch.setattr(Numbers, "give_up_holes", lambda self, most: give_up(self, max(0, most - 1)))


MUTANTS = [
    giving_up_goes_further_than_asked,
    touching_spans_stay_apart,
    the_mark_does_not_rise_over_spans,
    a_number_that_is_there_counts_as_new,
    a_span_swallows_only_the_first_it_meets,
    removing_below_the_mark_forgets_the_rest,
    removing_inside_a_span_cuts_its_end_off,
    the_difference_forgets_what_lies_behind_a_hole,
    numbers_below_one_are_in_the_set,
]


def some_steps(chance: random.Random) -> list[Step]:
    return [
        (chance.choice(ACTIONS), chance.randint(-2, TOP), chance.randint(-2, TOP))
        for _ in range(chance.randrange(20))
    ]


@pytest.mark.parametrize("mutant", MUTANTS)
def test_a_broken_set_is_noticed(
    mutant: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    mutant(monkeypatch)
    assert_noticed(lambda chance: play(some_steps(chance), some_steps(chance)))


STRETCHES = st.lists(
    st.builds(lambda f, n: range(f, f + n), st.integers(1, 200), st.integers(1, 30))
)


@settings(deadline=None)
@given(STRETCHES, st.integers(1, 200), st.integers(1, 60))
def test_what_is_missing_is_what_was_not_added(added: list[range], first: int, count: int) -> None:
    numbers, model = Numbers(most=None), set[int]()
    for stretch in added:
        missing = [n for one in numbers.missing(stretch.start, stretch.stop) for n in one]
        assert missing == sorted(set(stretch) - model)
        numbers.add_span(stretch.start, stretch.stop - 1)
        model |= set(stretch)
    assert list(numbers) == sorted(model)
    assert numbers.range_count == len(numbers.spans())
    missing = [n for one in numbers.missing(first, first + count) for n in one]
    assert missing == sorted(set(range(first, first + count)) - model)
