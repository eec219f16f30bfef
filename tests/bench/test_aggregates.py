"""Several suites in one directory: a setting has one row, and settings that differ have one each."""

from __future__ import annotations

import dataclasses

import pytest

from bench.aggregates import Aggregates, community_name
from tests.bench.claims.made_up import row


@pytest.mark.parametrize("suites", [("paper", "quick"), ("quick", "paper")])
def test_of_several_suites_the_one_with_most_values_is_taken(suites: tuple[str, str]) -> None:
    large, small = suites
    rows = [row(0.9, suite=large, count=1000), row(0.1, suite=small, count=200)]
    [found] = Aggregates(rows).select(metric="reception")
    assert found.value == pytest.approx(0.9)
    assert Aggregates(rows).suites() == sorted(suites)


def test_more_networks_count_for_more_than_more_events() -> None:
    real = {"tier": "emulate", "mode": "structured"}
    one = row(0.1, suite="quick", networks=1, count=50, **real)
    ten = row(0.9, suite="paper", networks=10, count=20, **real)
    assert [found.value for found in Aggregates([one, ten]).select()] == pytest.approx([0.9])


@pytest.mark.parametrize(
    "other",
    [
        *({"c": 1.0}, {"g": 9.0}, {"z": 9}, {"loss": 0.0}, {"sizes": (10, 5, 2)}, {"a": 2.0}),
        *({"balance": True}, {"dissemination": "lazy"}, {"sure_links": True}),
    ],
)
def test_what_differs_in_a_parameter_is_no_duplicate(other: dict[str, object]) -> None:
    assert len(Aggregates([row(0.1), row(0.9, suite="mine", **other)]).select()) == 2


def test_g_does_not_count_where_p_sel_is_given() -> None:
    rows = [row(0.1, p_sel=0.1, g=5.0), row(0.9, p_sel=0.1, g=1.0, suite="mine", count=900)]
    assert [found.value for found in Aggregates(rows).select()] == pytest.approx([0.9])


def test_a_community_has_one_name() -> None:
    assert [community_name(level, 3) for level in (0, 1, 2)] == [
        "g (bottom)",
        "d (middle)",
        "a (root)",
    ]
    assert community_name(0, 5) == "level 0 (bottom)"
    assert community_name(4, 5) == "level 4 (root)"
    assert community_name(-1, 5) == "all communities"


def test_a_difference_goes_by_networks_of_the_same_number() -> None:
    ours = row(0.9, 0.1, tier="replay", mode="structured", networks=10)
    theirs = dataclasses.replace(
        ours, mode="unstructured", sample=tuple(v - 0.01 for v in ours.sample)
    )
    assert ours.minus(theirs).low == pytest.approx(0.01)
    assert ours.low < theirs.high
    # One network of theirs is missing, and the others keep their partners.
    fewer = dataclasses.replace(theirs, networks=theirs.networks[1:], sample=theirs.sample[1:])
    assert ours.minus(fewer).high == pytest.approx(0.01)


def test_looks_use_the_networks_that_are_due() -> None:
    rows = row(0.9, 0.1, tier="replay", mode="structured", networks=12, metric="reception")
    assert rows.interval == rows.first(10).interval
    assert rows.first(5).error > rows.error


def test_the_first_networks_are_those_of_the_smallest_numbers() -> None:
    rows = row(0.9, 0.1, tier="replay", networks=6)
    turned = dataclasses.replace(rows, networks=rows.networks[::-1], sample=rows.sample[::-1])
    assert turned.first(5).sample == rows.sample[:5]
