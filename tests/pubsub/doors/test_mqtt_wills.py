"""Wills whose door is killed, and clean starts at another door: doors and an archive, virtually."""

from __future__ import annotations

import asyncio
from collections import Counter
from itertools import chain
from typing import Any

import pytest

from pubsub import Archive, Node
from pubsub.archive.store.append_files import AppendFileStore
from pubsub.doors.mqtt.packets import (
    PUBCOMP,
    PUBREC,
    PUBREL,
    SUBACK,
    V5,
    Ack,
    Asked,
    ConnAck,
    Connect,
    Decoder,
    Disconnect,
    Packet,
    Publish,
    Reasons,
    Subscribe,
    Will,
    write_packet,
)
from tests.promises.mqtt_doors import POLL, Door, Wire
from tests.promises.storm import Outcome, Program, Storm, eventually


class Client:
    """A client by hand: connects where it is told, and counts what comes."""

    def __init__(self, name: str, delay: int = 0, expiry: int = 0) -> None:
        self.name, self.expiry = name, expiry
        properties = {"will_delay_interval": delay} if delay else {}
        self.will: Will | None = Will("orders/wills", name.encode(), 2, False, properties)
        self.got: Counter[str] = Counter()
        self.is_present = False
        self._news: list[Packet] = []

    async def connect(self, door: Door, clean_start: bool = False) -> None:
        self.wire, self._decoder = Wire(door), Decoder()
        door.calls.append(self.wire)
        self._reading = asyncio.create_task(self._read())
        properties = {"session_expiry_interval": self.expiry}
        connect = Connect(self.name, clean_start=clean_start, will=self.will, properties=properties)
        answer = await self.ask(connect, ConnAck)
        assert answer.reason == 0, answer
        self.is_present = answer.session_present

    def send(self, packet: Packet) -> None:
        self.wire.to_door.append(write_packet(packet, V5))

    async def ask(self, packet: Packet, kind: type) -> Any:
        self.send(packet)
        while True:
            for one in self._news:
                if type(one) is kind:
                    self._news.remove(one)
                    return one
            assert not self.wire.is_dead, f"{self.name}: the door has closed the connection"
            await asyncio.sleep(POLL)

    async def _read(self) -> None:
        wire = self.wire
        while not wire.is_dead:
            data, wire.to_client = wire.to_client, []
            for packet in chain.from_iterable(map(self._decoder.feed, data)):
                match packet:
                    case Publish():
                        self.got[packet.payload.decode()] += 1
                        self.send(Ack(PUBREC, packet.packet_id))
                    case Ack(code) if code == PUBREL:
                        self.send(Ack(PUBCOMP, packet.packet_id))
                    case _:
                        self._news.append(packet)
            await asyncio.sleep(POLL)

    async def subscribe(self, filter: str) -> None:
        answer = await self.ask(Subscribe(1, (Asked(filter, 2),)), Reasons)
        assert answer.code == SUBACK
        assert answer.reasons == (2,)

    async def say_goodbye(self) -> None:
        self.send(Disconnect())
        await self._reading


class Scene:
    """An archive and three doors."""

    def __init__(self, seed: int) -> None:
        self.storm = Storm(seed, 0, ())
        self.doors = [Door(self.storm) for _ in range(3)]
        self.archive: Archive

    async def _meeting_point(self, program: Program) -> None:
        async with Node(listen=program.listen, identity=program.identity):
            await asyncio.Event().wait()

    async def _archive(self, program: Program) -> None:
        async with Archive(
            ["/orders", "/mqtt-sessions"],
            store=AppendFileStore(program.disk, "/archive"),
            listen=program.listen,
            identity=program.identity,
            bootstrap=[self.storm.first_address],
        ) as self.archive:
            await asyncio.Event().wait()

    async def begin(self) -> None:
        self.storm.add("meeting point", self._meeting_point)
        self.storm.add("archive", self._archive)
        for number, door in enumerate(self.doors):
            door.program = self.storm.add(f"door {number}", door.run)
        for program in self.storm.programs:
            self.storm.start(program)
            await asyncio.sleep(2.0)

    def kill(self, door: Door) -> None:
        self.storm.crash(door.program)

    def names(self, topic: str) -> set[str]:
        return set(self.archive.status()[topic]["subscribers"])

    def run(self, main: Any) -> None:
        outcome = Outcome("wills", self.storm.seed)
        self.storm.run(main, outcome)
        assert not outcome.violations


@pytest.mark.parametrize("seed", [1, 2, pytest.param(3, marks=pytest.mark.sweep)])
def test_the_will_of_a_client_whose_door_is_killed_comes_once_unless_the_client_came_back(
    seed: int,
) -> None:
    scene = Scene(seed)
    chance = scene.storm.chance

    async def main() -> None:
        await scene.begin()
        first, second, last = scene.doors
        watcher = Client("watcher", expiry=1000)
        watcher.will = None
        await watcher.connect(last)
        await watcher.subscribe("orders/wills")
        staying = [Client("short"), Client("lasting", 4, 500), Client("long", 25, 500)]
        leaving = [Client("goodbye"), Client("lasting goodbye", 5, 500)]
        moving = [Client("mover", 15, 500), Client("short mover", 0, 0)]
        for one in (*staying, *leaving, *moving):
            await one.connect(first)
        for one in leaving:
            await one.say_goodbye()
        await moving[1].connect(second)
        assert await eventually(scene.storm.net, 10, lambda: watcher.got["short mover"] == 1)
        await asyncio.sleep(chance.uniform(0.5, 6.0))
        scene.kill(first)
        await asyncio.sleep(chance.uniform(0.1, 3.0))
        await moving[0].connect(second)
        assert moving[0].is_present
        expected = Counter({"short": 1, "lasting": 1, "short mover": 1})
        await asyncio.sleep(18)
        assert watcher.got == expected, "so far"
        scene.kill(second)  # which has some wills of the first, or not, and two clients
        expected += Counter({"long": 1, "mover": 1, "short mover": 1})
        await eventually(scene.storm.net, 60, lambda: watcher.got >= expected)
        await asyncio.sleep(40)
        assert watcher.got == expected

    scene.run(main())


def test_a_clean_start_at_another_door_ends_the_session_that_was_kept() -> None:
    scene = Scene(5)

    async def main() -> None:
        await scene.begin()
        first, second, last = scene.doors
        reader, writer = Client("reader", expiry=1000), Client("writer")
        reader.will = writer.will = None
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

    scene.run(main())


@pytest.mark.parametrize("sees_archive", [True, False])
def test_a_door_that_others_took_for_dead_keeps_the_wills_of_its_clients(
    sees_archive: bool,
) -> None:
    scene = Scene(6)

    async def main() -> None:
        await scene.begin()
        first, _, last = scene.doors
        watcher, one = Client("watcher", expiry=1000), Client("one", 20, 1000)
        watcher.will = None
        await watcher.connect(last)
        await watcher.subscribe("orders/wills")
        await one.connect(first)
        net = scene.storm.net
        others = scene.storm.programs[3 if sees_archive else 0 :]
        away = [one.host for one in others if one is not first.program]
        net.partition([first.program.host], away)
        await asyncio.sleep(15)
        net.heal()
        await asyncio.sleep(60)
        before = 0 if sees_archive else 1
        assert watcher.got["one"] == before, "the archive knew better, unless it was cut off too"
        scene.kill(first)
        assert await eventually(net, 60, lambda: watcher.got["one"] == before + 1)

    scene.run(main())
