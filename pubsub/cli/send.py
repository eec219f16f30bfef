"""`camcast send`: send a file to the subscribers of a topic."""

from __future__ import annotations

import argparse
import asyncio
import time
from typing import Any

from pubsub.cli.file_options import add_flag, add_option, with_file
from pubsub.cli.options import add_command as add
from pubsub.cli.options import add_node_options, make_node, positive
from pubsub.cli.progress_bar import ProgressBar, megabytes, sending
from pubsub.cli.runner import run
from pubsub.files import FileSharing


def add_command(commands: Any) -> None:
    parser = add(
        commands,
        "send",
        "send a file to everyone who receives the topic's files",
        "camcast send match.mp4 /videos --receivers 3 --bootstrap 127.0.0.1:4000",
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
    add_node_options(parser)
    parser.set_defaults(action=lambda arguments: run(send(with_file(arguments))))


async def send(arguments: argparse.Namespace) -> int:
    begun = time.monotonic()
    async with make_node(arguments) as node, FileSharing(node) as files:
        bar = ProgressBar(files, sending)
        drawing = asyncio.create_task(bar.run())
        try:
            if arguments.durable:
                transfer = await files.archive(arguments.file, arguments.topic)
            else:
                transfer = await files.send(
                    arguments.file, arguments.topic, receivers=arguments.receivers
                )
        finally:
            drawing.cancel()
            bar.clear()
        done = (
            "safe at an archive"
            if arguments.durable
            else f"{transfer.finished_peers} have it, {megabytes(transfer.given)} sent"
        )
        print(
            f"{transfer.name}  {megabytes(transfer.size)}  sha256 {transfer.manifest.digest.hex()}"
            f"  {done} in {time.monotonic() - begun:.1f} s",
            flush=True,
        )
    return 0
