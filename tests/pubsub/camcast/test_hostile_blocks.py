"""Blocks that are partly known, and blocks that lie: each event is taken once, and memory is bounded."""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Iterator
from itertools import pairwise
from types import SimpleNamespace
from typing import Any

import msgpack
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from overlay.metrics import Metrics
from overlay.virtual.stage import numbered_contact
from overlay.wire import WireError, decode, encode
from pubsub.camcast.gossip import DisseminationFactory, EagerGossip
from pubsub.camcast.lazy import MOST_LINKS, MOST_PRUNES, RUNS, LazyGossip
from pubsub.camcast.messages import AnnounceBlocks, FetchBlocks
from pubsub.camcast.observer import MOST_ROWS, EventDrops
from pubsub.camcast.parameters import Parameters
from pubsub.camcast.repair import MOST_ANNOUNCEMENTS, MOST_ASKED, MOST_QUESTIONS, MOST_SKIPPED
from pubsub.data import pack_data, unpack_or_malformed
from pubsub.event import LAST_NUMBER, MOST_EVENTS, Batch, Copy, Head, make_block
from pubsub.joined_topics import JoinedTopic
from pubsub.topic import Topic
from tests.pubsub.camcast.troupe import Actor, Troupe

TOPIC = "/a"
SENDERS = [numbered_contact(number) for number in range(50, 53)]


def copy(source: bytes, first: int, count: int, eager: bool = False, hops: int = 1) -> Copy:
    """A block whose events carry their own numbers."""
    data = [pack_data(number) for number in range(first, first + count)]
    head = Head(TOPIC, eager=eager)
    return Copy(TOPIC, False, hops, make_block(source, first, head, data).encoded, b"")


def alone(seed: int, dissemination: DisseminationFactory, **parameters: Any) -> Actor:
    """A process that is alone in its community."""
    troupe = Troupe(seed, parameters=Parameters(**parameters), dissemination=dissemination)
    actor = troupe.add(TOPIC)
    troupe.stage.run_for(1)
    return actor


SOURCES = [bytes(20) + name for name in (b"run one.", b"run two.")]
COPIES = st.lists(
    st.tuples(
        st.sampled_from(SOURCES),
        st.integers(1, 60),
        st.integers(1, 25),
        st.booleans(),
        st.sampled_from(SENDERS),
    ),
    max_size=25,
)


@settings(deadline=None, max_examples=60)
@given(COPIES, st.sampled_from([EagerGossip, LazyGossip]))
def test_blocks_with_any_bounds_give_each_event_once_with_its_own_data(
    copies: list[Any], dissemination: DisseminationFactory
) -> None:
    """Overlapping, repeated and reordered; as if others had cut a publisher's events in other places."""
    taken: list[tuple[bytes, int, int]] = []

    class Taker:
        def offer(self, batch: Batch) -> None:
            for event in batch.events():
                taken.append((batch.source, event.sequence, event.data))

    async def main() -> None:
        actor = alone(1, dissemination)
        joined = JoinedTopic(Topic.of(TOPIC), EventDrops(Metrics()), False)
        joined.subscriptions.append(Taker())  # type: ignore[arg-type]
        actor.process.communities[TOPIC].deliver = joined.deliver
        for source, first, count, eager, sender in copies:
            actor.process.receive(sender, copy(source, first, count, eager))
        received = actor.metrics.counter("events_received", "").value
        duplicates = actor.metrics.counter("events_duplicate", "").value
        assert received == sum(count for _, _, count, _, _ in copies)
        assert received - duplicates == len(taken)

    asyncio.run(main())
    wanted = {
        (source, n) for source, first, count, _, _ in copies for n in range(first, first + count)
    }
    assert len(taken) == len(wanted), "none twice"
    assert {(source, number) for source, number, _ in taken} == wanted
    assert all(number == data for _, number, data in taken)


FAR = st.sampled_from([2**31, 2**32, LAST_NUMBER - 9, LAST_NUMBER, 2**63, 2**64 - 9, 2**64 - 1])
COUNTS = st.one_of(st.integers(0, 12), st.sampled_from([MOST_EVENTS + 1, 2**31, 2**32 - 1]))
NUMBER = st.integers(0, 70).map(pack_data)


@st.composite
def raw_blocks(draw: st.DrawFn) -> bytes:
    """The bytes of a block that lies in one way: by its number, its counts, or what stands in some places."""
    lie = draw(st.sampled_from(["number", "count", "bytes"]))
    payload = st.one_of(NUMBER, st.binary(max_size=6)) if lie == "bytes" else NUMBER
    payloads = draw(st.lists(payload, min_size=lie == "number", max_size=12))
    first = draw(FAR if lie == "number" else st.integers(0, 70))
    told = counted = len(payloads)
    if lie == "count":
        told, counted = draw(st.one_of(st.tuples(COUNTS, st.just(told)), st.tuples(COUNTS, COUNTS)))
    origin = draw(st.sampled_from(SOURCES)) + struct.pack(">QI", first, told)
    head = b"".join(msgpack.packb(one) for one in (TOPIC, [], None, draw(st.booleans()), b""))
    block = b"\x93\x41\xc4" + bytes([len(origin)]) + origin
    block += struct.pack(">BH", 0xC5, len(head)) + head
    block += struct.pack(">BI", 0xDD, counted) + b"".join(payloads)
    for _ in range(draw(st.integers(0, 2)) if lie == "bytes" else 0):
        at = draw(st.integers(0, len(block)))
        block = block[:at] + draw(st.binary(max_size=4)) + block[at + draw(st.integers(0, 4)) :]
    return block


def events_in(block: bytes) -> Iterator[tuple[bytes, int, Any]]:
    """The events that another reader finds in a block: nothing unless all of its numbers agree."""
    reader = msgpack.Unpacker(strict_map_key=False)
    reader.feed(block)
    try:
        code, origin, _ = reader.unpack()
        source, first, count = struct.unpack(">28sQI", origin)
        ends = [reader.tell()] if reader.read_array_header() == count < 2**16 else []
        for _ in range(count):
            reader.skip()
            ends.append(reader.tell())
    except Exception:
        return
    if ends and ends[-1] == len(block) and code == 0x41 and first + count - 1 < 2**63:
        for place, (start, end) in enumerate(pairwise(ends)):
            yield source, first + place, unpack_or_malformed(block[start:end])


@settings(deadline=None, max_examples=60)
@given(
    st.lists(raw_blocks(), max_size=8),
    COPIES.filter(lambda copies: len(copies) < 6),
    st.sampled_from([EagerGossip, LazyGossip]),
)
def test_blocks_that_lie_bring_and_hide_nothing_that_is_not_in_them(
    lies: list[bytes], copies: list[Any], dissemination: DisseminationFactory
) -> None:
    """Any bytes, through the decoder and the community: what is delivered stands in them, and what others
    send afterwards is delivered, each event once."""
    taken: list[tuple[bytes, int, Any]] = []
    taker = SimpleNamespace(
        offer=lambda batch: taken.extend((batch.source, e.sequence, e.data) for e in batch.events())
    )

    async def main() -> None:
        actor = alone(8, dissemination)
        joined = JoinedTopic(Topic.of(TOPIC), EventDrops(Metrics()), False)
        joined.subscriptions.append(taker)  # type: ignore[arg-type]
        actor.process.communities[TOPIC].deliver = joined.deliver
        for number, block in enumerate(lies):
            before = len(taken)
            try:
                message = decode(memoryview(encode(Copy(TOPIC, False, 1, block, b""))))
            except WireError:
                continue
            actor.process.receive(SENDERS[number % 3], message)
            assert all(one in [*events_in(block)] for one in taken[before:])
        told = {(source, number) for source, number, _ in taken}
        for source, first, count, eager, sender in copies:
            actor.process.receive(sender, copy(source, first, count, eager))
            told |= {(source, number) for number in range(first, first + count)}
        actor.troupe.stage.run_for(3)
        assert len(taken) == len(told), "each once"
        assert {(source, number) for source, number, _ in taken} == told
        strategy: Any = actor.process.communities[TOPIC]._dissemination
        if dissemination is LazyGossip:
            assert strategy._missing._asked_events <= MOST_ASKED

    asyncio.run(main())


def test_a_block_with_a_number_far_ahead_is_not_followed_by_questions_for_ever() -> None:
    actor = alone(9, LazyGossip)
    community = actor.process.communities[TOPIC]
    fetches: list[FetchBlocks] = []
    actor.troupe.stage.attach(SENDERS[0], lambda sender, message: fetches.append(message))
    for first in (1, LAST_NUMBER - 1):
        actor.process.receive(SENDERS[0], copy(SOURCES[0], first, 1))
    actor.troupe.stage.run_for(1200)
    asked = len(fetches)
    assert asked, "what is behind a gap is asked for"
    actor.troupe.stage.run_for(60)
    assert len(fetches) == asked
    assert len(community.heard) <= 2
    assert MOST_SKIPPED < actor.drops("too_many_missing") + actor.drops("not_fetched") < 2**33


def test_a_gap_of_any_size_has_a_bounded_number_of_rows_in_the_trace() -> None:
    rows: list[str] = []
    trace: Any = SimpleNamespace(record=lambda kind, topic, **_: rows.append(kind))
    EventDrops(Metrics(), trace).add("lost", TOPIC, SOURCES[0], (range(1, LAST_NUMBER),))
    assert len(rows) == MOST_ROWS


@pytest.mark.parametrize("runs", [20_000, pytest.param(1_000_000, marks=pytest.mark.sweep)])
def test_any_number_of_runs_costs_bounded_memory(runs: int) -> None:
    actor = alone(2, LazyGossip, duplicate_capacity=2000, keep_bytes=100_000)
    community = actor.process.communities[TOPIC]
    community.deliver = lambda *_: None
    for number in range(runs):
        source = bytes(20) + number.to_bytes(8, "big")
        actor.process.receive(SENDERS[number % 3], copy(source, 1 + number % 7, 1))
    assert len(community.heard) <= 2000
    strategy: Any = community._dissemination
    assert len(strategy._runs) <= RUNS
    assert len(strategy._kept) <= 2 * 100_000 // 256
    assert len(strategy._missing._waiting) <= MOST_ANNOUNCEMENTS


def test_announcements_of_what_there_is_not_cost_bounded_memory() -> None:
    actor = alone(3, LazyGossip)
    strategy: Any = actor.process.communities[TOPIC]._dissemination
    for number in range(10_000):
        source = bytes(20) + number.to_bytes(8, "big")
        actor.process.receive(
            SENDERS[0], AnnounceBlocks(TOPIC, source, (1, 30_000, 40_000, 30_000))
        )
    missing = strategy._missing
    assert len(missing._waiting) <= MOST_ANNOUNCEMENTS
    actor.troupe.stage.run_for(20)
    assert len(missing.asked) <= MOST_QUESTIONS
    assert missing._asked_events <= MOST_ASKED
    assert actor.drops("too_many_missing") > 0


@pytest.mark.parametrize("numbers", [1, 60_000])
def test_a_member_that_announces_what_there_is_not_keeps_nobody_from_fetching(numbers: int) -> None:
    actor = alone(7, LazyGossip)
    fetches: list[FetchBlocks] = []
    actor.troupe.stage.attach(SENDERS[1], lambda sender, message: fetches.append(message))
    for number in range(MOST_ANNOUNCEMENTS):
        source = bytes(20) + number.to_bytes(8, "big")
        actor.process.receive(SENDERS[0], AnnounceBlocks(TOPIC, source, (1, numbers)))
    actor.troupe.stage.run_for(2)
    for number in range(1, 301):
        actor.process.receive(SENDERS[1], AnnounceBlocks(TOPIC, SOURCES[0], (2 * number, 1)))
    actor.troupe.stage.run_for(3 * actor.process.parameters.fetch_delay)
    fetched = {n for fetch in fetches if fetch.source == SOURCES[0] for n in fetch.ranges[::2]}
    assert fetched == {2 * number for number in range(1, 301)}


def test_gaps_of_one_run_cost_bounded_memory() -> None:
    actor = alone(4, LazyGossip)
    community = actor.process.communities[TOPIC]
    community.deliver = lambda *_: None
    strategy: Any = community._dissemination
    for number in range(1, 40_000, 4):
        actor.process.receive(SENDERS[0], copy(SOURCES[0], number, 1))
    assert len(community.heard) <= 1025
    assert len(strategy._missing._waiting) <= MOST_ANNOUNCEMENTS
    assert strategy._missing._asked_events <= MOST_ASKED


@pytest.mark.parametrize("asks", [False, True], ids=["sends what is known", "fetches"])
def test_any_number_of_peers_of_one_run_costs_bounded_memory(asks: bool) -> None:
    actor = alone(6, LazyGossip)
    community = actor.process.communities[TOPIC]
    community.deliver = lambda *_: None
    actor.process.receive(SENDERS[0], copy(SOURCES[0], 1, 1))
    known, fetch = copy(SOURCES[0], 1, 1, hops=2), FetchBlocks(TOPIC, SOURCES[0], (1, 1), True)
    for number in range(3000):
        actor.process.receive(numbered_contact(100 + number), fetch if asks else known)
    strategy: Any = community._dissemination
    run = strategy._runs[SOURCES[0]]
    assert len(run.wants) == len(run.wants | run.children) == MOST_LINKS
    assert len(run.prunes) <= MOST_PRUNES


def test_what_is_lost_is_counted_once_and_no_more_when_it_comes_after_all() -> None:
    actor = alone(5, LazyGossip)
    community = actor.process.communities[TOPIC]
    told = SimpleNamespace(lost=0)

    def lose(count: int) -> None:
        told.lost += count

    community.lost = lose
    for sender in SENDERS:
        actor.process.receive(sender, AnnounceBlocks(TOPIC, SOURCES[0], (1, 10)))
        actor.troupe.stage.run_for(20)
    assert told.lost == 10
    assert actor.drops("not_fetched") == 10
    actor.process.receive(SENDERS[0], copy(SOURCES[0], 4, 10))
    assert told.lost == 3
    actor.process.receive(SENDERS[1], copy(SOURCES[0], 1, 5))
    assert told.lost == 0
