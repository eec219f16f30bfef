"""`camcast send` and `camcast receive`: files for the subscribers of a topic. While they move, one line on
the terminal shows how far they are."""

from __future__ import annotations

import argparse
import asyncio
import sys
import time
from collections.abc import Callable
from contextlib import aclosing
from pathlib import Path
from typing import Any, Self, TextIO

from overlay.topic_name import check_topic_name
from pubsub.cli.durable import add_archiving_options
from pubsub.cli.options import (
    add_flag,
    add_metrics_option,
    add_node_options,
    add_option,
    check_durable,
    make_node,
    new_command,
    positive,
    running_node,
)
from pubsub.cli.terminal import say
from pubsub.files import FileSharing, Transfer
from pubsub.files.disk import readable
from pubsub.text import visible
from pubsub.topic import Pattern

_WIDTH = 28
_SECONDS = 0.5


def add_send(commands: Any) -> None:
    parser = new_command(
        commands,
        "send",
        "camcast send match.mp4 /videos --receivers 3 --bootstrap 127.0.0.1:4000",
        send,
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


def add_receive(commands: Any) -> None:
    parser = new_command(
        commands,
        "receive",
        "camcast receive /videos downloads --count 1 --bootstrap 127.0.0.1:4000",
        receive,
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


class ProgressBar:
    """Redraws one line on a terminal while it is entered; elsewhere it prints nothing."""

    def __init__(self, files: FileSharing, show: Callable[[Transfer, float], str]) -> None:
        self._files = files
        self._show = show
        self._out: TextIO = sys.stderr
        self._before: dict[int, tuple[float, int]] = {}
        self._shown = 0

    async def __aenter__(self) -> Self:
        self._drawing = asyncio.create_task(self._run())
        return self

    async def __aexit__(self, *_: object) -> None:
        self._drawing.cancel()
        self.clear()

    async def _run(self) -> None:
        loop = asyncio.get_running_loop()
        while self._out.isatty():
            moving = [one for one in self._files.transfers if one.path is None]
            if moving:
                self._draw(self._show(moving[-1], self._rate(moving[-1], loop.time())))
            await asyncio.sleep(_SECONDS)

    def clear(self) -> None:
        """Make room for a line that stays."""
        if self._shown:
            self._draw("")
            self._out.write("\r")
            self._out.flush()

    def _rate(self, transfer: Transfer, now: float) -> float:
        """Bytes a second, here and given away together, since the last drawing."""
        moved = transfer.done + transfer.given
        then, before = self._before.get(id(transfer), (now - _SECONDS, moved))
        self._before[id(transfer)] = (now, moved)
        return max(0.0, (moved - before) / max(now - then, 1e-3))

    def _draw(self, line: str) -> None:
        self._out.write("\r" + line + " " * max(0, self._shown - len(line)))
        self._out.flush()
        self._shown = len(line)


def receiving(transfer: Transfer, rate: float) -> str:
    share = transfer.done / transfer.size if transfer.size else 1.0
    bar = "#" * int(share * _WIDTH)
    left = (transfer.size - transfer.done) / rate if rate else 0.0
    return (
        f"{transfer.name[:30]:<30} [{bar:<{_WIDTH}}] {share:6.1%} of {megabytes(transfer.size)}"
        f"  {megabytes(int(rate))}/s  {left:4.0f} s left"
    )


def sending(transfer: Transfer, rate: float) -> str:
    if transfer.exchange is None:
        share = transfer.archived / transfer.size if transfer.size else 1.0
        return f"{transfer.name[:30]:<30} {share:6.1%} of {megabytes(transfer.size)} safe"
    return (
        f"{transfer.name[:30]:<30} {megabytes(transfer.given)} sent at {megabytes(int(rate))}/s,"
        f" {transfer.waiting_peers} receiving, {transfer.finished_peers} done"
    )


def megabytes(size: int) -> str:
    return f"{size / 1e6:,.1f} MB" if size >= 1e5 else f"{size:,} B"
