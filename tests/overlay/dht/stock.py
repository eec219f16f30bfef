"""Stock kademlia nodes on a virtual network, to show what they do wrong."""

from __future__ import annotations

import asyncio
from typing import Any

import umsgpack
from kademlia.network import Server
from rpcudp.protocol import RPCProtocol


async def open_stock(host: str, node_id: bytes | None = None, ksize: int = 20) -> Any:
    """A stock server; requests time out after one second instead of five."""
    server = Server(ksize=ksize, node_id=node_id)
    await server.listen(4000, interface=host)
    server.protocol._wait_timeout = 1
    return server


class StockRogue(RPCProtocol):  # type: ignore[misc]
    """A peer of stock nodes that answers what a test tells it to."""

    def __init__(self, answers: dict[str, Any]) -> None:
        super().__init__()
        self.answers = answers
        self.calls: list[str] = []

    async def _accept_request(self, msg_id: bytes, data: Any, address: Any) -> None:
        name, _ = data
        self.calls.append(name)
        answer = self.answers.get(name)
        if callable(answer):
            answer = answer()
        if answer is not None:
            self.transport.sendto(b"\x01" + msg_id + umsgpack.packb(answer), address)


async def open_stock_rogue(host: str, answers: dict[str, Any]) -> StockRogue:
    loop = asyncio.get_running_loop()
    _, rogue = await loop.create_datagram_endpoint(
        lambda: StockRogue(answers), local_addr=(host, 4000)
    )
    return rogue
