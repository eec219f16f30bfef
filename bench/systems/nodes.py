"""A fan-out by nodes of this project."""

from __future__ import annotations

import asyncio
import hashlib
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import Any

from bench.systems.work import Effort, Tally, Work, orders, publish_all, report_is_due
from overlay.membership.modes import ModeName
from pubsub import Node, Subscription
from pubsub.config import DisseminationKind

TOPIC = "/bench/fanout"
QUEUE = 2_000_000
KEY = hashlib.sha256(b"the key of the fan-out benchmark").digest()


@dataclass(frozen=True)
class NodeSetting:
    """How the nodes of a fan-out are set up."""

    mode: ModeName = "structured"
    dissemination: DisseminationKind = "lazy"
    sealed: bool = False
    """Whether datagrams are sealed with a network key."""
    signed: bool = False
    """Whether events are signed by their publisher."""
    datagram_size: int | None = None
    """Bytes of the largest datagram; None: what a node takes on loopback."""
    settling: float = 5.0
    """Seconds from the publisher's first event until every topic table is complete."""


def node_of(setting: NodeSetting, first: str | None) -> Node:
    """A node that joins through the one at the address `first`."""
    settings: dict[str, Any] = {
        "mode": setting.mode,
        "dissemination": setting.dissemination,
        "keys": (KEY,) if setting.sealed else (),
        "signatures": setting.signed,
        "datagram_size": setting.datagram_size,
    }
    if setting.mode == "unstructured":
        return Node(gateways={TOPIC: [first]} if first else {}, **settings)
    return Node(bootstrap=[first] if first else [], **settings)


def count(node: Node, name: str) -> int:
    """The value of one of a node's counters."""
    value = node.metrics.as_dict().get(name, 0)
    assert isinstance(value, int)
    return value


async def subscriber(pipe: Connection, setting: NodeSetting, first: str | None) -> None:
    """Answers with its address, then "ready" and a report for each work."""
    async with node_of(setting, first) as node, node.subscribe(TOPIC, queue=QUEUE) as events:
        pipe.send(str(node.address))
        async for work in orders(pipe):
            pipe.send("ready")
            await _receive(pipe, node, events, work)


async def _receive(pipe: Connection, node: Node, events: Subscription, work: Work) -> None:
    sent, copies = count(node, "bytes_sent"), count(node, "events_received")
    tally = Tally(work)

    async def receive() -> None:
        async for event in events:
            tally.add(event.data)
            if tally.is_complete:
                return

    await tally.kept_up(receive())  # the rest, if any, is lost, and counted as lost
    await report_is_due(pipe)
    sent, copies = count(node, "bytes_sent") - sent, count(node, "events_received") - copies
    pipe.send(tally.report(sent, copies))


async def publisher(pipe: Connection, setting: NodeSetting, first: str | None) -> None:
    """Answers when its first event is published and the tables are full, then with a report for each work."""
    async with node_of(setting, first) as node:
        await node.publish(TOPIC, b"")
        await asyncio.sleep(setting.settling)
        pipe.send(str(node.address))
        async for work in orders(pipe):
            await _publish_work(pipe, node, work)


async def _publish_work(pipe: Connection, node: Node, work: Work) -> None:
    sent, effort = count(node, "bytes_sent"), Effort(work)
    await publish_all(work, lambda event: node.publish(TOPIC, event))
    effort.end()
    await report_is_due(pipe)
    pipe.send(effort.report(count(node, "bytes_sent") - sent))
