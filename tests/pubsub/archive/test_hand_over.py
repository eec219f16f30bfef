"""A topic's management goes from one archive to another: what it takes, what it survives, what is said."""

from __future__ import annotations

import asyncio

import pytest

from overlay.topic_name import TopicNameError
from overlay.virtual import Latency, nth_host
from pubsub.archive.errors import ArchiveError, DurableUsageError
from pubsub.archive.hand_over import Acceptance
from pubsub.archive.protocol.messages import ReplicaInfo
from pubsub.archive.store import StoreError
from tests.pubsub.archive.test_durable_nodes import World, play, take


def test_a_topic_handed_over_outlives_a_crash_of_its_new_archive() -> None:
    async def main(world: World) -> None:
        node = await world.node()
        first = await world.archive("/soccer")
        second = await world.archive("/tennis", accept=["/soccer/**"])
        await asyncio.sleep(1)
        await node.publish("/soccer", "before", durable=True)
        await first.hand_over("/soccer", str(second.node.address))
        world.crash(2)
        world.restart(2)
        again = await world.archive("/tennis", number=2)
        assert list(again.topics) == ["/tennis", "/soccer"]
        async with node.subscribe("/soccer", durable="late", since="beginning") as events:
            assert [event.data for event in await take(events, 1)] == ["before"]

    play(main)


def test_publishers_and_subscribers_go_on_while_a_busy_topic_is_handed_over() -> None:
    async def main(world: World) -> None:
        publisher, reader = await world.node(), await world.node()
        first = await world.archive("/soccer")
        second = await world.archive(accept=["/**"])
        published = 0
        over = False

        async def publish() -> None:
            nonlocal published
            while not over:
                number, published = published, published + 1
                receipt = await publisher.publish("/soccer", number, durable=True, wait="sent")
                if number % 20 == 0:
                    assert receipt.durable is not None
                    await receipt.durable.wait_safe(60)
                await asyncio.sleep(0.005)  # without a pause, 8,000 events that show no more

        async with reader.subscribe("/soccer", durable="scores") as events:
            publishing = asyncio.gather(publish(), publish())
            taken = await take(events, 100)
            await first.hand_over("/soccer", str(second.node.address))
            taken += await take(events, 100)
            over = True
            await publishing
            taken += await take(events, published - len(taken))
            assert sorted(event.data for event in taken) == [*range(published)]
        assert (list(first.topics), list(second.topics)) == ([], ["/soccer"])

    play(main, latency=Latency.uniform(0.001, 0.005))


def test_a_replica_that_does_not_answer_is_none_to_leave_a_topic_to() -> None:
    async def main(world: World) -> None:
        node = await world.node()
        first = await world.archive("/soccer")
        second = await world.archive("/soccer")
        await second.ready("/soccer")
        await asyncio.sleep(1)
        world.crash(2)
        await asyncio.sleep(20)
        with pytest.raises(ArchiveError, match="only archive of /soccer that is there"):
            await first.remove("/soccer")
        await node.publish("/soccer", "still here", durable=True)

    play(main)


def test_a_topic_that_nobody_takes_over_in_time_is_served_on() -> None:
    async def main(world: World) -> None:
        node = await world.node()
        first = await world.archive("/soccer")
        await node.publish("/soccer", 0, durable=True)
        second = await world.archive("/soccer")
        await second.ready("/soccer")
        await asyncio.sleep(2)
        for number in (1, 2):
            world.network.partition([nth_host(0), nth_host(1)], [nth_host(2)])
            await node.publish("/soccer", number, durable=True)
            with pytest.raises(ArchiveError, match="no other replica of /soccer has answered"):
                await first.remove("/soccer", within=30)
            await node.publish("/soccer", "served on", durable=True)
            world.network.heal()
            await asyncio.sleep(10)
        await first.remove("/soccer")
        assert not first.topics

    play(main)


def test_why_a_topic_is_not_handed_over_is_said() -> None:
    async def main(world: World) -> None:
        node = await world.node()
        first = await world.archive("/soccer")
        picky = await world.archive("/tennis", accept=["/tennis", "/rugby/*"])
        failed = await world.archive("/tennis", accept=["/**"])
        failed._fail(StoreError("the disk is full"))
        with pytest.raises(ArchiveError, match=r"does not take /soccer: it accepts /tennis and"):
            await first.hand_over("/soccer", str(picky.node.address))
        with pytest.raises(ArchiveError, match="does not take /soccer: its store has failed"):
            await first.hand_over("/soccer", str(failed.node.address))
        for nobody in (str(node.address), "127.0.0.99:4000"):
            with pytest.raises(ArchiveError, match=r"no archive at .* has answered within 5 s"):
                await first.hand_over("/soccer", nobody, within=5)
        with pytest.raises(ArchiveError, match="is this one"):
            await first.hand_over("/soccer", str(first.node.address))
        await node.publish("/soccer", "still here", durable=True)

    play(main)


def test_strangers_cannot_make_an_archive_manage_what_it_does_not_accept(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("pubsub.archive.hand_over.MOST_TOPICS", 5)

    async def main(world: World) -> None:
        archive = await world.archive("/t", accept=["/x"])
        node = await world.node()
        to = archive.node.attachment.contact
        for topic in ("/y", *(f"/x/{number}" for number in range(20))):
            info = ReplicaInfo(topic, b"evil", "manage", 0, b"", 0, False, -1, 0, 0)
            node.attachment.runtime.send(to, info)
        await asyncio.sleep(60)
        assert list(archive.topics) == ["/t", *(f"/x/{number}" for number in range(4))]
        assert archive.node.metrics.as_dict()["archive_dropped"] == {"not_accepted": 17}

    play(main)


@pytest.mark.parametrize(
    ("topic", "is_accepted"),
    [("/soccer", True), ("/soccer/italy", True), ("/tennis", False), ("/rugby/wales", True)],
)
def test_patterns_say_what_an_archive_accepts(topic: str, is_accepted: bool) -> None:
    assert (Acceptance(["/soccer/**", "/rugby/*"]).refusal(topic, 1) == "") == is_accepted
    assert Acceptance().refusal(topic, 1) == "it accepts none"


def test_what_is_no_list_of_patterns_is_said() -> None:
    with pytest.raises(DurableUsageError, match="list of patterns"):
        Acceptance("/soccer")
    with pytest.raises(TopicNameError):
        Acceptance(["soccer"])
