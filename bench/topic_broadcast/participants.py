"""Participants of one topic that are all in one process, on sockets or on the virtual network."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence

from overlay.endpoint import EndpointConfig
from overlay.failure import FailureConfig
from overlay.runtime import Runtime, RuntimeConfig
from pubsub.strong_topic import Delivery, StrongTopic
from pubsub.strong_topics import StrongTopics

TOPIC = "/bench/topics"
PATIENT = FailureConfig(interval=5.0, least_timeout=20.0, most_timeout=60.0)
"""A silent participant is asked for a sign of life as often as by a node, and suspected later: all share one
core, and none of them crashes."""

RunOn = Callable[[int, Awaitable[None]], Awaitable[None]]
"""Runs a participant's opening where it belongs: on its host, or right here."""


class Participant:
    """One participant, which counts what it is delivered."""

    def __init__(self, address: str) -> None:
        self._address = address
        self.delivered = 0
        self.runtime: Runtime
        self.topics: StrongTopics
        self.strong: StrongTopic

    async def open(self, first: Participant | None) -> None:
        config = RuntimeConfig(EndpointConfig(self._address), failure=PATIENT)
        self.runtime = await Runtime.open(config)
        self.topics = StrongTopics(self.runtime)
        known = () if first is None else (first.runtime.contact,)
        self.strong = await self.topics.join(TOPIC, self._count, known=known)

    def _count(self, delivery: Delivery) -> None:
        self.delivered += 1

    async def close(self) -> None:
        self.strong.abandon()
        await self.runtime.close()


async def open_participants(addresses: Sequence[str], run_on: RunOn) -> list[Participant]:
    """Open all, and wait until they share one stable view."""
    people = [Participant(address) for address in addresses]
    await run_on(0, people[0].open(None))
    for begin in range(1, len(people), 8):
        batch = range(begin, min(begin + 8, len(people)))
        await asyncio.gather(*(run_on(number, people[number].open(people[0])) for number in batch))
    while True:
        if _agree(people):
            return people
        await asyncio.sleep(0.2)


def _agree(people: list[Participant]) -> bool:
    first = people[0].strong.stable_view
    return (
        first is not None
        and len(first.members) == len(people)
        and all(person.strong.stable_view == first for person in people)
    )
