"""What sessions add to the time of a join, counted in round trips of a network without loss."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack

from overlay.identity import Identity
from overlay.virtual import Latency, Network, nth_host
from pubsub.node import Node

ONE_WAY = 0.05


def round_trips_of_a_join(keys: list[bytes]) -> float:
    net = Network(1, latency=Latency.constant(ONE_WAY))

    async def main() -> float:
        clock = asyncio.get_running_loop()
        async with AsyncExitStack() as stack:
            for number in range(8):
                began = clock.time()
                node = Node(
                    listen=f"{nth_host(number)}:4000",
                    bootstrap=[f"{nth_host(0)}:4000"] if number else [],
                    keys=keys,
                    identity=Identity(bytes([number]) * 32),
                )
                await stack.enter_async_context(node)
                took = clock.time() - began
                await asyncio.sleep(1)
            return took / (2 * ONE_WAY)

    return net.run(main())


def test_a_join_takes_one_round_trip_longer_in_a_sealed_network() -> None:
    in_the_open = round_trips_of_a_join([])
    assert round(round_trips_of_a_join([bytes(32)]) - in_the_open, 2) <= 1.0
