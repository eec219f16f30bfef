"""Verdicts come from the results: change a result and the verdict changes."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from bench.aggregate import WHOLE
from bench.aggregates import Aggregate, Aggregates
from bench.claims import CLAIMS, decide
from bench.suites.settings import MODES, TOPOLOGIES

BASE = Aggregate(
    suite="quick",
    figure="figures-13-16",
    tier="simulate",
    protocol="camcast",
    mode="uniform",
    sizes=(1000, 100, 10),
    c=5.0,
    g=5.0,
    p_sel=None,
    a=1.0,
    z=3,
    loss=0.15,
    failure="stillborn",
    failed=0.3,
    publish_level=0,
    community=WHOLE,
    metric="reception",
    count=100,
    low=0.0,
    value=0.0,
    high=0.0,
    p50=0.0,
    p99=0.0,
)


def row(value: float, spread: float = 0.0, **fields: Any) -> Aggregate:
    return dataclasses.replace(
        BASE, **{"value": value, "low": value - spread, "high": value + spread, **fields}
    )


def verdict(name: str, *rows: Aggregate) -> bool | None:
    claim = next(claim for claim in CLAIMS if claim.name == name)
    return claim.evidence(Aggregates(rows)).holds


def test_what_was_not_measured_is_undecided() -> None:
    assert all(verdict.holds is None for _, verdict in decide(CLAIMS, Aggregates([])))


@pytest.mark.parametrize(("ours", "holds"), [(0.96, True), (0.945, None), (0.90, False)])
def test_degradation_is_decided_by_the_interval(ours: float, holds: bool | None) -> None:
    assert verdict("degradation", row(ours, 0.01), row(0.99, protocol="broadcast")) is holds


@pytest.mark.parametrize(("parasites", "holds"), [(0.0, True), (0.01, False)])
def test_a_single_parasite_refutes(parasites: float, holds: bool) -> None:
    assert verdict("no-parasites", row(parasites, metric="parasites")) is holds


@pytest.mark.parametrize(("middle", "holds"), [(1699.0, True), (1710.0, True), (1800.0, False)])
def test_table_2_is_within_one_percent(middle: float, holds: bool) -> None:
    values = (11216.0, middle, 3739.0)
    rows = [
        row(value, metric="parasites", figure="table-2", protocol="broadcast", sizes=sizes)
        for value, sizes in zip(values, TOPOLOGIES, strict=True)
    ]
    assert verdict("table-2", *rows) is holds


@pytest.mark.parametrize(("factor", "holds"), [(0.97, True), (1.03, False)])
def test_messages_are_held_against_the_bound(factor: float, holds: bool) -> None:
    import math

    rows = [
        row(
            factor * size * (math.log(size) + 5),
            metric="messages_inside",
            figure="scale",
            community=0,
            sizes=(size, 10, 10),
        )
        for size in (100, 1000, 10000)
    ]
    assert verdict("messages", *rows) is holds


@pytest.mark.parametrize(
    ("ours", "root", "holds"),
    [(0.97, 0.99, True), (0.94, 0.99, True), (0.90, 0.99, None), (0.90, 0.5, False)],
)
def test_reliability_is_held_against_the_formula_in_each_community(
    ours: float, root: float, holds: bool | None
) -> None:
    shared = {"figure": "crashes", "metric": "reliability", "failure": "repaired"}
    rows = [row(0.95, tier="model", community=level, **shared) for level in (1, 2)]
    for level, value in ((1, ours), (2, root)):
        rows.append(row(value, 0.02, tier="emulate", community=level, **shared))
    elsewhere = row(0.1, tier="emulate", **{**shared, "failed": 0.5})  # without a formula
    assert verdict("reliability", *rows, elsewhere) is holds


@pytest.mark.parametrize(("root", "holds"), [(0.99, True), (0.8, False)])
def test_the_modes_converge_in_the_super_communities(root: float, holds: bool) -> None:
    links = {"p_sel": 1.0, "metric": "reception"}
    rows = [
        emulated(mode, value, 0.01, community=level, **links)
        for mode in MODES
        for level, value in ((0, 0.9), (1, 1.0), (2, root))
    ]
    assert verdict("converge", *rows) is holds


def emulated(mode: str, value: float, spread: float = 0.0, **fields: Any) -> Aggregate:
    shared = {"figure": "figures-19-28", "tier": "emulate", "sizes": (84, 27, 7), "p_sel": 0.07}
    return row(value, spread, **{**shared, "mode": mode, **fields})


@pytest.mark.parametrize(("structured", "holds"), [(1.0, True), (0.9, False)])
def test_seven_percent_needs_a_mode_that_reaches_everyone(structured: float, holds: bool) -> None:
    values = dict(zip(MODES, (0.8, 0.85, structured), strict=True))
    rows = [emulated(mode, value, metric="reliability") for mode, value in values.items()]
    assert verdict("seven-percent", *rows) is holds


@pytest.mark.parametrize(
    ("structured", "holds"), [(0.9, True), (0.82, None), (0.78, None), (0.5, False)]
)
def test_structured_first_weighs_the_intervals(structured: float, holds: bool | None) -> None:
    values = dict(zip(MODES, (0.8, 0.8, structured), strict=True))
    assert verdict("structured-first", *(emulated(m, v, 0.02) for m, v in values.items())) is holds
