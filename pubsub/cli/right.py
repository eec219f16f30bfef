"""`camcast right`: who may do what on which topics, said by the authority of a network; and `camcast key`:
network keys."""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

from overlay.identity import Identity
from overlay.session import new_key
from pubsub.cli.options import add_node_options, make_node, new_command, with_file
from pubsub.cli.terminal import run
from pubsub.rights import (
    FOREVER,
    Action,
    Authority,
    Grant,
    Right,
    RightError,
    describe,
    grant_first,
    grant_on,
    revoke,
)

NEW = "camcast right new --identity authority.pem --holder KEY --allow publish --on '/soccer/**'"


def add_right(commands: Any) -> None:
    parser = new_command(commands, "right", NEW)
    inner = parser.add_subparsers(dest="right_command", metavar="COMMAND", required=True)
    key = _inner(inner, "key", "print the public key of an identity", print_key)
    _identity(key, "the identity; made if missing")
    new = _inner(inner, "new", "grant a right as the authority", print_new)
    _identity(new, "the authority's identity; made if missing")
    _grant_options(new)
    delegate = _inner(inner, "delegate", "grant a part of an own right to another", print_delegated)
    delegate.add_argument("right", metavar="RIGHT", help="the right, as it was printed")
    _identity(delegate, "the identity of the right's holder")
    _grant_options(delegate)
    show = _inner(inner, "show", "say what a right allows, and whether it is valid", show_right)
    show.add_argument("right", metavar="RIGHT", help="the right, as it was printed")
    show.add_argument("--authority", metavar="KEY", action="append", help="check it by this key")
    back = _inner(inner, "revoke", "take a right back, and all that was granted on from it", None)
    back.add_argument("right", metavar="RIGHT", help="the right, as it was printed")
    back.add_argument(
        "--signer", metavar="FILE", required=True, help="identity of the authority, or of a granter"
    )
    back.set_defaults(given=frozenset(), options=[])
    add_node_options(back)
    back.set_defaults(action=lambda arguments: run(publish_revocation(with_file(arguments))))


def _inner(
    commands: Any, name: str, about: str, action: Callable[[argparse.Namespace], int] | None
) -> argparse.ArgumentParser:
    parser: argparse.ArgumentParser = commands.add_parser(name, help=about, description=about)
    if action is not None:
        parser.set_defaults(action=action)
    return parser


def _identity(parser: argparse.ArgumentParser, about: str) -> None:
    parser.add_argument("--identity", metavar="FILE", required=True, help=about)


def _grant_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--holder", metavar="KEY", required=True, help="public key of who may")
    parser.add_argument(
        "--allow",
        metavar="WHAT",
        action="append",
        required=True,
        help="publish, subscribe, archive, distribute, replay; several with commas, or repeated",
    )
    parser.add_argument(
        "--on", metavar="PATTERN", action="append", required=True, help="topics, as in '/soccer/**'"
    )
    parser.add_argument("--until", metavar="DATE", help="as in 2030-12-31 or 2030-12-31T18:00")
    parser.add_argument(
        "--passes", metavar="N", type=int, default=0, help="how often it may be granted on (0)"
    )


def print_key(arguments: argparse.Namespace) -> int:
    print(Identity.load_or_create(arguments.identity).public_key.hex())
    return 0


def print_new(arguments: argparse.Namespace) -> int:
    authority = Identity.load_or_create(arguments.identity)
    print(grant_first(authority, _grant(arguments, FOREVER)).packed.hex())
    return 0


def print_delegated(arguments: argparse.Namespace) -> int:
    right = _right(arguments.right)
    holder = Identity.load(arguments.identity)
    print(grant_on(right, holder, _grant(arguments, right.last.until)).packed.hex())
    return 0


def show_right(arguments: argparse.Namespace) -> int:
    right = _right(arguments.right)
    for grant in right.grants:
        print(f"{grant.holder.hex()} may {describe(grant).removeprefix('to ')}")
    if arguments.authority:
        Authority(list(map(_bytes, arguments.authority)), time.time).check(right.packed)
        print("valid")
    return 0


async def publish_revocation(arguments: argparse.Namespace) -> int:
    """Join the network, and have its members know; at once, since it ends with this command."""
    right = _right(arguments.right)
    signer = Identity.load(arguments.signer)
    async with make_node(arguments) as node:
        told = await node.revoke(revoke(right, signer))
    print(f"{right.name} is taken back, {told} nodes were told and tell the others")
    return 0 if told else 1


def _grant(arguments: argparse.Namespace, until: int) -> Grant:
    if len(arguments.on) > 1:
        raise RightError(
            "--on is given twice, and a right is on one pattern: make a right for each"
        )
    return Grant(
        _bytes(arguments.holder),
        Action.of(",".join(arguments.allow).split(",")),
        arguments.on[0],
        until if arguments.until is None else _time(arguments.until),
        arguments.passes,
    )


def _right(text: str) -> Right:
    return Right.unpack(_bytes(text))


def _bytes(text: str) -> bytes:
    try:
        return bytes.fromhex(text.strip())
    except ValueError:
        raise RightError(
            f"{text[:20]!r} is not hexadecimal digits: copy a key from `camcast right key`, or a right from "
            "`camcast right new`"
        ) from None


def _time(text: str) -> int:
    try:
        when = datetime.fromisoformat(text)
    except ValueError:
        raise RightError(f"{text!r} is not a date: write it as in 2030-12-31") from None
    until = (when if when.tzinfo else when.replace(tzinfo=UTC)).timestamp()
    if until <= time.time():
        raise RightError(f"{text} is over: name a date to come")
    return int(until)


def add_key(commands: Any) -> None:
    parser = new_command(commands, "key", "camcast key new > network.key")
    inner = parser.add_subparsers(dest="key_command", metavar="COMMAND", required=True)
    about = "print a new network key"
    example = "example: camcast key new > network.key"
    new = inner.add_parser("new", help=about, description=about, epilog=example)
    new.set_defaults(action=lambda arguments: print_new_key())


def print_new_key() -> int:
    print(new_key().hex())
    return 0
