"""`camcast send`: send a file to the subscribers of a topic."""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from typing import Any

from overlay.topic_name import check_topic_name
from pubsub.cli.durable import add_archiving_options
from pubsub.cli.options import add_command as add
from pubsub.cli.options import (
    add_flag,
    add_node_options,
    add_option,
    check_durable,
    make_node,
    positive,
    with_file,
)
from pubsub.cli.progress_bar import ProgressBar, megabytes, sending
from pubsub.cli.terminal import run, say
from pubsub.files import FileSharing, Transfer
from pubsub.files.disk import readable


def add_command(commands: Any) -> None:
    parser = add(
        commands, "send", "camcast send match.mp4 /videos --receivers 3 --bootstrap 127.0.0.1:4000"
    )
    parser.add_argument("file")
    parser.add_argument("topic")
    add_option(
        parser,
        "--receivers",
        type=positive,
        default=1,
        metavar="N",
        help="end when N have it (default: 1)",
    )
    add_flag(parser, "--durable", help="have an archive keep the file, and end when it does")
    add_archiving_options(parser)
    add_flag(parser, "--json", help="print a JSON line")
    add_node_options(parser)
    parser.set_defaults(action=lambda arguments: run(send(with_file(arguments))))


async def send(arguments: argparse.Namespace) -> int:
    check_durable(arguments)
    check_topic_name(arguments.topic)
    with readable(Path(arguments.file)):
        pass  # before the network is asked for anything
    begun = time.monotonic()
    async with make_node(arguments) as node, FileSharing(node) as files:
        async with ProgressBar(files, sending):
            transfer = await _transfer(files, arguments)
        _say_done(arguments, transfer, time.monotonic() - begun)
    return 0


async def _transfer(files: FileSharing, arguments: argparse.Namespace) -> Transfer:
    if not arguments.durable:
        return await files.send(arguments.file, arguments.topic, receivers=arguments.receivers)
    return await files.archive(
        arguments.file, arguments.topic, copies=arguments.copies, deadline=arguments.deadline
    )


def _say_done(arguments: argparse.Namespace, transfer: Transfer, seconds: float) -> None:
    digest = transfer.manifest.digest.hex()
    done = f"{transfer.finished_peers} have it, {megabytes(transfer.given)} sent"
    if arguments.durable:
        done = (
            f"safe at {arguments.copies} archives" if arguments.copies > 1 else "safe at an archive"
        )
    say(
        arguments,
        f"{transfer.name}  {megabytes(transfer.size)}  sha256 {digest}  {done} in {seconds:.1f} s",
        name=transfer.name,
        size=transfer.size,
        sha256=digest,
        copies=arguments.copies if arguments.durable else None,
        receivers=None if arguments.durable else transfer.finished_peers,
        sent=transfer.given,
        seconds=seconds,
    )
