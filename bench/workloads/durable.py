"""Durable delivery against best effort and beside Redis streams and JetStream; and catching up.

One publisher, one archive and the subscribers, each a process, on loopback. `safe` counts until the events
are on disk, synced. The delay is from publishing to delivery, at a rate at which events go one by one.
Redis streams and JetStream do the same work in the same run, where they and their Python clients are
installed: named subscribers that acknowledge, and as many events on their way."""

from __future__ import annotations

import argparse
import asyncio
import itertools
import tempfile
import time
from collections import deque
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from functools import partial
from multiprocessing.connection import Connection
from typing import Any, Literal, get_args

from bench.players import Player, Players, answers, ask_all
from bench.servers import NotInstalled, jetstream_server, redis_server
from bench.workloads.systems import library, opened
from bench.workloads.work import (
    Published,
    Received,
    Tally,
    Work,
    orders,
    publish_all,
    publish_orders,
    receive_work,
    reports,
)
from bench.workloads.workload import (
    Option,
    Row,
    RowTable,
    Values,
    Workload,
    left_out,
    percentiles,
    rows_of,
)
from pubsub import Archive, Event, Node
from pubsub.publishing import Receipt

TOPIC = "/bench/durable"
Kind = Literal["best effort", "optimistic", "ordered"]
KINDS: tuple[Kind, ...] = get_args(Kind)
IN_FLIGHT = 2_000
"""Durable events that a publisher has on their way at full speed."""
BATCH = 256
"""Events that a publisher hands over, or a subscriber asks for, at a time."""
SETTLING_SECONDS = 3.0


async def keep_archive(pipe: Connection, store: str, topic: str = TOPIC) -> None:
    """Answers with its address, then with its processor seconds so far to every order."""
    async with Archive([topic], store) as running:
        await running.ready(topic)
        pipe.send(str(running.node.address))
        while await asyncio.to_thread(pipe.recv) is not None:
            pipe.send(time.process_time())


async def subscribe(pipe: Connection, kind: Kind, name: str, first: str) -> None:
    """Answers with its address, then "ready" and a report for each work; it subscribes anew for each."""
    async with Node(bootstrap=[first]) as node:
        pipe.send(str(node.address))
        async for work in orders(pipe):
            if kind == "best effort":
                async with node.subscribe(TOPIC, queue=1_000_000) as plain:
                    await receive_work(pipe, work, partial(take, payloads(plain)))
            else:
                durable = node.subscribe(TOPIC, durable=name, since="now", delivery=kind)
                async with durable as events:
                    await receive_work(pipe, work, partial(take, payloads(events)))


async def payloads(events: AsyncIterator[Event]) -> AsyncIterator[bytes]:
    """What the events carry, without the one with which a publisher joins."""
    async for event in events:
        if event.data:
            yield event.data


async def take(events: AsyncIterator[bytes], tally: Tally) -> None:
    """Take the work's events, and no more than there is to do."""
    while not tally.is_complete:
        tally.add(await anext(events))


async def publish_by_node(pipe: Connection, kind: Kind, first: str) -> None:
    """Answers with its address, then with a report for each work when every event is sent or safe."""
    async with Node(bootstrap=[first]) as node:
        await node.publish(TOPIC, b"", durable=kind != "best effort")
        await asyncio.sleep(SETTLING_SECONDS)
        pipe.send(str(node.address))
        await publish_orders(pipe, partial(_publish, node, kind))


async def _publish(node: Node, kind: Kind, work: Work) -> None:
    if kind == "best effort":
        await publish_all(work, lambda event: node.publish(TOPIC, event))
        return
    waiting: deque[Receipt] = deque()
    block: list[bytes] = []

    async def publish(event: bytes) -> None:
        block.append(event)
        if len(block) == BATCH:
            waiting.extend(await node.publish_many(TOPIC, block, durable=True, wait="sent"))
            block.clear()
        while len(waiting) > IN_FLIGHT:
            await _safe(waiting.popleft())

    if work.rate is not None:
        await publish_all(work, lambda event: node.publish(TOPIC, event, durable=True))
        return
    await publish_all(work, publish)
    waiting.extend(await node.publish_many(TOPIC, block, durable=True, wait="sent"))
    for receipt in waiting:
        await _safe(receipt)


async def _safe(receipt: Receipt) -> None:
    assert receipt.durable is not None
    await receipt.durable.wait_safe()


# Redis streams and JetStream at the work of the durable measurement, each through its own Python client.
#
# One publisher with as many events on their way as ours has, and subscribers with a name each, that
# acknowledge what they had (a consumer group, a durable consumer). Redis runs with a sync to the disk
# behind every answer, and with one a second, its default; JetStream with its default, a sync every two
# minutes.


STREAM = "bench"
MESSAGE = "event"

Role = Callable[[Connection, int, str], Coroutine[Any, Any, None]]
"""A process that reads from the server at a port under a name, or publishes to it."""


# Redis.


async def read_redis(pipe: Connection, port: int, name: str) -> None:
    redis = library("redis", "redis.asyncio").Redis(port=port)
    await redis.xgroup_create(STREAM, name, id="$", mkstream=True)

    async def events() -> Any:
        while True:
            came = await redis.xreadgroup(name, name, {STREAM: ">"}, count=BATCH, block=1000)
            for entry, fields in came[0][1] if came else ():
                yield fields[MESSAGE.encode()]
                done.append(entry)
            if came:
                await redis.xack(STREAM, name, *done)
                done.clear()

    done: list[bytes] = []
    await _receive_works(pipe, name, events())
    await redis.aclose()


async def publish_redis(pipe: Connection, port: int, name: str) -> None:
    redis = library("redis", "redis.asyncio").Redis(port=port)

    async def publish(work: Work) -> None:
        pipeline = redis.pipeline(transaction=False)

        async def add(event: bytes) -> None:
            pipeline.xadd(STREAM, {MESSAGE: event})
            if work.rate is not None or len(pipeline) >= IN_FLIGHT:
                await pipeline.execute()

        await publish_all(work, add)
        if len(pipeline):
            await pipeline.execute()

    pipe.send(name)
    await publish_orders(pipe, publish)
    await redis.aclose()


# JetStream.


async def read_jetstream(pipe: Connection, port: int, name: str) -> None:
    connection = await library("nats-py", "nats").connect(f"nats://127.0.0.1:{port}")
    stream = connection.jetstream()
    await stream.add_stream(name=STREAM, subjects=[STREAM])
    policy = library("nats-py", "nats.js.api").DeliverPolicy.NEW
    consumer = await stream.subscribe(
        STREAM, durable=name, deliver_policy=policy, manual_ack=True, pending_msgs_limit=1_000_000
    )

    async def events() -> Any:
        async for message in consumer.messages:
            yield message.data
            await message.ack()

    await _receive_works(pipe, name, events())
    await connection.close()


async def publish_jetstream(pipe: Connection, port: int, name: str) -> None:
    connection = await library("nats-py", "nats").connect(f"nats://127.0.0.1:{port}")
    stream = connection.jetstream()

    async def publish(work: Work) -> None:
        waiting: deque[Any] = deque()

        async def add(event: bytes) -> None:
            waiting.append(await stream.publish_async(STREAM, event))
            if work.rate is not None or len(waiting) > IN_FLIGHT:
                await waiting.popleft()

        await publish_all(work, add)
        for answer in waiting:
            await answer

    pipe.send(name)
    await publish_orders(pipe, publish)
    await connection.close()


async def _receive_works(pipe: Connection, name: str, events: Any) -> None:
    pipe.send(name)
    async for work in orders(pipe):
        await receive_work(pipe, work, partial(take, events))


@dataclass(frozen=True)
class DurablePeer:
    """A server that keeps events, and the roles of those who use it."""

    open: Callable[[], AbstractContextManager[Any]]
    """Raises `NotInstalled` when the server or its client can't be had."""
    read: Role
    publish: Role


_redis = partial(opened, "redis", "redis.asyncio")

DURABLE_PEERS = {
    "Redis streams, a sync behind every answer": DurablePeer(
        partial(_redis, partial(redis_server, "always")), read_redis, publish_redis
    ),
    "Redis streams, a sync a second": DurablePeer(
        partial(_redis, partial(redis_server, "everysec")), read_redis, publish_redis
    ),
    "JetStream, a sync every two minutes": DurablePeer(
        partial(opened, "nats-py", "nats", jetstream_server), read_jetstream, publish_jetstream
    ),
}


# The measurement.

START_SECONDS = 90.0
WORK_SECONDS = 300.0
STEADY_SECONDS = 2.0
STORES = ("sqlite", "append files")


class NodeCrew:
    """Who does the work, processes that read and one that publishes: nodes around an archive."""

    def __init__(self, players: Players, keeper: Player, address: str, kind: Kind) -> None:
        self._players, self._keeper = players, keeper
        self._address, self._kind = address, kind

    def reader(self, number: int) -> Player:
        name = f"{self._kind} {number} {time.monotonic_ns()}"
        return self._players.start(subscribe, self._kind, name, self._address)

    def publisher(self) -> Player:
        return self._players.start(publish_by_node, self._kind, self._address)

    def keeper_seconds(self) -> float:
        """Processor time of what keeps the events, so far."""
        self._keeper.tell("cpu")
        return float(self._keeper.answer(START_SECONDS))


class ServerCrew:
    """The same for processes that read and publish through a server."""

    def __init__(self, players: Players, peer: DurablePeer, server: Any) -> None:
        self._players, self._peer, self._server = players, peer, server

    def reader(self, number: int) -> Player:
        # A name of its own for each: what another run's reader was given does not count for this one.
        name = f"reader-{number}-{time.monotonic_ns()}"
        return self._players.start(self._peer.read, self._server.port, name)

    def publisher(self) -> Player:
        return self._players.start(self._peer.publish, self._server.port, "publisher")

    def keeper_seconds(self) -> float:
        seconds: float = self._server.processor_seconds()
        return seconds


Crew = NodeCrew | ServerCrew


@contextmanager
def archived(players: Players, store: str) -> Iterator[tuple[Player, str]]:
    """An archive on a store of this kind in a directory of its own, and its address."""
    with tempfile.TemporaryDirectory(prefix="camcast-durable-") as directory:
        place = (
            f"sqlite:///{directory}/events.db" if store == "sqlite" else f"file://{directory}/log"
        )
        keeper = players.start(keep_archive, place)
        yield keeper, keeper.answer(START_SECONDS)
        keeper.end()


def deliver(crew: Crew, subscribers: int, events: int, rate: float) -> Values:
    """At full speed to the subscribers, then at a steady rate for their delay; the metrics."""
    readers = [crew.reader(number) for number in range(subscribers)]
    answers(readers, START_SECONDS)
    publisher: Player | None = None
    metrics: Values = {}
    try:
        for work in (Work(events), Work(max(int(STEADY_SECONDS * rate), 1), rate=rate)):
            ask_all(readers, work, START_SECONDS)
            # After the subscribers, which would else be given its first event.
            if publisher is None:
                publisher = crew.publisher()
                publisher.answer(START_SECONDS)
            before = crew.keeper_seconds()
            publisher.tell(work)
            published, *received = reports([publisher, *readers], WORK_SECONDS)
            keeper = crew.keeper_seconds() - before
            delays = [delay for one in received for delay in one.latencies]
            rates = _rates(published, received, keeper)
            metrics |= percentiles(delays, 1e3, "ms") if work.rate else rates
    finally:
        for player in (publisher, *readers):
            if player is not None:
                player.end()
    return metrics


def _rates(published: Published, received: list[Received], keeper: float) -> Values:
    seconds = max(one.last_at for one in received) - min(one.first_at for one in received)
    delivered = sum(one.events for one in received)
    cpu = published.cpu + keeper + sum(one.cpu for one in received)
    return {
        "safe": (published.events / published.seconds, "1/s"),
        "deliveries": (delivered / seconds, "1/s"),
        "delivered": (delivered / (published.events * len(received)), "share"),
        "cpu": (1e6 * cpu / max(delivered, 1), "us/delivery"),
    }


def catch_up(players: Players, address: str, missed: int) -> float:
    """Seconds from a subscriber's return until it has had everything that it missed."""
    reader = players.start(subscribe, "ordered", f"away {missed} {time.monotonic_ns()}", address)
    publisher = players.start(publish_by_node, "ordered", address)
    try:
        answers((reader, publisher), START_SECONDS)
        ask_all([reader], Work(1), START_SECONDS)  # registers, and goes away after one event
        publisher.tell(Work(1))
        reports([publisher, reader], WORK_SECONDS)
        publisher.tell(Work(missed))
        reports([publisher], WORK_SECONDS)
        ask_all([reader], Work(missed), START_SECONDS)
        [report] = reports([reader], WORK_SECONDS)
        return float(report.last_at - report.asked_at)
    finally:
        for player in (publisher, reader):
            player.end()


def run(options: argparse.Namespace) -> Iterator[Row]:
    for number in range(options.runs):
        for store, subscribers in itertools.product(options.stores, options.subscribers):
            yield from _camcast(store, subscribers, number, options)
        for name, peer in DURABLE_PEERS.items() if options.peers == "yes" else ():
            yield from _beside(name, peer, number, options)
    with Players() as players, archived(players, "sqlite") as (_, address):
        for missed in options.missed:
            seconds = catch_up(players, address, missed)
            found = {"catching up": (seconds, "s"), "caught up": (missed / seconds, "1/s")}
            yield from rows_of({"missed": missed}, found)


def _camcast(
    store: str, subscribers: int, number: int, options: argparse.Namespace
) -> Iterator[Row]:
    with Players() as players, archived(players, store) as (keeper, address):
        for kind in KINDS:
            crew = NodeCrew(players, keeper, address, kind)
            metrics = deliver(crew, subscribers, options.events, options.rate)
            what = kind if kind == "best effort" else f"durable, {kind}"
            settings: dict[str, Any] = {"subscribers": subscribers, "system": what, "store": store}
            yield from rows_of(settings, metrics, number)


def _beside(
    name: str, peer: DurablePeer, number: int, options: argparse.Namespace
) -> Iterator[Row]:
    try:
        opened = peer.open()
    except NotInstalled as missing:
        if number == 0:
            yield left_out({"system": name}, missing)
        return
    with opened as server, Players() as players:
        for subscribers in options.subscribers:
            crew = ServerCrew(players, peer, server)
            metrics = deliver(crew, subscribers, options.events, options.rate)
            settings = {"subscribers": subscribers, "system": name, "store": None}
            yield from rows_of(settings, metrics, number)


_lost: Callable[[Any], bool] = lambda rows: any(  # noqa: E731
    row.metric == "delivered"
    and row.value < 1
    and str(row.settings["system"]).startswith("durable")
    for row in rows
)

WORKLOAD = Workload(
    "durable",
    "Durable delivery",
    "Durable delivery against best effort, and beside Redis streams and JetStream, in one run; then how "
    "fast a subscriber catches up.",
    (
        Option("subscribers", [1, 4], "numbers of subscribers", quick=[4]),
        Option("stores", ["sqlite", "append files"], "the archive's stores", choices=STORES),
        Option("events", 5_000, "events published at full speed", quick=2_000),
        Option("rate", 50.0, "events/s for the delay"),
        Option("missed", [1_000, 4_000, 16_000], "events to catch up with", quick=[1_000]),
        Option("runs", 3, "runs of everything, each with its own processes", quick=1),
        Option("peers", "yes", "Redis streams and JetStream, too", choices=("no", "yes")),
    ),
    run,
    (
        RowTable(
            "delivery",
            "At full speed, and the delay one event at a time; medians of the runs",
            {"subscribers": "S", "system": "delivery", "store": "store"},
            {
                "safe or sent": "{safe:,.0f} /s",
                "delivered": "{deliveries:,.0f} /s",
                "CPU a delivery": "{cpu:.0f} us",
                "delay p50 / p99": "{p50:.1f} / {p99:.1f} ms",
            },
        ),
        RowTable(
            "catching-up",
            "A subscriber that was away",
            {"missed": "missed events"},
            {
                "seconds to catch up": "{catching up:.2f}",
                "events/s": "{caught up:,.0f}",
            },
        ),
    ),
    quick_seconds=90,
    is_wrong=_lost,
)
