"""Throughput on the virtual network: every host on a link of 100 Mbit/s, slow enough to lose what it cannot
take.

A datagram takes a host 0.2 ms, and one in a hundred is lost on its way. Time and datagrams are virtual, so
the same seed gives the same figures on any machine.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable

from bench.topic_broadcast.participants import open_participants
from bench.topic_broadcast.throughput import PAYLOAD, Throughput, measure
from overlay.virtual import Latency, Network, nth_host
from pubsub.strong_topic import TopicConfig

BANDWIDTH = 12_500_000.0
"""Bytes a second: the paper's Fast Ethernet."""

SLOWNESS = 2.0
"""Tenths of a millisecond that a datagram takes a host."""

LOSS = 0.01
AROUND_A_PAYLOAD = 128
"""Bytes of all headers of a datagram with one message, for the pace of the unreliable publisher."""


def run_virtual(participants: int, messages: int, seed: int = 1) -> list[Throughput]:
    """Reliable, then unreliable, in the same topic."""
    network = Network(seed, latency=Latency.uniform(0.0002, 0.001), loss=LOSS, bandwidth=BANDWIDTH)
    hosts = [nth_host(number) for number in range(participants)]

    def run_on(number: int, opening: Awaitable[None]) -> Awaitable[None]:
        return network.spawn(hosts[number], opening)  # type: ignore[arg-type]

    async def main() -> list[Throughput]:
        people = await open_participants([f"{host}:4000" for host in hosts], run_on, TopicConfig())
        for host in hosts:
            network.slow(host, SLOWNESS)
        pace = (participants - 1) * (len(PAYLOAD) + AROUND_A_PAYLOAD) / BANDWIDTH

        now = asyncio.get_running_loop().time

        def datagrams() -> int:
            return network.stats.sent

        return [
            await measure(people, "reliable", messages, "virtual", datagrams, now),
            await measure(people, "best-effort", messages, "virtual", datagrams, now, pace),
        ]

    return network.run(main())
