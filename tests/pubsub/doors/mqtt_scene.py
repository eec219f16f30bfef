"""Doors for MQTT and an archive on the virtual network, and clients that do as they are told."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Coroutine
from contextlib import AsyncExitStack
from itertools import chain
from typing import Any

from pubsub import Archive, Node
from pubsub.archive.store.append_files import AppendFileStore
from pubsub.doors.mqtt.bridge import open_hub
from pubsub.doors.mqtt.connection import Connection
from pubsub.doors.mqtt.hub import Hub
from pubsub.doors.mqtt.network import MqttConfig
from pubsub.doors.mqtt.packets import (
    PUBACK,
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
from pubsub.topic import Topic
from tests.promises.storm import Outcome, Program, Storm

POLL = 0.05


class Wire:
    """One connection between a client and a door: bytes in order, until either side has gone."""

    is_full = False

    def __init__(self, door: Door) -> None:
        self._door, self._life = door, door.program.lives
        self.to_door: list[bytes] = []
        self.to_client: list[bytes] = []
        self.is_closed = False

    @property
    def is_dead(self) -> bool:
        """The client finds out that nobody is there."""
        program = self._door.program
        return self.is_closed or not program.is_up or program.lives != self._life

    def write(self, data: bytes) -> None:
        if not self.is_closed:
            self.to_client.append(data)

    def close(self) -> None:
        self.is_closed = True


class Door:
    """A program with a door, to which clients connect by hand."""

    def __init__(self, storm: Storm) -> None:
        self._storm = storm
        self.program: Program
        self.calls: list[Wire] = []

    async def run(self, program: Program) -> None:
        self.calls = []
        async with AsyncExitStack() as stack:
            node = await stack.enter_async_context(
                Node(
                    listen=program.listen,
                    identity=program.identity,
                    bootstrap=[self._storm.first_address],
                )
            )
            durable = [Topic.of("/orders")]
            hub = await open_hub(stack, node, None, MqttConfig(), durable=durable, sessions=True)
            await self._serve(hub)

    async def _serve(self, hub: Hub) -> None:
        served: list[tuple[Wire, Connection]] = []
        while True:
            calls, self.calls = self.calls, []
            served += [(wire, hub.accept(wire)) for wire in calls]
            for wire, connection in served:
                data, wire.to_door = wire.to_door, []
                for part in data:
                    connection.feed(part)
                if wire.is_closed:
                    connection.lost()
            served = [one for one in served if not one[0].is_closed]
            await asyncio.sleep(POLL)


class Client:
    """A client by hand: connects where it is told, and counts what comes."""

    def __init__(self, name: str, expiry: int = 0, delay: int | None = None) -> None:
        """`delay`: that of its will, if it is to have one."""
        self.name, self.expiry = name, expiry
        self.will: Will | None = None
        if delay is not None:
            properties = {"will_delay_interval": delay} if delay else {}
            self.will = Will("orders/wills", name.encode(), 2, False, properties)
        self.got: Counter[str] = Counter()
        self.messages: list[Publish] = []
        self.is_present = False
        self._news: list[Packet] = []
        self._last_id = 0

    async def connect(self, door: Door, clean_start: bool = False, keep_alive: int = 0) -> None:
        self.wire, self._decoder = Wire(door), Decoder()
        self._news.clear()  # what an earlier connection was told
        door.calls.append(self.wire)
        self._reading = asyncio.create_task(self._read())
        properties = {"session_expiry_interval": self.expiry}
        connect = Connect(
            self.name,
            clean_start=clean_start,
            keep_alive=keep_alive,
            will=self.will,
            properties=properties,
        )
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
        wire, is_over = self.wire, False
        while not is_over:
            is_over = wire.is_dead  # what was written before is read all the same
            data, wire.to_client = wire.to_client, []
            for packet in chain.from_iterable(map(self._decoder.feed, data)):
                self._take(packet)
            await asyncio.sleep(POLL)

    def _take(self, packet: Packet) -> None:
        match packet:
            case Publish():
                self.got[packet.payload.decode()] += 1
                self.messages.append(packet)
                if packet.qos:
                    self.send(Ack(PUBACK if packet.qos == 1 else PUBREC, packet.packet_id))
            case Ack(code) if code == PUBREL:
                self.send(Ack(PUBCOMP, packet.packet_id))
            case _:
                self._news.append(packet)

    async def subscribe(self, filter: str) -> None:
        answer = await self.ask(Subscribe(1, (Asked(filter, 2),)), Reasons)
        assert answer.code == SUBACK
        assert answer.reasons == (2,)

    async def publish(self, text: str, qos: int, expiry: int | None = None) -> None:
        """Publish to `orders/x`, and wait until the door has the message."""
        self._last_id += 1
        properties = {} if expiry is None else {"message_expiry_interval": expiry}
        message = Publish(
            "orders/x", text.encode(), qos, packet_id=self._last_id, properties=properties
        )
        answer = await self.ask(message, Ack)
        assert answer == Ack(PUBACK if qos == 1 else PUBREC, self._last_id)
        if qos == 2:
            answer = await self.ask(Ack(PUBREL, self._last_id), Ack)
            assert answer == Ack(PUBCOMP, self._last_id)

    async def ended(self) -> int:
        """The reason for which the door has ended the connection."""
        await self._reading
        last = self._news[-1]
        assert isinstance(last, Disconnect)
        return last.reason

    async def say_goodbye(self, **properties: int) -> None:
        self.send(Disconnect(0, properties))
        await self._reading

    def vanish(self) -> None:
        """The connection breaks."""
        self.wire.close()


class Scene:
    """A meeting point, an archive, or several replicas of one, and three doors."""

    def __init__(self, storm: Storm, archives: int = 1) -> None:
        self.storm = storm
        self._archives = archives
        self.doors = [Door(storm) for _ in range(3)]
        self.archive: Archive
        self.archive_program: Program

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
        self.storm.add("meeting point", self._meeting_point, mortal=False)
        for number in range(self._archives):
            name = f"archive {number}" if number else "archive"
            self.archive_program = self.storm.add(name, self._archive)
        for number, door in enumerate(self.doors):
            door.program = self.storm.add(f"door {number}", door.run)
        for program in self.storm.programs:
            self.storm.start(program)
            await asyncio.sleep(1.0)

    def kill(self, door: Door) -> None:
        self.storm.crash(door.program)

    def names(self, topic: str) -> set[str]:
        return set(self.archive.status()[topic]["subscribers"])


def play(seed: int, act: Callable[[Scene], Coroutine[Any, Any, None]], archives: int = 1) -> None:
    """Run a test on a scene without faults but those that it makes."""
    storm, outcome = Storm(seed, 0, ()), Outcome("scene", seed)

    async def main() -> None:
        scene = Scene(storm, archives)
        await scene.begin()
        await act(scene)

    storm.run(asyncio.wait_for(main(), 600), outcome)
    assert not outcome.violations
