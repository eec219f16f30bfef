"""The door for MQTT beside mosquitto: messages a second, delay and memory, with one and the same load.

A server process (a node with a door, or mosquitto) and one process with all clients, over TCP on loopback.
One publisher sends 64-byte messages to a topic that every subscriber reads; at most `WINDOW` messages are on
their way to the first subscriber, so that neither system has to drop any. MQTT 3.1.1, no archive. The clients
write and read packets of one length, and cost both systems the same.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import resource
import statistics
import struct
import time
from collections.abc import Iterator
from contextlib import AsyncExitStack
from multiprocessing.connection import Connection
from typing import Any

from bench.players import Players, resident_bytes
from bench.servers import MosquittoServer, NotInstalled, installed
from bench.workloads.workload import LEFT_OUT, Option, Row, RowTable, Setting, Workload, column
from overlay import loops
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
            yield Row("mqtt", {"system": system}, LEFT_OUT, 0.0, note=str(missing))
            continue
        yield from _memory(system, options.clients)
        for qos in options.qos:
            for subscribers in options.subscribers:
                for network in range(options.runs):
                    yield from _speed(system, qos, subscribers, options.messages, network)


def _speed(system: str, qos: int, subscribers: int, messages: int, network: int) -> Iterator[Row]:
    settings: dict[str, Setting] = {"system": system, "qos": qos, "subscribers": subscribers}
    with Players() as players:
        server = players.start(serve, system)
        port, _ = server.answer()
        load = players.start(push, port, qos, subscribers, messages // subscribers)
        for metric, value, unit in load.answer():
            yield Row("mqtt", settings, metric, value, unit, network)


def _memory(system: str, clients: int) -> Iterator[Row]:
    with Players() as players:
        port, process = players.start(serve, system).answer()
        before = resident_bytes(process)
        connected, seconds = players.start(stay, port, clients).answer()
        grown = (resident_bytes(process) - before) / connected
        settings: dict[str, Setting] = {"system": system, "clients": clients}
        yield Row("mqtt", settings, "connected", connected, "clients")
        yield Row("mqtt", settings, "connects", connected / seconds, "clients/s")
        yield Row("mqtt", settings, "memory", grown / 1024, "KiB/client")


def _allow_sockets() -> None:
    """Let this process, and those that it starts, have as many sockets as the machine allows."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


# -- the server's process --


def serve(pipe: Connection, system: str) -> None:
    """Serve until the benchmark ends; it is told the port, and the process that holds the clients."""
    _allow_sockets()
    if system == "camcast":
        loops.run(_door(pipe))
        return
    with MosquittoServer() as server:
        pipe.send((server.port, server.pid))
        pipe.recv()


async def _door(pipe: Connection) -> None:
    async with Node() as node, MqttDoor(node, "127.0.0.1:0") as door:
        assert door.address is not None
        pipe.send((door.address.port, os.getpid()))
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


def push(pipe: Connection, port: int, qos: int, subscribers: int, messages: int) -> None:
    """Publish, and answer with the rows."""
    pipe.send(loops.run(_push(port, qos, subscribers, messages)))
    pipe.recv()


async def _push(
    port: int, qos: int, subscribers: int, messages: int
) -> list[tuple[str, float, str]]:
    readers = [await _connect(port, f"reader{number}", qos) for number in range(subscribers)]
    writer = await _connect(port, "writer")
    writer.size = 1
    began = time.monotonic()
    for number in range(messages):
        while number - readers[0].got >= WINDOW or (qos and number - writer.acked >= WINDOW):
            waiting = readers[0] if number - readers[0].got >= WINDOW else writer
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
    delays = sorted(delay for reader in readers for delay in reader.delays)
    delivered = sum(reader.got for reader in readers)
    cuts = statistics.quantiles(delays, n=100)
    return [
        ("deliveries", delivered / seconds, "messages/s"),
        ("delivered", delivered / (messages * subscribers), "share"),
        ("p50", 1e3 * cuts[49], "ms"),
        ("p99", 1e3 * cuts[98], "ms"),
    ]


def stay(pipe: Connection, port: int, clients: int) -> None:
    """Connect many clients, each subscribed, and do nothing more."""

    async def main() -> None:
        async with AsyncExitStack() as stack:
            began, connected = time.monotonic(), 0
            for first in range(0, clients, AT_ONCE):
                names = (f"idle{number}" for number in range(first, min(first + AT_ONCE, clients)))
                made = await asyncio.gather(
                    *(_connect(port, name, 0) for name in names), return_exceptions=True
                )
                for client in made:
                    if isinstance(client, Client):
                        connected += 1
                        stack.callback(client.transport.close)
            pipe.send((connected, time.monotonic() - began))
            await asyncio.to_thread(pipe.recv)

    _allow_sockets()
    loops.run(main())


WORKLOAD = Workload(
    "mqtt",
    "MQTT beside mosquitto",
    "One door for MQTT beside mosquitto, the same clients for both: messages a second, delay, memory.",
    (
        Option("qos", [0, 1, 2], "qualities of service", quick=[0, 1]),
        Option("subscribers", [1, 100], "numbers of subscribers", quick=[1]),
        Option("messages", 100_000, "deliveries of each measurement", quick=5_000),
        Option("clients", 10_000, "clients that are connected for the memory", quick=500),
        Option("runs", 3, "runs of each", quick=1),
    ),
    run,
    (
        RowTable(
            "mqtt.speed",
            "One publisher, 64-byte messages, at most 500 on their way",
            {"system": "system", "qos": "QoS", "subscribers": "subscribers"},
            (
                column("messages/s", "{:,.0f}", "deliveries"),
                column("delivered", "{:.2%}", "delivered"),
                column("p50 / p99 ms", "{:.2f} / {:.2f}", "p50", "p99"),
            ),
            "Messages that reach subscribers, of all of them together.",
        ),
        RowTable(
            "mqtt.memory",
            "Clients that are connected and subscribed",
            {"system": "system", "clients": "clients"},
            (
                column("connected", "{:,.0f}", "connected"),
                column("connected a second", "{:,.0f}", "connects"),
                column("KiB a client", "{:.1f}", "memory"),
            ),
        ),
    ),
    quick_seconds=20,
)
