"""How many events a second an archive's store makes durable, against the batch and against who waits.

An event of 256 bytes counts when a sync to the disk that covers it has returned. Batches: so many events for
each sync. Publishers: so many at a time, each of which waits for its event before it writes the next; they
share syncs (`GroupCommit`). Redis streams and JetStream get as many messages at a time over one connection.
Redis with `appendfsync always` syncs before it answers, with `everysec` and in JetStream an answer promises
nothing about the disk. They have a network to pass, our stores have not. What is not installed is left out.
"""

from __future__ import annotations

import asyncio
import os
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from bench.micro.measurement import Measurement
from bench.servers import (
    JetStreamServer,
    NotInstalled,
    PostgresqlServer,
    RedisServer,
    TemporaryServer,
)
from bench.servers.windowed_client import JetStreamClient, RedisClient, WindowedClient
from overlay.loops import run
from pubsub.archive.store import Append, GroupCommit, Store, StoredEvent, open_store

BODY = bytes(256)
SECONDS = 1.0
"""How long each measurement runs."""
BATCHES = (1, 16, 256, 2048)
PUBLISHERS = (1, 16, 256, 2048)
_RUN = b"stores!!"
_PUBLISHER = b"p" * 28


def measure() -> list[Measurement]:
    """The disk itself, the three stores, and the others."""
    with tempfile.TemporaryDirectory(prefix="camcast-stores-") as directory:
        measurements = [_measure_disk(Path(directory))]
        for name, opening in _stores(Path(directory)).items():
            measurements += _measure_store(name, opening)
    for name, connect in _PEERS.items():
        measurements += _measure_peer(name, connect)
    return measurements


def _measure_disk(directory: Path) -> Measurement:
    """What every store has to live with: an append of 4 KiB and its sync."""
    descriptor = os.open(directory / "disk", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    count, start = 0, time.perf_counter()
    while time.perf_counter() - start < SECONDS:
        os.write(descriptor, bytes(4096))
        os.fdatasync(descriptor)
        count += 1
    os.close(descriptor)
    rate = count / (time.perf_counter() - start)
    return Measurement("the disk", rate, "syncs/s", f"each {1e6 / rate:.0f} us, after 4 KiB")


# -- our stores --


def _stores(directory: Path) -> dict[str, Callable[[ExitStack], Store]]:
    def postgresql(stack: ExitStack) -> Store:
        return open_store(stack.enter_context(PostgresqlServer()).new_address())

    return {
        "sqlite": lambda stack: open_store(f"sqlite:///{directory}/events.db"),
        "append files": lambda stack: open_store(f"file://{directory}/log"),
        "postgresql": postgresql,
    }


@contextmanager
def _opened(opening: Callable[[ExitStack], Store]) -> Iterator[Store]:
    with ExitStack() as stack:
        store = opening(stack)
        stack.callback(store.close)
        yield store


def _measure_store(name: str, opening: Callable[[ExitStack], Store]) -> list[Measurement]:
    try:
        with _opened(opening) as store:
            events = Events()
            measurements = [_measure_batch(name, store, events, batch) for batch in BATCHES]
            for publishers in PUBLISHERS:
                with Processor() as processor:
                    count, rate, syncs = run(_publish(store, events, publishers))
                note = f"{publishers} publishers, {syncs:,.0f} syncs/s, {processor.each(count)}"
                measurements.append(Measurement(f"{name}, group commit", rate, "events/s", note))
            return measurements
    except NotInstalled as missing:
        return [_left_out(name, missing)]


class Processor:
    """Processor time of this process, and of a server, over a `with` block: noise leaves it nearly alone."""

    def __init__(self, server: TemporaryServer | None = None) -> None:
        self._server = server
        self._seconds = 0.0

    def _used(self) -> float:
        return time.process_time() + (self._server.processor_seconds() if self._server else 0.0)

    def __enter__(self) -> Processor:
        self._seconds = -self._used()
        return self

    def __exit__(self, *_: object) -> None:
        self._seconds += self._used()

    def each(self, events: int) -> str:
        return f"{1e6 * self._seconds / max(events, 1):.1f} us of processor each"


class Events:
    """Events one after the other, as one publisher's."""

    def __init__(self) -> None:
        self._count = 0

    def next(self) -> Append:
        self._count += 1
        number = self._count
        id = _RUN + number.to_bytes(8, "big")
        event = StoredEvent("/stores", number, id, _PUBLISHER, number, time.time(), BODY, ("all",))
        return Append(event)


def _measure_batch(name: str, store: Store, events: Events, batch: int) -> Measurement:
    with Processor() as processor:
        count, start = 0, time.perf_counter()
        while time.perf_counter() - start < SECONDS:
            store.write([events.next() for _ in range(batch)])
            store.sync()
            count += batch
        rate = count / (time.perf_counter() - start)
    note = f"a sync for each batch, {processor.each(count)}"
    return Measurement(f"{name}, batches of {batch}", rate, "events/s", note)


async def _publish(store: Store, events: Events, publishers: int) -> tuple[int, float, float]:
    """Events, and events and syncs a second, of so many publishers that each wait for their own event."""
    count = 0
    async with GroupCommit(store) as writer:
        start = time.perf_counter()

        async def publisher() -> None:
            nonlocal count
            while time.perf_counter() - start < SECONDS:
                await writer.submit([events.next()])
                count += 1

        await asyncio.gather(*(publisher() for _ in range(publishers)))
        seconds = time.perf_counter() - start
    return count, count / seconds, writer.syncs / seconds


# -- others --


Peer = tuple[TemporaryServer, WindowedClient]


def _redis_always(stack: ExitStack) -> Peer:
    server = stack.enter_context(RedisServer("always"))
    return server, RedisClient(server.port, BODY)


def _redis_everysec(stack: ExitStack) -> Peer:
    server = stack.enter_context(RedisServer("everysec"))
    return server, RedisClient(server.port, BODY)


def _jetstream(stack: ExitStack) -> Peer:
    server = stack.enter_context(JetStreamServer())
    return server, JetStreamClient(server.port, BODY)


_PEERS: dict[str, Callable[[ExitStack], Peer]] = {
    "redis, appendfsync always": _redis_always,
    "redis, appendfsync everysec": _redis_everysec,
    "jetstream, its default sync": _jetstream,
}


def _measure_peer(name: str, connect: Callable[[ExitStack], Peer]) -> list[Measurement]:
    measurements: list[Measurement] = []
    try:
        with ExitStack() as stack:
            server, client = connect(stack)
            for publishers in PUBLISHERS:
                with Processor(server) as processor:
                    rate = run(client.rate(publishers, SECONDS))
                used = processor.each(int(rate * SECONDS))
                note = f"{publishers} messages on their way, {used}, client and server"
                measurements.append(Measurement(name, rate, "events/s", note))
    except NotInstalled as missing:
        return [_left_out(name, missing)]
    return measurements


def _left_out(name: str, missing: NotInstalled) -> Measurement:
    return Measurement(name, 0.0, "events/s", f"left out: {missing}")
