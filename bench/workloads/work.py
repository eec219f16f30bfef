"""What publishers and subscribers of every system do alike: make events, read their time, keep a rate,
report."""

from __future__ import annotations

import asyncio
import itertools
import struct
import time
from collections.abc import (
    AsyncIterator,
    Awaitable,
    Callable,
    Coroutine,
    Iterator,
    Sequence,
)
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import Any

from bench.players import Player, answers, ask_all

_STAMP = struct.Struct("!d")
LEAST_BYTES = _STAMP.size
"""An event is at least as long as the time that it carries."""

DONE = "done"
TURN_SECONDS = 0.001
"""At a steady rate, events are published in turns of at least this length."""
LOOK_EVERY = 64
"""At full speed a subscriber looks at the clock once in this many events, and at the last one."""


@dataclass(frozen=True)
class Work:
    """Events to publish and to receive, as fast as possible or at a rate of events a second."""

    events: int
    bytes: int = 256
    """Application data of each event."""
    rate: float | None = None
    patience: float = 20.0
    """Seconds without an event after which a subscriber gives the rest up for lost."""


@dataclass(frozen=True)
class Published:
    """A publisher's report; times are seconds of the machine's monotonic clock."""

    events: int
    began_at: float
    ended_at: float
    """When every event was sent or, where the work asks for it, safe."""
    cpu: float
    """Seconds of the process's processor time."""
    bytes_sent: int = 0

    @property
    def seconds(self) -> float:
        return self.ended_at - self.began_at


@dataclass(frozen=True)
class Received:
    """A subscriber's report; times as above."""

    events: int
    asked_at: float
    """When the subscriber was given the work."""
    first_at: float
    last_at: float
    cpu: float
    latencies: tuple[float, ...]
    """Seconds from the publication of each event to its delivery; only of work at a rate."""
    bytes_sent: int = 0
    copies: int = 0
    """Copies of events that arrived, duplicates included."""


class Events:
    """Makes events of one size. Each begins with the time; the clock is the same for all processes."""

    def __init__(self, size: int) -> None:
        self._rest = bytes(size - LEAST_BYTES)

    def new(self) -> bytes:
        return _STAMP.pack(time.monotonic()) + self._rest


def age(event: bytes) -> float:
    """Seconds since the event was made."""
    return time.monotonic() - float(_STAMP.unpack_from(event)[0])


class Tally:
    """What a subscriber has received of its work so far."""

    def __init__(self, work: Work) -> None:
        self.received = 0
        self.asked_at = time.monotonic()
        self.first_at = self.last_at = 0.0
        self.latencies: list[float] = []
        self.is_complete = work.events <= 0
        self._work = work
        self._cpu = time.process_time()

    def add(self, event: bytes) -> None:
        received = self.received = self.received + 1
        if self._work.rate is not None:
            self.latencies.append(age(event))
        elif received % LOOK_EVERY != 1 and received != self._work.events:
            return
        self.last_at = time.monotonic()
        if received == 1:
            self.first_at = self.last_at
        self.is_complete = received >= self._work.events

    async def kept_up(self, receiving: Coroutine[None, None, None]) -> None:
        """Run `receiving` until it ends, or until nothing has come for as long as the work's patience.

        One look now and then: a time-out for each event would cost more than an event does."""
        task = asyncio.ensure_future(receiving)
        before = -1
        while not task.done() and self.received > before:
            before = self.received
            await asyncio.wait([task], timeout=self._work.patience)
        if not task.done():
            task.cancel()
        for outcome in await asyncio.gather(task, return_exceptions=True):
            if isinstance(outcome, Exception):
                raise outcome

    def report(self, bytes_sent: int = 0, copies: int | None = None) -> Received:
        return Received(
            self.received,
            self.asked_at,
            self.first_at,
            self.last_at,
            time.process_time() - self._cpu,
            tuple(self.latencies),
            bytes_sent,
            self.received if copies is None else copies,
        )


class Effort:
    """A publisher's time and processor time, from now on."""

    def __init__(self, work: Work) -> None:
        self._work = work
        self._began_at, self._cpu = time.monotonic(), time.process_time()
        self._ended_at = 0.0

    def end(self) -> None:
        """Every event is published; what is still to be sent counts as processor time all the same."""
        self._ended_at = time.monotonic()

    def report(self, bytes_sent: int = 0) -> Published:
        cpu = time.process_time() - self._cpu
        return Published(self._work.events, self._began_at, self._ended_at, cpu, bytes_sent)


def _pauses(work: Work) -> Iterator[float]:
    """Seconds to wait before each event, so that the n-th is not published before its time."""
    if work.rate is None:
        yield from itertools.repeat(0.0, work.events)
        return
    began = time.monotonic()
    for number in range(work.events):
        early = began + number / work.rate - time.monotonic()
        yield max(early, TURN_SECONDS) if early > 0 else 0.0


async def publish_all(work: Work, publish: Callable[[bytes], Awaitable[object]]) -> None:
    """Publish the work's events, at its rate."""
    events = Events(work.bytes)
    for pause in _pauses(work):
        if pause:
            await asyncio.sleep(pause)
        await publish(events.new())


def publish_blocking(work: Work, publish: Callable[[bytes], object]) -> None:
    """Publish all events of a work, as `publish_all` does, for a system whose calls block."""
    events = Events(work.bytes)
    for pause in _pauses(work):
        if pause:
            time.sleep(pause)
        publish(events.new())


# A role says when it has done its work, and reports when it is asked to, which is when all have done theirs:
# until then it may still send what it has queued, or pass events on to others.


async def report_is_due(pipe: Connection) -> None:
    """Say that the work is done, and wait until the report is asked for."""
    pipe.send(DONE)
    await asyncio.to_thread(pipe.recv)


def wait_for_report(pipe: Connection) -> None:
    """The same for a role that blocks."""
    pipe.send(DONE)
    pipe.recv()


def reports(players: Sequence[Player], within: float) -> list[Any]:
    """The reports of all, asked for when all have done their work."""
    answers(players, within)
    return ask_all(players, DONE, within)


async def orders(pipe: Connection) -> AsyncIterator[Work]:
    """The work that a role is told to do, until it is told to end."""
    while (work := await asyncio.to_thread(pipe.recv)) is not None:
        yield work


def blocking_orders(pipe: Connection) -> Iterator[Work]:
    """The same for a role that blocks."""
    while (work := pipe.recv()) is not None:
        yield work


async def publish_orders(
    pipe: Connection,
    publish: Callable[[Work], Awaitable[object]],
    bytes_sent: Callable[[], int] = lambda: 0,
) -> None:
    """A publisher's role once it is ready: a report for each work, whose events `publish` sends."""
    async for work in orders(pipe):
        effort, before = Effort(work), bytes_sent()
        await publish(work)
        effort.end()
        await report_is_due(pipe)
        pipe.send(effort.report(bytes_sent() - before))


async def receive_work(
    pipe: Connection,
    work: Work,
    receive: Callable[[Tally], Coroutine[None, None, None]],
    counts: Callable[[], tuple[int, int]] | None = None,
) -> None:
    """One work of a subscriber: "ready", its events as `receive` takes them, a report.

    `counts`: the bytes that were sent and the copies that arrived so far. What does not come is lost, and
    counted as lost."""
    tally = Tally(work)
    sent, copies = counts() if counts else (0, 0)
    pipe.send("ready")
    await tally.kept_up(receive(tally))
    await report_is_due(pipe)
    if counts is None:
        pipe.send(tally.report())
    else:
        sent_now, copies_now = counts()
        pipe.send(tally.report(sent_now - sent, copies_now - copies))


def publish_blocking_orders(pipe: Connection, publish: Callable[[bytes], object]) -> None:
    """The same for a role that blocks; `publish` sends one event."""
    for work in blocking_orders(pipe):
        effort = Effort(work)
        publish_blocking(work, publish)
        effort.end()
        wait_for_report(pipe)
        pipe.send(effort.report())
