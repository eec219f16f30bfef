"""`camcast demo`: a small hierarchy in one process, on the virtual network; the quickest way to see it."""

from __future__ import annotations

import argparse
import asyncio
from contextlib import AsyncExitStack
from typing import Any, get_args

from overlay.membership.modes import ModeName
from overlay.virtual import Network
from pubsub.cli.options import new_command
from pubsub.node import Node
from pubsub.subscription import Subscription

COMMUNITIES = {
    "/": 2,
    "/chess": 3,
    "/soccer": 4,
    "/soccer/france": 5,
    "/soccer/italy": 6,
}
"""Subscribers of each topic."""

EVENTS = (
    ("/soccer/italy", {"score": "1-0"}),
    ("/chess", {"move": "e4"}),
    ("/soccer", {"news": "the final is on Sunday"}),
)

SETTLING = 2.0
"""Virtual seconds in which an event has reached everyone it will reach."""


Subscribers = dict[str, list[tuple[Node, Subscription]]]


def add_demo(commands: Any) -> None:
    parser = new_command(commands, "demo", "camcast demo --mode structured --seed 7")
    parser.add_argument(
        "--mode",
        choices=get_args(ModeName),
        default="structured",
    )
    parser.add_argument("--seed", type=int, default=1, help="the same seed gives the same run")
    parser.set_defaults(action=run_demo)


def run_demo(arguments: argparse.Namespace) -> int:
    network = Network(arguments.seed)
    print(network.run(_play(arguments.mode)))
    return 0


async def _play(mode: ModeName) -> str:
    """Start the hierarchy, publish, and describe who received each event."""
    lines: list[str] = []
    async with AsyncExitStack() as stack:
        subscribers = await _start(stack, mode)
        publisher = await stack.enter_async_context(_node(mode, subscribers))
        for topic, data in EVENTS:
            receipt = await publisher.publish(topic, data, wait="acked")
            await asyncio.sleep(SETTLING)
            lines += _draw(topic, data, receipt.id, subscribers)
        nodes = [node for members in subscribers.values() for node, _ in members]
        drops = [node.metrics.family("events_dropped", "reason", "") for node in nodes]
        lines.append(f"parasite events: {sum(family['parasite'] for family in drops)}")
    return "\n".join(lines)


async def _start(stack: AsyncExitStack, mode: ModeName) -> Subscribers:
    subscribers: Subscribers = {}
    for topic, count in COMMUNITIES.items():
        for _ in range(count):
            node = await stack.enter_async_context(_node(mode, subscribers))
            events = await stack.enter_async_context(node.subscribe(topic))
            subscribers.setdefault(topic, []).append((node, events))
    return subscribers


def _node(mode: ModeName, subscribers: Subscribers) -> Node:
    """One more node. The first subscriber of each topic is its gateway, or the first of all the bootstrap."""
    first = {topic: [str(members[0][0].address)] for topic, members in subscribers.items()}
    if mode == "unstructured":
        return Node(mode=mode, gateways=first)
    return Node(mode=mode, bootstrap=next(iter(first.values()), []))


def _draw(topic: str, data: Any, event_id: bytes, subscribers: Subscribers) -> list[str]:
    lines = [f"published in {topic}: {data}"]
    for name, members in subscribers.items():
        marks = "".join("●" if _received(events, event_id) else "·" for _, events in members)
        level = 0 if name == "/" else name.count("/")
        label = name if level < 2 else name[name.rindex("/") :]
        lines.append(f"  {'  ' * level}{label:<{14 - 2 * level}} {marks}")
    return [*lines, ""]


def _received(events: Subscription, event_id: bytes) -> bool:
    return any(event.id == event_id for event in events.waiting())
