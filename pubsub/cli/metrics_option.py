"""The option `--metrics`, of commands that run until they are stopped."""

from __future__ import annotations

import argparse
from contextlib import AsyncExitStack

from overlay.contact import Address
from pubsub.cli.file_options import add_option
from pubsub.cli.output import say
from pubsub.status_server import Reporting, StatusServer


def add_metrics_option(parser: argparse.ArgumentParser) -> None:
    add_option(
        parser,
        "--metrics",
        metavar="HOST:PORT",
        help="serve /metrics (Prometheus) and /status (JSON)",
    )


def metrics_address(arguments: argparse.Namespace) -> Address | None:
    """Where to serve them; asked before anything runs, for it may be no address."""
    return Address.parse(arguments.metrics) if arguments.metrics is not None else None


async def serve_status(
    arguments: argparse.Namespace, process: Reporting, at: Address | None, stack: AsyncExitStack
) -> None:
    """Serve what the process says of itself until the stack ends, and say where; not at all at None."""
    if at is not None:
        server = await stack.enter_async_context(StatusServer(process, at))
        url = f"http://{server.address}/status"
        say(arguments, f"status on {url}", status=url)
