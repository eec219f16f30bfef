"""What a node does by itself: it notices deaths, heals, refreshes, and costs little."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from contextlib import AbstractContextManager
from typing import Any

import pytest
from kademlia.node import Node
from kademlia.protocol import KademliaProtocol

from overlay.dht import DhtConfig
from overlay.dht.node import DhtNode
from overlay.dht.upstream import Target
from overlay.identity import Identity
from overlay.metrics import Metrics
from overlay.virtual import Latency, Network, nth_host
from overlay.virtual.stage import Stage, numbered_contact
from tests.overlay.dht.both import on_both
from tests.overlay.dht.stock import open_stock
from tests.overlay.dht.swarm import Swarm, key

Observe = Callable[[Network], Coroutine[Any, Any, Any]]
Verdict = AbstractContextManager[Any]


def test_idle_nodes_notice_the_dead(seed: int) -> None:
    net = Network(seed, latency=Latency.constant(0.02))

    async def main() -> None:
        swarm = Swarm(net)
        await swarm.grow(20)
        dead = [member.contact for member in swarm.members[5:11]]
        for member in swarm.members[5:11]:
            swarm.crash(member)
        await asyncio.sleep(180)
        for member in swarm.members:
            assert [contact for contact in member.dht.known_contacts() if contact in dead] == []

    net.run(main())


def test_a_dead_contact_is_asked_for_one_sign_of_life_and_not_for_two(seed: int) -> None:
    net = Network(seed, latency=Latency.constant(0.02))

    async def main() -> None:
        swarm = Swarm(net)
        await swarm.grow(3)
        watcher, crashed = swarm.members[0], swarm.members[2]
        swarm.crash(crashed)
        for _ in range(1800):
            if crashed.contact not in watcher.dht.known_contacts():
                break
            await asyncio.sleep(0.1)
        assert watcher.metrics.as_dict()["dht_requests_given_up"] == 1

    net.run(main())


def test_an_idle_light_member_is_silent_and_still_finds_its_way_after_deaths(seed: int) -> None:
    net = Network(seed, latency=Latency.constant(0.02))

    async def main() -> None:
        swarm = Swarm(net)
        await swarm.grow(20)
        light = await swarm.add(DhtConfig(serve=False))
        await asyncio.sleep(60)
        before = net.stats.hosts[light.host].sent
        await asyncio.sleep(300)
        assert net.stats.hosts[light.host].sent == before
        for member in swarm.members[5:11]:
            swarm.crash(member)
        found = await light.dht.closest(key("x"), 8)
        assert (
            found
            == [contact for contact in swarm.closest(key("x"), 9) if contact != light.contact][:8]
        )

    net.run(main())


def test_two_halves_of_a_network_find_each_other_after_a_partition(seed: int) -> None:
    net = Network(seed, latency=Latency.constant(0.02))

    async def main() -> None:
        swarm = Swarm(net, DhtConfig(k=8))
        await swarm.grow(24)
        left, right = swarm.members[:12], swarm.members[12:]
        net.partition({m.host for m in left}, {m.host for m in right})
        await asyncio.sleep(600)
        others = [member.contact for member in right]
        assert all(c not in others for m in left for c in m.dht.known_contacts()), "all forgotten"
        net.heal()
        await asyncio.sleep(60)
        for number, member in enumerate(swarm.members):
            assert await member.dht.closest(key(number), 8) == swarm.closest(key(number), 8)

    net.run(main())


def test_a_node_that_lost_everybody_looks_for_the_bootstrap_nodes_again(seed: int) -> None:
    net = Network(seed, latency=Latency.constant(0.02))

    async def main() -> None:
        swarm = Swarm(net)
        await swarm.grow(2)
        lonely = swarm.members[1]
        lonely.protocol.contacts.table.clear()
        lonely.protocol.contacts.lost.clear()
        await asyncio.sleep(30)
        assert lonely.dht.known_contacts() == [swarm.members[0].contact]

    net.run(main())


def test_buckets_without_lookups_are_refreshed(seed: int) -> None:
    net = Network(seed, latency=Latency.constant(0.02))

    async def main() -> None:
        swarm = Swarm(net, DhtConfig(refresh_interval=120.0))
        await swarm.grow(6)
        before = [m.metrics.as_dict()["dht_lookups"] for m in swarm.members]
        await asyncio.sleep(100)
        assert [m.metrics.as_dict()["dht_lookups"] for m in swarm.members] == before
        await asyncio.sleep(60)
        after = [m.metrics.as_dict()["dht_lookups"] for m in swarm.members]
        assert all(late > early for early, late in zip(before, after, strict=True))  # type: ignore[operator]

    net.run(main())


def test_a_lookup_counts_as_a_refresh_and_answering_others_does_not(seed: int) -> None:
    net = Network(seed, latency=Latency.constant(0.02))

    async def main() -> None:
        swarm = Swarm(net, DhtConfig(refresh_interval=1e6))
        await swarm.grow(4)
        await asyncio.sleep(50)
        asked, asker = swarm.members[0], swarm.members[1]
        ages = [bucket.last_used for bucket in asked.protocol.contacts.table.buckets]
        await asker.dht.closest(key("x"))
        assert asker.protocol.contacts.table.bucket_of(Target(key("x"))).last_used > 50.0
        assert [bucket.last_used for bucket in asked.protocol.contacts.table.buckets] == ages

    net.run(main())


def test_an_idle_node_sends_little(seed: int) -> None:
    net = Network(seed, latency=Latency.constant(0.02))

    async def main() -> None:
        swarm = Swarm(net)
        await swarm.grow(20)
        await asyncio.sleep(60)
        before = net.stats.sent_bytes
        await asyncio.sleep(600)
        assert (net.stats.sent_bytes - before) / 20 / 10 < 1500, "bytes a node and minute"

    net.run(main())


async def left_after_stopping(net: Network) -> int:
    swarm = Swarm(net)
    await swarm.grow(2)
    swarm.crash(swarm.members[1])
    member = swarm.members[0]
    lookup = asyncio.ensure_future(member.dht.closest(key(1)))
    await asyncio.sleep(0.01)
    member.dht.close()
    await asyncio.gather(lookup, return_exceptions=True)
    return len(member.protocol.exchange)


async def left_after_stopping_stock(net: Network) -> int:
    server, other = await open_stock(nth_host(2)), await open_stock(nth_host(3))
    await server.bootstrap([(nth_host(3), 4000)])
    other.stop()
    lookup = asyncio.ensure_future(server.get("k"))
    await asyncio.sleep(0.01)
    server.stop()
    await asyncio.sleep(0.1)
    lookup.cancel()
    return len(server.protocol._outstanding)


@on_both(left_after_stopping, left_after_stopping_stock)
def test_stopping_ends_the_requests_in_flight(
    subject: Observe, verdict: Verdict, seed: int
) -> None:
    net = Network(seed, latency=Latency.constant(0.02))
    with verdict:
        assert net.run(subject(net)) == 0


def refresh_id_at_the_end() -> bytes:
    """The id that refreshes the last bucket when chance picks the greatest number."""
    stage = Stage(1)
    contact = numbered_contact(1)
    context = stage.context(contact)
    context.random.randrange = lambda low, high: high - 1  # type: ignore[assignment,method-assign]
    node = DhtNode(context, DhtConfig(), Identity.create(), Metrics(), 1200)
    node.contacts.table.buckets[-1].last_used = -9999.0
    return node.upkeep.refresh_ids()[-1]


def refresh_id_at_the_end_stock() -> bytes:
    protocol = KademliaProtocol(Node(key(1)), {}, 20)
    protocol.router.buckets[-1].last_updated = float("-inf")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("kademlia.protocol.random.randint", lambda low, high: high)
        return bytes(protocol.get_refresh_ids()[-1])


@on_both(refresh_id_at_the_end, refresh_id_at_the_end_stock, fails_with=OverflowError)
def test_refreshing_stays_within_the_id_space(
    subject: Callable[[], bytes], verdict: Verdict
) -> None:
    with verdict:
        assert subject() == b"\xff" * 20


def test_closing_leaves_nothing_running(seed: int) -> None:
    net = Network(seed, latency=Latency.constant(0.02))

    async def main() -> None:
        swarm = Swarm(net)
        await swarm.grow(5)
        await swarm.members[0].dht.put(key("k"), b"v", 1, 60.0)
        lookups = [asyncio.ensure_future(m.dht.closest(key(1))) for m in swarm.members]
        await asyncio.sleep(0.01)
        for member in swarm.members:
            await member.close()
        await asyncio.gather(*lookups, return_exceptions=True)
        await asyncio.sleep(0)
        assert [task.get_name() for task in asyncio.all_tasks()] == ["main"]

    net.run(main())
