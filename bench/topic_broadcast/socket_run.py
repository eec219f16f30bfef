"""Throughput over real UDP on loopback, all participants in one process.

A second is one of this process's own work, so the rate is that of a free core that does the work of all
participants, whatever else the machine does. It falls with their number for either semantics; the comparison
of the two, in one run, is what counts.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable

from bench.topic_broadcast.participants import open_participants
from bench.topic_broadcast.throughput import Throughput, measure
from overlay import loops
from pubsub.strong_topic import TopicConfig
from pubsub.topic_broadcast.config import BroadcastConfig

ONE_CORE = TopicConfig(BroadcastConfig(patience=60.0))
"""Where one core does the work of all, a message may well take longer than the 2 s after which everybody who
holds it looks after it; among 100 that would be far more work than to bring it to them."""


def run_on_sockets(participants: int, messages: int) -> list[Throughput]:
    """Reliable, then unreliable, in the same topic."""
    return loops.run(_run(participants, messages))


async def _run(participants: int, messages: int) -> list[Throughput]:
    async def here(number: int, opening: Awaitable[None]) -> None:
        await opening

    people = await open_participants(["127.0.0.1:0"] * participants, here, ONE_CORE)
    try:

        def datagrams() -> int:
            return sum(
                person.runtime.metrics.counter("datagrams_sent", "").value for person in people
            )

        results = [
            await measure(people, "reliable", messages, "sockets", datagrams, time.process_time),
            await measure(people, "best-effort", messages, "sockets", datagrams, time.process_time),
        ]
    finally:
        for person in people:
            await person.close()
    return results
