"""Archival notifications, invoices and responses of one topic's registered entities (section 5).

Each advance of a sync point is on stable storage before the subscriber is told of it. Nothing is sent again
by itself: the subscriber hears in every response what the archive believes it lacks, and asks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from math import inf

from overlay.bounded import remember
from overlay.contact import Contact
from overlay.wire import WireError
from pubsub.archive.protocol.archived_event import join, join_ids, read_event
from pubsub.archive.protocol.config import GRACE
from pubsub.archive.protocol.dissemination import EntityDissemination, Serving, SubscriberSession
from pubsub.archive.protocol.frontier import Frontier
from pubsub.archive.protocol.inventory import Inventory, Page
from pubsub.archive.protocol.messages import (
    MOVED,
    REGISTER_AGAIN,
    TAKEN,
    AckResponse,
    GapRows,
    Invoice,
    Notice,
)
from pubsub.archive.protocol.replica_table import ReplicaTable
from pubsub.archive.protocol.world import ArchiveWorld
from pubsub.archive.store.changes import AdvanceSync, GapsTold, StoredEvent
from pubsub.event import ID_BYTES
from pubsub.reliable.batches import batches
from pubsub.reliable.numbers import Numbers

SHARE = 64
"""Events that one of several subscribers of a name has and is not done with."""

QUIET = 4
"""This many times the grace after the last notification, whatever was not acknowledged counts as missed;
until then only what lies before an acknowledged number does."""

MOST_BLOCKS = 16
"""Messages of events that are kept in memory for further entities."""

OnChange = Callable[[EntityDissemination], None]
"""Called with an entity that other replicas should hear of."""


_Offers = dict[bytes, tuple[int, list[StoredEvent]]]
"""By session: the number of the event before these that it was notified of, and events that are for it."""


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
        refusal = AckResponse(world.topic, name, session, world.replica, refused=why)
        world.context.send(to, refusal)

    def tell_displaced(self, to: Contact, entity: EntityDissemination, session: bytes) -> None:
        """Tell a subscriber that another one has taken its name over."""
        assert entity.serving is not None
        world, word = self._world, entity.serving.displaced[session]
        told = AckResponse(
            world.topic, entity.name, session, world.replica, refused=TAKEN, word=word
        )
        world.context.send(to, told)

    # Notifying.

    def push(self, entity: EntityDissemination) -> None:
        """Notify those who are there of what is next for the name, as far as they keep up: first of what came
        back."""
        serving = entity.serving
        if serving is None:
            return
        self._drop_silent(entity, serving)
        offers: _Offers = {}
        tried = -1
        while serving is entity.serving and not serving.is_reading and self._has_room(serving):
            if serving.returned and len(serving.returned) != tried:
                tried = len(serving.returned)
                self._give_again(entity, serving)
                continue
            limit = self._world.config.batch
            page = self._inventory.recent(serving.cursor, limit)
            if page is None:
                serving.is_reading = True
                self._inventory.after(serving.cursor, limit, partial(self._read, entity, serving))
            elif not self._offer(entity, serving, page, offers):
                break
        self._send_all(entity, serving, offers)

    def _drop_silent(self, entity: EntityDissemination, serving: Serving) -> None:
        """What subscribers have that are silent goes to the others; without others nobody is served."""
        if not serving.is_shared and serving.cursor >= self._inventory.highest:
            return
        before = self._world.context.now() - self._world.config.patience
        for session in [one for one in serving.sessions.values() if one.heard_at <= before]:
            self._leave(entity, serving, session)

    def _leave(
        self, entity: EntityDissemination, serving: Serving, session: SubscriberSession
    ) -> None:
        serving.leave(session)
        if not serving.is_shared:
            entity.end_serving()

    def _has_room(self, serving: Serving) -> bool:
        if serving.is_shared:
            return any(len(one.assigned) < SHARE for one in serving.sessions.values())
        config = self._world.config
        return len(serving.offered) < config.unread and serving.offered_bytes < config.window_bytes

    def _read(self, entity: EntityDissemination, serving: Serving, page: Page) -> None:
        """Events that are not in memory have come."""
        serving.is_reading = False
        if entity.serving is not serving:
            return
        offers: _Offers = {}
        moved = self._offer(entity, serving, page, offers)
        self._send_all(entity, serving, offers)
        if moved:
            self.push(entity)

    def _offer(
        self, entity: EntityDissemination, serving: Serving, page: Page, offers: _Offers
    ) -> bool:
        """Offer what is for the name, while there is room; whether the cursor has moved."""
        events, end = page
        most = self._world.config.window_bytes
        session: SubscriberSession | None = None
        some: list[StoredEvent] = []
        for event in events:
            is_full = serving.offered_bytes >= most
            if serving.is_shared:
                is_full = not self._has_room(serving)
            if is_full:
                end = event.sequence - 1
                break
            if self.is_for(entity, event):
                if session is None or serving.is_shared:
                    session = serving.session
                    some = offers.setdefault(session.id, (session.previous, []))[1]
                serving.offer(session, event)
                some.append(event)
        moved = end > serving.cursor
        serving.cursor = max(end, serving.cursor)
        return moved

    def _give_again(self, entity: EntityDissemination, serving: Serving) -> None:
        """Give those who are there the events of one who has left."""
        room = sum(SHARE - len(one.assigned) for one in serving.sessions.values())

        def give(events: list[StoredEvent]) -> None:
            serving.is_reading = False
            if entity.serving is not serving:
                return
            offers: _Offers = {}
            for event in events if serving.sessions else ():
                session = serving.offer_again(event)
                offers.setdefault(session.id, (0, []))[1].append(event)
            self._send_all(entity, serving, offers, again=True)
            if offers:
                self.push(entity)

        serving.is_reading = True
        numbers = sorted(serving.returned)[:room]
        self._inventory.read(numbers, self._world.config.window_bytes, give)

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

    def _send_all(
        self, entity: EntityDissemination, serving: Serving, offers: _Offers, *, again: bool = False
    ) -> None:
        """`again`: others have had them before."""
        for id, (before, events) in offers.items():
            if id in serving.sessions:
                session, previous = serving.sessions[id], None if serving.is_shared else before
                self._send(
                    entity, session, events, serving.whole_to, previous=previous, again=again
                )

    def _doubts(self, serving: Serving, events: Sequence[StoredEvent]) -> list[bool]:
        """Which events an application may have been given before: those up to a number, those that were sent
        to another archive first, and those that another replica may have given the subscriber, before it came
        here.

        This is asked whenever events are sent, not once when the session begins. The other replica may have
        served the subscriber before the session, and this archive may meet that replica, and get its events,
        only during the session."""
        doubtful_to, resent = serving.doubtful_to, self._inventory.resent
        elsewhere_until = min(serving.began, self._table.shared_until)
        are_some_resent = bool(resent)
        return [
            event.sequence <= doubtful_to
            or event.time <= elsewhere_until
            or (are_some_resent and resent.covers(event.publisher, event.catenation))
            for event in events
        ]

    def _send(
        self,
        entity: EntityDissemination,
        session: SubscriberSession,
        events: Sequence[StoredEvent],
        whole_to: float,
        *,
        previous: int | None = None,
        again: bool = False,
    ) -> None:
        """Send a subscriber events, and the ids of those with numbers above `whole_to`; those next to each
        other in one block. `previous`: the number of the event that it has to have before these, where it has
        to have any."""
        world, config = self._world, self._world.config
        assert entity.serving is not None
        doubts = [True] * len(events) if again else self._doubts(entity.serving, events)
        start = 0
        for part in _parts(events, whole_to, config.batch_bytes, config.batch):
            stop = start + len(part)
            streams, items = self._items(part, doubts[start:stop], whole_to, previous)
            notice = Notice(world.topic, entity.name, session.id, streams, items)
            world.context.send(session.contact, notice)
            self.sent += len(part)
            start = stop
            if previous is not None:
                previous = part[-1].sequence
        session.notified_at = world.context.now()

    def _items(
        self,
        events: Sequence[StoredEvent],
        doubts: Sequence[bool],
        whole_to: float,
        previous: int | None,
    ) -> tuple[tuple[bytes, ...], tuple[tuple[int, int, int, int, bytes, bool], ...]]:
        """The streams and the items of a `Notice` of these events."""
        streams: dict[bytes, int] = {}
        items: list[tuple[int, int, int, int, bytes, bool]] = []
        start = 0
        for length in _runs(events, doubts, whole_to):
            for count, block in self._joined(events[start : start + length], whole_to):
                first = events[start]
                place = streams.setdefault(first.publisher, len(streams))
                numbers = (first.sequence, previous or 0, place, first.catenation)
                items.append((*numbers, block, doubts[start]))
                start += count
                if previous is not None:
                    previous = events[start - 1].sequence
        return tuple(streams), tuple(items)

    def _joined(
        self, events: Sequence[StoredEvent], whole_to: float
    ) -> Sequence[tuple[int, bytes]]:
        """The blocks, or joined ids, of events whose numbers follow each other; made once for all."""
        first, last = events[0].sequence, events[-1].sequence
        is_whole = first <= whole_to
        key = (first, last, is_whole)
        joined = self._blocks.get(key)
        if joined is None:
            joined = tuple(
                join([one.body for one in events])
                if is_whole
                else join_ids([one.id for one in events])
            )
            remember(self._blocks, key, joined, MOST_BLOCKS)
        return joined

    # Invoices.

    def receive_invoice(
        self, sender: Contact, invoice: Invoice, entity: EntityDissemination | None
    ) -> None:
        """`entity`: the one that the invoice names, if it is registered."""
        serving = None if entity is None else entity.serving
        session = None if serving is None else serving.sessions.get(invoice.session)
        if entity is not None and serving is not None and invoice.session in serving.displaced:
            self.tell_displaced(sender, entity, invoice.session)
            return
        if entity is None or serving is None or session is None:
            self.refuse(sender, invoice.entity, invoice.session, REGISTER_AGAIN)
            return
        session.contact = sender
        session.heard_at = self._world.context.now()
        serving.acknowledge(session, invoice.received)
        if invoice.missing:
            wanted = Numbers(spans=invoice.missing)
            numbers = [one for one in session.assigned if one in wanted]
            self._send_numbers(entity, session, numbers[: self._world.config.window])
        if invoice.unnumbered:
            self._tell_numbers(entity, session, invoice.unnumbered[: self._world.config.batch])
        advanced = entity.advance()
        done = entity.finish(invoice.done if serving.ordered else serving.sync)
        if done:
            self._on_change(entity)
        self._heard_of_gaps(entity, invoice)
        if invoice.leaving:
            self._leave(entity, serving, session)
        if advanced or done:
            self._persist_progress(entity)
        elif not invoice.leaving:
            self.respond(entity, session)
        self.push(entity)

    def _send_numbers(
        self,
        entity: EntityDissemination,
        session: SubscriberSession,
        numbers: Sequence[int],
        *,
        whole: bool = True,
    ) -> None:
        """Send a subscriber events that it was notified of once more, or with their ids their numbers."""

        def send(events: list[StoredEvent]) -> None:
            serving = entity.serving
            if serving is not None and serving.sessions.get(session.id) is session:
                self._send(entity, session, events, inf if whole else 0)

        if numbers:
            self._inventory.read(numbers, self._world.config.window_bytes, send)

    def _tell_numbers(
        self, entity: EntityDissemination, session: SubscriberSession, ids: Sequence[bytes]
    ) -> None:
        """Tell the numbers of events that a subscriber names by their ids, as far as it was to be told."""
        topic, ids = self._world.topic, [id for id in ids if len(id) == ID_BYTES]

        def tell(numbers: dict[bytes, int]) -> None:
            told = sorted(number for number in numbers.values() if number in session.assigned)
            self._send_numbers(entity, session, told, whole=False)

        self._world.read(lambda store: store.sequences(topic, ids), tell)

    def _persist_progress(self, entity: EntityDissemination) -> None:
        """Make the sync point safe; then, and not before, tell the subscriber."""
        sync = entity.sync
        change = AdvanceSync(self._world.topic, entity.name, entity.done, sync)

        def safe() -> None:
            entity.granted = max(entity.granted, sync)
            for session in entity.serving.sessions.values() if entity.serving is not None else ():
                self.respond(entity, session)

        self._world.commit([change], safe)

    def _heard_of_gaps(self, entity: EntityDissemination, invoice: Invoice) -> None:
        """Forget the gaps of an entity once it has heard of all that there are."""
        if not invoice.gaps or entity.dropping:
            return
        gaps = self.gaps(entity)
        if gaps and all(gap in invoice.gaps for gap in gaps):
            self._world.commit([GapsTold(self._world.topic, entity.name)], lambda: None)

    def gaps(self, entity: EntityDissemination) -> GapRows:
        known = self._world.store.entity(self._world.topic, entity.name)
        gaps = () if known is None else known.gaps
        return tuple((gap.source, gap.first, gap.last, gap.reason) for gap in gaps)

    def respond(self, entity: EntityDissemination, session: SubscriberSession) -> None:
        """Tell a subscriber where it stands. Once it was quiet for a while, whatever was not acknowledged
        counts as missed."""
        world, serving = self._world, entity.serving
        assert serving is not None
        is_quiet = world.context.now() - session.notified_at >= QUIET * GRACE
        response = AckResponse(
            world.topic,
            entity.name,
            session.id,
            world.replica,
            min(serving.sync, entity.granted),
            session.previous,
            session.missing(session.previous if is_quiet else session.acknowledged_to),
            self.gaps(entity),
            entity.began,
            floor=self._here.floor,
        )
        world.context.send(session.contact, response)

    def send_away(self, entity: EntityDissemination) -> None:
        """Have those who are here find another archive."""
        if entity.serving is not None:
            for session in entity.serving.sessions.values():
                self.refuse(session.contact, entity.name, session.id, MOVED)
            entity.end_serving()


def _parts(
    events: Sequence[StoredEvent], whole_to: float, most_bytes: int, most: int
) -> Iterator[list[StoredEvent]]:
    """The events of one message after another."""
    if not events or events[0].sequence > whole_to:
        return batches(events, lambda event: ID_BYTES, most_bytes, most)
    return batches(events, lambda event: len(event.body), most_bytes, most)


def _runs(events: Sequence[StoredEvent], doubts: Sequence[bool], whole_to: float) -> Iterator[int]:
    """How many of the events follow each other in every number, from the first one on, and so forth."""
    start = 0
    for at in range(1, len(events)):
        event, before = events[at], events[at - 1]
        if (
            event.sequence != before.sequence + 1
            or event.catenation != before.catenation + 1
            or event.publisher != before.publisher
            or doubts[at] != doubts[start]
            or before.sequence == whole_to
        ):
            yield at - start
            start = at
    yield len(events) - start
