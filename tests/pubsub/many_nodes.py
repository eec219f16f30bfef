"""118 nodes over real UDP in four processes, three levels, one mode: which part of the events reaches all?"""

from __future__ import annotations

import asyncio
import json
import multiprocessing
import sys
from contextlib import AsyncExitStack
from multiprocessing.connection import Connection
from typing import Any

from overlay import loops
from pubsub import Node, Subscription

SIZES = {"/": 7, "/d": 27, "/d/g": 84}
PROCESSES = 4
EVENTS = 10


def host(pipe: Connection, mode: str, topics: list[str], known: dict[str, str]) -> None:
    loops.run(_host(pipe, mode, topics, known))


def _node(mode: str, known: dict[str, str]) -> Node:
    if mode == "unstructured":
        return Node(mode=mode, gateways={topic: [address] for topic, address in known.items()})
    return Node(mode=mode, bootstrap=list(known.values())[:1], join_timeout=60)


async def _host(pipe: Connection, mode: str, topics: list[str], known: dict[str, str]) -> None:
    async with AsyncExitStack() as stack:
        subscriptions: list[tuple[str, Subscription]] = []
        addresses: dict[str, str] = {}
        for topic in topics:
            node = await stack.enter_async_context(_node(mode, {**addresses, **known}))
            addresses.setdefault(topic, str(node.address))
            events = await stack.enter_async_context(node.subscribe(topic))
            subscriptions.append((topic, events))
        pipe.send(addresses)
        await asyncio.to_thread(pipe.recv)
        pipe.send([(topic, [e.id for e in events.waiting()]) for topic, events in subscriptions])
        await asyncio.to_thread(pipe.recv)


async def _publish(mode: str, known: dict[str, str]) -> list[bytes]:
    async with _node(mode, known) as node:
        await node.publish("/d/g", "first")
        await asyncio.sleep(5)
        published = []
        for number in range(EVENTS):
            published.append((await node.publish("/d/g", number)).id)
            await asyncio.sleep(0.2)
        await asyncio.sleep(5)
        return published


def main(mode: str) -> dict[str, Any]:
    """Start the processes one after another, publish, and ask everyone what it received."""
    context = multiprocessing.get_context("spawn")
    topics = [topic for topic, size in SIZES.items() for _ in range(size)]
    known: dict[str, str] = {}
    pipes = []
    for number in range(PROCESSES):
        pipe, theirs = context.Pipe()
        part = topics[number * len(topics) // PROCESSES : (number + 1) * len(topics) // PROCESSES]
        context.Process(target=host, args=(theirs, mode, part, dict(known)), daemon=True).start()
        for topic, address in pipe.recv().items():
            known.setdefault(topic, address)
        pipes.append(pipe)
    published = loops.run(_publish(mode, known))
    received: dict[str, list[list[bytes]]] = {topic: [] for topic in SIZES}
    for pipe in pipes:
        pipe.send("report")
        for topic, ids in pipe.recv():
            received[topic].append(ids)
    for pipe in pipes:
        pipe.send("end")
    reliability = {
        topic: sum(all(e in ids for ids in everyone) for e in published) / len(published)
        for topic, everyone in received.items()
    }
    return {"mode": mode, "nodes": len(topics), "reliability": reliability}


if __name__ == "__main__":
    print(json.dumps(main(sys.argv[1])))
