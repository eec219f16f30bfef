"""Endpoints for the tests: parties that keep what they were handed, on every kind of loop."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import random
import socket
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from typing import Any

import pytest

from overlay import loops
from overlay.contact import Address, Contact
from overlay.identity import Identity
from overlay.metrics import Metrics
from overlay.session import SessionConfig
from overlay.session.sessions import Sessions
from overlay.transport.config import EndpointConfig
from overlay.transport.endpoint import Endpoint, FrameKind
from overlay.transport.frame import COOKIE, FrameBatch
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
        self.received: list[tuple[Contact, FrameKind, bytes]] = []
        self._arrived = asyncio.Event()
        for kind in FrameKind:
            endpoint.on(kind, self._handler(kind))

    def _handler(self, kind: FrameKind) -> Callable[[Contact, bytes], None]:
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

    def send(self, to: Party, body: bytes, kind: FrameKind = FrameKind.DATAGRAM) -> None:
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


async def acquainted(*parties: Party) -> None:
    """Have each send a frame to each, so that there are sessions where there is a key."""
    for one, other in itertools.permutations(parties, 2):
        one.send(other, b"hello")
        await other.has(1)
        other.received.clear()


async def raw_send(to: Party, *datagrams: bytes) -> None:
    """Send datagrams as they are from one socket, and wait until `to` has looked at all of them.

    They have been when a frame arrives that another endpoint sent behind them."""
    transport, _ = await asyncio.get_running_loop().create_datagram_endpoint(
        asyncio.DatagramProtocol, local_addr=("127.0.0.1", 0)
    )
    before = len(to.received)
    for datagram in datagrams:
        transport.sendto(datagram, tuple(to.contact.address))
    async with party(keys=to.endpoint.config.keys) as stranger:
        stranger.send(to, b"last", FrameKind.CHANNEL)
        while b"last" not in to.bodies[before:]:
            await to.has(len(to.received) + 1)
    to.received.pop()
    transport.close()


class Insider:
    """A member of the network that says what it likes in a session with an endpoint; it has no socket."""

    def __init__(self, to: Endpoint, identity: Identity | None = None) -> None:
        self.identity = identity or Identity.create()
        self.sent: list[bytes] = []
        self._to = to
        keys = to.config.keys
        self.sessions = Sessions(
            keys, self.identity, SessionConfig(), self, random.Random(1), Metrics()
        )

    def open(self, source: tuple[str, int] = ("127.0.0.1", 5)) -> None:
        """Open a session with the endpoint, without the network; like every node, send back a cookie that
        the endpoint asks for."""
        self.sessions.hold(self._to.contact, [FrameBatch(1_000)])
        endpoint = self._to
        replies: list[bytes] = []
        endpoint.transmit, usual = (
            (lambda datagram, to: replies.append(datagram)),
            endpoint.transmit,
        )  # type: ignore[method-assign,assignment]
        there = tuple(self._to.contact.address)
        endpoint.receive(self.sent[0], source)
        if replies[0][1] == COOKIE:
            self.sessions.unwrap(replies.pop(), there)
            endpoint.receive(self.sent[1], source)
        endpoint.transmit = usual  # type: ignore[method-assign]
        self.sessions.unwrap(replies[0], there)

    def wrap(self, frames: Sequence[bytes]) -> bytes:
        """The next datagram of the session."""
        wrap = self.sessions.towards(self._to.contact)
        assert wrap is not None
        return wrap(frames)

    def is_flooding(self, host: str) -> bool:
        return False

    def early_question(self, batch: FrameBatch) -> bytes:
        return b""

    def answer_early(self, sender: Contact, frame: bytes) -> bytes:
        return b""

    def now(self) -> float:
        return 0.0

    def call_at(self, when: float, action: Callable[[], None]) -> Any:
        class Never:
            def cancel(self) -> None: ...

        return Never()

    def transmit(self, datagram: bytes, to: Address) -> None:
        self.sent.append(datagram)

    def release(self, to: object, batches: list[FrameBatch]) -> None: ...

    def drop(self, reason: str, frames: int) -> None: ...
