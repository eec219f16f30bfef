"""Durable delivery by nodes around an archive, best effort by the same nodes, and by Redis and JetStream."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import partial
from multiprocessing.connection import Connection
from typing import Any, Literal

from bench.servers import JetStreamServer, RedisServer
from bench.systems.fanout import library, opened
from bench.systems.work import Tally, Work, orders, publish_all, publish_orders, report_is_due
from pubsub import Archive, Event, Node
from pubsub.publishing import Receipt

# Durable delivery by nodes around an archive, and best effort by the same nodes.


TOPIC = "/bench/durable"
Kind = Literal["best effort", "optimistic", "ordered"]
IN_FLIGHT = 2_000
"""Durable events that a publisher has on their way at full speed."""
BATCH = 256
"""Events that a publisher hands over, or a subscriber asks for, at a time."""
SETTLING_SECONDS = 3.0


async def archive(pipe: Connection, store: str) -> None:
    """Answers with its address, then with its processor seconds so far to every order."""
    async with Archive([TOPIC], store) as running:
        await running.ready(TOPIC)
        pipe.send(str(running.node.address))
        while await asyncio.to_thread(pipe.recv) is not None:
            pipe.send(time.process_time())


async def subscriber(pipe: Connection, kind: Kind, name: str, first: str) -> None:
    """Answers with its address, then "ready" and a report for each work; it subscribes anew for each."""
    async with Node(bootstrap=[first]) as node:
        pipe.send(str(node.address))
        async for work in orders(pipe):
            tally = Tally(work)
            if kind == "best effort":
                async with node.subscribe(TOPIC, queue=1_000_000) as plain:
                    await receive_all(pipe, payloads(plain), tally)
            else:
                durable = node.subscribe(TOPIC, durable=name, since="now", delivery=kind)
                async with durable as events:
                    await receive_all(pipe, payloads(events), tally)


async def payloads(events: AsyncIterator[Event]) -> AsyncIterator[bytes]:
    """What the events carry, without the one with which a publisher joins."""
    async for event in events:
        if event.data:
            yield event.data


async def receive_all(pipe: Connection, events: AsyncIterator[bytes], tally: Tally) -> None:
    """Say "ready", then take the work's events and report; no more is taken than there is to do."""
    pipe.send("ready")

    async def receive() -> None:
        while not tally.is_complete:
            tally.add(await anext(events))

    await tally.kept_up(receive())
    await report_is_due(pipe)
    pipe.send(tally.report())


async def publisher(pipe: Connection, kind: Kind, first: str) -> None:
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
        await receive_all(pipe, events, Tally(work))


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
        partial(_redis, partial(RedisServer, "always")), read_redis, publish_redis
    ),
    "Redis streams, a sync a second": DurablePeer(
        partial(_redis, partial(RedisServer, "everysec")), read_redis, publish_redis
    ),
    "JetStream, a sync every two minutes": DurablePeer(
        partial(opened, "nats-py", "nats", JetStreamServer), read_jetstream, publish_jetstream
    ),
}
