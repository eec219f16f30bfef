"""Endpoints for the tests: parties that keep what they were handed, on every kind of loop."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator, Callable, Coroutine
from typing import Any

import pytest

from overlay import loops
from overlay.contact import Contact
from overlay.identity import Identity
from overlay.metrics import Metrics
from overlay.transport.endpoint import Endpoint, EndpointConfig, Kind
from overlay.transport.frame import PlainEnvelope, frame_head
from overlay.transport.seal import SealedEnvelope
from overlay.virtual import Network

KEY, OTHER_KEY = bytes(range(32)), bytes(range(32, 64))
Runner = Callable[[Coroutine[Any, Any, None]], None]

on_every_loop = pytest.mark.parametrize(
    "run",
    [asyncio.run, loops.run, lambda main: Network(seed=1).run(main)],
    ids=["asyncio", "uvloop", "virtual"],
)
sealed_or_not = pytest.mark.parametrize("keys", [(), (KEY,)], ids=["plain", "sealed"])


def has_ipv6() -> bool:
    with contextlib.suppress(OSError), socket.socket(socket.AF_INET6, socket.SOCK_DGRAM) as probe:
        probe.bind(("::1", 0))
        return True
    return False


needs_ipv6 = pytest.mark.skipif(not has_ipv6(), reason="this machine has no IPv6")


class Party:
    """An endpoint, what it was handed, and a way to wait for more."""

    def __init__(self, endpoint: Endpoint) -> None:
        self.endpoint = endpoint
        self.contact = endpoint.contact
        self.received: list[tuple[Contact, Kind, bytes]] = []
        self._arrived = asyncio.Event()
        for kind in Kind:
            endpoint.on(kind, self._handler(kind))

    def _handler(self, kind: Kind) -> Callable[[Contact, bytes], None]:
        def take(sender: Contact, body: bytes) -> None:
            self.received.append((sender, kind, body))
            self._arrived.set()

        return take

    @property
    def bodies(self) -> list[bytes]:
        return [body for _, _, body in self.received]

    async def has(self, count: int) -> None:
        async with asyncio.timeout(10):
            while len(self.received) < count:
                self._arrived.clear()
                await self._arrived.wait()

    def send(self, to: Party, body: bytes, kind: Kind = Kind.DATAGRAM) -> None:
        self.endpoint.send(to.contact.address, kind, body)

    def count(self, name: str, label: str | None = None) -> Any:
        value = self.endpoint.metrics.as_dict()[name]
        return value if label is None else value.get(label, 0)  # type: ignore[union-attr]


@contextlib.asynccontextmanager
async def party(
    listen: str = "127.0.0.1:0", identity: Identity | None = None, **config: Any
) -> AsyncIterator[Party]:
    endpoint = await Endpoint.open(
        EndpointConfig(listen, **config), identity or Identity.create(), Metrics()
    )
    try:
        yield Party(endpoint)
    finally:
        await endpoint.close()


@contextlib.asynccontextmanager
async def two(**config: Any) -> AsyncIterator[tuple[Party, Party]]:
    async with party(**config) as alice, party(**config) as bob:
        yield alice, bob


async def raw_send(to: Party, *datagrams: bytes) -> None:
    """Send datagrams as they are from one socket, and wait until `to` has looked at all of them."""
    transport, _ = await asyncio.get_running_loop().create_datagram_endpoint(
        asyncio.DatagramProtocol, local_addr=("127.0.0.1", 0)
    )
    stranger, keys = Identity.create().id, to.endpoint.config.keys
    envelope = SealedEnvelope(keys, stranger, 1) if keys else PlainEnvelope(stranger)
    last = envelope.wrap([frame_head(Kind.CHANNEL, 4), b"last"])
    before = len(to.received)
    for datagram in (*datagrams, last):
        transport.sendto(datagram, tuple(to.contact.address))
    while b"last" not in to.bodies[before:]:
        await to.has(len(to.received) + 1)
    to.received.pop()
    transport.close()


def sealed_datagrams(count: int, sender: Identity) -> list[bytes]:
    envelope = SealedEnvelope((KEY,), sender.id, boot=1)
    return [envelope.wrap([frame_head(Kind.DATAGRAM, 1), b"x"]) for _ in range(count)]
