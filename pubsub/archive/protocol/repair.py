"""Damaged events are fetched from another replica or their publisher, or else given up and told as a gap.

The store knows the ids of damaged events, as it keeps each twice. Each heartbeat one of the live replicas is
asked for those that are damaged. It sends what it has, and says what it cannot find: it never had it, or its
retention has removed it, or it is damaged there too. Publishers that are there are asked too: one that waits
until enough replicas have an event still keeps it.

A damaged event that is here under another number too (a replica or the publisher brought it again, when
nothing told that it had been here) is struck out, and nobody misses anything. Any other is given up when
every replica has said that it has none, other than those that have not been heard of for
`DurableConfig.absence` seconds, and when publishers have had the time to find an archive. Until then
subscribers wait before it. An event whose id is lost as well is asked of nobody.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from pubsub.archive.protocol.archived_event import ReadEvent, Row, id_of, row_of
from pubsub.archive.protocol.entities import Entities
from pubsub.archive.protocol.frontier import STREAM_BYTES
from pubsub.archive.protocol.inventory import Inventory
from pubsub.archive.protocol.messages import ReplicaInvoice, StoredEvents
from pubsub.archive.protocol.replica_table import ReplicaPeer, ReplicaTable
from pubsub.archive.protocol.world import ArchiveWorld
from pubsub.archive.store.changes import StoredEvent
from pubsub.archive.store.store import Store
from pubsub.event import ID_BYTES
from pubsub.reliable.batches import batches
from pubsub.reliable.numbers import Numbers, Span

MOST_SPANS = 256
"""Spans of damaged events that are looked at together; the others have their turn then."""

MOST_IDS = 256
"""Events that are asked for, and answered, in one message."""

READ_AT_ONCE = 16
"""Events that are read before their size is looked at."""

GIVE_UP = 3
"""An event is given up no sooner than this many times `DurableConfig.patience` after its damage was seen: a
publisher whose archive has failed finds another one within that time."""

Ids = Mapping[int, Sequence[bytes]]
"""By damaged number: the ids that its event may have had."""


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
        self._wanted: dict[bytes, int] = {}
        """The numbers of damaged events, by the ids that these may have had."""
        self._denied: dict[bytes, dict[bytes, None]] = {}
        """By replica: ids of events that it cannot find."""
        self._given_up = Numbers()

    # For this replica.

    def ask(self, is_ready: bool) -> None:
        """Ask for what is damaged, and give up what nobody has, unless there is nobody yet to ask."""
        damaged = Numbers(spans=self._inventory.damaged())
        if not damaged:
            self._denied, self._given_up, self._wanted, self._damaged = {}, Numbers(), {}, Numbers()
            return
        if damaged.without(self._damaged):
            self._seen_at = self._world.context.now()
        self._damaged = damaged
        topic = self._world.topic
        looked_at = damaged.without(self._given_up).spans()[:MOST_SPANS]

        def look(store: Store) -> tuple[Ids, dict[bytes, int]]:
            ids = store.damaged_ids(topic, map(Span._make, looked_at))
            return ids, store.sequences(topic, {id for some in ids.values() for id in some})

        def looked(found: tuple[Ids, dict[bytes, int]]) -> None:
            mended = Numbers(spans=looked_at).without(Numbers(spans=self._inventory.damaged()))
            self._go_on(Numbers(spans=looked_at).without(mended), *found, is_ready)

        self._world.read(look, looked)

    def _go_on(self, damaged: Numbers, ids: Ids, here: Mapping[bytes, int], is_ready: bool) -> None:
        """`here`: the numbers of events that may be those of damaged numbers."""
        again = Numbers.of(
            number
            for number, some in ids.items()
            if number in damaged and any(here.get(id, number) != number for id in some)
        )
        if again and is_ready:
            self._give_up(again)
            self._entities.strike_out(again.spans())
            damaged = damaged.without(again)
        self._wanted = {id: n for n, some in ids.items() if n in damaged for id in some}
        if self._wanted:
            self._ask_somebody()
            self._ask_publishers(tuple(self._wanted)[:MOST_IDS])
        hopeless = self._hopeless(damaged)
        if hopeless and is_ready:
            self._give_up(hopeless)
            sure = {n: some[0] for n, some in ids.items() if n in hopeless and len(some) == 1}
            self._entities.give_up(hopeless.spans(), sure)

    def _give_up(self, numbers: Numbers) -> None:
        for span in numbers.spans():
            self._given_up.add_span(*span)

    def _ask_somebody(self) -> None:
        asked = [
            (peer, rest)
            for peer in self._table.live()
            if (rest := [id for id in self._wanted if id not in self._denied.get(peer.id, {})])
        ]
        if asked:
            peer, rest = asked[self._world.context.random.randrange(0, len(asked))]
            world = self._world
            question = ReplicaInvoice(world.topic, world.replica, damaged=tuple(rest[:MOST_IDS]))
            world.context.send(peer.contact, question)

    def _hopeless(self, damaged: Numbers) -> Numbers:
        """The damaged numbers of which no replica that may be there has an event."""
        now, config = self._world.context.now(), self._world.config
        if self._seen_at is None or now - self._seen_at < GIVE_UP * config.patience:
            return Numbers()
        denials = [
            self._denied.get(peer.id, {})
            for peer in self._table.peers.values()
            if not self._is_absent(peer)
        ]
        hoped_for = sorted(
            number
            for id, number in self._wanted.items()
            if any(id not in denied for denied in denials)
        )
        return damaged.without(Numbers.of(hoped_for))

    def _is_absent(self, peer: ReplicaPeer) -> bool:
        since = self._started_at if peer.heard_at is None else peer.heard_at
        return self._world.context.now() - since >= self._world.config.absence

    def receive(self, peer: ReplicaPeer, message: StoredEvents) -> None:
        """Another replica's answer. One that still catches up may find later what it lacks."""
        self._write(message.events)
        if peer.is_ready:
            denied = [*self._denied.get(peer.id, ()), *message.lacking]
            self._denied[peer.id] = {id: None for id in denied if id in self._wanted}

    def receive_from_publisher(
        self, stream: bytes, first: int, events: Iterable[ReadEvent]
    ) -> None:
        """Events that a publisher sent, which may be among those that it was asked for by id."""
        if self._wanted:
            time = self._world.clock()
            rows = enumerate(events, first)
            self._write([(stream, 0, number, time, one.encoded, False) for number, one in rows])

    def _write(self, rows: Iterable[Row]) -> None:
        topic, wanted = self._world.topic, self._wanted
        damaged = Numbers(spans=self._inventory.damaged()).without(self._given_up)
        repairs = [
            StoredEvent(
                topic,
                wanted[id_of(event)],
                id_of(event),
                stream,
                catenation,
                time,
                event,
                self._entities.destinations(event),
            )
            for stream, _, catenation, time, event, _ in rows
            if wanted.get(id_of(event), -1) in damaged
            and len(stream) == STREAM_BYTES
            and catenation > 0
            and self._world.event_in(stream, event) is not None
        ]
        if repairs:
            repaired = self._world.metrics.counter("archive_repaired", "Damaged events repaired.")
            self._world.commit(repairs, lambda: repaired.add(len(repairs)))

    # For another one.

    def answer(self, peer: ReplicaPeer, ids: Sequence[bytes]) -> None:
        """Find the events that a replica asks for, and send them; and say which are not here."""
        asked = [id for id in ids[:MOST_IDS] if len(id) == ID_BYTES]
        self._world.read(
            lambda store: self._find(store, asked), lambda found: self._send(peer, *found)
        )

    def _find(self, store: Store, ids: Sequence[bytes]) -> tuple[list[Row], tuple[bytes, ...]]:
        """The events, as many as go together; and the ids of those that are not here, or damaged too."""
        topic = self._world.topic
        here = store.sequences(topic, ids)
        numbers = sorted(here.values())
        lacking = dict.fromkeys(ids)
        rows: list[Row] = []
        room = self._world.config.window_bytes
        while numbers and room > 0:
            some, numbers = numbers[:READ_AT_ONCE], numbers[READ_AT_ONCE:]
            for event in store.read(topic, some):
                # Its marks are in the receiver's own notes.
                rows.append(row_of(event, 0, False))
                room -= len(event.body)
                lacking.pop(event.id, None)
        unread = dict.fromkeys(numbers)
        return rows, tuple(id for id in lacking if here.get(id, 0) not in unread)

    def _send(self, peer: ReplicaPeer, rows: list[Row], lacking: tuple[bytes, ...]) -> None:
        world, config = self._world, self._world.config
        for part in batches(rows, lambda row: len(row[4]), config.batch_bytes, config.batch):
            events = StoredEvents(world.topic, world.replica, tuple(part), repaired=True)
            world.context.send(peer.contact, events)
        rest = StoredEvents(world.topic, world.replica, repaired=True, lacking=lacking)
        world.context.send(peer.contact, rest)
