"""How Spark's Python processes talk to a camcast network: options, one event loop, archives and nodes.

A Python process of Spark calls a data source synchronously. Here an event loop runs in a thread beside it, so
that channels are served while Spark is busy with the rows. What costs time to open (a socket, a place in the
network) is kept for the next task of the same process.
"""

from __future__ import annotations

import asyncio
import queue
import threading
from collections.abc import AsyncIterator, Awaitable, Coroutine, Iterator, Mapping
from concurrent.futures import Future
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, TypeVar

from overlay.contact import Contact
from overlay.errors import UsageError
from overlay.metrics import Metrics
from pubsub import Node
from pubsub.archive.client import DurableClient
from pubsub.archive.errors import ArchiveError
from pubsub.archive.protocol.finder import MOST_ASKED, archives_of
from pubsub.archive.reader import ArchiveReader
from pubsub.attach import open_runtime
from pubsub.config import NodeConfig
from pubsub.config_file import config_from, read_settings
from pubsub.reliable.receipts import Budget
from pubsub.topic import Topic

T = TypeVar("T")

WITHIN = 30.0
"""Seconds that a network or an archive has to answer, unless the option `timeout` says otherwise."""

PAGES_AHEAD = 4
"""Pages that are read before Spark has taken the ones before them."""

MOST_READERS = 16
"""Archives that one process keeps a socket for."""

_NODE_OPTIONS = {
    "bootstrap": "bootstrap",
    "listen": "listen",
    "advertise": "advertise",
    "keyfile": "key_file",
    "insecure": "insecure",
    "preset": "preset",
    "mode": "mode",
    "signatures": "signatures",
}
"""Options that are settings of a node; `config` names a TOML file with all of them."""


class OptionError(UsageError):
    """An option of the data source is missing or cannot be used; the text names it."""


@dataclass(frozen=True)
class Options:
    """The options of a read or a write, checked. It can be pickled, and names what may be kept for it."""

    topic: str
    node: tuple[tuple[str, str], ...]
    config: str | None
    within: float
    name: str

    @classmethod
    def of(cls, options: Mapping[str, str]) -> Options:
        given = {name.lower(): value for name, value in options.items()}
        topic = given.get("topic") or given.get("path")
        if not topic:
            raise OptionError('no topic is named: write .option("topic", "/soccer")')
        node = {name: given[name] for name in _NODE_OPTIONS if given.get(name)}
        if "bootstrap" not in node and "config" not in given:
            raise OptionError(
                'no node of the network is named: write .option("bootstrap", "10.0.0.1:4000")'
            )
        chosen = cls(
            Topic.of(topic).name,
            tuple(sorted(node.items())),
            given.get("config"),
            number(given, "timeout", WITHIN),
            given.get("name", "spark"),
        )
        chosen.node_config()  # says what is wrong here, where the caller sees it
        return chosen

    def node_config(self) -> NodeConfig:
        settings: dict[str, Any] = {} if self.config is None else read_settings(self.config)
        for name, value in self.node:
            settings[_NODE_OPTIONS[name]] = _setting(name, value)
        settings["join_timeout"] = self.within
        return config_from(settings)


def _setting(name: str, value: str) -> Any:
    if name == "bootstrap":
        return [one.strip() for one in value.split(",") if one.strip()]
    if name in ("insecure", "signatures"):
        return flag({name: value}, name, False)
    return value


def flag(options: Mapping[str, str], name: str, usual: bool) -> bool:
    """An option that is true or false."""
    text = str(options.get(name.lower(), usual)).lower()
    if text not in ("true", "false"):
        raise OptionError(f"{name} is true or false, not {text!r}")
    return text == "true"


def number(options: Mapping[str, str], name: str, usual: float) -> float:
    """An option that is a number of more than 0."""
    text = options.get(name.lower(), usual)
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0 < value < float("inf"):
        raise OptionError(f"{name} is a number of more than 0, not {text!r}")
    return value


class Loop:
    """An event loop in a thread of its own, for calls from elsewhere; it ends with the process."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        threading.Thread(target=self._loop.run_forever, name="camcast", daemon=True).start()

    def call(self, work: Awaitable[T]) -> T:
        """Do something on the loop, and wait for it."""

        async def run() -> T:
            return await work

        return self.submit(run()).result()

    def submit(self, work: Coroutine[Any, Any, T]) -> Future[T]:
        return asyncio.run_coroutine_threadsafe(work, self._loop)

    def iterate(self, items: AsyncIterator[T], ahead: int) -> Iterator[T]:
        """The items of an asynchronous iterator, of which some are made ahead of their use."""
        taken: queue.Queue[tuple[bool, Any]] = queue.Queue()
        room = asyncio.Semaphore(ahead)

        async def run() -> None:
            try:
                async for item in items:
                    await room.acquire()
                    taken.put((True, item))
                taken.put((False, None))
            except Exception as error:
                taken.put((False, error))

        running = self.submit(run())
        try:
            while True:
                goes_on, item = taken.get()
                if not goes_on:
                    if item is not None:
                        raise item
                    return
                self._loop.call_soon_threadsafe(room.release)
                yield item
        finally:
            running.cancel()


@lru_cache(maxsize=1)
def the_loop() -> Loop:
    """The loop of this process."""
    return Loop()


@dataclass(frozen=True)
class Archives:
    """Who keeps a topic: the topic that they manage, and where they are, the best one first."""

    managed: str
    contacts: tuple[Contact, ...]


class Finding:
    """Finds the archives of a topic; a node that joins the network for it, kept open until `close`."""

    def __init__(self, options: Options) -> None:
        self._options = options
        self._node: Node | None = None
        self._client: DurableClient | None = None

    async def archives(self) -> Archives:
        """`NetworkError` or `NoArchiveFound` when nobody answers in time."""
        if self._client is None:
            node = Node.from_config(self._options.node_config())
            await node.__aenter__()
            self._node = node
            self._client = DurableClient(
                node.attachment.runtime,
                node.attachment.directory,
                lambda topic: False,
                node.config.durability,
            )
        assert self._node is not None
        budget = Budget(self._options.within)
        found = await self._client.find(Topic.of(self._options.topic), b"", budget)
        others: asyncio.Future[tuple[Contact, ...]] = asyncio.get_running_loop().create_future()
        self._node.attachment.directory.contacts(
            archives_of(found.topic), MOST_ASKED, others.set_result
        )
        contacts = dict.fromkeys((found.archive, *await others))
        return Archives(found.topic, tuple(contacts))

    async def close(self) -> None:
        if self._client is not None:
            self._client.close()
        if self._node is not None:
            await self._node.close()


def find_archives(options: Options) -> Archives:
    """The archives of the options' topic, by a node that joins the network for this question."""

    async def find() -> Archives:
        finding = Finding(options)
        try:
            return await finding.archives()
        finally:
            await finding.close()

    return the_loop().call(find())


_readers: dict[tuple[Options, Archives], ArchiveReader] = {}


async def reader_of(options: Options, archives: Archives) -> ArchiveReader:
    """A reader of these archives on a socket of its own, without a place in the network."""
    if not archives.contacts:
        raise ArchiveError(f"no archive of {options.topic} is known")
    key = (options, archives)
    if key not in _readers:
        if len(_readers) >= MOST_READERS:
            oldest = _readers.pop(next(iter(_readers)))
            await oldest.runtime.close()
        runtime = await open_runtime(options.node_config(), Metrics())
        _readers[key] = ArchiveReader(
            runtime,
            archives.managed,
            archives.contacts,
            name=options.name,
            within=options.within,
        )
    return _readers[key]
