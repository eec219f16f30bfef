"""Distributors, publishers and subscribers as applications use them, on the virtual network."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from typing import Any

import pytest

from overlay.contact import Contact
from overlay.errors import ClosedError, UsageError
from overlay.virtual import Latency, Network, nth_host
from pubsub import Node
from pubsub.distributors import (
    ClientConfig,
    Distributor,
    Gap,
    NoDistributor,
    NoSuchService,
    Publisher,
    ServiceMessage,
    ServiceSubscription,
    Subscriber,
    light_client,
)
from pubsub.distributors.messages import ServiceBlock, SpreadBlocks
from pubsub.event import Batch
from pubsub.reliable.receipts import Wait
from pubsub.reliable.runs import source_of
from pubsub.reliable.tasks import TaskFailed

PORT = 4000


class Playground:
    """Starts processes, one a host, and lets them go at the end."""

    def __init__(self, network: Network, stack: AsyncExitStack) -> None:
        self.network = network
        self.stack = stack
        self.hosts = 0
        self.first: str | None = None

    async def enter(self, make: Callable[..., Any], *arguments: Any, **settings: Any) -> Any:
        host = nth_host(self.hosts)
        self.hosts += 1
        known = {"bootstrap": [self.first]} if self.first else {}
        process = make(*arguments, listen=f"{host}:{PORT}", **{**known, **settings})
        await self.network.spawn(host, self.stack.enter_async_context(process))
        self.first = self.first or f"{host}:{PORT}"
        return process

    async def distributors(self, count: int, **settings: Any) -> list[Distributor]:
        started = [await self.enter(Distributor, **settings) for _ in range(count)]
        for one in started:
            await one.ready()
            await view_of(one, count)
        return started

    def crash(self, distributor: Distributor) -> None:
        self.network.crash(distributor.address.host)


def play(seed: int, main: Callable[[Playground], Awaitable[None]], **network: Any) -> None:
    world = Network(seed, **network)

    async def run() -> None:
        async with AsyncExitStack() as stack:
            await main(Playground(world, stack))

    world.run(run())


async def view_of(distributor: Distributor, size: int) -> None:
    """Wait until a distributor has a view of so many."""
    while distributor.view is None or len(distributor.view.members) != size:
        await distributor.next_view()


async def received(
    messages: ServiceSubscription, count: int, within: float = 20.0
) -> list[ServiceMessage | Gap]:
    result: list[ServiceMessage | Gap] = []
    try:
        async with asyncio.timeout(within):
            while len(result) < count:
                result.append(await anext(messages))
    except TimeoutError:
        pytest.fail(f"{len(result)} of {count} messages came within {within} s")
    return result


def test_a_service_reaches_subscribers_of_every_distributor(seed: int) -> None:
    async def main(ground: Playground) -> None:
        await ground.distributors(3)
        publisher = await ground.enter(Publisher)
        await publisher.create("ticker")
        await asyncio.sleep(2)
        subscriptions = []
        for number in range(6):
            subscriber = await ground.enter(Subscriber)
            semantics = "no_gap" if number % 2 else "gap"
            subscription = subscriber.subscribe("ticker", semantics=semantics)
            subscriptions.append(await ground.stack.enter_async_context(subscription))
        assert len({one.primary for one in subscriptions}) > 1
        for number in range(50):
            await publisher.publish("ticker", {"n": number, "b": b"x" * (number * 1000)})
        for subscription in subscriptions:
            messages = await received(subscription, 50)
            assert [message.data["n"] for message in messages] == list(range(50))
            assert {message.publisher for message in messages} == {publisher.contact.id}
            assert await subscription.close()

    play(seed, main, latency=Latency.uniform(0.001, 0.02), loss=0.02, duplicate=0.02)


def test_subscribers_and_publishers_fail_over_when_a_distributor_crashes(seed: int) -> None:
    async def main(ground: Playground) -> None:
        node = await ground.enter(Node)
        assert node.is_running
        distributors = await ground.distributors(3, services=["ticker"])
        publisher = await ground.enter(Publisher)
        await publisher.create("ticker")
        subscriptions = []
        for _ in range(4):
            subscriber = await ground.enter(Subscriber)
            subscription = subscriber.subscribe("ticker", semantics="no_gap")
            subscriptions.append(await ground.stack.enter_async_context(subscription))
        primary = subscriptions[0].primary
        victim = next(one for one in distributors if one.contact.id == primary)
        for number in range(60):
            if number == 20:
                ground.crash(victim)
            await publisher.publish("ticker", number, wait="sent")
            await asyncio.sleep(0.05)
        for subscription in subscriptions:
            messages = await received(subscription, 60, within=60)
            assert [message.data for message in messages] == list(range(60))
        assert subscriptions[0].changes > 0
        assert subscriptions[0].primary != primary
        left = [one for one in distributors if one is not victim]
        for one in left:
            await view_of(one, 2)
        assert left[0].view == left[1].view

    play(seed, main)


def test_views_come_to_rest_after_a_partition(seed: int) -> None:
    async def main(ground: Playground) -> None:
        distributors = await ground.distributors(3, services=["ticker"])
        hosts = [one.address.host for one in distributors]
        ground.network.partition(hosts[2:], hosts[:2])
        await view_of(distributors[0], 2)
        await asyncio.sleep(10)
        ground.network.heal()
        await asyncio.sleep(30)
        at_rest = [one.view for one in distributors]
        assert at_rest[0] is not None
        assert len(at_rest[0].members) == 3
        await asyncio.sleep(60)
        assert [one.view for one in distributors] == at_rest == at_rest[:1] * 3

    play(seed, main, latency=Latency.uniform(0.001, 0.02))


def test_a_distributor_that_leaves_hands_its_subscribers_over_at_once(seed: int) -> None:
    async def main(ground: Playground) -> None:
        staying = (await ground.distributors(2, services=["ticker"]))[0]
        leaving = await ground.enter(Distributor, services=["ticker"])
        await leaving.ready()
        subscriber = await ground.enter(Subscriber, bootstrap=[], finder=Only(leaving, staying))
        async with subscriber.subscribe("ticker", semantics="no_gap") as messages:
            assert messages.primary == leaving.contact.id
            await leaving.close()
            await asyncio.sleep(1.0)
            assert messages.primary == staying.contact.id
            await view_of(staying, 2)

    play(seed, main)


def test_what_is_remembered_of_ended_subscriptions_is_bounded(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(light_client, "MOST_OLD_STREAMS", 3, raising=False)

    async def main(ground: Playground) -> None:
        services = [f"service {number}" for number in range(10)]
        (one,) = await ground.distributors(1, services=services)
        subscriber = await ground.enter(Subscriber, bootstrap=[str(one.address)])
        async with subscriber.subscribe(services[0]) as kept:
            for service in services[1:]:
                async with subscriber.subscribe(service):
                    await asyncio.sleep(0.1)
            assert len(subscriber._streams) <= 1 + 3 + 1
            publisher = await ground.enter(Publisher, bootstrap=[str(one.address)])
            await publisher.publish(services[0], "still heard")
            message = await anext(kept)
            assert isinstance(message, ServiceMessage)
            assert message.data == "still heard"

    play(seed, main)


class Only:
    """Names these distributors, one after the other."""

    def __init__(self, *distributors: Distributor) -> None:
        self._contacts = [one.contact for one in distributors]

    async def __call__(self) -> list[Contact]:
        return [self._contacts.pop(0)] if self._contacts else []


async def five_arrive(node: Node, messages: ServiceSubscription) -> list[ServiceMessage | Gap]:
    """What a node publishes in a topic comes in order out of the service that the topic feeds."""
    for number in range(5):
        await node.publish("/soccer/italy", number)
    found = await received(messages, 5)
    assert [message.data for message in found] == list(range(5))
    return found


def test_a_service_is_fed_by_a_topic(seed: int) -> None:
    async def main(ground: Playground) -> None:
        node = await ground.enter(Node)
        distributors = await ground.distributors(2, topics={"football": "/soccer"})
        assert all(one.view is not None for one in distributors)
        subscriber = await ground.enter(Subscriber)
        # A member of the topic knows all of the few others: its events reach the one that stays up.
        async with node.subscribe("/soccer"), subscriber.subscribe("football") as messages:
            found = await five_arrive(node, messages)
            assert {message.topic for message in found} == {"/soccer/italy"}
            assert {message.publisher for message in found} == {node.id}
            first = next(one for one in distributors if one.view.members[0].id == one.contact.id)
            ground.crash(first)
            for number in range(5, 10):
                await node.publish("/soccer/italy", number)
            more = await received(messages, 5, within=60)
            assert [
                message.data for message in more if isinstance(message, ServiceMessage)
            ] == list(range(5, 10))

    play(seed, main)


def test_a_distributor_that_advertises_an_address_is_fed_by_a_topic_too(seed: int) -> None:
    async def main(ground: Playground) -> None:
        node = await ground.enter(Node)
        known_as = f"{nth_host(ground.hosts)}:{PORT}"
        topics = {"football": "/soccer"}
        distributor = await ground.enter(Distributor, topics=topics, advertise=known_as)
        assert str(distributor.address) == known_as
        subscriber = await ground.enter(Subscriber)
        async with subscriber.subscribe("football") as messages:
            await five_arrive(node, messages)

    play(seed, main)


def test_distributors_are_stacked(seed: int) -> None:
    async def main(ground: Playground) -> None:
        await ground.distributors(2, services=["ticker"])
        await ground.distributors(2, services=["ticker"], group="lower", upstream="main")
        await ground.distributors(1, services=["ticker"], group="lowest", upstream="lower")
        publisher = await ground.enter(Publisher)
        subscriptions = []
        for group in ("main", "lower", "lowest"):
            subscriber = await ground.enter(Subscriber, group=group)
            subscription = subscriber.subscribe("ticker", semantics="no_gap")
            subscriptions.append(await ground.stack.enter_async_context(subscription))
        await asyncio.sleep(3)
        for number in range(30):
            await publisher.publish("ticker", number)
        for subscription in subscriptions:
            messages = await received(subscription, 30)
            assert [message.data for message in messages] == list(range(30))
            assert {message.publisher for message in messages} == {publisher.contact.id}

    play(seed, main)


def test_what_a_distributor_drops_is_in_its_metrics_and_its_status(seed: int) -> None:
    async def main(ground: Playground) -> None:
        distributor = (await ground.distributors(1, services=["ticker"]))[0]
        publisher = await ground.enter(Publisher)
        source = source_of(publisher.contact.id, b"the run1")
        strange = ServiceBlock("nothing", source, 1, (b"",))
        publisher._open().context("channel").send(distributor.contact, SpreadBlocks((strange,)))
        await asyncio.sleep(1)
        assert distributor.metrics.as_dict()["distributor_dropped"] == {"no_service": 1}
        status = json.loads(json.dumps(distributor.status()))
        assert status["dropped"] == status["counters"]["distributor_dropped"] == {"no_service": 1}
        assert (status["group"], list(status["services"])) == ("main", ["ticker"])

    play(seed, main)


def test_who_asks_for_what_is_not_there_is_told(seed: int) -> None:
    async def main(ground: Playground) -> None:
        await ground.distributors(1)
        subscriber = await ground.enter(Subscriber, connect_timeout=3.0)
        with pytest.raises(NoSuchService, match="nothing"):
            await subscriber.subscribe("nothing").__aenter__()
        other = await ground.enter(Publisher, group="others", connect_timeout=3.0)
        with pytest.raises(NoDistributor, match="others"):
            await other.create("ticker")
        with pytest.raises(UsageError, match="semantics"):
            subscriber.subscribe("ticker", semantics="some")

    play(seed, main)


def test_light_clients_do_without_the_dht_when_given_addresses(seed: int) -> None:
    async def main(ground: Playground) -> None:
        distributor = (await ground.distributors(1))[0]
        addresses = [str(distributor.address)]
        publisher = await ground.enter(Publisher, bootstrap=[], distributors=addresses)
        await publisher.create("ticker")
        subscriber = await ground.enter(Subscriber, bootstrap=[], distributors=addresses)
        async with subscriber.subscribe("ticker") as messages:
            await publisher.publish("ticker", "hello", wait="safe")
            assert [message.data for message in await received(messages, 1)] == ["hello"]
            assert distributor.status()["services"]["ticker"]["subscribers"] == 1
        assert distributor.status()["services"]["ticker"]["subscribers"] == 0

    play(seed, main)


def test_services_that_are_created_above_later_flow_down_and_go_when_they_are_removed(
    seed: int,
) -> None:
    async def main(ground: Playground) -> None:
        await ground.distributors(2, services=["early"])
        await ground.distributors(2, group="lower", upstream="main")
        await ground.distributors(1, group="lowest", upstream="lower")
        publisher = await ground.enter(Publisher)
        await publisher.create("later")
        subscriber = await ground.enter(Subscriber, group="lowest")
        async with asyncio.timeout(30):
            while True:
                try:
                    messages = await subscriber.subscribe("later").__aenter__()
                    break
                except NoSuchService:
                    pass
        for number in range(20):
            await publisher.publish("later", number)
        found = await received(messages, 20)
        assert [message.data for message in found] == list(range(20))
        await publisher.remove("later")
        with pytest.raises(NoSuchService, match="removed"):
            await received(messages, 1, within=60)

    play(seed, main)


def test_a_distributor_whose_task_dies_says_so(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    async def main(ground: Playground) -> None:
        (one,) = await ground.distributors(1)

        def broken() -> None:
            raise RuntimeError("a bug")

        monkeypatch.setattr(one._core, "tick", broken)
        with pytest.raises(TaskFailed, match="ticks of the distributor"):
            await one.next_view()
        assert one.metrics.as_dict()["background_tasks_failed"] == {"ticks": 1}
        await one.close()

    play(seed, main)


def test_who_waits_for_a_distributor_that_is_closed_is_told(seed: int) -> None:
    async def main(ground: Playground) -> None:
        one = await ground.enter(Distributor)
        waiting = [asyncio.create_task(wait) for wait in (one.ready(), one.next_view())]
        await asyncio.sleep(0)
        assert not any(wait.done() for wait in waiting)
        await one.close()
        for wait in waiting:
            with pytest.raises(ClosedError, match="closed"):
                await asyncio.wait_for(wait, 10)

    play(seed, main)


def test_an_iteration_ends_when_a_task_of_its_client_dies(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def main(ground: Playground) -> None:
        (one,) = await ground.distributors(1, services=["ticker"])
        subscriber = await ground.enter(Subscriber)
        messages = await subscriber.subscribe("ticker").__aenter__()

        async def broken() -> list[Contact]:
            raise RuntimeError("a bug")

        monkeypatch.setattr(subscriber, "_finder", broken)
        waiting = asyncio.create_task(anext(messages))
        await asyncio.sleep(1.0)
        ground.crash(one)
        with pytest.raises(TaskFailed, match="search for distributors of the subscriber"):
            await asyncio.wait_for(waiting, 60)

    play(seed, main)


@pytest.mark.parametrize("wait", ["sent", "acked"])
def test_a_publication_that_waits_ends_when_its_publisher_removes_the_service(
    seed: int, wait: Wait
) -> None:
    """Be it for room, or for its acknowledgement."""

    async def main(ground: Playground) -> None:
        (one,) = await ground.distributors(1)
        publisher = await ground.enter(Publisher, config=ClientConfig(in_flight=1, retained=1))
        await publisher.create("ticker")
        away, here = nth_host(0), nth_host(1)
        ground.network.partition([here], [away])
        if wait == "sent":
            await publisher.publish("ticker", "it fills the window", wait="sent")
        waiting = asyncio.create_task(publisher.publish("ticker", "in vain", wait=wait))
        await asyncio.sleep(0.5)
        assert not waiting.done()
        removing = asyncio.create_task(publisher.remove("ticker"))
        await asyncio.sleep(0.5)
        ground.network.heal()
        await removing
        with pytest.raises(NoSuchService, match="removed"):
            await asyncio.wait_for(waiting, 60)
        await publisher.publish("ticker", "it is created again", deadline=10)
        assert list(one._core.services) == ["ticker"]

    play(seed, main)


def test_a_service_that_is_removed_twice_at_one_moment_is_removed_for_both(seed: int) -> None:
    async def main(ground: Playground) -> None:
        (one,) = await ground.distributors(1)
        publisher = await ground.enter(Publisher)
        await publisher.create("ticker")
        await asyncio.gather(publisher.remove("ticker"), publisher.remove("ticker"))
        assert not one._core.services

    play(seed, main)


def test_what_is_published_below_goes_up_and_to_every_group_once(seed: int) -> None:
    async def main(ground: Playground) -> None:
        await ground.distributors(2, services=["ticker"], downstream=["east", "west"])
        east = await ground.distributors(2, services=["ticker"], group="east", upstream="main")
        await ground.distributors(1, services=["ticker"], group="west", upstream="main")
        await asyncio.sleep(5.0)
        publisher = await ground.enter(Publisher, group="east")
        groups = ("main", "east", "west")
        subscribers = [await ground.enter(Subscriber, group=group) for group in groups]
        async with AsyncExitStack() as stack:
            streams = [
                await stack.enter_async_context(one.subscribe("ticker", semantics="no_gap"))
                for one in subscribers
            ]
            for number in range(30):
                await publisher.publish("ticker", number)
            for messages in streams:
                found = await received(messages, 30)
                assert [message.data for message in found] == list(range(30))
            # The publisher's distributor and the publisher are gone just after it was acknowledged.
            await publisher.publish("ticker", 30, wait="safe")
            primary = publisher._publishing["ticker"].keeper.primary
            ground.crash(next(one for one in east if one.contact.id == primary.id))
            for messages in (streams[0], streams[2]):
                (last,) = await received(messages, 1, within=60)
                assert isinstance(last, ServiceMessage)
                assert last.data == 30
            await asyncio.sleep(10.0)
            assert not any(map(len, (streams[0], streams[2])))

    play(seed, main)


def test_messages_from_below_are_taken_from_groups_that_are_named_only(seed: int) -> None:
    async def main(ground: Playground) -> None:
        above = await ground.distributors(1, services=["ticker"])
        (below,) = await ground.distributors(1, services=["ticker"], group="east", upstream="main")
        await asyncio.sleep(3.0)
        publisher = await ground.enter(Publisher, group="east")
        await publisher.publish("ticker", "mine")
        await asyncio.sleep(5.0)
        assert above[0].status()["dropped"]["not_below"] > 0
        assert above[0].status()["services"]["ticker"]["held_pieces"] == 0
        assert below._core is not None
        assert below._core.upward.is_refused, "nothing is kept for a group that does not take it"

    play(seed, main)


def test_clients_share_the_socket_of_a_node(seed: int) -> None:
    async def main(ground: Playground) -> None:
        await ground.distributors(2)
        node = await ground.enter(Node)
        async with (
            Publisher(node=node) as publisher,
            Publisher(node=node) as another,
            Subscriber(node=node) as subscriber,
        ):
            await publisher.create("ticker")
            async with subscriber.subscribe("ticker", semantics="no_gap") as messages:
                with pytest.raises(UsageError, match="subscribed to 'ticker' already"):
                    async with Subscriber(node=node) as second, second.subscribe("ticker"):
                        pass
                for number in range(10):
                    await publisher.publish("ticker", ["one", number], wait="safe")
                    await another.publish("ticker", ["another", number])
                came = [one.data for one in await received(messages, 20)]
                for name in ("one", "another"):
                    assert [data[1] for data in came if data[0] == name] == list(range(10))
        async with Subscriber(node=node) as subscriber, subscriber.subscribe("ticker") as messages:
            assert messages.primary is not None, "a node may have clients again"
        await node.publish("/still", "there")

    play(seed, main)


def test_a_client_on_a_node_has_no_settings_of_its_own() -> None:
    node = Node()
    with pytest.raises(UsageError, match="those of the node"):
        Publisher(node=node, listen="127.0.0.1:4001")
    with pytest.raises(UsageError, match="say where"):
        Publisher(node=node, bootstrap=["127.0.0.1:4001"])


@pytest.mark.parametrize("where", ["client", "node"])
def test_messages_of_services_are_validated(where: str) -> None:
    def is_number(batch: Batch) -> bool:
        return all(type(data) is int for data in batch.data)

    validators = {"/distributors/main/ticker": is_number, "/soccer": is_number}

    async def main(ground: Playground) -> None:
        (distributor,) = await ground.distributors(1, topics={"football": "/soccer"})
        publisher = await ground.enter(Publisher)
        source = await ground.enter(Node)
        if where == "node":
            node = await ground.enter(Node, validators=validators)
            subscriber = await ground.stack.enter_async_context(Subscriber(node=node))
        else:
            subscriber = await ground.enter(Subscriber, validators=validators)
        await publisher.create("ticker")
        async with (
            subscriber.subscribe("ticker", semantics="no_gap") as prices,
            subscriber.subscribe("football") as events,
        ):
            for data in (1, "text", 2):
                await publisher.publish("ticker", data)
                await source.publish("/soccer", data, wait="acked")
            assert [one.data for one in await received(prices, 2)] == [1, 2]
            assert sorted(one.data for one in await received(events, 2)) == [1, 2]
            drops = subscriber.metrics.family("service_messages_dropped", "reason", "")
            assert drops["refused"] == 2
        assert distributor.view is not None

    play(3, main)
