"""Replicas of an archive (section 9): none is the first, and each decides for itself.

Whoever gets an event from its publisher stores it, then sends it to the others; each of them stores it
under a number of its own and tells all the others (table 1: stored events, invoices, replica information;
entity updates are in `pubsub.archive.protocol.entity_exchange`). Losses show: in a stream's numbers when
its next event comes, and otherwise in the digest that every sign of life carries. Then the one that lacks
something says what it has, and is sent the rest.

A replica that is new, or was away, first catches up with the one that has most, and answers publishers and
subscribers only then; when nobody is there to catch up with, it serves with what it has. A replica that
leaves makes sure first that another one has everything.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from overlay.contact import Contact
from overlay.context import Timer
from pubsub.archive.protocol.batches import batches
from pubsub.archive.protocol.frontier import RUN_BYTES, Frontier, publisher_of
from pubsub.archive.protocol.inventory import Inventory
from pubsub.archive.protocol.messages import Marks, ReplicaInfo, ReplicaInvoice, StoredEvents
from pubsub.archive.protocol.repair import Repair
from pubsub.archive.protocol.replica_table import Peer, ReplicaTable, is_line
from pubsub.archive.protocol.rows import Row, row_of
from pubsub.archive.protocol.world import ArchiveWorld
from pubsub.archive.store.changes import ReplicaStored, StoredEvent
from pubsub.reliable.numbers import Span


class Replication:
    """What one replica of one topic says to the others, and makes of what they say; a core."""

    def __init__(
        self,
        world: ArchiveWorld,
        inventory: Inventory,
        here: Frontier,
        *,
        take: Callable[[Contact, bytes, list[Row]], None],
        on_safe: Callable[[Iterable[bytes]], None],
        on_ready: Callable[[], None],
        updates: Callable[[], int],
        on_info: Callable[[Peer, ReplicaInfo, bool], None],
        destinations: Callable[[bytes], tuple[str, ...]],
        on_hopeless: Callable[[list[Span]], None],
        is_told: Callable[[Peer], bool],
        on_left: Callable[[], None],
    ) -> None:
        """`take` stores another replica's events as far as they are next in their streams. `on_safe`: these
        streams are safe on more replicas than before. `on_info`: a sign of life came. `on_hopeless`: these
        numbers are damaged, and there is no replica that could have them. `is_told`: whether a replica has
        heard of every entity here. `on_left`: this replica has just left."""
        self._world = world
        self._inventory = inventory
        self._here = here
        self._take = take
        self._on_safe = on_safe
        self._on_ready = on_ready
        self._updates = updates
        self._on_info = on_info
        self._is_told = is_told
        self._on_left = on_left
        self.table = ReplicaTable(world)
        self._repair = Repair(
            world, inventory, self.table, destinations=destinations, on_hopeless=on_hopeless
        )
        self.is_ready = False
        self.has_left = False
        self._leaving: Callable[[], None] | None = None
        self._target: Frontier | None = None
        self._started_at = 0.0
        self._fresh: list[StoredEvent] = []
        self._timer: Timer | None = None

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
        if self._timer is not None:
            self._timer.cancel()

    def greet(self, contact: Contact) -> None:
        """Give a sign of life to a node that is, or may be, another replica."""
        if contact.id != self._world.context.contact.id and not self.has_left:
            peer = self.table.of(contact)
            self._world.context.send(contact, self.info("alive", peer))

    def info(self, kind: str, peer: Peer | None = None) -> ReplicaInfo:
        """What this replica says of itself to another node, and if that is a replica, of that one's
        updates."""
        world = self._world
        return ReplicaInfo(
            world.topic,
            world.replica,
            kind,
            world.store.count(world.topic),
            self._here.digest(),
            self._updates(),
            self.serves,
            -1 if peer is None else peer.updates,
        )

    @property
    def serves(self) -> bool:
        """Whether publishers and subscribers may come here."""
        return self.is_ready and self._leaving is None

    def leave(self, left: Callable[[], None] | None) -> None:
        """Leave once another replica has everything, events and entities; `left` is called then. None: stay
        after all."""
        self._leaving = left
        self._check_leaving()

    def forget_replica(self, replica: bytes) -> bool:
        """Another replica is gone for good: nothing is waited for from it any more. Whether it was known."""
        is_known = replica in self.table.peers
        self.table.forget(replica)
        return is_known

    def _beat(self) -> None:
        self._timer = self._world.context.call_later(self._world.config.heartbeat, self._overdue)

    def _overdue(self) -> None:
        live = dict.fromkeys(peer.id for peer in self.table.live())
        for peer in list(self.table.peers.values()):
            peer.is_in_touch = peer.is_in_touch and peer.id in live
            self.greet(peer.contact)
        self._repair.ask(self.is_ready)
        self._check_ready()
        self._check_leaving()
        if not self.has_left:
            self._beat()

    def _check_ready(self) -> None:
        """Ready when this replica has all that the one it catches up with had; or nobody is there."""
        if self.is_ready:
            return
        if self._target is not None and self._here.includes(self._target):
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
                self._want(max(ready or live, key=lambda peer: (peer.count, peer.id)))

    def _become_ready(self) -> None:
        self.is_ready = True
        self._target = None
        self._on_ready()

    def _check_leaving(self) -> None:
        if self._leaving is None:
            return
        if any(self._can_replace(peer) for peer in self.table.live()):
            self.has_left, self.is_ready = True, False
            self._on_left()
            for peer in self.table.peers.values():
                self._world.context.send(peer.contact, self.info("leaving", peer))
            self.close()
            left, self._leaving = self._leaving, None
            left()

    def _can_replace(self, peer: Peer) -> bool:
        has_events = peer.is_ready and peer.frontier.includes(self._here)
        return has_events and self._is_told(peer)

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
        if is_new:
            self.greet(sender)
        if not peer.is_in_touch:
            peer.is_in_touch = True
            self._tell_numbers(peer)
        if info.digest != self._here.digest():
            self._want(peer)
        else:
            self._learn(peer, self._here.marks())
            if not self.is_ready and info.ready:
                self._become_ready()
        self._on_info(peer, info, is_new)
        self._check_leaving()

    def _tell_numbers(self, peer: Peer) -> None:
        """Of the newest events: while two replicas were out of touch, each may have got them from their
        publishers, and could not repair them for the other."""
        topic, store = self._world.topic, self._world.store
        most = self._room()
        newest = store.events(topic, max(store.last_sequence(topic) - most, 0), most)
        if newest:
            self._invoice(peer, (), stored=tuple((one.id, one.sequence) for one in newest))

    def _want(self, peer: Peer) -> None:
        """Tell a replica everything that is here, and ask for the rest; not more often than it can answer."""
        now = self._world.context.now()
        if now - peer.asked_at >= self._world.config.heartbeat / 2:
            peer.asked_at = now
            have = self._here.marks()
            self._invoice(peer, have, full=True, want=True)

    def _invoice(
        self,
        peer: Peer,
        have: tuple[tuple[bytes, int], ...],
        *,
        stored: tuple[tuple[bytes, int], ...] = (),
        full: bool = False,
        want: bool = False,
        repair: tuple[tuple[int, int], ...] = (),
    ) -> None:
        world = self._world
        invoice = ReplicaInvoice(world.topic, world.replica, have, stored, full, want, repair)
        world.context.send(peer.contact, invoice)

    # Events that are stored here.

    def stored(self, events: list[StoredEvent], bases: dict[bytes, int], origin: bool) -> None:
        """Events are safe here: `origin`, if they came from their publishers and not from a replica."""
        peers = list(self.table.live())
        if not peers:
            return
        touched = {event.publisher: event.catenation for event in events}
        lines = tuple((event.id, event.sequence) for event in events)
        for peer in peers:
            if origin:
                fresh = [e for e in events if not peer.frontier.covers(e.publisher, e.catenation)]
                self._send(peer, [self._row(e, bases.get(e.publisher, 0)) for e in fresh])
            self._invoice(peer, tuple(touched.items()), stored=lines)

    def _send(self, peer: Peer, rows: list[Row]) -> None:
        world = self._world
        for part in batches(rows, lambda row: len(row[4]), world.config):
            message = StoredEvents(world.topic, world.replica, tuple(part), False, ())
            world.context.send(peer.contact, message)
            for stream, _, catenation, *_ in part:
                peer.sent.raise_to(stream, catenation)
        if rows:
            peer.sent_at = world.context.now()

    # Events and invoices of others.

    def receive_events(self, sender: Contact, message: StoredEvents) -> None:
        peer = self.table.peers.get(message.replica)
        if peer is None or self.has_left:
            self.greet(sender)
            return
        if message.repaired:
            self._repair.receive(peer, message)
            return
        self._take(sender, message.replica, list(message.events))

    def acknowledge(self, replica: bytes, streams: Iterable[bytes]) -> None:
        """Tell a replica that sent nothing new how far these streams are here."""
        peer = self.table.peers.get(replica)
        if peer is not None:
            self._invoice(peer, tuple((stream, self._here.get(stream)) for stream in streams))

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
        lines = tuple(line for line in invoice.stored if is_line(*line))
        if lines:
            change = ReplicaStored(self._world.topic, peer.id, lines)
            self._world.commit([change], lambda: None)
        if not invoice.want or invoice.full:
            self._learn(peer, invoice.have)
        if invoice.full and self._target is None and not self.is_ready:
            self._target = Frontier(invoice.have)
        if invoice.full and not self._here.includes(Frontier(invoice.have)):
            self._want(peer)
        if invoice.want:
            self._fill(peer, invoice)
        if invoice.repair:
            self._repair.answer(peer, invoice.repair)
        self._check_ready()
        self._check_leaving()

    def _learn(self, peer: Peer, marks: Marks) -> None:
        """A replica has all this on stable storage."""
        news = [stream for stream, mark in marks if peer.frontier.raise_to(stream, mark)]
        if news:
            self._on_safe(news)

    def _fill(self, peer: Peer, invoice: ReplicaInvoice) -> None:
        """Send a replica what it lacks, a window at a time: its next invoice asks for more."""
        now = self._world.context.now()
        if invoice.full and now - peer.sent_at < self._world.config.retry:
            return
        streams = dict(invoice.have)
        if invoice.full:
            self._answer_full(peer, Frontier(invoice.have))
            streams = {stream: streams.get(stream, 0) for stream, _ in self._here}
        room = self._room()
        rows: list[Row] = []
        for stream, have in streams.items():
            if room > len(rows) and have < self._here.get(stream):
                rows += self._next_rows(peer, stream, have, room - len(rows))
        self._send(peer, rows)

    def _room(self) -> int:
        """Events of the usual size that go into a window."""
        config, topic, store = self._world.config, self._world.topic, self._world.store
        usual = store.size(topic) // max(store.count(topic), 1)
        return max(1, min(config.window, config.window_bytes // max(usual, 1)))

    def _answer_full(self, peer: Peer, theirs: Frontier) -> None:
        """A replica that catches up learns what there is to have."""
        if not theirs.includes(self._here) or not peer.is_ready:
            self._invoice(peer, self._here.marks(), full=True)

    def _next_rows(self, peer: Peer, stream: bytes, have: int, most: int) -> list[Row]:
        """Events of a stream after a number. What is not here any more, or is here in another stream, is left
        out, unless it is damaged."""
        rows: list[Row] = []
        before = have
        for event in self._events_after(stream, have, most):
            gap = event.catenation != before + 1
            if gap and (self._inventory.damaged() or self._is_early(peer, event)):
                break
            rows.append(self._row(event, event.catenation - 1 if gap else have))
            before = event.catenation
        return rows

    def _events_after(self, stream: bytes, have: int, most: int) -> list[StoredEvent]:
        topic, store, last = self._world.topic, self._world.store, self._here.get(stream)
        events = store.by_catenation(topic, stream, Span(have + 1, have + most))
        if not events and have + most < last and not self._inventory.damaged():
            events = store.by_catenation(topic, stream, Span(have + 1, last))
        return events[:most]

    def _is_early(self, peer: Peer, event: StoredEvent) -> bool:
        """Whether a replica lacks what the same life of the publisher sent before this event in another
        stream. It must come first: whoever is given an event of a stream counts all before it as given."""
        for stream, last in self._here:
            have = peer.frontier.get(stream)
            is_lacked = stream != event.publisher and have < last
            if is_lacked and publisher_of(stream) == publisher_of(event.publisher):
                for first in self._events_after(stream, have, 1):
                    same_life = first.id[:RUN_BYTES] == event.id[:RUN_BYTES]
                    if same_life and first.sequence < event.sequence:
                        return True
        return False

    def _row(self, event: StoredEvent, base: int) -> Row:
        resent = self._inventory.resent.covers(event.publisher, event.catenation)
        return row_of(event, base, resent)
