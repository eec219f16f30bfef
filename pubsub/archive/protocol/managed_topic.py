"""One topic that an archive manages (section 4): discovery, archival negotiation, and all that hangs on it.

Promised: an event is acknowledged to its publisher, shown to a subscriber, or told to a replica only when
it is on stable storage; each stream is stored in order, without gaps, each event once.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from typing import Any

from overlay.bounded import remember
from overlay.contact import Contact
from overlay.context import OneTimer
from pubsub.archive.protocol.archived_event import ReadEvent, Row, id_of
from pubsub.archive.protocol.covering import Covering
from pubsub.archive.protocol.dissemination import Matching
from pubsub.archive.protocol.entities import Entities
from pubsub.archive.protocol.entity_exchange import EntityExchange
from pubsub.archive.protocol.forgetting import Forgetting
from pubsub.archive.protocol.frontier import (
    STREAM_BYTES,
    ComparedFrontier,
    Intake,
    begin_of,
    is_fork,
    publisher_of,
)
from pubsub.archive.protocol.inventory import Inventory, NewEvent
from pubsub.archive.protocol.messages import (
    Companion,
    Discover,
    EntityUpdates,
    Invoice,
    Negotiation,
    Offer,
    Register,
    ReplicaInfo,
    ReplicaInvoice,
    ReplicaParts,
    ReplicaSummary,
    StoredEvents,
)
from pubsub.archive.protocol.reading import AskEvents, AskLast, AskStreams, Reading
from pubsub.archive.protocol.repair import Repair
from pubsub.archive.protocol.replica_table import ReplicaTable
from pubsub.archive.protocol.replication import Replication
from pubsub.archive.protocol.world import LARGEST_NUMBER, ArchiveWorld
from pubsub.archive.store.changes import Catenate, Change, StoredEvent
from pubsub.archive.store.retention import Plan, Retention, Scan
from pubsub.archive.store.store import Store
from pubsub.event import ID_BYTES, MOST_EVENTS

LOAD_SECONDS = 5.0
"""The load is a mean over about this many seconds."""

LOOK = 5
"""Heartbeats after which events that an absent subscriber did not select are passed over. Each time costs a
change in the store, for every absent subscriber."""

MOST_COMPANIONS = 10_000
"""Publishers whose addresses are remembered; the one silent for longest is forgotten."""


class ManagedTopic:
    """The archive's side of a topic; a core."""

    def __init__(self, world: ArchiveWorld, on_ready: Callable[[], None] = lambda: None) -> None:
        """`on_ready`: publishers and subscribers may be told of this archive."""
        self.world = world
        self.on_ready = on_ready
        self.topic = world.topic
        self.inventory = Inventory(world)
        self.here = ComparedFrontier(world.store.catenations(world.topic).items())
        """The events that are on stable storage here."""
        self.reading = Reading(world, self.here)
        self.intake: Intake[NewEvent] = Intake(
            self.here,
            lambda count: world.count_drop("early_event", count),
            lambda new: len(new.event.encoded),
        )
        table = ReplicaTable(world)
        self.exchange = EntityExchange(world, self.inventory, self.here, table)
        self.entities = Entities(
            world, self.inventory, self.here, table, self.exchange.changed, self.exchange.removed
        )
        self.covering = Covering(world, self.inventory, self.here, self.entities)
        self.exchange.entities, self.exchange.covering = self.entities, self.covering
        self.forgetting = Forgetting(world, self.here, table, self._forget_streams)
        self.replication = Replication(
            world,
            self.inventory,
            self.here,
            table,
            self.exchange,
            Repair(world, self.inventory, table, self.entities, self._ask_publishers),
            self.forgetting,
            self,
        )
        self._lookups = 0
        """Batches of events that are looked up, to see which are here in another stream."""
        self._scan = Scan()
        self._is_forgetting = False
        self._staged: dict[bytes, None] = {}
        """Ids of events that are being stored."""
        self._publishers: dict[bytes, tuple[Contact, int]] = {}
        """By stream: its publisher, and the number before its first event. The silent come first."""
        self._to_answer: dict[bytes, tuple[int, int] | None] = {}
        self._fresh = False
        self._flush_timer = OneTimer(world.context.call_later, self._flush)
        self._notify_timer = OneTimer(world.context.call_later, self.entities.notify)
        self._settle_timer = OneTimer(world.context.call_later, self._settle)
        self._heartbeats = 0
        self._load = 0.0
        self._load_at = world.context.now()
        self._load_count = 0

    def start(self, alone: bool) -> None:
        """`alone`: as far as anybody knows, there is no other replica."""
        self.forgetting.start()
        self.intake.forget(self.forgetting.floor)
        self.replication.start(alone)
        self._settle()

    def forget_old(self, retention: Retention) -> None:
        """Remove what the retention allows to: nothing that a registered entity waits for, or has yet to read
        from before its registration; unless the retention says so, and then they are told.

        A part of the inventory is looked at each time."""
        if self._is_forgetting:
            return
        self._is_forgetting = True
        topic, now, scan = self.topic, self.world.clock(), self._scan
        unread = tuple(self.entities.unread())

        def plan(store: Store) -> Plan:
            return scan.plan(store, topic, retention, now, unread)

        def planned(plan: Plan) -> None:
            self._is_forgetting = False
            self._scan = plan.next
            if plan.gone:
                self.entities.forget_old(plan)

        self.world.read(plan, planned)

    def _forget_streams(self, floor: int) -> list[Change]:
        """Streams that began before this time are forgotten everywhere; the changes that this takes."""
        self.intake.forget(floor)
        self.entities.forget_streams(floor)
        for peer in self.replication.table.peers.values():
            for stream in [one for one, _ in peer.frontier if begin_of(one) < floor]:
                peer.frontier.drop(stream)
            for lacking in (peer.lacking, peer.ahead):
                for stream in [one for one in lacking if begin_of(one) < floor]:
                    del lacking[stream]
        for stream in [one for one in self._publishers if begin_of(one) < floor]:
            del self._publishers[stream]
        return self.inventory.resent.forget(floor)

    def farewell(self, tell_replicas: bool = True) -> None:
        """Send publishers and subscribers to another archive; nothing is acknowledged any more.

        `tell_replicas`: also tell other replicas how far applications are, which needs the store."""
        self.replication.is_ready = False
        self._send_away(tell_replicas)

    def leave(self, left: Callable[[], None]) -> None:
        """Send publishers and subscribers to another archive, and call `left` once one has everything."""
        self.replication.leave(left)
        if not self.replication.has_left:
            self._send_away()

    def stay(self) -> None:
        """Do not leave after all: serve all who come."""
        self.replication.leave(None)
        self.entities.is_open = True

    def _send_away(self, tell_replicas: bool = True) -> None:
        try:
            if tell_replicas:
                self.exchange.flush()
        finally:
            self.entities.farewell()
            for stream, (publisher, _) in self._publishers.items():
                self._send_elsewhere(publisher, stream)
            self._publishers.clear()

    def _send_elsewhere(self, publisher: Contact, stream: bytes) -> None:
        self.world.context.send(publisher, Negotiation(self.topic, stream))

    def close(self) -> None:
        self._flush_timer.close()
        self._notify_timer.close()
        self._settle_timer.close()
        self.exchange.close()
        self.forgetting.close()
        self.replication.close()

    def _settle(self) -> None:
        self._settle_timer.set(self.world.config.heartbeat)
        self._heartbeats += 1
        look = self._heartbeats % LOOK == 0
        for entity in list(self.entities.all.values()):
            self.covering.settle(entity, look=look)
        self.entities.tombstones.expire()
        self.entities.tend_shared()
        self.entities.forget_abandoned()

    def receive(self, sender: Contact, message: Any) -> None:
        """Take one of the messages in `RECEIVED`."""
        _HANDLERS[type(message)](self)(sender, message)

    # Discovery.

    @property
    def load(self) -> float:
        """Events stored and sent a second, of late."""
        now = self.world.context.now()
        count = self.inventory.stored + self.entities.notifier.sent
        passed = now - self._load_at
        if passed >= LOAD_SECONDS / 5:
            weight = min(passed / LOAD_SECONDS, 1.0)
            self._load += weight * ((count - self._load_count) / passed - self._load)
            self._load_at, self._load_count = now, count
        return self._load

    def receive_discover(self, sender: Contact, question: Discover) -> None:
        if not self.replication.serves:
            return
        offer = Offer(
            self.topic,
            question.nonce,
            self.world.replica,
            self.load,
            self._last_catenation(question.publisher) if question.publisher else 0,
            int(self.world.clock()),
        )
        self.world.context.send(sender, offer)

    def _last_catenation(self, publisher: bytes) -> int:
        """The highest catenation number of this publisher, over all its runs that are remembered."""
        marks = map(self.intake.last, self.here.streams_of(publisher))
        return max(marks, default=0)

    # Archival negotiation.

    def receive_companion(self, sender: Contact, companion: Companion) -> None:
        stream = companion.stream
        if len(stream) != STREAM_BYTES or publisher_of(stream) != sender.id:
            self.world.count_drop("foreign_stream")
            return
        if not 0 <= companion.base < companion.first < LARGEST_NUMBER:
            self.world.count_drop("malformed_companion")
            return
        if not self.entities.is_open:
            self._send_elsewhere(sender, stream)
            return
        if self.forgetting.refuses(stream):
            again = Negotiation(self.topic, stream, begin=int(self.world.clock()))
            self.world.context.send(sender, again)
            return
        events: list[ReadEvent] = []
        for block in companion.blocks:
            in_block = self.world.events_in(stream, block)
            if not in_block:
                return
            events += in_block
        remember(self._publishers, stream, (sender, companion.base), MOST_COMPANIONS)
        self.replication.repair.receive_from_publisher(stream, companion.first, events)
        now = self.world.clock()
        new = [NewEvent(stream, at, event, now) for at, event in enumerate(events, companion.first)]
        accepted = self.intake.accept(stream, companion.base, companion.first, new)
        if accepted.events:
            last = accepted.first + len(accepted.events) - 1
            self.inventory.resent.add(stream, accepted.first, min(last, companion.resent))
            self._store([*accepted.events], origin=True)
        if accepted.missing is not None or not accepted.events:
            self._answer(stream, accepted.missing)

    def _ask_publishers(self, ids: tuple[bytes, ...]) -> None:
        """Have those publishers who still keep events with these ids send them again."""
        replicas = len(self.replication.table) + 1
        for stream, (publisher, _) in self._publishers.items():
            again = Negotiation(self.topic, stream, replicas=replicas, wanted=ids)
            self.world.context.send(publisher, again)

    def take(self, replica: bytes, rows: Iterable[Row]) -> None:
        """Events from another replica: what is next in its stream is stored, what is missing asked for."""
        new: list[NewEvent] = []
        behind: dict[bytes, int] = {}
        streams: dict[bytes, None] = {}
        for stream, base, catenation, time, encoded, resent in rows:
            if not self._is_well_formed(stream, base, catenation, encoded):
                continue
            events = self.world.events_in(stream, encoded)
            if not events:
                continue
            streams[stream] = None
            skipped = self.intake.skip_to(stream, base)
            last = catenation + len(events) - 1
            if resent and not self.intake.covers(stream, last):
                self.inventory.resent.add(
                    stream, max(catenation, self.intake.last(stream) + 1), last
                )
            # What has to wait keeps its own time: new durable names begin by it.
            came = [
                NewEvent(stream, at, event, time) for at, event in enumerate(events, catenation)
            ]
            accepted = self.intake.accept(stream, base, catenation, came)
            new += (*skipped.events, *accepted.events)
            if accepted.missing is not None:
                behind[stream] = accepted.missing[0] - 1
            else:
                behind.pop(stream, None)
        if new:
            self._store(new, origin=False)
        else:
            self.replication.acknowledge(replica, streams)
        for stream, have in behind.items():
            self.replication.missing(replica, stream, have)

    def skip(self, stream: bytes, mark: int) -> None:
        """Another replica, which has a stream up to this number, has no event of it that is lacking here."""
        if (
            self._lookups  # what came before is not stored yet
            or len(stream) != STREAM_BYTES
            or self.intake.covers(stream, mark)
        ):
            return
        released = self.intake.skip_to(stream, mark)

        def skipped() -> None:
            self.here.raise_to(stream, mark)
            self.forgetting.touched(stream)
            self.replication.skipped(stream, mark)

        self.world.commit([Catenate(self.topic, stream, mark)], skipped)
        self._store([*released.events], origin=True)

    def _is_well_formed(self, stream: bytes, base: int, catenation: int, encoded: bytes) -> bool:
        """Whether another replica's event can be what it says; counted otherwise."""
        well_formed = (
            len(stream) == STREAM_BYTES
            and 0 <= base < catenation < LARGEST_NUMBER - MOST_EVENTS
            and len(id_of(encoded)) == ID_BYTES
        )
        if not well_formed:
            self.world.count_drop("malformed_stored_event")
        return well_formed

    def _store(self, new: list[NewEvent], *, origin: bool) -> None:
        """Store events that are next in their streams; each once, though it may come in two streams."""
        doubtful = [one.event.id for one in new if self._may_be_here(one.stream)]
        if not doubtful and not self._lookups:
            self._store_new(new, (), origin)
            return
        self._lookups += 1  # what comes after them waits behind them
        topic = self.topic

        def known(found: dict[bytes, int]) -> None:
            self._lookups -= 1
            self._store_new(new, found, origin)

        self.world.read(lambda store: store.sequences(topic, doubtful), known)

    def _may_be_here(self, stream: bytes) -> bool:
        """Whether an event that comes in a stream may be here in another one of its run."""
        return is_fork(stream) or self.here.is_forked(publisher_of(stream))

    def _store_new(self, came: list[NewEvent], known: Collection[bytes], origin: bool) -> None:
        new: list[NewEvent] = []
        skipped: list[NewEvent] = []
        for one in came:  # one by one: an event may come twice in one message
            if one.event.id in known or one.event.id in self._staged:
                skipped.append(one)
            else:
                new.append(one)
                self._staged[one.event.id] = None
        passed = [Catenate(self.topic, one.stream, one.catenation) for one in skipped]

        def stored(events: list[StoredEvent]) -> None:
            for one in skipped:
                self.here.raise_to(one.stream, one.catenation)
                self.forgetting.touched(one.stream)
                self._to_answer.setdefault(one.stream, None)
            self._stored(events, origin)

        if new or skipped:
            destinations = Matching(self.entities.all).destinations
            self.inventory.store(new, destinations, passed, stored)

    def _stored(self, events: list[StoredEvent], origin: bool) -> None:
        last: dict[bytes, int] = {}
        for event in events:
            self._staged.pop(event.id, None)
            last[event.publisher] = event.catenation  # they come in order
        for stream, catenation in last.items():
            self.here.raise_to(stream, catenation)
            self.forgetting.touched(stream)
            self._to_answer.setdefault(stream, None)
        known = self._publishers
        bases = {stream: known[stream][1] for stream in last if stream in known}
        self.replication.stored(events, bases, origin)
        self._fresh = True
        self._flush_timer.set(0)

    def safer(self, streams: Iterable[bytes]) -> None:
        """These streams are safe on more replicas than before."""
        for stream in streams:
            if stream in self._publishers:
                self._answer(stream, None)

    def _answer(self, stream: bytes, missing: tuple[int, int] | None) -> None:
        self._to_answer[stream] = missing or self._to_answer.get(stream)
        self._flush_timer.set(0)

    def _flush(self) -> None:
        """Answer publishers, once for all that became safe together, and notify subscribers when the answers
        have left: publishers send on meanwhile."""
        answers, self._to_answer = self._to_answer, {}
        for stream, missing in answers.items():
            if stream in self._publishers:
                self._negotiate(self._publishers[stream][0], stream, missing)
        if self._fresh:
            self._fresh = False
            self._notify_timer.set(0)

    def _negotiate(
        self, publisher: Contact, stream: bytes, missing: tuple[int, int] | None
    ) -> None:
        safe = self.replication.table.safe(stream, self.here.get(stream))
        spans = () if missing is None else (missing,)
        answer = Negotiation(self.topic, stream, safe, len(safe), spans)
        self.world.context.send(publisher, answer)


_HANDLERS: dict[type, Callable[[ManagedTopic], Callable[[Contact, Any], None]]] = {
    Discover: lambda topic: topic.receive_discover,
    Companion: lambda topic: topic.receive_companion,
    Register: lambda topic: topic.entities.receive_register,
    Invoice: lambda topic: topic.entities.receive_invoice,
    StoredEvents: lambda topic: topic.replication.receive_events,
    ReplicaInvoice: lambda topic: topic.replication.receive_invoice,
    ReplicaSummary: lambda topic: topic.replication.receive_summary,
    ReplicaParts: lambda topic: topic.replication.receive_parts,
    ReplicaInfo: lambda topic: topic.replication.receive_info,
    EntityUpdates: lambda topic: topic.exchange.receive,
    AskStreams: lambda topic: topic.reading.receive_streams,
    AskEvents: lambda topic: topic.reading.receive_events,
    AskLast: lambda topic: topic.reading.receive_last,
}

RECEIVED = tuple(_HANDLERS)
"""The messages that `ManagedTopic.receive` takes."""
