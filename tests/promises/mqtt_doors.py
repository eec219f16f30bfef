"""MQTT clients of several doors: a message of QoS 2 comes once, and to a member of a `$share` group at least
once, though doors crash and clients move; and the will of a client that vanishes comes once, though its door
crashes."""

from __future__ import annotations

import asyncio
from collections import Counter
from itertools import chain

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
    Packet,
    Publish,
    Reasons,
    Subscribe,
    Will,
    write_packet,
)
from tests.promises.storm import Outcome, Storm, eventually
from tests.pubsub.doors.mqtt_scene import POLL, Door, Scene, Wire

NAME = "mqtt doors"
KINDS = ("crash", "partition", "spike", "slow", "disk")
WRITERS, READERS, MEMBERS = 2, 2, 2
HEARD = 30.0
"""Seconds after which a door has heard of the others' wills, though the network was cut meanwhile."""
WINDOW = 3
"""Messages that a client that publishes has under way."""


class Client:
    """Keeps its own session, as MQTT clients do, and goes from door to door."""

    def __init__(self, name: str, storm: Storm, doors: list[Door], outcome: Outcome) -> None:
        self.name = name
        self._storm, self._doors, self._outcome = storm, doors, outcome
        self.was_there = False
        """The session has begun, so every door has to know it."""
        self.is_connected = False

    async def run(self) -> None:
        chance = self._storm.chance
        while True:
            await asyncio.sleep(chance.uniform(0.1, 1.0))
            up = [door for door in self._doors if door.program.is_up]
            if up:
                await self._use(chance.choice(up), chance.uniform(1, 40))
                self.is_connected = False

    def connect(self) -> Connect:
        properties = {"session_expiry_interval": 36_000}
        return Connect(self.name, clean_start=False, properties=properties)

    async def _use(self, door: Door, seconds: float) -> None:
        """Stay with a door for a while, or until it has gone."""
        wire, decoder = Wire(door), Decoder()
        self.wire = wire
        door.calls.append(wire)
        self.send(self.connect())
        end = self._storm.net.now + seconds
        while not wire.is_dead and self._storm.net.now < end:
            data, wire.to_client = wire.to_client, []
            for packet in chain.from_iterable(map(decoder.feed, data)):
                self._take(packet)
            if self.is_connected:
                self.work()
            await asyncio.sleep(POLL)
        wire.close()

    def send(self, packet: Packet) -> None:
        self.wire.to_door.append(write_packet(packet, V5))

    def _take(self, packet: Packet) -> None:
        if isinstance(packet, ConnAck):
            if packet.reason:
                return
            self.is_connected = True
            if self.was_there and not packet.session_present:
                self._outcome.violations.append(f"{self.name}: its session is not there any more")
            self.begin()
        else:
            self.take(packet)

    def begin(self) -> None:
        """The door has the session."""

    def work(self) -> None:
        """A moment has passed."""

    def take(self, packet: Packet) -> None:
        """The door has sent a packet."""


class Writer(Client):
    """Publishes numbers with QoS 2, and sends again what was not acknowledged."""

    def __init__(self, *arguments: object) -> None:
        super().__init__(*arguments)  # type: ignore[arg-type]
        self.published = self._last_id = 0
        self.is_over = False
        self._on_way: dict[int, bytes] = {}
        """By packet id: the payload, empty once the door has said PUBREC."""

    @property
    def is_done(self) -> bool:
        return self.is_over and not self._on_way

    def begin(self) -> None:
        self.was_there = True
        for packet_id, payload in self._on_way.items():
            if payload:
                self.send(Publish("orders/new", payload, 2, dup=True, packet_id=packet_id))
            else:
                self.send(Ack(PUBREL, packet_id))

    def work(self) -> None:
        if not self.is_over and len(self._on_way) < WINDOW and self._storm.chance.random() < 0.1:
            self._last_id = self._last_id % 7 + 1  # so that packet ids are used again
            if self._last_id in self._on_way:
                return
            self.published += 1
            payload = f"{self.name} {self.published}".encode()
            self._on_way[self._last_id] = payload
            self.send(Publish("orders/new", payload, 2, packet_id=self._last_id))

    def take(self, packet: Packet) -> None:
        if isinstance(packet, Ack) and packet.packet_id in self._on_way:
            if packet.code == PUBREC and packet.reason:
                return  # it is sent again at another door
            if packet.code == PUBREC:
                self._on_way[packet.packet_id] = b""
                self.send(Ack(PUBREL, packet.packet_id))
            elif packet.code == PUBCOMP:
                del self._on_way[packet.packet_id]


class Sensor(Client):
    """Connects under a new name each time, and vanishes without a word: each of its wills is to come."""

    def __init__(self, *arguments: object) -> None:
        super().__init__(*arguments)  # type: ignore[arg-type]
        self.lives = 0
        self.connected: list[tuple[str, float]] = []
        """The wills that doors have taken over, and when."""

    def connect(self) -> Connect:
        self.lives += 1
        name = f"{self.name} {self.lives}"
        return Connect(name, will=Will("orders/wills", name.encode(), 2, False))

    def begin(self) -> None:
        self.connected.append((f"{self.name} {self.lives}", self._storm.net.now))


class Cover:
    """When there was no door that could have heard of all others, so that wills may be lost."""

    def __init__(self, storm: Storm, doors: list[Door]) -> None:
        self._storm, self._doors = storm, doors
        self._up_since: dict[int, float] = {}
        self.blind = 0.0
        """The last such moment."""

    async def run(self) -> None:
        while True:
            now = self._storm.net.now
            for number, door in enumerate(self._doors):
                program = door.program
                if not program.is_up:
                    self._up_since.pop(number, None)
                else:
                    self._up_since.setdefault(number, now)
            if not any(now - since > HEARD for since in self._up_since.values()):
                self.blind = now
            await asyncio.sleep(POLL)


class Reader(Client):
    """Counts what it is given: when it comes, or when it is released (section 4.3.3 allows both)."""

    filter = "orders/+"

    def __init__(self, *arguments: object) -> None:
        super().__init__(*arguments)  # type: ignore[arg-type]
        self.got: Counter[str] = Counter()
        self._gives_late = self.name.endswith("1")
        self._held: dict[int, str] = {}

    def begin(self) -> None:
        if not self.was_there:
            self.send(Subscribe(1, (Asked(self.filter, 2),)))

    def take(self, packet: Packet) -> None:
        match packet:
            case Reasons(code) if code == SUBACK:
                self.was_there = not packet.reasons[0] & 0x80
            case Publish():
                text = packet.payload.decode()
                if packet.packet_id not in self._held:
                    self._held[packet.packet_id] = text
                    if not self._gives_late:
                        self.got[text] += 1
                self.send(Ack(PUBREC, packet.packet_id))
            case Ack(code) if code == PUBREL:
                text = self._held.pop(packet.packet_id, "")
                if text and self._gives_late:
                    self.got[text] += 1
                self.send(Ack(PUBCOMP, packet.packet_id))


class Member(Reader):
    """One of those who share the messages."""

    filter = "$share/workers/orders/+"


def run(seed: int, minutes: float = 4.0) -> Outcome:
    storm = Storm(seed, minutes, KINDS)
    outcome = Outcome(NAME, seed)
    scene = Scene(storm)
    doors = scene.doors
    readers = [Reader(f"reader {n}", storm, doors, outcome) for n in range(READERS)]
    members = [Member(f"member {n}", storm, doors, outcome) for n in range(MEMBERS)]
    sensor = Sensor("sensor", storm, doors, outcome)
    cover = Cover(storm, doors)
    due: set[str] = set()
    writers = [Writer(f"writer {n}", storm, doors, outcome) for n in range(WRITERS)]

    def expected() -> Counter[str]:
        numbers = ((one, n) for one in writers for n in range(1, one.published + 1))
        return Counter(f"{one.name} {n}" for one, n in numbers)

    def wills() -> set[str]:
        """Those that must have come; the last one is still connected."""
        return {name for name, since in sensor.connected[:-1] if since > cover.blind}

    def shared() -> Counter[str]:
        return sum((one.got for one in members), Counter[str]())

    async def main() -> None:
        await scene.begin()
        listening = [*readers, *members]
        tasks = [asyncio.create_task(one.run()) for one in listening]
        if not await eventually(storm.net, 120, lambda: all(one.was_there for one in listening)):
            outcome.violations.append("a reader could not subscribe")
        tasks += [asyncio.create_task(one.run()) for one in (*writers, sensor, cover)]
        await asyncio.sleep(10)
        await storm.rage()
        for writer in writers:
            writer.is_over = True
        if not await eventually(storm.net, 300, lambda: all(one.is_done for one in writers)):
            outcome.violations.append("a message was never acknowledged")
        for reader in readers:
            await eventually(storm.net, 300, lambda one=reader: one.got.keys() >= expected().keys())  # type: ignore[misc]
        await eventually(storm.net, 300, lambda: shared().keys() >= expected().keys())
        due.update(wills())
        await eventually(storm.net, 300, lambda: readers[0].got.keys() >= due)
        await asyncio.sleep(60)
        for task in tasks:
            task.cancel()

    storm.run(main(), outcome)
    published = expected()
    outcome.checked += len(due)
    for reader in readers:
        came = Counter({one: n for one, n in reader.got.items() if one.startswith("sensor ")})
        reader.got -= came
        if lost_wills := due - came.keys():
            outcome.violations.append(f"{reader.name} never got the wills {sorted(lost_wills)[:5]}")
        if again := {one for one, times in came.items() if times > 1}:
            outcome.violations.append(f"{reader.name} got wills twice: {sorted(again)[:5]}")
    for reader in readers:
        outcome.checked += len(published)
        if lost := published - reader.got:
            outcome.violations.append(f"{reader.name} never got {sorted(lost)[:5]} ({len(lost)})")
        if again := reader.got - published:
            outcome.violations.append(f"{reader.name} got twice {sorted(again)[:5]} ({len(again)})")
    outcome.checked += len(published)
    if lost := published - shared():
        outcome.violations.append(f"no member got {sorted(lost)[:5]} ({len(lost)})")
    return outcome
