"""What an application may do with a durable name's events beside reading them one after the other."""

from __future__ import annotations

import asyncio
from typing import Literal

import pytest

from overlay.virtual import nth_host
from pubsub import Displaced, Node
from pubsub.archive.durable_subscription import DurableSubscription
from pubsub.archive.errors import ArchiveError, DurableUsageError
from pubsub.archive.replay_policy import ReplayPolicy
from tests.pubsub.archive.test_durable_nodes import World, play, take

KINDS: tuple[Literal["ordered", "optimistic"], ...] = ("ordered", "optimistic")


async def publish(node: Node, *data: int) -> None:
    for one in data:
        await node.publish("/soccer", one, durable=True)


async def numbers(events: DurableSubscription, count: int) -> list[tuple[object, bool]]:
    return [(event.data, event.redelivered) for event in await take(events, count)]


@pytest.mark.parametrize("delivery", KINDS)
def test_an_event_that_is_given_back_comes_again_after_a_while_and_others_meanwhile(
    delivery: Literal["ordered", "optimistic"],
) -> None:
    async def main(world: World) -> None:
        await world.archive("/soccer")
        node, reader = await world.node(), await world.node()
        async with reader.subscribe("/soccer", durable="scores", delivery=delivery) as events:
            await publish(node, 1, 2)
            first = await anext(events)
            first.nak(delay=20)
            first.ack()  # it is not in hand any more
            assert await numbers(events, 1) == [(2, False)]
            await publish(node, 3)
            assert await numbers(events, 1) == [(3, False)]
            began = asyncio.get_running_loop().time()
            assert await numbers(events, 1) == [(1, True)]
            assert 15 < asyncio.get_running_loop().time() - began < 21
        async with reader.subscribe("/soccer", durable="scores", delivery=delivery) as events:
            assert not await events.fetch(1, within=5)

    play(main)


@pytest.mark.parametrize("delivery", KINDS)
def test_an_event_given_back_comes_to_the_next_subscription_with_those_behind_it(
    delivery: Literal["ordered", "optimistic"],
) -> None:
    async def main(world: World) -> None:
        await world.archive("/soccer")
        node, reader = await world.node(), await world.node()
        async with reader.subscribe("/soccer", durable="scores", delivery=delivery) as events:
            await publish(node, 1, 2, 3)
            await anext(events)
            (await anext(events)).nak(delay=1000)
            (await anext(events)).ack()
        async with reader.subscribe("/soccer", durable="scores", delivery=delivery) as events:
            assert await numbers(events, 2) == [(2, True), (3, True)]

    play(main)


def test_several_events_are_fetched_and_acknowledged_in_any_order() -> None:
    async def main(world: World) -> None:
        await world.archive("/soccer")
        node, reader = await world.node(), await world.node()
        events = reader.subscribe("/soccer", durable="scores", since="beginning")
        await publish(node, *range(5))
        await events.__aenter__()
        await asyncio.sleep(2)
        some = await events.fetch(3)
        assert [event.data for event in some] == [0, 1, 2]
        position = events.position
        for event in (some[1], some[0]):
            event.ack()
        await events.close()
        async with reader.subscribe("/soccer", durable="scores") as again:
            assert await numbers(again, 3) == [(2, True), (3, True), (4, True)]
            with pytest.raises(DurableUsageError, match="1 or more, not 0"):
                await again.fetch(0)
        async with reader.subscribe(
            "/soccer", durable="other", since="beginning", resume=position
        ) as resumed:
            assert await numbers(resumed, 2) == [(3, False), (4, False)]

    play(main)


def test_a_name_is_sent_back_and_forward() -> None:
    async def main(world: World) -> None:
        await world.archive("/soccer")
        await world.archive("/soccer")
        node, reader = await world.node(), await world.node()
        async with reader.subscribe("/soccer", durable="scores") as events:
            await publish(node, *range(6))
            await take(events, 6)
            await events.seek("beginning")
            assert [event.data for event in await take(events, 6)] == [*range(6)]
            third = (await reseek(events))[2]
            await events.seek(third)
            assert [event.data for event in await take(events, 4)] == [2, 3, 4, 5]
            await events.seek("now")
            await publish(node, 6)
            assert [event.data for event in await take(events, 1)] == [6]
        async with reader.subscribe("/soccer", durable="scores") as events:
            assert not await events.fetch(1, within=5), "it is done with all, at every replica"

    async def reseek(events: DurableSubscription) -> list[int]:
        await events.seek("beginning")
        return [event.archived for event in await take(events, 6)]

    play(main)


def test_what_comes_live_while_a_name_is_sent_back_comes_once() -> None:
    async def main(world: World) -> None:
        await world.archive("/soccer")
        node, reader = await world.node(), await world.node()
        async with reader.subscribe("/soccer", durable="scores", delivery="optimistic") as events:
            await publish(node, 0)
            assert await numbers(events, 1) == [(0, False)]
            seeking = asyncio.create_task(events.seek("beginning"))
            published = 1
            while not seeking.done():
                await publish(node, published)
                published += 1
            assert published > 5
            seen: list[int] = []
            while more := await events.fetch(1000, within=5):
                seen += [event.data for event in more]
            assert sorted(seen) == [*range(published)]

    play(main)


def test_a_name_that_may_not_replay_is_not_sent_back() -> None:
    async def main(world: World) -> None:
        await world.archive("/soccer", replay=ReplayPolicy(()))
        node, reader = await world.node(), await world.node()
        await publish(node, 1)
        await asyncio.sleep(100)
        async with reader.subscribe("/soccer", durable="scores") as events:
            with pytest.raises(ArchiveError, match="may not replay"):
                await events.seek("beginning")
            with pytest.raises(StopAsyncIteration):
                await anext(events)

    play(main)


def test_a_subscriber_whose_name_another_one_has_taken_over_is_told() -> None:
    async def main(world: World) -> None:
        await world.archive("/soccer")
        node, reader, other = await world.node(), await world.node(), await world.node()
        async with reader.subscribe("/soccer", durable="scores") as events:
            world.network.partition([nth_host(2)], [nth_host(number) for number in (0, 1, 3)])
            async with other.subscribe("/soccer", durable="scores", within=60) as taken:
                world.network.heal()
                with pytest.raises(Displaced, match="has taken 'scores' over"):
                    await anext(events)
                await publish(node, 1)
                assert await numbers(taken, 1) == [(1, False)]

    play(main)


async def consume(node: Node, seen: list[tuple[int, bool]], patience: float = 0.05) -> None:
    """Take a share of the events, each for a moment, until cancelled."""
    async with node.subscribe(
        "/soccer", durable="work", since="beginning", share=True, within=60
    ) as events:
        async for event in events:
            await asyncio.sleep(patience)
            seen.append((event.data, event.redelivered))


async def all_done(shares: list[list[tuple[int, bool]]], count: int) -> None:
    for _ in range(240):
        if len({data for share in shares for data, _ in share}) == count:
            break
        await asyncio.sleep(0.5)
    await asyncio.sleep(10)
    assert {data for share in shares for data, _ in share} == {*range(count)}


def test_consumers_of_one_name_share_its_events() -> None:
    async def main(world: World) -> None:
        await world.archive("/soccer")
        await world.archive("/soccer")
        node, *workers = [await world.node() for _ in range(4)]
        shares: list[list[tuple[int, bool]]] = [[] for _ in workers]
        await publish(node, *range(100))
        tasks = [asyncio.create_task(consume(*pair)) for pair in zip(workers, shares, strict=True)]
        await publish(node, *range(100, 200))
        await all_done(shares, 200)
        given = sorted(data for share in shares for data, _ in share)
        assert given == [*range(200)], "each to one of them"
        assert all(len(share) > 30 for share in shares)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        async with node.subscribe("/soccer", durable="work") as events:
            left = await events.fetch(10, within=10)
            assert len(left) <= len(workers), "but for what was in hand"

    play(main)


def lose_one(victim: str, seed: int, loss: float) -> None:
    async def main(world: World) -> None:
        archives = [await world.archive("/soccer") for _ in range(2)]
        node, *workers = [await world.node() for _ in range(4)]
        shares: list[list[tuple[int, bool]]] = [[] for _ in workers]
        tasks = [
            world.network.spawn(nth_host(3 + place), consume(worker, shares[place]))
            for place, worker in enumerate(workers)
        ]
        await asyncio.sleep(8)
        await asyncio.gather(
            *(
                node.publish("/soccer", number, durable=True, copies=2, deadline=60)
                for number in range(150)
            )
        )
        await asyncio.sleep(1)
        serving = [
            place
            for place, archive in enumerate(archives)
            if archive.topics["/soccer"].entities.all["work"].is_served
        ]
        assert len(serving) == 1, "all consumers are at one replica"
        world.crash(3 if victim == "consumer" else serving[0])
        await all_done(shares, 150)
        unmarked = [data for share in shares for data, is_marked in share if not is_marked]
        assert len(unmarked) == len(set(unmarked)), "what comes again is marked"
        for task in tasks:
            task.cancel()

    play(main, seed, loss=loss)


@pytest.mark.parametrize("victim", ["consumer", "archive"])
def test_what_a_consumer_or_an_archive_had_when_it_crashed_goes_to_the_others(victim: str) -> None:
    lose_one(victim, 1, 0.0)


@pytest.mark.sweep
@pytest.mark.parametrize("seed", range(10))
@pytest.mark.parametrize("victim", ["consumer", "archive"])
def test_consumers_and_archives_crash_on_a_lossy_network(victim: str, seed: int) -> None:
    lose_one(victim, seed, 0.1)


@pytest.mark.parametrize("is_restarted", [False, True])
def test_what_consumers_were_given_comes_again_marked_when_all_had_left(is_restarted: bool) -> None:
    """Behind an event that nobody is done with, the archive does not know what was acknowledged."""

    async def main(world: World) -> None:
        await world.archive("/soccer")
        node, one, other = [await world.node() for _ in range(3)]
        async with one.subscribe("/soccer", durable="work", share=True) as events:
            await publish(node, 1, 2, 3)
            await asyncio.sleep(2)
            _, second, third = await events.fetch(3, within=20)
            second.ack()
            third.ack()
            await asyncio.sleep(5)
            await events.close()
        await asyncio.sleep(10)
        if is_restarted:
            world.crash(0)
            world.restart(0)
            await world.archive("/soccer", number=0)
        async with other.subscribe("/soccer", durable="work", share=True) as events:
            await asyncio.sleep(2)
            given = await events.fetch(3, within=20)
            assert [event.data for event in given if not event.redelivered] == []
            assert given[0].data == 1
            await publish(node, 4)
            assert await numbers(events, 1) == [(4, False)]

    play(main)


def test_a_name_is_shared_by_all_of_its_subscribers_or_by_none() -> None:
    async def main(world: World) -> None:
        await world.archive("/soccer")
        one, other = await world.node(), await world.node()
        async with one.subscribe("/soccer", durable="work", share=True):
            with pytest.raises(ArchiveError, match="another subscriber of this name"):
                async with other.subscribe("/soccer", durable="work", within=5):
                    pass
        with pytest.raises(DurableUsageError, match="share goes without"):
            one.subscribe("/soccer", durable="work", share=True, resume=b"")

    play(main)
