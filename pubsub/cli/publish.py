"""`camcast publish`: publish one event, or one for each line of the standard input."""

from __future__ import annotations

import argparse
import json
import sys
from typing import Any

from overlay.errors import UsageError
from overlay.topic_name import check_topic_name
from pubsub.cli.durable import add_archiving_options
from pubsub.cli.options import (
    add_flag,
    add_node_options,
    check_durable,
    check_via,
    make_node,
    new_command,
)
from pubsub.cli.terminal import input_lines, told_if_long
from pubsub.cli.via_distributors import add_distributor_options, publish_messages
from pubsub.node import Node
from pubsub.publishing import Receipt
from pubsub.reliable.receipts import Wait


def add_publish(commands: Any) -> None:
    parser = new_command(
        commands,
        "publish",
        """camcast publish /soccer/italy '{"score": "1-0"}' --bootstrap 127.0.0.1:4000""",
        publish,
    )
    parser.add_argument("topic", help="a topic; a service with --via distributors")
    parser.add_argument(
        "data", nargs="?", default="-", help="JSON, or else text; - reads lines (default: -)"
    )
    add_node_options(parser)
    add_flag(parser, "--json", help="print receipts as JSON lines")
    add_flag(parser, "--durable", help="wait until an archive has it on stable storage")
    add_archiving_options(parser)
    add_distributor_options(parser)


async def publish(arguments: argparse.Namespace) -> int:
    check_via(arguments)
    check_durable(arguments)
    if arguments.via == "distributors":
        return await publish_messages(arguments, _data)
    check_topic_name(arguments.topic)
    async with make_node(arguments) as node:
        if arguments.data != "-":
            return await _publish_one(node, arguments, arguments.data)
        code = 0
        async for line in input_lines():
            code = max(code, await _publish_one(node, arguments, line))
        return code


async def _publish_one(node: Node, arguments: argparse.Namespace, text: str) -> int:
    if arguments.durable:
        return await _publish_durably(node, arguments, text)
    wait: Wait = "sent" if node.config.links == "datagram" else "acked"
    receipt = await node.publish(arguments.topic, _data(text), wait=wait)
    print(_json(receipt) if arguments.json else _plain(receipt), flush=True)
    if not receipt.copies:
        print(f"nobody else is in {receipt.topic} or a super-topic", file=sys.stderr)
    return 0 if receipt.sent else 1


async def _publish_durably(node: Node, arguments: argparse.Namespace, text: str) -> int:
    with told_if_long(f"waiting for an archive of {arguments.topic}"):
        receipt = await node.publish(
            arguments.topic,
            _data(text),
            durable=True,
            copies=arguments.copies,
            deadline=arguments.deadline,
        )
    assert receipt.durable is not None
    number, managed = receipt.durable.catenation, receipt.durable.topic
    safe = f"{receipt.topic}  event {receipt.id.hex()}  safe as number {number} of {managed}"
    print(_json(receipt) if arguments.json else safe, flush=True)
    return 0


def _data(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text
    except RecursionError:
        raise UsageError("the data cannot be published: it is nested too deeply") from None


def _plain(receipt: Receipt) -> str:
    return (
        f"{receipt.topic}  event {receipt.id.hex()}  sent to {receipt.sent} of {receipt.copies}, "
        f"acknowledged by {receipt.acknowledged}"
    )


def _json(receipt: Receipt) -> str:
    return json.dumps(
        {
            "topic": receipt.topic,
            "id": receipt.id.hex(),
            "sequence": receipt.sequence,
            "joined": receipt.joined,
            "targets": receipt.targets,
            "upward": receipt.upward,
            "sent": receipt.sent,
            "acknowledged": receipt.acknowledged,
            "failed": receipt.failed,
            "catenation": receipt.durable and receipt.durable.catenation,
        }
    )
