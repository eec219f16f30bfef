"""`camcast status`: what a running node or distributor says of itself."""

from __future__ import annotations

import argparse
import json
import urllib.request
from http.client import HTTPException
from typing import Any

from overlay.contact import Address
from overlay.errors import NetworkError, why
from pubsub.cli.options import new_command
from pubsub.text import visible


def add_status(commands: Any) -> None:
    parser = new_command(commands, "status", "camcast status 127.0.0.1:9100")
    parser.add_argument("address", metavar="HOST:PORT", help="what the node was given as --metrics")
    parser.add_argument("--json", action="store_true", help="print everything as one JSON object")
    parser.set_defaults(action=show_status)


def show_status(arguments: argparse.Namespace) -> int:
    address = Address.parse(arguments.address)
    status = _ask(address)
    try:
        text = _plain(status)
    except (AttributeError, KeyError, TypeError, ValueError):
        raise NetworkError(f"what answers at {address} is not a node: it has no status") from None
    print(json.dumps(status) if arguments.json else text)
    return 0


def _ask(address: Address) -> Any:
    """What is said at `/status`, which may be anything; `NetworkError` when it is not even JSON."""
    try:
        with urllib.request.urlopen(f"http://{address}/status", timeout=5) as answer:
            return json.load(answer)
    except (OSError, HTTPException, ValueError, RecursionError) as error:
        # The text may come from something that is not a node.
        cause = getattr(error, "reason", error)
        reason = visible(why(cause) if isinstance(cause, Exception) else str(cause).strip())
        raise NetworkError(
            f"no node answers at {address} ({reason}): give the address that the node was told as --metrics"
        ) from None


def _plain(status: dict[str, Any]) -> str:
    lines = _of_distributor(status) if "services" in status else _of_node(status)
    for name, value in sorted(status["counters"].items()):
        if isinstance(value, dict):
            lines += [f"{name}[{label}]  {count}" for label, count in sorted(value.items())]
        elif value:
            lines.append(f"{name}  {value:g}")
    return "\n".join(map(visible, lines))


def _of_distributor(status: dict[str, Any]) -> list[str]:
    lines = [f"distributor {status['id'][:8]} on {status['address']}, group {status['group']}"]
    others = ", ".join(status["distributors"])
    lines.append("no view" if status["view"] is None else f"view {status['view']}: {others}")
    lines += _of_protection(status)
    for name, service in sorted(status["services"].items()):
        lines.append(
            f"{name}  {service['subscribers']} subscribers, {service['held_bytes']} bytes held"
        )
    return lines


def _of_protection(status: dict[str, Any]) -> list[str]:
    """Keys, sessions and rights."""
    protection, rights = status["protection"], status["rights"]
    lines = [f"this node's key is {protection['public_key']}"]
    if protection["sealed"]:
        lines.append(f"sealed, sessions with {len(protection['sessions'])} peers")
        lines += [f"  {peer}" for peer in protection["sessions"]]
    else:
        lines += [f"not sealed, lacks {what}" for what in protection["lacks"]]
    return lines if rights is None else lines + _of_rights(rights)


def _of_rights(rights: dict[str, Any]) -> list[str]:
    lines = [f"authority {key}" for key in rights["authority"]]
    lines += [f"  right {text}" for text in rights["own"]] or ["  no rights"]
    for peer, shown in sorted(rights["shown"].items()):
        lines += [f"{peer[:8]} has shown right {text}" for text in shown]
    lines += [f"right {name} was taken back" for name in rights["revoked"]]
    return lines


def _of_node(status: dict[str, Any]) -> list[str]:
    lines = [f"node {status['id'][:8]} on {status['address']}, mode {status['mode']}"]
    lines += _of_protection(status)
    for name, community in sorted(status["communities"].items()):
        lines.append(
            f"{name}  about {community['size']:.0f} members, {len(community['table'])} known,"
            f" {community['subscriptions']} subscriptions"
        )
        for super_topic, entries in sorted(community["super_tables"].items()):
            lines.append(f"  linked to {super_topic} by {len(entries)} processes")
    return lines
