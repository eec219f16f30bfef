"""A client that connects to several doors at once: one of them has it, soon."""

from __future__ import annotations

import asyncio
from functools import partial

import pytest

from tests.promises.storm import eventually
from tests.pubsub.doors.mqtt_scene import Client, Door, Scene, play


async def call(callers: list[_Caller], scene: Scene) -> None:
    """Each calls another door, all at once."""
    pairs = zip(callers, scene.doors, strict=False)
    await asyncio.gather(*(caller.call(door) for caller, door in pairs))


def is_one_there(callers: list[_Caller]) -> bool:
    return sum(caller.is_there for caller in callers) == 1


SEEDS = [1, 2, *(pytest.param(seed, marks=pytest.mark.sweep) for seed in range(3, 15))]


class _Caller(Client):
    """Connects, and may be refused."""

    is_in = False

    async def call(self, door: Door) -> None:
        try:
            await self.connect(door)
        except AssertionError:
            return
        self.is_in = True

    @property
    def is_there(self) -> bool:
        return self.is_in and not self.wire.is_dead


@pytest.mark.parametrize("expiry", [0, 1000])
@pytest.mark.parametrize("seed", SEEDS)
def test_a_client_that_connects_to_two_doors_at_once_is_let_in_at_one(
    seed: int, expiry: int
) -> None:
    async def main(scene: Scene) -> None:
        for number, door in enumerate(scene.doors):
            await Client(f"another {number}", 1000).connect(door)
        callers = [_Caller("twice", expiry, delay=0) for _ in range(2)]
        async with asyncio.timeout(
            9
        ):  # a door that only waits for the other one gives up after ten
            await call(callers, scene)
        assert is_one_there(callers)
        await asyncio.sleep(30)
        assert is_one_there(callers)

    play(seed, main)


@pytest.mark.parametrize("seed", SEEDS)
def test_a_client_that_is_connected_and_connects_elsewhere_is_ended_where_it_was(seed: int) -> None:
    async def main(scene: Scene) -> None:
        first, second = _Caller("mover", 1000), _Caller("mover", 1000)
        await first.call(scene.doors[0])
        await second.call(scene.doors[1])
        assert second.is_there
        assert await eventually(scene.storm.net, 5, lambda: not first.is_there)
        await asyncio.sleep(30)
        assert second.is_there

    play(seed, main)


@pytest.mark.parametrize("seed", SEEDS)
def test_one_door_has_a_client_whose_doors_use_two_replicas(seed: int) -> None:
    async def main(scene: Scene) -> None:
        for turn in range(4):
            callers = [_Caller(f"twice {turn}", 1000) for _ in scene.doors]
            await call(callers, scene)
            one_left = partial(is_one_there, callers)
            assert await eventually(scene.storm.net, 20, one_left)
            await asyncio.sleep(20)
            assert one_left()

    play(seed, main, archives=2)
