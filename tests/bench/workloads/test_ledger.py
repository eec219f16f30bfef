"""The ledger as a workload: rows of what was tried and found, and a reason where there is no clone."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from bench.workloads import ledger
from bench.workloads.workload import LEFT_OUT
from tests.promises import __main__ as promises
from tests.promises.storm import Outcome


def test_a_schedule_that_breaks_a_promise_is_told_and_is_wrong(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def run_one(service: str, seed: int, minutes: float) -> Outcome:
        return Outcome(service, seed, ["event 7 was delivered twice"] if seed == 1 else [])

    monkeypatch.setattr(promises, "run_one", run_one)
    options = ledger.WORKLOAD.defaults(quick=False)
    options.seeds, options.services = 3, ["durable"]
    rows = list(ledger.run(options))
    values = {row.metric: row for row in rows}
    assert values["seeds"].value == 3
    assert values["violations"].value == 1
    assert values["violations"].note == "seed 1: event 7 was delivered twice"
    assert ledger.WORKLOAD.is_wrong(rows)
    options.seeds = 1
    assert not ledger.WORKLOAD.is_wrong(list(ledger.run(options)))


def test_the_schedules_of_a_clone_are_found_from_any_folder(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    root = Path(__file__).parents[3]
    monkeypatch.setattr(sys, "path", [place for place in sys.path if Path(place).resolve() != root])
    for name in [name for name in sys.modules if name.split(".")[0] == "tests"]:
        monkeypatch.delitem(sys.modules, name)
    options = ledger.WORKLOAD.defaults(quick=True)
    options.seeds, options.services = 0, ["durable"]
    assert "seeds" in [row.metric for row in ledger.run(options)]


def test_without_a_clone_the_ledger_says_what_it_needs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ledger, "SCHEDULES", "tests.no_such_module")
    [row] = ledger.run(ledger.WORKLOAD.defaults(quick=True))
    assert row.metric == LEFT_OUT
    assert "a clone of the project" in row.note
