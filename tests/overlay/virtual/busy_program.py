"""A program that uses everything that could differ from one process to the next.

`python -m tests.overlay.virtual.busy_program SEED [careless]` prints the hash of its run. The careless
variant walks a set of strings, as no protocol should, and so depends on PYTHONHASHSEED.
"""

from __future__ import annotations

import asyncio
import logging
import os
import random
import secrets
import sys
import uuid

import asyncio_dgram
from kademlia.network import Server

from overlay.contact import Address
from overlay.entropy import entropy
from overlay.virtual import Latency, Network, nth_host


class Finalized:
    """Sends when the garbage collector finds it; a cycle, so that nobody else does."""

    def __init__(self, transport: asyncio.DatagramTransport, target: Address) -> None:
        self.transport = transport
        self.target = target
        self.itself = self

    def __del__(self) -> None:
        self.transport.sendto(b"collected", self.target)


async def store_and_find(host: str) -> None:
    server = Server(ksize=4)
    await server.listen(4000, host)
    await server.bootstrap([(nth_host(0), 4000)])
    await server.set(host, secrets.token_hex(8))
    while True:
        await asyncio.sleep(random.uniform(1, 2))
        await server.get(nth_host(random.randrange(10)))


async def chat(number: int, places: list[Address]) -> None:
    stream = await asyncio_dgram.bind((nth_host(number), 5000))
    for turn in range(20):
        if turn == 10 and number % 3 == 0:
            raise RuntimeError("so that the group cancels the others, in an order of its own")
        await stream.send(os.urandom(random.randrange(1, 100)), entropy().choice(places))
        Finalized(stream._transport, places[0])
        await asyncio.sleep(uuid.uuid4().int % 1000 / 1000)


async def gossip(places: list[Address]) -> None:
    """The group's set of tasks is walked when it is torn down, and each says goodbye."""

    async def say_goodbye(number: int) -> None:
        stream = await asyncio_dgram.bind((nth_host(number), 6000))
        try:
            await chat(number, places)
        finally:
            await stream.send(b"goodbye", places[number])

    try:
        async with asyncio.TaskGroup() as group:
            for number in range(len(places)):
                group.create_task(say_goodbye(number))
    except* RuntimeError:
        pass


async def main(net: Network, careless: bool) -> None:
    places = [Address(nth_host(number), 5000) for number in range(10)]
    nodes = [net.spawn(nth_host(n), store_and_find(nth_host(n))) for n in range(10)]
    await gossip(places)
    for number in (3, 5):
        net.crash(nth_host(number))
    await asyncio.sleep(5)
    net.restart(nth_host(3))
    net.spawn(nth_host(3), store_and_find(nth_host(3)))
    done, _ = await asyncio.wait(nodes, timeout=5)
    stream = await asyncio_dgram.bind((nth_host(0), 7000))
    for task in done:
        await stream.send(task.get_name().encode(), (nth_host(1), 4000))
    if careless:
        for address in {str(address) for address in places}:
            await stream.send(b"x", Address.parse(address))


def run(seed: int, careless: bool = False) -> str:
    logging.disable(logging.CRITICAL)
    net = Network(
        seed, latency=Latency.lognormal(0.02, 0.5), loss=0.05, duplicate=0.05, corrupt=0.01
    )
    net.slow(nth_host(1), factor=3)
    net.limit(nth_host(2), bandwidth=100_000)
    net.skew(nth_host(4), offset=-3, rate=1.01)
    try:
        net.run(main(net, careless))
    finally:
        logging.disable(logging.NOTSET)
    return f"{net.trace_hash} {net.stats.sent}"


if __name__ == "__main__":
    print(run(int(sys.argv[1]), careless="careless" in sys.argv))
