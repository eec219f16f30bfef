"""A fan-out by nodes of this project, by plain UDP, and by Zenoh, ZeroMQ and NATS.

Each other system goes through its own Python library and is told to lose nothing. Zenoh: peers over TCP on
loopback, the publisher connected to every subscriber, congestion control "block". ZeroMQ: PUB and SUB sockets
with blocking calls; XPUB_NODROP makes the publisher wait at the high-water mark where ZeroMQ would drop.
NATS: core publish/subscribe through a server with as much memory for slow consumers as the work takes; the
publisher flushes at the end. Subscribers of Zenoh and NATS use callbacks, the fastest that the libraries
offer.

What is not installed raises `NotInstalled` with the package that has it.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import importlib
import threading
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import Any

import asyncio_dgram

from bench.servers import NotInstalled, free_port
from bench.workloads.work import (
    Tally,
    Work,
    blocking_orders,
    orders,
    publish_all,
    publish_blocking_orders,
    publish_orders,
    receive_work,
    wait_for_report,
)
from overlay.membership.modes import ModeName
from pubsub import Node
from pubsub.config import DisseminationKind

HOST = "127.0.0.1"

# Nodes of this project.

TOPIC = "/bench/fanout"
QUEUE = 2_000_000
KEY = hashlib.sha256(b"the key of the fan-out benchmark").digest()


@dataclass(frozen=True)
class NodeSetting:
    """How the nodes of a fan-out are set up."""

    mode: ModeName = "structured"
    dissemination: DisseminationKind = "lazy"
    sealed: bool = False
    """Whether datagrams are sealed with a network key."""
    signed: bool = False
    """Whether events are signed by their publisher."""
    datagram_size: int | None = None
    """Bytes of the largest datagram; None: what a node takes on loopback."""
    settling: float = 5.0
    """Seconds from the publisher's first event until every topic table is complete."""


def node_of(setting: NodeSetting, first: str | None) -> Node:
    """A node that joins through the one at the address `first`."""
    settings: dict[str, Any] = {
        "mode": setting.mode,
        "dissemination": setting.dissemination,
        "keys": (KEY,) if setting.sealed else (),
        "signatures": setting.signed,
        "datagram_size": setting.datagram_size,
    }
    if setting.mode == "unstructured":
        return Node(gateways={TOPIC: [first]} if first else {}, **settings)
    return Node(bootstrap=[first] if first else [], **settings)


def count(node: Node, name: str) -> int:
    """The value of one of a node's counters."""
    value = node.metrics.as_dict().get(name, 0)
    assert isinstance(value, int)
    return value


async def node_subscriber(pipe: Connection, setting: NodeSetting, first: str | None) -> None:
    """Answers with its address, then "ready" and a report for each work."""
    async with node_of(setting, first) as node, node.subscribe(TOPIC, queue=QUEUE) as events:

        async def receive(tally: Tally) -> None:
            async for event in events:
                tally.add(event.data)
                if tally.is_complete:
                    return

        def counts() -> tuple[int, int]:
            return count(node, "bytes_sent"), count(node, "events_received")

        pipe.send(str(node.address))
        async for work in orders(pipe):
            await receive_work(pipe, work, receive, counts)


async def node_publisher(pipe: Connection, setting: NodeSetting, first: str | None) -> None:
    """Answers when its first event is published and the tables are full, then with a report for each work."""
    async with node_of(setting, first) as node:

        async def publish(work: Work) -> None:
            await publish_all(work, lambda event: node.publish(TOPIC, event))

        await node.publish(TOPIC, b"")
        await asyncio.sleep(setting.settling)
        pipe.send(str(node.address))
        await publish_orders(pipe, publish, lambda: count(node, "bytes_sent"))


# Plain asyncio-dgram: one datagram an event and subscriber, and a window of credit.
#
# Every subscriber acknowledges four times a window, and the publisher keeps within a window of the slowest.
# Nothing is sent again: what the kernel drops is lost, and a window that a socket's buffer holds keeps that
# from happening. It is what a fan-out costs without discovery, gossip or recovery, and the reference of the
# delay.

MOST_WINDOW = 128
BUFFER_BYTES = 150_000
"""The part that is used of a socket's buffer of 212,992 bytes, Linux's default."""


def window_of(size: int) -> int:
    """Events on their way that a socket's buffer holds; the kernel counts about twice a datagram's bytes."""
    return max(4, min(MOST_WINDOW, BUFFER_BYTES // (2 * size + 768)))


async def udp_subscriber(pipe: Connection) -> None:
    """Answers with its port, then "ready" and a report for each work."""
    stream = await asyncio_dgram.bind((HOST, 0))
    sent = copies = every = 0

    async def receive(tally: Tally) -> None:
        nonlocal sent, copies
        while not tally.is_complete:
            event, sender = await stream.recv()
            tally.add(event)
            copies += 1
            if tally.received % every == 0 or tally.is_complete:
                sent += 8
                await stream.send(tally.received.to_bytes(8, "big"), sender)

    pipe.send(stream.sockname[1])
    with contextlib.closing(stream):
        async for work in orders(pipe):
            every = window_of(work.bytes) // 4
            await receive_work(pipe, work, receive, lambda: (sent, copies))


class _Window:
    """How far the slowest subscriber is behind, and when it has caught up."""

    def __init__(self, ports: list[int]) -> None:
        self._acknowledged = dict.fromkeys(ports, 0)
        self._changed = asyncio.Event()

    async def listen(self, stream: asyncio_dgram.DatagramServer) -> None:
        while True:
            message, sender = await stream.recv()
            assert isinstance(sender, tuple)
            self._acknowledged[sender[1]] = int.from_bytes(message, "big")
            self._changed.set()

    async def reached(self, event: int) -> None:
        """Wait until all have acknowledged this many events."""
        while min(self._acknowledged.values()) < event:
            self._changed.clear()
            await self._changed.wait()


async def udp_publisher(pipe: Connection, ports: list[int]) -> None:
    """Answers when it is ready to send to the subscribers' ports, then with a report for each work."""
    stream = await asyncio_dgram.bind((HOST, 0))
    bytes_sent = 0

    async def publish_work(work: Work) -> None:
        nonlocal bytes_sent
        window, most, sent = _Window(ports), window_of(work.bytes), 0
        listening = asyncio.create_task(window.listen(stream))

        async def publish(event: bytes) -> None:
            nonlocal sent
            await window.reached(sent - most)
            for port in ports:
                await stream.send(event, (HOST, port))
            sent += 1

        patience = work.patience + (work.events / work.rate if work.rate else 0)
        with contextlib.suppress(TimeoutError):  # an event was lost: nobody acknowledges it
            async with asyncio.timeout(patience):
                await publish_all(work, publish)
                await window.reached(work.events)
        listening.cancel()
        bytes_sent += work.events * len(ports) * work.bytes

    pipe.send("ready")
    with contextlib.closing(stream):
        await publish_orders(pipe, publish_work, lambda: bytes_sent)


# The systems that users would pick instead.

SUBJECT = "bench/fanout"
HIGH_WATER = 10_000
"""Events that ZeroMQ queues for a subscriber before the publisher waits."""
PENDING_BYTES = 1 << 31
"""What the NATS client and server keep for a slow consumer; both drop above it."""


def library(package: str, module: str) -> Any:
    """A client library, or `NotInstalled` with the package that has it."""
    try:
        return importlib.import_module(module)
    except ImportError:
        raise NotInstalled(f"{module} is not installed (PyPI's package: {package})") from None


def opened(
    package: str, module: str, server: Callable[[], AbstractContextManager[Any]] = nullcontext
) -> AbstractContextManager[Any]:
    """The server between publisher and subscribers, if there is one, of a system whose library is here."""
    library(package, module)
    return server()


class _Arrivals:
    """Waits in one thread for the events that a library's own threads take."""

    def __init__(self) -> None:
        self._tally: Tally | None = None
        self._done = threading.Event()

    def add(self, event: bytes) -> None:
        tally = self._tally
        if tally is not None:
            tally.add(event)
            if tally.is_complete:
                self._done.set()

    def begin(self, work: Work) -> Tally:
        self._done.clear()
        self._tally = Tally(work)
        return self._tally

    def wait(self, tally: Tally, patience: float) -> None:
        before = -1
        while not self._done.wait(patience) and tally.received > before:
            before = tally.received


# Zenoh.


def _zenoh_session(listen: list[str], connect: list[str]) -> Any:
    zenoh = library("eclipse-zenoh", "zenoh")
    config = zenoh.Config()
    for key, value in (
        ("mode", '"peer"'),
        ("scouting/multicast/enabled", "false"),
        ("scouting/gossip/enabled", "false"),
        ("listen/endpoints", str(listen).replace("'", '"')),
        ("connect/endpoints", str(connect).replace("'", '"')),
    ):
        config.insert_json5(key, value)
    return zenoh.open(config)


def zenoh_subscriber(pipe: Connection) -> None:
    place = f"tcp/{HOST}:{free_port()}"
    arrivals = _Arrivals()
    with _zenoh_session([place], []) as session:
        session.declare_subscriber(SUBJECT, lambda sample: arrivals.add(sample.payload.to_bytes()))
        pipe.send(place)
        for work in blocking_orders(pipe):
            tally = arrivals.begin(work)
            pipe.send("ready")
            arrivals.wait(tally, work.patience)
            wait_for_report(pipe)
            pipe.send(tally.report())


def zenoh_publisher(pipe: Connection, places: list[str]) -> None:
    zenoh = library("eclipse-zenoh", "zenoh")
    with _zenoh_session([], places) as session:
        publisher = session.declare_publisher(
            SUBJECT, congestion_control=zenoh.CongestionControl.BLOCK
        )
        pipe.send("ready")
        publish_blocking_orders(pipe, publisher.put)


# ZeroMQ.


def zeromq_subscriber(pipe: Connection, place: str) -> None:
    zmq = library("pyzmq", "zmq")
    with zmq.Context() as context, context.socket(zmq.SUB) as socket:
        socket.set(zmq.LINGER, 0)
        socket.set(zmq.RCVHWM, HIGH_WATER)
        socket.connect(place)
        socket.subscribe(b"")
        pipe.send("ready")
        for work in blocking_orders(pipe):
            socket.set(zmq.RCVTIMEO, int(1000 * work.patience))
            tally = Tally(work)
            pipe.send("ready")
            try:
                while not tally.is_complete:
                    tally.add(socket.recv())
            except zmq.Again:
                pass
            wait_for_report(pipe)
            pipe.send(tally.report())


def zeromq_publisher(pipe: Connection, place: str, subscribers: int) -> None:
    zmq = library("pyzmq", "zmq")
    with zmq.Context() as context, context.socket(zmq.XPUB) as socket:
        socket.set(zmq.LINGER, 0)
        socket.set(zmq.SNDHWM, HIGH_WATER)
        socket.set(zmq.XPUB_NODROP, 1)
        socket.set(zmq.XPUB_VERBOSE, 1)  # tell of every subscription, not of the first one only
        socket.bind(place)
        for _ in range(subscribers):
            socket.recv()
        pipe.send("ready")
        publish_blocking_orders(pipe, socket.send)


# NATS.


async def nats_subscriber(pipe: Connection, port: int) -> None:
    connection = await library("nats-py", "nats").connect(f"nats://{HOST}:{port}")
    current: Tally | None = None
    done = asyncio.Event()

    async def take(message: Any) -> None:
        if current is not None:
            current.add(message.data)
            if current.is_complete:
                done.set()

    async def receive(tally: Tally) -> None:
        nonlocal current
        done.clear()
        current = tally
        await done.wait()

    await connection.subscribe(
        SUBJECT, cb=take, pending_msgs_limit=1 << 24, pending_bytes_limit=PENDING_BYTES
    )
    await connection.flush()
    pipe.send("ready")
    async for work in orders(pipe):
        await receive_work(pipe, work, receive)
    await connection.close()


async def nats_publisher(pipe: Connection, port: int) -> None:
    connection = await library("nats-py", "nats").connect(f"nats://{HOST}:{port}")

    async def publish_work(work: Work) -> None:
        await publish_all(work, lambda event: connection.publish(SUBJECT, event))
        await connection.flush()

    pipe.send("ready")
    await publish_orders(pipe, publish_work)
    await connection.close()
