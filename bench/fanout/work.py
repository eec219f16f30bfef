"""What publishers and subscribers of every system do alike: make events, read their time, keep a rate."""

from __future__ import annotations

import asyncio
import struct
import time
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass

from bench.fanout.result import EVENT_BYTES

_STAMP = struct.Struct("!d")

TURN_SECONDS = 0.001
"""At a steady rate, events are published in turns of at least this length."""


@dataclass(frozen=True)
class Work:
    """So many events, as fast as possible or at a rate of events a second."""

    events: int
    rate: float | None = None

    sampled: bool = False
    """Whether to find out where the time goes, which costs a little of it."""

    patience: float = 20.0
    """Seconds without an event after which a subscriber gives the rest up for lost."""


def new_event() -> bytes:
    """`EVENT_BYTES` bytes that begin with the time; the clock is the same for all processes."""
    return _STAMP.pack(time.monotonic()) + bytes(EVENT_BYTES - _STAMP.size)


def age(event: bytes) -> float:
    """Seconds since the event was made."""
    return time.monotonic() - float(_STAMP.unpack_from(event)[0])


class Tally:
    """What a subscriber has received of its work so far."""

    def __init__(self, work: Work) -> None:
        self.received = 0
        self.first_at = self.last_at = 0.0
        self.latencies: list[float] = []
        self._work = work

    @property
    def is_complete(self) -> bool:
        return self.received >= self._work.events

    def add(self, event: bytes) -> None:
        self.last_at = time.monotonic()
        if not self.received:
            self.first_at = self.last_at
        self.received += 1
        if self._work.rate is not None:
            self.latencies.append(age(event))

    async def kept_up(self, receiving: Coroutine[None, None, None]) -> None:
        """Run `receiving` until it ends, or until nothing has come for as long as the work's patience.

        One look now and then: a time-out for each event would cost more than an event does."""
        task = asyncio.ensure_future(receiving)
        before = -1
        while not task.done() and self.received > before:
            before = self.received
            await asyncio.wait([task], timeout=self._work.patience)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def publish_all(work: Work, publish: Callable[[bytes], Awaitable[object]]) -> None:
    """Publish the work's events, the n-th not before its time."""
    began = time.monotonic()
    for number in range(work.events):
        if work.rate is not None:
            early = began + number / work.rate - time.monotonic()
            if early > 0:
                await asyncio.sleep(max(early, TURN_SECONDS))
        await publish(new_event())
