"""`camcast group`: one process of a group; each line that is typed is broadcast to all of them."""

from __future__ import annotations

import argparse
import asyncio
import sys
from typing import Any

from overlay.identity import Identity
from pubsub.broadcast.group import Group, GroupError
from pubsub.broadcast.probabilistic import Probabilistic
from pubsub.broadcast.stacks import NAMES, NEED_DETECTOR, ORDERS
from pubsub.cli.options import add_flag, add_list, add_option, new_command, refuse
from pubsub.cli.terminal import input_lines, say
from pubsub.config_file import read_keys
from pubsub.text import visible

START = "startpfd"
"""The line that starts the failure detector."""


def add_group(commands: Any) -> None:
    parser = new_command(commands, "group", "camcast group -f processes.toml -n 0 --qos urb", talk)
    parser.add_argument(
        "-f",
        "--file",
        "--config",
        dest="config",
        metavar="FILE",
        help='a TOML file: members = ["127.0.0.1:25000", ...], and other options by their names; what is '
        "given here wins",
    )
    add_list(
        parser,
        "--members",
        metavar="HOST:PORT",
        needed=True,
        help="the addresses of all, in the order of their ranks",
    )
    add_option(parser, "-n", "--rank", type=int, needed=True, help="which of them this one is")
    add_option(parser, "--qos", choices=NAMES, default="beb", help="what is promised")
    add_option(parser, "--order", choices=ORDERS, default="none")
    add_option(parser, "--fanout", type=int, default=4, help="of pb")
    add_option(parser, "--maxrounds", type=int, default=6, help="of pb")
    add_option(parser, "--log", metavar="FILE", help="with iurb: come back from a crash with it")
    add_option(parser, "--key-file", metavar="FILE", help="network keys, one a line")
    add_option(parser, "--identity", metavar="FILE", help="the key of this one; made if missing")
    add_option(
        parser, "--topic", help="with --authority: who may publish and subscribe there takes part"
    )
    for name, what in (
        ("authority", "a public key of the network's authority"),
        ("rights", "an own right"),
    ):
        add_list(parser, f"--{name}", metavar="HEX", help=what)
    add_flag(parser, "--insecure", help="allow a public address without a key")
    add_flag(parser, "--json", help="print JSON lines")


async def talk(arguments: argparse.Namespace) -> int:
    if arguments.qos != "pb":
        refuse(arguments, ("fanout", "maxrounds"), "goes with --qos pb")
    group = Group(
        arguments.members,
        arguments.rank,
        arguments.qos,
        order=arguments.order,
        probabilistic=Probabilistic(arguments.fanout, arguments.maxrounds),
        detector="by_hand",
        log=arguments.log,
        on_crash=lambda rank: print(f"process {rank} has crashed", file=sys.stderr, flush=True),
        keys=read_keys(arguments.key_file) if arguments.key_file else (),
        insecure=arguments.insecure,
        identity=Identity.load_or_create(arguments.identity) if arguments.identity else None,
        topic=arguments.topic,
        authority=arguments.authority,
        rights=arguments.rights,
    )
    async with group:
        count, qos = len(group.addresses), arguments.qos
        say(arguments, f"process {group.rank} of {count}, {qos}", rank=group.rank, qos=qos)
        if arguments.qos in NEED_DETECTOR:
            print(f"type {START} in every process once all of them run", file=sys.stderr)
        printing = asyncio.create_task(_print(group, arguments))
        typing = asyncio.create_task(_type(group))
        try:
            await asyncio.wait((printing, typing), return_when=asyncio.FIRST_COMPLETED)
            for task in (printing, typing):
                if task.done():
                    await task
        finally:
            printing.cancel()
            typing.cancel()
    return 0


async def _type(group: Group) -> None:
    async for line in input_lines():
        await _obey(group, line)


async def _obey(group: Group, line: str) -> None:
    if line == START:
        try:
            group.start_detector()
        except GroupError as error:
            print(error, file=sys.stderr, flush=True)
    elif line:
        await group.broadcast(line.removeprefix("bcast "))


async def _print(group: Group, arguments: argparse.Namespace) -> None:
    async for message in group:
        text = visible(f"{message.source}: {message.data}")
        say(arguments, text, source=message.source, data=message.data, number=message.number)
