"""A topic on the stage as collections see it: what topic reliable broadcast and topic membership promise,
without their protocols. Broadcasts reach everybody in the end, each publisher's in order, whoever still
has them; views are told by an oracle, to each member at a time of its own."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from overlay.contact import Contact, PeerId
from overlay.virtual.stage import Stage, StageConfig, StageContext, numbered_contact

Source = tuple[PeerId, int]
Key = tuple[PeerId, int, int]


@dataclass(frozen=True)
class Carry:
    source: Source
    number: int
    payload: Any


@dataclass(frozen=True)
class Have:
    counts: dict[Source, int]


@dataclass(frozen=True)
class Direct:
    serial: int
    message: Any


@dataclass(frozen=True)
class Receipt:
    serial: int


class User:
    """What a member of the topic runs; a test's own class overrides what it needs."""

    def deliver(self, source: Source, number: int, payload: Any) -> None: ...
    def direct(self, sender: PeerId, message: Any) -> None: ...
    def undelivered(self, to: PeerId, message: Any) -> None: ...
    def delivered(self, to: PeerId, message: Any) -> None: ...
    def unstable(self) -> None: ...
    def stable(self, view: bytes, members: tuple[PeerId, ...]) -> None: ...


class Member:
    """One life of one participant."""

    def __init__(self, topic: ModelTopic, contact: Contact, life: int) -> None:
        self.topic = topic
        self.contact = contact
        self.life = life
        self.context: StageContext = topic.stage.context(contact)
        self.user: User = User()
        self.came_at = topic.stage.now
        self.sees_all = True
        """Its view has all that are up and on its side."""
        self.sent = 0
        self.store: dict[tuple[Source, int], Any] = {}
        self.counts: dict[Source, int] = {}
        self._held: dict[tuple[Source, int], Any] = {}
        self._unacknowledged: dict[int, tuple[Contact, Any, int]] = {}
        self._serial = life << 32  # so that none is taken for one of an earlier life
        self._received: dict[tuple[PeerId, int], None] = {}
        self._gossip()

    @property
    def id(self) -> PeerId:
        return self.contact.id

    def has(self, source: Source, number: int) -> bool:
        """Whether all of a source up to this number were delivered, or are from before its time."""
        return self.counts.get(source, 0) >= number

    def broadcast(self, payload: Any) -> int:
        self.sent += 1
        carry = Carry((self.id, self.life), self.sent, payload)
        for other in self.topic.others(self):
            self.context.send(other.contact, carry)
        self.receive(self.contact, carry)
        return carry.number

    def send(self, to: PeerId, message: Any) -> None:
        """Until it is acknowledged, or long enough for the receiver to be gone."""
        self._serial += 1
        self._attempt(self._serial, self.topic.contact_of[to], message, 8)

    def _attempt(self, serial: int, to: Contact, message: Any, left: int) -> None:
        if not left:
            self._unacknowledged.pop(serial, None)
            self.user.undelivered(to.id, message)
            return
        self._unacknowledged[serial] = (to, message, left)
        self.context.send(to, Direct(serial, message))

        def again() -> None:
            if serial in self._unacknowledged:
                self._attempt(serial, to, message, left - 1)

        self.context.call_later(0.2, again)

    def receive(self, sender: Contact, message: Any) -> None:
        match message:
            case Carry(source, number, payload):
                if number > self.counts.get(source, 0):
                    self._held[source, number] = payload
                    self._release(source)
            case Have(counts):
                for (source, number), payload in self.store.items():
                    if number > counts.get(source, 0):
                        self.context.send(sender, Carry(source, number, payload))
            case Direct(serial, inner):
                self.context.send(sender, Receipt(serial))
                if (sender.id, serial) not in self._received:
                    self._received[sender.id, serial] = None
                    self.user.direct(sender.id, inner)
            case Receipt(serial):
                if serial in self._unacknowledged:
                    to, inner, _ = self._unacknowledged.pop(serial)
                    self.user.delivered(to.id, inner)

    def _release(self, source: Source) -> None:
        while (key := (source, self.counts.get(source, 0) + 1)) in self._held:
            payload = self.store[key] = self._held.pop(key)
            self.counts[source] = key[1]
            self.user.deliver(source, key[1], payload)

    def _gossip(self) -> None:
        others = self.topic.others(self)
        if others:
            self.context.send(self.context.random.choice(others).contact, Have(dict(self.counts)))
        self.context.call_later(0.3, self._gossip)


NEWCOMER_SECONDS = 3.0

AGAIN_SECONDS = 3.0
"""How much later the view of all comes where newcomers have been a view by themselves."""


class ModelTopic:
    def __init__(
        self, seed: int, make_user: Callable[[Member], User], *, apart: bool = False
    ) -> None:
        """`apart`: those who have just come may be a view by themselves first."""
        self.stage = Stage(seed, StageConfig(latency=(0.005, 0.08), loss=0.05, duplicate=0.02))
        self.random = random.Random(f"{seed} topic")
        self.make_user = make_user
        self._apart = apart
        self.members: dict[int, Member] = {}
        """Those who are up, by their numbers."""
        self.all: list[Member] = []
        """Every life that there was."""
        self.contact_of: dict[PeerId, Contact] = {}
        self._sides: list[list[int]] = []
        self._lives: dict[int, int] = {}
        self._changes = 0

    def others(self, member: Member) -> list[Member]:
        return [other for other in self.members.values() if other is not member]

    # Faults.

    def join(self, number: int) -> Member:
        """A member comes, and gets what is published from now on; one that comes back remembers nothing,
        and gets what its last life had not got, as far as a member holds that."""
        contact = numbered_contact(number)
        self.contact_of[contact.id] = contact
        self.stage.restart(contact)
        life = self._lives[number] = self._lives.get(number, 0) + 1
        member = Member(self, contact, life)
        reachable = [other for other in self.members.values() if self._together(member, other)]
        if reachable:
            member.counts = dict(self.random.choice(reachable).counts)
            self._hold_for(member, reachable)
        self.members[number] = member
        self.all.append(member)
        self.stage.attach(contact, member.receive)
        member.user = self.make_user(member)
        self._views_change()
        return member

    def _hold_for(self, member: Member, reachable: list[Member]) -> None:
        last = next((m for m in reversed(self.all) if m.id == member.id), None)
        if last is not None:
            for source in member.counts:
                had = last.counts.get(source, 0)
                if any((source, had + 1) in other.store for other in reachable):
                    member.counts[source] = had

    def crash(self, number: int) -> None:
        member = self.members.pop(number)
        self.stage.crash(member.contact)
        self._views_change()

    def partition(self, *sides: list[int]) -> None:
        self._sides = list(sides)
        self.stage.partition(*([numbered_contact(n) for n in side] for side in sides))
        self._views_change()

    def heal(self) -> None:
        self._sides = []
        self.stage.heal()
        self._views_change()

    def _side(self, number: int) -> int:
        return next((place for place, side in enumerate(self._sides, 1) if number in side), 0)

    def _together(self, one: Member, other: Member) -> bool:
        numbers = [n for n, m in self.members.items() if m is other]
        mine = next(n for n in self._lives if numbered_contact(n).id == one.id)
        return all(self._side(mine) == self._side(n) for n in numbers)

    # The oracle of views.

    def _views_change(self) -> None:
        self._changes += 1
        change, now = self._changes, self.stage.now
        later = self._newcomers_first(change) if self._apart else 0.0
        for number, member in self.members.items():
            noticed = now + self.random.uniform(0.0, 1.0)
            self.stage.call_at(noticed, self._unless_gone(number, member, member.user.unstable))
            self.stage.call_at(
                now + later + self.random.uniform(1.0, 2.0),
                self._unless_gone(number, member, lambda m=member: self._stable(m, change)),  # type: ignore[misc]
            )

    def _newcomers_first(self, change: int) -> float:
        """Have those who have just come be a view, which has heard nobody else yet; how much later all are
        one."""
        now = self.stage.now
        new = {n: m for n, m in self.members.items() if now - m.came_at < NEWCOMER_SECONDS}
        if len(new) in (0, len(self.members)) or self.random.random() < 0.3:
            return 0.0
        view, ids = f"{change} newcomers".encode(), tuple(sorted(m.id for m in new.values()))
        for number, member in new.items():

            def stable(member: Member = member) -> None:
                if change == self._changes:
                    member.sees_all = False
                    member.user.stable(view, ids)

            at = now + self.random.uniform(1.0, 1.5)
            self.stage.call_at(at, self._unless_gone(number, member, stable))
        return AGAIN_SECONDS

    def _unless_gone(
        self, number: int, member: Member, action: Callable[[], None]
    ) -> Callable[[], None]:
        def act() -> None:
            if self.members.get(number) is member:
                action()

        return act

    def _stable(self, member: Member, change: int) -> None:
        if change != self._changes:
            return
        mine = next(n for n, m in self.members.items() if m is member)
        members = sorted(m.id for n, m in self.members.items() if self._side(n) == self._side(mine))
        view = f"{change} {self._side(mine)}".encode()
        member.sees_all = True
        member.user.stable(view, tuple(members))


def is_caught(check: Callable[[], None]) -> bool:
    """Whether a check of a run finds something wrong."""
    try:
        check()
    except AssertionError:
        return True
    return False
