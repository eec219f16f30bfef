"""Runs of the measurement: at full speed, one event at a time, and catching up."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Protocol

from bench.durable import roles
from bench.durable.roles import Kind, Published, Received
from bench.fanout.run import START_SECONDS, WORK_SECONDS, Player
from bench.fanout.work import Work


@dataclass(frozen=True)
class Figures:
    """One kind of delivery, in one run."""

    published: float
    """Events a second, until all were sent (best effort) or safe."""
    delivered: float
    """Events a second, summed over the subscribers."""
    cpu: float
    """Microseconds of all processes for each delivery."""
    delays: tuple[float, ...]
    """Seconds from publishing to delivery, one event at a time."""


class Crew(Protocol):
    """Who does the work: processes that read and one that publishes, and what keeps events between them."""

    def reader(self, number: int) -> Player: ...

    def publisher(self) -> Player: ...

    def keeper_seconds(self) -> float:
        """Processor time of what keeps the events, so far."""
        ...


@contextmanager
def archive(kind: str) -> Iterator[Player]:
    """An archive on a store of this kind, in a directory of its own."""
    with tempfile.TemporaryDirectory(prefix="camcast-durable-") as directory:
        store = (
            f"sqlite:///{directory}/events.db" if kind == "sqlite" else f"file://{directory}/log"
        )
        player = player_of(roles.archive, store, None)
        try:
            yield player
        finally:
            player.end()


def player_of(role: Any, way: Any, first: str | None) -> Player:
    """A process of this measurement's own roles, which are told other things than those of the fan-out."""
    return Player(role, way, first)


@dataclass(frozen=True)
class Nodes:
    """Nodes around an archive."""

    keeper: Player
    kind: Kind

    def reader(self, number: int) -> Player:
        return player_of(roles.subscriber, (self.kind, f"{self.kind} {number}"), self.keeper.name)

    def publisher(self) -> Player:
        return player_of(roles.publisher, self.kind, self.keeper.name)

    def keeper_seconds(self) -> float:
        self.keeper.tell("cpu")
        return float(self.keeper.answer(START_SECONDS))


def deliver(crew: Crew, subscribers: int, events: int, rate: float) -> Figures:
    """At full speed to so many subscribers, then at a steady rate for their delay."""
    players: list[Player] = []
    try:
        for number in range(subscribers):
            players.append(crew.reader(number))
        readers, reports = list(players), []
        for work in (Work(events), Work(max(int(2 * rate), 1), rate)):
            for reader in readers:
                reader.tell(work)
            for reader in readers:
                reader.answer(START_SECONDS)
            if len(players) == subscribers:
                players.append(crew.publisher())
            before = crew.keeper_seconds()
            players[-1].tell(work)
            published: Published = players[-1].answer(WORK_SECONDS)
            received: list[Received] = [reader.answer(WORK_SECONDS) for reader in readers]
            reports.append((published, received, crew.keeper_seconds() - before))
        return _figures(events, *reports[0], reports[1][1])
    finally:
        for player in reversed(players):
            player.end()


def _figures(
    events: int,
    published: Published,
    received: list[Received],
    keeper_cpu: float,
    steady: list[Received],
) -> Figures:
    seconds = max(one.last_at for one in received) - min(one.first_at for one in received)
    delivered = sum(one.events for one in received)
    cpu = published.cpu + keeper_cpu + sum(one.cpu for one in received)
    delays = tuple(sorted(delay for one in steady for delay in one.latencies))
    return Figures(events / published.seconds, delivered / seconds, 1e6 * cpu / delivered, delays)


def catch_up(keeper: Player, missed: int) -> float:
    """Seconds from a subscriber's return until it has had everything that it missed."""
    name = f"away {missed}"
    players = [player_of(roles.subscriber, ("ordered", name), keeper.name)]
    try:
        reader = players[0]
        publisher = player_of(roles.publisher, "ordered", keeper.name)
        players.append(publisher)
        reader.tell(Work(0))  # registers, and goes away with nothing
        reader.answer(START_SECONDS)
        publisher.tell(Work(1))
        publisher.answer(WORK_SECONDS)
        reader.answer(WORK_SECONDS)
        publisher.tell(Work(missed))
        publisher.answer(WORK_SECONDS)
        reader.tell(Work(missed))
        reader.answer(START_SECONDS)
        report: Received = reader.answer(WORK_SECONDS)
        return report.last_at - report.asked_at
    finally:
        for player in reversed(players):
            player.end()
