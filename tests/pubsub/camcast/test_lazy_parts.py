"""The small parts of lazy gossip by hand: ranges of numbers, and events that are kept."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from pubsub.camcast.event_ranges import (
    MOST_NUMBERS,
    Ranges,
    event_id_of,
    read_ranges,
    stretches_of,
)
from pubsub.camcast.kept_events import KeptEvents
from pubsub.event import Gossip

RUN = b"one run."
NUMBERS = st.lists(st.integers(0, 2**64 - 2), min_size=1) | st.builds(
    lambda first, count: list(range(first, first + count)),
    st.integers(0, 2**60),
    st.integers(1, 3000),
)


@given(NUMBERS)
def test_ranges_name_what_was_added_in_parts_that_a_message_holds(numbers: list[int]) -> None:
    parts = Ranges(numbers).parts()
    named = []
    for part in parts:
        ranges = read_ranges(RUN, part)
        assert ranges is not None
        assert sum(map(len, ranges)) <= MOST_NUMBERS
        named += [number for stretch in ranges for number in stretch]
    assert named == numbers


@given(st.lists(st.tuples(st.integers(0, 5000), st.integers(1, 1500)), min_size=1, max_size=8))
def test_whole_ranges_are_added_like_their_numbers(stretches: list[tuple[int, int]]) -> None:
    whole, single = Ranges(), Ranges()
    for first, count in stretches:
        whole.add_range(range(first, first + count))
        for number in range(first, first + count):
            single.add(number)

    def named(ranges: Ranges) -> list[int]:
        read = [read_ranges(RUN, part) for part in ranges.parts()]
        assert None not in read
        return [n for part in read for stretch in part or () for n in stretch]

    assert named(whole) == named(single)


@given(NUMBERS)
def test_stretches_are_the_numbers_of_the_events(numbers: list[int]) -> None:
    stretches = stretches_of([event_id_of(RUN, number) for number in numbers])
    assert [number for stretch in stretches for number in stretch] == numbers


def test_events_that_follow_each_other_are_one_stretch() -> None:
    assert stretches_of([event_id_of(RUN, number) for number in (7, 8, 9)]) == [range(7, 10)]
    assert len(stretches_of([event_id_of(RUN, number) for number in (7, 9, 8)])) == 3


@given(st.binary(max_size=10), st.lists(st.integers(-5, 2**65), max_size=6))
def test_what_is_no_ranges_is_none(run: bytes, ranges: list[int]) -> None:
    read = read_ranges(run, tuple(ranges))
    if read is not None:
        assert len(run) == 8
        assert all(0 <= stretch.start < stretch.stop <= 2**64 for stretch in read)
        assert sum(map(len, read)) <= MOST_NUMBERS


def test_events_are_kept_for_their_time_and_within_their_bytes() -> None:
    kept = KeptEvents(limit=100_000, seconds=10)

    def add(number: int, now: float, size: int = 100) -> bytes:
        event_id = event_id_of(RUN, number)
        kept.add([Gossip(event_id, "/a", 1, False, bytes(size), b"")], now)
        return event_id

    old = add(1, now=0.0)
    assert kept.get(add(2, now=9.9)) is not None
    assert kept.get(old) is not None
    latest = [add(number, now=20.0 + number) for number in range(50)]
    assert kept.get(old) is None
    for event_id in latest[-10:]:
        assert kept.get(event_id) is not None
    for number in range(100, 1000):
        newest = add(number, now=80.0, size=5000)
        assert kept.get(newest) is not None
        assert len(kept) <= 100_000 // 5000 + 2
