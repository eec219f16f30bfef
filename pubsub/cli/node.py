"""`camcast node`: run a peer until it is stopped."""

from __future__ import annotations

import argparse
import asyncio
from contextlib import AsyncExitStack
from typing import Any

from overlay.contact import Address
from pubsub.cli.options import add_command as add
from pubsub.cli.options import add_node_options, make_node
from pubsub.cli.output import as_json, plain
from pubsub.cli.runner import run
from pubsub.status_server import StatusServer
from pubsub.subscription import Subscription


def add_command(commands: Any) -> None:
    parser = add(
        commands,
        "node",
        "run a peer until it is stopped",
        "camcast node --listen 127.0.0.1:4000 --subscribe /soccer --metrics 127.0.0.1:9100",
    )
    add_node_options(parser)
    parser.add_argument(
        "--subscribe", metavar="TOPIC", nargs="+", default=[], help="print these topics' events"
    )
    parser.add_argument("--json", action="store_true", help="print events as JSON lines")
    parser.add_argument(
        "--metrics", metavar="HOST:PORT", help="serve /metrics (Prometheus) and /status (JSON)"
    )
    parser.set_defaults(action=lambda arguments: run(run_node(arguments)))


async def run_node(arguments: argparse.Namespace) -> int:
    async with AsyncExitStack() as stack:
        node = await stack.enter_async_context(make_node(arguments))
        print(f"listening on {node.address}", flush=True)
        if arguments.metrics:
            where = Address.parse(arguments.metrics)
            server = await stack.enter_async_context(StatusServer(node, where))
            print(f"status on http://{server.address}/status", flush=True)
        async with asyncio.TaskGroup() as tasks:
            for topic in arguments.subscribe:
                events = await stack.enter_async_context(node.subscribe(topic))
                tasks.create_task(_print(events, arguments.json))
            await asyncio.Event().wait()
    return 0


async def _print(events: Subscription, json: bool) -> None:
    async for event in events:
        print(as_json(event) if json else plain(event), flush=True)
