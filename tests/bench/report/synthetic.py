"""Aggregates made up for the report's tests: every recipe has something to draw, every claim is decided."""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from bench.aggregates import Aggregate, Aggregates
from bench.experiment import SERIES, Experiment
from bench.model.printed import TABLE_1, TABLE_2
from bench.report.content import Content, Material, content
from bench.results import METRICS, SHARES, UNITS, WHOLE
from bench.suites import BUILT_IN

WIDTH = 0.02
"""How much networks differ, relative to the value."""
NETWORKS = 10


Change = Callable[[Aggregate], Aggregate | None]


def as_it_is(row: Aggregate) -> Aggregate:
    return row


def aggregates(change: Change = as_it_is) -> Aggregates:
    """What a run of all suites would give, roughly; `change` may alter rows, or leave some out."""
    return _aggregates(change)


@functools.cache
def _aggregates(change: Change) -> Aggregates:
    changed = (change(row) for row in _rows())
    return Aggregates(row for row in changed if row is not None)


EVENT: dict[str, Any] = {
    "mode": "structured",
    "sizes": [4, 2],
    "seed": 1,
    "missed": [1, 0],
    "had": [[0, 0, 0, None], [0, 1, 1, 0], [0, 2, 1, 0], [1, 3, 2, 1], [1, 4, 3, 3]],
}


@functools.cache
def whole_content(change: Change = as_it_is) -> Content:
    """The report of these aggregates, made once: it takes seconds."""
    return content(Material(aggregates(change), spread=[EVENT, {**EVENT, "mode": "hyparview"}]))


@functools.cache
def _rows() -> tuple[Aggregate, ...]:
    return tuple(_made_up())


def _made_up() -> Iterator[Aggregate]:
    seen: set[tuple[object, ...]] = set()
    for experiment in (*_points("quick"), *_points("churn")):
        setting = dataclasses.asdict(experiment)
        for gone in ("seed", "repetitions", "network", "replays", *SERIES):
            del setting[gone]
        if tuple(setting.values()) in seen:
            continue
        seen.add(tuple(setting.values()))
        for community in (WHOLE, *range(len(experiment.sizes))):
            for metric in METRICS:
                yield _row(experiment, setting, community, metric)


def _points(suite: str) -> list[Experiment]:
    points = [point for whole in BUILT_IN[suite]().experiments for point in whole.points()]
    replayed = [one for point in points if point.replays for one in point.replayed()]
    return points + replayed


def _row(experiment: Experiment, setting: dict[str, Any], community: int, metric: str) -> Aggregate:
    value = _value(experiment, community, metric)
    is_formula = experiment.tier == "model"
    steps = np.linspace(-WIDTH, WIDTH, 1 if is_formula else NETWORKS)
    sample = (value * (1 + steps)).tolist() if not is_formula else [value]
    if metric in SHARES:
        sample = [min(1.0, one) for one in sample]
    return Aggregate(
        **setting,
        community=community,
        metric=metric,
        unit=UNITS[metric],
        count=experiment.repetitions * len(sample),
        value=float(np.mean(sample)),
        p50=value,
        p99=max(sample),
        networks=tuple(range(len(sample))),
        sample=tuple(sample),
    )


def _value(experiment: Experiment, community: int, metric: str) -> float:
    size = sum(experiment.sizes) if community == WHOLE else experiment.sizes[community]
    weight = {"unstructured": 0.97, "semi-structured": 0.98, "structured": 0.99}
    share = weight.get(experiment.mode, 1.0) * (1 - experiment.failed**3)
    links = 1 - math.exp(-30 * (experiment.p_sel or 1.0))
    fanout = math.log(size) + experiment.c
    return {
        "reception": share * (links if community else 1.0),
        "reliability": share**2 * (links if community else 1.0),
        "efficiency": 0.2 + 0.3 * (1 - links),
        "climbing": share,
        "complete_rounds": _rounds(experiment, community),
        "messages_inside": 0.9 * size * fanout * share,
        "messages_upward": 5 * share,
        "useful": size * share,
        "duplicates": 3 * size * share,
        "parasites": _parasites(experiment),
        "rounds": _rounds(experiment, community),
        "seconds": 0.2,
        "table_entries": fanout + experiment.z - 1,
        "largest_table": fanout + experiment.z - 0.5,
        "table_deviation": 1.5,
        "upward_peak": 2.0,
        "join_datagrams": {"unstructured": 100.0}.get(experiment.mode, 400.0),
        "rest_datagrams": 3.0,
        "rest_bytes": {"unstructured": 300.0}.get(experiment.mode, 900.0),
        "event_datagrams": 400.0,
        "event_bytes": 60_000.0,
        "repair_seconds": 20.0,
        "uniformity": 1.0,
    }[metric]


def _parasites(experiment: Experiment) -> float:
    if experiment.protocol != "broadcast":
        return 0.0
    printed = {row.sizes: row.broadcast for row in TABLE_2}
    return float(printed.get(experiment.sizes, 1.0))


def _rounds(experiment: Experiment, community: int) -> float:
    printed = {row.sizes: row.camcast for row in TABLE_1}
    if experiment.figure == "table-1" and community == WHOLE:
        return float(printed[experiment.sizes])
    return 4 + math.log(sum(experiment.sizes)) / 2 - 2 * (experiment.p_sel or 0.0) + community
