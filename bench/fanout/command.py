"""`camcast bench fanout`."""

from __future__ import annotations

import argparse
from typing import Any


def add_command(commands: Any) -> None:
    parser: argparse.ArgumentParser = commands.add_parser(
        "fanout",
        help="one publisher, many subscriber processes: events/s, latency, cost",
        description=(
            "One publisher and S subscriber processes on loopback, 256-byte events; nodes of this project "
            "and plain asyncio-dgram in the same run."
        ),
        epilog="example: camcast bench fanout --subscribers 4 16 --events 50000",
    )
    parser.add_argument("--subscribers", type=int, nargs="+", default=[4, 16], metavar="S")
    parser.add_argument("--events", type=int, default=50_000, help="published at full speed")
    parser.add_argument("--rate", type=float, default=500.0, help="events/s for the latency")
    parser.add_argument(
        "--mode",
        choices=("unstructured", "semi-structured", "structured"),
        default="structured",
    )
    parser.add_argument("--json", action="store_true", help="print JSON lines")
    parser.set_defaults(action=run)


def run(arguments: argparse.Namespace) -> int:
    """Print a row for each system and number of subscribers; 1 when an event was lost."""
    from bench.fanout.result import HEADER
    from bench.fanout.run import run_fanout

    if not arguments.json:
        print(HEADER, flush=True)
    lost = False
    for subscribers in arguments.subscribers:
        for system in ("asyncio-dgram", f"camcast {arguments.mode}"):
            result = run_fanout(
                system, arguments.mode, subscribers, arguments.events, arguments.rate
            )
            print(result.as_json() if arguments.json else result.row(), flush=True)
            lost = lost or (system != "asyncio-dgram" and result.delivered_part < 1)
    return 1 if lost else 0
