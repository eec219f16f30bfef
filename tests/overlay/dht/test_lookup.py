"""Lookups: no barrier, no recursion, no exception, whatever a peer does; stock's crawlers do worse."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from contextlib import AbstractContextManager
from typing import Any

import pytest
from kademlia.crawling import NodeSpiderCrawl, ValueSpiderCrawl
from kademlia.node import Node

from overlay.contact import Contact, PeerId
from overlay.dht.config import DhtConfig
from overlay.dht.messages import (
    NOT_SERVED,
    FindValue,
    FoundNodes,
    FoundValue,
    Ping,
    Pong,
    StoredValue,
    StoreValue,
    join_contacts,
)
from overlay.entropy import entropy
from overlay.virtual import Latency, Network, nth_host
from tests.overlay.dht.both import on_both
from tests.overlay.dht.rogue import Rogue
from tests.overlay.dht.stock import open_stock, open_stock_rogue
from tests.overlay.dht.swarm import Member, key, open_member

Observe = Callable[[Network], Coroutine[Any, Any, Any]]
Verdict = AbstractContextManager[Any]
A = "127.0.1.1"
TARGET = key("target")


def place(distance: int) -> PeerId:
    """The id at that distance from the target."""
    return PeerId((int.from_bytes(TARGET, "big") ^ distance).to_bytes(20, "big"))


async def member_knowing(rogues: list[Rogue], config: DhtConfig | None = None) -> Member:
    member = await open_member(A, config)
    for rogue in rogues:
        await member.ping(rogue.contact)
    return member


def names(*contacts: Contact) -> Callable[[Contact, Any], object]:
    """Answer pings with a pong, and the rest with these contacts."""
    return lambda sender, request: (
        Pong(b"t", False)
        if isinstance(request, Ping)
        else FoundNodes(b"t", join_contacts(contacts))
    )


async def seconds_with_silent_peers(net: Network) -> float:
    """One honest peer names six peers of which three are dead; how long does the lookup take?"""
    alive = [await Rogue.open(nth_host(n), names()) for n in range(2, 5)]
    dead = [Contact(place(n), nth_host(20 + n), 4000) for n in range(1, 4)]
    guide = await Rogue.open(nth_host(10), names(*dead, *(rogue.contact for rogue in alive)))
    member = await member_knowing([guide])
    for _ in range(30):
        await member.ping(guide.contact)
    started = net.now
    found = await member.dht.closest(TARGET)
    assert len(found) == 5
    return net.now - started


async def seconds_with_silent_peers_stock(net: Network) -> float:
    others = [[place(n), nth_host(20 + n), 4000] for n in range(1, 4)]
    for n in range(2, 5):
        await open_stock_rogue(nth_host(n), {"find_node": []})
        others.append([place(1000 + n), nth_host(n), 4000])
    await open_stock_rogue(nth_host(10), {"find_node": others})
    server = await open_stock(A)
    server.protocol._wait_timeout = 5
    guide = Node(place(5000), nth_host(10), 4000)
    started = net.now
    found = await NodeSpiderCrawl(server.protocol, Node(TARGET), [guide], 20, 3).find()
    assert len(found) == 4
    return net.now - started


@on_both(seconds_with_silent_peers, seconds_with_silent_peers_stock)
def test_silent_peers_cost_a_few_round_trips(subject: Observe, verdict: Verdict, seed: int) -> None:
    net = Network(seed, latency=Latency.constant(0.05))
    with verdict:
        assert net.run(subject(net)) < 1.0


async def endless_approach(net: Network) -> Any:
    """A peer that names a closer node whenever it is asked, at ports that it all answers itself."""
    draw = entropy()
    rogue: list[Rogue] = []

    def invent(sender: Contact, request: object) -> object:
        if isinstance(request, Ping):
            return Pong(b"t", False)
        closer = [Contact(place(draw.getrandbits(140)), nth_host(2), 4000) for _ in range(20)]
        return FoundNodes(b"t", join_contacts(closer))

    rogue.append(await Rogue.open(nth_host(2), invent))
    honest = await Rogue.open(nth_host(3), names())
    member = await member_knowing([rogue[0], honest])
    found = await member.dht.closest(TARGET)
    assert honest.contact in found
    return member.dht.last_lookup.requests <= 12 * 20


async def endless_approach_stock(net: Network) -> Any:
    distance = [2**150]

    def invent() -> list[Any]:
        distance[0] -= 1
        return [[place(distance[0]), nth_host(2), 4000]]

    await open_stock_rogue(nth_host(2), {"find_node": invent})
    server = await open_stock(A)
    guide = Node(place(2**155), nth_host(2), 4000)
    await NodeSpiderCrawl(server.protocol, Node(TARGET), [guide], 20, 3).find()
    return True


@on_both(endless_approach, endless_approach_stock, fails_with=RecursionError)
def test_invented_nodes_come_to_an_end(subject: Observe, verdict: Verdict, seed: int) -> None:
    net = Network(seed)
    with verdict:
        assert net.run(subject(net))


async def malformed_nodes(net: Network) -> int:
    liar = await Rogue.open(
        nth_host(2),
        lambda sender, request: Pong(b"t", False) if isinstance(request, Ping) else b"\x92\x03\x05",
    )
    member = await member_knowing([liar])
    found = await member.dht.closest(TARGET)
    assert liar.contact not in member.dht.known_contacts()
    return len(found)


async def malformed_nodes_stock(net: Network) -> int:
    await open_stock_rogue(nth_host(2), {"find_node": 5})
    server = await open_stock(A)
    guide = Node(place(1), nth_host(2), 4000)
    return len(await NodeSpiderCrawl(server.protocol, Node(TARGET), [guide], 20, 3).find())


@on_both(malformed_nodes, malformed_nodes_stock, fails_with=TypeError)
def test_malformed_nodes_do_not_raise(subject: Observe, verdict: Verdict, seed: int) -> None:
    net = Network(seed)
    with verdict:
        assert net.run(subject(net)) == 1


async def malformed_value(net: Network) -> Any:
    liar = await Rogue.open(
        nth_host(2),
        lambda sender, request: Pong(b"t", False) if isinstance(request, Ping) else b"\x92\x06\x80",
    )
    member = await member_knowing([liar])
    return await member.dht.get(TARGET)


async def malformed_value_stock(net: Network) -> Any:
    await open_stock_rogue(nth_host(2), {"find_value": {"value": [1, 2]}})
    server = await open_stock(A)
    guide = Node(place(1), nth_host(2), 4000)
    return await ValueSpiderCrawl(server.protocol, Node(TARGET), [guide], 20, 3).find()


@on_both(malformed_value, malformed_value_stock, fails_with=TypeError)
def test_malformed_values_do_not_raise(subject: Observe, verdict: Verdict, seed: int) -> None:
    net = Network(seed)
    with verdict:
        assert net.run(subject(net)) is None


def holder(*records: StoredValue | None) -> Callable[[Contact, Any], object]:
    """A peer that holds the first record, and names nobody."""

    def answer(sender: Contact, request: object) -> object:
        if isinstance(request, FindValue) and records and records[0]:
            return FoundValue(b"t", records[0], b"")
        return Pong(b"t", False) if isinstance(request, Ping) else FoundNodes(b"t", b"")

    return answer


async def newest_of_three(net: Network) -> bytes:
    old, new = StoredValue(1, b"old", 60.0), StoredValue(2, b"new", 60.0)
    peers = [await Rogue.open(nth_host(n), holder(r)) for n, r in enumerate([old, old, new], 2)]
    record = await (await member_knowing(peers)).dht.get(TARGET)
    assert record is not None
    return record.value


async def newest_of_three_stock(net: Network) -> bytes:
    for n, value in enumerate([b"old", b"old", b"new"], 2):
        await open_stock_rogue(nth_host(n), {"find_value": {"value": value}, "store": True})
    server = await open_stock(A)
    peers = [Node(place(n), nth_host(n), 4000) for n in (2, 3, 4)]
    value: bytes = await ValueSpiderCrawl(server.protocol, Node(TARGET), peers, 20, 3).find()
    return value


@on_both(newest_of_three, newest_of_three_stock)
def test_the_newest_version_wins_not_the_most_frequent(
    subject: Observe, verdict: Verdict, seed: int
) -> None:
    net = Network(seed)
    with verdict:
        assert net.run(subject(net)) == b"new"


def test_one_holder_does_not_make_a_quorum_by_being_asked_twice(seed: int) -> None:
    net = Network(seed, latency=Latency.constant(0.01))

    async def main() -> None:
        ghosts = [Contact(place(2**150 + n), nth_host(50 + n), 4000) for n in range(3)]
        old = await Rogue.open(
            nth_host(2),
            lambda sender, request: (
                FoundValue(
                    b"t", StoredValue(1, b"old", 60.0), join_contacts([*ghosts, new.contact])
                )
                if isinstance(request, FindValue)
                else Pong(b"t", False)
            ),
        )
        new = await Rogue.open(nth_host(3), holder(StoredValue(2, b"new", 60.0)))
        member = await member_knowing([old], DhtConfig(alpha=1, read_quorum=2))
        net_delay = {nth_host(3): 0.2}
        with net.rule(lambda packet: net_delay.get(packet.destination.host, 0.0)):
            record = await member.dht.get(TARGET)
        assert record is not None
        assert record.value == b"new"

    net.run(main())


def test_outdated_and_empty_holders_are_repaired_and_outsiders_are_not(seed: int) -> None:
    net = Network(seed, latency=Latency.constant(0.01))

    async def main() -> None:
        peers = [await Rogue.open(nth_host(n), holder()) for n in range(2, 6)]
        goal = int.from_bytes(TARGET, "big")
        peers.sort(key=lambda rogue: int.from_bytes(rogue.contact.id, "big") ^ goal)
        peers[1].answer = holder(StoredValue(1, b"old", 60.0))
        peers[2].answer = holder(StoredValue(2, b"new", 60.0))
        member = await member_knowing(peers)
        assert (await member.dht.get(TARGET)) is not None
        await asyncio.sleep(1)
        stored = [
            [m.record.value for m in rogue.heard if isinstance(m, StoreValue)] for rogue in peers
        ]
        assert stored == [[b"new"], [b"new"], [], []]

    net.run(main())


def test_a_repaired_copy_lives_no_longer_than_the_original(seed: int) -> None:
    net = Network(seed, latency=Latency.constant(0.01))

    async def main() -> None:
        silences = [True, True]

        def holds_the_new(sender: Contact, request: object) -> object:
            return holder(StoredValue(2, b"new", 60.0 - net.now))(sender, request)

        def answers_late(sender: Contact, request: object) -> object | None:
            if isinstance(request, FindValue) and silences:
                silences.pop()
                return None
            return holder(StoredValue(1, b"old", 60.0))(sender, request)

        peers = [await Rogue.open(nth_host(2), holds_the_new)]
        peers.append(await Rogue.open(nth_host(3), answers_late))
        member = await member_knowing(peers)
        await member.dht.get(TARGET)
        repaired = net.now
        await asyncio.sleep(1)
        (store,) = [m for m in peers[1].heard if isinstance(m, StoreValue)]
        assert store.record.value == b"new"
        assert repaired + store.record.time_to_live <= 60.0 + 0.011, "but for the way to here"

    net.run(main())


def test_who_refuses_to_answer_is_not_in_the_result(seed: int) -> None:
    net = Network(seed)

    async def main() -> None:
        guide = await Rogue.open(nth_host(2), names())
        refusing = await Rogue.open(
            nth_host(3),
            lambda sender, request: Pong(b"t", False) if isinstance(request, Ping) else NOT_SERVED,
        )
        member = await member_knowing([guide, refusing])
        assert refusing.contact not in await member.dht.closest(TARGET)
        assert await member.dht.get(TARGET) is None

    net.run(main())


def test_a_malformed_list_of_contacts_costs_the_place(seed: int) -> None:
    net = Network(seed)

    async def main() -> None:
        liar = await Rogue.open(
            nth_host(2),
            lambda sender, request: (
                Pong(b"t", False) if isinstance(request, Ping) else FoundNodes(b"t", b"\x09bad")
            ),
        )
        member = await member_knowing([liar])
        assert await member.dht.closest(TARGET) == [member.contact]
        assert member.dht.known_contacts() == []

    net.run(main())


def test_a_lookup_ends_at_its_deadline(seed: int) -> None:
    net = Network(seed, latency=Latency.constant(0.05))

    async def main() -> None:
        far = [Contact(key(n), nth_host(100 + n), 4000) for n in range(60)]
        guide = await Rogue.open(nth_host(2), names(*far[:20]))
        config = DhtConfig(lookup_deadline=0.7)
        member = await member_knowing([guide], config)
        started = net.now
        found = await member.dht.closest(TARGET)
        assert net.now - started <= 0.7
        assert guide.contact in found

    net.run(main())


def test_cancelling_a_lookup_leaves_nothing(seed: int) -> None:
    net = Network(seed, latency=Latency.constant(0.05))

    async def main() -> None:
        guides = [await Rogue.open(nth_host(n), names()) for n in range(2, 9)]
        member = await member_knowing(guides)
        tasks = len(asyncio.all_tasks())
        lookup = asyncio.ensure_future(member.dht.closest(TARGET))
        await asyncio.sleep(0.01)
        assert len(member.protocol.exchange) > 0
        lookup.cancel()
        with pytest.raises(asyncio.CancelledError):
            await lookup
        assert len(member.protocol.exchange) == 0
        assert len(asyncio.all_tasks()) == tasks

    net.run(main())


@pytest.mark.parametrize("serve", [True, False])
def test_impossible_and_own_contacts_are_not_asked(seed: int, serve: bool) -> None:
    net = Network(seed)

    async def main() -> None:
        bad = [
            Contact(key(1), "224.0.0.1", 4000),
            Contact(key(2), "0.0.0.0", 4000),
            Contact(key(3), "127.0.0.9", 0),
        ]
        guide = await Rogue.open(nth_host(2), names())
        member = await member_knowing([guide], DhtConfig(serve=serve))
        own_elsewhere = Contact(member.contact.id, nth_host(7), 4000)
        guide.answer = names(*bad, own_elsewhere, member.contact)
        with net.capture() as packets:
            found = await member.dht.closest(TARGET)
        assert {packet.destination.host for packet in packets} == {member.host, nth_host(2)}
        expected = [guide.contact, member.contact] if serve else [guide.contact]
        assert sorted(found, key=str) == sorted(expected, key=str)

    net.run(main())


def test_lookups_beyond_the_limit_wait_for_their_turn(seed: int) -> None:
    net = Network(seed, latency=Latency.constant(0.05))

    async def main() -> None:
        guide = await Rogue.open(nth_host(2), names())
        member = await member_knowing([guide], DhtConfig(lookups_at_once=2))
        lookups = [asyncio.ensure_future(member.dht.closest(key(n))) for n in range(10)]
        await asyncio.sleep(0.01)
        assert len(member.protocol.exchange) == 2
        assert all(len(found) == 2 for found in await asyncio.gather(*lookups))

    net.run(main())
