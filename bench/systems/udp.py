"""A fan-out by plain asyncio-dgram: one datagram an event and subscriber, and a window of credit.

Every subscriber acknowledges four times a window, and the publisher keeps within a window of the slowest.
Nothing is sent again: what the kernel drops is lost, and a window that a socket's buffer holds keeps that
from happening. It is what a fan-out costs without discovery, gossip or recovery, and the reference of the
delay."""

from __future__ import annotations

import asyncio
import contextlib
from multiprocessing.connection import Connection

import asyncio_dgram

from bench.systems.work import Effort, Tally, Work, orders, publish_all, report_is_due

MOST_WINDOW = 128
BUFFER_BYTES = 150_000
"""The part that is used of a socket's buffer of 212,992 bytes, Linux's default."""
HOST = "127.0.0.1"


def window_of(size: int) -> int:
    """Events on their way that a socket's buffer holds; the kernel counts about twice a datagram's bytes."""
    return max(4, min(MOST_WINDOW, BUFFER_BYTES // (2 * size + 768)))


async def subscriber(pipe: Connection) -> None:
    """Answers with its port, then "ready" and a report for each work."""
    stream = await asyncio_dgram.bind((HOST, 0))
    pipe.send(stream.sockname[1])
    with contextlib.closing(stream):
        async for work in orders(pipe):
            pipe.send("ready")
            await _receive(pipe, stream, work)


async def _receive(pipe: Connection, stream: asyncio_dgram.DatagramServer, work: Work) -> None:
    acknowledgements, every, tally = 0, window_of(work.bytes) // 4, Tally(work)

    async def receive() -> None:
        nonlocal acknowledgements
        while not tally.is_complete:
            event, sender = await stream.recv()
            tally.add(event)
            if tally.received % every == 0 or tally.is_complete:
                await stream.send(tally.received.to_bytes(8, "big"), sender)
                acknowledgements += 1

    await tally.kept_up(receive())
    await report_is_due(pipe)
    pipe.send(tally.report(8 * acknowledgements))


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


async def publisher(pipe: Connection, ports: list[int]) -> None:
    """Answers when it is ready to send to the subscribers' ports, then with a report for each work."""
    stream = await asyncio_dgram.bind((HOST, 0))
    pipe.send("ready")
    with contextlib.closing(stream):
        async for work in orders(pipe):
            await _publish_work(pipe, stream, ports, work)


async def _publish_work(
    pipe: Connection, stream: asyncio_dgram.DatagramServer, ports: list[int], work: Work
) -> None:
    window, most, sent = _Window(ports), window_of(work.bytes), 0
    listening = asyncio.create_task(window.listen(stream))

    async def publish(event: bytes) -> None:
        nonlocal sent
        await window.reached(sent - most)
        for port in ports:
            await stream.send(event, (HOST, port))
        sent += 1

    effort = Effort(work)
    with contextlib.suppress(
        TimeoutError
    ):  # an event was lost, and its acknowledgement never comes
        async with asyncio.timeout(work.patience + (work.events / work.rate if work.rate else 0)):
            await publish_all(work, publish)
            await window.reached(work.events)
    listening.cancel()
    effort.end()
    await report_is_due(pipe)
    report = effort.report(work.events * len(ports) * work.bytes)
    pipe.send(report)
