"""How many events a second an archive's store makes durable, against the batch and against who waits.

An event of 256 bytes counts when a sync to the disk that covers it has returned. Batches: so many events for
each sync. Publishers: so many at a time, each of which waits for its event before it writes the next; they
share syncs (`GroupCommit`). Redis streams and JetStream get as many messages at a time over one connection.
Redis with `appendfsync always` syncs before it answers, with `everysec` and in JetStream an answer promises
nothing about the disk. They have a network to pass, our stores have not. What is not installed is left out.

All take turns, and the fastest of a few rounds counts: the others were disturbed.
"""

from __future__ import annotations

import asyncio
import os
import tempfile
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
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
SECONDS = 0.4
"""How long each round of a measurement runs."""
ROUNDS = 3
BATCHES = (1, 16, 256, 2048)
PUBLISHERS = (1, 16, 256, 2048)
_RUN = b"stores!!"
_PUBLISHER = b"p" * 28


@dataclass(frozen=True)
class Round:
    """What one round gave."""

    rate: float
    """Events a second."""
    processor: float
    """Microseconds of processor time an event, of this process and of a server that answers it."""
    syncs: float | None = None
    """A second, where they are known."""

    def shown(self, what: str) -> str:
        syncs = "" if self.syncs is None else f", {self.syncs:,.0f} syncs/s"
        return f"{what}{syncs}, {self.processor:.1f} us of processor each"


class StoreContender:
    """One of our stores."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._count = 0

    def batches(self, size: int) -> Round:
        count, start, used = 0, time.perf_counter(), time.process_time()
        while (elapsed := time.perf_counter() - start) < SECONDS:
            self._store.write([self._next() for _ in range(size)])
            self._store.sync()
            count += size
        processor = 1e6 * (time.process_time() - used) / max(count, 1)
        return Round(count / elapsed, processor, count / size / elapsed)

    def publishers(self, count: int) -> Round:
        return run(self._publish(count))

    async def _publish(self, publishers: int) -> Round:
        count = 0
        async with GroupCommit(self._store) as writer:
            start, used = time.perf_counter(), time.process_time()

            async def publisher() -> None:
                nonlocal count
                while time.perf_counter() - start < SECONDS:
                    await writer.submit([self._next()])
                    count += 1

            await asyncio.gather(*(publisher() for _ in range(publishers)))
            elapsed = time.perf_counter() - start
            processor = 1e6 * (time.process_time() - used) / max(count, 1)
        return Round(count / elapsed, processor, writer.syncs / elapsed)

    def _next(self) -> Append:
        self._count += 1
        number = self._count
        id = _RUN + number.to_bytes(8, "big")
        event = StoredEvent("/stores", number, id, _PUBLISHER, number, time.time(), BODY, ("all",))
        return Append(event)


class PeerContender:
    """A server of somebody else's."""

    def __init__(self, server: TemporaryServer, client: WindowedClient) -> None:
        self._server = server
        self._client = client

    def publishers(self, count: int) -> Round:
        used = time.process_time() + self._server.processor_seconds()
        rate = run(self._client.rate(count, SECONDS))
        used = time.process_time() + self._server.processor_seconds() - used
        return Round(rate, 1e6 * used / max(rate * SECONDS, 1))


Contender = StoreContender | PeerContender


def measure() -> list[Measurement]:
    """The disk itself, the stores by batches, and all of them by publishers."""
    with ExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="camcast-")))
        measurements = [_measure_disk(directory)]
        contenders: dict[str, Contender] = {}
        for name, enter in _contenders(directory).items():
            try:
                contenders[name] = enter(stack)
            except NotInstalled as missing:
                measurements.append(Measurement(name, 0.0, "events/s", f"left out: {missing}"))
        for size in BATCHES:
            stores = {n: c.batches for n, c in contenders.items() if isinstance(c, StoreContender)}
            measurements += _take_turns(stores, size, f"batches of {size}")
        for count in PUBLISHERS:
            rates = {name: contender.publishers for name, contender in contenders.items()}
            measurements += _take_turns(rates, count, f"{count} publishers")
    return measurements


def _take_turns(
    rates: Mapping[str, Callable[[int], Round]], size: int, what: str
) -> Iterable[Measurement]:
    rounds: dict[str, list[Round]] = {name: [] for name in rates}
    for _ in range(ROUNDS):
        for name, rate in rates.items():
            rounds[name].append(rate(size))
    for name, taken in rounds.items():
        best = max(taken, key=lambda one: one.rate)
        yield Measurement(name, best.rate, "events/s", best.shown(what))


def _contenders(directory: Path) -> dict[str, Callable[[ExitStack], Contender]]:
    def store(stack: ExitStack, address: str) -> Contender:
        opened = open_store(address)
        stack.callback(opened.close)
        return StoreContender(opened)

    def postgresql(stack: ExitStack) -> Contender:
        return store(stack, stack.enter_context(PostgresqlServer()).new_address())

    def redis_always(stack: ExitStack) -> Contender:
        server = stack.enter_context(RedisServer("always"))
        return PeerContender(server, RedisClient(server.port, BODY))

    def redis_everysec(stack: ExitStack) -> Contender:
        server = stack.enter_context(RedisServer("everysec"))
        return PeerContender(server, RedisClient(server.port, BODY))

    def jetstream(stack: ExitStack) -> Contender:
        server = stack.enter_context(JetStreamServer())
        return PeerContender(server, JetStreamClient(server.port, BODY))

    return {
        "sqlite": lambda stack: store(stack, f"sqlite:///{directory}/events.db"),
        "append files": lambda stack: store(stack, f"file://{directory}/log"),
        "postgresql": postgresql,
        "redis streams, a sync for each answer": redis_always,
        "redis streams, a sync a second": redis_everysec,
        "jetstream, a sync every two minutes": jetstream,
    }


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
