"""One participant publishes messages of 1 KiB as fast as it can; all count what they get."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass

from bench.topic_broadcast.participants import Participant

PAYLOAD = bytes(1024)

QUIET_SECONDS = 0.5
"""An unreliable run has ended when nothing more arrived for so long."""


@dataclass(frozen=True)
class Throughput:
    """Of one run."""

    network: str
    """virtual or sockets."""
    semantics: str
    participants: int
    messages: int
    seconds: float
    """From the first broadcast until every participant had acknowledged all, or nothing came any more."""
    delivered: float
    """Share of the deliveries that were due at others."""
    datagrams: float
    """Sent by anybody, for each message and receiver."""
    duplicates: float
    """Copies that came again, for each delivery."""

    @property
    def rate(self) -> float:
        """Messages a second."""
        return self.messages / self.seconds


async def measure(
    people: list[Participant],
    semantics: str,
    messages: int,
    network: str,
    datagrams: Callable[[], int],
    clock: Callable[[], float],
    pace: float = 0.0,
) -> Throughput:
    """Publish and wait for the end; `pace`: seconds that the sender's link takes for one message to all."""
    others = people[1:]
    before = [person.delivered for person in others]
    copies = sum(person.strong.core.counts["duplicates"] for person in others)
    sent = datagrams()
    began = clock()
    if semantics == "reliable":
        numbers = [await people[0].strong.broadcast(PAYLOAD) for _ in range(messages)]
        for number in numbers:  # a later one may be settled sooner
            await people[0].strong.settled(number)
        ended = clock()
    else:
        for _ in range(messages):
            await people[0].strong.broadcast(PAYLOAD, semantics="best-effort")
            await asyncio.sleep(pace)
        ended = await _when_quiet(others, clock)
    received = sum(p.delivered - b for p, b in zip(others, before, strict=True))
    due = messages * len(others)
    copies = sum(person.strong.core.counts["duplicates"] for person in others) - copies
    return Throughput(
        network,
        semantics,
        len(people),
        messages,
        ended - began,
        received / due,
        (datagrams() - sent) / due,
        copies / due,
    )


async def _when_quiet(others: list[Participant], clock: Callable[[], float]) -> float:
    """What the clock showed at the last delivery."""
    loop = asyncio.get_running_loop()
    last, shown, count = loop.time(), clock(), -1
    while loop.time() - last < QUIET_SECONDS:
        now = sum(person.delivered for person in others)
        if now != count:
            last, shown, count = loop.time(), clock(), now
        await asyncio.sleep(QUIET_SECONDS / 50)
    return shown
