"""Start the processes of a fan-out, have them do their work, and collect what they report."""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from typing import Any

from bench.fanout import nodes, plain
from bench.fanout.result import FanoutResult, PublisherReport, SubscriberReport, summarise
from bench.fanout.way import Way
from bench.fanout.work import Work

START_SECONDS = 60.0
WORK_SECONDS = 300.0

Role = Callable[[Connection, Way, str | None], None]


class FanoutFailed(RuntimeError):
    """A process did not answer in time, or ended."""


class Player:
    """A process with a role, at the other end of a pipe."""

    def __init__(self, role: Role, way: Way, first: str | None) -> None:
        context = multiprocessing.get_context("spawn")
        self._pipe, theirs = context.Pipe()
        self._process: BaseProcess = context.Process(
            target=role, args=(theirs, way, first), daemon=True
        )
        self._process.start()
        theirs.close()
        self.name: str = self.answer(START_SECONDS)

    def tell(self, what: object) -> None:
        self._pipe.send(what)

    def answer(self, within: float) -> Any:
        try:
            if self._pipe.poll(within):
                return self._pipe.recv()
        except EOFError:
            pass
        raise FanoutFailed(f"{self._process.name} did not answer within {within:g} s")

    def end(self) -> None:
        self._pipe.send(None)
        self._process.join(10)
        if self._process.is_alive():
            self._process.terminate()
            self._process.join()


def run_fanout(
    way: Way, subscribers: int, events: int, rate: float, sampled: bool = False
) -> FanoutResult:
    """A fan-out to so many subscribers: first at full speed, then at a steady rate.

    `sampled`: at full speed once more, to see where the time goes."""
    roles: Any = plain if way.is_plain else nodes
    players: list[Player] = []
    try:
        for _ in range(subscribers):
            first = players[0].name if players else None
            players.append(Player(roles.subscriber, way, first))
        others = list(players)
        known = players[0].name
        if roles is plain:
            known = ",".join(player.name for player in players)
        publisher = Player(roles.publisher, way, known)
        players.append(publisher)
        if roles is nodes:
            _drain(others)
        fast = _round(publisher, others, Work(events))
        steady = _round(publisher, others, Work(max(int(2 * rate), 1), rate))
        if not sampled or way.is_plain:
            return summarise(way.system, fast, steady[1])
        looked_at = _round(publisher, others, Work(events, sampled=True))
        return summarise(way.system, fast, steady[1], looked_at)
    finally:
        for player in reversed(players):
            player.end()


def _drain(subscribers: list[Player]) -> None:
    """Take the publisher's first event, with which it joined."""
    for player in subscribers:
        player.tell(Work(1))
    for player in subscribers:
        player.answer(START_SECONDS)
        player.answer(WORK_SECONDS)


def _round(
    publisher: Player, subscribers: list[Player], work: Work
) -> tuple[PublisherReport, list[SubscriberReport]]:
    for player in subscribers:
        player.tell(work)
    for player in subscribers:
        player.answer(START_SECONDS)
    publisher.tell(work)
    report = publisher.answer(WORK_SECONDS)
    return report, [player.answer(WORK_SECONDS) for player in subscribers]
