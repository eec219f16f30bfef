"""A world of cores whose schedule is the worst that the model allows, drawn by seed.

Links are perfect: what one correct process sends to another arrives, once, but at any time and in any
order, as over lossy links that repeat until acknowledged. A process crashes after any of its sends, so
also between two copies of one broadcast, and any part of what it had sent is lost then. Detectors learn
of a crash at any time after it. A partition holds back what crosses it until it heals.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from overlay.contact import Contact
from overlay.virtual.stage import numbered_contact
from pubsub.broadcast.events import Broadcast, Deliver, LayerMessage, StartDetector
from pubsub.broadcast.kernel import LayerChannel, LayerEvent, Stack
from pubsub.broadcast.process import GroupProcess, OnCrash
from tests.pubsub.broadcast.properties import Broadcasts, Delivery, History


@dataclass(frozen=True)
class Schedule:
    """What happens besides the delivery of messages; times are steps of the run."""

    seed: int
    members: int = 4
    broadcasts: int = 8
    crashes: tuple[tuple[int, int], ...] = ()
    """Members, and after how many of its sends each crashes."""
    sudden: tuple[int, ...] = ()
    """Members that crash at some step, whatever they do."""
    lies: int = 0
    """How many times a detector declares a live member crashed."""
    partitions: int = 0
    """How many times the members are cut into two sides, until the next cut or the end."""


@dataclass(eq=False)
class _Timer:
    owner: int
    due: float
    action: Callable[[], None]
    live: bool = True

    def cancel(self) -> None:
        self.live = False


@dataclass
class _Context:
    world: World
    rank: int
    contact: Contact
    random: random.Random

    def now(self) -> float:
        return self.world.now

    def send(self, to: Contact, message: Any) -> None:
        self.world.send(self.rank, to, message)

    def call_later(self, delay: float, action: Callable[[], None]) -> _Timer:
        timer = _Timer(self.rank, self.world.now + delay, action)
        if self.world.up[self.rank]:
            self.world.timers.append(timer)
        return timer


@dataclass
class World:
    """Runs one schedule of one stack, and keeps its history."""

    qos: Stack
    schedule: Schedule
    now: float = 0.0
    sends: int = 0
    timers: list[_Timer] = field(default_factory=list)
    history: History = field(default_factory=History)

    def __post_init__(self) -> None:
        size = self.schedule.members
        self.random = random.Random(f"adversary {self.schedule.seed}")
        self.contacts = [numbered_contact(number) for number in range(size)]
        self.rank_of = {contact.id: rank for rank, contact in enumerate(self.contacts)}
        self.up = [True] * size
        self.side = [0] * size
        self.transit: list[tuple[int, int, Any]] = []
        self.watchers: dict[int, OnCrash] = {}
        self.unnoticed: list[tuple[int, int]] = []
        self._sent_by = [0] * size
        self._crash_after = dict(self.schedule.crashes)
        self.processes: dict[int, GroupProcess] = {}
        self.channels: dict[int, LayerChannel] = {}
        for rank in range(size):
            self._open(rank)

    def _open(self, rank: int) -> None:
        context = _Context(self, rank, self.contacts[rank], random.Random(f"{rank}"))
        process = GroupProcess(
            rank, self.contacts, context, watch=lambda told: self.watchers.update({rank: told})
        )
        self.processes[rank] = process
        self.channels[rank] = self.qos_of(rank).open(
            process, lambda event: self._delivered(rank, event), channel="test"
        )
        self.channels[rank].push(StartDetector())

    def qos_of(self, rank: int) -> Stack:
        return self.qos

    def correct(self) -> list[int]:
        return [rank for rank, up in enumerate(self.up) if up]

    # What processes do.

    def send(self, rank: int, to: Contact, message: Any) -> None:
        if not self.up[rank]:
            return
        self.sends += 1
        self._sent_by[rank] += 1
        self.transit.append((rank, self.rank_of[to.id], message))
        if self._sent_by[rank] >= self._crash_after.get(rank, 1 << 60):
            self.crash(rank)

    def broadcast(self, rank: int) -> None:
        payload = [rank, len(self.history.broadcasts[rank])]
        self.history.record_broadcast(rank, tuple(payload))
        self.channels[rank].push(Broadcast(LayerMessage(payload)))

    def _delivered(self, rank: int, event: LayerEvent) -> None:
        if isinstance(event, Deliver) and self.up[rank]:
            data = event.message.data
            self.history.record(Delivery(rank, event.source, tuple(data) if data else None))

    # What happens to them.

    def crash(self, rank: int) -> None:
        if not self.up[rank]:
            return
        self.up[rank] = False
        kept = [copy for copy in self.transit if copy[0] != rank or self.random.random() < 0.5]
        self.transit = [copy for copy in kept if copy[1] != rank]
        self.timers = [timer for timer in self.timers if timer.owner != rank]
        self.unnoticed += [(watcher, rank) for watcher in self.correct()]

    def run(self) -> History:
        """The schedule, and then everything that is still to happen."""
        steps: list[Callable[[], None]] = [self._broadcast_somewhere] * self.schedule.broadcasts
        steps += [partial(self.crash, rank) for rank in self.schedule.sudden]
        steps += [self._lie] * self.schedule.lies + [self._cut] * self.schedule.partitions
        self.random.shuffle(steps)
        while steps:
            if self.random.random() < 0.25:
                steps.pop()()
            else:
                self._something()
        self.side = [0] * self.schedule.members
        for _ in range(100_000):
            if not self._something() and not self._fire():
                break
        self.history.correct = self.correct()
        return self.history

    def _broadcast_somewhere(self) -> None:
        if correct := self.correct():
            self.broadcast(self.random.choice(correct))

    def _something(self) -> bool:
        """One message arrives or one detector learns of a crash; False if there is neither."""
        self.now += 0.001
        may_pass = [n for n, (a, b, _) in enumerate(self.transit) if self.side[a] == self.side[b]]
        choices = len(may_pass) + len(self.unnoticed)
        if not choices:
            return False
        choice = self.random.randrange(choices)
        if choice < len(may_pass):
            sender, receiver, message = self.transit.pop(may_pass[choice])
            if self.up[receiver]:
                self.processes[receiver].receive(self.contacts[sender], message)
        else:
            self._notice(self.unnoticed.pop(choice - len(may_pass)))
        return True

    def _notice(self, news: tuple[int, int]) -> None:
        watcher, crashed = news
        if self.up[watcher] and watcher in self.watchers:
            self.watchers[watcher](crashed)

    def _fire(self) -> bool:
        """The next timer fires, within a bounded time: a member may ask in vain for ever."""
        self.timers = [timer for timer in self.timers if timer.live]
        due = min(self.timers, key=lambda timer: timer.due, default=None)
        if due is None or due.due > 60:
            return False
        self.now = max(self.now, due.due)
        due.live = False
        due.action()
        return True

    def _lie(self) -> None:
        correct = self.correct()
        if len(correct) >= 2:
            watcher, victim = self.random.sample(correct, 2)
            self._notice((watcher, victim))

    def _cut(self) -> None:
        self.side = [self.random.randrange(2) for _ in self.side]


def run(qos: Stack, schedule: Schedule) -> History:
    return World(qos, schedule).run()


__all__ = ["Broadcasts", "Schedule", "World", "run"]
