"""Topic broadcast: throughput against participants, the shape of DACE's figure 8, and what the matrix
costs."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping, Sequence

from bench.report.svg import Figure, Panel, Point, Series
from bench.workloads.workload import Option, Row, RowTable, Setting, Workload, rows_of
from overlay.errors import UsageError

DELIVERIES = 12_000
FEWEST, MOST = 100, 2000
NETWORKS = ("virtual", "sockets")
_COLOURS = {"reliable": "structured", "best-effort": "unstructured"}
_TITLES = {
    "virtual": "virtual (teal: reliable)",
    "sockets": "real UDP (teal: reliable)",
}


def messages_for(participants: int) -> int:
    """How many are published, so that runs of any size take about the same work."""
    return min(max(DELIVERIES // participants, FEWEST), MOST)


def run(options: argparse.Namespace) -> Iterator[Row]:
    if any(number < 2 for number in [*options.participants, *options.matrix]):
        raise UsageError("a topic that is measured has two participants or more")
    for network in options.networks:
        for number in options.participants:
            yield from _throughput(network, number)
    for number in options.matrix:
        yield from _matrix(number)


def _throughput(network: str, participants: int) -> Iterator[Row]:
    from bench.systems.topics import run_on_sockets, run_virtual

    measure = run_virtual if network == "virtual" else run_on_sockets
    for semantics, found in measure(participants, messages_for(participants)).items():
        settings: dict[str, Setting] = {"network": network, "participants": participants}
        yield from rows_of(settings | {"semantics": semantics}, found)


def _matrix(participants: int) -> Iterator[Row]:
    from bench.systems.topics import measure_matrix

    for event, cost in measure_matrix(participants).items():
        yield from rows_of({"participants": participants, "event": event}, cost)


def figures(rows: Sequence[Row]) -> list[Figure]:
    """Messages a second, and the share of deliveries that arrived: a panel for each network."""
    if not any(row.metric == "rate" for row in rows):
        return []
    title, x_label = "Topic broadcast of 1-KiB messages: reliable and best-effort", "participants"
    throughput = _panels(rows, "rate")
    arrived = _panels(rows, "delivered")
    return [
        Figure("topic-throughput", title, "", x_label, "messages/s", throughput, log_y=True),
        Figure(
            "topic-delivered",
            "Share of deliveries that arrived",
            "",
            x_label,
            "delivered",
            arrived,
            share=True,
        ),
    ]


def _panels(rows: Sequence[Row], metric: str) -> tuple[Panel, ...]:
    chosen = [row for row in rows if row.metric == metric and "semantics" in row.settings]
    return tuple(
        Panel(
            _TITLES[network],
            tuple(
                Series(
                    semantics,
                    colour,
                    "emulate",
                    _points(chosen, {"network": network, "semantics": semantics}),
                )
                for semantics, colour in _COLOURS.items()
            ),
        )
        for network in NETWORKS
        if any(row.settings["network"] == network for row in chosen)
    )


def _points(rows: Sequence[Row], wanted: Mapping[str, str]) -> tuple[Point, ...]:
    values = {
        int(str(row.settings["participants"])): row.value
        for row in rows
        if all(row.settings[name] == value for name, value in wanted.items())
    }
    return tuple(Point(number, value, value, value, 1) for number, value in sorted(values.items()))


def _lost(rows: Sequence[Row]) -> bool:
    return any(
        row.metric == "delivered" and row.settings["semantics"] == "reliable" and row.value < 1
        for row in rows
    )


WORKLOAD = Workload(
    "topics",
    "Topic broadcast",
    "One participant of a topic publishes messages of 1 KiB as fast as it can, reliably and best-effort, on "
    "the virtual network and over real UDP; then what membership costs.",
    (
        Option("participants", [2, 10, 30, 60, 120], "numbers of participants", quick=[2, 10]),
        Option("networks", list(NETWORKS), "where", choices=NETWORKS),
        Option(
            "matrix",
            [50, 100, 200, 400],
            "participants for the cost of the matrix; none to leave it out",
            quick=[50],
        ),
    ),
    run,
    (
        RowTable(
            "throughput",
            "Messages of 1 KiB, as fast as one participant can publish them",
            {"network": "network", "participants": "participants", "semantics": "semantics"},
            {
                "messages/s": "{rate:,.0f}",
                "delivered": "{delivered:.2%}",
                "datagrams": "{datagrams:.2f}",
                "duplicates": "{duplicates:.3f}",
            },
            "Datagrams: for each message and receiver. Duplicates: for each delivery.",
        ),
        RowTable(
            "matrix",
            "What topic membership costs each participant",
            {"participants": "participants", "event": "event"},
            {
                "messages": "{messages:.1f}",
                "kB": "{kilobytes:.2f}",
                "ms of work": "{work:.1f}",
                "s until stable": "{stable after:.1f}",
            },
        ),
    ),
    quick_seconds=20,
    is_wrong=_lost,
    figures=figures,
)
