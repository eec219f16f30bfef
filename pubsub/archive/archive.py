"""An archive: keeps the events of its topics on stable storage, and replays them.

    async with Archive(topics=["/soccer"], store="sqlite:///events.db", bootstrap=["127.0.0.1:4000"]) as
    archive:
        await archive.failed()                 # runs until its store fails

It manages a topic together with its subtopics, and is found in the directory by publishers and subscribers
wherever it runs. Several archives of one topic are replicas of each other. Leaving the block stops the
archive; the next one on the same store goes on where it was, with every topic that was managed there.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from functools import partial
from types import TracebackType
from typing import Any, Self, TypeVar, Unpack

from overlay.contact import Address, Contact
from overlay.entropy import entropy
from overlay.errors import ClosedError, UsageError
from overlay.topic_name import check_topic_name
from pubsub.archive.acceptance import Acceptance
from pubsub.archive.commits import Commits
from pubsub.archive.departures import WITHIN, Departures
from pubsub.archive.directory_names import archives_of
from pubsub.archive.errors import ArchiveError, DurableUsageError
from pubsub.archive.hand_over_desk import HandOverDesk, operator_ids
from pubsub.archive.hand_over_messages import REFUSED, HandedOver, HandOver
from pubsub.archive.protocol.config import DurableConfig
from pubsub.archive.protocol.finder import MOST_ASKED
from pubsub.archive.protocol.managed_topic import ManagedTopic
from pubsub.archive.protocol.messages import (
    Companion,
    Discover,
    EntityUpdates,
    Invoice,
    Register,
    ReplicaInfo,
    ReplicaInvoice,
    StoredEvents,
)
from pubsub.archive.protocol.world import ArchiveWorld
from pubsub.archive.replay_policy import ReplayPolicy
from pubsub.archive.status import describe
from pubsub.archive.store import (
    ForgetTopic,
    GroupCommit,
    Note,
    Retention,
    Store,
    StoreError,
)
from pubsub.archive.store.opening import open_store
from pubsub.config import NodeSettings
from pubsub.node import Node
from pubsub.signing import is_signed_by_publisher
from pubsub.topic import Topic

T = TypeVar("T")

REPLICA = "replica"
REPLICA_BYTES = 16
MEETING_SECONDS = 10.0
"""How often an archive looks for other replicas of its topics."""

RETENTION_SECONDS = 5.0
"""How often an archive looks for what it may forget."""


class Archive:
    """One archive; enter it with `async with`."""

    def __init__(
        self,
        topics: Sequence[str | type | Topic],
        store: str | Store = "sqlite:///events.db",
        *,
        node: Node | None = None,
        retention: Retention | None = None,
        accept: Sequence[str] = (),
        replay: ReplayPolicy | None = None,
        operators: Sequence[str] = (),
        config: DurableConfig | None = None,
        **settings: Unpack[NodeSettings],
    ) -> None:
        """`store`: a URL (`sqlite:///file`, `file:///directory`, `postgresql://...`) or an open store.
        `node`: one that runs already; otherwise one of its own is made from the settings of `NodeConfig`.
        `accept`: patterns of the topics that other archives may hand to this one. `replay`: how far back new
        durable names may begin; by default as far as they ask to. `operators`: ids of nodes that may have it
        hand topics over, besides those of this machine. `config`: in place of the node's `durability`."""
        if isinstance(topics, str):
            raise DurableUsageError(f"topics is a list of topics: write [{topics!r}]")
        if node is not None and settings:
            raise DurableUsageError("give the archive a node or the settings of one, not both")
        self._names = [Topic.of(topic).name for topic in topics]
        self.topics: dict[str, ManagedTopic] = {}
        self._ready: dict[str, asyncio.Event] = {}
        self._store_given = store
        self._given = node
        self.node = node or Node(**settings)
        self._retention = retention or Retention()
        self._acceptance = Acceptance(accept)
        self._replay = replay or ReplayPolicy()
        self._operators = operator_ids(operators)
        self._config = config or self.node.config.durability
        self._store: Store | None = None
        self._failure: asyncio.Future[StoreError] | None = None
        self._tasks: list[asyncio.Task[None]] = []
        self._taking_over: dict[str, asyncio.Task[None]] = {}
        self._managing = asyncio.Lock()
        self._closed = False

    # Opening and closing.

    async def __aenter__(self) -> Self:
        if self._store is not None or self._closed:
            raise UsageError("an archive is entered once; make another one")
        if self._given is None:
            await self.node.__aenter__()
        try:
            attachment = self.node.attachment
            self._runtime, self._directory = attachment.runtime, attachment.directory
            given = self._store_given
            self._store = open_store(given) if isinstance(given, str) else given
            self._writer = GroupCommit(self._store)
            self._failure = asyncio.get_running_loop().create_future()
            self._commits = Commits(self._writer, self._config.patience, self._fail)
            self._departures = Departures(self._runtime, self._directory)
            self._desk = HandOverDesk(self._runtime, self._operators, self.hand_over)
            self._serve()
            self.node.archive = self
            for name in (*self._names, *self._kept_topics()):
                await self.manage(name)
            for work in (self._forget_old(), self._meet_others()):
                self._tasks.append(asyncio.create_task(work))
        except BaseException:
            await self.close()
            raise
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Stop: what was acknowledged is safe, the rest is the publishers' to send again."""
        if self._closed:
            return
        self._closed = True
        tasks = [*self._tasks, *self._taking_over.values()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        if self._store is not None:
            await self._desk.close()
        for name, topic in self.topics.items():
            topic.farewell()
            topic.close()
            self._directory.withdraw(archives_of(name))
        if self._store is not None:
            self.node.archive = None
            self._commits.close()
            for kind in (*self._handlers(), ReplicaInfo, HandedOver, HandOver):
                self._runtime.off(kind)
            await self._writer.close()
            if isinstance(self._store_given, str):
                self._store.close()
        if self._given is None:
            await self.node.close()

    async def failed(self) -> None:
        """Wait until the store fails, if it ever does, and raise `ArchiveError`."""
        if self._failure is None:
            raise ClosedError("the archive is not running: use it inside `async with`")
        error = await asyncio.shield(self._failure)
        raise ArchiveError(f"the archive has stopped, since its store failed: {error}")

    # Topics.

    def _kept_topics(self) -> list[str]:
        """What this store was an archive of when it was last used: topics may have been handed to it, and
        nobody else may have their events."""
        assert self._store is not None
        store = self._store
        return [topic for topic in store.topics() if store.notes(topic, REPLICA).get(REPLICA)]

    async def manage(self, topic: str | type | Topic) -> None:
        """Manage one more topic from here on, as a replica of those who do already."""
        await self._manage_once(Topic.of(topic).name, ())

    async def _manage_once(self, name: str, known: tuple[Contact, ...]) -> None:
        async with self._managing:
            if name not in self.topics:
                await self._manage(name, known)

    async def _manage(self, name: str, known: tuple[Contact, ...]) -> None:
        """`known`: replicas that the directory need not tell of."""
        assert self._store is not None
        replica = self._store.notes(name, REPLICA).get(REPLICA)
        if replica is None:
            replica = entropy().randbytes(REPLICA_BYTES)
            await self._writer.commit([Note(name, REPLICA, replica)])
        world = ArchiveWorld(
            self._runtime.context("channel"),
            name,
            replica,
            self._store,
            self._commits,
            _wall_clock(),
            self._config,
            self._runtime.metrics,
            is_signed_by_publisher if self.node.config.signatures else None,
            self._replay,
        )
        others = dict.fromkeys((*known, *await self._others(name)))
        ready = self._ready[name] = asyncio.Event()

        def on_ready() -> None:
            self._directory.announce(archives_of(name))
            ready.set()

        core = self.topics[name] = ManagedTopic(world, on_ready)
        core.start(alone=not others)
        for contact in others:
            core.replication.greet(contact)

    async def ready(self, topic: str | type | Topic) -> None:
        """Wait until this archive has caught up with the topic's other replicas, and serves it."""
        await self._ready[self._managed(topic).topic].wait()

    async def remove(self, topic: str | type | Topic, within: float = WITHIN) -> None:
        """Stop managing a topic for good, once another replica has everything; what is here is deleted.

        `ArchiveError`, and the topic is managed as before, when no other one is there and ready, or none has
        everything within so many seconds."""
        core = self._managed(topic)
        await self._departures.leave(core, within)
        self.topics.pop(core.topic, None)
        core.farewell()
        core.close()
        await self._writer.commit([ForgetTopic(core.topic)])

    def forget_replica(self, topic: str | type | Topic, replica: str) -> None:
        """Another replica, by its id in `status()`, is gone for good: wait for nothing from it any more.

        Else an event that only it could repair holds its subscribers up for `DurableConfig.absence`."""
        core = self._managed(topic)
        known = {peer.id.hex(): peer.id for peer in core.replication.table.peers.values()}
        if replica not in known:
            raise DurableUsageError(f"{replica!r} is no replica of {core.topic} that was ever met")
        core.replication.forget_replica(known[replica])

    async def hand_over(
        self, topic: str | type | Topic, to: str | tuple[str, int], within: float = WITHIN
    ) -> None:
        """Hand a topic's management to the archive at this address, while publishers and subscribers go on.

        `ArchiveError`, and the topic is managed as before, when that one does not answer, does not accept
        the topic, or has not everything within so many seconds."""
        core = self._managed(topic)
        deadline = asyncio.get_running_loop().time() + within
        await self._departures.have_managed(core, Address.of(to), within)
        await self.remove(topic, deadline - asyncio.get_running_loop().time())

    def _managed(self, topic: str | type | Topic) -> ManagedTopic:
        core = self.topics.get(Topic.of(topic).name)
        if core is None:
            raise DurableUsageError(f"this archive does not manage {Topic.of(topic)}")
        return core

    async def _others(self, topic: str) -> list[Contact]:
        return [one for one in await self._contacts(topic) if one.id != self.node.id]

    async def _contacts(self, topic: str) -> list[Contact]:
        """The archives of a topic that the directory names."""
        answer: asyncio.Future[tuple[Contact, ...]] = asyncio.get_running_loop().create_future()
        self._directory.contacts(archives_of(topic), MOST_ASKED, partial(_settle, answer))
        return list(await answer)

    async def _meet_others(self) -> None:
        """Replicas that were started at the same time, or came back elsewhere, find each other in the end."""
        while True:
            await asyncio.sleep(MEETING_SECONDS)
            for name, core in list(self.topics.items()):
                for contact in await self._others(name):
                    core.replication.greet(contact)

    def status(self) -> dict[str, Any]:
        """By topic: events, bytes, durable subscribers and how far they are."""
        assert self._store is not None
        return {name: describe(self._store, topic) for name, topic in self.topics.items()}

    # Messages and commits.

    def _handlers(self) -> dict[type, Callable[[ManagedTopic], Callable[[Contact, Any], None]]]:
        return {
            Discover: lambda topic: topic.receive_discover,
            Companion: lambda topic: topic.receive_companion,
            Register: lambda topic: topic.entities.receive_register,
            Invoice: lambda topic: topic.entities.receive_invoice,
            StoredEvents: lambda topic: topic.replication.receive_events,
            ReplicaInvoice: lambda topic: topic.replication.receive_invoice,
            EntityUpdates: lambda topic: topic.exchange.receive,
        }

    def _serve(self) -> None:
        for kind, handler in self._handlers().items():
            self._runtime.on(kind, self._dispatch(handler))
        self._runtime.on(ReplicaInfo, self._receive_info)
        self._runtime.on(HandedOver, self._departures.receive)
        self._runtime.on(HandOver, self._desk.receive)

    def _receive_info(self, sender: Contact, info: ReplicaInfo) -> None:
        if self._closed:
            return
        topic = self.topics.get(info.topic)
        if info.kind == "manage" and (topic is None or self._has_failed):
            self._asked_to_manage(sender, info.topic)
        elif topic is not None and self._serves:
            topic.replication.receive_info(sender, info)

    def _asked_to_manage(self, sender: Contact, topic: str) -> None:
        why = self._acceptance.refusal(topic, len(self.topics) + len(self._taking_over))
        if self._has_failed:
            why = "its store has failed"
        if why:
            self._count_drop("not_accepted")
            self._runtime.send_datagram(sender, HandedOver(topic, 0, REFUSED, why))
        elif topic not in self._taking_over:
            self._taking_over[topic] = asyncio.create_task(self._take_over(sender, topic))

    async def _take_over(self, sender: Contact, topic: str) -> None:
        try:
            await self._manage_once(check_topic_name(topic), (sender,))
        except UsageError:
            self._count_drop("no_topic")
        finally:
            self._taking_over.pop(topic, None)

    def _count_drop(self, reason: str) -> None:
        self._runtime.metrics.family(
            "archive_dropped", "reason", "Messages to the archive that were dropped, by reason."
        ).add(reason)

    def _dispatch(
        self, handler: Callable[[ManagedTopic], Callable[[Contact, Any], None]]
    ) -> Callable[[Contact, Any], None]:
        def receive(sender: Contact, message: Any) -> None:
            topic = self.topics.get(message.topic)
            if topic is not None and self._serves:
                handler(topic)(sender, message)

        return receive

    @property
    def _serves(self) -> bool:
        """Whether it answers at all: one whose disk hangs is silent, so that others are sought instead."""
        return not self._closed and not self._has_failed and not self._commits.is_stalled

    @property
    def _has_failed(self) -> bool:
        return self._failure is not None and self._failure.done()

    def _fail(self, error: BaseException) -> None:
        """What the disk has is not known: serve nobody any more. The next start reads what it has."""
        if isinstance(error, StoreError) and self._failure is not None and not self._failure.done():
            self._failure.set_result(error)
            for topic in self.topics.values():
                topic.close()

    async def _forget_old(self) -> None:
        if self._retention.is_unlimited:
            return
        while not self._has_failed:
            await asyncio.sleep(RETENTION_SECONDS)
            for topic in self.topics.values():
                topic.forget_old(self._retention)


def _settle(future: asyncio.Future[T], result: T) -> None:
    if not future.done():
        future.set_result(result)


def _wall_clock() -> Callable[[], float]:
    """Seconds since 1970; on a virtual network the seed's."""
    return lambda: time.time()
