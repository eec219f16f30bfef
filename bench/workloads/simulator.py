"""Messages a second of the round simulator, beside what the machine and other simulators allow."""

from __future__ import annotations

import argparse
import importlib.util
from collections.abc import Iterator, Sequence
from typing import Any

from bench.workloads.workload import Option, Row, RowTable, Values, Workload, left_out, rows_of


def run(options: argparse.Namespace) -> Iterator[Row]:
    """Takes about a minute."""
    from bench.systems.simulators import limit, peak_memory, rate

    for size in options.processes:
        ours, most = rate(size), limit(size)
        settings = {"simulator": "camcast", "processes": size}
        found: Values = {
            "rate": (ours / 1e6, "M messages/s"),
            "limit": (most / 1e6, "M places/s"),
            "share of the limit": (ours / most, "share"),
        }
        if size == max(options.processes):
            found["memory"] = (peak_memory(size) / 2**20, "MiB")
        yield from rows_of(settings, found)
    yield from beside_others(options.others)


def beside_others(sizes: Sequence[int]) -> Iterator[Row]:
    """The others' messages a second, and how many times faster ours is; who is not installed is named."""
    from bench.systems import simulators

    for size in sizes:
        graph, ours = None, 0.0
        for package, measure in simulators.OTHERS.items():
            settings: dict[str, Any] = {"simulator": package, "processes": size}
            if importlib.util.find_spec(package) is None:
                note = f"not installed (PyPI's package: {package})"
                yield left_out(settings, note)
                continue
            fanout = simulators.asked(size).fanout(size)
            if graph is None:
                graph = simulators.random_graph(size, simulators.CRASHED, fanout)
                ours = simulators.rate(size)
            theirs = measure(graph, simulators.LOSS, fanout)
            yield Row(settings, "rate", theirs / 1e6, "M messages/s")
            yield Row(settings, "camcast is faster", ours / theirs, "x")


WORKLOAD = Workload(
    "simulator",
    "Round simulator",
    "Messages a second of the compiled simulator, beside the machine's limit and other simulators.",
    (
        Option(
            "processes",
            [10**4, 10**5, 10**6, 10**7],
            "sizes of the community",
            quick=[10**4, 10**5],
        ),
        Option("others", [10**4, 10**5], "sizes for NDlib and EoN", quick=[10**4]),
    ),
    run,
    (
        RowTable(
            "simulator",
            "One dissemination; processor time",
            {"simulator": "simulator", "processes": "processes"},
            {
                "M messages/s": "{rate:.2f}",
                "limit of the machine": "{limit:.0f} M/s",
                "share of it": "{share of the limit:.2f}",
                "peak memory": "{memory:,.0f} MiB",
                "camcast is faster": "{camcast is faster:,.0f} x",
            },
            "The machine's limit: random reads and writes in an array of as many bytes.",
        ),
    ),
    quick_seconds=25,
)
