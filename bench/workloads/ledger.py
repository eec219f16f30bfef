"""The ledger of simulated faults: schedules written from the README's promises, and what they found.

The schedules are the project's tests (`tests/promises`), for whole nodes on the virtual network: each has
some virtual minutes of crashes, partitions and loss, and then the time until all promises had come true.
They are part of a clone and not of an installed package.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

from bench.workloads.workload import Option, Row, RowTable, Workload, left_out

SCHEDULES = "tests.promises.__main__"


def run(options: argparse.Namespace) -> Iterator[Row]:
    """One schedule after another, service by service; each is the same for the same seed."""
    clone = str(Path(__file__).parents[2])
    if clone not in sys.path:  # `camcast` does not look into the folder that it is called from
        sys.path.append(clone)
    try:
        promises = import_module(SCHEDULES)
    except ModuleNotFoundError as error:
        note = f"the schedules are in a clone of the project ({error})"
        yield left_out({"service": "all"}, note)
        return
    for service in options.services or promises.SERVICES:
        outcomes = [
            promises.run_one(service, seed, options.minutes) for seed in range(options.seeds)
        ]
        yield from _rows(service, outcomes)


def _rows(service: str, outcomes: list[Any]) -> Iterator[Row]:
    settings = {"service": service}
    broken = [outcome for outcome in outcomes if outcome.violations]
    told = "; ".join(f"seed {outcome.seed}: {outcome.violations[0]}" for outcome in broken)
    faults = sum(sum(outcome.faults.values()) for outcome in outcomes)
    for metric, value, unit, note in (
        ("seeds", len(outcomes), "schedules", ""),
        ("virtual hours", sum(outcome.seconds for outcome in outcomes) / 3600, "h", ""),
        ("faults", faults, "faults", ""),
        ("messages checked", sum(outcome.checked for outcome in outcomes), "messages", ""),
        ("violations", len(broken), "schedules", told),
    ):
        yield Row(settings, metric, float(value), unit, note=note)


WORKLOAD = Workload(
    "ledger",
    "Ledger of simulated faults",
    "Schedules of faults against every promise of the README, for whole nodes on the virtual network.",
    (
        Option("seeds", 20, "schedules of each service", quick=1),
        Option("minutes", 4.0, "virtual minutes of faults", quick=1.0),
        Option("services", [], "the services (none named: all)"),
    ),
    run,
    (
        RowTable(
            "ledger",
            "What was tried, and what was found",
            {"service": "service"},
            {
                "seeds": "{seeds:,.0f}",
                "virtual hours": "{virtual hours:.2f}",
                "faults": "{faults:,.0f}",
                "messages checked": "{messages checked:,.0f}",
                "violations": "{violations:,.0f}",
            },
            "`make ledger` runs more of them, on all processors, and keeps docs/ledger.md.",
        ),
    ),
    quick_seconds=60,
    is_wrong=lambda rows: any(row.metric == "violations" and row.value > 0 for row in rows),
)
