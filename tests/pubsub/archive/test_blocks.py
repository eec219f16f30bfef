"""Events travel in blocks between publishers, archives and subscribers, and come apart as they were."""

from __future__ import annotations

import asyncio
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from overlay.errors import UsageError
from overlay.virtual.stage import numbered_contact
from overlay.wire import WireError
from pubsub.archive.errors import NotSafe
from pubsub.archive.protocol.archived_event import (
    Received,
    Row,
    join,
    join_ids,
    join_rows,
    pack_event,
    read_event,
    read_events,
)
from pubsub.archive.protocol.config import DurableConfig
from pubsub.archive.protocol.frontier import new_stream
from pubsub.archive.protocol.messages import Companion, Notice
from pubsub.data import DATA_LIMIT, pack_data
from pubsub.event import ID_PLACE, Head, make_block
from tests.pubsub.archive.harness import TOPIC, Simulation, SubscriberActor, make_event
from tests.pubsub.archive.test_durable_nodes import World, play

PUBLISHER = numbered_contact(7)


def packed(run: int, number: int, subtopic: bool, signature: bytes) -> bytes:
    head = Head(f"{TOPIC}/sub" if subtopic else TOPIC)
    source = PUBLISHER.id + run.to_bytes(8, "big")
    block = make_block(source, number, head, [pack_data({"n": number, "run": run})])
    return pack_event(block.encoded, signature)


events = st.builds(
    packed,
    st.integers(0, 1),
    st.integers(1, 5),
    st.booleans(),
    st.sampled_from([b"", b"", b"", b"signed"]),
)
sequences = st.lists(
    st.one_of(
        events.map(lambda one: [one]),
        st.tuples(st.integers(1, 9), st.integers(1, 9)).map(
            lambda span: [packed(0, span[0] + n, False, b"") for n in range(span[1])]
        ),
    ),
    max_size=6,
).map(lambda lists: [one for some in lists for one in some])


@given(sequences)
def test_what_is_joined_comes_apart_as_it_was(some: list[bytes]) -> None:
    joined = list(join(some))
    apart = [event for _, block in joined for event in read_events(block, TOPIC)]
    assert [event.encoded for event in apart] == some
    assert [count for count, _ in joined] == [len(read_events(block, TOPIC)) for _, block in joined]
    for event in apart:
        assert event.id == event.encoded[ID_PLACE]
        assert event.data() == read_event(event.encoded, TOPIC).data()
    ids = [event.id for event in apart]
    assert [id for _, block in joined for id in Received(block).ids] == ids
    assert [id for _, several in join_ids(ids) for id in Received(several).ids] == ids


def test_consecutive_events_become_one_block_and_others_none() -> None:
    run = [packed(0, number, False, b"") for number in range(1, 101)]
    assert [count for count, _ in join(run)] == [100]
    assert [count for count, _ in join([*run[:3], *run[4:6]])] == [3, 2], "a number is missing"
    assert [count for count, _ in join([run[0], packed(0, 2, True, b"")])] == [1, 1], "another head"
    signed = [packed(0, number, False, b"signed") for number in (1, 2)]
    assert [count for count, _ in join(signed)] == [1, 1]
    large = [make_event(PUBLISHER, bytes(8), n, bytes(DATA_LIMIT // 2)) for n in (1, 2, 3)]
    assert [count for count, _ in join(large)] == [1, 1, 1]


def test_a_signature_for_several_events_is_refused() -> None:
    source = PUBLISHER.id + bytes(8)
    block = make_block(source, 1, Head(TOPIC), [pack_data(1), pack_data(2)])
    assert len(read_events(pack_event(block.encoded), TOPIC)) == 2
    with pytest.raises(WireError):
        read_events(pack_event(block.encoded, b"signed"), TOPIC)


@given(st.binary(max_size=120))
def test_any_bytes_count_as_at_least_one_event_that_cannot_be_opened(encoded: bytes) -> None:
    received = Received(encoded)
    assert received.ids
    if received.is_whole:
        with pytest.raises(WireError):
            received.open(TOPIC, lambda block: None, False)


def test_an_archive_checks_a_block_once_and_replays_it_as_one() -> None:
    sim = Simulation(1)
    sim.stage.run(1)
    (archive,) = sim.archives
    some = [make_event(PUBLISHER, b"a run   ", number) for number in range(1, 9)]
    ((count, block),) = join(some)
    stream = new_stream(PUBLISHER.id, 1_000_000_000, 1)
    archive.core.receive_companion(PUBLISHER, Companion(TOPIC, stream, 0, 1, (block,), 0))
    sim.stage.run_for(1)
    assert [event.body for event in archive.store.events(TOPIC, 0, 100)] == some
    notices: list[Notice] = []
    reader = SubscriberActor(sim, 120, "reader", ordered=True, remembers=False)
    receive = reader.core.receive_notice
    reader.core.receive_notice = lambda sender, notice: (  # type: ignore[method-assign]
        notices.append(notice),
        receive(sender, notice),
    )[1]
    sim.stage.run_for(5)
    assert [id for id, _ in reader.deliveries] == [event[ID_PLACE] for event in some]
    assert [item[4] for notice in notices for item in notice.items] == [block]
    assert count == 8


@given(sequences, st.randoms())
def test_rows_between_replicas_are_joined_and_come_apart(some: list[bytes], chance: Random) -> None:
    rows: list[Row] = []
    catenation = 0
    for event in some:
        catenation += chance.choice((1, 1, 1, 2))
        time, resent = chance.choice((1.0, 1.0, 1.0, 2.0)), chance.random() < 0.2
        rows.append((b"stream", 0, catenation, time, event, resent))
    apart = [
        (stream, base, catenation + at, time, event.encoded, resent)
        for stream, base, catenation, time, block, resent in join_rows(rows)
        for at, event in enumerate(read_events(block, TOPIC))
    ]
    assert apart == rows


def test_many_durable_events_are_published_in_blocks_and_waited_for_together() -> None:
    async def main(world: World) -> None:
        archive = await world.archive("/soccer")
        node = await world.node()
        companions: list[Companion] = []
        core = archive.topics["/soccer"]
        receive = core.receive_companion
        core.receive_companion = lambda sender, companion: (  # type: ignore[method-assign]
            companions.append(companion),
            receive(sender, companion),
        )[1]
        receipts = await node.publish_many("/soccer", range(1000), durable=True)
        assert all(one.durable is not None and one.durable.is_safe for one in receipts)
        assert archive.status()["/soccer"]["events"] == 1000
        assert sum(len(one.blocks) for one in companions) < 50
        with pytest.raises(UsageError, match="durable"):
            await node.publish_many("/soccer", [1], copies=2)
        with pytest.raises(NotSafe):
            await node.publish_many("/soccer", [1, 2], durable=True, copies=2, deadline=1)
        sent = await node.publish_many("/soccer", [3], durable=True, wait="sent")
        assert sent[0].durable is not None
        assert await node.publish_many("/soccer", [], durable=True) == []

    play(main)


def test_a_full_buffer_holds_up_many_events_until_there_is_room() -> None:
    async def main(world: World) -> None:
        archive = await world.archive("/soccer")
        node = await world.node(durability=DurableConfig(buffer=20, window=8))
        await node.publish_many("/soccer", range(300), durable=True)
        assert archive.status()["/soccer"]["events"] == 300

    play(main)


def test_blocks_of_a_node_reach_its_subscribers_in_order() -> None:
    async def main(world: World) -> None:
        await world.archive("/soccer")
        node, other = await world.node(), await world.node()
        async with other.subscribe("/soccer", durable="reader", since="beginning") as came:
            await asyncio.gather(
                *(node.publish("/soccer", number, durable=True) for number in range(300))
            )
            got = [(await anext(came)).data for _ in range(300)]
            assert got == list(range(300))

    play(main)
