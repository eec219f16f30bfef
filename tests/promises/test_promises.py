"""A few schedules of each service; `make ledger` runs many more."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from tests.promises import mqtt_doors, mutants, sorted_sets
from tests.promises.__main__ import SERVICES, Rows, Sums, lines
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


@pytest.mark.sweep
def test_a_member_that_nobody_answers_waits_for_the_others_before_it_orders() -> None:
    assert sorted_sets.run(114, 4.0).violations == []


@pytest.mark.sweep
def test_a_member_whose_disk_fails_keeps_the_order_of_what_waits_for_the_disk() -> None:
    assert sorted_sets.run(9103, 4.0).violations == []


@pytest.mark.sweep
def test_a_member_that_waited_for_anothers_disk_waits_for_what_that_one_sends_then() -> None:
    assert sorted_sets.run(20022, 4.0).violations == []


@pytest.mark.sweep
@pytest.mark.parametrize("seed", [502, 3001, 3005])
def test_a_will_comes_once_in_storms_that_once_lost_or_doubled_one(seed: int) -> None:
    assert mqtt_doors.run(seed, 4.0).violations == []


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


def test_the_ledger_names_the_seeds_that_broke_a_promise(tmp_path: Path) -> None:
    kept = tmp_path / "ledger.json"
    first = [
        Outcome("strong", 0, ["something was lost"], commit="abc"),
        Outcome("strong", 8, seconds=3600.0, faults=Counter(crash=2), commit="abc"),
    ]
    second = [Outcome("strong", 8, commit="def"), Outcome("strong", 0, commit="def")]
    for outcomes in (first, first + second):
        sums = Sums(kept)
        for outcome in outcomes:
            sums.add(outcome)
        sums.write(kept)
    text = "\n".join(lines(Sums(kept), 4.0))
    assert "| strong | 4 | 1.0 | 2 | 0 | 1 |" in text, "a schedule counts once"
    assert "- strong, seed 0, at abc: something was lost; nothing at def" in text
    assert "| crash | 2 |" in text
    assert "| abc | 2 | 1 |" in text
    assert "| def | 2 | 0 |" in text


def test_a_seed_is_run_again_on_another_commit(tmp_path: Path) -> None:
    rows = Rows(tmp_path / "rows.jsonl")
    rows.add(Outcome("strong", 7, minutes=4.0, commit="abc"))
    rows.add(Outcome("strong", 8, ["something was lost"], minutes=4.0, commit="abc"))
    again = Rows(tmp_path / "rows.jsonl")
    assert again.has("strong", 7, 4.0, "abc")
    assert not again.has("strong", 7, 4.0, "def")
    assert not again.has("strong", 8, 4.0, "abc")
    assert len(again.of(4.0)) == 2


def test_a_mutant_that_is_missed_is_told_and_tried_again(tmp_path: Path) -> None:
    rows, mutant = Rows(tmp_path / "rows.jsonl"), mutants.MUTANTS[0]
    seeds = mutants.seeds_until_noticed(mutant.name, lambda *_: Outcome(mutant.service, 0))
    rows.add_mutant(mutant.name, seeds, "abc")
    rows.add(Outcome(mutant.service, 3))
    again = Rows(tmp_path / "rows.jsonl")
    assert again.noticed[mutant.name] == (mutants.MISSED, "abc")
    sums = Sums(None)
    sums.noticed = {mutant.name: [seeds, "abc"]}
    assert "| missed | abc |" in lines(sums, 4.0)[-1]
