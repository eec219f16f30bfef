"""Within ten seconds after a partition has healed, events reach everyone again, in every mode."""

from __future__ import annotations

import asyncio
from contextlib import suppress

import pytest

from overlay.virtual import nth_host
from pubsub import Subscription
from tests.pubsub.playground import MODES, Playground, play

WITHIN = 10
"""Seconds in which events reach everyone again."""

WATCHED = 30
"""Events after that, one a second."""


@pytest.mark.sweep
@pytest.mark.parametrize("seed", [1, 2, 3])
@pytest.mark.parametrize("seconds", [30, 60])
@pytest.mark.parametrize("mode", MODES)
def test_events_reach_everyone_soon_after_a_partition(mode: str, seconds: int, seed: int) -> None:
    async def main(p: Playground) -> None:
        await p.node()
        subscriptions = [*await p.subscribers("/a", 6), *await p.subscribers("/a/b", 10)]
        taken: dict[Subscription, set[int]] = {events: set() for events in subscriptions}

        async def take(events: Subscription) -> None:
            async for event in events:
                taken[events].add(event.data)

        taking = [asyncio.create_task(take(events)) for events in subscriptions]
        await asyncio.sleep(30)
        hosts = [nth_host(number) for number in range(len(p.nodes))]
        p.network.partition(hosts[::2], hosts[1::2])
        for number in range(-seconds, 0):
            await publish(p, number)
        assert any(-2 not in numbers for numbers in taken.values()), "nothing was cut apart"
        p.network.heal()
        for number in range(WITHIN + WATCHED):
            await publish(p, number)
        await asyncio.sleep(5)
        for task in taking:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task
        promised = set(range(WITHIN, WITHIN + WATCHED))
        missed = {number for numbers in taken.values() for number in promised - numbers}
        assert not missed

    play(seed, main, mode)


async def publish(p: Playground, number: int) -> None:
    await p.nodes[-1].publish("/a/b", number)
    await asyncio.sleep(1)
