"""Options that several commands share."""

from __future__ import annotations

import argparse
from typing import Any, get_args

from overlay.membership.modes import ModeName
from pubsub.cli import COMMANDS
from pubsub.config import NodeConfig, Preset
from pubsub.config_file import SETTINGS, config_from, with_assignments
from pubsub.node import Node

NODE_OPTIONS = (
    "listen",
    "advertise",
    "bootstrap",
    "mode",
    "gateway",
    "links",
    "key_file",
    "identity",
    "trace",
    "insecure",
    "signatures",
    "preset",
)
"""Settings of a node that the command line has too."""


def add_command(commands: Any, name: str, example: str) -> argparse.ArgumentParser:
    """A sub-command of `camcast`, whose help ends with an example."""
    about = COMMANDS[name]
    parser: argparse.ArgumentParser = commands.add_parser(
        name, help=about, description=about, epilog=f"example: {example}"
    )
    return parser


def positive(text: str) -> int:
    """The type of an option that is a whole number of 1 or more."""
    if not (text.isascii() and text.isdecimal() and 0 < len(text) <= 18 and int(text) > 0):
        raise argparse.ArgumentTypeError(f"{text!r} is no whole number of 1 or more")
    return int(text)


def add_node_options(parser: argparse.ArgumentParser, *, only_options: bool = False) -> None:
    """What any command that runs a node takes; all of it may stand in the file of --config too.

    A command that takes `only_options` may have several values after one of them; elsewhere these could not
    be told from the command's own words, and the option is repeated.
    """
    several: dict[str, Any] = (
        {"action": "extend", "nargs": "+"} if only_options else {"action": "append"}
    )
    parser.set_defaults(settings={}, node_settings=SETTINGS)
    parser.add_argument(
        "--config", metavar="FILE", help="a TOML file with the same names; what is given here wins"
    )
    parser.add_argument("--listen", metavar="HOST:PORT", help="default: 127.0.0.1:0, any free port")
    parser.add_argument("--advertise", metavar="HOST:PORT", help="what others call this node")
    parser.add_argument(
        "--bootstrap",
        metavar="HOST:PORT",
        **several,
        help="a node of the network to join; repeat it for more",
    )
    parser.add_argument("--mode", choices=get_args(ModeName))
    parser.add_argument(
        "--gateway",
        metavar="TOPIC=HOST:PORT",
        **several,
        help="mode unstructured: a member of the topic that is always there; repeat it for more",
    )
    parser.add_argument("--links", choices=("channel", "datagram"), help="how events travel")
    parser.add_argument("--key-file", metavar="FILE", help="network keys, one a line")
    parser.add_argument("--identity", metavar="FILE", help="this node's key; made if missing")
    parser.add_argument("--trace", metavar="FILE", help="write a trace, .jsonl or .parquet")
    parser.add_argument("--signatures", action="store_true", default=None, help="sign events")
    parser.add_argument(
        "--preset", choices=get_args(Preset), help="times that suit one machine, a LAN or a WAN"
    )
    parser.add_argument(
        "--set",
        metavar="NAME=VALUE",
        action="append",
        default=[],
        dest="assignments",
        help="any other setting of a node or a layer, such as dht.verify_ids=true; repeat it for more",
    )
    parser.add_argument(
        "--insecure", action="store_true", default=None, help="allow a public address without a key"
    )


def node_config(arguments: argparse.Namespace) -> NodeConfig:
    """The configuration file's settings, and over them those of the command line."""
    settings = with_assignments(arguments.settings, arguments.assignments)
    for name in NODE_OPTIONS:
        value = getattr(arguments, name)
        if value is not None:
            settings[name] = value
            if name == "gateway":
                settings.pop("gateways", None)
    return config_from(settings)


def make_node(arguments: argparse.Namespace) -> Node:
    return Node.from_config(node_config(arguments))
