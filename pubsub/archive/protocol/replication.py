"""Replicas of an archive (section 9): none is the first, and each decides for itself.

A replica that gets an event from its publisher stores it, then sends it to the others; each of them stores it
under a number of its own and tells all the others how far the stream is there (table 1: stored events,
invoices, replica information; entity updates are in `pubsub.archive.protocol.entity_exchange`). Losses show:
in a stream's numbers when its next event comes, and otherwise in the digest that every sign of life carries.
Then the one that may lack something sends the digests of all parts of its frontier, is told what there is in
those that differ, and asks for what it lacks, a window at a time.

A replica that is new, or was away, first catches up with the one that has most, and answers publishers and
subscribers only then; when nobody is there to catch up with, it serves with what it has. A replica that
leaves makes sure first that another one has everything.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from overlay.contact import Contact
from overlay.context import OneTimer
from pubsub.archive.protocol.archived_event import Row, join_rows, row_of
from pubsub.archive.protocol.entity_exchange import EntityExchange
from pubsub.archive.protocol.forgetting import Forgetting
from pubsub.archive.protocol.frontier import (
    Awaited,
    ComparedFrontier,
    Frontier,
    Marks,
    publisher_of,
)
from pubsub.archive.protocol.inventory import Inventory
from pubsub.archive.protocol.messages import (
    MARK_BYTES,
    ReplicaInfo,
    ReplicaInvoice,
    ReplicaParts,
    ReplicaSummary,
    StoredEvents,
    mark_size,
)
from pubsub.archive.protocol.repair import Repair
from pubsub.archive.protocol.replica_table import ReplicaPeer, ReplicaTable
from pubsub.archive.protocol.world import ArchiveWorld
from pubsub.archive.store.changes import StoredEvent
from pubsub.archive.store.store import Store
from pubsub.reliable.batches import batches
from pubsub.reliable.numbers import Span
from pubsub.reliable.runs import RUN_BYTES

if TYPE_CHECKING:
    from pubsub.archive.protocol.managed_topic import ManagedTopic

ROW_BYTES = 100
"""Bytes of a row of `StoredEvents` beside the event."""


class Replication:
    """What one replica of one topic says to the others, and makes of what they say; a core."""

    def __init__(
        self,
        world: ArchiveWorld,
        inventory: Inventory,
        here: ComparedFrontier,
        table: ReplicaTable,
        exchange: EntityExchange,
        repair: Repair,
        forgetting: Forgetting,
        topic: ManagedTopic,
    ) -> None:
        self._world = world
        self._inventory = inventory
        self._here = here
        self.table = table
        self._exchange = exchange
        self.repair = repair
        self._forgetting = forgetting
        self._topic = topic
        self.is_ready = False
        self.has_left = False
        self._leaving: Callable[[], None] | None = None
        self._owed: dict[bytes, tuple[Frontier, Awaited]] = {}
        """While this replica leaves, by replica: what it has, and what it is yet to have."""
        self._target: _Target | None = None
        self._started_at = 0.0
        self._timer = OneTimer(world.context.call_later, self._overdue)

    # Coming and going.

    def start(self, alone: bool) -> None:
        """`alone`: as far as anybody knows, there is no other replica."""
        self._started_at = self._world.context.now()
        if alone and not self.table.peers:
            self._become_ready()
        for peer in self.table.peers.values():
            self.greet(peer.contact)
        self._beat()

    def close(self) -> None:
        self._timer.close()

    def greet(self, contact: Contact) -> None:
        """Give a sign of life to a node that is, or may be, another replica."""
        if contact.id != self._world.context.contact.id and not self.has_left:
            peer = self.table.of(contact)
            self._world.context.send(contact, self.info("alive", peer))

    def info(self, kind: str, peer: ReplicaPeer | None = None) -> ReplicaInfo:
        """What this replica says of itself to another node, and if that is a replica, of that one's
        updates."""
        world = self._world
        return ReplicaInfo(
            world.topic,
            world.replica,
            kind,
            world.store.count(world.topic),
            self._here.digest(),
            self._exchange.number,
            self.serves,
            -1 if peer is None else peer.updates,
            self._forgetting.settled,
            self._forgetting.floor,
        )

    @property
    def serves(self) -> bool:
        """Whether publishers and subscribers may come here."""
        return self.is_ready and self._leaving is None

    def leave(self, left: Callable[[], None] | None) -> None:
        """Leave once another replica has everything, events and entities; `left` is called then. None: stay
        after all."""
        self._leaving = left
        self._owed = {}
        self._check_leaving()

    def forget_replica(self, replica: bytes) -> bool:
        """Another replica is gone for good: nothing is waited for from it any more. Whether it was known."""
        is_known = replica in self.table.peers
        self.table.forget(replica)
        return is_known

    def _beat(self) -> None:
        self._timer.set(self._world.config.heartbeat)

    def _overdue(self) -> None:
        if not self.has_left:
            self._beat()
        for peer in list(self.table.peers.values()):
            self.greet(peer.contact)
        self.repair.ask(self.is_ready)
        self._check_ready()
        self._check_leaving()
        for peer in self.table.live():
            # What should have come by now, from whoever got it of its publisher.
            peer.lacking.update(peer.ahead)
            peer.ahead = {}
            self._pull(peer)

    def _check_ready(self) -> None:
        """Ready when this replica has all that the one it catches up with had; or nobody is there."""
        if self.is_ready:
            return
        target = self._target
        if target is not None and target.is_known and target.marks.are_reached_by(self._here):
            self._become_ready()
            return
        live = list(self.table.live())
        waited = self._world.context.now() - self._started_at
        if not live and waited >= self._world.config.patience:
            self._become_ready()
        elif live:
            ready = [peer for peer in live if peer.is_ready]
            if not ready and waited >= 2 * self._world.config.patience:
                self._become_ready()
            else:
                self._catch_up(max(ready or live, key=lambda peer: (peer.count, peer.id)))

    def _catch_up(self, peer: ReplicaPeer) -> None:
        if self._target is None or not self._target.is_known:
            self._compare(peer)
        else:
            self._pull(peer)

    def _become_ready(self) -> None:
        self.is_ready = True
        self._target = None
        self._topic.on_ready()

    def _check_leaving(self) -> None:
        if self._leaving is None:
            return
        if any(self._can_replace(peer) for peer in self.table.live()):
            self.has_left, self.is_ready = True, False
            self._topic.farewell()
            for peer in self.table.peers.values():
                self._world.context.send(peer.contact, self.info("leaving", peer))
            self.close()
            left, self._leaving = self._leaving, None
            left()

    def _can_replace(self, peer: ReplicaPeer) -> bool:
        if not peer.is_ready:
            return False
        has, owed = self._owed.get(peer.id, (None, Awaited()))
        if has is not peer.frontier:
            owed = Awaited()
            owed.add(self._here)
            self._owed[peer.id] = (peer.frontier, owed)
        return owed.are_reached_by(peer.frontier) and self._exchange.is_told(peer)

    def _owe(self, marks: Iterable[tuple[bytes, int]]) -> None:
        """More is here than when this replica began to leave."""
        for _, owed in self._owed.values():
            owed.add(marks)

    # Signs of life.

    def receive_info(self, sender: Contact, info: ReplicaInfo) -> None:
        if info.replica == self._world.replica or self.has_left:
            return
        if not self.table.takes(info.replica):
            self._world.count_drop("too_many_replicas")
            return
        if info.kind == "leaving":
            self.table.forget(info.replica)
            return
        if self.table.has_just_left(info.replica):
            return
        peer, is_new = self.table.met(info.replica, sender)
        peer.count, peer.is_ready, peer.heard_updates = info.count, info.ready, info.heard
        peer.settled = info.settled
        if info.floor > peer.frontier.floor:
            peer.frontier.forget(info.floor)
        if is_new:
            self.greet(sender)
        if info.digest != self._here.digest():
            self._compare(peer)
        else:
            self._are_equal(peer, info)
        self._forgetting.advance()
        self._exchange.met(peer, info, is_new)
        self._check_leaving()

    def _are_equal(self, peer: ReplicaPeer, info: ReplicaInfo) -> None:
        peer.lacking.clear()
        if peer.equal != info.digest:
            peer.equal = info.digest
            self._learn(peer, self._here.marks())
        if not self.is_ready and info.ready:
            self._become_ready()

    def _invoice(
        self, peer: ReplicaPeer, have: Iterable[tuple[bytes, int]], *, want: bool = False
    ) -> None:
        world = self._world
        for part in batches(have, mark_size, world.config.batch_bytes):
            invoice = ReplicaInvoice(world.topic, world.replica, tuple(part), want)
            world.context.send(peer.contact, invoice)

    # Comparing.

    def _compare(self, peer: ReplicaPeer) -> None:
        """Ask a replica for what it has where that is something else; not more often than it can answer."""
        world, now = self._world, self._world.context.now()
        if now - peer.asked_at >= world.config.heartbeat / 2:
            peer.asked_at = now
            peer.nonce = world.context.random.getrandbits(48)
            if not self.is_ready and (self._target is None or not self._target.is_known):
                self._target = _Target(peer.id, peer.nonce)
            summary = ReplicaSummary(
                world.topic, world.replica, peer.nonce, self._here.packed_sums()
            )
            world.context.send(peer.contact, summary)

    def receive_summary(self, sender: Contact, summary: ReplicaSummary) -> None:
        peer = self.table.peers.get(summary.replica)
        if peer is None or self.has_left:
            self.greet(sender)
            return
        peer.heard_at = self._world.context.now()
        world = self._world
        differing = self._here.differing(summary.sums)
        parts = ((bucket, self._here.in_bucket(bucket)) for bucket in differing)

        def size(part: tuple[int, list[tuple[bytes, int]]]) -> int:
            return 3 + MARK_BYTES * len(part[1])

        for some in batches(parts, size, world.config.batch_bytes) if differing else ([],):
            answer = ReplicaParts(
                world.topic,
                world.replica,
                summary.nonce,
                len(differing),
                tuple(bucket for bucket, _ in some),
                tuple(mark for _, marks in some for mark in marks),
            )
            world.context.send(peer.contact, answer)

    def receive_parts(self, sender: Contact, parts: ReplicaParts) -> None:
        """Learn what a replica has, and ask for what is lacking here."""
        peer = self.table.peers.get(parts.replica)
        if peer is None or self.has_left:
            self.greet(sender)
            return
        peer.heard_at = self._world.context.now()
        self._learn(peer, parts.have)
        for stream, mark in parts.have:
            if not self._here.covers(stream, mark):
                peer.lacking[stream] = None
        target = self._target
        if target is not None and (target.replica, target.nonce) == (peer.id, parts.nonce):
            target.add(parts)
        self._pull(peer)
        self._check_ready()
        self._check_leaving()

    def _pull(self, peer: ReplicaPeer) -> None:
        """Ask a replica for the next events that are lacking here, a window at a time."""
        now = self._world.context.now()
        waits = now - peer.pulled_at < self._world.config.retry
        if not peer.lacking or (waits and not peer.pulled.are_reached_by(self._here)):
            return
        peer.pulled, peer.pulled_at = Awaited(), now
        wanted: list[tuple[bytes, int]] = []
        room = self._room()
        for stream in list(peer.lacking):
            have, there = self._here.get(stream), peer.frontier.get(stream)
            if self._here.covers(stream, there):
                del peer.lacking[stream]
                continue
            if room <= 0:
                break
            wanted.append((stream, have))
            peer.lacking[stream] = peer.lacking.pop(stream)  # the others have their turn first
            peer.pulled.add([(stream, min(there, have + room))])
            room -= there - have
        self._invoice(peer, wanted, want=True)

    # Events that are stored here.

    def stored(self, events: list[StoredEvent], bases: dict[bytes, int], origin: bool) -> None:
        """Events are safe here: `origin`, if they came from their publishers and not from a replica."""
        touched = {event.publisher: event.catenation for event in events}
        if self._owed:
            self._owe(touched.items())
        for peer in list(self.table.live()):
            if origin:
                fresh = [e for e in events if not peer.frontier.covers(e.publisher, e.catenation)]
                self._send(peer, [self._row(e, bases.get(e.publisher, 0)) for e in fresh])
            self._invoice(peer, touched.items())
            if peer.lacking:
                self._pull(peer)
        if not self.is_ready:
            self._check_ready()

    def _send(self, peer: ReplicaPeer, rows: list[Row]) -> None:
        world, config = self._world, self._world.config
        for part in batches(
            rows, lambda row: len(row[4]) + ROW_BYTES, config.batch_bytes, config.batch
        ):
            joined = tuple(join_rows(part))
            message = StoredEvents(world.topic, world.replica, joined)
            world.context.send(peer.contact, message)

    # Events and invoices of others.

    def receive_events(self, sender: Contact, message: StoredEvents) -> None:
        peer = self.table.peers.get(message.replica)
        if peer is None or self.has_left:
            self.greet(sender)
            return
        if message.repaired:
            self.repair.receive(peer, message)
            return
        if message.events:
            self._topic.take(message.replica, message.events)
        for stream, mark in message.skips:
            if mark <= peer.frontier.get(stream):
                self._topic.skip(stream, mark)
        self._pull(peer)

    def skipped(self, stream: bytes, mark: int) -> None:
        """A stream goes on here after this number: as good as having all up to it."""
        self._owe(((stream, mark),))
        for peer in self.table.live():
            self._invoice(peer, ((stream, mark),))
        if not self.is_ready:
            self._check_ready()

    def acknowledge(self, replica: bytes, streams: Iterable[bytes]) -> None:
        """Tell a replica that sent nothing new how far these streams are here."""
        peer = self.table.peers.get(replica)
        if peer is not None:
            self._invoice(peer, [(stream, self._here.get(stream)) for stream in streams])

    def missing(self, replica: bytes, stream: bytes, have: int) -> None:
        """An event of a stream came from a replica before the one that is next."""
        peer = self.table.peers.get(replica)
        if peer is not None:
            self._invoice(peer, ((stream, have),), want=True)

    def receive_invoice(self, sender: Contact, invoice: ReplicaInvoice) -> None:
        peer = self.table.peers.get(invoice.replica)
        if peer is None or self.has_left:
            self.greet(sender)
            return
        peer.heard_at = self._world.context.now()
        if invoice.want:
            self._fill(peer, dict(invoice.have))
        else:
            self._learn(peer, invoice.have)
            ahead = (stream for stream, mark in invoice.have if not self._here.covers(stream, mark))
            peer.ahead.update(dict.fromkeys(ahead))
        if invoice.damaged:
            self.repair.answer(peer, invoice.damaged)
        self._check_ready()
        self._check_leaving()

    def _learn(self, peer: ReplicaPeer, marks: Marks) -> None:
        """A replica has all this on stable storage."""
        news = [stream for stream, mark in marks if peer.frontier.raise_to(stream, mark)]
        if news:
            self._topic.safer(news)

    # Sending a replica what it lacks.

    def _fill(self, peer: ReplicaPeer, streams: dict[bytes, int]) -> None:
        """Send a replica what comes after these numbers, a window at a time: it asks for more then."""
        topic, room = self._world.topic, self._room()
        lasts = {
            stream: self._here.get(stream)
            for stream, have in streams.items()
            if have < self._here.get(stream)
        }

        def events(store: Store) -> dict[bytes, list[StoredEvent]]:
            found: dict[bytes, list[StoredEvent]] = {}
            left = room
            for stream, last in lasts.items():
                if left <= 0:
                    break
                found[stream] = _after(store, topic, stream, streams[stream], last, left)
                left -= len(found[stream])
            return found

        def fill(found: dict[bytes, list[StoredEvent]]) -> None:
            for stream, some in found.items():
                self._rows(peer, stream, streams[stream], some)
            empty = [(stream, lasts[stream]) for stream, some in found.items() if not some]
            if not self._inventory.damaged():
                self._send_skips(peer, empty)

        if lasts:
            self._world.read(events, fill)

    def _send_skips(self, peer: ReplicaPeer, skips: list[tuple[bytes, int]]) -> None:
        world = self._world
        for part in batches(skips, mark_size, world.config.batch_bytes):
            message = StoredEvents(world.topic, world.replica, skips=tuple(part))
            world.context.send(peer.contact, message)

    def _room(self) -> int:
        """Events of the usual size that go into a window."""
        config, topic, store = self._world.config, self._world.topic, self._world.store
        usual = store.size(topic) // max(store.count(topic), 1)
        return max(1, min(config.window, config.window_bytes // max(usual, 1)))

    def _rows(self, peer: ReplicaPeer, stream: bytes, have: int, events: list[StoredEvent]) -> None:
        """Send events of a stream after a number. What is not here any more, or is here in another stream, is
        left out, unless it is damaged."""
        rows: list[Row] = []
        before = have
        for place, event in enumerate(events):
            if event.catenation != before + 1:
                if self._inventory.damaged():
                    break
                if self._may_be_early(event):
                    self._send(peer, rows)
                    self._send_unless_early(peer, stream, before, events[place:])
                    return
                rows.append(self._row(event, event.catenation - 1))
            else:
                rows.append(self._row(event, have))
            before = event.catenation
        self._send(peer, rows)

    def _may_be_early(self, event: StoredEvent) -> bool:
        """Whether the event's run may be in several streams."""
        return self._here.is_forked(publisher_of(event.publisher))

    def _send_unless_early(
        self, peer: ReplicaPeer, stream: bytes, before: int, events: list[StoredEvent]
    ) -> None:
        """Send the rest, unless the replica lacks what the same run sent before this event in another stream.
        That must come first: a replica that is given an event of a stream counts all before it as given."""
        event, topic = events[0], self._world.topic
        lacked = [
            (other, peer.frontier.get(other), self._here.get(other))
            for other in self._here.streams_of(publisher_of(stream))
            if other != stream and not peer.frontier.covers(other, self._here.get(other))
        ]

        def is_early(store: Store) -> bool:
            for other, have, last in lacked:
                for first in _after(store, topic, other, have, last, 1):
                    same_run = first.id[:RUN_BYTES] == event.id[:RUN_BYTES]
                    if same_run and first.sequence < event.sequence:
                        return True
            return False

        def looked(early: bool) -> None:
            if not early:
                self._rows(peer, stream, events[0].catenation - 1, events)

        self._world.read(is_early, looked)

    def _row(self, event: StoredEvent, base: int) -> Row:
        resent = self._inventory.resent.covers(event.publisher, event.catenation)
        return row_of(event, base, resent)


class _Target:
    """What a replica must have to be ready: all that another one had when it was asked."""

    def __init__(self, replica: bytes, nonce: int) -> None:
        self.replica = replica
        self.nonce = nonce
        self._parts: set[int] = set()
        self._of: int | None = None
        self.marks = Awaited()

    def add(self, parts: ReplicaParts) -> None:
        self._of = parts.of
        self._parts.update(parts.buckets)
        self.marks.add(parts.have)

    @property
    def is_known(self) -> bool:
        return self._of is not None and len(self._parts) >= self._of


def _after(
    store: Store, topic: str, stream: bytes, have: int, last: int, most: int
) -> list[StoredEvent]:
    """Events of a stream after a number, though a stretch after it may have been removed."""
    events = store.by_catenation(topic, stream, Span(have + 1, have + most))
    if not events and have + most < last:
        events = store.by_catenation(topic, stream, Span(have + 1, last))
    return events[:most]
