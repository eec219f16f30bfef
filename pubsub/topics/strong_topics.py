"""The strong topics of a node: runs Topic Membership and Topic Reliable Broadcast on its runtime.

    topics = StrongTopics(runtime, directory)
    strong = await topics.join("/EPFL/DSC", lambda delivery: print(delivery.payload))
    await strong.broadcast(b"hello")
    await topics.close()

Participants are found in the directory, under a name of their own beside the topic's CAMCAST community."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, Unpack

from overlay.contact import Contact, PeerId
from overlay.entropy import entropy
from overlay.errors import ClosedError, UsageError
from overlay.futures import Futures
from overlay.membership.gateways import Gateways
from overlay.membership.interface import TopicDirectory
from overlay.runtime import Runtime
from overlay.topic_name import check_topic_name
from pubsub.reliable.journal import opened
from pubsub.reliable.tasks import Tasks
from pubsub.topics.config import TopicConfig
from pubsub.topics.delivering import Order
from pubsub.topics.log import SqliteTopicLog, TopicLog
from pubsub.topics.membership import TopicMembership
from pubsub.topics.messages import MOST_FILTER, Absent, Aside, Cast, JoinTopic, Knowledge, Received
from pubsub.topics.strong_topic import Handlers, OnDeliver, StrongTopic

MESSAGES = (JoinTopic, Knowledge, Absent, Cast, Received, Aside)

SPONSOR_SECONDS = 2.0
"""How long one that wants to subscribe waits for a sponsor before it asks another."""

SPONSORS_ASKED = 4
"""It begins alone when this many have not answered: the directory remembers those who crashed for a while."""

STRANGERS_SECONDS = (0.5, 30.0)
"""Participants look for others that they do not know after the first time, then twice that, and so on up to
the second: they may have begun apart from each other."""


class StrongTopics:
    """Every strong topic of one node; there is one such object a runtime, for as long as that runs.

    A node should have it even if it takes part in nothing: should others take it for a participant, which it
    was before it crashed, it tells them that it is none.
    """

    def __init__(self, runtime: Runtime, directory: TopicDirectory | None = None) -> None:
        """Without a directory, participants are told of each other by `join(known=...)` alone."""
        self._runtime = runtime
        self._directory = directory
        self._topics: dict[str, StrongTopic] = {}
        self.has_lost_right: Callable[[PeerId, str], bool] = lambda peer, topic: False
        """Whether a peer may take part in a topic no more: it is then taken for one that has left."""
        self._tasks = Tasks("strong topics", runtime.metrics)
        self._futures = Futures("the node is closed")
        self._closed = False
        self._dropped = runtime.metrics.family(
            "strong_dropped", "reason", "Messages of strong topics that were not taken"
        )
        self._counts = runtime.metrics.family(
            "strong_broadcast",
            "what",
            "Messages of strong topics: taken, duplicates, forwarded, refused for want of room, wrong; "
            "participants expelled; failures of the disk (unsynced)",
        ).values
        runtime.metrics.gauge(
            "strong_held", "Messages held for participants that may lack them", self._held
        )
        for kind in MESSAGES:
            runtime.on(kind, self._receive)
        self._end_watch = runtime.failure.subscribe(
            partial(self._tell_all, TopicMembership.closed),
            partial(self._tell_all, TopicMembership.opened),
        )
        runtime.channels.on_restart(
            lambda peer, event: self._tell_all(TopicMembership.doubted, peer)
        )

    async def join(
        self,
        topic: str,
        on_deliver: OnDeliver,
        *,
        filter: str = "",
        order: Order = "none",
        log: str | Path | None = None,
        config: TopicConfig | None = None,
        known: tuple[Contact, ...] = (),
        **handlers: Unpack[Handlers],
    ) -> StrongTopic:
        """Take part in a topic: subscribe through a participant that the directory names, or begin it.

        `on_deliver` gets each message; if it returns an awaitable, the next message waits for it, and the
        message is acknowledged after it. `filter` is text that all participants see. `log` is a file that
        is this participant's alone: with it, a restart under the same identity continues where it was.
        `known`: participants to try before the directory. One that gives up joining has left.
        """
        self._check(topic, filter, order)
        me = self._runtime.contact.id
        opened_log = TopicLog()
        if log is not None:
            opened_log = await opened(lambda: SqliteTopicLog(log, topic, me, self._disk_failed))
        strong = None
        try:
            self._check(topic, filter, order)  # once more: the disk may have taken its time
            strong = self._topics[topic] = StrongTopic(
                topic,
                self._runtime,
                on_deliver,
                handlers,
                config or TopicConfig(),
                opened_log,
                filter=filter,
                order=order,
                counts=self._counts,
                has_lost_right=lambda peer: self.has_lost_right(peer, topic),
                on_left=self._forget,
            )
            await self._subscribe(strong, known)
        except BaseException:
            if strong is not None:
                self._topics.pop(topic, None)
                strong.abandon()
            await opened_log.close()
            raise
        if self._directory is not None:
            self._directory.announce(self._name(topic))
            search = self._look_for_strangers(strong)
            self._tasks.start("search for strangers", search, vital=False)
        return strong

    def expel_those_without_right(self) -> None:
        """Rights were taken back, or may have ended: those who lost theirs are sent nothing more."""
        for strong in list(self._topics.values()):
            strong.expel_those_without_right()

    def get(self, topic: str) -> StrongTopic | None:
        """The topic, if this node takes part in it."""
        return self._topics.get(topic)

    async def close(self) -> None:
        """Leave every topic; more than once is fine. What others still send is counted and dropped."""
        if self._closed:
            return
        self._closed = True
        await asyncio.gather(*(strong.leave() for strong in list(self._topics.values())))
        await self._tasks.close()
        self._end_watch()

    def _check(self, topic: str, filter: str, order: str) -> None:
        check_topic_name(topic)
        if self._closed:
            raise ClosedError("the strong topics of this node are closed")
        if topic in self._topics:
            raise UsageError(f"this node takes part in {topic} already: use what join() gave")
        if len(filter) > MOST_FILTER:
            raise UsageError(f"the filter has {len(filter)} characters, {MOST_FILTER} is the most")
        if order not in ("none", "fifo"):
            raise UsageError(f'order is "none" or "fifo", not {order!r}')

    # Finding others.

    async def _subscribe(self, strong: StrongTopic, known: tuple[Contact, ...]) -> None:
        core = strong.core
        if core.can_rejoin:
            core.start()
        try:
            await self._ask_sponsors(strong, known)
        except BaseException:
            core.leave()  # those who were asked may have announced it
            raise
        if strong.is_closed:
            raise ClosedError(f"{strong.topic} was left before this node had joined it")
        if not core.membership.is_joined:
            core.start()

    async def _ask_sponsors(self, strong: StrongTopic, known: tuple[Contact, ...]) -> None:
        membership = strong.core.membership
        asked: dict[PeerId, None] = {}
        for attempt in range(SPONSORS_ASKED):
            if membership.is_joined:
                break
            found = list(known) if attempt == 0 and known else await self._find(strong.topic, 4)
            if not found or membership.is_joined:  # an answer may have come meanwhile
                break
            sponsor = entropy().choice([c for c in found if c.id not in asked] or found)
            asked[sponsor.id] = None
            strong.unanswered[sponsor.id] = None
            membership.subscribe(sponsor)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(SPONSOR_SECONDS):
                    await strong.joined_event.wait()

    async def _look_for_strangers(self, strong: StrongTopic) -> None:
        wait, longest = STRANGERS_SECONDS
        while not strong.is_closed:
            await asyncio.sleep(wait * entropy().uniform(0.7, 1.3))
            strong.expel_those_without_right()
            for contact in await self._find(strong.topic, 4):
                if not strong.is_closed:
                    strong.core.membership.meet(contact)
            wait = min(2 * wait, longest)

    async def _find(self, topic: str, count: int) -> list[Contact]:
        if self._directory is None:
            return []
        directory, name = self._directory, self._name(topic)
        contacts: tuple[Contact, ...] = await self._futures.answer(
            lambda give: directory.contacts(name, count, give)
        )
        return [contact for contact in contacts if contact.id != self._runtime.contact.id]

    def _name(self, topic: str) -> str:
        """Under which name participants are found; gateways are configured by topic."""
        return topic if isinstance(self._directory, Gateways) else f"strong {topic}"

    def _forget(self, strong: StrongTopic) -> None:
        if self._topics.get(strong.topic) is strong:
            del self._topics[strong.topic]
            if self._directory is not None:
                self._directory.withdraw(self._name(strong.topic))

    # What comes from below.

    def _receive(self, sender: Contact, message: Any) -> None:
        strong = self._topics.get(message.topic)
        if strong is None or strong.is_closed:
            self._dropped.add("not_in_topic")
            if not self._closed and not isinstance(message, Absent):
                self._runtime.send_datagram(sender, Absent(message.topic))
        elif not strong.core.membership.is_joined and not isinstance(message, Knowledge | Absent):
            if not strong.keep_early(sender, message):
                self._dropped.add("not_joined")
        else:
            strong.receive(sender, message)

    def _tell_all(self, hint: Callable[[TopicMembership, PeerId], None], peer: Contact) -> None:
        for strong in list(self._topics.values()):
            hint(strong.core.membership, peer.id)

    def _disk_failed(self, error: Exception) -> None:
        """A log cannot be written: nothing is lost, and nothing acknowledged or sent, until it can."""
        self._counts["unsynced"] = self._counts.get("unsynced", 0) + 1

    def _held(self) -> float:
        return sum(strong.core.held for strong in self._topics.values())
