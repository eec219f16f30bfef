"""Wills whose door is killed, and clean starts at another door: doors and an archive, virtually."""

from __future__ import annotations

import asyncio
from collections import Counter

import pytest

from pubsub.doors.mqtt.packets import (
    Publish,
)
from tests.promises.storm import eventually
from tests.pubsub.doors.mqtt_scene import Client, Door, Scene, play


@pytest.mark.parametrize(
    "seed",
    # 24: the session's name was taken again by the door that had said goodbye to it
    # 18, 96, 158: every fifth datagram is lost, and a channel to the archive waited for seconds
    [1, 2, 24, *(pytest.param(seed, marks=pytest.mark.sweep) for seed in (3, 18, 32, 96, 158))],
)
def test_the_will_of_a_client_whose_door_is_killed_comes_once_unless_the_client_came_back(
    seed: int,
) -> None:
    async def main(scene: Scene) -> None:
        first, second, last = scene.doors
        watcher = Client("watcher", expiry=1000)
        await watcher.connect(last)
        await watcher.subscribe("orders/wills")
        staying = [
            Client("short", delay=0),
            Client("lasting", 500, delay=4),
            Client("long", 500, delay=30),
        ]
        leaving = [Client("goodbye", delay=0), Client("lasting goodbye", 500, delay=5)]
        moving = [Client("mover", 500, delay=15), Client("short mover", delay=0)]
        broken = Client("broken", 500, delay=15)
        for one in (*staying, *leaving, *moving, broken):
            await one.connect(first)
        for one in leaving:
            await one.say_goodbye()
        await moving[1].connect(second)
        assert await eventually(scene.storm.net, 10, lambda: watcher.got["short mover"] == 1)
        broken.vanish()  # and comes back within the delay of its will
        await asyncio.sleep(scene.storm.chance.uniform(0.5, 6.0))
        scene.kill(first)
        await asyncio.sleep(scene.storm.chance.uniform(0.1, 3.0))
        await asyncio.gather(moving[0].connect(second), broken.connect(second))
        assert moving[0].is_present
        assert broken.is_present
        expected = Counter({"short": 1, "lasting": 1, "short mover": 1})
        await asyncio.sleep(18)
        assert watcher.got == expected, "so far"
        scene.kill(second)  # which has some wills of the first, or not, and three clients
        expected += Counter({"long": 1, "mover": 1, "short mover": 1, "broken": 1})
        await eventually(scene.storm.net, 60, lambda: watcher.got >= expected)
        await asyncio.sleep(40)
        assert watcher.got == expected

    play(seed, main)


def test_a_clean_start_at_another_door_ends_the_session_that_was_kept() -> None:
    async def main(scene: Scene) -> None:
        first, second, last = scene.doors
        reader, writer = Client("reader", expiry=1000), Client("writer")
        await reader.connect(first)
        await reader.subscribe("orders/a")
        await reader.subscribe("orders/b")
        assert len(scene.names("/orders")) == 2
        scene.kill(first)
        await writer.connect(last)
        writer.send(Publish("orders/a", b"missed", 2, packet_id=5))
        reader.expiry = 0
        await reader.connect(second, clean_start=True)
        assert not reader.is_present
        assert await eventually(scene.storm.net, 30, lambda: not scene.names("/orders"))
        scene.kill(second)
        reader.expiry = 1000
        await reader.connect(last)
        assert not reader.is_present, "the session ended with the clean start"
        await asyncio.sleep(10)
        assert not reader.got
        await reader.say_goodbye()

    play(5, main)


def test_a_will_that_waits_comes_when_a_clean_start_at_another_door_ends_its_session() -> None:
    async def main(scene: Scene) -> None:
        first, second, last = scene.doors
        watcher, one = Client("watcher", expiry=1000), Client("one", 1000, delay=40)
        await watcher.connect(last)
        await watcher.subscribe("orders/wills")
        await one.connect(first)
        one.vanish()
        await one.connect(second, clean_start=True)
        assert await eventually(scene.storm.net, 5, lambda: watcher.got["one"] == 1)
        one.vanish()
        scene.kill(second)
        await one.connect(last, clean_start=True)
        assert await eventually(scene.storm.net, 60, lambda: watcher.got["one"] == 2)

    play(7, main)


@pytest.mark.parametrize(
    ("sees_archive", "delay", "before"), [(True, 20, 0), (False, 20, 0), (False, 0, 1)]
)
def test_a_door_that_others_took_for_dead_keeps_the_wills_of_its_clients(
    sees_archive: bool, delay: int, before: int
) -> None:
    """A will that has come while its door seemed to be dead does not come again."""

    async def main(scene: Scene) -> None:
        first, _, last = scene.doors
        watcher = Client("watcher", expiry=1000)
        one, two = Client("one", 1000, delay), Client("two", 1000, delay=40)
        await watcher.connect(last)
        await watcher.subscribe("orders/wills")
        await one.connect(first)
        await two.connect(first)
        net = scene.storm.net
        others = scene.storm.programs[3 if sees_archive else 0 :]
        away = [one.host for one in others if one is not first.program]
        net.partition([first.program.host], away)
        await asyncio.sleep(15)
        net.heal()
        await asyncio.sleep(60)
        assert watcher.got == Counter({"one": before} if before else {})
        scene.kill(first)
        assert await eventually(net, 90, lambda: len(watcher.got) == 2)
        assert watcher.got == Counter({"one": 1, "two": 1})

    play(6, main)


@pytest.mark.parametrize("elsewhere", [True, False])
@pytest.mark.parametrize("end", ["door", "client"])
@pytest.mark.parametrize(
    "seed", [1, 2, *(pytest.param(one, marks=pytest.mark.sweep) for one in range(3, 13))]
)
def test_a_will_waits_though_its_client_connects_again_until_that_one_is_let_in(
    seed: int, end: str, elsewhere: bool
) -> None:
    """Those that come back are anywhere between CONNECT and CONNACK when the door or the client is gone."""

    async def main(scene: Scene) -> None:
        first, second, last = scene.doors
        chance = scene.storm.chance
        watcher = Client("watcher", expiry=1000)
        await watcher.connect(last)
        await watcher.subscribe("orders/wills")
        ones = [Client(f"one {number}", 500, delay=20) for number in range(8)]
        for one in ones:
            await one.connect(first)
            one.vanish()
        back = second if elsewhere else first
        calls = []
        for one in ones:
            calls.append(asyncio.create_task(one.connect(back)))
            await asyncio.sleep(chance.uniform(0.0, 0.15))
        if end == "door":
            scene.kill(back)
        for one in ones:
            one.vanish()
        await asyncio.gather(*calls, return_exceptions=True)
        expected = Counter(one.name for one in ones)
        await eventually(scene.storm.net, 100, lambda: watcher.got >= expected)
        await asyncio.sleep(40)
        assert watcher.got == expected

    play(seed, main)


@pytest.mark.parametrize(
    ("seed", "elsewhere", "returns"),
    [
        (1, False, False),
        *(
            pytest.param(seed, elsewhere, returns, marks=pytest.mark.sweep)
            for seed, elsewhere, returns in (
                (1, True, True),
                (1, False, True),
                (2, True, False),
                (2, False, False),
                (3, True, True),
            )
        ),
    ],
)
def test_a_will_comes_once_though_the_archive_fails_while_its_client_connects_again(
    seed: int, elsewhere: bool, returns: bool
) -> None:
    """Clients are anywhere between CONNECT and CONNACK when the archive is gone, for longer than doors wait
    for it; those that return are let in before the delay has passed."""

    async def main(scene: Scene) -> None:
        first, second, last = scene.doors
        net, chance = scene.storm.net, scene.storm.chance
        watcher = Client("watcher", expiry=1000)
        await watcher.connect(last)
        await watcher.subscribe("orders/wills")
        ones = [Client(f"one {number}", 500, delay=50) for number in range(8)]
        for one in ones:
            await one.connect(first)
            one.vanish()
        calls = []

        async def fail() -> None:
            await asyncio.sleep(chance.uniform(0.1, 0.7))
            scene.storm.crash(scene.archive_program)
            await asyncio.sleep(14)
            scene.storm.restart(scene.archive_program)

        async def enter(one: Client, door: Door) -> None:
            while True:
                try:
                    return await one.connect(door)
                except AssertionError:  # the door has refused it
                    await asyncio.sleep(1)

        failing = asyncio.create_task(fail())
        for one in ones:
            calls.append(asyncio.create_task(one.connect(second if elsewhere else first)))
            await asyncio.sleep(chance.uniform(0.0, 0.12))
        await failing
        for one in ones:
            one.vanish()
        await asyncio.gather(*calls, return_exceptions=True)
        if returns:
            await asyncio.gather(*(enter(one, chance.choice((first, second))) for one in ones))
        for _ in range(100 if returns else 0):
            await asyncio.sleep(1)
            for one in (*ones, watcher):
                if one.wire.is_dead:
                    await enter(one, last)
        assert not watcher.got or not returns, "they are there"
        for one in ones:
            one.vanish()
        if watcher.wire.is_dead:
            await enter(watcher, last)
        expected = Counter(one.name for one in ones)
        await eventually(net, 200, lambda: watcher.got >= expected)
        await asyncio.sleep(60)
        assert watcher.got == expected

    play(seed, main)
