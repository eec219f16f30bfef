"""For each claim, results that it holds for and results that it does not."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from typing import Any

from bench.aggregates import Aggregate
from bench.model.printed import TABLE_1, TABLE_2
from bench.results import WHOLE
from bench.suites.built_in import CHURN, DEFAULT, MODES, TOPOLOGIES
from tests.bench.claims.made_up import first, replayed, row

Cases = list[tuple[bool | str | None, Callable[[], list[Aggregate]]]]
"""A verdict, or what it is called where it decides nothing, and what makes the results."""


def of_a_smaller_suite(rows: list[Aggregate]) -> list[Aggregate]:
    """The same settings, asked by a suite with fewer repetitions, with another outcome."""
    found = []
    for each in rows:
        fewer = each.networks[:-1] if len(each.networks) > 1 else each.networks
        worse = {"sample": tuple([0.123] * len(fewer)), "value": 0.123, "networks": fewer}
        found.append(dataclasses.replace(each, suite="zz", count=max(0, each.count - 1), **worse))
    return found


def of_few_networks(rows: list[Aggregate]) -> list[Aggregate]:
    return first(rows, 4)


def _degradation(whole: float, root: float) -> list[Aggregate]:
    ours = {WHOLE: whole, 0: 0.99, 1: 0.98, 2: root}
    rows = [row(value, 0.004, community=level) for level, value in ours.items()]
    return rows + [row(0.99, 0.002, community=level, protocol="broadcast") for level in ours]


def _seven(value: float, networks: int) -> list[Aggregate]:
    rows = [replayed(mode, 0.5, 0.1, metric="reliability") for mode in MODES[:2]]
    return [
        *rows,
        replayed("structured", value, metric="reliability", networks=networks, count=10_000),
    ]


def _parasites(count: float, failed: float) -> list[Aggregate]:
    """Processes come and go in both; `count` parasites an event with the given rate."""
    shared = {"metric": "parasites", "mode": "structured", "figure": CHURN, "tier": "emulate"}
    shared |= {"failure": "churn", "networks": 5}
    return [row(0.0, failed=0.01, **shared), row(count, failed=failed, **shared)]


def _messages(factor: float, spread: float = 0.0) -> list[Aggregate]:
    rows = []
    for size in (100, 1000, 10000):
        bound = size * (math.log(size) + 5)
        rows.append(
            row(
                factor * bound,
                spread * bound,
                metric="messages_inside",
                figure="scale",
                community=0,
                sizes=(size, 10, 10),
                failed=0.0,
            )
        )
    return rows


def _memory(excess: float) -> list[Aggregate]:
    rows = []
    for mode in MODES:
        bound = math.log(replayed(mode, 0.0).sizes[0]) + 4
        more = excess if mode == "unstructured" else -0.5
        rows.append(replayed(mode, bound + more, metric="largest_table", community=0))
    return rows


def _memory_of_all(camcast: float) -> list[Aggregate]:
    shared = {"figure": "alternatives", "metric": "table_entries", "failed": 0.0, "community": 1}
    values = {"camcast": camcast, "multicast": 20.0, "hierarchical": 16.0}
    return [row(value, protocol=name, **shared) for name, value in values.items()]


def _formula(ours: float, spread: float) -> list[Aggregate]:
    """0.95 by formula; `ours` in the bottom community of the structured mode, 0.94 elsewhere."""
    shared = {"figure": DEFAULT, "metric": "reliability", "failure": "repaired"}
    rows = []
    for level in range(3):
        rows.append(row(0.95, tier="model", community=level, networks=1, **shared))
        for mode in MODES:
            value = ours if (mode, level) == ("structured", 0) else 0.94
            real = {"tier": "replay", "mode": mode, "community": level, "networks": 10}
            rows.append(row(value, spread, **real, **shared))
    return rows


def _alternatives(camcast: float, root: float) -> list[Aggregate]:
    shared = {"figure": "alternatives", "metric": "reliability", "failed": 0.0}
    values = {"camcast": camcast, "broadcast": 0.95, "multicast": 0.9, "hierarchical": 0.99}
    rows = [row(value, 0.01, protocol=name, **shared) for name, value in values.items()]
    for level, value in ((0, 0.9), (1, 0.88), (2, root)):
        rows.append(row(value, 0.005, community=level, **shared))
    return rows


def _gossiped(factor: float, spread: float) -> list[Aggregate]:
    rows = []
    for mode in MODES[:2]:
        for level, size in enumerate(replayed(mode, 0.0).sizes):
            entries = factor * math.log(size) + (0 if level == 2 else 4)
            fields = {"metric": "table_entries", "community": level}
            rows.append(replayed(mode, entries, spread * math.log(size), **fields))
    return rows


def _structured(more: float, deviation: float) -> list[Aggregate]:
    rows = []
    for level, size in enumerate((79, 28, 7)):
        entries = math.floor(math.log(size)) + (0 if level == 2 else 4) + more
        rows.append(replayed("structured", entries, metric="table_entries", community=level))
        rows.append(replayed("structured", deviation, metric="table_deviation", community=level))
    return rows


def _leaving(metric: str, value: float, spread: float, count: int = 500) -> list[Aggregate]:
    return [
        row(value, spread, metric=metric, community=level, failed=failed, count=count)
        for failed in (0.4, 0.5)
        for level in (0, 1)
    ]


def _weak(bottom: float, upper: float) -> list[Aggregate]:
    rows = []
    for level in range(3):
        shared = {"metric": "reliability", "community": level}
        rows.append(row(0.5, 0.02, **shared))
        value = bottom if level == 0 else upper
        rows.append(row(value, 0.02, figure="figures-17-18", failure="weak", **shared))
    return rows


def table(
    figure: str, metric: str, protocol: str, values: list[float], spread: float = 0.05
) -> list[Aggregate]:
    return [
        row(
            value,
            0.0 if protocol == "pmcast" else spread,
            figure=figure,
            metric=metric,
            protocol=protocol,
            sizes=sizes,
            failed=0.0,
            tier="model" if protocol == "pmcast" else "simulate",
            publish_level=len(sizes) - 1 if figure == "table-2" else 0,
        )
        for value, sizes in zip(values, TOPOLOGIES, strict=True)
    ]


def _rounds(protocol: str, more: float) -> list[Aggregate]:
    values = [getattr(printed, protocol) + more for printed in TABLE_1]
    return table("table-1", "rounds", protocol, values)


def _order_of_rounds(five: float) -> list[Aggregate]:
    ours = table("table-1", "rounds", "camcast", [8.0, 8.5, five])
    return ours + table("table-1", "rounds", "broadcast", [5.0, 4.5, 4.6])


def _parasites_of(protocol: str, factor: float) -> list[Aggregate]:
    values = [factor * getattr(printed, protocol) for printed in TABLE_2]
    return table("table-2", "parasites", protocol, values, spread=1.0)


def _order_of_parasites(ours: float) -> list[Aggregate]:
    rows = table("table-2", "parasites", "camcast", [ours] * 3, spread=0.0)
    return rows + _parasites_of("broadcast", 1.0) + _parasites_of("pmcast", 1.0)


def _in_all(metric: str, p_sel: float, root: float, spread: float) -> list[Aggregate]:
    """Nearly 1 in every mode and community; `root` in that of the structured mode. Nothing of the bottom."""
    rows = []
    for mode in MODES:
        for level, value in ((0, 0.5), (1, 1.0), (2, root if mode == "structured" else 1.0)):
            fields = {"metric": metric, "p_sel": p_sel, "community": level}
            rows.append(replayed(mode, value, spread if value == root else 0.0, **fields))
    return rows


def _over_shares(metric: str, values: tuple[float, float, float]) -> list[Aggregate]:
    """A mean in d and a for each mode; in g, which does not count, the other way round."""
    rows = []
    for p_sel in (0.1, 1.0):
        for mode, value in zip(MODES, values, strict=True):
            for level, own in ((0, 1 - value), (1, value), (2, value)):
                fields = {"metric": metric, "p_sel": p_sel, "community": level}
                rows.append(replayed(mode, own, 0.02, **fields))
    return rows


def _ends(metric: str, few: float, every: float, spread: float) -> list[Aggregate]:
    return [
        replayed(mode, value, spread, metric=metric, p_sel=p_sel, community=level)
        for mode in MODES
        for level in (1, 2)
        for p_sel, value in ((0.1, few), (1.0, every))
    ]


def _upward(power: float) -> list[Aggregate]:
    return [
        replayed(
            mode, 160 * p_sel**power, 4 * p_sel, metric="messages_upward", p_sel=p_sel, community=0
        )
        for mode in MODES
        for p_sel in (0.1, 0.5, 1.0)
    ]


def _case(make: Callable[..., list[Aggregate]], *arguments: Any) -> Callable[[], list[Aggregate]]:
    return lambda: make(*arguments)


CASES: dict[str, Cases] = {
    "degradation": [
        (True, _case(_degradation, 0.985, 0.97)),
        (None, _case(_degradation, 0.985, 0.6)),
        (None, _case(_degradation, 0.94, 0.97)),
        (False, _case(_degradation, 0.9, 0.6)),
    ],
    "seven-percent": [
        (True, _case(_seven, 1.0, 10)),
        (None, _case(_seven, 1.0, 3)),
        (False, _case(_seven, 0.9, 10)),
    ],
    "no-parasites": [
        ("not refuted", _case(_parasites, 0.0, 0.02)),
        ("not refuted", _case(_parasites, 1.0, 0.0)),  # where nobody leaves, nothing is said
        (False, _case(_parasites, 0.01, 0.02)),
    ],
    "messages": [
        (True, _case(_messages, 0.97)),
        (None, _case(_messages, 0.97, 0.05)),
        (False, _case(_messages, 1.03)),
    ],
    "memory": [(True, _case(_memory, -0.5)), (False, _case(_memory, 4.0))],
    "memory-smaller": [(True, _case(_memory_of_all, 14.0)), (False, _case(_memory_of_all, 17.0))],
    "reliability": [
        (True, _case(_formula, 0.97, 0.01)),
        (None, _case(_formula, 0.92, 0.04)),
        (False, _case(_formula, 0.5, 0.01)),
    ],
    "below-alternatives": [
        (True, _case(_alternatives, 0.8, 0.8)),
        ("no difference", _case(_alternatives, 0.9, 0.8)),
        (False, _case(_alternatives, 0.97, 0.8)),
    ],
    "worst-at-root": [
        (True, _case(_alternatives, 0.8, 0.8)),
        ("no difference", _case(_alternatives, 0.8, 0.879)),
        (False, _case(_alternatives, 0.8, 0.95)),
    ],
    "gossiped-tables": [
        (True, _case(_gossiped, 1.0, 0.05)),
        (None, _case(_gossiped, 1.0, 0.3)),
        (False, _case(_gossiped, 1.5, 0.1)),
    ],
    "structured-tables": [
        (True, _case(_structured, 0.0, 0.0)),
        (False, _case(_structured, 2.0, 0.0)),
        (False, _case(_structured, 0.0, 1.5)),
    ],
    "upward": [
        (True, _case(_leaving, "messages_upward", 1.2, 0.1)),
        (None, _case(_leaving, "messages_upward", 1.05, 0.1)),
        (False, _case(_leaving, "messages_upward", 0.8, 0.1)),
    ],
    "upward-always": [
        (True, _case(_leaving, "climbing", 0.995, 0.002, 10_000)),
        (None, _case(_leaving, "climbing", 0.985, 0.01)),
        (False, _case(_leaving, "climbing", 0.9, 0.01)),
    ],
    "weak-views": [
        (True, _case(_weak, 0.7, 0.7)),
        (None, _case(_weak, 0.3, 0.7)),
        ("no difference", _case(_weak, 0.51, 0.51)),
        (False, _case(_weak, 0.3, 0.3)),
    ],
    "table-1": [
        (True, _case(_rounds, "camcast", 0.0)),
        ("explained", _case(_rounds, "camcast", -1.2)),
        (False, _case(_rounds, "camcast", 1.5)),
    ],
    "table-1-broadcast": [
        (True, _case(_rounds, "broadcast", 0.0)),
        (False, _case(_rounds, "broadcast", 0.5)),
    ],
    "table-1-pmcast": [
        ("fitted", _case(_rounds, "pmcast", 0.0)),
        ("not comparable", _case(_rounds, "pmcast", 2.0)),
    ],
    "table-1-order": [
        (True, _case(_order_of_rounds, 13.0)),
        ("no difference", _case(_order_of_rounds, 8.5)),
        (False, _case(_order_of_rounds, 7.0)),
    ],
    "table-2": [
        (True, _case(_parasites_of, "broadcast", 1.005)),
        (False, _case(_parasites_of, "broadcast", 1.05)),
    ],
    "table-2-pmcast": [
        ("fitted", _case(_parasites_of, "pmcast", 1.0)),
        (None, _case(_parasites_of, "pmcast", 0.1)),
    ],
    "table-2-order": [
        (True, _case(_order_of_parasites, 0.0)),
        (False, _case(_order_of_parasites, 1.0)),
    ],
    "converge": [
        (True, _case(_in_all, "reception", 1.0, 0.996, 0.002)),
        (None, _case(_in_all, "reception", 1.0, 0.9, 0.1)),
        (False, _case(_in_all, "reception", 1.0, 0.9, 0.04)),
    ],
    "structured-first": [
        (True, _case(_over_shares, "reception", (0.8, 0.8, 0.9))),
        ("no difference", _case(_over_shares, "reception", (0.8, 0.8, 0.8))),
        (False, _case(_over_shares, "reception", (0.8, 0.8, 0.5))),
    ],
    "tenth": [
        (True, _case(_in_all, "reliability", 0.1, 0.95, 0.03)),
        (None, _case(_in_all, "reliability", 0.1, 0.9, 0.05)),
        (False, _case(_in_all, "reliability", 0.1, 0.5, 0.1)),
    ],
    "efficiency-falls": [
        (True, _case(_ends, "efficiency", 0.5, 0.2, 0.02)),
        ("no difference", _case(_ends, "efficiency", 0.5, 0.5, 0.01)),
        (None, _case(_ends, "efficiency", 0.5, 0.48, 0.05)),
        (False, _case(_ends, "efficiency", 0.2, 0.5, 0.02)),
    ],
    "efficiency-order": [
        (True, _case(_over_shares, "efficiency", (0.2, 0.3, 0.4))),
        ("no difference", _case(_over_shares, "efficiency", (0.2, 0.2, 0.4))),
        (False, _case(_over_shares, "efficiency", (0.4, 0.3, 0.5))),
    ],
    "latency": [
        (True, _case(_ends, "rounds", 8.0, 5.0, 0.3)),
        (None, _case(_ends, "rounds", 8.0, 7.9, 1.0)),
        (False, _case(_ends, "rounds", 5.0, 8.0, 0.3)),
    ],
    "upward-proportional": [(True, _case(_upward, 1.0)), (False, _case(_upward, 0.5))],
}
"""The verdict that each claim has to come to, and what makes the results."""

OF_REAL_NODES = (
    "seven-percent",
    "no-parasites",
    "memory",
    "reliability",
    "gossiped-tables",
    "structured-tables",
    "converge",
    "structured-first",
    "tenth",
    "efficiency-falls",
    "efficiency-order",
    "latency",
    "upward-proportional",
)
