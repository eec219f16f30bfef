"""How many events a second an archive's store makes durable, against the batch and against who waits.

An event of 256 bytes counts when a sync to the disk that covers it has returned. Batches: this many events
for each sync. Publishers: this many at a time, each of which waits for its event before it writes the next;
they share syncs (`GroupCommit`). Redis streams and JetStream get as many messages at a time over one
connection. Redis with `appendfsync always` syncs before it answers, with `everysec` and in JetStream an
answer promises nothing about the disk. They have a network to pass, our stores have not. What is not
installed is left out.

All take turns, and the fastest of a few rounds counts: the others were disturbed.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from bench.servers import (
    JetStreamClient,
    NotInstalled,
    PostgresqlServer,
    RedisClient,
    TemporaryServer,
    WindowedClient,
    jetstream_server,
    redis_server,
)
from bench.workloads.workload import Option, Row, RowTable, Values, Workload, left_out, rows_of
from overlay import loops
from pubsub.archive.store import GroupCommit, Store, StoredEvent, open_store

BODY = bytes(256)
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


class StoreContender:
    """One of our stores."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._count = 0

    def batches(self, size: int, seconds: float) -> Round:
        count, start, used, elapsed = 0, time.perf_counter(), time.process_time(), 0.0
        while elapsed < seconds:  # at least once
            self._store.write([self._next() for _ in range(size)])
            self._store.sync()
            count += size
            elapsed = time.perf_counter() - start
        processor = 1e6 * (time.process_time() - used) / max(count, 1)
        return Round(count / elapsed, processor, count / size / elapsed)

    def publishers(self, count: int, seconds: float) -> Round:
        return loops.run(self._publish(count, seconds))

    async def _publish(self, publishers: int, seconds: float) -> Round:
        count = 0
        async with GroupCommit(self._store) as writer:
            start, used = time.perf_counter(), time.process_time()

            async def publisher() -> None:
                nonlocal count
                while True:
                    await writer.submit([self._next()])
                    count += 1
                    if time.perf_counter() - start >= seconds:
                        return

            await asyncio.gather(*(publisher() for _ in range(publishers)))
            elapsed = time.perf_counter() - start
            processor = 1e6 * (time.process_time() - used) / max(count, 1)
        return Round(count / elapsed, processor, writer.syncs / elapsed)

    def _next(self) -> StoredEvent:
        self._count += 1
        number = self._count
        id = _RUN + number.to_bytes(8, "big")
        return StoredEvent("/stores", number, id, _PUBLISHER, number, time.time(), BODY, ("all",))


class PeerContender:
    """A server of somebody else's."""

    def __init__(self, server: TemporaryServer, client: WindowedClient) -> None:
        self._server = server
        self._client = client

    def publishers(self, count: int, seconds: float) -> Round:
        used = time.process_time() + self._server.processor_seconds()
        rate = loops.run(self._client.rate(count, seconds))
        used = time.process_time() + self._server.processor_seconds() - used
        return Round(rate, 1e6 * used / max(rate * seconds, 1))


Contender = StoreContender | PeerContender


def run(options: argparse.Namespace) -> Iterator[Row]:
    """The disk itself, the stores by batches, and all of them by publishers."""
    with ExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="camcast-")))
        rate = _measure_disk(directory, options.seconds)
        yield Row({"store": "the disk", "way": "syncs of 4 KiB"}, "syncs", rate, "1/s")
        contenders: dict[str, Contender] = {}
        for name, enter in _contenders(directory).items():
            try:
                contenders[name] = enter(stack)
            except NotInstalled as missing:
                yield left_out({"store": name}, missing)
        for size in options.batches:
            stores = {n: c.batches for n, c in contenders.items() if isinstance(c, StoreContender)}
            yield from _take_turns(stores, size, f"batches of {size:,}", options)
        for count in options.publishers:
            rates = {name: contender.publishers for name, contender in contenders.items()}
            yield from _take_turns(rates, count, f"{count:,} publishers", options)


def _take_turns(
    rates: Mapping[str, Callable[[int, float], Round]],
    size: int,
    way: str,
    options: argparse.Namespace,
) -> Iterator[Row]:
    """The fastest round of each: the others were disturbed."""
    rounds: dict[str, list[Round]] = {name: [] for name in rates}
    for _ in range(options.rounds):
        for name, rate in rates.items():
            rounds[name].append(rate(size, options.seconds))
    for name, taken in rounds.items():
        best = max(taken, key=lambda one: one.rate)
        settings = {"store": name, "way": way}
        found: Values = {"rate": (best.rate, "events/s"), "cpu": (best.processor, "us/event")}
        if best.syncs is not None:
            found["syncs"] = (best.syncs, "1/s")
        yield from rows_of(settings, found)


def _contenders(directory: Path) -> dict[str, Callable[[ExitStack], Contender]]:
    def store(stack: ExitStack, address: str) -> Contender:
        opened = open_store(address)
        stack.callback(opened.close)
        return StoreContender(opened)

    def postgresql(stack: ExitStack) -> Contender:
        return store(stack, stack.enter_context(PostgresqlServer()).new_address())

    def redis(stack: ExitStack, sync: Literal["always", "everysec"]) -> Contender:
        server = stack.enter_context(redis_server(sync))
        return PeerContender(server, RedisClient(server.port, BODY))

    def jetstream(stack: ExitStack) -> Contender:
        server = stack.enter_context(jetstream_server())
        return PeerContender(server, JetStreamClient(server.port, BODY))

    return {
        "sqlite": lambda stack: store(stack, f"sqlite:///{directory}/events.db"),
        "append files": lambda stack: store(stack, f"file://{directory}/log"),
        "postgresql": postgresql,
        "redis streams, a sync for each answer": lambda stack: redis(stack, "always"),
        "redis streams, a sync a second": lambda stack: redis(stack, "everysec"),
        "jetstream, a sync every two minutes": jetstream,
    }


def _measure_disk(directory: Path, seconds: float) -> float:
    """What every store has to live with: appends of 4 KiB with a sync each, a second."""
    descriptor = os.open(directory / "disk", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    count, start = 0, time.perf_counter()
    while not count or time.perf_counter() - start < seconds:
        os.write(descriptor, bytes(4096))
        os.fdatasync(descriptor)
        count += 1
    os.close(descriptor)
    return count / (time.perf_counter() - start)


WORKLOAD = Workload(
    "stores",
    "Stores of an archive",
    "How many events a second an archive's store makes durable, by batches and by publishers that wait, "
    "beside Redis streams and JetStream.",
    (
        Option("seconds", 0.4, "how long each round runs"),
        Option("rounds", 3, "rounds, of which the fastest counts", quick=1),
        Option("batches", [1, 16, 256, 2048], "events for each sync", quick=[1, 256]),
        Option("publishers", [1, 16, 256, 2048], "who wait for each event", quick=[1, 256]),
    ),
    run,
    (
        RowTable(
            "stores",
            "Durable events of 256 bytes; the fastest rounds",
            {"way": "way", "store": "store"},
            {
                "events/s": "{rate:,.0f}",
                "syncs/s": "{syncs:,.0f}",
                "CPU us an event": "{cpu:.1f}",
            },
        ),
    ),
    quick_seconds=25,
)
