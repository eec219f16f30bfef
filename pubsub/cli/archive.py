"""`camcast archive`: keep the events of topics on stable storage, and replay them."""

from __future__ import annotations

import argparse
from contextlib import AsyncExitStack
from typing import Any

from overlay.contact import Address
from pubsub.archive.archive import Archive
from pubsub.archive.store import Retention
from pubsub.cli.file_options import add_flag, add_option, with_file
from pubsub.cli.options import add_command as add
from pubsub.cli.options import add_node_options, make_node
from pubsub.cli.output import say
from pubsub.cli.runner import run
from pubsub.status_server import StatusServer


def add_command(commands: Any) -> None:
    parser = add(
        commands,
        "archive",
        "keep the events of topics on stable storage, and replay them",
        "camcast archive --topic /soccer --store sqlite:///events.db --bootstrap 127.0.0.1:4000",
    )
    add_option(
        parser,
        "--topic",
        metavar="TOPIC",
        nargs="+",
        many=True,
        default=[],
        help="topics to manage, each with its subtopics; none: wait to be handed some",
    )
    add_option(
        parser,
        "--store",
        metavar="URL",
        default="sqlite:///events.db",
        help="sqlite:///FILE, file:///DIRECTORY or postgresql://... (default: sqlite:///events.db)",
    )
    add_option(parser, "--max-age", type=float, metavar="SECONDS", help="forget older events")
    add_option(parser, "--max-count", type=int, metavar="N", help="keep N events a topic")
    add_option(parser, "--max-bytes", type=int, metavar="BYTES", help="keep so much a topic")
    add_flag(
        parser,
        "--drop-unseen",
        help="forget even what a durable subscriber has not had; it is told of the gap",
    )
    add_option(
        parser,
        "--metrics",
        metavar="HOST:PORT",
        help="serve /metrics (Prometheus) and /status (JSON)",
    )
    add_flag(parser, "--json", help="print JSON lines")
    add_node_options(parser, only_options=True)
    parser.set_defaults(action=lambda arguments: run(keep(with_file(arguments))))


async def keep(arguments: argparse.Namespace) -> int:
    retention = Retention(
        arguments.max_age, arguments.max_count, arguments.max_bytes, arguments.drop_unseen
    )
    metrics = Address.parse(arguments.metrics) if arguments.metrics else None
    async with AsyncExitStack() as stack:
        node = await stack.enter_async_context(make_node(arguments))
        archive = Archive(arguments.topic, arguments.store, node=node, retention=retention)
        await stack.enter_async_context(archive)
        say(arguments, f"listening on {node.address}", listening=str(node.address))
        if metrics is not None:
            server = await stack.enter_async_context(StatusServer(node, metrics))
            url = f"http://{server.address}/status"
            say(arguments, f"status on {url}", status=url)
        await archive.failed()
    return 1
