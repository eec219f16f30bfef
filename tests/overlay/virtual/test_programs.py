"""Unmodified programs run on the virtual network."""

from __future__ import annotations

import asyncio

import asyncio_dgram
from kademlia.network import Server

from overlay.virtual import Latency, Network, nth_host


def test_asyncio_dgram_echoes() -> None:
    async def main() -> bytes:
        server = await asyncio_dgram.bind(("127.0.0.2", 0))
        client = await asyncio_dgram.connect(server.sockname)
        await client.send(b"hello")
        data, sender = await server.recv()
        await server.send(data.upper(), sender)
        answer: bytes = (await client.recv())[0]
        return answer

    assert Network(seed=1).run(main()) == b"HELLO"


def test_stock_kademlia_stores_and_finds() -> None:
    async def main() -> object:
        servers = []
        for n in range(20):
            server = Server()
            await server.listen(4000, nth_host(n))
            if servers:
                await server.bootstrap([("127.0.0.1", 4000)])
            servers.append(server)
        await servers[3].set("key", "value")
        return await servers[-1].get("key")

    net = Network(seed=1, latency=Latency.uniform(0.005, 0.050))
    assert net.run(main()) == "value"
    assert net.stats.sent == net.stats.delivered > 100


def test_time_is_virtual() -> None:
    async def main() -> float:
        await asyncio.sleep(3600)
        return asyncio.get_running_loop().time()

    assert Network(seed=1).run(main()) == 3600
