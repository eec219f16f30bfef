"""The DHT's topic directory for protocol cores: it answers by callback and renews announcements itself."""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from typing import Any, TypeVar

from overlay.contact import Contact, PeerId
from overlay.context import Randomness
from overlay.dht import Dht
from overlay.directory import Directory, DirectoryConfig, DirectoryServer
from overlay.directory.messages import Announce, Query, Withdraw
from overlay.entropy import entropy
from overlay.errors import ClosedError
from overlay.membership.interface import Found
from overlay.metrics import Metrics

T = TypeVar("T")


class DhtPeers:
    """The DHT as the directory needs it (`overlay.directory.Peers`)."""

    def __init__(self, dht: Dht) -> None:
        self._dht = dht
        self.random: Randomness = random.Random(entropy().getrandbits(64))
        self.now = asyncio.get_running_loop().time
        self.answer_self: Callable[[object], object | None] = lambda request: None
        """What this node, which may hold a shard itself, says to its own request."""

    @property
    def contact(self) -> Contact:
        return self._dht.contact

    async def closest(self, key: PeerId, count: int) -> Sequence[Contact]:
        return await self._dht.closest(key, count)

    def token(self, to: Contact) -> bytes:
        return self._dht.token(to)

    def accepts_token(self, sender: Contact, token: bytes) -> bool:
        # Nothing from outside passes under this node's own id.
        return sender == self.contact or self._dht.accepts_token(sender, token)

    async def ask(self, to: Contact, request: object) -> object | None:
        if to.id == self.contact.id:
            return self.answer_self(request)
        return await self._dht.ask(to, request)

    async def together(self, calls: Sequence[Awaitable[T]]) -> list[T]:
        return list(await asyncio.gather(*calls))


class DhtDirectory:
    """A `TopicDirectory`, and this node's share in serving it; `close` withdraws and ends all it runs."""

    def __init__(self, dht: Dht, metrics: Metrics) -> None:
        peers, config = DhtPeers(dht), DirectoryConfig()
        server = DirectoryServer(config, peers.now, peers.accepts_token, metrics)
        for request in (Query, Announce, Withdraw):
            dht.serve(request, server.handle)
        peers.answer_self = lambda request: server.handle(peers.contact, request)
        self._directory = Directory(peers, config, metrics)
        self._announcing: dict[str, asyncio.Task[None]] = {}
        self._tasks: dict[asyncio.Task[None], None] = {}

    def announce(self, topic: str) -> None:
        if topic not in self._announcing:
            self._announcing[topic] = self._start(self._keep_announced(topic))

    def withdraw(self, topic: str) -> None:
        task = self._announcing.pop(topic, None)
        if task is not None:
            task.cancel()
            self._start(self._directory.withdraw(topic))

    def contacts(self, topic: str, count: int, found: Found) -> None:
        self._start(self._answer(self._directory.contacts(topic, count), found))

    def sample(self, topic: str, count: int, found: Found) -> None:
        self._start(self._answer(self._directory.sample(topic, count), found))

    def size(self, topic: str, found: Callable[[float], None]) -> None:
        self._start(self._answer_size(topic, found))

    async def close(self, within: float) -> None:
        """Withdraw every announcement, waiting so many seconds at most, and stop."""
        for topic in list(self._announcing):
            self.withdraw(topic)
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=within)
        left = list(self._tasks)
        for task in left:
            task.cancel()
        await asyncio.gather(*left, return_exceptions=True)

    async def _keep_announced(self, topic: str) -> None:
        while True:
            seconds = await self._directory.announce(topic)
            await asyncio.sleep(seconds)

    async def _answer(self, call: Awaitable[list[Contact]], found: Found) -> None:
        found(tuple(await call))

    async def _answer_size(self, topic: str, found: Callable[[float], None]) -> None:
        found(float(await self._directory.size(topic)))

    def _start(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.get_running_loop().create_task(_until_closed(work))
        self._tasks[task] = None
        task.add_done_callback(lambda done: self._tasks.pop(done, None))
        return task


async def _until_closed(work: Coroutine[Any, Any, None]) -> None:
    """What the DHT's closing interrupts has no one left to answer to."""
    with contextlib.suppress(ClosedError):
        await work
