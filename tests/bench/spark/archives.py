"""Archives and publishers over loopback for tests that call from a thread without an event loop."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterable
from pathlib import Path
from typing import Any, TypeVar

from bench.spark.connection import the_loop
from overlay.identity import Identity
from pubsub import Node
from pubsub.archive.archive import Archive
from pubsub.archive.publishing import wait_until_safe
from pubsub.reliable.receipts import Budget

T = TypeVar("T")

TOPICS = ["/soccer", "/copies", "/camcast"]
"""What the archive manages."""


class Network:
    """One archive and as many publishers as are asked for, on the loop of `bench.spark.connection`."""

    def __init__(self, directory: Path, **settings: Any) -> None:
        self._directory = directory
        self._settings = settings
        self.archive = self._start()
        self._nodes: dict[str, Node] = {}

    def _start(self) -> Archive:
        store = f"sqlite:///{self._directory}/events.db"
        archive = Archive(TOPICS, store, **self._settings)
        self.call(archive.__aenter__())
        for topic in TOPICS:
            self.call(archive.ready(topic))
        return archive

    @property
    def bootstrap(self) -> str:
        return str(self.archive.node.address)

    def call(self, work: Coroutine[Any, Any, T]) -> T:
        return the_loop().call(work)

    def publish(self, data: Iterable[Any], topic: str = "/soccer", who: str = "anna") -> str:
        """Publish each of the data, durably; who did, as the source says it."""

        async def run() -> str:
            if who not in self._nodes:
                identity = Identity(who.encode().ljust(32))
                node = Node(bootstrap=[self.bootstrap], identity=identity)
                await node.__aenter__()
                self._nodes[who] = node
            node = self._nodes[who]
            sent = [await node.publish(topic, one, durable=True, wait="sent") for one in data]
            for receipt in sent:
                await wait_until_safe(receipt, Budget(30))
            return node.id.hex()

        return self.call(run())

    def forget_old(self) -> None:
        """What retention does every few seconds."""

        async def run() -> None:
            self.archive._forget_old()
            await asyncio.sleep(0.2)  # the plan is made in a thread, and then committed

        self.call(run())

    def close(self) -> None:
        for node in self._nodes.values():
            self.call(node.close())
        self.call(self.archive.close())
