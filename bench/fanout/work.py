"""What publishers and subscribers of every system do alike: make events, read their time, keep a rate."""

from __future__ import annotations

import asyncio
import struct
import time
from collections.abc import Awaitable, Callable
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

    patience: float = 20.0
    """Seconds without an event after which a subscriber gives the rest up for lost."""


def new_event() -> bytes:
    """`EVENT_BYTES` bytes that begin with the time; the clock is the same for all processes."""
    return _STAMP.pack(time.monotonic()) + bytes(EVENT_BYTES - _STAMP.size)


def age(event: bytes) -> float:
    """Seconds since the event was made."""
    return time.monotonic() - float(_STAMP.unpack_from(event)[0])


async def publish_all(work: Work, publish: Callable[[bytes], Awaitable[object]]) -> None:
    """Publish the work's events, the n-th not before its time."""
    began = time.monotonic()
    for number in range(work.events):
        if work.rate is not None:
            early = began + number / work.rate - time.monotonic()
            if early > 0:
                await asyncio.sleep(max(early, TURN_SECONDS))
        await publish(new_event())
