"""Durable events where the network signs: archives keep nothing that its publisher did not sign."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from pubsub import Node
from pubsub.archive.archive import Archive
from pubsub.archive.protocol.archived_event import pack_event
from pubsub.archive.protocol.frontier import publisher_of
from pubsub.archive.protocol.messages import Companion, ReplicaInfo, StoredEvents
from pubsub.data import pack_data
from pubsub.event import Head, make_block
from pubsub.validation import sign_block
from tests.pubsub.archive.test_durable_nodes import World, play, take


def forged(node: Node, stream: bytes, number: int, forger: Node | None) -> bytes:
    """An event in the name of a stream's publisher, signed by another node or by none."""
    publisher = node.id if forger is None else forger.id
    block = make_block(publisher + stream[-8:], number, Head("/t"), [pack_data("forged")])
    signature = b"" if forger is None else sign_block(forger.attachment.identity, block.encoded)
    return pack_event(block.encoded, signature)


def send_as_publisher(archive: Archive, node: Node, stream: bytes, event: bytes) -> None:
    core = archive.topics["/t"]
    core.receive_companion(node.attachment.contact, Companion("/t", stream, 0, 2, (event,), 0))


def send_as_replica(archive: Archive, node: Node, stream: bytes, event: bytes) -> None:
    core, contact = archive.topics["/t"].replication, node.attachment.contact
    core.receive_info(contact, ReplicaInfo("/t", b"evil", "alive", 0, b"", 0, True, -1, 0, 0))
    core.receive_events(
        contact, StoredEvents("/t", b"evil", ((stream, 0, 2, 1.0, event, False),), False, (), ())
    )


@pytest.mark.parametrize("send", [send_as_publisher, send_as_replica])
@pytest.mark.parametrize("is_signed", [False, True])
def test_a_forged_event_does_not_take_the_place_of_the_true_one(
    send: Callable[[Archive, Node, bytes, bytes], None], is_signed: bool
) -> None:
    async def main(world: World) -> None:
        archive = await world.archive("/t", signatures=True)
        node, other = await world.node(signatures=True), await world.node(signatures=True)
        async with node.subscribe("/t", durable="reader") as events:
            await node.publish("/t", "first", durable=True)
            ((stream, _),) = archive.topics["/t"].here.marks()
            assert publisher_of(stream) == node.id
            send(archive, node, stream, forged(node, stream, 2, other if is_signed else None))
            await asyncio.sleep(1)
            receipt = await node.publish("/t", "second", durable=True)
            assert receipt.durable is not None
            assert receipt.durable.catenation == 2
            assert [event.data for event in await take(events, 2)] == ["first", "second"]
        assert archive.status()["/t"]["events"] == 2
        assert archive.node.metrics.as_dict()["archive_dropped"] == {"bad_signature": 1}

    play(main)


def test_a_forged_event_does_not_repair_a_damaged_one() -> None:
    async def main(world: World) -> None:
        node = await world.node(signatures=True)
        first = await world.archive("/t", signatures=True)
        for data in ("first", "second", "third"):
            await node.publish("/t", data, durable=True)
        ((stream, _),) = first.topics["/t"].here.marks()
        await asyncio.sleep(1)
        world.crash(1)
        disk = world.disks[1]
        ((log, written),) = ((p, b) for p, b in disk.image().items() if p.endswith(".log"))
        disk.flip(log, 8 * written.index(b"second"))
        world.restart(1)
        archive = await world.archive("/t", number=1, signatures=True)
        assert archive._store is not None
        archive._store.verify()
        (damage,) = archive._store.damage()
        core, contact = archive.topics["/t"].replication, node.attachment.contact
        core.receive_info(contact, ReplicaInfo("/t", b"evil", "alive", 0, b"", 0, True, -1, 0, 0))
        await asyncio.sleep(2)  # by now it has asked for the event
        ((id,),) = archive._store.damaged_ids("/t", [damage.span]).values()
        true_run = stream[:-8] + id[:8]
        rows = ((stream, 0, 2, 1.0, forged(node, true_run, 2, None), False),)
        core.receive_events(contact, StoredEvents("/t", b"evil", rows, True, (), ()))
        await asyncio.sleep(0.1)
        assert archive.node.metrics.as_dict()["archive_dropped"] == {"bad_signature": 1}
        assert not archive._store.read("/t", [damage.span.first])

    play(main)
