"""Verdicts come from the results: change a result and the verdict changes."""

from __future__ import annotations

import pytest

from bench.aggregates import Aggregates
from bench.claims import CLAIMS, decide
from bench.suites.settings import MODES, TOPOLOGIES
from tests.bench.claims.made_up import emulated, row, verdict


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
