"""The `camcast` command: the commands of a node, and those of the benchmark."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

import bench.analysis.command
import bench.broadcast_costs
import bench.commands
import bench.fanout.command
import bench.topic_broadcast.command
import pubsub.cli
from overlay.errors import CamcastError


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command; what goes wrong on purpose is one sentence on stderr and exit code 1."""
    arguments = _parser().parse_args(argv)
    try:
        code: int = arguments.action(arguments)
    except CamcastError as error:
        print(f"camcast: {error}", file=sys.stderr)
        return 1
    except BrokenPipeError:  # whoever read the output has seen enough
        sys.stderr.close()
        return 0
    except KeyboardInterrupt:
        return 130
    return code


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="camcast",
        description="Brokerless publish/subscribe on a Kademlia DHT, and its benchmark.",
        epilog="example: camcast demo",
    )
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)
    pubsub.cli.add_commands(commands)
    benchmark = commands.add_parser(
        "bench",
        help="run experiments, aggregate them, report",
        description="Run experiments, aggregate their results, and report.",
        epilog="example: camcast bench run quick",
    )
    inner = benchmark.add_subparsers(dest="bench_command", metavar="COMMAND", required=True)
    bench.commands.add_commands(inner)
    bench.analysis.command.add_command(inner)
    bench.fanout.command.add_command(inner)
    bench.broadcast_costs.add_command(inner)
    bench.topic_broadcast.command.add_command(inner)
    return parser


if __name__ == "__main__":
    sys.exit(main())
