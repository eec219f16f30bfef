"""Damaged events are fetched from another replica, or else given up and told as a gap.

Each heartbeat one of the live replicas is asked for what is damaged here. It sends what it has, found by the
numbers that it was told of (the replica-sequence table, section 9.2), and says what it cannot find: it never
had it, or its retention has removed it, or it is damaged there too. An event is given up when every replica
has said so, other than those that have not been heard of for `DurableConfig.absence` seconds. Until then
subscribers wait before it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from pubsub.archive.protocol.archived_event import id_of
from pubsub.archive.protocol.frontier import STREAM_BYTES
from pubsub.archive.protocol.inventory import Inventory
from pubsub.archive.protocol.messages import ReplicaInvoice, Spans, StoredEvents
from pubsub.archive.protocol.replica_table import Peer, ReplicaTable, is_line
from pubsub.archive.protocol.rows import Row, row_of
from pubsub.archive.protocol.world import ArchiveWorld
from pubsub.archive.store.changes import Append, StoredEvent
from pubsub.archive.store.interface import Store
from pubsub.reliable.batches import batches
from pubsub.reliable.numbers import Numbers, Span

MOST_SPANS = 256
"""Spans that are asked for, and answered, in one message."""

NUMBERS_AT_ONCE = 65_536
"""Numbers that are looked up for one question; the next one asks for the rest."""

READ_AT_ONCE = 16
"""Events that are read before their size is looked at."""


class Repair:
    """Of one replica of one topic; a core."""

    def __init__(
        self,
        world: ArchiveWorld,
        inventory: Inventory,
        table: ReplicaTable,
        *,
        destinations: Callable[[bytes], tuple[str, ...]],
        on_hopeless: Callable[[list[Span]], None],
    ) -> None:
        """`destinations`: the entities that an event is for. `on_hopeless`: these numbers are damaged, and
        there is no replica that could have them."""
        self._world = world
        self._inventory = inventory
        self._table = table
        self._destinations = destinations
        self._on_hopeless = on_hopeless
        self._started_at = world.context.now()
        self._denied: dict[bytes, Numbers] = {}
        """By replica: what it cannot find."""
        self._given_up = Numbers()

    # For this replica.

    def ask(self, is_ready: bool) -> None:
        """Ask for what is damaged, and give up what nobody has, unless there is nobody yet to ask."""
        damaged = Numbers(spans=self._inventory.damaged())
        if not damaged:
            self._denied, self._given_up = {}, Numbers()
            return
        asked = [
            (peer, rest)
            for peer in self._table.live()
            if (rest := damaged.without(self._denied.get(peer.id, Numbers())))
        ]
        if asked:
            peer, rest = asked[self._world.context.random.randrange(0, len(asked))]
            self._ask(peer, rest.spans()[:MOST_SPANS])
        hopeless = damaged.without(self._given_up)
        for peer in self._table.peers.values():
            if not self._is_absent(peer):
                denied = self._denied.get(peer.id, Numbers())
                hopeless = hopeless.without(hopeless.without(denied))
        if hopeless and is_ready:
            for span in hopeless.spans():
                self._given_up.add_span(*span)
            self._on_hopeless(list(hopeless.spans()))

    def _ask(self, peer: Peer, spans: Spans) -> None:
        world = self._world
        question = ReplicaInvoice(world.topic, world.replica, (), (), False, spans)
        world.context.send(peer.contact, question)

    def _is_absent(self, peer: Peer) -> bool:
        since = self._started_at if peer.heard_at is None else peer.heard_at
        return self._world.context.now() - since >= self._world.config.absence

    def receive(self, peer: Peer, message: StoredEvents) -> None:
        """Another replica's answer. One that still catches up may find later what it lacks."""
        self._write(message.events)
        if peer.is_ready:
            denied = self._denied.setdefault(peer.id, Numbers())
            for first, last in message.lacking:
                denied.add_span(first, last)

    def _write(self, rows: Iterable[Row]) -> None:
        damaged = Numbers(spans=self._inventory.damaged())
        repairs = [
            Append(
                StoredEvent(
                    self._world.topic,
                    number,
                    id_of(event),
                    stream,
                    catenation,
                    time,
                    event,
                    self._destinations(event),
                )
            )
            for stream, _, catenation, time, event, number, _ in rows
            if number in damaged
            and is_line(id_of(event), number)
            and len(stream) == STREAM_BYTES
            and catenation > 0
            and self._world.is_genuine(stream, event)
        ]
        if repairs:
            repaired = self._world.metrics.counter("archive_repaired", "Damaged events repaired.")
            self._world.commit(repairs, lambda: repaired.add(len(repairs)))

    # For another one.

    def answer(self, peer: Peer, spans: Spans) -> None:
        """Find the events that a replica has under these numbers, as it told, and send them; and say which
        numbers lead to nothing."""

        def found(answer: tuple[list[Row], Spans]) -> None:
            self._send(peer, *answer)

        self._world.read(lambda store: self._find(store, peer.id, spans), found)

    def _find(self, store: Store, replica: bytes, spans: Spans) -> tuple[list[Row], Spans]:
        """The events, and the numbers that lead to nothing."""
        topic = self._world.topic
        lacking, numbers = self._look_up(store, replica, spans)
        here = {number: numbers[id] for id, number in store.sequences(topic, numbers).items()}
        rows: list[Row] = []
        left = sorted(here)[: self._world.config.window]
        room = self._world.config.window_bytes
        unread = sorted(here)[len(left) :]
        for start in range(0, len(left), READ_AT_ONCE):
            if room <= 0:
                unread += left[start:]
                break
            for event in store.read(topic, left[start : start + READ_AT_ONCE]):
                # Its marks are in the receiver's own notes.
                rows.append(row_of(event, 0, False, here[event.sequence]))
                room -= len(event.body)
        for number in (*(row[5] for row in rows), *(here[one] for one in unread)):
            lacking.remove(number)
        return rows, lacking.spans()[:MOST_SPANS]

    def _look_up(
        self, store: Store, replica: bytes, spans: Spans
    ) -> tuple[Numbers, dict[bytes, int]]:
        """The numbers that are looked at, and the events behind them."""
        looked = Numbers()
        numbers: dict[bytes, int] = {}
        room = NUMBERS_AT_ONCE
        for first, last in spans[:MOST_SPANS]:
            if first > last or not room:
                continue
            span = Span(first, min(last, first + room - 1))
            room -= span.last - span.first + 1
            looked.add_span(*span)
            found = store.replica_ids(self._world.topic, replica, span)
            numbers.update((id, number) for number, id in found.items())
        return looked, numbers

    def _send(self, peer: Peer, rows: list[Row], lacking: Spans) -> None:
        world = self._world
        config = world.config
        parts = list(batches(rows, lambda row: len(row[4]), config.batch_bytes, config.batch))
        parts = parts or [[]]
        for number, part in enumerate(parts, 1):
            rest = lacking if number == len(parts) else ()
            message = StoredEvents(world.topic, world.replica, tuple(part), True, rest, ())
            world.context.send(peer.contact, message)
