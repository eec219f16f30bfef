"""An archive's registered entities: registration, recovery, removal (sections 4.5 and 6).

A registration is on stable storage before the subscriber is told of it, and everything that is stored after
it is matched for it. `pubsub.archive.protocol.notifier` sends the events.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial

from overlay.contact import Contact
from overlay.errors import UsageError
from overlay.wire import WireError
from pubsub.archive.protocol.archived_event import read_event
from pubsub.archive.protocol.dissemination import (
    EntityDissemination,
    Interest,
    Matching,
    Serving,
    gaps_of_lost,
    gaps_of_removed,
    is_entity_name,
)
from pubsub.archive.protocol.forgetting import AFTERWARDS, Tombstones
from pubsub.archive.protocol.frontier import Frontier
from pubsub.archive.protocol.inventory import Inventory, Page
from pubsub.archive.protocol.messages import BUSY, DEREGISTERED, MOVED, Invoice, Register
from pubsub.archive.protocol.notifier import Notifier, OnChange
from pubsub.archive.protocol.replica_table import ReplicaTable
from pubsub.archive.protocol.world import ArchiveWorld
from pubsub.archive.store.changes import Change, Deregister, Drop, Note, PutEntity, Reserve
from pubsub.archive.store.retention import Plan
from pubsub.reliable.numbers import Span
from pubsub.reliable.runs import RUN_BYTES
from pubsub.rights import Action

COVERED = "covered/"
"""Notes of what entities are done with according to other replicas (`covering`)."""
UNREADABLE = "the archive cannot read its profile; one of XPath needs camcast[xpath] there"
NO_RIGHT = "this node has no right to what the name asks for"
MOST_DISPLACED = 8
"""Sessions of one name that are told that it was taken over from them."""

MOST_ENTITIES = 100_000


class Entities:
    """All durable subscribers of one managed topic."""

    def __init__(
        self,
        world: ArchiveWorld,
        inventory: Inventory,
        here: Frontier,
        table: ReplicaTable,
        on_change: OnChange,
        on_gone: Callable[[str], None],
    ) -> None:
        """`here`: what is on stable storage. `on_change`: an entity has been registered, or its application
        got on. `on_gone`: a name has been removed."""
        self._world = world
        self._inventory = inventory
        self._table = table
        self._on_change = on_change
        self._on_gone = on_gone
        self.notifier = Notifier(world, inventory, here, table, on_change)
        self.is_open = True
        """Whether subscribers are served; otherwise they are sent elsewhere."""
        self.tombstones = Tombstones(world)
        self.registering: dict[str, None] = {}
        """Names whose registration, or whose new interest, is on its way to the disk."""
        self.all: dict[str, EntityDissemination] = {}
        self._load()

    def _load(self) -> None:
        """`UsageError` when an entity cannot be read: not to start is better than to forget it."""
        store, topic = self._world.store, self._world.topic
        covered = store.notes(topic, COVERED)
        for entity in store.entities(topic):
            name = entity.name
            try:
                kept = EntityDissemination.kept(entity, covered.get(COVERED + name, b""))
            except WireError:
                raise UsageError(
                    f"{topic}: what the durable subscriber {name!r} asks for cannot be read, and its "
                    "events would be lost; if it is a profile of XPath, pip install 'camcast[xpath]'"
                ) from None
            kept.kept_to = self._inventory.highest
            self.all[name] = kept

    def unread(self) -> list[Span]:
        """Numbers of events from before the registration of somebody who has not read them: the dissemination
        table does not show that they are waited for."""
        return [
            Span(one.done + 1, one.matched_from)
            for one in self.all.values()
            if one.done < one.matched_from
        ]

    # Registration and recovery.

    def receive_register(self, sender: Contact, register: Register) -> None:
        if not self.is_open:
            self._refuse(sender, register, MOVED)
            return
        if not is_entity_name(register.entity):
            self._world.count_drop("no_entity_name")
            self._refuse(sender, register, "this is not a name that an archive can keep")
            return
        if register.leave:
            self._leave(sender, register)
            return
        try:
            interest = Interest.unpack(register.interest)
        except WireError as error:
            self._world.count_drop(error.reason)
            self._refuse(sender, register, UNREADABLE)
            return
        entity = self.all.get(register.entity)
        if register.entity in self.registering:
            return
        if entity is not None:
            self._take_up(sender, register, interest, entity)
        elif len(self.all) >= MOST_ENTITIES:
            self._refuse(sender, register, "this archive takes no more durable subscribers")
        else:
            self.registering[register.entity] = None
            self._find_beginning(register, partial(self._begin_new, sender, register, interest))

    def _take_up(
        self, sender: Contact, register: Register, interest: Interest, entity: EntityDissemination
    ) -> None:
        """A subscriber of a name that is known here is there, or asks for something else."""
        session = None if entity.serving is None else entity.serving.sessions.get(register.session)
        if not self._may_have(sender, entity):
            self._refuse(sender, register, NO_RIGHT)
        elif entity.serving is not None and register.session in entity.serving.displaced:
            self.notifier.tell_displaced(sender, entity, register.session)
        elif self._is_anothers(entity, sender, register):
            self._refuse(sender, register, BUSY)
        elif register.shared:
            self._begin(sender, register, entity)
        elif session is not None:
            session.contact = sender
            self.notifier.respond(entity, session)
        elif why := self._change_refusal(sender, entity, interest):
            self._refuse(sender, register, why)
        elif interest != entity.interest:
            self._change_interest(sender, register, entity, interest)
        else:
            self._begin(sender, register, entity)

    def tend_shared(self) -> None:
        """What silent subscribers had goes to others; all are sent away where another replica serves shared
        names. Called now and then."""
        for entity in self.all.values():
            if entity.serving is not None and entity.serving.is_shared:
                self.notifier.push(entity)
                if not self._table.is_lowest or not entity.is_served:
                    self.notifier.send_away(entity)

    def _is_anothers(
        self, entity: EntityDissemination, sender: Contact, register: Register
    ) -> bool:
        """Whether a name belongs to others now: to those who share it, or to another node, which has been
        heard of lately."""
        serving = entity.serving
        if serving is None or serving.is_shared:
            return serving is not None and bool(serving.sessions) and not register.shared
        if register.taking:
            return False
        before = self._world.context.now() - self._world.config.patience
        return serving.session.contact.id != sender.id and serving.session.heard_at > before

    def _begin_new(
        self,
        sender: Contact,
        register: Register,
        interest: Interest,
        beginning: tuple[int | None, float],
    ) -> None:
        """Register a new name, unless it may not begin where it asks to."""
        self.registering.pop(register.entity, None)
        if register.entity in self.all:
            return  # told by another replica meanwhile: it asks again
        begin, began = beginning
        age = self._world.clock() - began
        why = self._world.replay_refusal(register.entity, sender.id, age, interest.pattern)
        if why:
            self._refuse(sender, register, why)
        else:
            self._register(sender, register, interest, begin, began)

    def _register(
        self,
        sender: Contact,
        register: Register,
        interest: Interest,
        begin: int | None,
        began: float,
    ) -> None:
        """Events that are stored from here on are matched for it, though it is told once it is safe."""
        number = self._inventory.number()
        now = self.tombstones.after(register.entity, self._world.clock())
        entity = EntityDissemination(
            register.entity,
            interest,
            number if begin is None else min(begin, number),
            number,
            registered=now,
            began=began,
            revised=now,
        )
        self.all[entity.name] = entity
        self.registering[entity.name] = None

        def registered() -> None:
            self._inventory.raise_highest(number)
            self.registering.pop(entity.name, None)
            if self.all.get(entity.name) is not entity:
                return  # removed in the meantime
            self._on_change(entity)
            self._begin(sender, register, entity)

        self._world.commit(self.registration(entity, number), registered)

    def keep(self, entity: EntityDissemination) -> None:
        """Write down what has changed of an entity."""
        change = PutEntity(self._world.topic, entity.name, entity.done, entity.state())
        self._world.commit([change], lambda: None)

    def registration(self, entity: EntityDissemination, number: int) -> list[Change]:
        """The changes that register an entity, or keep what has changed of it, under the next number."""
        topic = self._world.topic
        return [Reserve(topic, number), PutEntity(topic, entity.name, entity.done, entity.state())]

    def _find_beginning(
        self, register: Register, then: Callable[[tuple[int | None, float]], None]
    ) -> None:
        """The number after which a new entity begins, None for that of its registration; and the same as a
        time of archiving, which means the same at every replica."""
        topic, value = self._world.topic, register.value
        if register.since == "beginning":
            then((0, 0.0))
        elif register.since == "sequence":
            begin = min(max(int(value) - 1, 0), self._inventory.highest)

            def began(page: Page) -> None:
                now = self._world.clock()
                then((begin, min(page[0][0].time, now) if page[0] else now))

            self._inventory.after(begin, 1, began)
        elif register.since == "time":
            self._world.read(
                lambda store: store.since(topic, value) - 1, lambda begin: then((begin, value))
            )
        else:
            then((None, self._world.clock()))

    def _change_interest(
        self, sender: Contact, register: Register, entity: EntityDissemination, interest: Interest
    ) -> None:
        """Events from here on are matched by the new interest; those already archived keep their readers."""
        revised = max(self._world.clock(), entity.revised + AFTERWARDS)

        self.registering[entity.name] = None

        def changed() -> None:
            self.registering.pop(entity.name, None)
            if self.all.get(entity.name) is not entity:
                return  # removed in the meantime
            entity.is_known_elsewhere = False
            self._on_change(entity)
            self._begin(sender, register, entity)

        self.revise(entity, interest, revised, changed)

    def revise(
        self,
        entity: EntityDissemination,
        interest: Interest,
        revised: float,
        then: Callable[[], None] = lambda: None,
    ) -> None:
        """An entity asks for something else from here on."""
        number = self._inventory.number()
        entity.interest, entity.revised = interest, revised
        entity.is_waiting = False  # events from before its registration are matched anew

        def changed() -> None:
            self._inventory.raise_highest(number)
            then()

        self._world.commit(self.registration(entity, number), changed)

    def _begin(self, sender: Contact, register: Register, entity: EntityDissemination) -> None:
        """Serve a subscriber; the first of several that share a name says what the name asks for."""
        if register.shared and not self._table.is_lowest:
            self._refuse(sender, register, MOVED)
            return
        before = serving = entity.serving
        if serving is None or not (serving.is_shared and register.shared):
            entity.cover(register.position)
            serving = entity.serve(
                ordered=register.ordered,
                shared=register.shared,
                highest=self._inventory.highest,
                began=self._latest_clock(),
            )
            if before is not None and register.taking:
                self._displace(before, entity, register.taking)
        now = self._world.context.now()
        session = serving.join(register.session, sender, now, entity.done)
        self.notifier.respond(entity, session)
        self.notifier.push(entity)

    def _displace(self, before: Serving, entity: EntityDissemination, word: str) -> None:
        """Tell those who had the name, and are served no more, that it was taken over."""
        assert entity.serving is not None
        told = before.displaced | dict.fromkeys(before.sessions, word)
        entity.serving.displaced = dict(list(told.items())[-MOST_DISPLACED:])
        for session in before.sessions.values():
            self.notifier.tell_displaced(session.contact, entity, session.id)

    def _latest_clock(self) -> float:
        """The time now, by the clock of the replica whose clock is furthest ahead."""
        return self._world.clock() + self._world.config.skew

    def _leave(self, sender: Contact, register: Register) -> None:
        name = register.entity
        entity = self.all.get(name)
        if entity is not None and not self._may_have(sender, entity):
            self._refuse(sender, register, NO_RIGHT)
            return
        answer = partial(self._refuse, sender, register, DEREGISTERED)
        if entity is None and not self._table.peers:
            answer()
            return
        now = self._world.clock()
        self.remove(name, now if entity is None else max(now, entity.registered), answer)
        self._on_gone(name)

    def remove(self, name: str, time: float, then: Callable[[], None]) -> None:
        """Forget an entity, which has been removed at this time here or at another replica. One that this
        archive does not know may be known to another, which is to hear of it."""
        self.all.pop(name, None)
        topic = self._world.topic
        changes: list[Change] = [Deregister(topic, name), Note(topic, COVERED + name, None)]
        if self._table.peers:
            changes += self.tombstones.put(name, time)
        self._world.commit(changes, then)

    def _refuse(self, sender: Contact, register: Register, why: str) -> None:
        self.notifier.refuse(sender, register.entity, register.session, why)

    # Forgetting.

    def forget_abandoned(self) -> None:
        """Forget names that nobody has used for `DurableConfig.abandoned` seconds; called now and then.

        While a replica is not heard of, a name may be in use there."""
        abandoned, now = self._world.config.abandoned, self._world.context.now()
        if not abandoned:
            return
        for name, entity in list(self.all.items()):
            sessions = entity.serving.sessions.values() if entity.serving is not None else ()
            if any(now - one.heard_at < self._world.config.patience for one in sessions):
                entity.used_at = now
                if now - entity.told_at > abandoned / 4:
                    entity.told_at = now
                    self._on_change(entity)
            elif entity.used_at is None:
                entity.used_at = now
            elif now - entity.used_at > abandoned and self._table.are_all_live:
                self._world.metrics.counter(
                    "archive_abandoned_names", "Durable names forgotten as nobody used them."
                ).add()
                self.remove(name, max(self._world.clock(), entity.registered), lambda: None)
                self._on_gone(name)

    def forget_streams(self, floor: int) -> None:
        """Streams that began before this time are forgotten."""
        for entity in self.all.values():
            entity.covered.forget(floor)
            entity.progress.forget(floor)

    def give_up(self, spans: Sequence[Span], ids: Mapping[int, bytes]) -> None:
        """Events with these numbers are lost: a subscriber that may have waited for them is told of the gap,
        with the publisher where the event's id is known and another event of its run is here."""
        topic, runs = self._world.topic, {id[:RUN_BYTES] for id in ids.values()}

        def drop(publishers: dict[bytes, bytes]) -> None:
            named = {
                number: (publishers[id[:RUN_BYTES]], id)
                for number, id in ids.items()
                if id[:RUN_BYTES] in publishers
            }
            gaps = gaps_of_lost(self.all.values(), spans, named)
            self._drop(Drop(topic, tuple(spans), gaps), self.notify)

        self._world.read(lambda store: store.publishers_of(topic, runs), drop)

    def strike_out(self, spans: Sequence[Span]) -> None:
        """The events of these numbers, which cannot be read, are here under others too."""
        self._drop(Drop(self._world.topic, tuple(spans), ()), self.notify)

    def forget_old(self, plan: Plan) -> None:
        """Remove events that retention has chosen, and tell the subscribers that had not read them yet."""
        drop = Drop(self._world.topic, plan.spans, gaps_of_removed(self.all, plan.gone))
        self._drop(drop, lambda: self._inventory.forget(drop.spans))

    def _drop(self, drop: Drop, then: Callable[[], None]) -> None:
        waiting = [self.all[gap.entity] for gap in drop.gaps if gap.entity in self.all]
        for entity in waiting:
            entity.dropping += 1

        def dropped() -> None:
            for entity in waiting:
                entity.dropping -= 1
            for entity in self.all.values():
                entity.is_waiting = False  # maybe for one of these events
                if entity.serving is not None:
                    entity.serving.strike_removed(drop.spans)
            then()

        self._world.commit([drop], dropped)

    # Notifying.

    def destinations(self, encoded: bytes) -> tuple[str, ...]:
        """The entities that an event is for."""
        try:
            return Matching(self.all).destinations(read_event(encoded, self._world.topic))
        except WireError:
            return ()

    def notify(self) -> None:
        """Something new is safe: tell those who are there."""
        for entity in self.all.values():
            self.notifier.push(entity)

    def receive_invoice(self, sender: Contact, invoice: Invoice) -> None:
        entity = self.all.get(invoice.entity)
        if entity is not None and not self._may_have(sender, entity):
            # Its right has ended: without invoices it is sent no more than what is on its way.
            self._world.count_drop("no_right")
            return
        self.notifier.receive_invoice(sender, invoice, entity)

    def _may_have(self, peer: Contact, entity: EntityDissemination) -> bool:
        """Whether a peer may have what waits for a name, whoever has registered it."""
        return self._world.may(peer.id, Action.SUBSCRIBE, entity.interest.pattern)

    def _change_refusal(
        self, peer: Contact, entity: EntityDissemination, interest: Interest
    ) -> str:
        """Why a name may not ask for something else; empty if it may. What it has not read from before its
        registration is matched anew, and so replayed."""
        if interest == entity.interest or entity.done >= entity.matched_from:
            return ""
        age = entity.registered - entity.began
        return self._world.right_refusal(peer.id, age, interest.pattern)

    def farewell(self) -> None:
        """Send everybody who is here, or comes, to another archive."""
        self.is_open = False
        for entity in self.all.values():
            self.notifier.send_away(entity)
