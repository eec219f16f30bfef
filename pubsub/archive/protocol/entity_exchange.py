"""Entity updates between replicas (sections 9.3 and 9.7): registrations, removals, and how far applications
are.

What an application is done with is told as a frontier, which means the same at every replica. While it gets
on, others are told what it got done with since. All of it is told as the difference to what the replica has,
which is told once for all entities: most are done with nearly all of that. Updates are numbered, so that a
replica notices when it has missed one, and asks for everything. A long update is cut into pages by bytes, and
counts when all of its pages have come. A name that was removed is told as such for a while
(`pubsub.archive.protocol.forgetting`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from overlay.contact import Contact
from overlay.context import OneTimer
from overlay.wire import WireError
from pubsub.archive.protocol.covering import Covering
from pubsub.archive.protocol.dissemination import EntityDissemination, Interest, is_entity_name
from pubsub.archive.protocol.entities import Entities
from pubsub.archive.protocol.frontier import ComparedFrontier, Frontier, Marks
from pubsub.archive.protocol.inventory import Inventory
from pubsub.archive.protocol.messages import MARK_BYTES, EntityUpdates, ReplicaInfo, mark_size
from pubsub.archive.protocol.replica_table import ReplicaPeer, ReplicaTable
from pubsub.archive.protocol.world import ArchiveWorld
from pubsub.archive.store.store import Store
from pubsub.reliable.batches import batches

Update = tuple[str, bytes, bool, bool, Marks, float, float]

NUMBER_BITS = 48

SOON = 0.02
"""Seconds that registrations and removals gather before they are sent."""

LATER = 0.25
"""Seconds that progress gathers. Should the archive and the subscriber crash within them, what the
application got done with meanwhile comes again, marked."""

AHEAD = 86400.0
"""Seconds that another replica's clock may be ahead of this one's; what is said to have happened later is
not believed."""

MOST_PAGES = 1 << 16

MOST_GATHERED = 4
"""Updates of one replica of which some pages have come."""


@dataclass(slots=True)
class _Told:
    """What others are to be told of an entity."""

    entity: EntityDissemination
    done: int
    progress: Frontier | None
    """What its application got done with since they were told; None to tell them all of it."""
    covered: Frontier = field(default_factory=Frontier)


class EntityExchange:
    """A core; `changed` is called for everything that others should hear of."""

    def __init__(
        self, world: ArchiveWorld, inventory: Inventory, here: ComparedFrontier, table: ReplicaTable
    ) -> None:
        self._world = world
        self._inventory = inventory
        self._here = here
        self._table = table
        self.entities: Entities
        self.covering: Covering
        self.number = world.context.random.getrandbits(NUMBER_BITS)
        """The number of the last update that was sent; each life begins somewhere, so that nobody takes an
        update of one for that of another."""
        self._vital = self.number
        """The number of the last update that told of a registration or a removal."""
        self._sendings = 0
        self._changed: dict[str, EntityDissemination] = {}
        self._gone: dict[str, None] = {}
        self._soon = OneTimer(world.context.call_later, self._tell)
        self._later = OneTimer(world.context.call_later, self._tell)

    def close(self) -> None:
        self._soon.close()
        self._later.close()

    # Telling.

    def changed(self, entity: EntityDissemination) -> None:
        """An entity has been registered, or its application got on."""
        if not len(self._table):
            entity.progress = Frontier()
            return
        self._gone.pop(entity.name, None)
        self._changed[entity.name] = entity
        if entity.is_known_elsewhere:
            self._later.set(LATER)
        else:
            self._soon.set(SOON)

    def removed(self, name: str) -> None:
        self._changed.pop(name, None)
        if len(self._table):
            self._gone[name] = None
            self._soon.set(SOON)

    def is_told(self, peer: ReplicaPeer) -> bool:
        """Whether a replica has heard of every registration and removal here."""
        vital = self._gone or any(not one.is_known_elsewhere for one in self._changed.values())
        return not vital and self._vital <= peer.heard_updates <= self.number

    def flush(self) -> None:
        """Tell now what would be told in a moment."""
        if self._changed or self._gone:
            self._tell()

    def _tell(self) -> None:
        self._soon.cancel()
        self._later.cancel()
        self.number += 1
        tombstones = self.entities.tombstones
        gone = [_removal(name, tombstones.time(name)) for name in self._gone]
        told: list[_Told] = []
        for entity in self._changed.values():
            if entity.is_known_elsewhere:
                told.append(_Told(entity, entity.done, entity.progress))
            else:
                told.append(_Told(entity, entity.done, None, Frontier(entity.covered.marks())))
            entity.progress = Frontier()
        if gone or any(one.progress is None for one in told):
            self._vital = self.number
        for one in told:
            one.entity.is_known_elsewhere = True
        self._gone, self._changed = {}, {}
        for peer in list(self._table.peers.values()):
            self._send_all(peer, gone, told, full=False)

    def _send_all(
        self, peer: ReplicaPeer, gone: list[Update], told: list[_Told], *, full: bool
    ) -> None:
        """Look up what entities that lag behind have not had, and send it all."""
        number = self.number
        base = self._here.marks() if any(one.progress is None for one in told) else ()
        highest, topic = self._inventory.highest, self._world.topic
        self._leave_out_unknown(told)
        behind = {one.done for one in told if one.progress is None and one.done < highest}
        forked = self._here.forked_streams() if behind else ()

        def lacking(store: Store) -> dict[int, dict[bytes, int]]:
            return {done: store.firsts_above(topic, done) for done in behind}

        def send(lacks: dict[int, dict[bytes, int]]) -> None:
            rows, by_stream = [*gone], dict(base)
            for one in told:
                lacked = lacks.get(one.done, {}) | dict.fromkeys(
                    forked if one.done in behind else (), 0
                )
                rows += self._rows(one, lacked, by_stream)
            self._send_pages(peer, number, base, rows, full)

        if behind:
            self._world.read(lacking, send)
        else:
            send({})

    def _leave_out_unknown(self, told: list[_Told]) -> None:
        """What is damaged here, or was removed before an application had it, may be what that is yet to have:
        only what others said is told of it then."""
        store, topic = self._world.store, self._world.topic
        damaged = [span.last for span in self._world.damaged()]
        for one in told:
            known = store.entity(topic, one.entity.name)
            has_gaps = known is not None and known.gaps
            if one.progress is None and (has_gaps or one.done < max(damaged, default=0)):
                one.progress = one.covered

    def _rows(
        self, told: _Told, lacks: dict[bytes, int], base: Mapping[bytes, int]
    ) -> Iterator[Update]:
        """An entity's rows: more than one where its marks have many bytes. `lacks`: the first events, by
        stream, that its application is not done with; 0 where that is not known, as the stream's events may
        be here in another one."""
        if told.progress is not None:
            marks, is_on_base = told.progress.marks(), False
        else:
            exceptions = {
                stream: mark for stream, mark in told.covered if mark > base.get(stream, 0)
            }
            for stream, first in lacks.items():
                mark = max(first - 1, told.covered.get(stream))
                if mark < base.get(stream, 0):
                    exceptions[stream] = mark
            marks, is_on_base = tuple(exceptions.items()), True
        entity = told.entity
        packed = entity.interest.packed()
        parts: Iterable[list[tuple[bytes, int]]] = batches(
            marks, mark_size, self._world.config.batch_bytes // 2
        )
        for part in list(parts) or [[]]:
            yield (
                entity.name,
                packed,
                False,
                is_on_base,
                tuple(part),
                entity.registered,
                entity.revised,
            )

    def _send_pages(
        self, peer: ReplicaPeer, number: int, base: Marks, rows: list[Update], full: bool
    ) -> None:
        world, most = self._world, self._world.config.batch_bytes
        self._sendings += 1
        pages: list[tuple[Marks, tuple[Update, ...]]] = [
            (tuple(part), ()) for part in batches(base, mark_size, most)
        ]
        pages += [((), tuple(part)) for part in batches(rows, _size_of, most)]
        for page, (marks, updates) in enumerate(pages or [((), ())]):
            place = (number, self._sendings, page, max(len(pages), 1))
            message = EntityUpdates(world.topic, world.replica, *place, marks, updates, full)
            world.context.send(peer.contact, message)

    # Hearing.

    def met(self, peer: ReplicaPeer, info: ReplicaInfo, is_new: bool) -> None:
        """A sign of life: does the replica know of updates that did not come?"""
        if is_new or info.updates != peer.updates:
            world = self._world
            question = EntityUpdates(world.topic, world.replica, wanted=True)
            world.context.send(peer.contact, question)

    def receive(self, sender: Contact, message: EntityUpdates) -> None:
        peer = self._table.peers.get(message.replica)
        if peer is None:
            return
        if message.wanted:
            gone = [_removal(*tombstone) for tombstone in self.entities.tombstones]
            told = [
                _Told(one, one.done, None, Frontier(one.covered.marks()))
                for one in self.entities.all.values()
            ]
            self._send_all(peer, gone, told, full=True)
            return
        pages = self._gather(peer, message)
        if pages is None:
            return
        self._take(pages)
        if message.full or message.number == peer.updates + 1:
            peer.updates = message.number

    def _gather(self, peer: ReplicaPeer, message: EntityUpdates) -> list[EntityUpdates] | None:
        """All pages of an update, once they are there; the rest of some earlier ones is forgotten."""
        if message.pages == 1:
            return [message]
        if not 0 <= message.page < message.pages <= MOST_PAGES:
            self._world.count_drop("malformed_entity_update")
            return None
        key = (message.number, message.sending, message.pages)
        pages = peer.pages.setdefault(key, {})
        pages[message.page] = message
        if len(pages) == message.pages:
            del peer.pages[key]
            return [pages[page] for page in sorted(pages)]
        while len(peer.pages) > MOST_GATHERED:
            del peer.pages[next(iter(peer.pages))]
        return None

    def _take(self, pages: list[EntityUpdates]) -> None:
        base = tuple(mark for page in pages for mark in page.base)
        rows: dict[str, Update] = {}
        for update in (one for page in pages for one in page.updates):
            name, marks = update[0], update[4]
            if name in rows:
                marks = (*rows[name][4], *marks)
            rows[name] = (*update[:4], marks, *update[5:])
        for row in rows.values():
            self._update(row, base)

    def _update(self, update: Update, base: Marks) -> None:
        name, packed, gone, is_on_base, marks, time, revised = update
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
        if is_on_base:
            exceptions = dict(marks)
            covered = [mark for mark in base if mark[0] not in exceptions]
            marks = (*covered, *((stream, mark) for stream, mark in marks if mark))
        if entity is None:
            self.covering.adopt(name, interest, marks, time, revised)
        else:
            self.covering.cover(entity, interest, marks, time, revised)

    def _remove(self, name: str, time: float) -> None:
        """A name was removed at another replica, unless it has been registered again since."""
        entity = self.entities.all.get(name)
        if entity is not None and entity.registered > time:
            return
        if entity is not None or not self.entities.tombstones.is_removed(name, time):
            self.entities.remove(name, time, lambda: None)


def _removal(name: str, time: float) -> Update:
    return name, b"", True, False, (), time, time


def _size_of(update: Update) -> int:
    name, interest, _, _, marks, *_ = update
    return 4 * len(name) + len(interest) + MARK_BYTES * len(marks) + 40
