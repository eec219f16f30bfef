"""Archival notifications, invoices and responses of one topic's registered entities (section 5).

Each advance of a sync point is on stable storage before the subscriber is told of it. Nothing is sent again
by itself: the subscriber hears in every response what the archive believes it lacks, and asks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial

from overlay.bounded import remember
from overlay.contact import Contact
from overlay.wire import WireError
from pubsub.archive.protocol.archived_event import join, join_ids, read_event
from pubsub.archive.protocol.dissemination import EntityDissemination, SubscriberSession
from pubsub.archive.protocol.frontier import Frontier
from pubsub.archive.protocol.inventory import Inventory, Page
from pubsub.archive.protocol.messages import (
    REGISTER_AGAIN,
    AckResponse,
    Invoice,
    Notice,
    Spans,
)
from pubsub.archive.protocol.replica_table import ReplicaTable
from pubsub.archive.protocol.world import ArchiveWorld
from pubsub.archive.store.changes import AdvanceSync, Change, GapsTold, Note, StoredEvent
from pubsub.event import ID_BYTES
from pubsub.reliable.batches import batches
from pubsub.reliable.numbers import Numbers

SYNC = "sync/"
"""Notes of sync points that are ahead of what the application is done with."""

QUIET = 4
"""This many times the grace after the last notification, whatever was not acknowledged counts as missed;
until then only what lies before an acknowledged number does."""

MOST_BLOCKS = 16
"""Messages of events that are kept in memory for further entities."""

OnChange = Callable[[EntityDissemination], None]
"""Called with an entity that other replicas should hear of."""


_Offer = tuple[StoredEvent, int, bytes]
"""An event, the number of the one before it for its entity, and what is sent: itself, or its id alone to
those who listen elsewhere too."""


class Notifier:
    """Sends entities what is for them, as far as they keep up."""

    def __init__(
        self,
        world: ArchiveWorld,
        inventory: Inventory,
        here: Frontier,
        table: ReplicaTable,
        on_change: OnChange,
    ) -> None:
        self._world = world
        self._inventory = inventory
        self._here = here
        self._table = table
        self._on_change = on_change
        self._blocks: dict[tuple[int, int, bool], Sequence[tuple[int, bytes]]] = {}
        """The blocks that were made last, by the first and last number of their events, and whether they have
        the events or their ids: several entities are sent the same."""
        self.sent = 0
        """Events and notifications sent in this life."""

    def refuse(self, to: Contact, name: str, session: bytes, why: str) -> None:
        world = self._world
        refusal = AckResponse(
            world.topic, name, session, world.replica, 0, 0, 0, (), (), 0.0, why, 0
        )
        world.context.send(to, refusal)

    # Notifying.

    def push(self, entity: EntityDissemination) -> None:
        """Notify an entity of what is next for it, as far as it is there and keeps up."""
        session = entity.session
        world = self._world
        if session is None or session.cursor >= self._inventory.highest:
            return
        if world.context.now() - session.heard_at >= world.config.patience:
            entity.session = None
            return
        offers: list[_Offer] = []
        while self._has_room(session) and not session.is_reading:
            page = self._inventory.recent(session.cursor, world.config.batch)
            if page is None:
                session.is_reading = True
                read = partial(self._read, entity, session)
                self._inventory.after(session.cursor, world.config.batch, read)
            elif not self._offer(entity, session, page, offers):
                break
        if offers:
            self._send(entity, session, offers)

    def _has_room(self, session: SubscriberSession) -> bool:
        config = self._world.config
        return len(session.offered) < config.unread and session.offered_bytes < config.window_bytes

    def _read(self, entity: EntityDissemination, session: SubscriberSession, page: Page) -> None:
        """Events that are not in memory have come."""
        session.is_reading = False
        if entity.session is not session:
            return
        offers: list[_Offer] = []
        moved = self._offer(entity, session, page, offers)
        if offers:
            self._send(entity, session, offers)
        if moved:
            self.push(entity)

    def _offer(
        self,
        entity: EntityDissemination,
        session: SubscriberSession,
        page: Page,
        offers: list[_Offer],
    ) -> bool:
        """Offer what is for the entity; whether the cursor has moved."""
        events, end = page
        for event in events:
            if session.offered_bytes >= self._world.config.window_bytes:
                end = event.sequence - 1
                break
            if self.is_for(entity, event):
                sent = event.body if session.is_sent_whole(event.sequence) else event.id
                offers.append((event, session.offer(event, len(sent)), sent))
        moved = end > session.cursor
        session.cursor = max(end, session.cursor)
        return moved

    def is_for(self, entity: EntityDissemination, event: StoredEvent) -> bool:
        """Whether an entity is yet to have an event."""
        if entity.covered.covers(event.publisher, event.catenation):
            return False
        if event.sequence > entity.matched_from:
            return entity.name in event.destinations
        try:
            return entity.interest.matches(read_event(event.body, self._world.topic))
        except WireError:
            return False

    def _send(
        self, entity: EntityDissemination, session: SubscriberSession, offers: Iterable[_Offer]
    ) -> None:
        doubts = self.doubts(session.doubtful_to, session.began)
        self.send(session.contact, entity.name, session.id, offers, doubts)
        session.notified_at = self._world.context.now()

    def doubts(self, doubtful_to: int, began: float) -> Callable[[StoredEvent], bool]:
        """Which events an application may have been given before: those up to a number, those that were sent
        to another archive first, and those that another replica may have given the subscriber, whose session
        here began at the time `began`.

        This is asked whenever events are sent, not once when the session begins. The other replica may have
        served the subscriber before the session, and this archive may meet that replica, and get its events,
        only during the session."""
        resent, elsewhere_until = self._inventory.resent, min(began, self._table.shared_until)
        return lambda event: (
            event.sequence <= doubtful_to
            or event.time <= elsewhere_until
            or resent.covers(event.publisher, event.catenation)
        )

    def send(
        self,
        to: Contact,
        name: str,
        session: bytes,
        offers: Iterable[_Offer],
        is_doubtful: Callable[[StoredEvent], bool],
    ) -> None:
        """Send a session of an entity events, or the ids of events; those next to each other in one block."""
        world = self._world
        config = world.config
        for batch in batches(offers, lambda offer: len(offer[2]), config.batch_bytes, config.batch):
            streams: dict[bytes, int] = {}
            items: list[tuple[int, int, int, int, bytes, bool]] = []
            doubts = [is_doubtful(offer[0]) for offer in batch]
            at = 0
            for length in _runs(batch, doubts):
                for count, block in self._joined(batch[at : at + length]):
                    event, previous, _ = batch[at]
                    place = streams.setdefault(event.publisher, len(streams))
                    row = (event.sequence, previous, place, event.catenation, block, doubts[at])
                    items.append(row)
                    at += count
            world.context.send(to, Notice(world.topic, name, session, tuple(streams), tuple(items)))
            self.sent += len(batch)

    def _joined(self, offers: Sequence[_Offer]) -> Sequence[tuple[int, bytes]]:
        """The blocks, or joined ids, of offers whose numbers follow each other; made once for all."""
        first, last = offers[0], offers[-1]
        is_whole = first[2] is first[0].body
        key = (first[0].sequence, last[0].sequence, is_whole)
        joined = self._blocks.get(key)
        if joined is None:
            sent = [offer[2] for offer in offers]
            joined = tuple(join(sent) if is_whole else join_ids(sent))
            remember(self._blocks, key, joined, MOST_BLOCKS)
        return joined

    # Invoices.

    def receive_invoice(
        self, sender: Contact, invoice: Invoice, entity: EntityDissemination | None
    ) -> None:
        """`entity`: the one that the invoice names, if it is registered."""
        session = None if entity is None else entity.session
        sharing = None if entity is None else entity.sharing
        if sharing is not None and sharing.receive_invoice(sender, invoice):
            return
        if entity is None or session is None or session.id != invoice.session:
            self.refuse(sender, invoice.entity, invoice.session, REGISTER_AGAIN)
            return
        session.contact = sender
        session.heard_at = self._world.context.now()
        session.acknowledge(invoice.received)
        if invoice.missing:
            self._send_again(entity, session, invoice.missing)
        if invoice.unnumbered:
            self._tell_numbers(entity, session, invoice.unnumbered[: self._world.config.batch])
        advanced = entity.advance()
        done = entity.finish(invoice.done if session.ordered else session.sync)
        if done:
            self._on_change(entity)
        self._heard_of_gaps(entity, invoice)
        if invoice.leaving:
            entity.session = None
        if advanced or done:
            self._persist_progress(entity)
        else:
            self.respond(entity)
        self.push(entity)

    def _send_again(
        self,
        entity: EntityDissemination,
        session: SubscriberSession,
        missing: Iterable[tuple[int, int]],
    ) -> None:
        wanted, config = Numbers(spans=missing), self._world.config
        numbers = [one for one in session.outstanding if one in wanted][: config.window]

        def send(again: list[StoredEvent]) -> None:
            if entity.session is session:
                self._send(entity, session, [(event, 0, event.body) for event in again])

        if numbers:
            self._inventory.read(numbers, config.window_bytes, send)

    def _tell_numbers(
        self, entity: EntityDissemination, session: SubscriberSession, ids: Sequence[bytes]
    ) -> None:
        """Tell the numbers of events that a subscriber names by their ids, as far as it was to be told."""
        topic, ids = self._world.topic, [id for id in ids if len(id) == ID_BYTES]

        def tell(numbers: dict[bytes, int]) -> None:
            told = sorted(number for number in numbers.values() if number in session.outstanding)
            if told and entity.session is session:
                self._inventory.read(told, self._world.config.window_bytes, send)

        def send(events: list[StoredEvent]) -> None:
            if entity.session is session:
                self._send(entity, session, [(event, 0, event.id) for event in events])

        self._world.read(lambda store: store.sequences(topic, ids), tell)

    def _persist_progress(self, entity: EntityDissemination) -> None:
        """Make the sync point safe; then, and not before, tell the subscriber."""
        topic, sync = self._world.topic, entity.sync
        changes: list[Change] = []
        if entity.done > 0:
            changes.append(AdvanceSync(topic, entity.name, entity.done))
        if sync > entity.done:
            changes.append(Note(topic, SYNC + entity.name, str(sync).encode()))

        def safe() -> None:
            entity.granted = max(entity.granted, sync)
            self.respond(entity)

        self._world.commit(changes, safe)

    def _heard_of_gaps(self, entity: EntityDissemination, invoice: Invoice) -> None:
        """Forget the gaps of an entity once it has heard of all that there are."""
        if not invoice.gaps or entity.dropping:
            return
        gaps = self.gaps(entity)
        if gaps and all(gap in invoice.gaps for gap in gaps):
            told = GapsTold(self._world.topic, entity.name, max(last for _, last in gaps))
            self._world.commit([told], lambda: None)

    def gaps(self, entity: EntityDissemination) -> Spans:
        known = self._world.store.entity(self._world.topic, entity.name)
        return () if known is None else tuple((g.span.first, g.span.last) for g in known.gaps)

    def respond(self, entity: EntityDissemination) -> None:
        """Tell a subscriber where it stands."""
        session = entity.session
        if session is None:
            return
        last = session.previous if self.is_quiet(session.notified_at) else session.acknowledged_to
        missing = session.missing(last)
        self.tell(session.contact, entity, session.id, entity.told_sync, session.previous, missing)

    def is_quiet(self, notified_at: float) -> bool:
        """Whether whatever was not acknowledged since this time counts as missed."""
        world = self._world
        return world.context.now() - notified_at >= QUIET * world.config.grace

    def tell(
        self,
        to: Contact,
        entity: EntityDissemination,
        session: bytes,
        sync: int,
        highest: int,
        missing: Spans,
    ) -> None:
        """Tell a session of an entity where it stands."""
        world = self._world
        response = AckResponse(
            world.topic,
            entity.name,
            session,
            world.replica,
            entity.epoch,
            sync,
            highest,
            missing,
            self.gaps(entity),
            entity.began,
            "",
            self._here.floor,
        )
        world.context.send(to, response)


def _runs(offers: Sequence[_Offer], doubts: Sequence[bool]) -> Iterator[int]:
    """How many of the offers follow each other in every number, from the first one on, and so forth."""
    start = 0
    for at in range(1, len(offers) + 1):
        if at < len(offers):
            (event, previous, sent), (before, _, sent_before) = offers[at], offers[at - 1]
            if (
                event.sequence == before.sequence + 1
                and previous in (before.sequence, 0)
                and event.catenation == before.catenation + 1
                and event.publisher == before.publisher
                and (sent is event.body) == (sent_before is before.body)
                and doubts[at] == doubts[start]
            ):
                continue
        yield at - start
        start = at
