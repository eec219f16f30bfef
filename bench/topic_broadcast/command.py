"""`camcast bench topics`."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

from overlay.errors import UsageError

if TYPE_CHECKING:
    from bench.topic_broadcast.throughput import Throughput

OUT = Path("bench-results")
DELIVERIES = 12_000
FEWEST, MOST = 100, 2000


def add_command(commands: Any) -> None:
    parser: argparse.ArgumentParser = commands.add_parser(
        "topics",
        help="topic broadcast: throughput against participants, cost of the matrix",
        description=(
            "One participant of a topic publishes messages of 1 KiB as fast as it can, reliably and "
            "best-effort, on the virtual network and over real UDP; then what membership costs."
        ),
        epilog="example: camcast bench topics --participants 2 10 30 --matrix 50 100",
    )
    parser.add_argument(
        "--participants", type=int, nargs="*", default=[2, 10, 30, 60, 120], metavar="N"
    )
    parser.add_argument(
        "--networks", nargs="+", choices=("virtual", "sockets"), default=["virtual", "sockets"]
    )
    parser.add_argument(
        "--matrix",
        type=int,
        nargs="*",
        default=[50, 100, 200, 400],
        metavar="N",
        help="participants for the cost of the matrix; none to leave it out",
    )
    parser.add_argument("--out", type=Path, default=OUT, help=f"for the figures (default: {OUT})")
    parser.set_defaults(action=run)


def run(arguments: argparse.Namespace) -> int:
    """Print the tables and write the figures; 1 when the reliable broadcast lost a message."""
    if any(number < 2 for number in [*arguments.participants, *arguments.matrix]):
        raise UsageError("a topic that is measured has two participants or more")
    results: list[Throughput] = []
    if arguments.participants:
        results = _measure_throughput(arguments.participants, arguments.networks)
        _write_figures(results, arguments.out)
    if arguments.matrix:
        print()
        _measure_matrix(arguments.matrix)
    return int(any(r.semantics == "reliable" and r.delivered < 1 for r in results))


def messages_for(participants: int) -> int:
    """How many are published, so that runs of any size take about the same work."""
    return min(max(DELIVERIES // participants, FEWEST), MOST)


def _measure_throughput(participants: list[int], networks: list[str]) -> list[Throughput]:
    from bench.topic_broadcast.socket_run import run_on_sockets
    from bench.topic_broadcast.virtual_run import run_virtual

    _row(
        "network", "participants", "semantics", "messages/s", "delivered", "datagrams", "duplicates"
    )
    _row("---", "---:", "---", "---:", "---:", "---:", "---:")
    results: list[Throughput] = []
    for network in networks:
        measure = run_virtual if network == "virtual" else run_on_sockets
        for number in participants:
            for r in measure(number, messages_for(number)):
                results.append(r)
                _row(
                    network,
                    number,
                    r.semantics,
                    f"{r.rate:,.0f}",
                    f"{r.delivered:.2%}",
                    f"{r.datagrams:.2f}",
                    f"{r.duplicates:.3f}",
                )
    return results


def _measure_matrix(participants: list[int]) -> None:
    from bench.topic_broadcast.matrix_cost import measure_matrix

    _row("participants", "for each of them", "messages", "kB", "ms of work", "s until stable")
    _row("---:", "---", "---:", "---:", "---:", "---:")
    for number in participants:
        for cost in measure_matrix(number):
            _row(
                number,
                cost.event,
                f"{cost.messages:.1f}",
                f"{cost.kilobytes:.2f}",
                f"{cost.milliseconds:.2f}",
                f"{cost.seconds:.1f}",
            )


def _write_figures(results: list[Throughput], out: Path) -> None:
    from bench.topic_broadcast.figure import delivered_figure, throughput_figure

    out.mkdir(parents=True, exist_ok=True)
    for name, figure in (
        ("topic-throughput.svg", throughput_figure(results)),
        ("topic-delivered.svg", delivered_figure(results)),
    ):
        (out / name).write_text(figure)
    print(f"\nfigures are in {out}")


def _row(*cells: object) -> None:
    print("| " + " | ".join(map(str, cells)) + " |", flush=True)
