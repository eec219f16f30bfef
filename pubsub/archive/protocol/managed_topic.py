"""One topic that an archive manages (section 4): discovery, archival negotiation, and all that hangs on it.

Promised: an event is acknowledged to its publisher, shown to a subscriber, or told to a replica only when
it is on stable storage; each stream is stored in order, without gaps, each event once.
"""

from __future__ import annotations

from collections.abc import Sequence

from overlay.contact import Contact
from overlay.context import Timer
from overlay.wire import WireError
from pubsub.archive.protocol.archived_event import ReadEvent, read_event
from pubsub.archive.protocol.dissemination import Dissemination
from pubsub.archive.protocol.entities import Entities
from pubsub.archive.protocol.frontier import STREAM_BYTES, Frontier, publisher_of
from pubsub.archive.protocol.intake import Intake
from pubsub.archive.protocol.inventory import Inventory, NewEvent
from pubsub.archive.protocol.messages import Companion, Discover, Negotiation, Offer
from pubsub.archive.protocol.world import ArchiveWorld
from pubsub.archive.store.changes import StoredEvent

LOAD_SECONDS = 5.0
"""The load is a mean over about so long."""

MOST_COMPANIONS = 10_000
"""Publishers whose addresses are remembered; the one silent for longest is forgotten."""


class ManagedTopic:
    """The archive's side of a topic; a core."""

    def __init__(self, world: ArchiveWorld) -> None:
        self.world = world
        self.topic = world.topic
        self.inventory = Inventory(world)
        self.here = Frontier(world.store.catenations(world.topic).items())
        """The events that are on stable storage here."""
        self.intake = Intake(self.here)
        self.entities = Entities(world, self.inventory, self._entity_changed)
        self._publishers: dict[bytes, Contact] = {}
        self._to_answer: dict[bytes, tuple[int, int] | None] = {}
        self._fresh = False
        self._flush_timer: Timer | None = None
        self._load = 0.0
        self._load_at = world.context.now()
        self._load_count = 0

    def close(self) -> None:
        if self._flush_timer is not None:
            self._flush_timer.cancel()

    # Discovery.

    @property
    def load(self) -> float:
        """Events stored and sent a second, of late."""
        now = self.world.context.now()
        count = self.inventory.stored + self.entities.sent
        passed = now - self._load_at
        if passed >= LOAD_SECONDS / 5:
            weight = min(passed / LOAD_SECONDS, 1.0)
            self._load += weight * ((count - self._load_count) / passed - self._load)
            self._load_at, self._load_count = now, count
        return self._load

    def receive_discover(self, sender: Contact, question: Discover) -> None:
        offer = Offer(
            self.topic,
            question.nonce,
            self.world.replica,
            self.load,
            self._last_catenation(question.publisher) if question.publisher else 0,
        )
        self.world.context.send(sender, offer)

    def _last_catenation(self, publisher: bytes) -> int:
        """Of this publisher over all its lives."""
        marks = (mark for stream, mark in self.intake.taken if publisher_of(stream) == publisher)
        return max(marks, default=0)

    # Archival negotiation.

    def receive_companion(self, sender: Contact, companion: Companion) -> None:
        stream = companion.stream
        if len(stream) != STREAM_BYTES or publisher_of(stream) != sender.id:
            self.world.count_drop("foreign_stream")
            return
        if companion.base < 0 or companion.first <= companion.base:
            self.world.count_drop("malformed_companion")
            return
        self._publishers.pop(stream, None)
        self._publishers[stream] = sender
        if len(self._publishers) > MOST_COMPANIONS:
            del self._publishers[next(iter(self._publishers))]
        accepted = self.intake.accept(stream, companion.base, companion.first, companion.events)
        if accepted.events:
            self._archive(stream, accepted.first, accepted.events)
        if accepted.missing is not None or not accepted.events:
            self._answer(stream, accepted.missing)

    def _archive(self, stream: bytes, first: int, events: Sequence[bytes]) -> None:
        now = self.world.clock()
        new = []
        for catenation, encoded in enumerate(events, first):
            event = self._read(stream, encoded)
            if event is not None:
                new.append(NewEvent(stream, catenation, event, now))
        self.store(new)

    def _read(self, stream: bytes, encoded: bytes) -> ReadEvent | None:
        """None, and counted, for what no honest publisher sends."""
        try:
            event = read_event(encoded, self.topic)
        except WireError as error:
            self.world.count_drop(error.reason)
            return None
        if event.body.publisher != publisher_of(stream):
            self.world.count_drop("foreign_event")
            return None
        return event

    def store(self, new: list[NewEvent]) -> None:
        """Store events that are next in their streams."""
        if new:
            self.inventory.store(new, self.entities.destinations, (), self._stored)

    def _stored(self, events: list[StoredEvent]) -> None:
        for event in events:
            self.here.raise_to(event.publisher, event.catenation)
            self._to_answer.setdefault(event.publisher, None)
        self._fresh = True
        self._flush_soon()

    def _answer(self, stream: bytes, missing: tuple[int, int] | None) -> None:
        self._to_answer[stream] = missing or self._to_answer.get(stream)
        self._flush_soon()

    def _flush_soon(self) -> None:
        if self._flush_timer is None:
            self._flush_timer = self.world.context.call_later(0, self._flush)

    def _flush(self) -> None:
        """Answer publishers and notify subscribers, once for all that became safe together."""
        self._flush_timer = None
        answers, self._to_answer = self._to_answer, {}
        for stream, missing in answers.items():
            publisher = self._publishers.get(stream)
            if publisher is not None:
                self._negotiate(publisher, stream, missing)
        if self._fresh:
            self._fresh = False
            self.entities.notify()

    def _negotiate(
        self, publisher: Contact, stream: bytes, missing: tuple[int, int] | None
    ) -> None:
        answer = Negotiation(
            self.topic,
            stream,
            self.safe(stream),
            len(self.safe(stream)),
            () if missing is None else (missing,),
        )
        self.world.context.send(publisher, answer)

    def safe(self, stream: bytes) -> tuple[int, ...]:
        """How far the stream is safe on one replica, on two, and so on."""
        return (self.here.get(stream),)

    def _entity_changed(self, entity: Dissemination, gone: bool) -> None:
        pass
