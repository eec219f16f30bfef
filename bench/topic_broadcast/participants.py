"""Participants of one topic that are all in one process, on sockets or on the virtual network."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence

from overlay.endpoint import EndpointConfig
from overlay.failure import FailureConfig
from overlay.runtime import Runtime, RuntimeConfig
from pubsub.strong_topic import Delivery, StrongTopic, TopicConfig
from pubsub.strong_topics import StrongTopics

TOPIC = "/bench/topics"
PATIENT = FailureConfig(interval=30.0, least_timeout=90.0, most_timeout=180.0)
"""A silent participant is asked for a sign of life seldom, and suspected late: all share one core, which
among 120 of them would else be busy with the signs of life of 7,140 pairs, and none of them crashes."""

JOINING_AT_ONCE = 6

RunOn = Callable[[int, Awaitable[None]], Awaitable[None]]
"""Runs a participant's opening where it belongs: on its host, or right here."""


class Participant:
    """One participant, which counts what it is delivered."""

    def __init__(self, address: str, config: TopicConfig) -> None:
        self._address = address
        self._config = config
        self.delivered = 0
        self.runtime: Runtime
        self.topics: StrongTopics
        self.strong: StrongTopic

    async def open(self, first: Participant | None) -> None:
        config = RuntimeConfig(EndpointConfig(self._address), failure=PATIENT)
        self.runtime = await Runtime.open(config)
        self.topics = StrongTopics(self.runtime)
        known = () if first is None else (first.runtime.contact,)
        self.strong = await self.topics.join(TOPIC, self._count, known=known, config=self._config)

    def _count(self, delivery: Delivery) -> None:
        self.delivered += 1

    async def close(self) -> None:
        self.strong.abandon()
        await self.runtime.close()


async def open_participants(
    addresses: Sequence[str], run_on: RunOn, topic: TopicConfig
) -> list[Participant]:
    """Open all, some at a time, each time until they share one stable view.

    On sockets one core does the work of all: when everybody joined at once, it could not keep up with what
    newcomers tell each other, and they would send again what was only late."""
    people = [Participant(address, topic) for address in addresses]
    await run_on(0, people[0].open(None))
    for begin in range(1, len(people), JOINING_AT_ONCE):
        end = min(begin + JOINING_AT_ONCE, len(people))
        await asyncio.gather(
            *(run_on(number, people[number].open(people[0])) for number in range(begin, end))
        )
        await _agreement(people[:end])
    return people


async def _agreement(people: list[Participant]) -> None:
    while True:
        if _agree(people):
            return
        await asyncio.sleep(0.2)


def _agree(people: list[Participant]) -> bool:
    first = people[0].strong.stable_view
    return (
        first is not None
        and len(first.members) == len(people)
        and all(person.strong.stable_view == first for person in people)
    )
