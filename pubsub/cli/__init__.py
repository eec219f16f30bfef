"""The commands of `camcast` that run, use and show a node; the benchmark has its own."""

from __future__ import annotations

from typing import Any

from pubsub.cli import (
    archive,
    demo,
    distributor,
    group,
    hand_over,
    key,
    node,
    publish,
    receive,
    send,
    status,
    subscribe,
)


def add_commands(commands: Any) -> None:
    """Add each command to argparse's sub-commands; each sets `action`, which returns an exit code."""
    for command in (
        node,
        archive,
        hand_over,
        distributor,
        publish,
        subscribe,
        send,
        receive,
        status,
        group,
        demo,
        key,
    ):
        command.add_command(commands)
