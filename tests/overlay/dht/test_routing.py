"""Buckets and the table of contacts, against upstream's where they fail."""

from __future__ import annotations

import asyncio
import itertools
import random
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kademlia.routing import KBucket
from kademlia.routing import RoutingTable as StockRoutingTable

from overlay.contact import Contact, PeerId
from overlay.dht.routing import RoutingTable
from overlay.dht.upstream import Bucket, RoutedPeer, Target, peer_of
from tests.overlay.dht.both import on_both

K = 8
Clock = Callable[[], float]
MakeBucket = Callable[[], Any]
MakeTable = Callable[[RoutedPeer, Clock], Any]
Verdict = AbstractContextManager[Any]


def peer(number: int, port: int = 4000) -> RoutedPeer:
    return peer_of(Contact(PeerId(number.to_bytes(20, "big")), "127.0.0.1", port))


# Buckets.


def our_bucket() -> Bucket:
    return Bucket.of_everything(2, 7.0)


class StockBucket:
    """Upstream's bucket, under our names."""

    def __init__(self, bucket: KBucket) -> None:
        self.bucket = bucket
        self.add = bucket.add_node
        self.last_used = bucket.last_updated

    def find(self, peer_id: PeerId) -> object:
        return None if self.bucket.is_new_node(peer(int.from_bytes(peer_id, "big"))) else peer_id

    def split(self) -> list[StockBucket]:
        return [StockBucket(half) for half in self.bucket.split()]


def stock_bucket() -> StockBucket:
    bucket = KBucket(0, 2**160 - 1, 2)
    bucket.last_updated = 7.0
    return StockBucket(bucket)


@on_both(our_bucket, stock_bucket)
def test_a_spare_contact_is_not_new(subject: MakeBucket, verdict: Verdict) -> None:
    bucket = subject()
    for number in (1, 2, 3):
        bucket.add(peer(number))
    with verdict:
        assert bucket.find(peer(3).id) is not None


@on_both(our_bucket, stock_bucket)
def test_the_halves_of_a_bucket_are_as_old_as_it_was(subject: MakeBucket, verdict: Verdict) -> None:
    with verdict:
        assert [half.last_used for half in subject().split()] == [7.0, 7.0]


def test_a_contact_that_is_heard_goes_to_the_end_with_its_new_address() -> None:
    bucket = our_bucket()
    bucket.add(peer(1))
    bucket.add(peer(2))
    bucket.refresh(peer(1, port=4001))
    assert [(p.long_id, p.contact.port) for p in bucket.nodes.values()] == [(2, 4000), (1, 4001)]
    bucket.add(peer(3))
    bucket.add(peer(4))
    bucket.refresh(peer(3, port=4003))
    assert [(p.long_id, p.contact.port) for p in bucket.spare.values()] == [(4, 4000), (3, 4003)]


def test_the_spare_contact_seen_last_moves_up() -> None:
    bucket = our_bucket()
    for number in (1, 2, 3, 4):
        bucket.add(peer(number))
    bucket.refresh(peer(3))
    bucket.remove(peer(1))
    assert [p.long_id for p in bucket.nodes.values()] == [2, 3]
    assert bucket.head() is peer(2)


# The table.


def our_table(node: RoutedPeer, clock: Clock) -> RoutingTable:
    return RoutingTable(node, K, clock)


class StockTable:
    """Upstream's table, under our names; it counts the contacts that it wants pinged."""

    def __init__(self, node: RoutedPeer, clock: Clock) -> None:
        self.checked: list[RoutedPeer] = []
        self.table = StockRoutingTable(self, K, node)

    @property
    def buckets(self) -> Any:
        return self.table.buckets

    async def call_ping(self, peer: RoutedPeer) -> None:
        self.checked.append(peer)

    def add(self, peer: RoutedPeer) -> RoutedPeer | None:
        before = len(self.checked)
        self.table.add_contact(peer)
        return self.checked[before] if len(self.checked) > before else None

    def closest(self, place: Any, count: int) -> list[RoutedPeer]:
        return list(self.table.find_neighbors(_Place(place), count))

    def bucket_of(self, place: RoutedPeer) -> Any:
        return self.table.buckets[self.table.get_bucket_for(place)]

    def unused(self, seconds: float) -> list[Any]:
        return list(self.table.lonely_buckets())


class _Place:
    """What upstream asks of the place that it looks for."""

    def __init__(self, place: Any) -> None:
        self.id, self.long_id = place.id, place.long_id
        self.distance_to = place.distance_to

    def same_home_as(self, other: object) -> bool:
        return False


def filled(make: MakeTable, draw: random.Random, count: int) -> tuple[Any, list[RoutedPeer]]:
    """A table that was offered `count` random contacts, and those of them that it holds."""
    table = make(peer(draw.getrandbits(160)), lambda: 0.0)

    async def fill() -> None:
        for number in range(count):
            table.add(peer(draw.getrandbits(160), 1 + number))

    asyncio.run(fill())
    return table, [peer for bucket in table.buckets for peer in bucket.nodes.values()]


@on_both(our_table, StockTable)
def test_neighbours_are_the_k_closest(subject: MakeTable, verdict: Verdict) -> None:
    draw = random.Random(1)
    with verdict:
        for _ in range(40):
            table, held = filled(subject, draw, draw.randrange(1, 200))
            target = Target(PeerId(draw.randbytes(20)))
            assert table.closest(target, K) == sorted(held, key=target.distance_to)[:K]


@on_both(our_table, StockTable)
def test_a_node_is_found_by_its_own_id(subject: MakeTable, verdict: Verdict) -> None:
    table, held = filled(subject, random.Random(2), 30)
    with verdict:
        assert held[3] in table.closest(Target(held[3].id), K)


@on_both(our_table, StockTable)
def test_the_last_id_of_a_bucket_is_in_that_bucket(subject: MakeTable, verdict: Verdict) -> None:
    table, _ = filled(subject, random.Random(4), 60)
    with verdict:
        for bucket in table.buckets[:-1]:
            assert table.bucket_of(peer(bucket.range[1])) is bucket


@on_both(our_table, StockTable)
def test_a_contact_that_is_known_is_checked_for_once(subject: MakeTable, verdict: Verdict) -> None:
    table = subject(peer(1), lambda: 0.0)
    crowd = [peer((0b10000 << 155) + n) for n in range(K)]
    crowd += [peer((0b10001 << 155) - 1 - n) for n in range(K)]
    wanted: list[RoutedPeer | None] = []

    async def offer() -> None:
        for newcomer in crowd:
            table.add(newcomer)
        for _ in range(50):
            table.add(crowd[-1])
            await asyncio.sleep(0)
        wanted.extend(getattr(table, "checked", [table.add(crowd[-1])]))

    asyncio.run(offer())
    with verdict:
        assert len(set(wanted) - {None}) <= 1
        assert len(wanted) <= 1


@on_both(our_table, StockTable)
def test_a_bucket_is_unused_by_the_clock_that_was_given(
    subject: MakeTable, verdict: Verdict
) -> None:
    now = [0.0]
    table = subject(peer(1), lambda: now[0])
    now[0] = 3601.0
    with verdict:
        assert len(table.unused(3600.0)) == 1


def test_a_bucket_that_a_lookup_went_into_is_used() -> None:
    now = [0.0]
    table = our_table(peer(1), lambda: now[0])
    now[0] = 3601.0
    table.used(Target(PeerId(bytes(20))))
    assert table.unused(3600.0) == []


def test_avoided_and_excluded_contacts_are_not_named() -> None:
    table, _held = filled(our_table, random.Random(3), 40)
    target = Target(PeerId(bytes(20)))
    first, second, *_ = table.closest(target, K)
    named = table.closest(
        target,
        K,
        lambda peers: [peer for peer in peers if peer is not first],
        exclude=peer_of(Contact(PeerId(b"x" * 20), "127.0.0.1", second.contact.port)),
    )
    assert first not in named
    assert second not in named
    assert len(named) == K


def test_a_bucket_around_the_own_id_splits_until_there_is_room() -> None:
    table = our_table(peer(0), lambda: 0.0)
    near = [peer(n) for n in range(1, K + 2)]
    for newcomer in near:
        table.add(newcomer)
    assert sorted(p.long_id for p in table) == [p.long_id for p in near]


@pytest.mark.parametrize("seed", range(3))
def test_every_contact_is_in_the_bucket_of_its_range(seed: int) -> None:
    table, held = filled(our_table, random.Random(seed), 150)
    for bucket in table.buckets:
        assert all(bucket.covers(node) for node in bucket.nodes.values())
        assert len(bucket) <= K
    assert len(table) == len(held) == len({node.id for node in held})


@settings(deadline=None)
@given(st.lists(st.integers(0, 2**160 - 1), max_size=60), st.integers(0, 2**160 - 1))
def test_buckets_cover_the_id_space_once(numbers: list[int], probe: int) -> None:
    table = our_table(peer(2**100 + 1), lambda: 0.0)
    for number in numbers:
        table.add(peer(number))
    edges = [bucket.range for bucket in table.buckets]
    assert edges[0][0] == 0
    assert edges[-1][1] == 2**160 - 1
    assert all(left[1] + 1 == right[0] for left, right in itertools.pairwise(edges))
    assert table.bucket_of(peer(probe)).covers(peer(probe))


def test_a_stranger_is_of_use_if_it_is_near_or_few_are_as_far_away() -> None:
    draw = random.Random(3)
    table = our_table(peer(1), lambda: 0.0)
    far = [peer(2**159 + draw.getrandbits(158)) for _ in range(200)]
    assert all(table.has_use_for(one, 3 * K) for one in far), "nobody is known"
    for one in far:
        table.add(one)
    near = [peer(2**100 + n) for n in range(K)]
    for one in near:
        assert table.has_use_for(one, 3 * K)
        table.add(one)
    assert len(table) - K >= 3 * K, "the test needs many far away"
    assert not table.has_use_for(peer(2**159 + 5), 3 * K)
    assert table.has_use_for(peer(2**99), 3 * K), "one of the k nearest"
    assert table.has_use_for(peer(2**150), 3 * K), "none is known at that distance"
