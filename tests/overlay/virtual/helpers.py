"""Small programs that many tests of the virtual network use."""

from __future__ import annotations

import asyncio
from typing import Any
from weakref import WeakSet

from overlay.contact import Address

opened: WeakSet[Recorder] = WeakSet()
"""All recorders that were given a transport, for those who must close them."""


class Recorder(asyncio.DatagramProtocol):
    """Keeps what it was told, in order and with the time."""

    def __init__(self) -> None:
        self.received: list[tuple[float, bytes, tuple[str, int]]] = []
        self.errors: list[Exception] = []
        self.calls: list[str] = []
        self.transport: Any = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.calls.append("made")
        self.transport = transport
        opened.add(self)

    def datagram_received(self, data: bytes, addr: Any) -> None:
        self.received.append((asyncio.get_running_loop().time(), data, addr))

    def error_received(self, exc: Exception) -> None:
        self.errors.append(exc)

    def connection_lost(self, exc: Exception | None) -> None:
        self.calls.append("lost")

    def pause_writing(self) -> None:
        self.calls.append("pause")

    def resume_writing(self) -> None:
        self.calls.append("resume")

    @property
    def address(self) -> Address:
        return Address(*self.transport.get_extra_info("sockname"))

    @property
    def payloads(self) -> list[bytes]:
        return [data for _, data, _ in self.received]


async def listen(host: str, port: int = 0) -> Recorder:
    _, recorder = await asyncio.get_running_loop().create_datagram_endpoint(
        Recorder, local_addr=(host, port)
    )
    return recorder


async def connect(address: Address) -> Recorder:
    _, recorder = await asyncio.get_running_loop().create_datagram_endpoint(
        Recorder, remote_addr=tuple(address)
    )
    return recorder
