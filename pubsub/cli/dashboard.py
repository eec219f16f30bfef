"""`camcast dashboard`: a page that shows the network, served by a node of it."""

from __future__ import annotations

import argparse
import asyncio
from typing import Any

from pubsub.cli.doors import read_tokens
from pubsub.cli.options import add_command as add
from pubsub.cli.options import (
    add_flag,
    add_metrics_option,
    add_node_options,
    add_option,
    address_of,
    running_node,
    with_file,
)
from pubsub.cli.terminal import run, say


def add_command(commands: Any) -> None:
    parser = add(
        commands, "dashboard", "camcast dashboard --bootstrap 127.0.0.1:4000 --http 127.0.0.1:8080"
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

    address_of(arguments, "http")
    tokens = read_tokens(arguments, "http_token_file")
    async with (
        running_node(arguments) as node,
        Dashboard(node, arguments.http, tokens=tokens) as page,
    ):
        url = f"http://{page.address}/{'?token=...' if tokens else ''}"
        say(arguments, f"dashboard on {url}", dashboard=url)
        await asyncio.Event().wait()
    return 0
