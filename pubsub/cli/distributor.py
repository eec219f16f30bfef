"""`camcast distributor`: run a distributor until it is stopped."""

from __future__ import annotations

import argparse
import asyncio
from collections.abc import Sequence
from contextlib import AsyncExitStack
from typing import Any

from overlay.errors import UsageError
from pubsub.archive.store import Retention
from pubsub.archive.store.opening import open_store
from pubsub.cli.doors import add_door_options, check_doors, serve_doors
from pubsub.cli.options import (
    add_flag,
    add_list,
    add_metrics_option,
    add_node_options,
    add_option,
    metrics_address,
    new_command,
    node_config,
    positive,
    refuse,
    serve_status,
)
from pubsub.cli.terminal import say
from pubsub.distributors import ArchiveHistory, Distributor, DistributorConfig
from pubsub.distributors.protocol.view import View


def add_distributor(commands: Any) -> None:
    parser = new_command(
        commands,
        "distributor",
        "camcast distributor --listen 127.0.0.1:4000 --service ticker --topic football=/soccer",
        serve,
    )
    add_node_options(parser, only_options=True)
    add_list(parser, "--service", metavar="NAME", help="services to have from the start")
    add_list(
        parser,
        "--topic",
        metavar="NAME=TOPIC",
        help="services whose messages are the events of a topic",
    )
    add_option(parser, "--group", default="main", help="the distributors to work with")
    add_option(
        parser, "--upstream", metavar="GROUP", help="take the services' messages from another group"
    )
    add_list(
        parser,
        "--downstream",
        metavar="GROUP",
        help="groups whose distributors may bring what is published there",
    )
    add_flag(parser, "--json", help="print JSON lines")
    add_metrics_option(parser)
    _add_memory_options(parser)
    add_door_options(parser)


def _add_memory_options(parser: argparse.ArgumentParser) -> None:
    add_option(
        parser,
        "--buffer",
        metavar="MIB",
        type=positive,
        default=64,
        help="memory for each service's messages",
    )
    add_option(
        parser,
        "--archive",
        metavar="STORE",
        help="keep messages for subscribers without gaps: sqlite:///FILE or file:///DIRECTORY",
    )
    add_option(
        parser,
        "--archive-size",
        metavar="MIB",
        type=positive,
        default=1024,
        help="of each service there",
    )


async def serve(arguments: argparse.Namespace) -> int:
    if arguments.archive is None:
        refuse(arguments, ("archive_size",), "goes with --archive")
    check_doors(arguments)
    node = node_config(arguments)
    metrics = metrics_address(arguments)
    buffer = arguments.buffer * 1024 * 1024
    async with AsyncExitStack() as stack:
        history = None
        if arguments.archive is not None:
            retention = Retention(max_bytes=arguments.archive_size * 1024 * 1024)
            history = ArchiveHistory(open_store(arguments.archive), retention)
            await stack.enter_async_context(history)
        distributor = Distributor(
            arguments.service,
            group=arguments.group,
            topics=read_topics(arguments.topic),
            upstream=arguments.upstream,
            downstream=arguments.downstream,
            history=history,
            config=DistributorConfig(buffer_bytes=buffer, recent_bytes=min(buffer, 1024 * 1024)),
            **{name: getattr(node, name) for name in node.__dataclass_fields__},
        )
        await stack.enter_async_context(distributor)
        text = f"distributor on {distributor.address}, group {arguments.group}"
        say(arguments, text, listening=str(distributor.address), group=arguments.group)
        await serve_status(arguments, distributor, metrics, stack)
        await serve_doors(arguments, distributor.node, stack)
        await distributor.ready()
        say(arguments, "ready", ready=True)
        views = asyncio.ensure_future(_say_views(arguments, distributor))
        waiting = [views] if history is None else [views, asyncio.ensure_future(history.failed())]
        try:
            done, _ = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
            done.pop().result()  # raises what ended it
        finally:
            for task in waiting:
                task.cancel()
    return 1


async def _say_views(arguments: argparse.Namespace, distributor: Distributor) -> None:
    while True:
        _say_view(arguments, distributor.view)
        await distributor.next_view()


def _say_view(arguments: argparse.Namespace, view: View | None) -> None:
    number = None if view is None else view.number
    members = [] if view is None else [str(member.contact) for member in view.members]
    text = "no view" if view is None else f"view {number}: {', '.join(members)}"
    say(arguments, text, view=number, distributors=members)


def read_topics(pairs: Sequence[str]) -> dict[str, str]:
    """`football=/soccer` as a service and its topic."""
    topics = {}
    for pair in pairs:
        service, equals, topic = pair.partition("=")
        if not equals or not service or not topic:
            raise UsageError(f"--topic {pair}: write NAME=TOPIC, as in football=/soccer")
        topics[service] = topic
    return topics
