"""Memory over many events: what nodes keep does not grow with how many they have passed on."""

from __future__ import annotations

import asyncio
import gc
import os
import tracemalloc

import pytest

from overlay import loops
from pubsub import Node, Parameters

EVENTS = int(os.environ.get("CAMCAST_EVENTS", "600000"))
"""Events that are published in all; 10,000,000 takes a few minutes."""

ROUNDS = 6
LITTLE = Parameters(keep_bytes=1024 * 1024)
"""What is kept for those that ask later fills up in the first round."""

TOPIC = "/memory"
SLACK = 2 * 1024 * 1024
"""Bytes by which rounds may differ: buffers that happen to be full or not."""


async def used_after_each_round() -> list[int]:
    """Bytes of Python's objects after each round, when two nodes have passed on a part of the events."""
    used: list[int] = []
    async with (
        Node(parameters=LITTLE) as subscriber,
        subscriber.subscribe(TOPIC, queue=EVENTS) as events,
        Node(bootstrap=[str(subscriber.address)], parameters=LITTLE) as publisher,
    ):
        await publisher.publish(TOPIC, b"first", wait="acked")
        await anext(events)
        for _ in range(ROUNDS):
            reading = asyncio.create_task(read(events, EVENTS // ROUNDS))
            for _ in range(EVENTS // ROUNDS):
                await publisher.publish(TOPIC, bytes(16))
            async with asyncio.timeout(600):
                await reading
            gc.collect()
            used.append(tracemalloc.get_traced_memory()[0])
    return used


async def read(events: object, count: int) -> None:
    async for _ in events:  # type: ignore[attr-defined]
        count -= 1
        if not count:
            return


@pytest.mark.sweep
def test_memory_does_not_grow_with_the_number_of_events() -> None:
    tracemalloc.start(1)
    try:
        used = loops.run(used_after_each_round())
    finally:
        tracemalloc.stop()
    assert max(used[1:]) <= used[0] + SLACK, used
