"""Runs of the measurement: at full speed, one event at a time, and catching up."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

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


@contextmanager
def archive(kind: str) -> Iterator[Player]:
    """An archive on a store of this kind, in a directory of its own."""
    with tempfile.TemporaryDirectory(prefix="camcast-durable-") as directory:
        store = (
            f"sqlite:///{directory}/events.db" if kind == "sqlite" else f"file://{directory}/log"
        )
        player = _player(roles.archive, store, None)
        try:
            yield player
        finally:
            player.end()


def _player(role: Any, way: Any, first: str | None) -> Player:
    """A process of this measurement's own roles, which are told other things than those of the fan-out."""
    return Player(role, way, first)


def deliver(keeper: Player, kind: Kind, subscribers: int, events: int, rate: float) -> Figures:
    """At full speed to so many subscribers, then at a steady rate for their delay."""
    readers = [
        _player(roles.subscriber, (kind, f"{kind} {number}"), keeper.name)
        for number in range(subscribers)
    ]
    players = list(readers)
    try:
        reports: list[tuple[Published, list[Received], float]] = []
        for work in (Work(events), Work(max(int(2 * rate), 1), rate)):
            for reader in readers:
                reader.tell(work)
            for reader in readers:
                reader.answer(START_SECONDS)
            if len(players) == len(readers):
                players.append(_player(roles.publisher, kind, keeper.name))
            publisher = players[-1]
            before = _cpu(keeper)
            publisher.tell(work)
            published = publisher.answer(WORK_SECONDS)
            received = [reader.answer(WORK_SECONDS) for reader in readers]
            reports.append((published, received, _cpu(keeper) - before))
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
    players = [_player(roles.subscriber, ("ordered", name), keeper.name)]
    try:
        reader = players[0]
        publisher = _player(roles.publisher, "ordered", keeper.name)
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


def _cpu(keeper: Player) -> float:
    """Seconds of CPU that the archive has used."""
    keeper.tell("cpu")
    return float(keeper.answer(START_SECONDS))
