"""An archive's registered entities: registration, notification, invoices (sections 4.5, 5 and 6).

A registration, and each advance of a sync point, is on stable storage before the subscriber is told of it.
Nothing is sent again by itself: the subscriber hears in every response what the archive believes it lacks,
and asks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial

import msgpack

from overlay.contact import Contact
from overlay.wire import WireError
from pubsub.archive.protocol.archived_event import ReadEvent, read_event
from pubsub.archive.protocol.batches import batches
from pubsub.archive.protocol.dissemination import Dissemination, Session
from pubsub.archive.protocol.frontier import Frontier
from pubsub.archive.protocol.interest import Interest
from pubsub.archive.protocol.inventory import Inventory
from pubsub.archive.protocol.messages import (
    DEREGISTERED,
    MOVED,
    REGISTER_AGAIN,
    AckResponse,
    Invoice,
    Marks,
    Notice,
    Register,
)
from pubsub.archive.protocol.world import ArchiveWorld
from pubsub.archive.store.changes import (
    AdvanceSync,
    Change,
    Deregister,
    GapsTold,
    Note,
    PutProfile,
    StoredEvent,
)
from pubsub.archive.store.changes import Register as RegisterEntity
from pubsub.archive.store.sequence_ranges import SequenceRanges

PROFILE = "interest"
MATCHED = "matched/"
SYNC = "sync/"
COVERED = "covered/"
MOST_ENTITIES = 100_000

OnChange = Callable[[Dissemination, bool], None]
"""Called with an entity that other replicas should hear of, and whether it is gone."""


class Entities:
    """All durable subscribers of one managed topic."""

    def __init__(self, world: ArchiveWorld, inventory: Inventory, on_change: OnChange) -> None:
        """`on_change`: an entity has been registered, removed, or its application got on."""
        self._world = world
        self._inventory = inventory
        self._on_change = on_change
        self.first_uncovered: Callable[[Frontier], int] = lambda covered: 0
        """The lowest number of an event that a frontier does not cover."""
        self.is_shared: Callable[[], bool] = lambda: False
        """Whether there are other replicas."""
        self._registering: dict[str, None] = {}
        self.sent = 0
        """Events and notifications sent in this life."""
        self.all: dict[str, Dissemination] = {}
        self._load()

    def _load(self) -> None:
        store, topic = self._world.store, self._world.topic
        matched, syncs = store.notes(topic, MATCHED), store.notes(topic, SYNC)
        covered = store.notes(topic, COVERED)
        for entity in store.entities(topic):
            try:
                interest = Interest.unpack(entity.profiles.get(PROFILE, b""))
            except WireError:
                self._world.count_drop("unreadable_profile")
                continue
            name = entity.name
            self.all[name] = Dissemination(
                name,
                interest,
                entity.epoch,
                entity.sync,
                _number(matched.get(MATCHED + name)),
                max(entity.sync, _number(syncs.get(SYNC + name))),
            )
            self.all[name].covered.merge(unpack_marks(covered.get(COVERED + name, b"")))

    def destinations(self, event: ReadEvent) -> tuple[str, ...]:
        """The entities that an event is for (the matching engine of section 4.2)."""
        return tuple(name for name, one in self.all.items() if one.interest.matches(event))

    @property
    def all_matched(self) -> bool:
        """Whether the dissemination table shows all that anybody waits for: nobody still reads events from
        before its registration."""
        return all(one.done >= one.matched_from for one in self.all.values())

    # Registration and recovery.

    def receive_register(self, sender: Contact, register: Register) -> None:
        if register.leave:
            self._leave(sender, register)
            return
        try:
            interest = Interest.unpack(register.interest)
        except WireError as error:
            self._world.count_drop(error.reason)
            return
        entity = self.all.get(register.entity)
        if register.entity in self._registering:
            return
        if entity is None:
            if len(self.all) >= MOST_ENTITIES:
                self._refuse(sender, register, "this archive takes no more durable subscribers")
            else:
                self._register(sender, register, interest)
            return
        session = entity.session
        if session is not None and session.id == register.session:
            session.contact = sender
            self.respond(entity)
        elif interest != entity.interest:
            self._change_interest(sender, register, entity, interest)
        else:
            self._begin(sender, register, entity)

    def _register(self, sender: Contact, register: Register, interest: Interest) -> None:
        """Events that are stored from here on are matched for it, though it is told once it is safe."""
        epoch = self._inventory.number()
        begin = self._beginning(register, epoch)
        entity = Dissemination(register.entity, interest, epoch, begin, epoch)
        self.all[entity.name] = entity
        self._registering[entity.name] = None

        def registered() -> None:
            self._inventory.raise_highest(epoch)
            self._registering.pop(entity.name, None)
            self._on_change(entity, False)
            self._begin(sender, register, entity)

        self._world.commit(self.registration(entity.name, interest, begin, epoch), registered)

    def registration(self, name: str, interest: Interest, begin: int, epoch: int) -> list[Change]:
        """The changes that register an entity: it is to have what comes after `begin`, matched when it is
        read up to `epoch`, which is the number of the registration itself."""
        topic = self._world.topic
        return [
            RegisterEntity(topic, name, begin),
            PutProfile(topic, name, PROFILE, epoch, interest.packed()),
            Note(topic, MATCHED + name, str(epoch).encode()),
            Note(topic, SYNC + name, None),
        ]

    def _beginning(self, register: Register, epoch: int) -> int:
        """The number after which a new entity begins."""
        store, topic = self._world.store, self._world.topic
        if register.since == "beginning":
            return 0
        if register.since == "sequence":
            return min(max(int(register.value) - 1, 0), epoch)
        if register.since == "time":
            return min(store.since(topic, register.value) - 1, epoch)
        return epoch

    def _change_interest(
        self, sender: Contact, register: Register, entity: Dissemination, interest: Interest
    ) -> None:
        """Events from here on are matched by the new interest; those already archived keep their readers."""
        number = self._inventory.number()
        change = PutProfile(self._world.topic, entity.name, PROFILE, number, interest.packed())

        def changed() -> None:
            self._inventory.raise_highest(number)
            entity.interest = interest
            self._on_change(entity, False)
            self._begin(sender, register, entity)

        self._world.commit([change], changed)

    def _begin(self, sender: Contact, register: Register, entity: Dissemination) -> None:
        entity.session = None
        entity.cover(register.position)
        self.settle(entity)
        entity.begin_session(
            register.session,
            sender,
            register.ordered,
            self._inventory.highest,
            self._world.context.now(),
            self.is_shared(),
        )
        self.respond(entity)
        self.push(entity)

    def _leave(self, sender: Contact, register: Register) -> None:
        entity = self.all.get(register.entity)
        answer = partial(self._refuse, sender, register, DEREGISTERED)
        if entity is None:
            answer()
            return
        self.remove(entity, answer)
        self._on_change(entity, True)

    def remove(self, entity: Dissemination, then: Callable[[], None]) -> None:
        """Forget an entity."""
        self.all.pop(entity.name, None)
        topic = self._world.topic
        self._world.commit(
            [
                Deregister(topic, entity.name),
                Note(topic, MATCHED + entity.name, None),
                Note(topic, SYNC + entity.name, None),
                Note(topic, COVERED + entity.name, None),
            ],
            then,
        )

    # What other replicas say.

    def adopt(self, name: str, interest: Interest, covered: Frontier) -> None:
        """An entity has been registered at another replica."""
        number = self._inventory.number()
        begin = min(self.first_uncovered(covered) - 1, self._inventory.highest)
        entity = Dissemination(name, interest, number, begin, number)
        entity.covered = covered
        entity.is_known_elsewhere = True
        self.all[name] = entity
        self._registering[name] = None

        def adopted() -> None:
            self._inventory.raise_highest(number)
            self._registering.pop(name, None)

        changes = self.registration(name, interest, begin, number)
        changes.append(Note(self._world.topic, COVERED + name, pack_marks(covered.marks())))
        self._world.commit(changes, adopted)

    def cover(self, entity: Dissemination, interest: Interest, marks: Marks) -> None:
        """Another replica says what an entity asks for and what its application is done with."""
        entity.cover(marks)
        if interest != entity.interest:
            entity.interest = interest
            number, topic = self._inventory.number(), self._world.topic
            change = PutProfile(topic, entity.name, PROFILE, number, interest.packed())
            self._world.commit([change], lambda: self._inventory.raise_highest(number))

    def settle(self, entity: Dissemination) -> None:
        """Turn what is covered into this archive's own numbers, as far as nobody is being served."""
        if not entity.is_covered_anew or entity.session is not None:
            return
        entity.is_covered_anew = False
        topic = self._world.topic
        entity.done = max(entity.done, self.first_uncovered(entity.covered) - 1)
        entity.sync = max(entity.sync, entity.done)
        sync = entity.sync
        note = Note(topic, COVERED + entity.name, pack_marks(entity.covered.marks()))

        def safe() -> None:
            entity.granted = max(entity.granted, sync)

        self._world.commit([AdvanceSync(topic, entity.name, entity.done), note], safe)

    def _refuse(self, sender: Contact, asked: Register | Invoice, why: str) -> None:
        self._send_refusal(sender, asked.entity, asked.session, why)

    def _send_refusal(self, to: Contact, name: str, session: bytes, why: str) -> None:
        world = self._world
        refusal = AckResponse(world.topic, name, session, world.replica, 0, 0, 0, (), (), why)
        world.context.send(to, refusal)

    def farewell(self) -> None:
        """Send everybody who is here to another archive."""
        for entity in self.all.values():
            session, entity.session = entity.session, None
            if session is not None:
                self._send_refusal(session.contact, entity.name, session.id, MOVED)

    # Notifying.

    def notify(self) -> None:
        """Something new is safe: tell those who are there."""
        for entity in self.all.values():
            if entity.session is not None:
                self.push(entity)

    def push(self, entity: Dissemination) -> None:
        """Notify an entity of what is next for it, as far as it is there and keeps up."""
        session = entity.session
        world = self._world
        if session is None or session.cursor >= self._inventory.highest:
            return
        if world.context.now() - session.heard_at >= world.config.patience:
            entity.session = None
            return
        offers: list[tuple[StoredEvent, int]] = []
        while len(session.offered) < world.config.unread:
            events, end = self._inventory.after(session.cursor, world.config.batch)
            if end <= session.cursor:
                break
            for event in events:
                if self._is_for(entity, event):
                    previous = session.offer(event.sequence, event.publisher, event.catenation)
                    offers.append((event, previous))
            session.cursor = end
        if offers:
            self._send(entity, session, offers, whole=False)

    def _is_for(self, entity: Dissemination, event: StoredEvent) -> bool:
        if entity.covered.covers(event.publisher, event.catenation):
            return False
        if event.sequence > entity.matched_from:
            return entity.name in event.destinations
        try:
            return entity.interest.matches(read_event(event.body, self._world.topic))
        except WireError:
            return False

    def _send(
        self,
        entity: Dissemination,
        session: Session,
        offers: Iterable[tuple[StoredEvent, int]],
        whole: bool,
    ) -> None:
        """Send events; to those who listen elsewhere too, only notifications of the newest."""
        world = self._world

        def what(event: StoredEvent) -> bytes:
            is_whole = whole or session.ordered or event.sequence <= session.live_from
            return event.body if is_whole else event.id

        for batch in batches(offers, lambda offer: len(what(offer[0])), world.config):
            streams: dict[bytes, int] = {}
            items = tuple(
                (
                    event.sequence,
                    previous,
                    streams.setdefault(event.publisher, len(streams)),
                    event.catenation,
                    what(event),
                    event.sequence <= session.doubtful_to,
                )
                for event, previous in batch
            )
            notice = Notice(world.topic, entity.name, session.id, tuple(streams), items)
            world.context.send(session.contact, notice)
            self.sent += len(items)

    # Invoices.

    def receive_invoice(self, sender: Contact, invoice: Invoice) -> None:
        entity = self.all.get(invoice.entity)
        session = None if entity is None else entity.session
        if entity is None or session is None or session.id != invoice.session:
            self._refuse(sender, invoice, REGISTER_AGAIN)
            return
        session.contact = sender
        session.heard_at = self._world.context.now()
        session.acknowledge(invoice.received)
        if invoice.missing:
            self._send_again(entity, session, invoice.missing)
        advanced = entity.advance()
        done = entity.finish(invoice.done if session.ordered else session.sync)
        if done:
            self._on_change(entity, False)
        self._tell_gaps(entity)
        if advanced or done:
            self._persist_progress(entity)
        else:
            self.respond(entity)
        self.push(entity)

    def _send_again(
        self, entity: Dissemination, session: Session, missing: Iterable[tuple[int, int]]
    ) -> None:
        wanted = SequenceRanges(missing)
        numbers = [one for one in session.outstanding if one in wanted]
        again = self._inventory.read(numbers[: self._world.config.window])
        self._send(entity, session, [(event, 0) for event in again], whole=True)

    def _persist_progress(self, entity: Dissemination) -> None:
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

    def _tell_gaps(self, entity: Dissemination) -> None:
        """The entity has answered a response that told it of its gaps."""
        if entity.told_gaps:
            told, entity.told_gaps = entity.told_gaps, 0
            self._world.commit([GapsTold(self._world.topic, entity.name, told)], lambda: None)

    def respond(self, entity: Dissemination) -> None:
        """Tell a subscriber where it stands."""
        session = entity.session
        if session is None:
            return
        world = self._world
        known = world.store.entity(world.topic, entity.name)
        gaps = () if known is None else tuple((g.span.first, g.span.last) for g in known.gaps)
        entity.told_gaps = gaps[-1][1] if gaps else 0
        response = AckResponse(
            world.topic,
            entity.name,
            session.id,
            world.replica,
            entity.epoch,
            entity.told_sync,
            session.previous,
            session.missing(),
            gaps,
            "",
        )
        world.context.send(session.contact, response)


def pack_marks(marks: Marks) -> bytes:
    packed: bytes = msgpack.packb(marks)
    return packed


def unpack_marks(packed: bytes) -> Marks:
    return tuple((stream, mark) for stream, mark in msgpack.unpackb(packed)) if packed else ()


def _number(note: bytes | None) -> int:
    return int(note) if note else 0
