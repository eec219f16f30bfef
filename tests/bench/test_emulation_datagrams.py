"""Datagrams are counted by what they carry."""

from __future__ import annotations

import asyncio

from bench.emulation.datagrams import DatagramCount, name_of
from bench.workloads.emulator import sizes_for
from overlay.virtual import Network, nth_host
from pubsub import Node


def test_every_datagram_of_two_nodes_has_a_name() -> None:
    network = Network(1)
    count = DatagramCount()

    async def main() -> None:
        first = f"{nth_host(0)}:4000"
        two = Node(listen=f"{nth_host(1)}:4000", bootstrap=[first])
        async with Node(listen=first) as one, one.subscribe("/t"), two:
            await two.publish("/t", 1)
            await asyncio.sleep(5)

    with network.rule(count):
        network.run(main())
    taken = count.take()
    assert sum(taken.values()) == network.stats.sent
    assert {"Ping", "FindNode", "Query", "Announce", "Check", "Copy", "channel ack"} <= set(taken)
    assert "malformed" not in taken
    assert not count.take()


def test_what_is_not_a_datagram_of_ours_is_malformed() -> None:
    assert name_of(bytes(24)) == name_of(bytes(60)) == "malformed"


def test_three_communities_make_up_the_nodes() -> None:
    assert sizes_for(118) == (84, 27, 7)
    assert sum(sizes_for(1000)) == 1000
