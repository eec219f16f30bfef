"""`camcast hand-over`: have one archive hand a topic to another, while publishers and subscribers go on."""

from __future__ import annotations

import argparse
from typing import Any

from overlay.contact import Address
from overlay.errors import UsageError
from pubsub.archive.hand_over import WITHIN, request_hand_over
from pubsub.cli.options import add_command as add
from pubsub.cli.options import add_flag, add_node_options, add_option, make_node, with_file
from pubsub.cli.terminal import run, say
from pubsub.topic import Topic


def add_command(commands: Any) -> None:
    parser = add(
        commands, "hand-over", "camcast hand-over /soccer --from 192.0.2.6:4000 --to 192.0.2.7:4000"
    )
    parser.add_argument("topic")
    add_option(parser, "--from", metavar="HOST:PORT", needed=True, help="the archive that has it")
    add_option(
        parser,
        "--to",
        metavar="HOST:PORT",
        needed=True,
        help="the one that is to have it, and accepts it",
    )
    add_option(
        parser,
        "--within",
        type=float,
        default=WITHIN,
        metavar="SECONDS",
        help=f"give up, and leave it where it is, after this many seconds (default: {WITHIN:g})",
    )
    add_flag(parser, "--json", help="print JSON lines")
    add_node_options(parser)
    parser.set_defaults(action=lambda arguments: run(hand_over(with_file(arguments))))


async def hand_over(arguments: argparse.Namespace) -> int:
    topic, within = Topic.of(arguments.topic).name, arguments.within
    at, to = Address.parse(vars(arguments)["from"]), Address.parse(arguments.to)
    if not within > 0:
        raise UsageError(f"--within is seconds, more than 0, not {within:g}")
    async with make_node(arguments) as node:
        await request_hand_over(node.attachment.runtime, topic, at, to, within)
        say(arguments, f"{topic} is managed by {to}", topic=topic, archive=str(to))
    return 0
