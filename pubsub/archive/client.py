"""A node's use of archives: finds them, and hands their messages to its durable publishers and subscribers.

A subscription also watches whether its topic has got a nearer archive than the one in use (`NearerWatch`);
publishers go on to a nearer one by themselves.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial

from overlay.contact import Contact, PeerId
from overlay.context import OneTimer
from overlay.futures import Futures
from overlay.membership.interface import TopicDirectory
from overlay.runtime import Runtime
from pubsub.archive import rules
from pubsub.archive.errors import NoArchiveFound
from pubsub.archive.protocol.config import DurableConfig
from pubsub.archive.protocol.finder import MOST_ASKED, Finder, FoundArchive, archives_of
from pubsub.archive.protocol.messages import AckResponse, Negotiation, Notice, Offer
from pubsub.archive.protocol.publisher import DurablePublisher
from pubsub.archive.protocol.subscriber import DurableSubscriber
from pubsub.gate import Gate
from pubsub.reliable.receipts import Budget
from pubsub.topic import Topic


def managed_topics(topic: Topic) -> tuple[str, ...]:
    """The topics of which an archive may manage this one: itself and its super-topics, the nearest first."""
    return (topic.name, *(above.name for above in topic.ancestors()))


def none_found(topic: Topic, budget: Budget) -> NoArchiveFound:
    return NoArchiveFound(
        f"no archive of {topic} or a super-topic has answered within {budget.seconds:g} s: start one with "
        f"`camcast archive --topic {topic}`, or wait longer"
    )


NEARER_SECONDS = 10.0
"""A client of a super-topic's archive looks for a nearer archive every this many seconds."""


class DurableClient:
    """A node's use of archives; each node that publishes or subscribes durably has one."""

    def __init__(
        self,
        runtime: Runtime,
        directory: TopicDirectory,
        manages: Callable[[str], bool],
        config: DurableConfig,
        gate: Gate | None = None,
    ) -> None:
        """`manages`: whether this very node manages a topic, which the directory does not tell it; `gate`:
        what asks archives for their rights."""
        if gate is not None:
            gate.require(rules.OF_CLIENTS)
        self.runtime = runtime
        self.config = config
        self._directory = directory
        self._manages = manages
        self._finders: dict[Finder, None] = {}
        self._searches: dict[DurablePublisher | DurableSubscriber, Finder] = {}
        """The last search for each of them."""
        self._last_used: dict[DurablePublisher | DurableSubscriber, PeerId] = {}
        """The archive that each was given last."""
        self._publishers: dict[str, DurablePublisher] = {}
        self._subscribers: dict[tuple[str, str], DurableSubscriber] = {}
        self._sought = Futures("the node was closed while an archive was sought")
        runtime.on(Offer, self._receive_offer)
        runtime.on(Negotiation, self._receive_negotiation)
        runtime.on(AckResponse, self._receive_response)
        runtime.on(Notice, self._receive_notice)

    def close(self) -> None:
        """Nothing of durable delivery runs any more; what was not safe is forgotten."""
        self._sought.close()
        for kind in (Offer, Negotiation, AckResponse, Notice):
            self.runtime.off(kind)
        for finder in self._finders:
            finder.stop()
        for publisher in self._publishers.values():
            publisher.close()
        for subscriber in self._subscribers.values():
            subscriber.close()

    # Finding archives.

    def search(
        self,
        topics: tuple[str, ...],
        publisher: bytes,
        found: Callable[[FoundArchive], None],
        avoid: PeerId | None = None,
        *,
        lowest: bool = False,
    ) -> Finder:
        """Look for an archive until there is one, or the search is stopped."""

        def done(result: FoundArchive) -> None:
            self._finders.pop(finder, None)
            found(result)

        finder = Finder(
            self.runtime.context("channel"),
            topics,
            publisher,
            self._lookup,
            self.config,
            done,
            avoid,
            lowest=lowest,
        )
        self._finders[finder] = None
        finder.start()
        return finder

    def stop(self, finder: Finder) -> None:
        finder.stop()
        self._finders.pop(finder, None)

    async def find(
        self, topic: Topic, publisher: bytes, budget: Budget, *, lowest: bool = False
    ) -> FoundArchive:
        """An archive of the topic or its nearest managed super-topic; `NoArchiveFound` when that takes too
        long."""
        finder: Finder | None = None

        def ask(found: Callable[[FoundArchive], None]) -> None:
            nonlocal finder
            finder = self.search(managed_topics(topic), publisher, found, lowest=lowest)

        try:
            async with asyncio.timeout(budget.left):
                return await self._sought.answer(ask)
        except TimeoutError:
            raise none_found(topic, budget) from None
        finally:
            if finder is not None:
                self.stop(finder)

    async def managers(self, topic: Topic) -> tuple[str, tuple[Contact, ...]]:
        """The nearest topic of which an archive manages this one, and its archives; none when the directory
        names none."""
        loop = asyncio.get_running_loop()
        answers: dict[str, asyncio.Future[tuple[Contact, ...]]] = {}
        for name in managed_topics(topic):
            answer = answers[name] = loop.create_future()
            self._lookup(name, partial(_answer_once, answer))
        for name, answer in answers.items():
            if contacts := await answer:
                return name, contacts
        return "", ()

    def look_nearer(
        self, topic: Topic, managed: str, publisher: bytes, found: Callable[[FoundArchive], None]
    ) -> None:
        """Look once whether there is an archive of a topic nearer to this one than `managed` by now."""
        topics = managed_topics(topic)
        nearer = topics[: topics.index(managed)]
        searching = False

        def named(contacts: tuple[Contact, ...]) -> None:
            nonlocal searching
            if contacts and not searching and not self._sought.is_closed:
                searching = True
                finder = self.search(nearer, publisher, found)
                context = self.runtime.context("channel")
                context.call_later(self.config.patience, partial(self.stop, finder))

        for one in nearer:
            self._lookup(one, named)

    def _lookup(self, topic: str, found: Callable[[tuple[Contact, ...]], None]) -> None:
        here = (self.runtime.contact,) if self._manages(topic) else ()
        self._directory.contacts(
            archives_of(topic), MOST_ASKED, lambda others: found((*here, *others))
        )

    def _receive_offer(self, sender: Contact, offer: Offer) -> None:
        for finder in list(self._finders):
            finder.receive(sender, offer)

    # Publishers and subscribers, by managed topic.

    def add_publisher(self, publisher: DurablePublisher) -> None:
        self._sought.check_open()
        self._publishers[publisher.topic] = publisher

    def use(self, core: DurablePublisher | DurableSubscriber, found: FoundArchive) -> None:
        """Have a publisher or subscriber talk to an archive that was found."""
        self._last_used[core] = found.archive.id
        if isinstance(core, DurablePublisher):
            core.use(found.archive, found.replica, found.catenation, found.time)
        else:
            core.use(found.archive)

    def search_for(self, core: DurablePublisher | DurableSubscriber) -> None:
        """Find a publisher or subscriber another archive of its topic.

        The archive that was used last does not serve, though it may answer: it is avoided, and taken again
        only where no other one answers."""
        self._stop_search_for(core)
        topic, publisher, lowest = "", b"", False
        if isinstance(core, DurablePublisher):
            topic, publisher = core.topic, self.runtime.contact.id
        else:
            topic, lowest = core.subscribing.topic, core.shared
        avoid, use = self._last_used.get(core), partial(self.use, core)
        self._searches[core] = self.search((topic,), publisher, use, avoid, lowest=lowest)

    def _stop_search_for(self, core: DurablePublisher | DurableSubscriber) -> None:
        finder = self._searches.pop(core, None)
        if finder is not None:
            self.stop(finder)

    def add_subscriber(self, subscriber: DurableSubscriber) -> None:
        self._sought.check_open()
        asked = subscriber.subscribing
        self._subscribers[asked.topic, asked.entity] = subscriber

    def remove_subscriber(self, subscriber: DurableSubscriber) -> None:
        asked = subscriber.subscribing
        if self._subscribers.get((asked.topic, asked.entity)) is subscriber:
            del self._subscribers[asked.topic, asked.entity]
        self._stop_search_for(subscriber)
        self._last_used.pop(subscriber, None)
        subscriber.close()

    def has_subscriber(self, topic: str, entity: str) -> bool:
        return (topic, entity) in self._subscribers

    def _receive_negotiation(self, sender: Contact, negotiation: Negotiation) -> None:
        publisher = self._publishers.get(negotiation.topic)
        if publisher is not None:
            publisher.receive(sender, negotiation)

    def _receive_response(self, sender: Contact, response: AckResponse) -> None:
        subscriber = self._subscribers.get((response.topic, response.entity))
        if subscriber is not None:
            subscriber.receive_response(sender, response)

    def _receive_notice(self, sender: Contact, notice: Notice) -> None:
        subscriber = self._subscribers.get((notice.topic, notice.entity))
        if subscriber is not None:
            subscriber.receive_notice(sender, notice)


def _answer_once(
    answer: asyncio.Future[tuple[Contact, ...]], contacts: tuple[Contact, ...]
) -> None:
    if not answer.done():
        answer.set_result(contacts)


class NearerWatch:
    """Looks every few seconds until there is one, and tells once."""

    def __init__(
        self,
        client: DurableClient,
        topic: Topic,
        managed: str,
        found: Callable[[FoundArchive], None],
    ) -> None:
        """`managed`: the topic whose archive is in use for `topic`."""
        self._client = client
        self._topic = topic
        self._managed = managed
        self._found = found
        self._timer = OneTimer(client.runtime.context("channel").call_later, self._look)
        self._stopped = managed == topic.name
        self._wait()

    def stop(self) -> None:
        self._stopped = True
        self._timer.close()

    def _wait(self) -> None:
        if not self._stopped:
            self._timer.set(NEARER_SECONDS)

    def _look(self) -> None:
        self._client.look_nearer(self._topic, self._managed, b"", self._there)
        self._wait()

    def _there(self, found: FoundArchive) -> None:
        if not self._stopped:
            self.stop()
            self._found(found)
