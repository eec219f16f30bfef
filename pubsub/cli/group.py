"""`camcast group`: one process of a group; each line that is typed is broadcast to all of them."""

from __future__ import annotations

import argparse
import asyncio
import sys
import tomllib
from pathlib import Path
from typing import Any

from overlay.errors import UsageError
from pubsub.broadcast.probabilistic import Probabilistic
from pubsub.broadcast.stacks import NAMES, NEED_DETECTOR, ORDERS
from pubsub.cli import standard_input
from pubsub.cli.options import add_command as add
from pubsub.cli.runner import run
from pubsub.config_file import read_keys
from pubsub.group import Group, GroupError

START = "startpfd"
"""The line that starts the failure detector."""


def add_command(commands: Any) -> None:
    parser = add(
        commands,
        "group",
        "run one process of a group; each line typed is broadcast to all of them",
        "camcast group -f processes.toml -n 0 --qos urb",
    )
    parser.add_argument(
        "-f", "--file", required=True, help='a TOML file: members = ["127.0.0.1:25000", ...]'
    )
    parser.add_argument("-n", "--rank", type=int, required=True, help="which of them this one is")
    parser.add_argument("--qos", choices=NAMES, default="beb", help="what is promised")
    parser.add_argument("--order", choices=ORDERS, default="none")
    parser.add_argument("--fanout", type=int, default=4, help="of pb")
    parser.add_argument("--maxrounds", type=int, default=6, help="of pb")
    parser.add_argument("--log", metavar="FILE", help="with iurb: come back from a crash with it")
    parser.add_argument("--key-file", metavar="FILE", help="network keys, one a line")
    parser.add_argument(
        "--insecure", action="store_true", help="allow a public address without a key"
    )
    parser.set_defaults(action=lambda arguments: run(talk(arguments)))


def read_members(path: str) -> list[str]:
    """The addresses in a file of processes, in the order of their ranks."""
    try:
        members = tomllib.loads(Path(path).read_text(encoding="utf-8")).get("members")
    except OSError as error:
        raise UsageError(f"cannot read {path}: {error.strerror}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise UsageError(f"{path} is not TOML: {error}") from None
    if not isinstance(members, list) or not all(isinstance(one, str) for one in members):
        raise UsageError(f'{path} must say members = ["host:port", ...], in the order of the ranks')
    return members


async def talk(arguments: argparse.Namespace) -> int:
    group = Group(
        read_members(arguments.file),
        arguments.rank,
        arguments.qos,
        order=arguments.order,
        probabilistic=Probabilistic(arguments.fanout, arguments.maxrounds),
        detector="by_hand",
        log=arguments.log,
        on_crash=lambda rank: print(f"process {rank} has crashed", file=sys.stderr, flush=True),
        keys=read_keys(arguments.key_file) if arguments.key_file else (),
        insecure=arguments.insecure,
    )
    async with group:
        print(f"process {group.rank} of {len(group.addresses)}, {arguments.qos}", flush=True)
        if arguments.qos in NEED_DETECTOR:
            print(f"type {START} in every process once all of them run", file=sys.stderr)
        printing = asyncio.create_task(_print(group))
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
    async for line in standard_input.lines():
        await _obey(group, line)


async def _obey(group: Group, line: str) -> None:
    if line == START:
        try:
            group.start_detector()
        except GroupError as error:
            print(error, file=sys.stderr, flush=True)
    elif line:
        await group.broadcast(line.removeprefix("bcast "))


async def _print(group: Group) -> None:
    async for message in group:
        print(f"{message.source}: {message.data}", flush=True)
