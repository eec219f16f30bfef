"""An archive read by number: the same events in every reading, bounded, and nothing is lost in silence."""

from __future__ import annotations

import asyncio
import struct
import time
from typing import Any

import pytest

from overlay.errors import UsageError
from overlay.virtual import Latency
from pubsub import Node
from pubsub.archive.archive import Archive
from pubsub.archive.errors import ArchiveError
from pubsub.archive.protocol.archived_event import read_event
from pubsub.archive.protocol.reading import PAGE_BYTES
from pubsub.archive.reader import ArchiveReader
from pubsub.archive.replay_policy import ReplayPolicy
from pubsub.archive.store import Retention
from tests.pubsub.archive.test_durable_nodes import World, play


def reader_of(node: Node, *archives: Archive, **options: Any) -> ArchiveReader:
    contacts = [archive.node.attachment.contact for archive in archives]
    return ArchiveReader(node.attachment.runtime, "/soccer", contacts, **options)


async def read(reader: ArchiveReader, **asked: Any) -> tuple[list[Any], int]:
    """What the events of all streams carry, and how many numbers have no event."""
    data: list[Any] = []
    lost = 0
    for stream, last in (await reader.streams()).items():
        async for page, lacking in reader.pages(stream, **{"first": 1, "last": last, **asked}):
            lost += lacking
            sizes = struct.unpack(f"<{len(page.sizes) // 4}I", page.sizes)
            assert len(page.events) <= PAGE_BYTES or len(sizes) == 1
            at = 0
            for size in sizes:
                data.append(read_event(page.events[at : at + size], "/soccer").data())
                at += size
    return data, lost


async def publish(node: Node, numbers: range, topic: str = "/soccer") -> None:
    for number in numbers:
        await node.publish(topic, number, durable=True, wait="sent")
    await node.publish(topic, numbers.stop, durable=True)


def test_every_reading_gives_every_event_in_order_in_bounded_pages() -> None:
    async def main(world: World) -> None:
        archive = await world.archive("/soccer")
        publisher, other = await world.node(), await world.node()
        await publish(publisher, range(499))
        large = "x" * 300_000
        await publisher.publish("/soccer", large, durable=True)
        await publisher.publish("/soccer", large, durable=True)
        reader = reader_of(other, archive)
        expected = [*range(500), large, large]
        assert await read(reader) == (expected, 0)
        assert await read(reader) == (expected, 0)
        assert await read(reader, first=3, last=7) == ([2, 3, 4, 5, 6], 0)

    play(main, latency=Latency.uniform(0.001, 0.02), loss=0.1, duplicate=0.1)


def test_only_the_subtopic_and_the_time_that_are_asked_for_travel() -> None:
    async def main(world: World) -> None:
        archive = await world.archive("/soccer")
        node = await world.node()
        await publish(node, range(2))
        await publish(node, range(10, 12), "/soccer/italy")
        await asyncio.sleep(5)
        now = time.time()
        await publish(node, range(20, 22), "/soccer/italy/torino")
        reader = reader_of(node, archive)
        assert await read(reader, below="/soccer/italy") == ([10, 11, 12, 20, 21, 22], 0)
        assert await read(reader, below="/soccer/it") == ([], 0)
        assert await read(reader, since=now) == ([20, 21, 22], 0)
        assert await read(reader, until=now) == ([0, 1, 2, 10, 11, 12], 0)

    play(main)


def test_what_retention_removed_is_counted() -> None:
    async def main(world: World) -> None:
        archive = await world.archive("/soccer", retention=Retention(max_count=10))
        node = await world.node()
        await publish(node, range(99))
        reader = reader_of(node, archive)
        await asyncio.sleep(30)
        assert await read(reader, first=41) == ([*range(90, 100)], 50)

    play(main)


def test_a_name_that_may_not_replay_reads_nothing_old() -> None:
    async def main(world: World) -> None:
        archive = await world.archive("/soccer", replay=ReplayPolicy.parse(["audit-*"]))
        node = await world.node()
        await publish(node, range(3))
        await asyncio.sleep(100)
        with pytest.raises(ArchiveError, match="refuses to be read: 'reader' may not replay"):
            await read(reader := reader_of(node, archive))
        reader.close()
        assert await read(reader_of(node, archive, name="audit-1")) == ([0, 1, 2, 3], 0)

    play(main)


def test_another_replica_goes_on_where_one_fails() -> None:
    async def main(world: World) -> None:
        publisher = await world.node()
        first = await world.archive("/soccer")
        second = await world.archive("/soccer")
        await second.ready("/soccer")
        await publish(publisher, range(99))
        await asyncio.sleep(5)
        reader = reader_of(publisher, first, second)
        before = await read(reader)
        world.crash(1)
        assert await read(reader) == before == ([*range(100)], 0)
        world.crash(2)
        with pytest.raises(ArchiveError, match="no archive of /soccer has answered within 30 s"):
            await reader.streams()

    play(main)


@pytest.mark.parametrize("loss", [0.0, 0.1])
def test_an_event_that_is_published_again_under_its_name_is_stored_once(loss: float) -> None:
    async def main(world: World) -> None:
        archive = await world.archive("/soccer")
        for upto in (30, 50, 50):  # each life dies at another place, and has another identity
            node = await world.node()
            await node.publish_in_run("/soccer", b"batch 01", 1, range(upto - 5))
            await node.publish("/soccer", "beside")
            await node.publish_in_run("/soccer", b"batch 01", upto - 9, range(upto - 10, upto))
            await node.publish_in_run("/soccer", b"batch 02", 1, ["next"])
            await node.close()
        data, _ = await read(reader_of(await world.node(), archive))
        assert sorted(map(str, data)) == sorted(map(str, [*range(50), "next"]))

    play(main, loss=loss, latency=Latency.uniform(0.001, 0.01))


def test_an_event_that_comes_twice_in_one_message_is_stored_once() -> None:
    async def main(world: World) -> None:
        archive, node = await world.archive("/soccer"), await world.node()
        await node.publish_in_run("/soccer", b"batch 00", 1, ["first"])  # the archive is known
        twice = (node.publish_in_run("/soccer", b"batch 01", 1, ["once"]) for _ in range(2))
        await asyncio.gather(*twice)
        data, _ = await read(reader_of(await world.node(), archive))
        assert sorted(map(str, data)) == ["first", "once"]

    play(main)


def test_what_is_kept_goes_to_the_archive_and_to_nobody_else() -> None:
    async def main(world: World) -> None:
        archive, node = await world.archive("/soccer"), await world.node()
        live = await (await world.node()).subscribe("/soccer").__aenter__()
        for number in range(3):
            outcome = await node.keep("/soccer", number)
            assert outcome.is_safe
        await node.publish("/soccer", "live")
        assert (await anext(live)).data == "live"
        data, _ = await read(reader_of(await world.node(), archive))
        assert [one for one in data if one != "live"] == [0, 1, 2]

    play(main)


def test_the_name_of_a_run_has_eight_bytes() -> None:
    async def main(world: World) -> None:
        node = await world.node()
        with pytest.raises(UsageError, match="8 bytes"):
            await node.publish_in_run("/soccer", b"short", 1, ["x"])
        with pytest.raises(UsageError, match="numbered from 1 on"):
            await node.publish_in_run("/soccer", b"8 bytes!", 0, ["x"])

    play(main)
