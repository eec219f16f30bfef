"""`camcast bench fanout`."""

from __future__ import annotations

import argparse
import os
from typing import Any


def add_command(commands: Any) -> None:
    parser: argparse.ArgumentParser = commands.add_parser(
        "fanout",
        help="one publisher, many subscriber processes: events/s, latency, cost",
        description=(
            "One publisher and S subscriber processes on loopback, 256-byte events; nodes of this project "
            "and plain asyncio-dgram in the same run."
        ),
        epilog="example: camcast bench fanout --subscribers 4 16 --events 50000 --profile",
    )
    parser.add_argument("--subscribers", type=int, nargs="+", default=[4, 16], metavar="S")
    parser.add_argument("--events", type=int, default=50_000, help="published at full speed")
    parser.add_argument("--rate", type=float, default=500.0, help="events/s for the latency")
    parser.add_argument(
        "--mode",
        choices=("unstructured", "semi-structured", "structured"),
        default="structured",
    )
    parser.add_argument(
        "--dissemination",
        choices=("lazy", "eager"),
        nargs="+",
        default=["lazy"],
        help="how events spread; both for a comparison",
    )
    parser.add_argument(
        "--profile", action="store_true", help="a further run that shows where the time goes"
    )
    parser.add_argument("--json", action="store_true", help="print JSON lines")
    parser.set_defaults(action=run)


def run(arguments: argparse.Namespace) -> int:
    """Print a row for each system and number of subscribers; 1 when an event was lost."""
    from bench.fanout.result import HEADER
    from bench.fanout.run import run_fanout
    from bench.fanout.way import PLAIN, Way

    if not arguments.json:
        print(f"{os.cpu_count()} processors, load {os.getloadavg()[0]:.1f} before the run")
        print(HEADER, flush=True)
    ways = [Way(PLAIN)]
    ways += [Way.of_nodes(arguments.mode, kind) for kind in arguments.dissemination]
    lost = False
    for subscribers in arguments.subscribers:
        for way in ways:
            result = run_fanout(
                way, subscribers, arguments.events, arguments.rate, arguments.profile
            )
            print(result.as_json() if arguments.json else result.row(), flush=True)
            if arguments.profile and not arguments.json and not way.is_plain:
                print(result.where_time_goes(), flush=True)
            lost = lost or (not way.is_plain and result.delivered_part < 1)
    return 1 if lost else 0
