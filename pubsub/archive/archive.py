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
import logging
import time
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack
from functools import partial
from typing import Any, Self, Unpack

from overlay.contact import Address, Contact
from overlay.entropy import entropy
from overlay.errors import CamcastError, ClosedError, UsageError
from overlay.futures import Finish, Futures
from overlay.topic_name import check_topic_name
from pubsub.archive import rules
from pubsub.archive.errors import ArchiveError, DurableUsageError
from pubsub.archive.hand_over import (
    REFUSED,
    WITHIN,
    Acceptance,
    Departures,
    HandedOver,
    HandOver,
    HandOverDesk,
    operator_ids,
)
from pubsub.archive.protocol.config import DurableConfig
from pubsub.archive.protocol.finder import MOST_ASKED, archives_of
from pubsub.archive.protocol.managed_topic import RECEIVED, ManagedTopic
from pubsub.archive.protocol.messages import ReplicaInfo
from pubsub.archive.protocol.world import ArchiveWorld
from pubsub.archive.replay_policy import ReplayPolicy
from pubsub.archive.store import ForgetTopic, GroupCommit, Note, Retention, Store, StoreError
from pubsub.archive.store.group_commit import Reads
from pubsub.archive.store.opening import open_store
from pubsub.config import NodeSettings
from pubsub.node import Node
from pubsub.reliable.tasks import Tasks
from pubsub.rights import Action
from pubsub.topic import Topic

_log = logging.getLogger(__name__)

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
        self._failure: asyncio.Future[CamcastError] | None = None
        self._tasks: Tasks
        self._taking_over: dict[str, None] = {}
        self._managing = asyncio.Lock()
        self._closed = False
        self._answers = Futures("the archive is closed")
        self._finish = Finish(self._end)

    # Opening and closing.

    async def __aenter__(self) -> Self:
        if self._store is not None or self._closed:
            raise UsageError("an archive is entered once; make another one")
        if self._given is None:
            await self.node.__aenter__()
        try:
            attachment = self.node.attachment
            self._runtime, self._directory = attachment.runtime, attachment.directory
            self._store = await self._opened()
            self._failure = asyncio.get_running_loop().create_future()
            self._tasks = Tasks("archive", self._runtime.metrics, self._stop)
            self._runtime.metrics.gauge(
                "archive_failed",
                "1 when the archive has stopped, as its store failed or a task of it died.",
                lambda: float(self._has_failed),
            )
            self._writer = GroupCommit(
                self._store, patience=self._config.patience, on_failure=self._fail
            )
            self._reads = Reads(self._store, self._guard, self._store.blocking)
            self._departures = Departures(self._runtime, self._directory)
            self._desk = HandOverDesk(self._runtime, self._operators, self.hand_over)
            self._serve()
            self.node.archive = self
            for name in (*self._names, *self._kept_topics()):
                await self.manage(name)
            if not self._retention.is_unlimited:
                self._tasks.repeat("retention", RETENTION_SECONDS, self._forget_old)
            self._tasks.repeat("meeting", MEETING_SECONDS, self._meet_others)
        except BaseException:
            await self.close()
            raise
        return self

    async def _opened(self) -> Store:
        """The store. One that is opened reads all of it, to see that it is whole: a thread waits for that."""
        if not isinstance(self._store_given, str):
            return self._store_given
        loop = asyncio.get_running_loop()
        opening = loop.run_in_executor(None, open_store, self._store_given)
        try:
            return await asyncio.shield(opening)
        except asyncio.CancelledError:
            opening.add_done_callback(_close_unused)
            raise

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Stop: what was acknowledged is safe, the rest is the publishers' to send again.

        More than once is fine. A caller that is cancelled meanwhile stops waiting; the archive closes all the
        same. A store that has failed keeps nothing else from being closed."""
        await self._finish()

    async def _end(self) -> None:
        self._closed = True
        async with AsyncExitStack() as ending:  # from the last to the first, though one raises
            if self._given is None:
                ending.push_async_callback(self.node.close)
            if self._store is not None:
                ending.callback(self._unplug)
                if isinstance(self._store_given, str):
                    ending.callback(self._store.close)
                ending.push_async_callback(self._reads.close)
                ending.push_async_callback(self._writer.close)
                ending.callback(self._say_goodbye)
                ending.push_async_callback(self._desk.close)
                ending.push_async_callback(self._tasks.close)

    def _say_goodbye(self) -> None:
        """Send publishers and subscribers to other archives."""
        for name, topic in self.topics.items():
            self._directory.withdraw(archives_of(name))
            topic.farewell(not self._has_failed)
            topic.close()

    def _unplug(self) -> None:
        self.node.archive = None
        for kind in (*RECEIVED, HandedOver, HandOver):
            self._runtime.off(kind)

    async def failed(self) -> None:
        """Wait until the archive cannot go on, if that ever happens, and raise `ArchiveError`: its store
        failed, or one of its background tasks died."""
        if self._failure is None:
            raise ClosedError("the archive is not running: use it inside `async with`")
        error = await asyncio.shield(self._failure)
        why = "its store failed: " if isinstance(error, StoreError) else ""
        raise ArchiveError(f"the archive has stopped, since {why}{error}")

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
        self.node.check_right(Action.ARCHIVE, name)
        gate = self.node.attachment.gate
        replica = self._store.notes(name, REPLICA).get(REPLICA)
        if replica is None:
            replica = entropy().randbytes(REPLICA_BYTES)
            await self._writer.commit([Note(name, REPLICA, replica)])
        world = ArchiveWorld(
            self._runtime.context("channel"),
            name,
            replica,
            self._store,
            self._writer,
            self._reads,
            _wall_clock(),
            self._config,
            self._runtime.metrics,
            None if self.node.validation.asks_nothing else self.node.validation.refusal,
            self._replay,
            *(() if gate is None else (gate.may,)),
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
        everything within `within` seconds."""
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
            raise DurableUsageError(
                f"{replica!r} is not a replica of {core.topic} that was ever met"
            )
        core.replication.forget_replica(known[replica])

    async def hand_over(
        self, topic: str | type | Topic, to: str | tuple[str, int], within: float = WITHIN
    ) -> None:
        """Hand a topic's management to the archive at this address, while publishers and subscribers go on.

        `ArchiveError`, and the topic is managed as before, when that one does not answer, does not accept
        the topic, or has not everything within `within` seconds."""
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
        found: tuple[Contact, ...] = await self._answers.answer(
            lambda give: self._directory.contacts(archives_of(topic), MOST_ASKED, give)
        )
        return list(found)

    async def _meet_others(self) -> None:
        """Replicas that were started at the same time, or came back elsewhere, find each other in the end."""
        for name, core in list(self.topics.items()):
            for contact in await self._others(name):
                if self._serves:
                    core.replication.greet(contact)

    def notes(self, topic: str, prefix: str) -> dict[str, bytes]:
        """What a service of this archive keeps beside a managed topic's events, by key."""
        assert self._store is not None
        return self._store.notes(topic, prefix)

    async def note(self, topic: str, key: str, value: bytes | None) -> None:
        """Keep a few bytes under a key, or with None no longer; returns when that is on stable storage."""
        await self._writer.commit([Note(topic, key, value)])

    def status(self) -> dict[str, Any]:
        """By topic: events, bytes, durable subscribers and how far they are; of an archive that has failed
        only `failure`, which says why."""
        assert self._failure is not None
        found: dict[str, Any] = {}
        for name, topic in self.topics.items():
            if not self._has_failed:
                self._guard(partial(self._describe, name, topic, found))
            if self._has_failed:
                found[name] = {"failure": str(self._failure.result())}
        return found

    def _describe(self, name: str, topic: ManagedTopic, found: dict[str, Any]) -> None:
        assert self._store is not None
        found[name] = describe(self._store, topic)

    # Messages and commits.

    def _serve(self) -> None:
        gate = self.node.attachment.gate
        if gate is not None:
            gate.require({**rules.OF_ARCHIVES, HandOver: self._desk.may_ask})
        for kind in RECEIVED:
            self._runtime.on(kind, self._receive)
        self._runtime.on(HandedOver, self._departures.receive)
        self._runtime.on(HandOver, self._desk.receive)

    def _receive(self, sender: Contact, message: Any) -> None:
        if self._closed:
            return
        topic = self.topics.get(message.topic)
        is_wish = isinstance(message, ReplicaInfo) and message.kind == "manage"
        if is_wish and (topic is None or self._has_failed):
            self._asked_to_manage(sender, message.topic)
        elif topic is not None and self._serves:
            topic.receive(sender, message)

    def _asked_to_manage(self, sender: Contact, topic: str) -> None:
        why = self._acceptance.refusal(topic, len(self.topics) + len(self._taking_over))
        if self._has_failed:
            why = "its store has failed"
        if why:
            self._count_drop("not_accepted")
            self._runtime.send_datagram(sender, HandedOver(topic, 0, REFUSED, why))
        elif topic not in self._taking_over:
            self._taking_over[topic] = None
            self._tasks.start("taking over", self._take_over(sender, topic), vital=False)

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

    @property
    def _serves(self) -> bool:
        """Whether it answers at all: one whose disk hangs is silent, so that others are sought instead."""
        return not self._closed and not self._has_failed and not self._writer.is_stalled

    @property
    def _has_failed(self) -> bool:
        return self._failure is not None and self._failure.done()

    def _guard(self, action: Callable[[], None]) -> None:
        """Do something that may read the disk; the archive stops when the store fails at that."""
        try:
            action()
        except StoreError as error:
            self._fail(error)

    def _fail(self, error: BaseException) -> None:
        """What the disk has is not known: serve nobody any more. The next start reads what it has."""
        if isinstance(error, StoreError):
            self._stop(error)

    def _stop(self, error: CamcastError) -> None:
        if self._failure is not None and not self._failure.done() and not self._closed:
            _log.error("the archive at %s has stopped: %s", self._runtime.contact, error)
            self._failure.set_result(error)
            for topic in self.topics.values():
                topic.close()

    def _forget_old(self) -> None:
        for topic in list(self.topics.values()):
            if self._serves:
                topic.forget_old(self._retention)


def _close_unused(opening: asyncio.Future[Store]) -> None:
    if not opening.cancelled() and opening.exception() is None:
        opening.result().close()


def _wall_clock() -> Callable[[], float]:
    """Seconds since 1970; on a virtual network the seed's."""
    return lambda: time.time()


def describe(store: Store, topic: ManagedTopic) -> dict[str, Any]:
    """Events, bytes, load, the other replicas, and how far durable subscribers are."""
    name, table = topic.topic, topic.replication.table
    live = {peer.id for peer in table.live()}
    return {
        "failure": "",
        "events": store.count(name),
        "bytes": store.size(name),
        "first": store.first_sequence(name),
        "last": store.last_sequence(name),
        "load": topic.load,
        "ready": topic.replication.is_ready,
        "replicas": {
            peer.id.hex(): {"address": str(peer.contact), "here": peer.id in live}
            for peer in table.peers.values()
        },
        "subscribers": {
            entity.name: {"sync": entity.sync, "done": entity.done, "here": entity.is_served}
            for entity in topic.entities.all.values()
        },
    }
