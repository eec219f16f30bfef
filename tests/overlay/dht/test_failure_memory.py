"""The dead are remembered for a while, offenders for longer."""

from __future__ import annotations

from overlay.contact import Contact
from overlay.dht.trust import LONGEST_DISTRUST, MARKED_CONTACTS, FailureMemory
from tests.overlay.dht.swarm import key

PEER = Contact(key("peer"), "127.0.0.1", 4000)
MOVED = Contact(key("peer"), "127.0.0.1", 4001)


def test_a_failed_peer_is_avoided_for_a_while() -> None:
    memory = FailureMemory(dead_for=10.0, distrusted_for=60.0)
    assert not memory.avoids(PEER, 0.0)
    assert memory.failed(PEER, 0.0) == 1
    assert memory.failed(PEER, 1.0) == 2
    assert memory.avoids(PEER, 10.9)
    assert not memory.avoids(PEER, 11.1)
    assert not memory.avoids(MOVED, 5.0), "at another address it is another peer"


def test_a_sign_of_life_clears_failures_and_not_offences() -> None:
    memory = FailureMemory(dead_for=10.0, distrusted_for=60.0)
    memory.failed(PEER, 0.0)
    memory.heard(PEER)
    assert not memory.avoids(PEER, 0.1)
    assert len(memory) == 0
    memory.offended(PEER, 0.0)
    memory.heard(PEER)
    assert memory.avoids(PEER, 59.0)
    assert not memory.avoids(PEER, 61.0)


def test_distrust_doubles_up_to_a_limit() -> None:
    memory = FailureMemory(dead_for=10.0, distrusted_for=60.0)
    memory.offended(PEER, 0.0)
    memory.offended(PEER, 0.0)
    assert memory.avoids(PEER, 119.0)
    assert not memory.avoids(PEER, 121.0)
    for _ in range(100):
        memory.offended(PEER, 0.0)
    assert not memory.avoids(PEER, LONGEST_DISTRUST + 1)


def test_memory_is_bounded() -> None:
    memory = FailureMemory(dead_for=10.0, distrusted_for=60.0)
    for number in range(MARKED_CONTACTS + 10):
        memory.failed(Contact(key("x"), "127.0.0.1", 1 + number), 0.0)
    assert len(memory) == MARKED_CONTACTS
