"""Two runs compared: what changed is told, what did not is not, and chance is not taken for a change."""

from __future__ import annotations

import dataclasses

import pytest

from bench.aggregates import Aggregate, Aggregates
from bench.claims import CLAIMS, decide
from bench.compare import as_text, compare
from pubsub.cli import main
from tests.bench.claims.made_up import row
from tests.bench.report.synthetic import aggregates

REAL = {"tier": "replay", "mode": "structured", "figure": "defaults"}


def moved(before: Aggregate, by: float) -> Aggregate:
    sample = tuple(value + by for value in before.sample)
    return dataclasses.replace(before, sample=sample, value=before.value + by)


def verdict(before: Aggregate, after: Aggregate) -> str:
    [change] = compare(Aggregates([before]), Aggregates([after])).changes
    return change.verdict


def test_a_run_has_not_changed_against_itself() -> None:
    rows = [row(0.9, 0.05, networks=7, failed=failed, **REAL) for failed in (0.0, 0.3)]
    found = compare(Aggregates(rows), Aggregates(rows))
    assert [change.verdict for change in found.changes] == ["same", "same"]
    assert found.claims == ()
    assert "No claim" in as_text(found, "a", "b")


def test_simulations_that_are_alike_event_for_event_are_the_same() -> None:
    """However few the events are: with an interval as wide as that of 12 events nothing would be decided."""
    few = dataclasses.replace(
        row(0.5, 0.0, networks=12), tier="simulate", metric="reliability", count=12
    )
    assert few.high - few.low > 0.3
    assert verdict(few, few) == "same"
    assert verdict(few, moved(few, 0.01)) == "undecided"


def test_a_claim_that_one_run_has_not_measured_has_not_changed() -> None:
    whole = aggregates()
    part = whole.only(lambda row: row.figure == "figures-13-16")
    measured = [one for one in decide(CLAIMS, part) if one.verdict.parts]
    assert 0 < len(measured) < len(CLAIMS)
    assert compare(whole, part).claims == ()


@pytest.mark.parametrize(
    ("by", "networks", "expected"),
    [(0.1, 7, "more"), (-0.1, 7, "less"), (0.02, 7, "same"), (-0.02, 7, "same"), (0.1, 4, "few")],
)
def test_networks_of_one_number_are_compared_with_each_other(
    by: float, networks: int, expected: str
) -> None:
    """A spread between networks that both runs share does not hide a change."""
    before = row(0.7, 0.3, networks=networks, **REAL)
    assert verdict(before, moved(before, by)) == expected


def test_what_is_too_uncertain_is_not_decided_and_what_is_near_is_the_same() -> None:
    before = row(0.7, 0.001, networks=20, suite="a", **REAL)
    near = dataclasses.replace(row(0.701, 0.001, networks=20, z=9, **REAL), z=3)
    assert verdict(before, near) == "same"
    wild = dataclasses.replace(row(0.75, 0.2, networks=20, z=9, **REAL), z=3)
    assert verdict(before, wild) == "undecided"


def test_of_many_values_none_is_called_changed_by_chance() -> None:
    """Two hundred settings that differ by chance alone; at 5 % each, ten of them would have changed."""
    before, after = [], []
    for number in range(200):
        shared = {**REAL, "failed": number / 1000, "networks": 20}
        before.append(row(0.7, 0.05, **shared))
        after.append(dataclasses.replace(row(0.7, 0.05, z=9, **shared), z=3))
    drawn = [dataclasses.replace(a, sample=a.sample[::-1]) for a in after]
    found = compare(Aggregates(before), Aggregates(drawn))
    assert len(found.changes) == 200
    assert found.of("more", "less") == []


def test_what_changed_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    before = row(0.7, 0.01, networks=7, **REAL)
    found = compare(Aggregates([before]), Aggregates([moved(before, -0.2)]))
    text = as_text(found, "a", "b")
    assert "Of 1 values that both have, 1 changed" in text
    assert "| reception: defaults, replay, structured as published" in text
    assert main(["bench", "compare", "none", "none"]) == 1
    assert "no directory" in capsys.readouterr().err
