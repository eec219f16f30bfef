"""A few schedules of each service; `make ledger` runs many more."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.promises import mutants, sorted_sets
from tests.promises.__main__ import SERVICES, Rows, lines
from tests.promises.durable import check
from tests.promises.storm import Outcome


@pytest.mark.parametrize("service", list(SERVICES))
def test_a_storm_breaks_no_promise(service: str) -> None:
    outcome = SERVICES[service].run(seed=1, minutes=0.7)
    assert outcome.violations == [], f"{service}, seed 1"
    assert outcome.checked
    assert sum(outcome.faults.values())


@pytest.mark.sweep
@pytest.mark.parametrize("seed", range(2, 6))
@pytest.mark.parametrize("service", list(SERVICES))
def test_longer_storms_break_no_promise(service: str, seed: int) -> None:
    outcome = SERVICES[service].run(seed, minutes=2.0)
    assert outcome.violations == [], f"{service}, seed {seed}"


@pytest.mark.sweep
def test_a_member_that_comes_back_with_its_log_waits_for_the_others_before_it_orders() -> None:
    assert sorted_sets.run(0, 4.0).violations == []


def test_a_history_that_breaks_a_promise_is_noticed() -> None:
    publisher = ("p", 1)

    def seen(*numbers: tuple[int, bool, int]) -> list[str]:
        rows = [(("p", n), marked, life, publisher) for n, marked, life in numbers]
        return check("r", rows, is_ordered=True)

    assert seen((1, False, 1), (2, False, 1), (2, True, 2), (3, False, 2)) == []
    assert "twice in one life" in seen((1, False, 1), (1, True, 1))[0]
    assert "unmarked" in seen((1, False, 1), (1, False, 2))[0]
    assert "after 2" in seen((2, False, 1), (1, False, 1))[0]


def test_members_that_disagree_about_the_order_are_noticed() -> None:
    a, b, c = ("p", 1, 1), ("p", 1, 2), ("q", 1, 1)
    assert sorted_sets.check({("p", 1): [a, b, c], ("q", 1): [a, c], ("q", 2): [b, c]}) == []
    assert "twice" in sorted_sets.check({("p", 1): [a, b, a]})[0]
    assert "after it" in sorted_sets.check({("p", 1): [a], ("q", 1): [b, c], ("q", 2): [c, b]})[0]


def test_the_ledger_names_the_seeds_that_broke_a_promise() -> None:
    outcomes = [Outcome("strong", 7, ["something was lost"]), Outcome("strong", 8, seconds=3600.0)]
    text = "\n".join(lines(outcomes, 4.0))
    assert "| strong | 2 | 1.0 | 0 | 0 | 1 |" in text
    assert "- strong, seed 7: something was lost" in text


def test_a_mutant_that_is_missed_is_told_and_tried_again(tmp_path: Path) -> None:
    rows, mutant = Rows(tmp_path / "rows.jsonl"), mutants.MUTANTS[0]
    seeds = mutants.seeds_until_noticed(mutant.name, lambda *_: Outcome(mutant.service, 0))
    rows.add_mutant(mutant.name, seeds)
    rows.add(Outcome(mutant.service, 3))
    again = Rows(tmp_path / "rows.jsonl")
    assert not again.noticed[mutant.name]
    assert "missed" in lines([], 4.0, [mutants.row(mutant, seeds)])[-1]
