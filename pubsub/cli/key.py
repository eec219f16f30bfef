"""`camcast key`: network keys."""

from __future__ import annotations

from typing import Any

from overlay.session import new_key
from pubsub.cli.options import add_command as add


def add_command(commands: Any) -> None:
    parser = add(commands, "key", "camcast key new > network.key")
    inner = parser.add_subparsers(dest="key_command", metavar="COMMAND", required=True)
    about = "print a new network key"
    example = "example: camcast key new > network.key"
    new = inner.add_parser("new", help=about, description=about, epilog=example)
    new.set_defaults(action=lambda arguments: print_new_key())


def print_new_key() -> int:
    print(new_key().hex())
    return 0
