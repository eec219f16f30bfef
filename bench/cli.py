"""`camcast bench`: the benchmark's place in the `camcast` command (an entry point, see `pubsub.cli`)."""

from __future__ import annotations

import argparse
from typing import Any

ABOUT = "run experiments, aggregate them, report"


def add_command(commands: Any) -> None:
    """Add `bench` with all its sub-commands."""
    # Imported here, so that `camcast --help` does not load the benchmark.
    import bench.analysis.command
    import bench.analysis.watch
    import bench.commands
    import bench.quote

    benchmark = commands.add_parser(
        "bench",
        help=ABOUT,
        description="Run experiments, aggregate their results, and report.",
        epilog="example: camcast bench run quick",
    )
    inner = benchmark.add_subparsers(dest="bench_command", metavar="COMMAND", required=True)
    bench.commands.add_commands(inner)
    bench.analysis.command.add_command(inner)
    bench.analysis.watch.add_command(inner)
    bench.quote.add_command(inner)


def new_command(
    commands: Any, name: str, action: Any, about: str, description: str = "", example: str = ""
) -> argparse.ArgumentParser:
    """One more sub-command; `example`: what may be written behind its name."""
    command: argparse.ArgumentParser = commands.add_parser(
        name,
        help=about,
        description=description or about,
        epilog=f"example: camcast bench {name} {example}".rstrip(),
    )
    command.set_defaults(action=action)
    return command
