"""Damaged events are fetched from another replica or their publisher, or else given up and told as a gap.

What a damaged event was is known from two sides: the store may still know its id, and the other replicas
were told the number that it has here (the replica-sequence table, section 9.2). Each heartbeat one of the
live replicas is asked for what is damaged. It sends what it has, and says what it cannot find: it never had
it, or its retention has removed it, or it is damaged there too. Publishers that are there are asked by id
too: one that waits until enough replicas have an event still keeps it.

A damaged event that is here under another number too (a replica or the publisher brought it again, when
nothing told that it had been here) is struck out, and nobody misses anything. Any other is given up when
every replica has said that it has none, other than those that have not been heard of for
`DurableConfig.absence` seconds, and when publishers have had the time to find an archive. Until then
subscribers wait before it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from pubsub.archive.protocol.archived_event import ReadEvent, Row, id_of, row_of
from pubsub.archive.protocol.entities import Entities
from pubsub.archive.protocol.frontier import STREAM_BYTES
from pubsub.archive.protocol.inventory import Inventory
from pubsub.archive.protocol.messages import ReplicaInvoice, Spans, StoredEvents
from pubsub.archive.protocol.replica_table import ReplicaPeer, ReplicaTable, is_line
from pubsub.archive.protocol.world import ArchiveWorld
from pubsub.archive.store.changes import StoredEvent
from pubsub.archive.store.store import Store
from pubsub.reliable.batches import batches
from pubsub.reliable.numbers import Numbers, Span

MOST_SPANS = 256
"""Spans, and ids, that are asked for, and answered, in one message."""

NUMBERS_AT_ONCE = 65_536
"""Numbers that are looked up for one question; the next one asks for the rest."""

READ_AT_ONCE = 16
"""Events that are read before their size is looked at."""

GIVE_UP = 3
"""An event is given up no sooner than this many times `DurableConfig.patience` after its damage was seen: a
publisher whose archive has failed finds another one within that time."""


class Repair:
    """Repairs damaged events, for one replica of one topic; a core."""

    def __init__(
        self,
        world: ArchiveWorld,
        inventory: Inventory,
        table: ReplicaTable,
        entities: Entities,
        ask_publishers: Callable[[tuple[bytes, ...]], None],
    ) -> None:
        """`ask_publishers`: have those who are there send events with these ids again."""
        self._world = world
        self._inventory = inventory
        self._table = table
        self._entities = entities
        self._ask_publishers = ask_publishers
        self._started_at = world.context.now()
        self._seen_at: float | None = None
        """Since when something new has been known to be damaged."""
        self._damaged = Numbers()
        self._ids: dict[int, dict[bytes, None]] = {}
        """By damaged number: the ids that its event may have had."""
        self._denied: dict[bytes, Numbers] = {}
        """By replica: what it cannot find."""
        self._given_up = Numbers()

    # For this replica.

    def ask(self, is_ready: bool) -> None:
        """Ask for what is damaged, and give up what nobody has, unless there is nobody yet to ask."""
        damaged = Numbers(spans=self._inventory.damaged())
        if not damaged:
            self._denied, self._given_up, self._ids, self._damaged = {}, Numbers(), {}, Numbers()
            return
        if damaged.without(self._damaged):
            self._seen_at = self._world.context.now()
        self._damaged = damaged
        topic = self._world.topic
        known = tuple(id for ids in self._ids.values() for id in ids)

        def look(store: Store) -> tuple[dict[int, tuple[bytes, ...]], dict[bytes, int]]:
            ids = store.damaged_ids(topic)
            every = {*known, *(id for some in ids.values() for id in some)}
            return ids, store.sequences(topic, every)

        def looked(found: tuple[dict[int, tuple[bytes, ...]], dict[bytes, int]]) -> None:
            ids, here = found
            for number, some in ids.items():
                self._ids.setdefault(number, {}).update(dict.fromkeys(some))
            self._go_on(Numbers(spans=self._inventory.damaged()), here, is_ready)

        self._world.read(look, looked)

    def _go_on(self, damaged: Numbers, here: dict[bytes, int], is_ready: bool) -> None:
        """`here`: the numbers of events that may be those of damaged numbers."""
        self._ids = {number: ids for number, ids in self._ids.items() if number in damaged}
        again = [
            Span(number, number)
            for number, ids in self._ids.items()
            if number not in self._given_up and any(here.get(id, number) != number for id in ids)
        ]
        if again and is_ready:
            for span in again:
                self._given_up.add_span(*span)
            self._entities.strike_out(again)
        damaged = damaged.without(self._given_up)
        asked = [
            (peer, rest)
            for peer in self._table.live()
            if (rest := damaged.without(self._denied.get(peer.id, Numbers())))
        ]
        if asked:
            peer, rest = asked[self._world.context.random.randrange(0, len(asked))]
            self._ask(peer, rest.spans()[:MOST_SPANS])
        wanted = tuple(
            id for number in damaged_first(damaged, self._ids) for id in self._ids[number]
        )
        if wanted:
            self._ask_publishers(wanted)
        hopeless = self._hopeless(damaged)
        if hopeless and is_ready:
            for span in hopeless.spans():
                self._given_up.add_span(*span)
            ids = {number: next(iter(ids)) for number, ids in self._ids.items() if len(ids) == 1}
            self._entities.give_up(
                hopeless.spans(), {number: id for number, id in ids.items() if number in hopeless}
            )

    def _hopeless(self, damaged: Numbers) -> Numbers:
        now, config = self._world.context.now(), self._world.config
        if self._seen_at is None or now - self._seen_at < GIVE_UP * config.patience:
            return Numbers()
        hopeless = damaged
        for peer in self._table.peers.values():
            if not self._is_absent(peer):
                denied = self._denied.get(peer.id, Numbers())
                hopeless = hopeless.without(hopeless.without(denied))
        return hopeless

    def _ask(self, peer: ReplicaPeer, spans: Spans) -> None:
        world, wanted = self._world, Numbers(spans=spans)
        named = [
            (id, number) for number, ids in self._ids.items() if number in wanted for id in ids
        ]
        question = ReplicaInvoice(
            world.topic, world.replica, repair=spans, named=tuple(named[:MOST_SPANS])
        )
        world.context.send(peer.contact, question)

    def _is_absent(self, peer: ReplicaPeer) -> bool:
        since = self._started_at if peer.heard_at is None else peer.heard_at
        return self._world.context.now() - since >= self._world.config.absence

    def receive(self, peer: ReplicaPeer, message: StoredEvents) -> None:
        """Another replica's answer. One that still catches up may find later what it lacks."""
        damaged = Numbers(spans=self._inventory.damaged())
        self._write(damaged, message.events)
        for id, number in message.known:
            if number in damaged and is_line(id, number):
                self._ids.setdefault(number, {})[id] = None
        if peer.is_ready:
            denied = self._denied.setdefault(peer.id, Numbers())
            for first, last in message.lacking:
                denied.add_span(first, last)

    def receive_from_publisher(
        self, stream: bytes, first: int, events: Iterable[ReadEvent]
    ) -> None:
        """Events that a publisher sent, which may be among those that it was asked for by id."""
        if not self._ids:
            return
        numbers = {id: number for number, ids in self._ids.items() for id in ids}
        time = self._world.clock()
        rows = [
            (stream, 0, catenation, time, event.encoded, numbers[event.id], False)
            for catenation, event in enumerate(events, first)
            if event.id in numbers
        ]
        self._write(Numbers(spans=self._inventory.damaged()), rows)

    def _write(self, damaged: Numbers, rows: Iterable[Row]) -> None:
        topic = self._world.topic
        repairs = [
            StoredEvent(
                topic,
                number,
                id_of(event),
                stream,
                catenation,
                time,
                event,
                self._entities.destinations(event),
            )
            for stream, _, catenation, time, event, number, _ in rows
            if number in damaged
            and number not in self._given_up
            and is_line(id_of(event), number)
            and len(stream) == STREAM_BYTES
            and catenation > 0
            and self._world.event_in(stream, event) is not None
        ]
        if repairs:
            repaired = self._world.metrics.counter("archive_repaired", "Damaged events repaired.")
            self._world.commit(repairs, lambda: repaired.add(len(repairs)))

    # For another one.

    def answer(self, peer: ReplicaPeer, spans: Spans, named: Iterable[tuple[bytes, int]]) -> None:
        """Find the events that a replica has under these numbers, by the ids that it knows or as it told
        before, and send them; and say which numbers lead to nothing."""
        ids = tuple(line for line in named if is_line(*line))[:MOST_SPANS]

        def found(answer: tuple[list[Row], Spans, list[tuple[bytes, int]]]) -> None:
            self._send(peer, *answer)

        self._world.read(lambda store: self._find(store, peer.id, spans, ids), found)

    def _find(
        self, store: Store, replica: bytes, spans: Spans, ids: Iterable[tuple[bytes, int]]
    ) -> tuple[list[Row], Spans, list[tuple[bytes, int]]]:
        """The events, the numbers that lead to nothing, and what was told of these numbers."""
        topic = self._world.topic
        lacking, numbers = self._look_up(store, replica, spans)
        told = list(numbers.items())[:MOST_SPANS]
        numbers.update(ids)
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
        return rows, lacking.spans()[:MOST_SPANS], told

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

    def _send(
        self, peer: ReplicaPeer, rows: list[Row], lacking: Spans, told: list[tuple[bytes, int]]
    ) -> None:
        world = self._world
        config = world.config
        for part in batches(rows, lambda row: len(row[4]), config.batch_bytes, config.batch):
            events = StoredEvents(world.topic, world.replica, tuple(part), repaired=True)
            world.context.send(peer.contact, events)
        rest = StoredEvents(
            world.topic, world.replica, repaired=True, lacking=lacking, known=tuple(told)
        )
        world.context.send(peer.contact, rest)


def damaged_first(damaged: Numbers, ids: dict[int, dict[bytes, None]]) -> list[int]:
    """The first damaged numbers whose ids are known."""
    return [number for number in sorted(ids) if number in damaged][:MOST_SPANS]
