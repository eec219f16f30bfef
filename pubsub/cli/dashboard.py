"""`camcast dashboard`: a page that shows the network, served by a node of it; and `camcast top`: the same in
the terminal, as its nodes tell it."""

from __future__ import annotations

import argparse
import asyncio
import shutil
import sys
from typing import Any

from pubsub.cli.doors import read_tokens
from pubsub.cli.options import (
    add_flag,
    add_metrics_option,
    add_node_options,
    add_option,
    address_of,
    new_command,
    positive,
    running_node,
)
from pubsub.cli.terminal import say
from pubsub.reports import census_of, picture
from pubsub.text import json_line, visible

CLEAR = "\x1b[H\x1b[2J"
REFRESH_SECONDS = 2.0


def add_dashboard(commands: Any) -> None:
    parser = new_command(
        commands,
        "dashboard",
        "camcast dashboard --bootstrap 127.0.0.1:4000 --http 127.0.0.1:8080",
        serve_page,
    )
    add_node_options(parser, only_options=True)
    add_option(
        parser,
        "--http",
        metavar="HOST:PORT",
        default="127.0.0.1:8080",
        help="where the page is served; default: 127.0.0.1:8080",
    )
    add_option(
        parser, "--http-token-file", metavar="FILE", help="tokens, one a line: the page needs one"
    )
    add_flag(parser, "--json", help="print JSON lines")
    add_metrics_option(parser)


async def serve_page(arguments: argparse.Namespace) -> int:
    from pubsub.doors.dashboard import Dashboard

    address_of(arguments, "http")
    tokens = read_tokens(arguments, "http_token_file")
    async with (
        running_node(arguments) as node,
        Dashboard(node, arguments.http, tokens=tokens) as page,
    ):
        url = f"http://{page.address}/{'?token=...' if tokens else ''}"
        say(arguments, f"dashboard on {url}", dashboard=url)
        await asyncio.Event().wait()
    return 0


def add_top(commands: Any) -> None:
    parser = new_command(commands, "top", "camcast top --bootstrap 127.0.0.1:4000", draw)
    add_node_options(parser, only_options=True)
    add_flag(parser, "--json", help="print JSON lines")
    add_metrics_option(parser)
    add_option(parser, "--count", type=positive, metavar="N", help="end after N pictures")


async def draw(arguments: argparse.Namespace) -> int:
    left = arguments.count
    async with running_node(arguments) as node:
        with census_of(node) as census:
            while left is None or left > 0:
                await asyncio.sleep(REFRESH_SECONDS)
                shown = picture(node, census)
                print(json_line(shown) if arguments.json else _page(shown), flush=True)
                left = None if left is None else left - 1
    return 0


def _page(shown: dict[str, Any]) -> str:
    columns, rows = shutil.get_terminal_size((100, 40))
    text = "\n".join(visible(line)[:columns] for line in lines_of(shown)[: rows - 1])
    return CLEAR + text if sys.stdout.isatty() else text


def lines_of(shown: dict[str, Any]) -> list[str]:
    """The picture as lines of text."""
    nodes, communities = shown["nodes"], shown["communities"]
    lines = [f"{len(nodes)} nodes, {len(communities)} communities; this one is {shown['me']}"]
    lines += [f"! {alert}" for alert in shown["alerts"][:5]]
    lines += ["", f"{'community':<32}{'members':>8}{'publishers':>11}{'events/s':>10}"]
    for name, community in communities.items():
        publishing = sum(one["publishing"] for one in community["members"])
        members, rate = len(community["members"]), community["rate"]
        lines.append(f"{_cut(name, 31):<32}{members:>8}{publishing:>11}{rate:>10.1f}")
    lines += ["", f"{'node':<32}{'delivered/s':>12}{'sent/s':>9}{'dropped':>9}  serves"]
    for one in nodes:
        serves = [
            f"archive of {topic}" + (f", {kept['behind']} behind" if kept["behind"] else "")
            for topic, kept in one["archive"].items()
        ]
        serves += one["services"]
        if one["mqtt_clients"]:
            serves.append(f"MQTT clients: {one['mqtt_clients']}")
        lines.append(
            f"{_cut(one['node'], 31):<32}{one['delivered']:>12.1f}{one['sent']:>9.1f}"
            f"{one['dropped']:>9}  {'; '.join(serves)}"
        )
    if shown["dropped"]:
        reasons = sorted(shown["dropped"].items(), key=lambda one: -one[1])
        lines += ["", "dropped: " + ", ".join(f"{reason} {count}" for reason, count in reasons)]
    return lines


def _cut(text: str, width: int) -> str:
    return text if len(text) <= width else text[: width - 1] + "…"
