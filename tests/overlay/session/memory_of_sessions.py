"""Prints the bytes that 1,000 sessions take in a process of their own, ciphers included."""

from __future__ import annotations

import gc
import os
from random import Random

from overlay.contact import Contact
from overlay.identity import peer_id_of
from overlay.session.session import Session
from tests.overlay.session.world import Peer, World


def resident() -> int:
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def add(node: Peer, count: int, block: int, draw: Random) -> None:
    """Give a node sessions, each of which has sealed a datagram, without the handshakes."""
    sessions = node.sessions
    for number in range(count):
        keys = draw.randbytes(32), draw.randbytes(32)
        peer = peer_id_of(draw.randbytes(32))
        index = 10_000 * block + number
        session = Session(peer, sessions._ring[0], index, index, keys, True)
        session.contact = Contact(peer, f"10.{block}.{number // 200}.{number % 200 + 1}", 4000)
        session.dialled = session.contact.address
        sessions.table.by_index[index] = session
        sessions._establish(session)
        assert session.is_ready


def main() -> None:
    draw = Random(1)
    world = World()
    world.carry = lambda datagram, source, to: None  # type: ignore[method-assign]
    node = Peer(world, 1)
    add(Peer(world, 2), 600, 1, draw)  # what the libraries take once
    gc.collect()
    before = resident()
    add(node, 1000, 2, draw)
    gc.collect()
    assert len(node.sessions.peers) == 1000
    print(resident() - before)


if __name__ == "__main__":
    main()
