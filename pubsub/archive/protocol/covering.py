"""What other replicas say of durable names, and how it becomes this archive's own numbers (section 9.7).

What an application is done with elsewhere comes as catenation numbers, which mean the same at every replica:
it is *covered*. While nobody is served here, the next events of this archive that are covered, or are not for
the entity, are passed over, and the sync point follows.
"""

from __future__ import annotations

from functools import partial

from pubsub.archive.protocol.dissemination import EntityDissemination, Interest
from pubsub.archive.protocol.entities import COVERED, Entities
from pubsub.archive.protocol.frontier import Frontier, Marks
from pubsub.archive.protocol.inventory import Inventory, Page
from pubsub.archive.protocol.world import ArchiveWorld
from pubsub.archive.store.changes import AdvanceSync, Note

AT_ONCE = 256
"""Events that are looked at together to see which of them an entity is done with."""


class Covering:
    """Of all durable subscribers of one managed topic."""

    def __init__(
        self, world: ArchiveWorld, inventory: Inventory, here: Frontier, entities: Entities
    ) -> None:
        """`here`: what is on stable storage here."""
        self._world = world
        self._inventory = inventory
        self._here = here
        self._entities = entities

    def adopt(
        self, name: str, interest: Interest, marks: Marks, registered: float, revised: float
    ) -> None:
        """An entity has been registered at another replica, at this time. Nothing is kept from it meanwhile:
        it is known at once, as one that is to have everything."""
        number, topic = self._inventory.number(), self._world.topic
        entity = EntityDissemination(
            name, interest, 0, number, registered=registered, began=registered, revised=revised
        )
        entity.cover(marks)
        entity.covered.forget(self._here.floor)
        entity.is_known_elsewhere = True
        self._entities.all[name] = entity
        self._entities.registering[name] = None
        covered = dict(entity.covered)

        def adopted() -> None:
            self._inventory.raise_highest(number)
            self._entities.registering.pop(name, None)
            if self._entities.all.get(name) is entity and entity.serving is None:
                self._world.read(lambda store: store.first_beyond(topic, covered), looked)

        def looked(first: int) -> None:
            if self._entities.all.get(name) is entity and entity.serving is None:
                known = [self._inventory.highest, *(s.first - 1 for s in self._inventory.damaged())]
                entity.done = max(entity.done, min(first - 1, *known))
                self._tidy(entity)

        changes = self._entities.registration(entity, number)
        changes.append(Note(topic, COVERED + name, entity.covered.packed()))
        self._world.commit(changes, adopted)

    def cover(
        self,
        entity: EntityDissemination,
        interest: Interest,
        marks: Marks,
        registered: float,
        revised: float,
    ) -> None:
        """Another replica says what an entity asks for and what its application is done with.

        A replica that was away may bring back an earlier interest: the one of the later revision counts, and
        of two at the same time the same one everywhere."""
        entity.cover(marks)
        entity.used_at = self._world.context.now()
        if registered > entity.registered:
            entity.registered = registered
            self._entities.keep(entity)
        theirs, ours = (revised, interest.packed()), (entity.revised, entity.interest.packed())
        if interest != entity.interest and theirs > ours:
            self._entities.revise(entity, interest, revised)

    def settle(self, entity: EntityDissemination, *, look: bool) -> None:
        """Turn what is covered into this archive's own numbers, as far as nobody is being served: pass over
        the next events that are covered or are not for the entity.

        `look`: also if nothing is covered anew. Another replica tells only of events that were for the
        entity, so that nothing is ever covered anew for one that selects none."""
        if entity.serving is not None or entity.is_settling:
            return
        if not entity.is_covered_anew and not (look and self._may_pass_over(entity)):
            return
        entity.is_covered_anew = False
        entity.is_settling = True
        self._pass_over(entity)

    def _may_pass_over(self, entity: EntityDissemination) -> bool:
        is_behind = entity.done < self._inventory.highest
        is_new = entity.name in self._entities.registering
        return is_behind and not (is_new or entity.is_waiting or self._inventory.damaged())

    def _pass_over(self, entity: EntityDissemination) -> None:
        page = self._inventory.recent(entity.done, AT_ONCE)
        if page is None:
            self._inventory.after(entity.done, AT_ONCE, partial(self._passed, entity))
        else:
            self._passed(entity, page)

    def _passed(self, entity: EntityDissemination, page: Page) -> None:
        if self._entities.all.get(entity.name) is not entity or entity.serving is not None:
            entity.is_settling, entity.is_covered_anew = False, True
            return
        events, end = page
        before = entity.done
        entity.is_waiting = False
        for event in events:
            if self._entities.notifier.is_for(entity, event):
                entity.is_waiting = True
                end = event.sequence - 1
                break
        entity.done = max(end, entity.done)
        if not events or end < events[-1].sequence or entity.done == before:
            self._tidy(entity)
        else:
            self._pass_over(entity)

    def _tidy(self, entity: EntityDissemination) -> None:
        """Drop what `done` says as well from what is covered, and write both down."""
        topic, done = self._world.topic, entity.done

        def tidy(firsts: dict[bytes, int]) -> None:
            for stream, mark in entity.covered.marks():
                if mark <= self._here.get(stream) and mark < firsts.get(stream, mark + 1):
                    entity.covered.drop(stream)
            entity.is_settling = False
            self._write_down(entity)

        if done >= self._inventory.highest:
            tidy({})
        elif self._inventory.damaged():  # it is not known of which streams
            entity.is_settling = False
            self._write_down(entity)
        else:
            self._world.read(lambda store: store.firsts_above(topic, done), tidy)

    def _write_down(self, entity: EntityDissemination) -> None:
        if self._entities.all.get(entity.name) is not entity:
            return
        topic, name = self._world.topic, entity.name
        entity.sync = max(entity.sync, entity.done)
        sync = entity.sync
        packed = entity.covered.packed() if len(entity.covered) else None

        def safe() -> None:
            entity.granted = max(entity.granted, sync)

        note = Note(topic, COVERED + name, packed)
        self._world.commit([AdvanceSync(topic, name, entity.done), note], safe)
