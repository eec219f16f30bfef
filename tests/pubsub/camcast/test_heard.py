"""Ranges of numbers by hand: what was heard, what messages name, and blocks that are kept."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from pubsub.camcast.heard import (
    MOST_GAPS,
    MOST_NUMBERS,
    MOST_RANGES,
    HeardEvents,
    Ranges,
    read_ranges,
)
from pubsub.camcast.repair import KeptBlocks
from pubsub.event import Gossip, Head, make_block

SOURCE = bytes(20) + b"one run."
STRETCHES = st.lists(
    st.builds(lambda f, n: range(f, f + n), st.integers(1, 200), st.integers(1, 30))
)


def numbers_of(stretches: list[range]) -> list[int]:
    return [number for stretch in stretches for number in stretch]


def test_a_source_costs_one_range_however_many_events_it_has() -> None:
    heard = HeardEvents(lifetime=120, capacity=1000)
    for block in range(100_000):
        heard.add(SOURCE, 1 + 60 * block, 60, now=block / 1000)
    assert len(heard) == heard.sources == 1
    assert not heard.missing(SOURCE, 1, 6_000_000)


def test_the_gaps_of_a_source_are_bounded() -> None:
    heard = HeardEvents(lifetime=120, capacity=100_000)
    for number in range(1, 10_000, 2):
        heard.add(SOURCE, number, 1, now=0.0)
    assert len(heard) == MOST_GAPS + 1
    assert heard.has(SOURCE, 2), "given up: more newer gaps than are remembered"
    assert not heard.has(SOURCE, 9_998)


def test_a_hundred_thousand_runs_and_more_are_remembered_within_the_capacity() -> None:
    heard = HeardEvents(lifetime=120, capacity=5000)
    for run in range(100_000):
        heard.add(bytes(20) + run.to_bytes(8, "big"), 1, 10, now=run / 10_000)
        assert len(heard) <= 5000
    assert heard.has(bytes(20) + (99_999).to_bytes(8, "big"), 10)
    assert not heard.has(bytes(20) + (90_000).to_bytes(8, "big"), 10)


def test_runs_that_fell_silent_are_forgotten_as_others_come() -> None:
    heard = HeardEvents(lifetime=10, capacity=100_000)
    for run in range(2000):
        heard.add(bytes(20) + run.to_bytes(8, "big"), 1, 1, now=run / 10)
    assert heard.sources <= 101
    heard.resize(10, 5)
    assert heard.sources == 5


@given(
    st.lists(
        st.builds(lambda f, n: range(f, f + n), st.integers(1, 2**60), st.integers(1, 200_000))
    )
)
def test_ranges_name_what_was_added_in_parts_that_a_message_holds(stretches: list[range]) -> None:
    named: list[range] = []
    for part in Ranges(stretches).parts():
        read = read_ranges(SOURCE, part)
        assert read is not None
        assert sum(map(len, read)) <= MOST_NUMBERS
        assert len(read) <= MOST_RANGES
        named += read
    joined = [(stretch.start, stretch.stop) for stretch in stretches]
    ends = [(stretch.start, stretch.stop) for stretch in named]
    assert sum(map(len, named)) == sum(map(len, stretches))
    assert {start for start, _ in joined} <= {n for s in named for n in (s.start,)} | {
        stop for _, stop in joined
    }
    assert all(any(a <= start and stop <= b for a, b in _merged(joined)) for start, stop in ends)


def _merged(stretches: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Stretches that follow each other directly, as one."""
    result: list[tuple[int, int]] = []
    for start, stop in stretches:
        if result and result[-1][1] == start:
            start = result.pop()[0]
        result.append((start, stop))
    return result


@given(st.binary(max_size=30), st.lists(st.integers(-5, 2**65), max_size=6))
def test_what_is_not_ranges_is_none(source: bytes, ranges: list[int]) -> None:
    read = read_ranges(source, tuple(ranges))
    if read is not None:
        assert len(source) == 28
        assert all(0 < stretch.start < stretch.stop <= 2**63 for stretch in read)
        assert sum(map(len, read)) <= MOST_NUMBERS


def gossip(first: int, count: int, size: int = 100) -> Gossip:
    return Gossip(make_block(SOURCE, first, Head("/a"), [bytes(size)] * count), "/a", 1)


def test_blocks_are_kept_for_their_time_and_within_their_bytes() -> None:
    kept = KeptBlocks(limit=100_000, seconds=10)

    def is_kept(number: int) -> bool:
        return bool(kept.with_any_of(SOURCE, range(number, number + 1)))

    kept.add(gossip(1, 1), now=0.0)
    kept.add(gossip(2, 3), now=9.9)
    assert [is_kept(number) for number in range(1, 6)] == [True, True, True, True, False]
    for number in range(10, 60):
        kept.add(gossip(number, 1), now=20.0 + number)
    assert not is_kept(1)
    assert all(is_kept(number) for number in range(50, 60))
    for number in range(100, 1000):
        kept.add(gossip(number, 1, size=5000), now=80.0)
        assert is_kept(number)
        assert number < 150 or len(kept) <= 100_000 // 5000 + 2


@settings(deadline=None)
@given(
    st.lists(st.tuples(st.integers(1, 100), st.integers(1, 20)), max_size=20),
    st.integers(1, 120),
    st.integers(1, 40),
)
def test_kept_blocks_are_found_by_any_of_their_events(
    blocks: list[tuple[int, int]], first: int, count: int
) -> None:
    kept = KeptBlocks(limit=10_000_000, seconds=10)
    for block in blocks:
        kept.add(gossip(*block, size=1), now=0.0)
    found = kept.with_any_of(SOURCE, range(first, first + count))
    asked = set(range(first, first + count))
    wanted = [block for block in blocks if set(range(block[0], sum(block))) & asked]
    assert sorted((g.block.first, g.block.count) for g in found) == sorted(wanted)
