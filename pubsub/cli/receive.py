"""`camcast receive`: receive the files that are sent to a topic."""

from __future__ import annotations

import argparse
from contextlib import aclosing
from pathlib import Path
from typing import Any

from pubsub.cli.options import add_command as add
from pubsub.cli.options import (
    add_flag,
    add_metrics_option,
    add_node_options,
    add_option,
    check_durable,
    positive,
    running_node,
    with_file,
)
from pubsub.cli.progress_bar import ProgressBar, megabytes, receiving
from pubsub.cli.terminal import run, say
from pubsub.files import FileSharing
from pubsub.text import visible
from pubsub.topic import Pattern


def add_command(commands: Any) -> None:
    parser = add(
        commands,
        "receive",
        "camcast receive /videos downloads --count 1 --bootstrap 127.0.0.1:4000",
    )
    parser.add_argument("topic")
    parser.add_argument("directory")
    add_option(parser, "--count", type=positive, metavar="N", help="end after N files")
    add_option(
        parser,
        "--durable",
        metavar="NAME",
        help="get archived files too, also those sent while away",
    )
    add_option(
        parser,
        "--since",
        choices=("now", "beginning"),
        default="now",
        help="where a new NAME begins",
    )
    add_flag(parser, "--json", help="print JSON lines")
    add_metrics_option(parser)
    add_node_options(parser)
    parser.set_defaults(action=lambda arguments: run(receive(with_file(arguments))))


async def receive(arguments: argparse.Namespace) -> int:
    check_durable(arguments)
    Pattern.of(arguments.topic)  # a wrong one is refused before the network is asked for anything
    left = arguments.count
    subscribing: dict[str, Any] = {}
    if arguments.durable is not None:
        subscribing = {"durable": arguments.durable, "since": arguments.since}
    async with running_node(arguments) as node, FileSharing(node) as files:
        arrivals = files.receive(arguments.topic, arguments.directory, **subscribing)
        async with ProgressBar(files, receiving) as bar, aclosing(arrivals):
            async for path in arrivals:
                bar.clear()
                _say_arrived(arguments, files, path)
                left = None if left is None else left - 1
                if left == 0:
                    break
    return 0


def _say_arrived(arguments: argparse.Namespace, files: FileSharing, path: Path) -> None:
    transfer = next((one for one in files.transfers if one.path == path), None)
    if transfer is None:  # many others have arrived since, and it is not given away any more
        size, digest = path.stat().st_size, None
        text = f"{path}  {megabytes(size)}"
    else:
        size, digest = transfer.size, transfer.manifest.digest.hex()
        text = f"{path}  {megabytes(size)}  sha256 {digest}"
    say(arguments, visible(text), path=str(path), size=size, sha256=digest)
