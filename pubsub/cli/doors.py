"""Options of a node that opens doors: for MQTT clients, and for HTTP."""

from __future__ import annotations

import argparse
from contextlib import AsyncExitStack
from importlib import import_module
from pathlib import Path

from overlay.contact import Address
from overlay.errors import UsageError, why
from pubsub.cli.options import (
    add_flag,
    add_list,
    add_option,
    add_tls_option,
    address_of,
    refuse,
)
from pubsub.cli.terminal import say
from pubsub.doors.serving import certificate
from pubsub.node import Node
from pubsub.topic import Topic

_OF_MQTT = ("mqtt_durable", "mqtt_retain", "mqtt_sessions")
_OF_HTTP = ("http_token_file",)


def add_door_options(parser: argparse.ArgumentParser) -> None:
    add_option(parser, "--mqtt", metavar="HOST:PORT", help="serve MQTT clients over TCP")
    add_option(parser, "--websocket", metavar="HOST:PORT", help="serve MQTT clients over WebSocket")
    add_tls_option(parser, "MQTT, WebSocket and HTTP")
    add_list(
        parser,
        "--origin",
        metavar="ORIGIN",
        help="web pages that may use WebSocket and HTTP, such as https://example.org, or '*'",
    )
    add_list(
        parser,
        "--mqtt-durable",
        metavar="TOPIC",
        help="topics whose messages of QoS 1 and 2 are acknowledged when an archive has them",
    )
    add_list(
        parser,
        "--mqtt-retain",
        metavar="TOPIC",
        help="topics whose retained messages are kept though no client is subscribed",
    )
    add_flag(
        parser,
        "--mqtt-sessions",
        help="keep sessions at the archive of /mqtt-sessions, so that clients go on at another door",
    )
    _add_http_options(parser)


def _add_http_options(parser: argparse.ArgumentParser) -> None:
    add_option(
        parser,
        "--http",
        metavar="HOST:PORT",
        help="serve HTTP: POST publishes, GET follows a topic as Server-Sent Events or by WebSocket",
    )
    add_option(
        parser, "--http-token-file", metavar="FILE", help="tokens, one a line: clients need one"
    )


def check_doors(arguments: argparse.Namespace) -> None:
    """Refuse options of a door where there is no door, and what keeps a door from opening."""
    is_mqtt = arguments.mqtt is not None or arguments.websocket is not None
    if not is_mqtt:
        refuse(arguments, _OF_MQTT, "goes with --mqtt or --websocket")
    if arguments.http is None:
        refuse(arguments, _OF_HTTP, "goes with --http")
        if arguments.websocket is None:
            refuse(arguments, ("origin",), "goes with --websocket or --http")
        if not is_mqtt:
            refuse(arguments, ("tls",), "goes with --mqtt, --websocket or --http")
    if arguments.websocket is not None or arguments.http is not None:
        import_module("aiohttp")  # whoever lacks it is told the extra
    for name in ("mqtt", "websocket", "http"):
        address_of(arguments, name)
    for topic in (*arguments.mqtt_durable, *arguments.mqtt_retain):
        Topic.of(topic)
    if arguments.tls:
        certificate(*arguments.tls)
    read_tokens(arguments, "http_token_file")


async def serve_doors(arguments: argparse.Namespace, node: Node, stack: AsyncExitStack) -> None:
    """Open the doors that are asked for until the stack ends, and say where they are."""
    tls = tuple(arguments.tls) or None
    if arguments.mqtt is not None or arguments.websocket is not None:
        from pubsub.doors.mqtt import MqttDoor

        mqtt = MqttDoor(
            node,
            arguments.mqtt,
            websocket=arguments.websocket,
            tls=tls,
            durable=arguments.mqtt_durable,
            retain=arguments.mqtt_retain,
            sessions=arguments.mqtt_sessions,
            origins=arguments.origin,
        )
        await stack.enter_async_context(mqtt)
        _say(arguments, "mqtt", mqtt.address)
        _say(arguments, "mqtt_websocket", mqtt.websocket_address)
    if arguments.http is not None:
        from pubsub.doors.http import HttpDoor

        tokens = read_tokens(arguments, "http_token_file")
        origins = arguments.origin
        http = HttpDoor(node, arguments.http, tls=tls, tokens=tokens, origins=origins)
        await stack.enter_async_context(http)
        _say(arguments, "http", http.address)


def _say(arguments: argparse.Namespace, name: str, address: Address | None) -> None:
    if address is not None:
        say(arguments, f"{name.replace('_', ' over ')} on {address}", **{name: str(address)})


def read_tokens(arguments: argparse.Namespace, name: str) -> list[str]:
    """The tokens in the file that this option names; none without it."""
    path, option = getattr(arguments, name), f"--{name.replace('_', '-')}"
    if path is None:
        return []
    try:
        tokens = Path(path).read_text().split()
    except UnicodeDecodeError:
        raise UsageError(f"{option} {path} holds no token: it is not text") from None
    except OSError as error:
        raise UsageError(f"{option} {path} cannot be read: {why(error)}") from None
    if not tokens:
        raise UsageError(f"{option} {path} holds no token: write one a line")
    return tokens
