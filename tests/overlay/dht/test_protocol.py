"""Who is entered, kept, moved and thrown out; what is answered, and to whom."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from contextlib import AbstractContextManager
from typing import Any

import pytest
from kademlia.node import Node

from overlay.contact import Contact, PeerId
from overlay.dht.config import DhtConfig
from overlay.dht.messages import (
    BAD_TOKEN,
    MAX_VALUE_BYTES,
    NOT_SERVED,
    FindNode,
    FindValue,
    FoundNodes,
    FoundValue,
    Letter,
    Ping,
    Pong,
    Stored,
    StoredValue,
    StoreRefused,
    StoreValue,
    split_entries,
)
from overlay.dht.routing import FEW
from overlay.dht.upstream import peer_of
from overlay.identity import Identity
from overlay.transport.frame import FrameKind
from overlay.virtual import Latency, Network, nth_host
from overlay.wire import encode
from tests.overlay.dht.both import on_both
from tests.overlay.dht.rogue import Rogue
from tests.overlay.dht.stock import open_stock, open_stock_rogue
from tests.overlay.dht.swarm import Member, key, open_member

Observe = Callable[[Network], Coroutine[Any, Any, Any]]
Verdict = AbstractContextManager[Any]
A, B = "127.0.1.1", "127.0.1.2"


def pong(sender: Contact, request: object) -> object:
    return Pong(b"t", False) if isinstance(request, Ping) else FoundNodes(b"t", b"")


def silent(sender: Contact, request: object) -> None:
    return None


async def change_of_address(net: Network) -> tuple[str, int]:
    identity = Identity.create()
    a, b = await open_member(A), await open_member(B, identity=identity)
    await b.dht.ask(a.contact, Ping())
    await asyncio.sleep(1)
    await b.close()
    b = await open_member(B, identity=identity, port=5000)
    await b.dht.ask(a.contact, Ping())
    await asyncio.sleep(1)
    (known,) = a.dht.known_contacts()
    return known.host, known.port


async def change_of_address_stock(net: Network) -> tuple[str, int]:
    a = await open_stock(A)
    for port in (4000, 5000):
        a.protocol.rpc_ping((B, port), key("b"))
    (known,) = a.protocol.router.find_neighbors(Node(key("b")[::-1]))
    return known.ip, known.port


@on_both(change_of_address, change_of_address_stock)
def test_a_known_contact_that_moved_is_found_at_its_new_address(
    subject: Observe, verdict: Verdict, seed: int
) -> None:
    net = Network(seed)
    with verdict:
        assert net.run(subject(net)) == (B, 5000)


async def least_recently_seen(net: Network) -> bool:
    a = await open_member(A)
    others = [await open_member(nth_host(n)) for n in (2, 3, 4)]
    for other in others:
        await a.dht.ask(other.contact, Ping())
    await others[0].dht.ask(a.contact, Ping())
    return bool(a.protocol.contacts.table.buckets[0].head().id == others[1].contact.id)


async def least_recently_seen_stock(net: Network) -> bool:
    a = await open_stock(A)
    for n in (2, 3, 4, 2):
        a.protocol.rpc_ping((nth_host(n), 4000), key(n))
    return bool(a.protocol.router.buckets[0].head().id == key(3))


@on_both(least_recently_seen, least_recently_seen_stock)
def test_who_was_heard_last_is_at_the_end(subject: Observe, verdict: Verdict, seed: int) -> None:
    net = Network(seed)
    with verdict:
        assert net.run(subject(net))


async def one_failed_request(net: Network) -> int:
    a, b = await open_member(A), await Rogue.open(B, pong)
    await a.ping(b.contact)
    b.answer = silent
    await a.ping(b.contact)
    b.answer = pong
    await asyncio.sleep(3)
    return len(a.dht.known_contacts())


async def one_failed_request_stock(net: Network) -> int:
    a = await open_stock(A)
    rogue = await open_stock_rogue(B, {"ping": key("b")})
    node = Node(key("b"), B, 4000)
    await a.protocol.call_ping(node)
    rogue.answers = {}
    await a.protocol.call_ping(node)
    rogue.answers = {"ping": key("b")}
    await asyncio.sleep(3)
    return len(a.protocol.router.find_neighbors(Node(key("x"))))


@on_both(one_failed_request, one_failed_request_stock)
def test_one_failed_request_does_not_evict(subject: Observe, verdict: Verdict, seed: int) -> None:
    net = Network(seed)
    with verdict:
        assert net.run(subject(net)) == 1


async def spare_contacts(net: Network) -> int:
    """A contact for which there is no room sends fifty requests; how many requests does that cause?"""
    a = await open_member(A, DhtConfig(k=1, alpha=1, read_quorum=1))
    others = [await open_member(nth_host(n)) for n in range(2, 12)]
    for other in others:
        await other.dht.ask(a.contact, Ping())
        await asyncio.sleep(1)
    spare = next(other for other in others if other.contact not in a.dht.known_contacts())
    before = a.metrics.as_dict()["dht_requests_sent"]
    for _ in range(50):
        await spare.dht.ask(a.contact, Ping())
    await asyncio.sleep(1)
    after = a.metrics.as_dict()["dht_requests_sent"]
    assert isinstance(before, int)
    assert isinstance(after, int)
    return after - before


async def spare_contacts_stock(net: Network) -> int:
    a = await open_stock(A, node_id=bytes(20), ksize=1)
    ids = [bytes([0x80, n]) + bytes(18) for n in (1, 2)]
    rogues = [await open_stock_rogue(nth_host(n), {"ping": i}) for n, i in enumerate(ids, 2)]
    a.protocol.router.flush()
    a.protocol.router.split_bucket(0)
    a.protocol.router.buckets[1].depth = lambda: 0
    for n, i in enumerate(ids, 2):
        a.protocol.rpc_ping((nth_host(n), 4000), i)
    await asyncio.sleep(1)
    before = sum(len(rogue.calls) for rogue in rogues)
    for _ in range(50):
        a.protocol.rpc_ping((nth_host(3), 4000), ids[1])
        await asyncio.sleep(0.1)
    return sum(len(rogue.calls) for rogue in rogues) - before


@on_both(spare_contacts, spare_contacts_stock)
def test_a_spare_contact_causes_no_storm(subject: Observe, verdict: Verdict, seed: int) -> None:
    net = Network(seed)
    with verdict:
        assert net.run(subject(net)) <= 1


async def nonsense_stored(net: Network) -> int:
    a, b = await open_member(A), await Rogue.open(B, pong)
    token = a.protocol._tokens.token_for(b.contact, 0.0)
    for body in (
        b"\x94\x07\xc4\x14" + bytes(20) + b"\x81\xa1a\x01\xc4\x08" + token,
        b"\x94\x07\xc4\x01x\x94\x05\x01\xc4\x01v\xcb\x40\x4e\x00\x00\x00\x00\x00\x00\xc4\x08"
        + token,
    ):
        a.dht.receive(b.contact, b"\x00\x00" + bytes(8) + body)
    return len(a.protocol.store)


async def nonsense_stored_stock(net: Network) -> int:
    a = await open_stock(A)
    a.protocol.rpc_store((B, 4000), b"x", b"x", {"a": "dict"})
    return len(a.storage.data)


@on_both(nonsense_stored, nonsense_stored_stock)
def test_what_is_no_record_is_not_stored(subject: Observe, verdict: Verdict, seed: int) -> None:
    net = Network(seed)
    with verdict:
        assert net.run(subject(net)) == 0


async def unreachable_sender(net: Network) -> int:
    """Requests come from addresses where nobody answers."""
    a = await open_member(A)
    for n in range(30):
        ghost = Contact(key(n), nth_host(500 + n), 4000)
        a.dht.receive(ghost, b"\x00\x00" + bytes(8) + b"\x91\x00")
    await asyncio.sleep(10)
    return len(a.dht.known_contacts())


async def unreachable_sender_stock(net: Network) -> int:
    a = await open_stock(A)
    for n in range(30):
        a.protocol.rpc_ping((nth_host(500 + n), 4000), key(n))
    await asyncio.sleep(10)
    return len(a.protocol.router.find_neighbors(Node(key("x"))))


@on_both(unreachable_sender, unreachable_sender_stock)
def test_who_cannot_be_reached_is_not_entered(
    subject: Observe, verdict: Verdict, seed: int
) -> None:
    net = Network(seed)
    with verdict:
        assert net.run(subject(net)) == 0


async def neighbours_of_a_crowd(net: Network) -> bool:
    """Is there a reply to a request whose full answer does not fit a datagram?"""
    small, asker = await open_member(A, datagram_size=600), await open_member(B)
    for n in range(2, 30):
        await small.ping((await Rogue.open(nth_host(n), pong)).contact)
    return isinstance(await asker.dht.ask(small.contact, FindNode(key("x"), 64)), FoundNodes)


async def neighbours_of_a_crowd_stock(net: Network) -> bool:
    crowded, asker = await open_stock(A, ksize=3000), await open_stock(B)
    for n in range(2500):
        crowded.protocol.router.add_contact(Node(key(n), nth_host(2 + n), 4000))
    answered, _ = await asker.protocol.call_find_node(
        Node(crowded.node.id, A, 4000), Node(key("x"))
    )
    return bool(answered)


@on_both(neighbours_of_a_crowd, neighbours_of_a_crowd_stock)
def test_a_list_that_is_too_long_is_cut_and_not_lost(
    subject: Observe, verdict: Verdict, seed: int
) -> None:
    net = Network(seed)
    with verdict:
        assert net.run(subject(net))


def together(
    seed: int, work: Callable[[Network, Member, Member], Coroutine[Any, Any, None]], **settings: Any
) -> None:
    """Run `work` with two members that know each other."""
    net = Network(seed, latency=Latency.constant(0.02))

    async def main() -> None:
        a, b = (
            await open_member(A, DhtConfig(**settings)),
            await open_member(B, DhtConfig(**settings)),
        )
        await b.dht.join([a.contact.address])
        await work(net, a, b)

    net.run(main())


def test_repeated_failures_evict_and_any_sign_of_life_brings_back(seed: int) -> None:
    async def work(net: Network, a: Member, b: Member) -> None:
        net.partition({A}, {B})
        assert await a.dht.ask(b.contact, Ping()) is None
        await asyncio.sleep(5)
        assert a.dht.known_contacts() == []
        assert a.counted("dht_evicted", "dead") == 1
        assert a.protocol.contacts.failures.avoids(b.contact, asyncio.get_running_loop().time())
        net.heal()
        b.protocol.ping(a.contact)
        await asyncio.sleep(1)
        assert a.dht.known_contacts() == [b.contact]

    together(seed, work, check_interval=1e6)


def test_a_store_needs_the_token_that_its_sender_was_given(seed: int) -> None:
    async def work(net: Network, a: Member, b: Member) -> None:
        record = StoredValue(1, b"v", 60.0)
        await b.dht.ask(a.contact, Ping())
        token = b.protocol.token(a.contact)
        assert await b.dht.ask(a.contact, StoreValue(key("k"), record, bytes(8))) == BAD_TOKEN
        assert await b.dht.ask(a.contact, StoreValue(key("k"), record, b"")) == BAD_TOKEN
        thief = await open_member(nth_host(9))
        assert await thief.dht.ask(a.contact, StoreValue(key("k"), record, token)) == BAD_TOKEN
        assert len(a.protocol.store) == 0
        assert a.counted("dht_refused", "token") == 3
        assert await b.dht.ask(a.contact, StoreValue(key("k"), record, token)) == Stored(1)
        await asyncio.sleep(601)
        assert await b.dht.ask(a.contact, StoreValue(key("k"), record, token)) == BAD_TOKEN

    together(seed, work, check_interval=1e6)


def test_a_light_member_is_in_no_table_and_serves_nothing(seed: int) -> None:
    async def work(net: Network, a: Member, b: Member) -> None:
        light = await open_member(nth_host(9), DhtConfig(serve=False))
        sent = a.metrics.as_dict()["dht_requests_sent"]
        await light.dht.join([a.contact.address])
        await asyncio.sleep(1)
        assert a.metrics.as_dict()["dht_requests_sent"] == sent, (
            "it is not even asked whether it is there"
        )
        assert await light.dht.closest(key("x")) == sorted(
            [a.contact, b.contact],
            key=lambda c: int.from_bytes(c.id, "big") ^ int.from_bytes(key("x"), "big"),
        )
        assert (await light.dht.put(key("x"), b"v", 1, 60.0)).replicas == 2
        await asyncio.sleep(5)
        assert light.contact not in a.dht.known_contacts() + b.dht.known_contacts()
        assert await a.dht.ask(light.contact, FindNode(key("x"), 20)) == NOT_SERVED
        assert isinstance(await a.dht.ask(light.contact, Ping()), Pong)
        assert light.contact not in a.dht.known_contacts()
        assert len(light.protocol.store) == 0

    together(seed, work)


def test_replies_fit_the_datagram_however_much_is_asked_for(seed: int) -> None:
    net = Network(seed)

    async def main() -> None:
        small = await open_member(A, datagram_size=600)
        asker = await open_member(B)
        for n in range(2, 40):
            await small.ping((await Rogue.open(nth_host(n), pong)).contact)
        found = await asker.dht.ask(small.contact, FindNode(key("x"), 64))
        assert isinstance(found, FoundNodes)
        exact = [
            p.contact for p in small.protocol.contacts.closest(small.protocol.contacts.own, 64)
        ]
        assert 5 < len(split_entries(found.contacts)) < len(exact)
        value = bytes(small.dht.max_value)
        small.protocol.store.offer(key("x"), StoredValue(1, value, 60.0))
        reply = await asker.dht.ask(small.contact, FindValue(key("x"), 20))
        assert isinstance(reply, FoundValue)
        assert reply.record.value == value

    net.run(main())


def test_the_largest_value_fits_with_everything_around_it(seed: int) -> None:
    async def work(net: Network, a: Member, b: Member) -> None:
        assert a.dht.max_value == MAX_VALUE_BYTES
        assert (
            await b.dht.put(key("x"), bytes(MAX_VALUE_BYTES), 2**63 - 1, 86_400.0)
        ).replicas == 2
        record = await a.dht.get(key("x"))
        assert record is not None
        assert len(record.value) == MAX_VALUE_BYTES

    together(seed, work, verify_ids=True)


def test_other_layers_serve_requests_of_their_own(seed: int) -> None:
    async def work(net: Network, a: Member, b: Member) -> None:
        a.dht.serve(Stored, lambda sender, request: Stored(request.newest + 1))
        assert await b.dht.ask(a.contact, Stored(4)) == Stored(5)
        a.dht.serve(Stored, lambda sender, request: None)
        assert await b.dht.ask(a.contact, Stored(4)) is None
        assert isinstance(await b.dht.ask(a.contact, StoreRefused("x")), StoreRefused)

    together(seed, work)


def test_a_node_may_ask_itself(seed: int) -> None:
    async def work(net: Network, a: Member, b: Member) -> None:
        store = StoreValue(key("k"), StoredValue(1, b"v", 60.0), a.protocol.token(a.contact))
        assert await a.dht.ask(a.contact, store) == Stored(1)
        assert await a.dht.ask(a.contact, StoreRefused("x")) == NOT_SERVED

    together(seed, work)


def test_where_ids_are_verified_only_proven_contacts_are_entered(seed: int) -> None:
    async def work(net: Network, a: Member, b: Member) -> None:
        assert a.dht.known_contacts() == [b.contact]
        assert b.dht.known_contacts() == [a.contact]
        liar = await Rogue.open(nth_host(9), pong)
        liar.request(a.contact.address, Ping())
        await asyncio.sleep(3)
        assert a.dht.known_contacts() == [b.contact]
        assert a.counted("dht_dropped", "unproven_reply") == 1
        assert await a.dht.ask(liar.contact, Ping()) is None

    together(seed, work, verify_ids=True)


def test_a_flood_of_forged_senders_stays_within_bounds(seed: int) -> None:
    async def work(net: Network, a: Member, b: Member) -> None:
        for n in range(2000):
            ghost = Contact(key(n), f"127.9.{n // 250}.{1 + n % 250}", 4000)
            a.dht.receive(ghost, b"\x00\x00" + bytes(8) + b"\x91\x00")
        assert len(a.protocol.exchange) <= a.config.probes_at_once
        await asyncio.sleep(30)
        assert a.dht.known_contacts() == [b.contact]
        assert len(a.protocol.exchange) == 0

    together(seed, work)


def test_a_stranger_is_sent_no_more_bytes_than_it_sent_before_it_proves_its_address(
    seed: int,
) -> None:
    """A short question has a long answer, which would go to whoever the source address belongs to."""
    net = Network(seed, latency=Latency.constant(0.02))

    async def main() -> None:
        members = [await open_member(nth_host(n)) for n in range(1, 20)]
        for member in members[1:]:
            await member.dht.join([members[0].contact.address])
        await asyncio.sleep(1)
        asker = await Rogue.open(nth_host(30), silent)
        question = encode(FindNode(asker.contact.id, 20))
        letter = Letter(False, True, 0, bytes(8), None, None, question, padding=100)
        before = net.stats.hosts[nth_host(30)].delivered_bytes
        asker.endpoint.send(members[0].contact.address, FrameKind.DHT, letter.packed())
        await asyncio.sleep(5)
        assert [type(one) for one in asker.heard] == [Ping]
        got = net.stats.hosts[nth_host(30)].delivered_bytes - before
        assert got <= len(letter.packed())
        asker.answer = pong
        asker.endpoint.send(members[0].contact.address, FrameKind.DHT, letter.packed())
        await asyncio.sleep(5)
        assert [type(one) for one in asker.heard] == [Ping, Ping, FoundNodes]
        assert len(split_entries(asker.heard[-1].contacts)) == 18

    net.run(main())


@pytest.mark.parametrize("seconds", [1.0, 400.0, 800.0])
def test_peers_know_each_other_still_after_the_life_of_a_token(seed: int, seconds: float) -> None:
    async def work(net: Network, a: Member, b: Member) -> None:
        await a.dht.ask(b.contact, Ping())
        await asyncio.sleep(seconds)
        sent = a.metrics.as_dict()["dht_requests_repeated"]
        assert isinstance(await a.dht.ask(b.contact, Ping()), Pong)
        assert isinstance(await a.dht.ask(b.contact, FindNode(key("k"), 20)), FoundNodes)
        assert a.metrics.as_dict()["dht_requests_repeated"] == sent

    together(seed, work, check_interval=1e6)


def test_a_peer_that_restarted_answers_though_it_knows_none_of_its_tokens(seed: int) -> None:
    net = Network(seed, latency=Latency.constant(0.02))

    async def main() -> None:
        identity = Identity.create()
        a, b = await open_member(A), await open_member(B, identity=identity)
        await a.dht.ask(b.contact, Ping())
        await b.close()
        b = await open_member(B, identity=identity)
        assert isinstance(await a.dht.ask(b.contact, Ping()), Pong)
        assert a.metrics.as_dict()["dht_requests_repeated"] == 1
        assert isinstance(await a.dht.ask(b.contact, FindNode(key("k"), 20)), FoundNodes)

    net.run(main())


def test_where_one_is_dead_others_are_checked_at_once(seed: int) -> None:
    net = Network(seed, latency=Latency.constant(0.02))

    async def main() -> None:
        a = await open_member(A, DhtConfig(check_interval=1e6))
        rogues = [await Rogue.open(nth_host(n), pong) for n in range(2, 40)]
        for rogue in rogues:
            await a.ping(rogue.contact)
        await asyncio.sleep(10)
        for rogue in rogues[::2]:
            rogue.answer = silent
        for rogue in rogues:
            rogue.heard.clear()
        await a.dht.ask(rogues[0].contact, Ping())
        await asyncio.sleep(15)
        dead = [rogue.contact for rogue in rogues[::2]]
        assert [contact for contact in a.dht.known_contacts() if contact in dead] == []

    net.run(main())


def test_who_brings_a_token_is_entered_without_a_question(seed: int) -> None:
    async def work(net: Network, a: Member, b: Member) -> None:
        c = await open_member(nth_host(8))
        await c.ping(a.contact)
        await asyncio.sleep(1)
        sent = a.metrics.as_dict()["dht_requests_sent"]
        a.protocol.contacts.table.clear()
        await c.ping(a.contact)
        assert a.dht.known_contacts() == [c.contact]
        assert a.metrics.as_dict()["dht_requests_sent"] == sent

    together(seed, work, check_interval=1e6)


def test_a_stranger_far_away_is_asked_while_few_are_known_there(seed: int) -> None:
    async def work(net: Network, a: Member, b: Member) -> None:
        contacts = a.protocol.contacts
        own = int.from_bytes(a.contact.id, "big")

        def far(n: int) -> Contact:
            number = own ^ (1 << 159 | n)
            return Contact(PeerId(number.to_bytes(20, "big")), nth_host(100 + n), 4000)

        for n in range(100):  # neighbours, so that nobody far away is one of the k nearest
            number = own ^ (1 << 20 | n)
            near = Contact(PeerId(number.to_bytes(20, "big")), nth_host(500 + n), 4000)
            contacts.requested(peer_of(near), True)
        for n in range(FEW):
            contacts.requested(peer_of(far(n)), True)
        asked = len(a.protocol.exchange)
        contacts.requested(peer_of(far(FEW)), False)
        assert len(a.protocol.exchange) == asked
        contacts.requested(peer_of(far(FEW)), True)
        assert far(FEW) in a.dht.known_contacts()

    together(seed, work, check_interval=1e6)


def test_a_stranger_is_answered_before_it_is_asked_for_a_sign_of_life(seed: int) -> None:
    """Who is asked by somebody that it has just heard from does not ask back."""

    async def work(net: Network, a: Member, b: Member) -> None:
        stranger = await Rogue.open(nth_host(9), pong)
        stranger.request(a.contact.address, Ping())
        await asyncio.sleep(1)
        assert [type(message) for message in stranger.heard] == [Pong, Ping]
        c = await open_member(nth_host(8))
        sent = a.metrics.as_dict()["dht_requests_sent"]
        await c.ping(a.contact)
        await asyncio.sleep(1)
        assert c.metrics.as_dict()["dht_requests_sent"] == 1
        assert a.metrics.as_dict()["dht_requests_sent"] == sent + 1  # type: ignore[operator]

    together(seed, work, check_interval=1e6)
