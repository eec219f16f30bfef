"""Options that would do nothing beside what else a command was told: it refuses them, in one sentence.

That goes for the command line and for a command's own options in the file of --config. What such a file says
of the node itself may be there for other commands, and is passed over where it means nothing; but not that
events are signed.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable

from overlay.errors import UsageError
from pubsub.cli.options import NODE_OPTIONS

_OF_EVENTS = ("durable", "copies", "deadline", "since", "delivery", "where", "order")
_OF_PEERS = ("mode", "gateway", "links", "trace", "signatures")


def check_via(arguments: argparse.Namespace) -> None:
    """`UsageError` for an option that the way to the subscribers, `--via`, knows nothing of."""
    if arguments.via != "distributors":
        refuse(arguments, ("no_gap", "distributors", "group"), "goes with --via distributors")
        return
    why = "goes with --via overlay: distributors do not offer it"
    refuse(arguments, (*_OF_EVENTS, *_OF_PEERS), why)
    if arguments.distributors:
        why = "does not go with --distributors, which says where they are"
        refuse(arguments, ("bootstrap", "group"), why)


def check_durable(arguments: argparse.Namespace) -> None:
    """`UsageError` for an option that does nothing with an archive, or nothing without one."""
    if arguments.durable is None or arguments.durable is False:
        refuse(arguments, ("copies", "deadline"), "goes with --durable")
        refuse(arguments, ("since", "delivery", "where"), "goes with --durable NAME")
        return
    refuse(arguments, ("order",), "does not go with --durable: see --delivery")
    refuse(arguments, ("receivers",), "does not go with --durable: it ends when an archive has it")


def refuse(arguments: argparse.Namespace, names: Iterable[str], why: str) -> None:
    """`UsageError` for the first of these options that was given."""
    given = set(arguments.given)
    given |= {name for name in NODE_OPTIONS if getattr(arguments, name, None) is not None}
    given |= {"signatures"} if arguments.settings.get("signatures") is True else set()
    for name in names:
        if name in given:
            raise UsageError(f"--{name.replace('_', '-')} {why}")
