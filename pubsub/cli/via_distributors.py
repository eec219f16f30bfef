"""`camcast subscribe` and `camcast publish` with `--via distributors`: as a light client of a service."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from overlay.errors import UsageError
from pubsub.cli.options import add_option, node_config
from pubsub.cli.terminal import input_lines
from pubsub.text import json_line, plain_line

if TYPE_CHECKING:  # a command on the overlay is ready sooner without them
    from pubsub.distributors import ServiceMessage


def add_distributor_options(parser: argparse.ArgumentParser) -> None:
    add_option(
        parser,
        "--via",
        choices=("overlay", "distributors"),
        default="overlay",
        help="default: overlay",
    )
    add_option(parser, "--group", default="main", help="via distributors: of this group")
    add_option(
        parser,
        "--distributors",
        metavar="HOST:PORT",
        many=True,
        default=[],
        help="via distributors: the address of one, in place of --bootstrap; repeat it for more",
    )


async def print_messages(arguments: argparse.Namespace) -> int:
    """Print a service's messages; gaps go to the standard error output."""
    from pubsub.distributors import Gap, GapError, Subscriber

    left = arguments.count
    async with (
        Subscriber(**_client_settings(arguments)) as subscriber,
        subscriber.subscribe(
            arguments.topic, semantics="no_gap" if arguments.no_gap else "gap"
        ) as messages,
    ):
        while left is None or left > 0:
            try:
                message = await anext(messages)
            except GapError as error:
                message = error.gap
            if isinstance(message, Gap):
                text = f"gap: messages {message.first} to {message.last} were missed"
                print(text, file=sys.stderr, flush=True)
                continue
            print(_json(message) if arguments.json else _plain(message), flush=True)
            left = None if left is None else left - 1
    return 0


async def publish_messages(arguments: argparse.Namespace, read: Callable[[str], Any]) -> int:
    """Publish to a service one message, or one for each line of the standard input."""
    from pubsub.distributors import Publisher

    service = arguments.topic
    async with Publisher(**_client_settings(arguments)) as publisher:
        await publisher.create(service)
        if arguments.data != "-":
            receipt = await publisher.publish(service, read(arguments.data))
            _print_number(arguments, receipt.number)
            return 0
        async for line in input_lines():
            receipt = await publisher.publish(service, read(line))
            _print_number(arguments, receipt.number)
        return 0


def _client_settings(arguments: argparse.Namespace) -> dict[str, Any]:
    """Those settings of a node that mean something to a light client."""
    node = node_config(arguments)
    where: dict[str, Any] = {"bootstrap": list(node.bootstrap)}
    if arguments.distributors:
        where = {"distributors": arguments.distributors}
    elif not node.bootstrap:
        raise UsageError(
            "--via distributors needs --bootstrap HOST:PORT (any node) or --distributors HOST:PORT"
        )
    if "join_timeout" in arguments.settings:
        where["connect_timeout"] = node.join_timeout
    return {
        **where,
        "group": arguments.group,
        "listen": node.listen,
        "advertise": node.advertise,
        "keys": node.keys,
        "insecure": node.insecure,
        "identity": node.identity,
        "datagram_size": node.datagram_size,
        "authority": node.authority,
        "rights": node.rights,
    }


def _print_number(arguments: argparse.Namespace, number: int) -> None:
    text = json_line({"sequence": number}) if arguments.json else f"received as message {number}"
    print(text, flush=True)


def _plain(message: ServiceMessage) -> str:
    return plain_line(message.topic or message.service, message.data)


def _json(message: ServiceMessage) -> str:
    return json_line(
        {
            "service": message.service,
            "data": message.data,
            "publisher": message.publisher,
            "sequence": message.sequence,
            "topic": message.topic,
        }
    )
