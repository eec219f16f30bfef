"""Entity updates between replicas (sections 9.3 and 9.7): registrations, removals, and how far applications
are.

What an application is done with is told as a frontier, which means the same at every replica. Updates are
numbered, so that a replica notices when it has missed one, and asks for everything.
"""

from __future__ import annotations

from collections.abc import Callable

from overlay.contact import Contact
from overlay.context import Timer
from overlay.wire import WireError
from pubsub.archive.protocol.dissemination import Dissemination
from pubsub.archive.protocol.entities import Entities, is_entity_name
from pubsub.archive.protocol.frontier import Frontier
from pubsub.archive.protocol.interest import Interest
from pubsub.archive.protocol.inventory import Inventory
from pubsub.archive.protocol.messages import EntityUpdates, Marks, ReplicaInfo
from pubsub.archive.protocol.replica_table import Peer, ReplicaTable
from pubsub.archive.protocol.world import ArchiveWorld
from pubsub.archive.store.sequence_ranges import Span

SOON = 0.02
"""Seconds that updates gather before they are sent."""

PAGE = 256
"""Entities in one message."""

PROBES = 64
"""Events that are looked for one by one; beyond, the beginning of the stream is taken to be removed."""


class EntityExchange:
    """A core; `changed` is called for everything that others should hear of."""

    def __init__(
        self,
        world: ArchiveWorld,
        inventory: Inventory,
        here: Frontier,
        table: Callable[[], ReplicaTable],
    ) -> None:
        self._world = world
        self._inventory = inventory
        self._here = here
        self._table = table
        self.entities: Entities
        self.number = 0
        """Of the last update that was sent in this life."""
        self._changed: dict[str, Dissemination] = {}
        self._gone: dict[str, None] = {}
        self._timer: Timer | None = None

    def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()

    # Telling.

    def changed(self, entity: Dissemination, gone: bool) -> None:
        if not len(self._table()):
            entity.progress = Frontier()
            return
        if gone:
            self._changed.pop(entity.name, None)
            self._gone[entity.name] = None
        else:
            self._gone.pop(entity.name, None)
            self._changed[entity.name] = entity
        if self._timer is None:
            self._timer = self._world.context.call_later(SOON, self._tell)

    def refresh(self) -> None:
        """Now and then, tell others everything that applications are done with, and not only events that were
        for them: so others, too, know that nobody waits for the rest."""
        for entity in self.entities.all.values():
            if entity.session is not None and entity.done > entity.told_done:
                entity.told_done = entity.done
                entity.is_known_elsewhere = False
                self.changed(entity, False)

    def _tell(self) -> None:
        self._timer = None
        updates: list[tuple[str, bytes, bool, Marks]] = []
        updates += [(name, b"", True, ()) for name in self._gone]
        for entity in self._changed.values():
            marks = entity.progress.marks() if entity.is_known_elsewhere else self.marks(entity)
            entity.is_known_elsewhere = True
            entity.progress = Frontier()
            updates.append((entity.name, entity.interest.packed(), False, marks))
        self._gone, self._changed = {}, {}
        self.number += 1
        for peer in self._table().peers.values():
            self._send(peer, self.number, updates, full=False)

    def _send(
        self, peer: Peer, number: int, updates: list[tuple[str, bytes, bool, Marks]], full: bool
    ) -> None:
        world = self._world
        for start in range(0, max(len(updates), 1), PAGE):
            part = tuple(updates[start : start + PAGE])
            message = EntityUpdates(world.topic, world.replica, number, part, full, False)
            world.context.send(peer.contact, message)

    def marks(self, entity: Dissemination) -> Marks:
        """Everything that an entity's application is done with, whatever its profile."""
        if entity.done >= self._inventory.highest:
            return self._here.marks()
        marks = Frontier(entity.covered.marks())
        for stream, last in self._here:
            marks.raise_to(stream, self._catenation_at(stream, last, entity.done))
        return marks.marks()

    def _catenation_at(self, stream: bytes, last: int, sequence: int) -> int:
        """The stream's last event up to a sequence number, found by halving."""
        low, high = 0, last
        while low < high:
            middle = (low + high + 1) // 2
            found = self._sequence(stream, middle)
            if found is None or found <= sequence:  # one that is no longer kept is an old one
                low = middle
            else:
                high = middle - 1
        found = self._sequence(stream, low) if low else None
        return low if found is not None and found <= sequence else 0

    def _sequence(self, stream: bytes, catenation: int) -> int | None:
        """The number of an event here; None for one that is no longer kept."""
        span = Span(catenation, catenation)
        events = self._world.store.by_catenation(self._world.topic, stream, span)
        return events[0].sequence if events else None

    # Hearing.

    def met(self, peer: Peer, info: ReplicaInfo, is_new: bool) -> None:
        """A sign of life: does the replica know of updates that did not come?"""
        if is_new or info.updates != peer.updates:
            world = self._world
            question = EntityUpdates(world.topic, world.replica, 0, (), False, True)
            world.context.send(peer.contact, question)

    def receive(self, sender: Contact, message: EntityUpdates) -> None:
        peer = self._table().peers.get(message.replica)
        if peer is None:
            return
        if message.wanted:
            everything = [
                (one.name, one.interest.packed(), False, self.marks(one))
                for one in self.entities.all.values()
            ]
            self._send(peer, self.number, everything, full=True)
            return
        for name, packed, gone, marks in message.updates:
            self._update(name, packed, gone, marks)
        if message.full or message.number == peer.updates + 1:
            peer.updates = message.number

    def _update(self, name: str, packed: bytes, gone: bool, marks: Marks) -> None:
        entity = self.entities.all.get(name)
        if gone:
            if entity is not None:
                self.entities.remove(entity, lambda: None)
            return
        try:
            interest = Interest.unpack(packed)
        except WireError as error:
            self._world.count_drop(error.reason)
            return
        if entity is None and not is_entity_name(name):
            self._world.count_drop("no_entity_name")
        elif entity is None:
            self.entities.adopt(name, interest, Frontier(marks))
        else:
            self.entities.cover(entity, interest, marks)

    def first_uncovered(self, covered: Frontier) -> int:
        """The lowest number here of an event that is not covered; the next free one when there is none."""
        lowest = self._inventory.highest + 1
        for stream, last in self._here:
            number = self._first_kept(stream, covered.get(stream) + 1, last)
            if number is not None:
                lowest = min(lowest, number)
        return lowest

    def _first_kept(self, stream: bytes, first: int, last: int) -> int | None:
        """The number of the first event of a stream, from a catenation number on, that is kept."""
        probed = min(first + PROBES - 1, last)
        for catenation in range(first, probed + 1):
            number = self._sequence(stream, catenation)
            if number is not None:
                return number
        low, high = probed + 1, last
        while low < high:
            middle = (low + high) // 2
            if self._sequence(stream, middle) is None:
                low = middle + 1
            else:
                high = middle
        return self._sequence(stream, low) if low <= last else None
