"""Options of commands that publish and subscribe durably, and what they print."""

from __future__ import annotations

import argparse
from datetime import datetime
from typing import TYPE_CHECKING, Any, Literal

from overlay.errors import UsageError
from pubsub.archive.protocol.config import DEADLINE
from pubsub.cli.options import add_option, positive
from pubsub.event import Event
from pubsub.node import Node

if TYPE_CHECKING:  # a command that is not durable is ready sooner without them
    from pubsub.archive.durable_subscription import Begin, DurableSubscription

LONGEST_NUMBER = 18
"""Digits of a sequence number, which has 64 bits."""


def add_archiving_options(parser: argparse.ArgumentParser) -> None:
    """What may be said of the safety of what is published."""
    add_option(
        parser,
        "--copies",
        type=positive,
        default=1,
        metavar="K",
        help="durable: on K replicas (default: 1)",
    )
    add_option(
        parser,
        "--deadline",
        type=float,
        default=DEADLINE,
        metavar="SECONDS",
        help=f"durable: give up after (default: {DEADLINE:g})",
    )


def add_durable_options(parser: argparse.ArgumentParser) -> None:
    add_option(
        parser,
        "--durable",
        metavar="NAME",
        help="have an archive keep for this name what it misses",
    )
    add_option(
        parser,
        "--since",
        default="now",
        metavar="WHERE",
        help="where a new name begins: now, beginning, a sequence number, or a time such as "
        "2026-01-31T12:00 (default: now)",
    )
    add_option(
        parser,
        "--delivery",
        choices=("ordered", "optimistic"),
        default="ordered",
        help="durable: once and in order, or as soon as possible (default: ordered)",
    )
    add_option(
        parser,
        "--where",
        many=True,
        metavar="CONDITION",
        help="durable: only events for which this holds; repeat it for more, of which one has to hold",
    )


def durable_subscription(node: Node, arguments: argparse.Namespace) -> DurableSubscription:
    return node.subscribe(
        arguments.topic,
        durable=arguments.durable,
        since=begin(arguments.since),
        delivery=arguments.delivery,
        where=arguments.where or None,
    )


def durable_fields(event: Event) -> dict[str, Any]:
    """What a durable subscription says of an event besides the event itself."""
    if type(event) is Event:
        return {}
    from pubsub.archive.durable_event import DurableEvent

    assert isinstance(event, DurableEvent)
    return {
        "archived": event.archived,
        "catenation": event.catenation,
        "redelivered": event.redelivered,
        "missed": event.missed,
    }


def begin(text: str) -> Begin:
    """Where a durable subscription begins, from its text on the command line."""
    named: dict[str, Literal["now", "beginning"]] = {"now": "now", "beginning": "beginning"}
    if text in named:
        return named[text]
    if text.isascii() and text.isdecimal() and len(text) <= LONGEST_NUMBER:
        return int(text)
    try:
        time = datetime.fromisoformat(text)
        time.timestamp()  # the first and the last years have none
        return time
    except (ValueError, OverflowError):
        raise UsageError(
            f"--since {text!r} is neither now nor beginning, nor a sequence number, nor a time such as "
            "2026-01-31T12:00"
        ) from None
