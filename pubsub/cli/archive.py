"""`camcast archive`: keep the events of topics on stable storage, and replay them; and `camcast hand-over`:
have one archive hand a topic to another, while publishers and subscribers go on."""

from __future__ import annotations

import argparse
from contextlib import AsyncExitStack
from importlib.util import find_spec
from typing import Any

from overlay.contact import Address
from overlay.errors import UsageError
from pubsub.archive.archive import Archive
from pubsub.archive.hand_over import WITHIN, request_hand_over
from pubsub.archive.replay_policy import ReplayPolicy
from pubsub.archive.store import Retention
from pubsub.cli.doors import read_tokens
from pubsub.cli.options import (
    add_flag,
    add_list,
    add_metrics_option,
    add_node_options,
    add_option,
    add_tls_option,
    address_of,
    make_node,
    metrics_address,
    new_command,
    refuse,
    serve_status,
)
from pubsub.cli.terminal import say
from pubsub.doors.serving import certificate
from pubsub.topic import Topic


def add_archive(commands: Any) -> None:
    parser = new_command(
        commands,
        "archive",
        "camcast archive --topic /soccer --store sqlite:///events.db --bootstrap 127.0.0.1:4000",
        keep,
    )
    _add_topics(parser)
    _add_store(parser)
    _add_replay(parser)
    add_option(
        parser,
        "--wsrm",
        metavar="HOST:PORT",
        help="serve web services: SOAP over HTTP with WS-ReliableMessaging",
    )
    add_tls_option(parser, "web services")
    add_option(
        parser,
        "--wsrm-token-file",
        metavar="FILE",
        help="tokens, one a line: web services need one",
    )
    add_metrics_option(parser)
    add_flag(parser, "--json", help="print JSON lines")
    add_node_options(parser, only_options=True)


def _add_topics(parser: argparse.ArgumentParser) -> None:
    """What it manages, and who may change that while it runs."""
    add_list(
        parser,
        "--topic",
        metavar="TOPIC",
        help="topics to manage, each with its subtopics, besides those of the store",
    )
    add_list(
        parser,
        "--accept",
        metavar="PATTERN",
        help="topics that other archives may hand to this one, such as '/soccer/**' (default: none)",
    )
    add_list(
        parser,
        "--operator",
        metavar="PEER_ID",
        help="nodes that may have it hand topics over, besides those of this machine",
    )


def _add_store(parser: argparse.ArgumentParser) -> None:
    """Where events are kept, and for how long."""
    add_option(
        parser,
        "--store",
        metavar="URL",
        default="sqlite:///events.db",
        help="sqlite:///FILE, file:///DIRECTORY or postgresql://... (default: sqlite:///events.db)",
    )
    add_option(parser, "--max-age", type=float, metavar="SECONDS", help="forget older events")
    add_option(parser, "--max-count", type=int, metavar="N", help="keep N events a topic")
    add_option(
        parser, "--max-bytes", type=int, metavar="BYTES", help="keep this many bytes a topic"
    )
    add_flag(
        parser,
        "--drop-unseen",
        help="forget even what a durable subscriber has not had; it is told of the gap",
    )


def _add_replay(parser: argparse.ArgumentParser) -> None:
    """Who may begin in the past."""
    add_list(
        parser,
        "--replay",
        metavar="NAME[=SECONDS]",
        help="new durable names, such as 'audit-*', that may begin in the past, or SECONDS back; no others "
        "may then (default: all may)",
    )
    add_flag(parser, "--no-replay", help="no new durable name may begin in the past")


async def keep(arguments: argparse.Namespace) -> int:
    retention = Retention(
        arguments.max_age, arguments.max_count, arguments.max_bytes, arguments.drop_unseen
    )
    replay = _replay(arguments)
    metrics = metrics_address(arguments)
    if arguments.wsrm is None:
        refuse(arguments, ("tls", "wsrm_token_file"), "goes with --wsrm")
    else:
        _check_wsrm(arguments)
    async with AsyncExitStack() as stack:
        node = await stack.enter_async_context(make_node(arguments))
        archive = Archive(
            arguments.topic,
            arguments.store,
            node=node,
            retention=retention,
            accept=arguments.accept,
            replay=replay,
            operators=arguments.operator,
        )
        await stack.enter_async_context(archive)
        if not archive.topics and not arguments.accept:
            raise UsageError(
                "the archive has nothing to manage: name a --topic, or with --accept which topics may be "
                "handed to it, such as --accept '/**'"
            )
        say(arguments, f"listening on {node.address}", listening=str(node.address))
        if arguments.wsrm is not None:
            await _serve_wsrm(arguments, archive, stack)
        await serve_status(arguments, node, metrics, stack)
        await archive.failed()
    return 1


def _check_wsrm(arguments: argparse.Namespace) -> None:
    """Refuse what keeps the door from opening, before the archive runs."""
    missing = [name for name in ("aiohttp", "lxml") if find_spec(name) is None]
    if missing:
        names = " and ".join(missing)
        raise UsageError(f"--wsrm needs {names}: pip install 'camcast[doors,xpath]'")
    address_of(arguments, "wsrm")
    read_tokens(arguments, "wsrm_token_file")
    if arguments.tls:
        certificate(*arguments.tls)


async def _serve_wsrm(
    arguments: argparse.Namespace, archive: Archive, stack: AsyncExitStack
) -> None:
    from pubsub.doors.wsrm import WsrmDoor

    tls = tuple(arguments.tls) or None
    tokens = read_tokens(arguments, "wsrm_token_file")
    wsrm = WsrmDoor(archive, arguments.wsrm, tls=tls, tokens=tokens)
    door = await stack.enter_async_context(wsrm)
    say(arguments, f"wsrm on {door.address}", wsrm=str(door.address))


def _replay(arguments: argparse.Namespace) -> ReplayPolicy | None:
    if arguments.no_replay and arguments.replay:
        raise UsageError("--replay and --no-replay exclude each other: give one of them")
    if arguments.no_replay or arguments.replay:
        return ReplayPolicy.parse(arguments.replay)
    return None


def add_hand_over(commands: Any) -> None:
    parser = new_command(
        commands,
        "hand-over",
        "camcast hand-over /soccer --from 192.0.2.6:4000 --to 192.0.2.7:4000",
        hand_over,
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


async def hand_over(arguments: argparse.Namespace) -> int:
    topic, within = Topic.of(arguments.topic).name, arguments.within
    at, to = Address.parse(vars(arguments)["from"]), Address.parse(arguments.to)
    if not within > 0:
        raise UsageError(f"--within is seconds, more than 0, not {within:g}")
    async with make_node(arguments) as node:
        await request_hand_over(node.attachment.runtime, topic, at, to, within)
        say(arguments, f"{topic} is managed by {to}", topic=topic, archive=str(to))
    return 0
