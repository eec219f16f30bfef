"""Tables beside the paper's: the largest suite's rows, PMcast with its assumptions, parity and latency."""

from __future__ import annotations

import dataclasses

import pytest

from bench.aggregates import Aggregates
from bench.model.formulas import (
    broadcast_range,
    camcast_average_bound,
    camcast_best_bound,
    gossip_rounds,
    hierarchical_constant,
)
from bench.report.real_nodes import real_node_tables
from bench.report.table import Table, per_cent
from bench.report.tables import tables
from bench.results import WHOLE
from bench.suites.built_in import TOPOLOGIES
from tests.bench.claims.made_up import replayed, row
from tests.bench.report.synthetic import aggregates


def table(found: list[Table], title: str) -> dict[str, list[str]]:
    own = next(one for one in found if one.title.startswith(title))
    return {name: cells for name, *cells in own.rows}


@pytest.mark.parametrize("suites", [("paper", "quick"), ("quick", "paper")])
def test_tables_take_the_larger_suite(suites: tuple[str, str]) -> None:
    large, small = suites
    rows = [
        row(value, figure="table-1", metric="rounds", sizes=s, suite=suite, count=count, failed=0.0)
        for suite, value, count in ((large, 8.0, 1000), (small, 99.0, 200))
        for s in TOPOLOGIES
    ]
    found = table(tables(Aggregates(rows)), "Table 1")
    assert found["CAMCAST, simulated"] == ["8"] * 3
    assert found["CAMCAST, the paper"] == ["8.91", "8.83", "13.08"]


def test_pmcast_stands_in_every_table_with_what_was_assumed() -> None:
    found = tables(aggregates())
    for title in ("Table 1", "Table 2", "An event published in the bottom community of 1000"):
        assert "PMcast, formula" in table(found, title)
        note = next(one.note for one in found if one.title.startswith(title))
        assert "2 levels, 2 delegates a subgroup, fanout 5" in note


def test_the_papers_reliability_of_the_alternatives_is_shown_as_its_own() -> None:
    found = table(tables(aggregates()), "An event published in the bottom community of 1000")
    assert found["(a) gossip broadcast, the paper's formula"][3] == "0.993"
    assert found["(c) hierarchical gossip broadcast, the paper's formula"][3] == "0.929"


def test_parity_gives_the_admissible_ranges_of_c_and_z() -> None:
    found = table(tables(aggregates()), "As reliable as an alternative")
    pit = 1 - 0.15**5
    cells = found["100, 100, 100: as (a) gossip broadcast"]
    assert cells[0] == f"0.00 to {broadcast_range(3, pit).high:.2f}"
    cells = found["100, 100, 100: as (c) hierarchical gossip broadcast"]
    assert cells[2] == f"{hierarchical_constant(5.0, 3, pit, 10):.2f}"
    assert len(found) == 3 * len(TOPOLOGIES)


def test_latency_gives_best_average_and_worst_with_their_bounds() -> None:
    found = table(tables(aggregates()), "Latency by formula")["1000, 100, 10"]
    assert found[0] == f"{2 + gossip_rounds(10):.2f}"
    assert found[1] == f"{camcast_best_bound((1000, 100, 10)):.2f}"
    assert found[3] == f"{camcast_average_bound((1000, 100, 10)):.2f}"
    assert camcast_best_bound((1000, 100, 10)) == pytest.approx(2 + gossip_rounds(1000))
    assert camcast_average_bound((100,) * 3) == pytest.approx(3 * (gossip_rounds(100) / 2 + 1))


def test_real_nodes_of_every_size_stand_beside_both_formulas() -> None:
    shared = {"metric": "reliability", "community": 2}
    rows = [replayed(mode, 0.5, 0.1, **shared) for mode in ("unstructured", "structured")]
    for sizes in ((84, 27, 7), (79, 28, 7)):
        made = replayed("structured", 0.4, **shared, tier="model", sizes=sizes)
        rows.append(dataclasses.replace(made, mode="uniform"))
    found = table(real_node_tables(Aggregates(rows)), "Reliability by the share of links")
    assert "a (root): unstructured as published, replayed (84, 27, 7 processes)" in found
    assert "a (root): structured as published, replayed (79, 28, 7 processes)" in found
    assert "a (root): the paper's formula (84, 27, 7 processes)" in found
    assert "a (root): formula with every draw made (79, 28, 7 processes)" in found


def test_memory_is_of_the_suite_with_more_networks() -> None:
    shared = {"metric": "table_entries", "community": 0, "p_sel": 1.0, "tier": "emulate"}
    few = replayed("structured", 99.0, suite="quick", networks=1, **shared)
    many = replayed("structured", 8.0, suite="paper", networks=10, **shared)
    whole = replayed(
        "structured", 8.0, metric="table_entries", community=WHOLE, p_sel=1.0, tier="emulate"
    )
    found = table(real_node_tables(Aggregates([few, many, whole])), "Memory and upward load")
    assert found["structured as published, g (bottom)"][1] == "8.0"


def test_a_hundred_per_cent_means_all() -> None:
    assert [per_cent(value) for value in (1.0, 0.999999, 0.9995, 0.5)] == [
        "100",
        "99.99",
        "99.95",
        "50.0",
    ]
