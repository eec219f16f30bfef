"""Redis streams and JetStream at the work of the durable measurement, each through its own Python client.

One publisher with as many events on their way as ours has, and subscribers with a name each, that acknowledge
what they had (a consumer group, a durable consumer). Redis runs with a sync to the disk behind every
answer, and with one a second, its default; JetStream with its default, a sync every two minutes.
"""

from __future__ import annotations

import asyncio
import importlib
import time
from collections import deque
from collections.abc import Awaitable, Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from functools import partial
from multiprocessing.connection import Connection
from typing import Any

from bench.durable.roles import IN_FLIGHT, Published, receive_all
from bench.durable.runs import Crew, player_of
from bench.fanout.run import Player
from bench.fanout.work import Work, publish_all
from bench.servers import JetStreamServer, NotInstalled, RedisServer, TemporaryServer
from overlay import loops

STREAM = "bench"
BATCH = 256
"""Events that a subscriber asks for at a time."""
MESSAGE = "event"

Role = Callable[[Connection, int, str], Awaitable[None]]


@dataclass(frozen=True)
class ServerCrew:
    """Processes that read and publish through a server."""

    server: TemporaryServer
    port: int
    read: Role
    publish: Role

    def reader(self, number: int) -> Player:
        # A name of its own for each: what another run's reader was given does not count for this one.
        return player_of(_in_process, (self.read, self.port), f"reader-{time.monotonic_ns()}")

    def publisher(self) -> Player:
        return player_of(_in_process, (self.publish, self.port), "publisher")

    def keeper_seconds(self) -> float:
        return self.server.processor_seconds()


def _in_process(pipe: Connection, way: tuple[Role, int], name: str) -> None:
    role, port = way

    async def play() -> None:
        await role(pipe, port, name)

    loops.run(play())


def client(package: str, module: str) -> Any:
    """A client library, or `NotInstalled` with the package that has it."""
    try:
        return importlib.import_module(module)
    except ImportError:
        raise NotInstalled(f"{module} is not installed (PyPI's package: {package})") from None


# Redis.


async def read_redis(pipe: Connection, port: int, name: str) -> None:
    redis = client("redis", "redis.asyncio").Redis(port=port)
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
    redis = client("redis", "redis.asyncio").Redis(port=port)

    async def publish(work: Work) -> None:
        pipeline = redis.pipeline(transaction=False)

        async def add(event: bytes) -> None:
            pipeline.xadd(STREAM, {MESSAGE: event})
            if work.rate is not None or len(pipeline) >= IN_FLIGHT:
                await pipeline.execute()

        await publish_all(work, add)
        if len(pipeline):
            await pipeline.execute()

    await _publish_works(pipe, name, publish)
    await redis.aclose()


# JetStream.


async def read_jetstream(pipe: Connection, port: int, name: str) -> None:
    connection = await client("nats-py", "nats").connect(f"nats://127.0.0.1:{port}")
    stream = connection.jetstream()
    await stream.add_stream(name=STREAM, subjects=[STREAM])
    policy = client("nats-py", "nats.js.api").DeliverPolicy.NEW
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
    connection = await client("nats-py", "nats").connect(f"nats://127.0.0.1:{port}")
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

    await _publish_works(pipe, name, publish)
    await connection.close()


async def _receive_works(pipe: Connection, name: str, events: Any) -> None:
    pipe.send(name)
    while (work := await asyncio.to_thread(pipe.recv)) is not None:
        await receive_all(pipe, events, work, time.monotonic())


async def _publish_works(
    pipe: Connection, name: str, publish: Callable[[Work], Awaitable[None]]
) -> None:
    pipe.send(name)
    while (work := await asyncio.to_thread(pipe.recv)) is not None:
        began, cpu = time.monotonic(), time.process_time()
        await publish(work)
        pipe.send(Published(time.monotonic() - began, time.process_time() - cpu))


@contextmanager
def _redis(sync: Any) -> Iterator[Crew]:
    client("redis", "redis.asyncio")
    with RedisServer(sync) as server:
        yield ServerCrew(server, server.port, read_redis, publish_redis)


@contextmanager
def _jetstream() -> Iterator[Crew]:
    client("nats-py", "nats")
    with JetStreamServer() as server:
        yield ServerCrew(server, server.port, read_jetstream, publish_jetstream)


PEERS: dict[str, Callable[[], AbstractContextManager[Crew]]] = {
    "redis streams, synced": partial(_redis, "always"),
    "redis streams, synced once a second": partial(_redis, "everysec"),
    "jetstream, not synced": _jetstream,
}
