"""Neighbours are exact, every id has one bucket, and full buckets do not cause storms."""

from __future__ import annotations

import asyncio
import itertools
import random
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kademlia.routing import RoutingTable

from overlay.contact import Contact, PeerId
from overlay.dht.peer import Peer, Target, peer_of
from overlay.dht.routing_table import ExactRoutingTable
from tests.overlay.dht.both import on_both

Make = Callable[["Owner", Peer, Callable[[], float]], Any]
Verdict = AbstractContextManager[Any]
K = 4


class Owner:
    """A protocol that counts how often the table wants a contact checked."""

    def __init__(self) -> None:
        self.checked: list[Peer] = []
        self.avoided: list[Peer] = []

    def sound(self, peers: list[Peer]) -> list[Peer]:
        return [peer for peer in peers if peer not in self.avoided]

    def check(self, peer: Peer) -> None:
        if peer not in self.checked:
            self.checked.append(peer)

    async def call_ping(self, peer: Peer) -> None:
        self.checked.append(peer)


def ours(owner: Owner, node: Peer, clock: Callable[[], float]) -> ExactRoutingTable:
    return ExactRoutingTable(owner, K, node, clock)


def stock(owner: Owner, node: Peer, clock: Callable[[], float]) -> RoutingTable:
    return RoutingTable(owner, K, node)


def peer(number: int, port: int = 4000) -> Peer:
    return peer_of(Contact(PeerId(number.to_bytes(20, "big")), "127.0.0.1", port))


def filled(make: Make, draw: random.Random, count: int) -> tuple[Any, list[Peer]]:
    """A table that was offered `count` random contacts, and those of them that it holds."""
    table = make(Owner(), peer(draw.getrandbits(160)), lambda: 0.0)

    async def fill() -> None:
        for number in range(count):
            table.add_contact(peer(draw.getrandbits(160), 1 + number))

    asyncio.run(fill())
    return table, [peer for bucket in table.buckets for peer in bucket.get_nodes()]


@on_both(ours, stock)
def test_neighbours_are_the_k_closest(subject: Make, verdict: Verdict) -> None:
    draw = random.Random(1)
    with verdict:
        for _ in range(40):
            table, held = filled(subject, draw, draw.randrange(1, 200))
            target = Target(draw.randbytes(20))
            closest = sorted(held, key=target.distance_to)[:K]
            assert table.find_neighbors(target) == closest


@on_both(ours, stock)
def test_a_node_is_found_by_its_own_id(subject: Make, verdict: Verdict) -> None:
    table, held = filled(subject, random.Random(2), 30)
    with verdict:
        assert held[3] in table.find_neighbors(Target(held[3].id))


@on_both(ours, stock)
def test_the_last_id_of_a_bucket_is_in_that_bucket(subject: Make, verdict: Verdict) -> None:
    table = subject(Owner(), peer(1), lambda: 0.0)
    edge = peer(2**159)
    table.add_contact(edge)
    table.split_bucket(0)
    with verdict:
        assert not table.is_new_node(edge)


@on_both(ours, stock)
def test_contacts_too_many_do_not_cause_a_ping_each(subject: Make, verdict: Verdict) -> None:
    owner = Owner()
    table = subject(owner, peer(1), lambda: 0.0)
    crowd = [peer((0b10000 << 155) + n) for n in range(K)]
    crowd += [peer((0b10001 << 155) - 1 - n) for n in range(K)]
    table.node = peer(1)

    async def offer() -> None:
        for newcomer in crowd:
            table.add_contact(newcomer)
        for _ in range(50):
            table.add_contact(crowd[-1])
        await asyncio.sleep(0)

    asyncio.run(offer())
    with verdict:
        assert len(owner.checked) <= 1


@on_both(ours, stock)
def test_a_bucket_is_lonely_by_the_clock_that_was_given(subject: Make, verdict: Verdict) -> None:
    now = [0.0]
    table = subject(Owner(), peer(1), lambda: now[0])
    now[0] = 3601.0
    with verdict:
        assert len(table.lonely_buckets()) == 1


def test_avoided_and_excluded_contacts_are_not_named() -> None:
    table, _held = filled(ours, random.Random(3), 40)
    target = Target(bytes(20))
    first, second, *_ = table.find_neighbors(target)
    table.protocol.avoided = [first]
    named = table.find_neighbors(
        target, exclude=peer_of(Contact(PeerId(b"x" * 20), "127.0.0.1", second.port))
    )
    assert first not in named
    assert second not in named
    assert len(named) == K


def test_a_bucket_around_the_own_id_splits_until_there_is_room() -> None:
    table = ours(Owner(), peer(0), lambda: 0.0)
    near = [peer(n) for n in range(1, K + 2)]
    for newcomer in near:
        table.add_contact(newcomer)
    assert sorted(p.long_id for p in table) == [p.long_id for p in near]


@pytest.mark.parametrize("seed", range(3))
def test_every_contact_is_in_the_bucket_of_its_range(seed: int) -> None:
    table, held = filled(ours, random.Random(seed), 150)
    for bucket in table.buckets:
        assert all(bucket.has_in_range(node) for node in bucket.get_nodes())
        assert len(bucket) <= K
    assert len(table) == len(held) == len({node.id for node in held})


@given(st.lists(st.integers(0, 2**160 - 1), max_size=60), st.integers(0, 2**160 - 1))
def test_buckets_cover_the_id_space_once(numbers: list[int], probe: int) -> None:
    table = ours(Owner(), peer(2**100 + 1), lambda: 0.0)
    for number in numbers:
        table.add_contact(peer(number))
    edges = [bucket.range for bucket in table.buckets]
    assert edges[0][0] == 0
    assert edges[-1][1] == 2**160 - 1
    assert all(left[1] + 1 == right[0] for left, right in itertools.pairwise(edges))
    assert table.bucket_of(peer(probe)).has_in_range(peer(probe))
