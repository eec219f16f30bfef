"""Faults and changes, in every mode, on the virtual network: what is published after repair reaches everyone.

Every datagram is read: no event is ever sent to a node outside its topic and super-topics.
"""

from __future__ import annotations

import asyncio

import pytest

from overlay.entropy import entropy
from overlay.virtual import Latency, Network, nth_host
from pubsub import Node, Parameters, Subscription
from tests.pubsub.playground import MODES, Playground, play, received

QUICK = Parameters(lease=8, link_interval=2)
"""The same protocol with shorter times, for shorter tests."""


LONG = [
    "structured",
    pytest.param("semi-structured", marks=pytest.mark.sweep),
    pytest.param("unstructured", marks=pytest.mark.sweep),
    pytest.param("hyparview", marks=pytest.mark.sweep),
]
"""One mode by default and all of them in sweeps, for what takes long."""


async def reaches(publisher: Node, topic: str | type, subscriptions: list[Subscription]) -> None:
    """Publish, and fail unless each of these receives exactly this event next."""
    for subscription in subscriptions:
        while len(subscription):
            await anext(subscription)
    receipt = await publisher.publish(topic, "after repair")
    for number, subscription in enumerate(subscriptions):
        (event,) = await received(subscription, 1, within=20)
        assert event.id == receipt.id, f"subscriber {number}"


@pytest.mark.parametrize("mode", MODES)
def test_an_empty_intermediate_community_is_bridged_and_then_used(mode: str) -> None:
    async def main(p: Playground) -> None:
        top = await p.subscribers("/", 3)
        bottom = await p.subscribers("/a/b/c", 4)
        publisher = p.nodes[-1]
        await reaches(publisher, "/a/b/c", [*top, *bottom])
        middle = await p.subscribers("/a/b", 2)
        if (
            mode == "unstructured"
        ):  # somebody must know that community: those who join with gateways
            bottom += await p.subscribers("/a/b/c", 1)
            publisher = p.nodes[-1]
        await asyncio.sleep(40)
        await reaches(publisher, "/a/b/c", [*top, *middle, *bottom])

    play(1, main, mode, parameters=QUICK)


@pytest.mark.parametrize("mode", MODES)
def test_a_subtopic_made_while_running_is_heard_by_the_topics_above_it(mode: str) -> None:
    async def main(p: Playground) -> None:
        above = [*await p.subscribers("/", 2), *await p.subscribers("/a", 4)]
        publisher = await p.node()
        await reaches(publisher, "/a/new", above)
        below = await p.subscribers("/a/new", 2)
        await asyncio.sleep(15)
        await reaches(p.nodes[-1], "/a/new", [*above, *below])

    play(2, main, mode, parameters=QUICK)


class Match: ...


class Italian: ...


class SerieA(Match, Italian): ...


@pytest.mark.parametrize("mode", MODES)
def test_events_of_a_topic_with_two_parents_reach_both(mode: str) -> None:
    async def main(p: Playground) -> None:
        subscriptions = [
            s for topic in ("/", Match, Italian, SerieA) for s in await p.subscribers(topic, 2)
        ]
        await reaches(await p.node(), SerieA, subscriptions)

    play(3, main, mode, parameters=QUICK)


@pytest.mark.parametrize("mode", LONG)
def test_a_crashed_super_community_that_comes_back_is_linked_again(mode: str) -> None:
    async def main(p: Playground) -> None:
        root = await p.node()  # of the network, not of the topics: the others bootstrap from it
        assert root.is_running
        above = await p.subscribers("/a", 3)
        below = await p.subscribers("/a/b", 4)
        publisher = p.nodes[-1]
        await reaches(publisher, "/a/b", [*above, *below])
        for number in (1, 2, 3):
            p.crash(number)
        await asyncio.sleep(30)
        await reaches(publisher, "/a/b", below)
        back = [await p.restart_subscriber(number, "/a") for number in (1, 2, 3)]
        await asyncio.sleep(90)
        await reaches(publisher, "/a/b", [*back, *below])

    play(4, main, mode, parameters=QUICK)


@pytest.mark.parametrize("mode", LONG)
def test_a_healed_partition_is_one_network_again(mode: str) -> None:
    async def main(p: Playground) -> None:
        await p.node()
        above = await p.subscribers("/a", 4)
        below = await p.subscribers("/a/b", 6)
        publisher = p.nodes[-1]
        await reaches(publisher, "/a/b", [*above, *below])
        hosts = [nth_host(number) for number in range(len(p.nodes))]
        p.network.partition(hosts[::2], hosts[1::2])
        for _ in range(10):
            await publisher.publish("/a/b", "meanwhile")
            await asyncio.sleep(3)
        p.network.heal()
        await asyncio.sleep(120)
        await reaches(publisher, "/a/b", [*above, *below])

    play(5, main, mode, parameters=QUICK)


@pytest.mark.parametrize("mode", LONG)
def test_under_churn_no_parasite_is_sent_and_events_reach_everyone_afterwards(mode: str) -> None:
    churn(6, mode, nodes=12, rounds=8)


@pytest.mark.sweep
@pytest.mark.parametrize("mode", ["structured"])
def test_ten_minutes_in_which_one_of_a_hundred_comes_or_goes_every_second(mode: str) -> None:
    churn(7, mode, nodes=20, rounds=120, pause=5)


def churn(seed: int, mode: str, nodes: int, rounds: int, pause: float = 2.0) -> None:
    """Again and again a node leaves its topic and joins another, half the time as a new node."""

    async def main(p: Playground) -> None:
        await p.node()
        topics = ("/", "/a", "/a/b")
        members = {topic: [await p.subscriber(topic) for _ in range(3)] for topic in topics}
        moving = [await p.subscriber("/a/b") for _ in range(nodes - 9)]
        publisher = await p.node()
        random = entropy()
        for _ in range(rounds):
            node, events = moving.pop(random.randrange(0, len(moving)))
            await events.close()
            if random.random() < 0.5:
                node = await p.replace(node)
            events = await p.stack.enter_async_context(node.subscribe(random.choice(topics)))
            moving.append((node, events))
            await publisher.publish("/a/b", "during churn")
            await asyncio.sleep(pause)
        await asyncio.sleep(30)
        everyone = [pair for pairs in members.values() for pair in pairs] + moving
        await reaches(publisher, "/a/b", [events for _, events in everyone])

    network = Network(seed, latency=Latency.uniform(0.002, 0.03), loss=0.02)
    play(seed, main, mode, network=network, parameters=QUICK)


@pytest.mark.parametrize("size", [100, 200_000], ids=["one segment", "many parts"])
@pytest.mark.parametrize("mode", ["unstructured", "structured"])
def test_one_that_left_while_it_was_cut_off_is_not_sent_what_was_on_its_way(
    mode: str, size: int
) -> None:
    async def main(p: Playground) -> None:
        await p.subscribers("/a", 2)
        gone, subscription = await p.subscriber("/a")
        publisher = await p.node()
        await publisher.publish("/a", "before")
        await received(subscription, 1)
        hosts = [nth_host(number) for number in range(4)]
        p.network.partition(hosts[2:3], [*hosts[:2], *hosts[3:]])
        for _ in range(3):
            await publisher.publish("/a", bytes(size))
        await subscription.close()
        await asyncio.sleep(3 * QUICK.lease)
        assert not gone._process.is_in("/a")
        p.network.heal()
        await asyncio.sleep(60)
        dropped = gone.metrics.as_dict()["events_dropped"]
        assert isinstance(dropped, dict)
        assert not dropped.get("parasite")
        assert any(node.metrics.as_dict()["channel_messages_expired"] for node in p.nodes)

    play(7, main, mode, parameters=QUICK)
