"""Participants of a topic on the stage, to measure topic membership alone: messages, bytes and work.

Channels take some milliseconds and lose nothing. The failure detector notices after one half to two seconds.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from overlay.contact import Contact, PeerId
from overlay.context import Randomness, Timer
from overlay.virtual.stage import Stage, numbered_contact
from overlay.wire import encode
from pubsub.topic_broadcast.broadcast import TopicBroadcast
from pubsub.topic_broadcast.config import BroadcastConfig
from pubsub.topic_broadcast.delivery import Gap
from pubsub.topic_broadcast.messages import Item
from pubsub.topic_broadcast.topic_log import NoLog
from pubsub.topic_membership.config import MembershipConfig
from pubsub.topic_membership.context import Outcome
from pubsub.topic_membership.messages import Entry, Knowledge, Row
from pubsub.topic_membership.stable_views import StableView, TopicView

NOTICE_SECONDS = (0.5, 2.0)
ACKNOWLEDGED_SECONDS = 0.1
"""After this time a message is known to have arrived."""

FIRST_VERSION = 1
"""Of a participant's row, when it has begun and has met nobody."""


class Member:
    """One participant: the context and the application of its protocol."""

    def __init__(self, company: Company, number: int) -> None:
        self._company = company
        self._stage = company.stage.context(numbered_contact(number))
        self.contact: Contact = self._stage.contact
        self.random: Randomness = self._stage.random
        self.now = self._stage.now
        self.core = TopicBroadcast(
            "/bench/matrix",
            self,
            BroadcastConfig(),
            MembershipConfig(),
            self,
            NoLog(),
            boot=number,
            life=number + 1,
        )
        company.stage.attach(self.contact, self.core.receive)

    def call_later(self, delay: float, action: Callable[[], None]) -> Timer:
        return self._stage.call_later(delay, action)

    def send(self, to: Contact, message: object, outcome: Outcome | None = None) -> bool:
        self._company.messages += 1
        self._company.bytes += len(encode(message))
        self._stage.send(to, message)
        if outcome is not None and to.id not in self._company.crashed:
            self._stage.call_later(ACKNOWLEDGED_SECONDS, partial(outcome, True))
        return True

    def send_datagram(self, to: Contact, message: object) -> None:
        self._stage.send(to, message)

    def watch(self, contact: Contact) -> None: ...

    def unwatch(self, contact: Contact) -> None: ...

    def joined(self) -> None: ...

    def deliver(self, item: Item, complete: int) -> None:
        self.core.finished(item)

    def gap(self, gap: Gap) -> None: ...

    def lacked(self, item: Item, by: PeerId) -> None: ...

    def view_changed(self, view: TopicView) -> None: ...

    def stable(self, view: StableView) -> None: ...

    def participant_changed(self, before: Entry | None, now: Entry) -> None: ...

    def room(self) -> None: ...


class Company:
    """Participants that know each other, and the count of what they send."""

    def __init__(self, size: int, seed: int = 1) -> None:
        self.stage = Stage(seed)
        self.messages = 0
        self.bytes = 0
        self.crashed: dict[PeerId, None] = {}
        self._chance = random.Random(seed)
        self.members = [Member(self, number) for number in range(size)]
        self._introduce_all()

    def _introduce_all(self) -> None:
        """Let all know each other at once: that they join one after another is not measured."""
        for member in self.members:
            member.core.start()
        topics = [member.core.membership for member in self.members]
        entries = tuple(membership.participants[membership.me] for membership in topics)
        rows = tuple(Row(entry.id, entry.boot, FIRST_VERSION, ()) for entry in entries)
        everything = Knowledge(topics[0].topic, entries, rows, None, bytes(8), False)
        for membership in topics:
            membership.receive_knowledge(self.members[0].contact, everything)

    @property
    def is_stable(self) -> bool:
        return all(member.core.membership.is_stable for member in self.members)

    def run_until_stable(self, most_seconds: float) -> float:
        """Virtual seconds until everybody has reached the same view."""
        began = self.stage.now
        while not self.is_stable and self.stage.now - began < most_seconds:
            self.stage.run_for(0.1)
        return self.stage.now - began

    def join(self) -> None:
        """One more participant, through one that is there."""
        newcomer = Member(self, len(self.members))
        newcomer.core.membership.subscribe(self.members[0].contact)
        self.members.append(newcomer)

    def crash(self) -> None:
        """The last one crashes, and the others notice."""
        crashed = self.members.pop()
        self.stage.crash(crashed.contact)
        self.crashed[crashed.contact.id] = None
        for member in self.members:
            self._notice(member, crashed.contact.id)

    def _notice(self, member: Member, peer: PeerId) -> None:
        delay = self._chance.uniform(*NOTICE_SECONDS)
        self.stage.call_at(self.stage.now + delay, partial(member.core.membership.closed, peer))


IDLE_SECONDS = 10.0
MOST_SECONDS = 60.0


@dataclass(frozen=True)
class MatrixCost:
    """Of one event, until the view is stable again, for each participant."""

    participants: int
    event: str
    messages: float
    kilobytes: float
    """Sent, without the headers of channels and datagrams."""
    milliseconds: float
    """Of work on this machine."""
    seconds: float
    """Of virtual time until all shared a stable view; that all notice a crash takes 2 of them."""


def measure_matrix(participants: int) -> list[MatrixCost]:
    """A second without any event, one that joins, one that crashes."""
    company = Company(participants)
    company.run_until_stable(MOST_SECONDS)
    company.stage.run_for(5.0)
    costs = []
    for event in ("a second of rest", "one joins", "one crashes"):
        company.messages = company.bytes = 0
        worked = time.process_time()
        share = 1.0
        if event == "a second of rest":
            company.stage.run_for(IDLE_SECONDS)
            seconds, share = 0.0, IDLE_SECONDS
        else:
            company.join() if event == "one joins" else company.crash()
            until_noticed = 0.2 if event == "one joins" else max(NOTICE_SECONDS)
            company.stage.run_for(until_noticed)
            seconds = until_noticed + company.run_until_stable(MOST_SECONDS)
        each = share * participants
        costs.append(
            MatrixCost(
                participants,
                event,
                company.messages / each,
                company.bytes / 1000 / each,
                (time.process_time() - worked) * 1000 / each,
                seconds,
            )
        )
        company.stage.run_for(5.0)
    return costs
