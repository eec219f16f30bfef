"""A fan-out by Zenoh, ZeroMQ and NATS, each through its own Python library and told to lose nothing.

Zenoh: peers over TCP on loopback, the publisher connected to every subscriber, congestion control "block".
ZeroMQ: PUB and SUB sockets with blocking calls; XPUB_NODROP makes the publisher wait at the high-water mark
where ZeroMQ would drop. NATS: core publish/subscribe through a server with as much memory for slow
consumers as the work takes; the publisher flushes at the end. Subscribers of Zenoh and NATS use callbacks,
the fastest that the libraries offer.

What is not installed raises `NotInstalled` with the package that has it.
"""

from __future__ import annotations

import asyncio
import importlib
import threading
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from multiprocessing.connection import Connection
from typing import Any

from bench.servers import NotInstalled, free_port
from bench.systems.work import (
    Tally,
    Work,
    blocking_orders,
    orders,
    publish_all,
    publish_blocking_orders,
    publish_orders,
    report_is_due,
    wait_for_report,
)

SUBJECT = "bench/fanout"
HOST = "127.0.0.1"
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
    tally: Tally | None = None
    done = asyncio.Event()

    async def take(message: Any) -> None:
        if tally is not None:
            tally.add(message.data)
            if tally.is_complete:
                done.set()

    async def completed() -> None:
        await done.wait()

    await connection.subscribe(
        SUBJECT, cb=take, pending_msgs_limit=1 << 24, pending_bytes_limit=PENDING_BYTES
    )
    await connection.flush()
    pipe.send("ready")
    async for work in orders(pipe):
        done.clear()
        tally = Tally(work)
        pipe.send("ready")
        await tally.kept_up(completed())
        await report_is_due(pipe)
        pipe.send(tally.report())
    await connection.close()


async def nats_publisher(pipe: Connection, port: int) -> None:
    connection = await library("nats-py", "nats").connect(f"nats://{HOST}:{port}")

    async def publish_work(work: Work) -> None:
        await publish_all(work, lambda event: connection.publish(SUBJECT, event))
        await connection.flush()

    pipe.send("ready")
    await publish_orders(pipe, publish_work)
    await connection.close()
