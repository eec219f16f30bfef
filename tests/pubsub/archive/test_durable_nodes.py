"""Nodes that publish and subscribe durably, over the virtual network with virtual disks."""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from datetime import datetime
from typing import Any

import msgpack
import pytest

from overlay.identity import Identity
from overlay.virtual import Latency, Network, nth_host
from overlay.virtual.disk import VirtualDisk
from pubsub import Node
from pubsub.archive.archive import Archive
from pubsub.archive.durable_event import DurableEvent
from pubsub.archive.durable_subscription import DurableSubscription
from pubsub.archive.errors import ArchiveError, DurableUsageError, NoArchiveFound, NotSafe
from pubsub.archive.store import Retention
from pubsub.archive.store.append_files import AppendFileStore
from pubsub.reliable.runs import Gap, GapError, Gaps

PORT = 4000


class World:
    """Nodes and archives, one a host; the first host has the node that all others know."""

    def __init__(self, network: Network) -> None:
        self.network = network
        self.stack = AsyncExitStack()
        self.disks: dict[int, VirtualDisk] = {}
        self.hosts = 0

    def _settings(self, number: int, **settings: Any) -> dict[str, Any]:
        known = {"bootstrap": [f"{nth_host(0)}:{PORT}"]} if number else {}
        return {"listen": f"{nth_host(number)}:{PORT}", **known, **settings}

    async def on_host(self, number: int, entering: Any) -> Any:
        return await self.network.spawn(nth_host(number), self.stack.enter_async_context(entering))

    async def node(self, **settings: Any) -> Node:
        number, self.hosts = self.hosts, self.hosts + 1
        node: Node = await self.on_host(number, Node(**self._settings(number, **settings)))
        return node

    async def archive(self, *topics: str, number: int | None = None, **options: Any) -> Archive:
        if number is None:
            number, self.hosts = self.hosts, self.hosts + 1
        disk = self.disks.setdefault(number, VirtualDisk(seed=number))
        store = AppendFileStore(disk, "/archive")
        options = {**self._settings(number), **options}
        archive: Archive = await self.on_host(number, Archive(topics, store, **options))
        return archive

    def crash(self, number: int) -> None:
        self.network.crash(nth_host(number))
        if number in self.disks:
            self.disks[number].crash()

    def restart(self, number: int) -> None:
        self.network.restart(nth_host(number))


def play(main: Callable[[World], Awaitable[None]], seed: int = 1, **network: Any) -> None:
    world = World(Network(seed, **network))

    async def run() -> None:
        async with world.stack:
            await main(world)

    world.network.run(run())
    assert not world.network.unhandled, world.network.unhandled


async def take(events: DurableSubscription, count: int, within: float = 20.0) -> list[DurableEvent]:
    taken: list[DurableEvent] = []
    async with asyncio.timeout(within):
        while len(taken) < count:
            taken.append(await anext(events))
    return taken


@pytest.mark.parametrize("delivery", ["ordered", "optimistic"])
def test_a_subscriber_gets_what_it_missed_while_it_was_away(delivery: Any) -> None:
    async def main(world: World) -> None:
        await world.archive("/soccer")
        publisher, reader = await world.node(), await world.node()
        async with reader.subscribe("/soccer", durable="scores", delivery=delivery) as events:
            for number in range(3):
                receipt = await publisher.publish("/soccer/italy", number, durable=True)
                assert receipt.durable is not None
                assert receipt.durable.is_safe
            assert [event.data for event in await take(events, 3)] == [0, 1, 2]
        for number in range(3, 300):
            await publisher.publish("/soccer", number, durable=True, wait="sent")
        async with reader.subscribe("/soccer", durable="scores", delivery=delivery) as events:
            assert [event.data for event in await take(events, 297)] == [*range(3, 300)]
            await publisher.publish("/soccer", "live", durable=True)
            (live,) = await take(events, 1)
            assert live.data == "live"
            assert not live.redelivered

    play(main)


def test_an_archive_that_crashes_comes_back_with_all_it_acknowledged() -> None:
    async def main(world: World) -> None:
        publisher, reader = await world.node(), await world.node()
        await world.archive("/soccer")
        async with reader.subscribe("/soccer", durable="scores", since="beginning") as events:
            await asyncio.gather(
                *(publisher.publish("/soccer", number, durable=True) for number in range(50))
            )
            world.crash(2)
            sending = asyncio.gather(
                *(
                    publisher.publish("/soccer", number, durable=True, deadline=60)
                    for number in range(50, 100)
                )
            )
            await asyncio.sleep(3)
            world.restart(2)
            await world.archive("/soccer", number=2)
            await sending
            data = [event.data for event in await take(events, 100)]
            assert data == [*range(100)]

    play(main, latency=Latency.uniform(0.001, 0.01), loss=0.02)


def test_a_publisher_learns_its_catenation_number_back() -> None:
    identity = Identity.create()

    async def main(world: World) -> None:
        await world.archive("/soccer")
        publisher = await world.node(identity=identity)
        for _ in range(3):
            receipt = await publisher.publish("/soccer", durable=True)
        await publisher.close()
        assert receipt.durable is not None
        assert receipt.durable.catenation == 3
        again = await world.node(identity=identity)
        receipt = await again.publish("/soccer", durable=True)
        assert receipt.durable is not None
        assert receipt.durable.catenation == 4

    play(main)


def test_an_event_that_is_safe_is_acked_though_nobody_else_listens() -> None:
    async def main(world: World) -> None:
        await world.archive("/soccer")
        node = await world.node()
        receipt = await node.publish("/soccer", 1, durable=True)
        assert receipt.acknowledged == 0
        assert receipt.is_safe
        assert receipt.is_acked

    play(main)


def test_what_cannot_be_safe_is_said() -> None:
    async def main(world: World) -> None:
        publisher = await world.node()
        with pytest.raises(NoArchiveFound, match="no archive of /soccer"):
            await publisher.publish("/soccer", durable=True, deadline=3)
        await world.archive("/soccer")
        with pytest.raises(NotSafe, match="2 replicas within 3 s") as raised:
            await publisher.publish("/soccer", durable=True, copies=2, deadline=3)
        assert raised.value.receipt.durable is not None
        with pytest.raises(DurableUsageError, match="copies"):
            await publisher.publish("/soccer", durable=True, copies=0)
        with pytest.raises(DurableUsageError, match="is not a valid name"):
            publisher.subscribe("/soccer", durable="")
        for nowhere in ("soon", True, -1, 10**400, math.inf, math.nan, None):
            with pytest.raises(DurableUsageError, match="since is"):
                publisher.subscribe("/soccer", durable="x", since=nowhere)  # type: ignore[arg-type]

    play(main)


def test_new_subscribers_begin_where_they_ask_to() -> None:
    async def main(world: World) -> None:
        await world.archive("/soccer")
        node = await world.node()
        for number in range(10):
            await node.publish("/soccer", number, durable=True)
        times = []
        async with node.subscribe("/soccer", durable="all", since="beginning") as events:
            taken = await take(events, 10)
            times = [event.archived for event in taken]
        async with node.subscribe("/soccer", durable="some", since=times[4]) as events:
            assert [event.data for event in await take(events, 6)] == [*range(4, 10)]
        await asyncio.sleep(1)
        now = datetime.fromtimestamp(time.time())
        await node.publish("/soccer", 10, durable=True)
        async with node.subscribe("/soccer", durable="late", since=now) as events:
            assert [event.data for event in await take(events, 1)] == [10]
        async with node.subscribe("/soccer", durable="new") as events:
            await node.publish("/soccer", "next", durable=True)
            assert [event.data for event in await take(events, 1)] == ["next"]

    play(main)


@pytest.mark.parametrize("delivery", ["ordered", "optimistic"])
def test_a_subscriber_gets_only_what_it_selects(delivery: Any) -> None:
    async def main(world: World) -> None:
        await world.archive("/soccer")
        node, publisher = await world.node(), await world.node()
        italy = node.subscribe(
            "/soccer/italy", durable="italy", where="goals > 2", delivery=delivery
        )
        async with italy as events:
            for goals in range(6):
                await publisher.publish("/soccer/spain", {"goals": goals}, durable=True)
                await publisher.publish("/soccer/italy", {"goals": goals}, durable=True)
            assert [event.data["goals"] for event in await take(events, 3)] == [3, 4, 5]
            assert not len(events)

    play(main)


def test_a_publisher_goes_on_to_a_nearer_archive_that_was_started_later() -> None:
    async def main(world: World) -> None:
        node = await world.node()
        await world.archive("/soccer")
        await node.publish("/soccer/italy", "far", durable=True)
        await world.archive("/soccer/italy")
        await asyncio.sleep(11)
        await node.publish("/soccer/italy", "one more", durable=True)  # looks for a nearer one
        await asyncio.sleep(5)
        receipt = await node.publish("/soccer/italy", "near", durable=True)
        assert receipt.durable is not None
        assert (receipt.durable.topic, receipt.durable.catenation) == ("/soccer/italy", 1)
        reader = await world.node()
        async with reader.subscribe("/soccer/italy", durable="x", since="beginning") as events:
            assert [event.data for event in await take(events, 1)] == ["near"]

    play(main)


def test_a_subscription_is_told_of_a_nearer_archive_that_was_started_later() -> None:
    async def main(world: World) -> None:
        node = await world.node()
        await world.archive("/soccer")
        async with (
            node.subscribe("/soccer/italy", durable="near"),
            node.subscribe("/soccer", durable="far"),
        ):
            await asyncio.sleep(30)
            assert "durable_overtaken" not in node.metrics.as_dict()
            await world.archive("/soccer/italy")
            await asyncio.sleep(30)
            assert node.metrics.as_dict()["durable_overtaken"] == 1

    play(main)


def test_a_subscription_that_is_closed_looks_for_no_archive_any_more() -> None:
    async def main(world: World) -> None:
        node = await world.node()
        await world.archive("/soccer")
        subscriptions = [node.subscribe("/soccer", durable=f"s{n}") for n in range(3)]
        for subscription in subscriptions:
            await subscription.__aenter__()
        world.crash(1)
        await asyncio.sleep(10)
        client = node._durable().client
        assert len(client._finders) == 3
        for subscription in subscriptions:
            await subscription.close()
        assert not client._finders

    play(main)


def test_a_bounded_position_has_the_runs_heard_of_last() -> None:
    """As doors for MQTT write it down: each client that publishes with QoS 2 is a run."""

    async def main(world: World) -> None:
        await world.archive("/soccer")
        node = await world.node()
        async with node.subscribe("/soccer", durable="client", since="beginning") as events:
            for number in range(6):
                await node.publish_in_run("/soccer", number.to_bytes(8, "big"), 1, [number])
                (await anext(events)).ack()
                bounded = msgpack.unpackb(events.done_position(4))
                assert len(bounded) == min(number + 1, 4)
            assert bounded == msgpack.unpackb(events.position)[-4:]

    play(main)


def test_a_position_kept_by_the_application_makes_a_crash_unseen() -> None:
    async def main(world: World) -> None:
        await world.archive("/soccer")
        publisher = await world.node()
        reader = await world.node()
        for number in range(20):
            await publisher.publish("/soccer", number, durable=True, wait="sent")
        async with reader.subscribe("/soccer", durable="exact", since="beginning") as events:
            done = []
            while len(done) < 7:
                event = await anext(events)
                done.append(event.data)
                position = events.position
            world.crash(2)
        world.restart(2)
        reader = await world.on_host(2, Node(**world._settings(2)))
        async with reader.subscribe("/soccer", durable="exact", resume=position) as events:
            done += [event.data for event in await take(events, 13)]
        assert done == [*range(20)]

    play(main)


@pytest.mark.parametrize("drop_unseen", [False, True])
def test_retention_keeps_what_somebody_waits_for_or_tells_of_the_gap(drop_unseen: bool) -> None:
    async def main(world: World) -> None:
        retention = Retention(max_count=5, drop_unseen=drop_unseen)
        archive = await world.archive("/soccer", retention=retention)
        node = await world.node()
        async with node.subscribe("/soccer", durable="away"):
            pass
        for number in range(20):
            await node.publish("/soccer", number, durable=True)
        await asyncio.sleep(12)
        assert archive.status()["/soccer"]["events"] == (5 if drop_unseen else 20)
        async with node.subscribe("/soccer", durable="away") as events:
            first = 15 if drop_unseen else 0
            taken = await take(events, 20 - first)
            assert [event.data for event in taken] == [*range(first, 20)]
            assert events.missing == taken[0].missed == (15 if drop_unseen else 0)
        await asyncio.sleep(12)
        assert archive.status()["/soccer"]["events"] == 5

    play(main)


def test_what_was_not_for_a_name_does_not_count_among_what_it_missed() -> None:
    async def main(world: World) -> None:
        await world.archive("/soccer", retention=Retention(max_count=4, drop_unseen=True))
        node = await world.node()
        async with node.subscribe("/soccer", durable="away", where="odd = 1"):
            pass
        for number in range(20):
            await node.publish("/soccer", {"odd": number % 2}, durable=True)
        await asyncio.sleep(12)
        told: list[Gap] = []
        async with node.subscribe(
            "/soccer", durable="away", where="odd = 1", on_gap=told.append
        ) as events:
            taken = await take(events, 2)
            assert (events.missing, taken[0].missed) == (8, 8)
            assert [gap.count for gap in told] == [1] * 8
            assert {gap.publisher for gap in told} == {node.id}

    play(main)


@pytest.mark.parametrize("gaps", ["give", "raise"])
def test_a_gap_comes_in_the_iteration_before_what_follows_it(gaps: Gaps) -> None:
    async def main(world: World) -> None:
        await world.archive("/soccer", retention=Retention(max_count=5, drop_unseen=True))
        node = await world.node()
        async with node.subscribe("/soccer", durable="away"):
            pass
        for number in range(20):
            await node.publish("/soccer", number, durable=True)
        await asyncio.sleep(12)
        told: list[Gap] = []
        seen: list[object] = []
        async with node.subscribe(
            "/soccer", durable="away", gaps=gaps, on_gap=told.append
        ) as events:
            while len(seen) < 6:
                try:
                    seen += await events.fetch(3, within=5)
                except GapError as error:
                    seen.append(error.gap)
            assert sum(gap.count for gap in told) == events.missing >= 15
        assert seen[0] == told[0]
        assert told[0].reason == "forgotten"
        events_seen = [one for one in seen if isinstance(one, DurableEvent)]
        assert [event.data for event in events_seen] == [15, 16, 17, 18, 19]
        assert events_seen[0].missed == events.missing

    play(main)


def test_a_gap_says_whose_events_will_not_come_and_why() -> None:
    """As docs/durable-delivery.md says: together with what comes, the gaps name all that was published."""

    async def main(world: World) -> None:
        await world.archive("/soccer", retention=Retention(max_count=6, drop_unseen=True))
        reader, *publishers = [await world.node() for _ in range(3)]
        async with reader.subscribe("/soccer", durable="away"):
            pass
        published: dict[tuple[bytes, bytes], None] = {}
        for number in range(24):
            publisher = publishers[number % 3 // 2]
            receipt = await publisher.publish("/soccer", number, durable=True)
            published[publisher.id, receipt.id] = None
        await asyncio.sleep(12)
        gaps: list[Gap] = []
        async with reader.subscribe("/soccer", durable="away", on_gap=gaps.append) as events:
            taken = await take(events, 6)
        assert {gap.reason for gap in gaps} == {"forgotten"}
        missed = [
            (gap.publisher, gap.run + number.to_bytes(8, "big"))
            for gap in gaps
            for number in range(gap.first, gap.last + 1)
        ]
        came = [(event.publisher, event.id) for event in taken]
        assert len(missed) + len(came) == len(published)
        assert {*missed, *came} == {*published}

    play(main)


def test_several_names_that_come_back_together_ask_the_archive_in_one_datagram() -> None:
    names = [f"name {number}" for number in range(6)]

    async def main(world: World) -> None:
        await world.archive("/soccer")
        node = await world.node()
        for is_back in (False, True):
            with world.network.capture() as packets:
                async with AsyncExitStack() as stack:
                    entering = (node.subscribe("/soccer", durable=name) for name in names)
                    await asyncio.gather(*map(stack.enter_async_context, entering))
            if is_back:
                asking = [
                    one for one in packets if any(name.encode() in one.data for name in names)
                ]
                first = next(one for one in asking if one.source.host == nth_host(1))
                assert all(name.encode() in first.data for name in names)

    play(main)


def test_a_name_that_leaves_is_forgotten() -> None:
    async def main(world: World) -> None:
        archive = await world.archive("/soccer")
        node = await world.node()
        async with node.subscribe("/soccer", durable="scores") as events:
            await events.leave()
        assert not archive.status()["/soccer"]["subscribers"]
        await node.publish("/soccer", "unheard", durable=True)
        async with node.subscribe("/soccer", durable="scores") as events:
            await node.publish("/soccer", "heard", durable=True)
            assert [event.data for event in await take(events, 1)] == ["heard"]

    play(main)


def test_an_exception_leaves_the_event_in_hand_to_be_delivered_again() -> None:
    async def main(world: World) -> None:
        await world.archive("/soccer")
        node = await world.node()
        for number in range(3):
            await node.publish("/soccer", number, durable=True)

        async def fail_at_the_second() -> None:
            async with node.subscribe("/soccer", durable="s", since="beginning") as events:
                async for event in events:
                    if event.data == 1:
                        raise ZeroDivisionError

        with pytest.raises(ZeroDivisionError):
            await fail_at_the_second()
        async with node.subscribe("/soccer", durable="s") as events:
            again = await take(events, 2)
            assert [event.data for event in again] == [1, 2]
            assert again[0].redelivered

    play(main)


def test_a_store_that_fails_stops_the_archive_and_nothing_is_acknowledged() -> None:
    async def main(world: World) -> None:
        archive = await world.archive("/soccer")
        node = await world.node()
        await node.publish("/soccer", 1, durable=True)
        world.disks[0].cut_power_at(world.disks[0].operations + 1)
        with pytest.raises(NotSafe):
            await node.publish("/soccer", 2, durable=True, deadline=5)
        with pytest.raises(ArchiveError, match="its store failed"):
            await archive.failed()

    play(main)


def test_an_archive_serves_the_node_that_it_runs_on() -> None:
    async def main(world: World) -> None:
        node = await world.node()
        await world.node()
        store = AppendFileStore(VirtualDisk(), "/archive")
        await world.on_host(0, Archive(["/soccer"], store, node=node))
        async with node.subscribe("/soccer", durable="here") as events:
            large = bytes(1_000_000)
            receipt = await node.publish("/soccer", large, durable=True)
            (event,) = await take(events, 1)
            assert (event.id, event.data) == (receipt.id, large)
        assert node.status()["archive"]["/soccer"]["events"] == 1

    play(main)


def test_a_name_has_one_subscriber_at_a_time() -> None:
    async def main(world: World) -> None:
        await world.archive("/soccer")
        one, other = await world.node(), await world.node()
        async with one.subscribe("/soccer", durable="scores") as events:
            with pytest.raises(ArchiveError, match="another subscriber of this name"):
                async with other.subscribe("/soccer", durable="scores", within=10):
                    pass
            await other.publish("/soccer", "mine", durable=True)
            assert [event.data for event in await take(events, 1)] == ["mine"]
        began = asyncio.get_running_loop().time()
        async with other.subscribe("/soccer", durable="scores"):
            assert asyncio.get_running_loop().time() - began < 1.5

    play(main)


def test_closing_gives_the_event_in_hand_back_unless_it_was_acknowledged() -> None:
    async def main(world: World) -> None:
        await world.archive("/soccer")
        node, reader = await world.node(), await world.node()
        for number in range(4):
            await node.publish("/soccer", number, durable=True)

        async def read(count: int, acknowledge: bool) -> list[object]:
            events = reader.subscribe("/soccer", durable="scores", since="beginning")
            await events.__aenter__()
            try:
                taken = await take(events, count)
                if acknowledge:
                    taken[-1].ack()
                    taken[-1].ack()
                    taken[0].ack()
                return [event.data for event in taken]
            finally:
                await events.close()
                await events.close()

        assert await read(2, acknowledge=False) == [0, 1]
        assert await read(2, acknowledge=True) == [1, 2]
        assert await read(1, acknowledge=True) == [3]

    play(main)


def test_a_close_that_is_cancelled_frees_the_name() -> None:
    async def main(world: World) -> None:
        await world.archive("/soccer")
        reader = await world.node()
        for _ in range(3):
            events = reader.subscribe("/soccer", durable="scores")
            await events.__aenter__()
            closing = asyncio.ensure_future(events.close())
            await asyncio.sleep(0)
            closing.cancel()
            await asyncio.wait([closing])
            await events.close()

    play(main)


def test_the_deadline_is_one_budget_for_the_whole_call() -> None:
    async def main(world: World) -> None:
        node = await world.node()
        loop = asyncio.get_running_loop()

        async def start_late() -> None:
            await asyncio.sleep(6)
            await world.archive("/soccer")

        starting = asyncio.create_task(start_late())
        begun = loop.time()
        with pytest.raises(NotSafe):
            await node.publish("/soccer", 1, durable=True, copies=2, deadline=10)
        assert 9.9 < loop.time() - begun < 10.5
        await starting

    play(main)


def test_those_who_look_for_one_archive_together_wait_no_longer_than_each_may() -> None:
    async def main(world: World) -> None:
        node = await world.node()
        loop = asyncio.get_running_loop()

        async def publish(number: int) -> float:
            begun = loop.time()
            with pytest.raises(NoArchiveFound, match="within 5 s"):
                await node.publish("/soccer", number, durable=True, deadline=5)
            return loop.time() - begun

        waited = await asyncio.gather(*(publish(number) for number in range(4)))
        assert max(waited) < 5.1

    play(main)


def test_seeking_has_one_budget_and_ends_the_subscription_when_it_is_spent() -> None:
    async def main(world: World) -> None:
        node = await world.node()
        await world.archive("/soccer")
        await asyncio.sleep(5)
        loop = asyncio.get_running_loop()
        async with node.subscribe("/soccer", durable="a", within=6.0) as events:

            async def crash_when_the_name_has_left() -> None:
                await asyncio.sleep(0.4)
                world.crash(1)

            begun = loop.time()
            crashing = asyncio.create_task(crash_when_the_name_has_left())
            with pytest.raises((ArchiveError, NoArchiveFound)):
                await events.seek("beginning")
            assert loop.time() - begun < 6.5
            await crashing
            assert events.is_ended

    play(main, latency=Latency.constant(0.15))
