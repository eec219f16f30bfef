"""The door for MQTT beside mosquitto: messages a second, delay and memory, with one and the same load.

Server processes (nodes with a door each, or one mosquitto) and one process with all clients, over TCP on
loopback. One publisher sends 64-byte messages to a topic that every subscriber reads; at most `WINDOW`
messages are on their way to the slowest door's first subscriber, so that neither system has to drop any. MQTT
3.1.1, no archive. The clients write and read packets of one length, and cost both systems the same.

With several doors, subscribers are spread over them. Messages a second say little then where there are fewer
cores than processes: `capacity` is what subscribers got for each processor second of the busiest server
process, so what they would get a second if each process had a core of its own.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import struct
import time
from collections.abc import Iterator
from contextlib import AsyncExitStack
from multiprocessing.connection import Connection
from typing import Any

from bench.players import TICKS, Players, allow_files, resident_bytes, seconds_of
from bench.servers import NotInstalled, installed, mosquitto_server
from bench.workloads.workload import (
    Option,
    Row,
    RowTable,
    Setting,
    Workload,
    left_out,
    percentiles,
    rows_of,
)
from pubsub import Node
from pubsub.doors.mqtt import MqttDoor
from pubsub.doors.mqtt.packets import V311, Asked, Connect, Publish, Subscribe, write_packet

PAYLOAD = 64
WINDOW = 500
AT_ONCE = 100
"""Clients that connect at a time."""

TOPIC = "bench/x"
PUBACK, PUBREC, PUBREL, PUBCOMP = 0x40, 0x50, 0x62, 0x70


def run(options: argparse.Namespace) -> Iterator[Row]:
    for system in ("camcast", "mosquitto"):
        try:
            if system == "mosquitto":
                installed(system, package=system)
        except NotInstalled as missing:
            yield left_out({"system": system}, missing)
            continue
        yield from _memory(system, options.clients)
        for servers in options.doors if system == "camcast" else [1]:
            for qos in options.qos:
                # One subscriber is at one door, whatever the others do.
                for subscribers in options.subscribers:
                    if servers == 1 or subscribers >= servers > 1:
                        for network in range(options.runs):
                            yield from _speed(system, servers, qos, subscribers, options, network)


def _speed(
    system: str,
    servers: int,
    qos: int,
    subscribers: int,
    options: argparse.Namespace,
    network: int,
) -> Iterator[Row]:
    settings: dict[str, Setting] = {
        "system": system,
        "servers": servers,
        "qos": qos,
        "subscribers": subscribers,
    }
    with Players() as players:
        ports, processes, bootstrap = [], [], ""
        for _ in range(servers):
            port, process, bootstrap = players.start(serve, system, bootstrap).answer()
            ports.append(port)
            processes.append(process)
        load = players.start(push, ports, qos, subscribers, _messages(options, subscribers))
        load.answer()  # all are connected
        before = [seconds_of(one) for one in processes]
        load.tell("begin")
        found = load.answer()
        spent = [seconds_of(one) - was for one, was in zip(processes, before, strict=True)]
        rate = found.pop("received") / max(max(spent), 1 / TICKS)
        yield from rows_of(settings, {"capacity": (rate, "messages/s")} | found, network)


def _messages(options: argparse.Namespace, subscribers: int) -> int:
    """How many to publish: many subscribers are given more, since that goes faster."""
    return int(options.messages * (5 if subscribers > 10 else 1) // subscribers)


def _memory(system: str, clients: int) -> Iterator[Row]:
    with Players() as players:
        port, process, _ = players.start(serve, system, "").answer()
        before = resident_bytes(process)
        connected, seconds = players.start(stay, port, clients).answer()
        grown = (resident_bytes(process) - before) / connected
        yield from rows_of(
            {"system": system, "clients": clients},
            {
                "connected": (connected, "clients"),
                "connects": (connected / seconds, "clients/s"),
                "memory": (grown / 1024, "KiB/client"),
            },
        )


# -- the server's process --


async def serve(pipe: Connection, system: str, bootstrap: str) -> None:
    """Serve until the benchmark ends; it is told the port, the process that holds the clients, and where the
    next door's node finds this one's. `bootstrap`: what the door before has said."""
    allow_files()
    known = [bootstrap] if bootstrap else []
    async with AsyncExitStack() as stack:
        if system == "mosquitto":
            server = stack.enter_context(mosquitto_server())
            pipe.send((server.port, server.pid, ""))
        else:
            node = await stack.enter_async_context(Node(bootstrap=known))
            door = await stack.enter_async_context(MqttDoor(node, "127.0.0.1:0"))
            assert door.address is not None
            pipe.send((door.address.port, os.getpid(), str(node.address)))
        await asyncio.to_thread(pipe.recv)


# -- the clients' process --


class Client(asyncio.Protocol):
    """Writes and reads packets of one length, and acknowledgements of four bytes."""

    def __init__(self) -> None:
        self._buffer = b""
        self._skip = 0
        """Bytes of the answers to CONNECT and SUBSCRIBE that have not come yet."""
        self.ready: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.size = 0
        self.delays: list[float] = []
        self.got = self.acked = 0
        self.news = asyncio.Event()

    def connection_made(self, transport: Any) -> None:
        self.transport: asyncio.Transport = transport
        transport.set_write_buffer_limits(high=1 << 20)

    def begin(self, name: str, qos: int | None) -> None:
        """Say CONNECT, and SUBSCRIBE with a QoS."""
        data = write_packet(Connect(name, version=V311), V311)
        self._skip = 4
        if qos is not None:
            data += write_packet(Subscribe(1, (Asked(TOPIC, qos),)), V311)
            self._skip += 5
            self.size = len(message(qos, 1, 0.0))
        self.transport.write(data)

    def data_received(self, data: bytes) -> None:
        if self._skip:
            skipped, data = data[: self._skip], data[self._skip :]
            self._skip -= len(skipped)
            if self._skip:
                return
            self.ready.set_result(None)
        buffer = self._buffer + data
        at, end = 0, len(buffer)
        answers: list[bytes] = []
        now = time.monotonic()
        while at < end:
            kind = buffer[at] & 0xF2 if buffer[at] >> 4 == 6 else buffer[at] & 0xF0
            length = self.size if kind == 0x30 else 4
            if end - at < length:
                break
            if kind == 0x30:
                self._take(buffer[at : at + length], now, answers)
            else:
                self._acknowledge(kind, buffer[at + 2 : at + 4], answers)
            at += length
        self._buffer = buffer[at:]
        if answers:
            self.transport.write(b"".join(answers))
        self.news.set()

    def _take(self, packet: bytes, now: float, answers: list[bytes]) -> None:
        qos = packet[0] >> 1 & 3
        sent: float = struct.unpack_from(">d", packet, len(packet) - PAYLOAD)[0]
        self.delays.append(now - sent)
        self.got += 1
        if qos:
            place = len(packet) - PAYLOAD - 2
            code = PUBACK if qos == 1 else PUBREC
            answers.append(bytes((code, 2)) + packet[place : place + 2])

    def _acknowledge(self, kind: int, packet_id: bytes, answers: list[bytes]) -> None:
        if kind == PUBREC:
            answers.append(bytes((PUBREL, 2)) + packet_id)
        elif kind == PUBREL:
            answers.append(bytes((PUBCOMP, 2)) + packet_id)
        else:
            self.acked += 1


def message(qos: int, packet_id: int, now: float) -> bytes:
    payload = struct.pack(">d", now) + bytes(PAYLOAD - 8)
    return write_packet(Publish(TOPIC, payload, qos, packet_id=packet_id if qos else 0), V311)


async def _connect(port: int, name: str, qos: int | None = None) -> Client:
    loop = asyncio.get_running_loop()
    _, client = await loop.create_connection(Client, "127.0.0.1", port)
    client.begin(name, qos)
    await asyncio.wait_for(client.ready, 60)
    return client


async def push(
    pipe: Connection, ports: list[int], qos: int, subscribers: int, messages: int
) -> None:
    """Say when all clients are connected, publish when told to, and answer with what was found."""
    readers = [
        await _connect(ports[number % len(ports)], f"reader{number}", qos)
        for number in range(subscribers)
    ]
    writer = await _connect(ports[0], "writer")
    writer.size = 1
    await _first_messages(writer, readers, qos)
    pipe.send("connected")
    await asyncio.to_thread(pipe.recv)
    pipe.send(await _measured(writer, readers, len(ports), qos, messages))
    await asyncio.to_thread(pipe.recv)


async def _first_messages(writer: Client, readers: list[Client], qos: int) -> None:
    """Publish until the doors are in the topic's community, and all readers hear the writer."""
    packet_id = 0
    while not all(reader.got for reader in readers):
        packet_id += 1
        writer.transport.write(message(qos, packet_id, time.monotonic()))
        await asyncio.sleep(0.1)
    await asyncio.sleep(0.5)  # what is on its way arrives
    for client in (writer, *readers):
        client.got = client.acked = 0
        client.delays.clear()


async def _measured(
    writer: Client, readers: list[Client], servers: int, qos: int, messages: int
) -> dict[str, Any]:
    firsts = readers[:servers]  # one at each door
    began = time.monotonic()
    for number in range(messages):
        while True:
            behind = [one for one in firsts if number - one.got >= WINDOW]
            if qos and number - writer.acked >= WINDOW:
                behind.append(writer)
            if not behind:
                break
            waiting = behind[0]
            waiting.news.clear()
            await asyncio.wait_for(waiting.news.wait(), 30)
        writer.transport.write(message(qos, number % 65_535 + 1, time.monotonic()))
        if number % 20 == 0:
            await asyncio.sleep(0)
    end = time.monotonic() + 30
    for reader in readers:
        while reader.got < messages and time.monotonic() < end:
            reader.news.clear()
            await asyncio.wait_for(reader.news.wait(), 30)
    seconds = time.monotonic() - began
    delays = [delay for reader in readers for delay in reader.delays]
    delivered = sum(reader.got for reader in readers)
    return {
        "received": delivered,
        "deliveries": (delivered / seconds, "messages/s"),
        "delivered": (delivered / (messages * len(readers)), "share"),
        **percentiles(delays, 1e3, "ms"),
    }


async def stay(pipe: Connection, port: int, clients: int) -> None:
    """Connect many clients, each subscribed, and do nothing more."""
    allow_files()
    async with AsyncExitStack() as stack:
        began, connected = time.monotonic(), 0
        for first in range(0, clients, AT_ONCE):
            names = (f"idle{number}" for number in range(first, min(first + AT_ONCE, clients)))
            connecting = (_connect(port, name, 0) for name in names)
            for client in await asyncio.gather(*connecting, return_exceptions=True):
                if isinstance(client, Client):
                    connected += 1
                    stack.callback(client.transport.close)
        pipe.send((connected, time.monotonic() - began))
        await asyncio.to_thread(pipe.recv)


WORKLOAD = Workload(
    "mqtt",
    "MQTT beside mosquitto",
    "Doors for MQTT beside one mosquitto, the same clients for both: messages a second, delay, memory.",
    (
        Option("qos", [0, 1, 2], "qualities of service", quick=[0, 1]),
        Option("subscribers", [1, 100], "numbers of subscribers", quick=[1]),
        Option("doors", [1, 2, 4], "numbers of doors that subscribers are spread over", quick=[1]),
        Option(
            "messages",
            60_000,
            "deliveries of each; 5 times as many with many subscribers",
            quick=5_000,
        ),
        Option("clients", 10_000, "clients that are connected for the memory", quick=500),
        Option("runs", 3, "runs of each", quick=1),
    ),
    run,
    (
        RowTable(
            "speed",
            "One publisher, 64-byte messages, at most 500 on their way",
            {
                "system": "system",
                "servers": "processes",
                "qos": "QoS",
                "subscribers": "subscribers",
            },
            {
                "messages/s": "{deliveries:,.0f}",
                "a core of the busiest process": "{capacity:,.0f}",
                "delivered": "{delivered:.2%}",
                "p50 / p99 ms": "{p50:.2f} / {p99:.2f}",
            },
            "Messages that reach subscribers, of all of them together; and for each processor second of the "
            "busiest server process, so a second if each had a core of its own.",
        ),
        RowTable(
            "memory",
            "Clients that are connected and subscribed",
            {"system": "system", "clients": "clients"},
            {
                "connected": "{connected:,.0f}",
                "connected a second": "{connects:,.0f}",
                "KiB a client": "{memory:.1f}",
            },
        ),
    ),
    quick_seconds=20,
)
