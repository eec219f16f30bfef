"""`camcast node`: run a peer until it is stopped."""

from __future__ import annotations

import argparse
import asyncio
from contextlib import AsyncExitStack
from typing import Any

from pubsub.cli.doors import add_door_options, check_doors, serve_doors
from pubsub.cli.options import (
    add_flag,
    add_list,
    add_metrics_option,
    add_node_options,
    make_node,
    metrics_address,
    new_command,
    serve_status,
)
from pubsub.cli.terminal import as_json, plain, say
from pubsub.node import Node
from pubsub.topic import Pattern


def add_node(commands: Any) -> None:
    parser = new_command(
        commands,
        "node",
        "camcast node --listen 127.0.0.1:4000 --subscribe /soccer --metrics 127.0.0.1:9100",
        run_node,
    )
    add_node_options(parser, only_options=True)
    add_list(parser, "--subscribe", metavar="TOPIC", help="print these topics' events")
    add_flag(parser, "--json", help="print JSON lines")
    add_metrics_option(parser)
    add_door_options(parser)


async def run_node(arguments: argparse.Namespace) -> int:
    check_doors(arguments)
    patterns = [Pattern.of(topic) for topic in arguments.subscribe]
    metrics = metrics_address(arguments)
    async with AsyncExitStack() as stack:
        node = await stack.enter_async_context(make_node(arguments))
        say(arguments, f"listening on {node.address}", listening=str(node.address))
        await serve_status(arguments, node, metrics, stack)
        await serve_doors(arguments, node, stack)
        printing = [_print(node, pattern, arguments.json) for pattern in patterns]
        await asyncio.gather(asyncio.Event().wait(), *printing)
    return 0


async def _print(node: Node, pattern: Pattern, json: bool) -> None:
    async with node.subscribe(pattern) as events:
        async for event in events:
            print(as_json(event) if json else plain(event), flush=True)
