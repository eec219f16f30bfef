"""The model tier against the simulator: the formulas with every draw made tell what a run shows."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from bench import tiers
from bench.experiment import Experiment
from bench.model.formulas import assumed_tree, pmcast_rounds, pmcast_uninterested
from bench.results import CommunityResult
from bench.suites.built_in import IMPLEMENTED, SIMULATED, TOPOLOGIES
from bench.tiers.model import everyone_everywhere


def asked(tier: str, **fields: Any) -> Experiment:
    runs = 1 if tier == "model" else 300
    return Experiment(
        suite="s",
        figure="f",
        tier=tier,
        **{**SIMULATED, "repetitions": runs, "seed": 3, **fields},
    )


def run(tier: str, **fields: Any) -> list[CommunityResult]:
    return tiers.run(asked(tier, **fields))[0][1]


def total(results: list[CommunityResult], field: str, repetitions: int = 1) -> float:
    return sum(getattr(result, field) or 0.0 for result in results) / repetitions


@pytest.mark.parametrize(
    "fields",
    [
        {"failure": "weak", "failed": 0.5},
        {"failed": 0.3, "protocol": "broadcast", "publish_level": 2},
        {"failed": 0.3, "protocol": "hierarchical"},
        {"failed": 0.3},
    ],
)
def test_messages_are_those_of_a_run_when_processes_fail(fields: dict[str, Any]) -> None:
    model, simulated = run("model", **fields), run("simulate", **fields)
    for field in ("messages_inside", "messages_upward", "parasites"):
        expected = total(simulated, field, 300)
        assert total(model, field) == pytest.approx(expected, rel=0.05, abs=0.5), field


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"failed": 0.3},
        {"protocol": "multicast"},
        {"protocol": "broadcast", "failed": 0.3, "publish_level": 2},
        {"protocol": "hierarchical"},
        {**IMPLEMENTED, "p_sel": 0.07},
    ],
)
def test_everyone_everywhere_is_as_likely_as_in_a_run(fields: dict[str, Any]) -> None:
    simulated = run("simulate", **fields)
    together: dict[int, float] = {}
    for result in simulated:
        if result.everyone is not None:
            together[result.repetition] = result.everyone * together.get(result.repetition, 1.0)
    expected = sum(together.values()) / len(together)
    assert everyone_everywhere(asked("model", **fields)) == pytest.approx(expected, abs=0.09)


@pytest.mark.parametrize("protocol", ["camcast", "multicast"])
def test_tables_are_kept_whoever_wants_the_event(protocol: str) -> None:
    low, high = run("model", protocol=protocol), run("model", protocol=protocol, publish_level=2)
    assert [r.table_entries for r in low] == [r.table_entries for r in high]


def test_everyone_everywhere_is_a_product_and_no_minimum() -> None:
    five = {"sizes": (100,) * 5, "protocol": "multicast"}
    single = run("model", **five)[0].everyone
    assert single is not None
    assert everyone_everywhere(asked("model", **five)) == pytest.approx(single**5)


@pytest.mark.parametrize("sizes", [(100, 20, 2), (100, 1), (1,), (3, 1, 1)])
@pytest.mark.parametrize(
    "protocol", ["camcast", "broadcast", "multicast", "hierarchical", "pmcast"]
)
def test_the_smallest_communities_have_an_answer(sizes: tuple[int, ...], protocol: str) -> None:
    results = run("model", sizes=sizes, protocol=protocol)
    assert [result.processes for result in results] == list(sizes)
    if protocol == "camcast" and sizes[-1] < 3:
        assert results[-1].rounds is None


def test_few_who_are_left_have_an_answer() -> None:
    crashed = {"sizes": (100, 20, 5), "failure": "repaired", "failed": 0.6}
    assert [result.processes for result in run("model", **crashed)] == [100, 20, 5]


@pytest.mark.parametrize("topology", TOPOLOGIES)
def test_pmcast_is_its_formulas_with_the_parameters_assumed(topology: tuple[int, ...]) -> None:
    system, root = sum(topology), len(topology) - 1
    tree = assumed_tree(system)
    up = run("model", protocol="pmcast", sizes=topology)
    assert up[0].rounds == pytest.approx(pmcast_rounds(tree, 1.0, 0.85))
    down = run("model", protocol="pmcast", sizes=topology, publish_level=root)
    expected = pmcast_uninterested(tree, topology[-1] / system)
    assert total(down, "parasites") == pytest.approx(expected)
    assert everyone_everywhere(asked("model", protocol="pmcast")) is None


def test_a_hierarchy_published_higher_up_is_that_of_its_upper_part() -> None:
    whole = run("model", publish_level=1)[1:]
    alone = run("model", sizes=SIMULATED["sizes"][1:])
    assert [dataclasses.replace(r, community=0) for r in whole] == [
        dataclasses.replace(r, community=0) for r in alone
    ]
