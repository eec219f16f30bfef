"""`camcast subscribe`: print the events of a topic."""

from __future__ import annotations

import argparse
import sys
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from typing import Any

from pubsub.cli.durable import add_durable_options, durable_fields, durable_subscription
from pubsub.cli.options import (
    add_flag,
    add_metrics_option,
    add_node_options,
    add_option,
    check_durable,
    check_via,
    new_command,
    positive,
    running_node,
)
from pubsub.cli.terminal import as_json, plain, told_if_long
from pubsub.cli.via_distributors import add_distributor_options, print_messages
from pubsub.event import Event
from pubsub.node import Node
from pubsub.topic import Pattern


def add_subscribe(commands: Any) -> None:
    parser = new_command(
        commands,
        "subscribe",
        "camcast subscribe /soccer --bootstrap 127.0.0.1:4000 --json",
        print_events,
    )
    parser.add_argument(
        "topic", help="a topic, or a pattern such as /soccer/*; a service with --via distributors"
    )
    add_node_options(parser)
    add_flag(parser, "--json", help="print JSON lines")
    add_option(parser, "--order", choices=("none", "fifo"), default="none", help="by publisher")
    add_flag(parser, "--last", help="begin with the last event of each topic")
    add_option(parser, "--count", type=positive, metavar="N", help="end after N events")
    add_metrics_option(parser)
    add_durable_options(parser)
    add_distributor_options(parser)
    add_flag(parser, "--no-gap", help="via distributors: miss nothing")


async def print_events(arguments: argparse.Namespace) -> int:
    check_via(arguments)
    check_durable(arguments)
    if arguments.via == "distributors":
        return await print_messages(arguments)
    Pattern.of(arguments.topic)  # a wrong one is refused before the network is asked for anything
    async with running_node(arguments) as node:
        if arguments.durable is not None:
            async with AsyncExitStack() as stack:
                with told_if_long(f"waiting for an archive of {arguments.topic}"):
                    subscribing = durable_subscription(node, arguments)
                    archived = await stack.enter_async_context(subscribing)
                await _print(archived, arguments)
        else:
            _say_if_alone(node)
            topic, order, last = arguments.topic, arguments.order, arguments.last
            async with node.subscribe(topic, order=order, last=last) as events:
                await _print(events, arguments)
    return 0


def _say_if_alone(node: Node) -> None:
    """Whoever forgets --bootstrap would wait for ever."""
    config = node.config
    is_first = not config.listen.endswith(":0")  # others may be told to join it
    if not (is_first or config.bootstrap or config.gateways or config.discover):
        print("this node is alone: --bootstrap HOST:PORT joins a network", file=sys.stderr)


async def _print(events: AsyncIterator[Event], arguments: argparse.Namespace) -> None:
    left = arguments.count
    async for event in events:
        text = as_json(event, **durable_fields(event)) if arguments.json else plain(event)
        print(text, flush=True)
        left = None if left is None else left - 1
        if left == 0:
            break
