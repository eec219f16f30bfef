"""`camcast status`: what a running node says of itself."""

from __future__ import annotations

import argparse
import json
import sys
import urllib.error
import urllib.request
from typing import Any

from overlay.contact import Address
from pubsub.cli.options import add_command as add


def add_command(commands: Any) -> None:
    parser = add(
        commands,
        "status",
        "show the communities, tables and counters of a running node",
        "camcast status 127.0.0.1:9100",
    )
    parser.add_argument("address", metavar="HOST:PORT", help="what the node was given as --metrics")
    parser.add_argument("--json", action="store_true", help="print everything as one JSON object")
    parser.set_defaults(action=show_status)


def show_status(arguments: argparse.Namespace) -> int:
    address = Address.parse(arguments.address)
    try:
        with urllib.request.urlopen(f"http://{address}/status", timeout=5) as answer:
            status = json.load(answer)
    except (urllib.error.URLError, OSError, ValueError) as error:
        reason = getattr(error, "reason", error)
        print(f"no node answers at {address}: {reason}", file=sys.stderr)
        return 1
    print(json.dumps(status, ensure_ascii=False) if arguments.json else _plain(status))
    return 0


def _plain(status: dict[str, Any]) -> str:
    lines = [f"node {status['id'][:8]} on {status['address']}, mode {status['mode']}"]
    for name, community in sorted(status["communities"].items()):
        lines.append(
            f"{name}  about {community['size']:.0f} members, {len(community['table'])} known,"
            f" {community['subscriptions']} subscriptions"
        )
        for super_topic, entries in sorted(community["super_tables"].items()):
            lines.append(f"  linked to {super_topic} by {len(entries)} processes")
    for name, value in sorted(status["counters"].items()):
        if isinstance(value, dict):
            lines += [f"{name}[{label}]  {count}" for label, count in sorted(value.items())]
        elif value:
            lines.append(f"{name}  {value:g}")
    return "\n".join(lines)
