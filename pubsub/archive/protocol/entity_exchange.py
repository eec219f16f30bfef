"""Entity updates between replicas (sections 9.3 and 9.7): registrations, removals, and how far applications
are.

What an application is done with is told as a frontier, which means the same at every replica. Updates are
numbered, so that a replica notices when it has missed one, and asks for everything. A name that was removed
is told as such for a while (`pubsub.archive.protocol.tombstones`).
"""

from __future__ import annotations

from collections.abc import Callable

from overlay.contact import Contact
from overlay.context import Timer
from overlay.wire import WireError
from pubsub.archive.protocol.dissemination import Dissemination
from pubsub.archive.protocol.entities import Entities
from pubsub.archive.protocol.entity_name import is_entity_name
from pubsub.archive.protocol.frontier import Frontier
from pubsub.archive.protocol.interest import Interest
from pubsub.archive.protocol.inventory import Inventory
from pubsub.archive.protocol.messages import EntityUpdates, Marks, ReplicaInfo
from pubsub.archive.protocol.replica_table import Peer, ReplicaTable
from pubsub.archive.protocol.world import ArchiveWorld
from pubsub.reliable.numbers import Span

Update = tuple[str, bytes, bool, Marks, float, float]

NUMBER_BITS = 48

SOON = 0.02
"""Seconds that updates gather before they are sent."""

PAGE = 256
"""Entities in one message."""

AHEAD = 86400.0
"""Seconds that another replica's clock may be ahead of this one's; what is said to have happened later is
not believed."""

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
        self.number = world.context.random.getrandbits(NUMBER_BITS)
        """Of the last update that was sent; each life begins somewhere, so that nobody takes an update of one
        for that of another."""
        self._vital = self.number
        """Of the last one that told of a registration or a removal."""
        self._changed: dict[str, Dissemination] = {}
        self._gone: dict[str, None] = {}
        self._timer: Timer | None = None

    def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()

    # Telling.

    def changed(self, entity: Dissemination) -> None:
        """An entity has been registered, or its application got on."""
        if not len(self._table()):
            entity.progress = Frontier()
            return
        self._gone.pop(entity.name, None)
        self._changed[entity.name] = entity
        self._tell_soon()

    def removed(self, name: str) -> None:
        self._changed.pop(name, None)
        if len(self._table()):
            self._gone[name] = None
            self._tell_soon()

    def is_told(self, peer: Peer) -> bool:
        """Whether a replica has heard of every registration and removal here."""
        vital = self._gone or any(not one.is_known_elsewhere for one in self._changed.values())
        return not vital and self._vital <= peer.heard_updates <= self.number

    def flush(self) -> None:
        """Tell now what would be told in a moment."""
        if self._timer is not None:
            self._timer.cancel()
            self._tell()

    def _tell_soon(self) -> None:
        if self._timer is None:
            self._timer = self._world.context.call_later(SOON, self._tell)

    def refresh(self) -> None:
        """Now and then, tell others everything that applications are done with, and not only events that were
        for them: so others, too, know that nobody waits for the rest."""
        for entity in self.entities.all.values():
            if entity.session is not None and entity.done > entity.told_done:
                entity.told_done = entity.done
                entity.is_known_elsewhere = False
                self.changed(entity)

    def _tell(self) -> None:
        self._timer = None
        tombstones = self.entities.tombstones
        updates = [self._removal(name, tombstones.time(name)) for name in self._gone]
        self.number += 1
        if updates:
            self._vital = self.number
        for entity in self._changed.values():
            marks = entity.progress.marks()
            if not entity.is_known_elsewhere:
                marks, self._vital = self.marks(entity), self.number
            entity.is_known_elsewhere = True
            entity.progress = Frontier()
            updates.append(self._registration(entity, marks))
        self._gone, self._changed = {}, {}
        for peer in self._table().peers.values():
            self._send(peer, self.number, updates, full=False)

    @staticmethod
    def _removal(name: str, time: float) -> Update:
        return name, b"", True, (), time, time

    @staticmethod
    def _registration(entity: Dissemination, marks: Marks) -> Update:
        packed = entity.interest.packed()
        return entity.name, packed, False, marks, entity.registered, entity.revised

    def _send(self, peer: Peer, number: int, updates: list[Update], full: bool) -> None:
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
            everything = [self._removal(*tombstone) for tombstone in self.entities.tombstones]
            everything += [
                self._registration(one, self.marks(one)) for one in self.entities.all.values()
            ]
            self._send(peer, self.number, everything, full=True)
            return
        for update in message.updates:
            self._update(update)
        if message.full or message.number == peer.updates + 1:
            peer.updates = message.number

    def _update(self, update: Update) -> None:
        name, packed, gone, marks, time, revised = update
        if not is_entity_name(name) or not 0 <= max(time, revised) <= self._world.clock() + AHEAD:
            self._world.count_drop("malformed_entity_update")
            return
        if gone:
            self._remove(name, time)
            return
        if self.entities.tombstones.is_removed(name, time):
            return
        entity = self.entities.all.get(name)
        try:
            interest = Interest.unpack(packed)
        except WireError as error:
            self._world.count_drop(error.reason)
            return
        if entity is None:
            self.entities.adopt(name, interest, Frontier(marks), time, revised)
        else:
            self.entities.cover(entity, interest, marks, time, revised)

    def _remove(self, name: str, time: float) -> None:
        """A name was removed at another replica, unless it has been registered again since."""
        entity = self.entities.all.get(name)
        if entity is not None and entity.registered > time:
            return
        if entity is not None or not self.entities.tombstones.is_removed(name, time):
            self.entities.remove(name, time, lambda: None)

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
