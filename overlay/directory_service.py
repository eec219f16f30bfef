"""The topic directory of a running node: its share in serving others, and its own use of it.

Nothing here raises for reasons of the network. Calls that the DHT's closing interrupts get `ClosedError`.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections.abc import Awaitable, Sequence
from typing import TypeVar

from overlay.contact import Contact, PeerId
from overlay.context import Randomness
from overlay.dht import Dht
from overlay.directory import Directory, DirectoryConfig, DirectoryServer, TopicSize
from overlay.directory.messages import Announce, Query, Report, Withdraw
from overlay.entropy import entropy
from overlay.errors import ClosedError
from overlay.metrics import Metrics

T = TypeVar("T")


class DhtPeers:
    """The DHT as the directory needs it: `overlay.directory.Peers`."""

    def __init__(self, dht: Dht, server: DirectoryServer | None) -> None:
        """`server`: this node's own share; what it asks of itself does not travel."""
        self._dht = dht
        self._server = server
        self.random: Randomness = random.Random(entropy().getrandbits(64))
        self.now = asyncio.get_running_loop().time

    @property
    def contact(self) -> Contact:
        return self._dht.contact

    async def closest(self, key: PeerId, count: int) -> Sequence[Contact]:
        return await self._dht.closest(key, count)

    async def around(self, key: PeerId, exact: int, wide: int) -> Sequence[Contact]:
        return await self._dht.around(key, exact, wide)

    def token(self, to: Contact) -> bytes:
        return self._dht.token(to)

    async def ask(self, to: Contact, request: object) -> object | None:
        if to.id != self.contact.id:
            return await self._dht.ask(to, request)
        return self._server.handle(self.contact, request) if self._server else None

    async def together(self, calls: Sequence[Awaitable[T]]) -> list[T]:
        return list(await asyncio.gather(*calls))


class DirectoryService:
    """A node's topics; one for each DHT, and closed before it."""

    def __init__(self, dht: Dht, config: DirectoryConfig, metrics: Metrics, *, serve: bool) -> None:
        """`serve`: hold shards for others, as every node does that is not a light member."""
        server = _serve_on(dht, config, metrics) if serve else None
        self._directory = Directory(DhtPeers(dht, server), config, metrics)
        self._announcing: dict[str, asyncio.Task[None]] = {}
        self._announced: dict[str, asyncio.Future[None]] = {}
        """Done when the first announcement is."""
        self._leaving: dict[str, asyncio.Task[None]] = {}
        self._changed = asyncio.Event()
        dht.on_rejoined(self._network_changed)

    @property
    def topics(self) -> list[str]:
        """The topics that this node is announced under."""
        return list(self._announcing)

    async def announce(self, topic: str) -> None:
        """Be found under `topic` from the return of this call until it is withdrawn."""
        if topic in self._announcing:
            return
        announced: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        task = asyncio.create_task(self._keep_announced(topic, announced))
        self._announcing[topic] = task
        self._announced[topic] = announced
        await asyncio.wait([announced, task], return_when=asyncio.FIRST_COMPLETED)
        if task.done() and not task.cancelled():
            task.result()

    async def withdraw(self, topic: str) -> None:
        """Not be found under `topic` any more; nothing if it was not announced."""
        task = self._announcing.pop(topic, None)
        self._announced.pop(topic, None)
        if task is not None:
            task.cancel()
            earlier = [task, self._leaving[topic]] if topic in self._leaving else [task]
            self._leaving[topic] = asyncio.create_task(self._leave(topic, earlier))
        if topic in self._leaving:
            await self._leaving[topic]

    async def contacts(self, topic: str, count: int) -> list[Contact]:
        await self._be_announced(topic)
        return await self._directory.contacts(topic, count)

    async def sample(self, topic: str, count: int) -> list[Contact]:
        await self._be_announced(topic)
        return await self._directory.sample(topic, count)

    async def report(self, topic: str, member: Contact) -> None:
        """A member that was found under `topic` does not answer."""
        await self._directory.report(topic, member)

    async def size(self, topic: str) -> TopicSize:
        await self._be_announced(topic)
        return await self._directory.size(topic)

    async def _be_announced(self, topic: str) -> None:
        """Wait for a first announcement that is under way: it learns what a question would ask again."""
        announced = self._announced.get(topic)
        if announced is not None and not announced.done():
            await asyncio.wait(
                [announced, self._announcing[topic]], return_when=asyncio.FIRST_COMPLETED
            )

    async def close(self, within: float) -> None:
        """Withdraw from every topic, for so many seconds at most, and stop; what is left expires."""
        tasks = [*self._announcing.values(), *self._leaving.values()]
        topics = [*self._announcing, *self._leaving]
        try:
            async with asyncio.timeout(within):
                await asyncio.gather(*(self.withdraw(topic) for topic in topics))
        except (TimeoutError, ClosedError):
            tasks += self._leaving.values()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _leave(self, topic: str, earlier: list[asyncio.Task[None]]) -> None:
        try:
            await asyncio.wait(earlier)
            await self._directory.withdraw(topic)
        finally:
            if self._leaving.get(topic) is asyncio.current_task():
                del self._leaving[topic]

    async def _keep_announced(self, topic: str, announced: asyncio.Future[None]) -> None:
        if topic in self._leaving:
            await asyncio.wait([self._leaving[topic]])
        while True:
            seconds = await self._directory.announce(topic)
            if not announced.done():
                announced.set_result(None)
            changed = self._changed
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(seconds):
                    await changed.wait()

    def _network_changed(self) -> None:
        """The halves of a cut network have met: announce everything again, at once."""
        self._directory.network_changed()
        changed, self._changed = self._changed, asyncio.Event()
        changed.set()


def _serve_on(dht: Dht, config: DirectoryConfig, metrics: Metrics) -> DirectoryServer:
    def accepts_token(sender: Contact, token: bytes) -> bool:
        # The endpoint drops what comes from outside under this node's own id.
        return sender == dht.contact or dht.accepts_token(sender, token)

    now = asyncio.get_running_loop().time
    server = DirectoryServer(
        config,
        now,
        accepts_token,
        metrics,
        dht.max_message,
        give_token=dht.give_token,
        neighbours=lambda key: dht.known_closest(key, config.replicas),
        ask_alive=dht.ask_alive,
    )
    for request in (Query, Announce, Withdraw, Report):
        dht.serve(request, server.handle)
    return server
