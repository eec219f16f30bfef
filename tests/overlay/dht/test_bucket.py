"""A bucket knows its spare contacts, its age and its order."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

from kademlia.routing import KBucket

from overlay.contact import Contact, PeerId
from overlay.dht.bucket import Bucket
from overlay.dht.peer import Peer, peer_of
from tests.overlay.dht.both import on_both

Make = Callable[[Callable[[], float]], Any]
WHOLE = (0, 2**160 - 1)


def ours(clock: Callable[[], float]) -> Bucket:
    return Bucket(*WHOLE, 2, clock)


def stock(clock: Callable[[], float]) -> KBucket:
    return KBucket(*WHOLE, 2)


def peer(number: int, port: int = 4000) -> Peer:
    return peer_of(Contact(PeerId(number.to_bytes(20, "big")), "127.0.0.1", port))


@on_both(ours, stock)
def test_a_spare_contact_is_not_new(subject: Make, verdict: AbstractContextManager[Any]) -> None:
    bucket = subject(lambda: 0.0)
    for number in (1, 2, 3):
        bucket.add_node(peer(number))
    with verdict:
        assert not bucket.is_new_node(peer(3))


@on_both(ours, stock)
def test_the_halves_of_a_bucket_are_as_old_as_it_was(
    subject: Make, verdict: AbstractContextManager[Any]
) -> None:
    now = [100.0]
    bucket = subject(lambda: now[0])
    bucket.last_updated = 7.0
    with verdict:
        assert [half.last_updated for half in bucket.split()] == [7.0, 7.0]


@on_both(ours, stock)
def test_a_bucket_is_touched_by_the_clock_it_was_given(
    subject: Make, verdict: AbstractContextManager[Any]
) -> None:
    bucket = subject(lambda: -5.0)
    bucket.touch_last_updated()
    with verdict:
        assert bucket.last_updated == -5.0


def test_a_contact_that_is_heard_goes_to_the_end_with_its_new_address() -> None:
    bucket = ours(lambda: 0.0)
    bucket.add_node(peer(1))
    bucket.add_node(peer(2))
    bucket.refresh(peer(1, port=4001))
    assert [(p.long_id, p.port) for p in bucket.get_nodes()] == [(2, 4000), (1, 4001)]
    bucket.add_node(peer(3))
    bucket.add_node(peer(4))
    bucket.refresh(peer(3, port=4003))
    assert [(p.long_id, p.port) for p in bucket.replacement_nodes.values()] == [
        (4, 4000),
        (3, 4003),
    ]


def test_the_spare_contact_seen_last_moves_up() -> None:
    bucket = ours(lambda: 0.0)
    for number in (1, 2, 3, 4):
        bucket.add_node(peer(number))
    bucket.refresh(peer(3))
    bucket.remove_node(peer(1))
    assert [p.long_id for p in bucket.get_nodes()] == [2, 3]
