"""Several consumers of one durable name share its events: each event is given to one of them.

A consumer has at most `SHARE` events that it is not done with; the consumer that has fewest gets the next
one. It acknowledges each when its application is done with it, in any order. What a consumer has that leaves,
or is not heard of for `DurableConfig.patience` seconds, goes to the others, marked as doubtful. No order is
kept.

The consumers of a name have to be at one archive, or each would be given everything. So of several replicas
that are in touch the one with the lowest name serves shared names, and sends consumers away when a lower
one comes back. While replicas are out of touch, and when consumers go from one to another, events may be
given twice; those are marked.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import takewhile
from typing import TYPE_CHECKING

from overlay.contact import Contact
from pubsub.archive.protocol.dissemination import EntityDissemination
from pubsub.archive.protocol.inventory import Inventory, Page
from pubsub.archive.protocol.messages import MOVED, Invoice
from pubsub.archive.protocol.world import ArchiveWorld
from pubsub.archive.store.changes import AdvanceSync, StoredEvent
from pubsub.reliable.numbers import Numbers, spans_of

if TYPE_CHECKING:
    from pubsub.archive.protocol.notifier import Notifier

SHARE = 64
"""Events that one consumer has and is not done with."""


@dataclass(slots=True)
class Consumer:
    """One of those who share a name; `id` is its session."""

    id: bytes
    contact: Contact
    heard_at: float
    notified_at: float = 0.0
    previous: int = 0
    """The last number that it was notified of."""
    assigned: dict[int, None] = field(default_factory=dict)
    """Numbers of the events that it has and is not done with."""


class SharedName:
    """The consumers of one durable name at one archive; a core."""

    def __init__(
        self,
        world: ArchiveWorld,
        inventory: Inventory,
        notifier: Notifier,
        entity: EntityDissemination,
        *,
        began: float,
        on_change: Callable[[EntityDissemination], None],
    ) -> None:
        """`began`: the time when this archive began to serve the name, by the replica's clock that is
        furthest ahead. `on_change`: others should hear of the name."""
        self._world = world
        self._inventory = inventory
        self._notifier = notifier
        self._entity = entity
        self._on_change = on_change
        self._doubtful_to = entity.sync
        self._began = began
        self.consumers: dict[bytes, Consumer] = {}
        self._cursor = entity.done
        self._given: dict[int, tuple[bytes, int]] = {}
        """Stream and catenation number of events above `done` that were given to anybody, in order."""
        self._outstanding: dict[int, None] = {}
        """The given events that no consumer is done with, in order."""
        self._returned: dict[int, None] = {}
        """The given events that no consumer has now."""
        self._is_reading = False
        self._is_pushing = False

    # Who is there.

    def register(self, sender: Contact, session: bytes) -> None:
        consumer = self.consumers.get(session)
        now = self._world.context.now()
        if consumer is None:
            consumer = self.consumers[session] = Consumer(session, sender, now)
        consumer.contact, consumer.heard_at = sender, now
        self._respond(consumer)
        self.push()

    def drop_silent(self) -> None:
        """What silent consumers had goes to the others."""
        before = self._world.context.now() - self._world.config.patience
        for consumer in [one for one in self.consumers.values() if one.heard_at <= before]:
            self._remove(consumer)

    def send_away(self) -> None:
        """Have every consumer find another archive."""
        for consumer in self.consumers.values():
            self._notifier.refuse(consumer.contact, self._entity.name, consumer.id, MOVED)
        self.consumers = {}

    def _remove(self, consumer: Consumer) -> None:
        del self.consumers[consumer.id]
        self._returned.update(consumer.assigned)

    # What they say.

    def receive_invoice(self, sender: Contact, invoice: Invoice) -> bool:
        """Whether the invoice is of one of the consumers."""
        consumer = self.consumers.get(invoice.session)
        if consumer is None:
            return False
        consumer.contact, consumer.heard_at = sender, self._world.context.now()
        received = Numbers(spans=invoice.received)
        for number in [one for one in consumer.assigned if one in received]:
            del consumer.assigned[number]
            self._outstanding.pop(number, None)
        if invoice.missing:
            missing = Numbers(spans=invoice.missing)
            self._send_again(consumer, [one for one in consumer.assigned if one in missing])
        if invoice.leaving:
            self._remove(consumer)
        if not self._advance():
            self._respond(consumer)
        self.push()
        return True

    def _advance(self) -> bool:
        """Note on stable storage what all before which is done with; whether there is news."""
        entity = self._entity
        done = next(iter(self._outstanding)) - 1 if self._outstanding else self._cursor
        if done <= entity.done:
            return False
        entity.done, entity.sync, entity.is_waiting = done, max(entity.sync, done), False
        for number in list(takewhile(lambda one: one <= done, self._given)):
            entity.progress.raise_to(*self._given.pop(number))
        self._on_change(entity)

        def safe() -> None:
            entity.granted = max(entity.granted, done)
            for consumer in self.consumers.values():
                self._respond(consumer)

        self._world.commit([AdvanceSync(self._world.topic, entity.name, done)], safe)
        return True

    # Giving events out.

    def push(self) -> None:
        """Give out what is next, as far as consumers have room: first what came back."""
        self.drop_silent()
        self._is_pushing = True
        returned = -1
        while not self._is_reading and self._room():
            if self._returned and len(self._returned) != returned:
                returned = len(self._returned)
                numbers = sorted(self._returned)[: self._room()]
                self._is_reading = True
                self._inventory.read(numbers, self._world.config.window_bytes, self._give_again)
            elif not self._give_next():
                break
        self._is_pushing = False

    def _give_next(self) -> bool:
        """Give out events that nobody has had; whether there may be more at once."""
        limit = min(self._room(), self._world.config.batch)
        page = self._inventory.recent(self._cursor, limit)
        if page is not None:
            return self._give(page)
        if self._cursor < self._inventory.highest:
            self._is_reading = True
            self._inventory.after(self._cursor, limit, self._read)
        return False

    def _room(self) -> int:
        return sum(SHARE - len(one.assigned) for one in self.consumers.values())

    def _read(self, page: Page) -> None:
        self._is_reading = False
        if self._give(page) and not self._is_pushing:
            self.push()

    def _give(self, page: Page) -> bool:
        """Whether the page brought anything, for the name or not."""
        events, end = page
        if end <= self._cursor:
            return False
        new = [event for event in events if self._notifier.is_for(self._entity, event)]
        for event in new:
            self._given[event.sequence] = (event.publisher, event.catenation)
            self._outstanding[event.sequence] = None
        self._cursor = end
        self._assign(new, is_again=False)
        if not self._outstanding:
            self._advance()  # over events that are not for the name
        return True

    def _give_again(self, events: list[StoredEvent]) -> None:
        self._is_reading = False
        for event in events:
            self._returned.pop(event.sequence, None)
        self._assign(events, is_again=True)
        if events and not self._is_pushing:
            self.push()

    def _assign(self, events: list[StoredEvent], *, is_again: bool) -> None:
        """Give each event to the consumer that has fewest."""
        shares: dict[bytes, list[StoredEvent]] = {}
        for event in events:
            if not self.consumers:
                self._returned[event.sequence] = None
                continue
            consumer = min(self.consumers.values(), key=lambda one: len(one.assigned))
            consumer.assigned[event.sequence] = None
            shares.setdefault(consumer.id, []).append(event)
        for id, some in shares.items():
            self._send(self.consumers[id], some, is_again=is_again)

    def _send_again(self, consumer: Consumer, numbers: list[int]) -> None:
        def send(events: list[StoredEvent]) -> None:
            if self.consumers.get(consumer.id) is consumer:
                self._send(consumer, events, is_again=False)

        if numbers:
            self._inventory.read(numbers, self._world.config.window_bytes, send)

    def _send(self, consumer: Consumer, events: list[StoredEvent], *, is_again: bool) -> None:
        offers = [(event, 0, event.body) for event in events]
        doubts = self._notifier.doubts(self._doubtful_to, self._began)
        is_doubtful = (lambda event: True) if is_again else doubts
        self._notifier.send(consumer.contact, self._entity.name, consumer.id, offers, is_doubtful)
        consumer.previous = max(consumer.previous, *(event.sequence for event in events))
        consumer.notified_at = self._world.context.now()

    def _respond(self, consumer: Consumer) -> None:
        """Tell a consumer where the name stands, and what it should have."""
        entity = self._entity
        is_quiet = self._notifier.is_quiet(consumer.notified_at)
        missing = spans_of(sorted(consumer.assigned)) if is_quiet else ()
        sync = min(entity.granted, entity.done)
        self._notifier.tell(consumer.contact, entity, consumer.id, sync, consumer.previous, missing)
