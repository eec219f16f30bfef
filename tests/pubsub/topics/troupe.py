"""Participants of one topic on the stage, with channels, a failure detector, logs, and a record of
everything.

Channels do what `overlay.channel` promises and no more: what is sent arrives once and in any order; what is
too large for one is not taken; what is sent into a partition waits for its end; what a crash of either side
catches is reported lost; that the other side has restarted is told before anything that it says. The failure
detector notices with a random delay, sometimes suspects without reason, and takes it back.

A node may run without the topic: its channels work, and what they bring for the topic is dropped.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from overlay.channel import ChannelConfig
from overlay.contact import Contact, PeerId
from overlay.errors import UsageError
from overlay.virtual.stage import Stage, StageConfig, numbered_contact
from overlay.wire import MAX_MESSAGE, decode, encode
from pubsub.topics.broadcast import TopicBroadcast
from pubsub.topics.config import BroadcastConfig, TopicMembershipConfig
from pubsub.topics.context import Outcome
from pubsub.topics.delivering import Order
from pubsub.topics.log import TopicLog
from pubsub.topics.messages import Cast
from tests.pubsub.topics.actor import TOPIC, Actor, MessageId, identity
from tests.pubsub.topics.memory_log import MemoryLog

__all__ = ["TOPIC", "Actor", "MessageId", "Occurrence", "Troupe", "TroupeConfig", "identity"]

WRITE_SECONDS = 0.005
"""What a write to the disk takes."""


@dataclass
class Occurrence:
    """One line of the history: who, in which start, when, what."""

    time: float
    who: int
    start: int
    what: str
    """joined, broadcast, delivered, gap, stable, crashed, left."""
    of: Any = None


@dataclass
class Waiting:
    """A message that a partition holds back."""

    sender: Actor
    receiver: Actor
    message: object
    outcome: Outcome | None


@dataclass
class TroupeConfig:
    broadcast: BroadcastConfig = field(default_factory=BroadcastConfig)
    membership: TopicMembershipConfig = field(default_factory=TopicMembershipConfig)
    channel: ChannelConfig = field(default_factory=ChannelConfig)
    order: Order = "none"
    notice: tuple[float, float] = (0.5, 2.0)
    """Seconds after which the failure detector notices a change."""
    check_wire: bool = False
    absent_answer: bool = True
    """Whether nodes without the topic say so when something comes."""


class Troupe:
    """All participants, the network between them, and the history of the run."""

    core_class = TopicBroadcast

    def __init__(self, seed: int, size: int, config: TroupeConfig | None = None) -> None:
        self.config = config or TroupeConfig()
        self.stage = Stage(seed, StageConfig())
        self.chance = random.Random(f"troupe {seed}")
        self.contacts = [numbered_contact(number) for number in range(size)]
        self.actors: dict[int, Actor] = {}
        self.logs: dict[int, MemoryLog] = {}
        self.history: list[Occurrence] = []
        self.messages = 0
        self.payloads = 0
        self.largest = 0
        """Bytes of the largest message."""
        self.too_large: list[object] = []
        """Messages that a channel does not carry."""
        self._starts = 0
        self._sides: dict[int, int] | None = None
        self._cut: dict[frozenset[int], None] = {}
        """Pairs that cannot talk to each other, whatever side they are on."""
        self._waiting: list[Waiting] = []
        self.holds_back: Callable[[int, int, object], bool] = lambda sender, receiver, message: (
            False
        )
        """Which messages wait as if their channel were cut, until the next partition or heal."""
        self._numbers = {contact.id: number for number, contact in enumerate(self.contacts)}
        self._last_message: tuple[object, bool] = (None, True)

    def note(self, actor: Actor, what: str, of: Any = None) -> None:
        self.history.append(Occurrence(self.stage.now, actor.number, actor.start, what, of))

    # The script.

    def start(self, number: int, *, logged: bool = False, filter: str = "") -> Actor:
        """Let a participant begin: as the first, with its log, or through one that it can reach."""
        log: TopicLog = self.logs.setdefault(number, MemoryLog()) if logged else TopicLog()
        actor = self._actor(number, log, filter)
        if actor.core.can_rejoin:
            actor.core.start()
        else:
            self._find_sponsor(actor)
        self._change_channels()
        return actor

    def start_without_topic(self, number: int) -> None:
        """Let a node run, again or for the first time, that takes no part."""
        self._actor(number, TopicLog(), "", in_topic=False)
        self._change_channels()

    def _actor(self, number: int, log: TopicLog, filter: str, in_topic: bool = True) -> Actor:
        self._starts += 1
        self.stage.restart(self.contacts[number])
        before = self.actors.get(number)
        runs_on = before is not None and before.alive
        run = before.run if before is not None and runs_on else self._starts
        actor = self.actors[number] = Actor(self, number, self._starts, run, in_topic)
        if before is not None and runs_on:
            before.alive = False
            actor.runs = before.runs
        if isinstance(log, MemoryLog):
            log.later = partial(actor.call_later, WRITE_SECONDS)
        boot = int(self.stage.now * 1000)
        actor.core = self.core_class(
            TOPIC,
            actor,
            self.config.broadcast,
            self.config.membership,
            actor,
            log,
            boot=boot,
            run=(boot * 1000 + self._starts).to_bytes(8, "big"),
            filter=filter,
            order=self.config.order,
        )
        return actor

    def _find_sponsor(self, actor: Actor) -> None:
        if not actor.alive or actor.has_left or actor.core.membership.is_joined:
            return
        able = [
            other
            for other in self.actors.values()
            if other is not actor and other.alive and other.core.membership.is_joined
        ]
        near = [other for other in able if self.linked(actor.number, other.number)]
        if near:
            actor.core.membership.subscribe(self.chance.choice(near).contact)
        elif not able:
            actor.core.start()
            return
        actor.call_later(2.0, lambda: self._find_sponsor(actor))

    def crash(self, number: int) -> None:
        actor = self.actors[number]
        if actor.alive and not actor.has_left:
            actor.alive = False
            self.stage.crash(actor.contact)
            self.note(actor, "crashed")
            if number in self.logs:
                self.logs[number].crash()
            self._lose_what_waits(actor)
            self._change_channels()

    def leave(self, number: int, *, partitioned: bool = False) -> bool:
        """Unsubscribe; not while a partition is on, unless told to."""
        actor = self.actors[number]
        may = partitioned or self._sides is None
        if actor.alive and actor.core.membership.is_joined and may:
            actor.has_left = True
            actor.core.leave()
            self.note(actor, "left")
            self.stage.call_at(self.stage.now + 1.0, lambda: self._end(actor))
            return True
        return False

    def _end(self, actor: Actor) -> None:
        """Let one that has left go, when its goodbyes have arrived."""
        if any(one.sender is actor and one.receiver.alive for one in self._waiting):
            self.stage.call_at(self.stage.now + 1.0, lambda: self._end(actor))
        elif actor.alive and self.actors[actor.number] is actor:
            actor.alive = False
            self.stage.crash(actor.contact)
            self._lose_what_waits(actor)
            self._change_channels()

    def broadcast(self, number: int, payload: bytes = b"x", **audience: Any) -> MessageId | None:
        actor = self.actors.get(number)
        if actor is None or not actor.alive or not actor.core.membership.is_joined:
            return None
        core = actor.core
        place = len(self.history)
        published = core.publish(payload, **audience)
        made = (core.membership.me, core.membership.run, published)
        occurrence = Occurrence(self.stage.now, number, actor.start, "broadcast", made)
        self.history.insert(place, occurrence)
        return made

    def partition(self, *sides: Iterable[int]) -> None:
        self._sides = {number: place for place, side in enumerate(sides, 1) for number in side}
        self._let_pass_what_waits()

    def cut(self, one: int, other: int) -> None:
        """Let two not talk to each other until all is healed, though others talk to both."""
        self._cut[frozenset((one, other))] = None
        self._let_pass_what_waits()

    def heal(self) -> None:
        self._sides = None
        self._cut.clear()
        self._let_pass_what_waits()

    def _let_pass_what_waits(self) -> None:
        waiting, self._waiting = self._waiting, []
        for one in waiting:
            self._transmit(one.sender, one.receiver, one.message, one.outcome)
        self._change_channels()

    def suspect_wrongly(self, number: int, other: int) -> None:
        """The failure detector of one participant suspects another for a moment."""
        actor, peer = self.actors.get(number), self.contacts[other].id
        if actor is not None and actor.alive and peer in actor.watched:
            actor.suspected[peer] = None
            actor.core.membership.closed(peer)
            self.look_soon(actor, peer)

    def run(self, seconds: float) -> None:
        self.stage.run_for(seconds)

    # The network.

    def linked(self, one: int, other: int) -> bool:
        """Whether two can talk to each other."""
        if frozenset((one, other)) in self._cut:
            return False
        return self._sides is None or self._sides.get(one, 0) == self._sides.get(other, 0)

    def together(self, one: int, other: int) -> bool:
        """Whether two participants can communicate, directly or through others."""
        reached = [one]
        left = [actor.number for actor in self.alive() if actor.number != one]
        for near in reached:  # it grows meanwhile
            found = [far for far in left if self.linked(near, far)]
            reached += found
            left = [far for far in left if far not in found]
        return other in reached

    def send(
        self,
        sender: Actor,
        to: Contact,
        message: object,
        outcome: Outcome | None,
        waits: bool = True,
    ) -> bool:
        if not sender.alive:
            return True
        if not self._fits(message):
            return False
        self.messages += 1
        if isinstance(message, Cast):
            self.payloads += sum(item.payload is not None for item in message.items)
        receiver = self.actors.get(self._numbers.get(to.id, -1))
        if receiver is None or not receiver.alive:
            if outcome is not None:
                sender.call_later(1.0, lambda: outcome(False))
        elif self.linked(sender.number, receiver.number) and not self.holds_back(
            sender.number, receiver.number, message
        ):
            self._transmit(sender, receiver, message, outcome)
        elif waits:
            self._waiting.append(Waiting(sender, receiver, message, outcome))
        return True

    def _fits(self, message: object) -> bool:
        """Whether a channel carries a message; one that goes to many in turn is looked at once."""
        last, fits = self._last_message
        if last is message:
            return fits
        try:
            data = encode(message)
            size = len(data)
        except UsageError:
            size = MAX_MESSAGE + 1
        self.largest = max(self.largest, size)
        fits = size <= self.config.channel.max_message
        if not fits:
            self.too_large.append(message)
        elif self.config.check_wire:
            restored = decode(data)
            assert restored == message, f"{message!r} arrived as {restored!r}"
        self._last_message = (message, fits)
        return fits

    def _transmit(
        self, sender: Actor, receiver: Actor, message: object, outcome: Outcome | None
    ) -> None:
        def arrive() -> None:
            now_there = self.actors[receiver.number]
            arrives = now_there.alive and now_there.run == receiver.run
            if not self.linked(sender.number, receiver.number) and arrives:
                self._waiting.append(Waiting(sender, now_there, message, outcome))
                return
            if arrives:
                self._meet(now_there, sender)
                now_there.receive(sender.contact, message)
            if outcome is not None and sender.alive:
                outcome(arrives)

        latency = 0.01 + 0.04 * self.chance.random()
        self.stage.call_at(self.stage.now + latency, arrive)

    def _lose_what_waits(self, actor: Actor) -> None:
        lost = [one for one in self._waiting if actor.run in (one.sender.run, one.receiver.run)]
        self._waiting = [one for one in self._waiting if one not in lost]
        for one in lost:
            if one.outcome is not None and one.sender.alive:
                one.outcome(False)

    def _meet(self, actor: Actor, other: Actor) -> None:
        """The channel to another node works: tell if that has restarted."""
        before = actor.runs.get(other.number, other.run)
        actor.runs[other.number] = max(before, other.run)
        if other.run > before and actor.in_topic:
            actor.core.membership.doubted(other.contact.id)

    # The failure detector.

    def _change_channels(self) -> None:
        for actor in list(self.actors.values()):
            if actor.alive:
                for peer in list(actor.watched):
                    self.look_soon(actor, peer)

    def look_soon(self, actor: Actor, peer: PeerId) -> None:
        delay = self.chance.uniform(*self.config.notice)
        self.stage.call_at(self.stage.now + delay, lambda: self._look(actor, peer))

    def _look(self, actor: Actor, peer: PeerId) -> None:
        if not actor.alive or peer not in actor.watched:
            return
        other = self.actors.get(self._numbers.get(peer, -1))
        works = other is not None and other.alive and self.linked(actor.number, other.number)
        if works and other is not None:
            self._meet(actor, other)
        if works and peer in actor.suspected:
            del actor.suspected[peer]
            actor.core.membership.opened(peer)
        elif not works and peer not in actor.suspected:
            actor.suspected[peer] = None
            actor.core.membership.closed(peer)

    # What can be seen.

    def alive(self) -> list[Actor]:
        """The participants that run and have joined, in order."""
        return [
            actor
            for _, actor in sorted(self.actors.items())
            if actor.alive and actor.core.membership.is_joined
        ]
