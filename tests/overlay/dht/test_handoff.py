"""A new node gets the records that it should hold, and no others."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from contextlib import AbstractContextManager
from itertools import permutations
from typing import Any

from kademlia.node import Node

from overlay.contact import Contact
from overlay.dht.config import DhtConfig
from overlay.dht.messages import StoredValue
from overlay.dht.routing import RoutingTable
from overlay.dht.upstream import Target, peer_of
from overlay.dht.values import GIVERS, is_due
from overlay.virtual import Latency, Network, nth_host
from tests.overlay.dht.both import on_both
from tests.overlay.dht.stock import open_stock
from tests.overlay.dht.swarm import Swarm, key, open_member

Observe = Callable[[Network], Coroutine[Any, Any, tuple[set[bytes], set[bytes]]]]
Verdict = AbstractContextManager[Any]
SMALL = DhtConfig(k=1, alpha=1, read_quorum=1)
KEYS = [key(n) for n in range(40)]


def closer(a: bytes, b: bytes, place: bytes) -> bool:
    """Whether `a` is closer to `place` than `b`."""
    return Node(a).distance_to(Node(place)) < Node(b).distance_to(Node(place))


def due(first: bytes, second: bytes, new: bytes) -> set[bytes]:
    """With k=1: what a new node should get from the first of two."""
    return {k for k in KEYS if closer(new, first, k) and closer(first, second, k)}


async def handed_over(net: Network) -> tuple[set[bytes], set[bytes]]:
    """What a new node gets from the first of two, and what it should get from it."""
    members = [await open_member(nth_host(n), SMALL) for n in range(2, 6)]
    first, second, new = next(
        some for some in permutations(members, 3) if due(*(m.contact.id for m in some))
    )
    await first.ping(second.contact)
    for place in KEYS:
        first.protocol.store.offer(place, StoredValue(1, b"v", 600.0))
    await first.ping(new.contact)
    await asyncio.sleep(5)
    ids = (first.contact.id, second.contact.id, new.contact.id)
    return {k for k, _ in new.protocol.store}, due(*ids)


async def handed_over_stock(net: Network) -> tuple[set[bytes], set[bytes]]:
    names = [key(("node", n)) for n in range(4)]
    ids = next(some for some in permutations(names, 3) if due(*some))
    first, _, new = [await open_stock(nth_host(2 + n), i, 1) for n, i in enumerate(ids)]
    await first.bootstrap([(nth_host(3), 4000)])
    for place in KEYS:
        first.storage[place] = b"v"
    await first.protocol.call_ping(Node(new.node.id, nth_host(4), 4000))
    await asyncio.sleep(5)
    return set(new.storage.data), due(*ids)


@on_both(handed_over, handed_over_stock)
def test_keys_go_to_the_nodes_that_are_close_to_them(
    subject: Observe, verdict: Verdict, seed: int
) -> None:
    net = Network(seed)
    with verdict:
        got, should_get = net.run(subject(net))
        assert should_get
        assert got == should_get


def test_a_few_of_those_who_know_a_new_node_hand_a_key_on() -> None:
    nodes = [peer_of(Contact(key(("node", n)), "127.0.0.1", 1 + n)) for n in range(12)]
    new, *old = nodes
    tables = [RoutingTable(node, 8, lambda: 0.0) for node in old]
    for table in tables:
        for node in nodes:
            if node is not table.own:
                table.add(node)
    handed = 0
    for place in map(Target, KEYS):
        givers = [table.own for table in tables if is_due(table, place.id, new)]
        closest = sorted(old, key=place.distance_to)
        belongs = new.distance_to(place) < closest[7].distance_to(place)
        assert sorted(givers, key=place.distance_to) == (closest[:GIVERS] if belongs else [])
        handed += belongs
    assert 0 < handed < len(KEYS)


def test_values_follow_the_network_as_it_grows(seed: int) -> None:
    """Of nodes that join after a value was put, those closest to it hold it too."""
    net = Network(seed, latency=Latency.uniform(0.005, 0.02), loss=0.05)

    async def main() -> None:
        swarm = Swarm(net, DhtConfig(k=4, read_quorum=1))
        await swarm.grow(6)
        for n in range(20):
            await swarm.run_on(
                swarm.members[n % 6], swarm.members[n % 6].dht.put(key(n), b"v", 1, 900.0)
            )
        await swarm.grow(18, at_once=1)
        await asyncio.sleep(5)
        holders = {member.contact: dict(member.protocol.store) for member in swarm.members}
        closest = [swarm.closest(key(n), 1)[0] for n in range(20)]
        held = sum(key(n) in holders[contact] for n, contact in enumerate(closest))
        assert held >= 19, f"the closest node holds only {held} of 20 values"

    net.run(main())


def test_a_dying_record_is_not_handed_on(seed: int) -> None:
    net = Network(seed)

    async def main() -> None:
        first, new = await open_member(nth_host(2)), await open_member(nth_host(3))
        first.protocol.store.offer(key("dying"), StoredValue(1, b"v", 3.0))
        first.protocol.store.offer(key("living"), StoredValue(1, b"v", 30.0))
        await first.ping(new.contact)
        await asyncio.sleep(1)
        assert [k for k, _ in new.protocol.store] == [key("living")]

    net.run(main())


def test_a_new_node_that_vanishes_costs_nothing_more(seed: int) -> None:
    net = Network(seed)

    async def main() -> None:
        first, new = await open_member(nth_host(2)), await open_member(nth_host(3))
        for place in KEYS * 10:
            first.protocol.store.offer(place, StoredValue(1, b"v", 300.0))
        await first.ping(new.contact)
        await new.close()
        await asyncio.sleep(20)
        assert len(first.protocol.exchange) == 0
        assert not first.protocol.hand_off.is_working
        await first.close()

    net.run(main())
