"""Several archives of one topic on the virtual network: found, chosen, failing, leaving, handed over."""

from __future__ import annotations

import asyncio

import pytest

from overlay.errors import UsageError
from overlay.virtual import Latency, nth_host
from pubsub.archive.errors import ArchiveError
from pubsub.archive.store.append_files import AppendFileStore
from tests.pubsub.archive.test_durable_nodes import World, play, take


def test_a_publisher_waits_for_as_many_replicas_as_it_asks_for() -> None:
    async def main(world: World) -> None:
        node = await world.node()
        first = await world.archive("/soccer")
        second = await world.archive("/soccer")
        await second.ready("/soccer")
        receipt = await node.publish("/soccer", "safe", durable=True, copies=2)
        assert receipt.durable is not None
        assert receipt.durable.replicas == 2
        for archive in (first, second):
            assert archive.status()["/soccer"]["events"] == 1

    play(main)


def test_subscribers_and_publishers_go_to_another_replica_when_theirs_fails() -> None:
    async def main(world: World) -> None:
        publisher, reader = await world.node(), await world.node()
        await world.archive("/soccer")
        second = await world.archive("/soccer")
        await second.ready("/soccer")
        async with reader.subscribe("/soccer", durable="scores") as events:
            await asyncio.gather(
                *(publisher.publish("/soccer", n, durable=True, copies=2) for n in range(30))
            )
            assert [event.data for event in await take(events, 10)] == [*range(10)]
            for victim in (2, 3):
                world.crash(victim)
                await asyncio.sleep(1)
                start = 30 if victim == 2 else 60
                await asyncio.gather(
                    *(
                        publisher.publish("/soccer", n, durable=True, deadline=40)
                        for n in range(start, start + 30)
                    )
                )
                world.restart(victim)
                await (await world.archive("/soccer", number=victim)).ready("/soccer")
                await asyncio.sleep(5)
            assert [event.data for event in await take(events, 80)] == [*range(10, 90)]
            assert not len(events)

    play(main, latency=Latency.uniform(0.001, 0.01), loss=0.01)


def test_a_replica_that_is_gone_for_good_can_be_forgotten() -> None:
    async def main(world: World) -> None:
        await world.node()
        first = await world.archive("/soccer")
        await (await world.archive("/soccer")).ready("/soccer")
        (replica,) = first.status()["/soccer"]["replicas"]
        await asyncio.sleep(1)
        world.crash(2)
        await asyncio.sleep(10)
        assert not first.status()["/soccer"]["replicas"][replica]["here"]
        first.forget_replica("/soccer", replica)
        assert first.status()["/soccer"]["replicas"] == {}
        with pytest.raises(UsageError, match="not a replica of /soccer"):
            first.forget_replica("/soccer", replica)

    play(main)


def test_a_topic_is_handed_over_while_running() -> None:
    async def main(world: World) -> None:
        publisher, reader = await world.node(), await world.node()
        first = await world.archive("/soccer", "/rugby")
        second = await world.archive("/tennis", accept=["/soccer/**"])
        await asyncio.sleep(1)
        async with reader.subscribe("/soccer", durable="scores") as events:
            for number in range(40):
                await publisher.publish("/soccer", number, durable=True)
            await first.hand_over("/soccer", str(second.node.address))
            assert list(first.topics) == ["/rugby"]
            assert list(second.topics) == ["/tennis", "/soccer"]
            for number in range(40, 60):
                await publisher.publish("/soccer", number, durable=True, deadline=60)
            assert [event.data for event in await take(events, 60)] == [*range(60)]
        assert second.status()["/soccer"]["events"] == 60
        with pytest.raises(ArchiveError, match="only archive"):
            await second.remove("/soccer")
        with pytest.raises(ArchiveError, match="no archive at"):
            await second.hand_over("/soccer", "127.0.0.99:4000")

    play(main)


def test_the_least_loaded_and_nearest_replica_is_chosen() -> None:
    async def main(world: World) -> None:
        reader = await world.node()
        far = await world.archive("/soccer")
        near = await world.archive("/soccer")
        await near.ready("/soccer")
        await asyncio.sleep(2)
        world.network.link("127.0.0.1", "127.0.0.2", latency=Latency.constant(0.2))
        async with reader.subscribe("/soccer", durable="scores"):
            assert near.status()["/soccer"]["subscribers"]["scores"]["here"]
            await asyncio.sleep(1)
            assert not far.status()["/soccer"]["subscribers"]["scores"]["here"]

    play(main)


def test_publishers_and_subscribers_leave_an_archive_whose_disk_hangs() -> None:
    async def main(world: World) -> None:
        publisher, reader = await world.node(), await world.node()
        hanging = await world.archive("/soccer")
        healthy = await world.archive("/soccer")
        await healthy.ready("/soccer")
        await asyncio.sleep(2)
        for node in (nth_host(0), nth_host(1)):  # the other one is nearer to both
            world.network.link(node, nth_host(3), latency=Latency.constant(0.2))
        async with reader.subscribe("/soccer", durable="scores") as events:
            await publisher.publish("/soccer", "before", durable=True)
            assert hanging.status()["/soccer"]["subscribers"]["scores"]["here"]
            assert isinstance(hanging._store, AppendFileStore)
            hanging._store.sync_seconds = 1_000.0
            await publisher.publish("/soccer", "meanwhile", durable=True, deadline=60)
            assert healthy.status()["/soccer"]["events"] == 2
            assert [event.data for event in await take(events, 2, 60)] == ["before", "meanwhile"]
            assert healthy.status()["/soccer"]["subscribers"]["scores"]["here"]
            async with reader.subscribe("/soccer", durable="newcomer"):
                pass

    play(main)
