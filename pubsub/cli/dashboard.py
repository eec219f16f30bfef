"""`camcast dashboard`: a page that shows the network, served by a node of it."""

from __future__ import annotations

import argparse
import asyncio
from contextlib import AsyncExitStack
from typing import Any

from pubsub.cli.doors import read_tokens
from pubsub.cli.options import add_command as add
from pubsub.cli.options import (
    add_flag,
    add_metrics_option,
    add_node_options,
    add_option,
    make_node,
    metrics_address,
    serve_status,
    with_file,
)
from pubsub.cli.terminal import run, say


def add_command(commands: Any) -> None:
    parser = add(
        commands,
        "dashboard",
        "camcast dashboard --bootstrap 127.0.0.1:4000 --http 127.0.0.1:8080",
    )
    add_node_options(parser, only_options=True)
    add_option(
        parser,
        "--http",
        metavar="HOST:PORT",
        default="127.0.0.1:8080",
        help="where the page is served; default: 127.0.0.1:8080",
    )
    add_option(
        parser, "--http-token-file", metavar="FILE", help="tokens, one a line: the page needs one"
    )
    add_flag(parser, "--json", help="print JSON lines")
    add_metrics_option(parser)
    parser.set_defaults(action=lambda arguments: run(show(with_file(arguments))))


async def show(arguments: argparse.Namespace) -> int:
    from pubsub.doors.dashboard import Dashboard

    metrics = metrics_address(arguments)
    file = arguments.http_token_file
    tokens = [] if file is None else read_tokens("--http-token-file", file)
    async with AsyncExitStack() as stack:
        node = await stack.enter_async_context(make_node(arguments))
        await serve_status(arguments, node, metrics, stack)
        page = await stack.enter_async_context(Dashboard(node, arguments.http, tokens=tokens))
        query = "?token=..." if tokens else ""
        url = f"http://{page.address}/{query}"
        say(arguments, f"dashboard on {url}", dashboard=url)
        await asyncio.Event().wait()
    return 0
