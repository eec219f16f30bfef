"""The fan-out by plain asyncio-dgram: one datagram an event and subscriber, and a window of credit.

Every subscriber acknowledges each 32 events, and the publisher keeps within 256 events of the slowest.
Nothing is sent again: what the kernel drops is lost, and the window keeps that from happening on loopback.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from multiprocessing.connection import Connection

import asyncio_dgram

from bench.fanout.result import EVENT_BYTES, PublisherReport, SubscriberReport
from bench.fanout.way import Way
from bench.fanout.work import Tally, Work, publish_all
from overlay import loops

ACKNOWLEDGE_EVERY = 32
WINDOW = 256
HOST = "127.0.0.1"


def subscriber(pipe: Connection, way: Way, first: str | None) -> None:
    loops.run(_subscribe(pipe))


async def _subscribe(pipe: Connection) -> None:
    stream = await asyncio_dgram.bind((HOST, 0))
    pipe.send(str(stream.sockname[1]))
    with contextlib.closing(stream):
        while True:
            work = await asyncio.to_thread(pipe.recv)
            if work is None:
                return
            pipe.send("ready")
            pipe.send(await _receive(stream, work))


async def _receive(stream: asyncio_dgram.DatagramServer, work: Work) -> SubscriberReport:
    cpu, acknowledgements, tally = time.process_time(), 0, Tally(work)

    async def receive() -> None:
        nonlocal acknowledgements
        while not tally.is_complete:
            event, sender = await stream.recv()
            tally.add(event)
            if tally.received % ACKNOWLEDGE_EVERY == 0 or tally.is_complete:
                await stream.send(tally.received.to_bytes(8, "big"), sender)
                acknowledgements += 1

    await tally.kept_up(receive())
    cpu, received = time.process_time() - cpu, tally.received
    return SubscriberReport(
        received,
        tally.first_at,
        tally.last_at,
        cpu,
        8 * acknowledgements,
        received,
        tuple(tally.latencies),
    )


def publisher(pipe: Connection, way: Way, first: str | None) -> None:
    """`first`: the subscribers' ports, with commas between them."""
    assert first is not None
    loops.run(_publish(pipe, [int(port) for port in first.split(",")]))


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
        """Wait until all have acknowledged so many events."""
        while min(self._acknowledged.values()) < event:
            self._changed.clear()
            await self._changed.wait()


async def _publish(pipe: Connection, ports: list[int]) -> None:
    stream = await asyncio_dgram.bind((HOST, 0))
    pipe.send("ready")
    with contextlib.closing(stream):
        while True:
            work = await asyncio.to_thread(pipe.recv)
            if work is None:
                return
            pipe.send(await _publish_work(stream, ports, work))


async def _publish_work(
    stream: asyncio_dgram.DatagramServer, ports: list[int], work: Work
) -> PublisherReport:
    window, sent = _Window(ports), 0
    listening = asyncio.create_task(window.listen(stream))

    async def publish(event: bytes) -> None:
        nonlocal sent
        await window.reached(sent - WINDOW)
        for port in ports:
            await stream.send(event, (HOST, port))
        sent += 1

    cpu, began = time.process_time(), time.monotonic()
    await publish_all(work, publish)
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(work.patience):
            await window.reached(work.events)
    cpu = time.process_time() - cpu
    listening.cancel()
    return PublisherReport(work.events, began, cpu, work.events * len(ports) * EVENT_BYTES)
