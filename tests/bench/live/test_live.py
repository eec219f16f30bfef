"""The live tier: real processes that are always cleared away, results in the schema of every tier."""

from __future__ import annotations

import multiprocessing
import random
from typing import ClassVar

import pytest

from bench import tiers
from bench.experiment import Experiment, ExperimentError
from bench.players import PlayerFailed
from bench.tiers import live
from bench.tiers.live import LivePopulation
from bench.traces import CommunityMembers, Copies

SMALL = {"suite": "s", "figure": "f", "tier": "live", "sizes": (5, 3), "c": 5.0, "a": 3.0}


@pytest.mark.parametrize(
    ("fields", "wrong"),
    [
        ({"loss": 0.1}, "loss must be 0, not 0.1"),
        ({"failure": "churn", "failed": 0.1}, "the failures repaired, not churn"),
        ({"failure": "weak", "failed": 0.1}, "the failures repaired, not weak"),
        ({"failure": "repaired", "failed_series": (0.1, 0.2)}, "not for the live tier"),
    ],
)
def test_what_loopback_cannot_do_is_refused(fields: dict[str, object], wrong: str) -> None:
    with pytest.raises(ExperimentError, match=wrong):
        tiers.run(Experiment(**SMALL | {"mode": "unstructured"} | fields))  # type: ignore[arg-type]


class Watched(LivePopulation):
    """Notes what the tables held before each event."""

    seen: ClassVar[list[dict[str, list[str]]]] = []

    def members(self) -> list[CommunityMembers]:
        self.seen.append(self.tables())
        return super().members()


def test_an_event_reaches_everyone_to_whom_the_tables_of_the_living_lead_and_nobody_else(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # SCAMP as published may leave a process with nobody but the dead in its table until that is repaired.
    monkeypatch.setattr(live, "REPAIR_SECONDS", 1.0)
    monkeypatch.setattr(live, "LivePopulation", Watched)
    monkeypatch.setattr(Watched, "seen", [])
    crashes = {"failure": "repaired", "failed": 0.4}
    experiment = Experiment(**SMALL | crashes, mode="unstructured", p_sel_series=(0.5, 1.0))  # type: ignore[arg-type]
    points, observed = live.run_observed(experiment)
    (half, _), (point, results) = points
    assert (half.p_sel, point.p_sel) == (0.5, 1.0)
    assert [(r.repetition, r.community, r.processes) for r in results] == [(0, 0, 5), (0, 1, 3)]
    [(history, communities)] = observed[-1]
    # With c = 5 everyone sends to all of its table, and with p_sel = 1 to all of its super-topic table.
    led_to = _led_to(history.publisher, Watched.seen[-1])
    for result, members in zip(results, communities, strict=True):
        assert result.alive == len(members.alive) == (3, 2)[result.community]
        had = history.communities.get(members.topic, Copies()).had
        assert led_to & members.alive <= had.keys() <= members.alive
        assert (result.reached, result.parasites) == (len(had), 0)
        assert result.rounds == max(had.values(), default=None)
        assert bool(result.seconds) == bool(had.keys() - {history.publisher})
        assert result.table_entries
    assert multiprocessing.active_children() == []


def _led_to(publisher: str, tables: dict[str, list[str]]) -> set[str]:
    """The living whom a path of tables leads to from the publisher, which is one of them."""
    found, edge = {publisher}, [publisher]
    while edge:
        named = tuple(contact.partition("@")[0] for contact in tables[edge.pop()])
        fresh = {node for node in tables if node.startswith(named)} - found
        found |= fresh
        edge += fresh
    return found


@pytest.mark.sweep
@pytest.mark.parametrize("mode", ["semi-structured", "structured"])
def test_the_modes_with_a_dht_run_live(mode: str) -> None:
    [(_, results)] = tiers.run(Experiment(**SMALL, mode=mode, p_sel=1.0))  # type: ignore[arg-type]
    assert [(r.reached, r.parasites) for r in results] == [(5, 0), (3, 0)]
    assert multiprocessing.active_children() == []


def test_no_process_is_left_when_a_run_fails() -> None:
    experiment = Experiment(**SMALL, mode="unstructured")  # type: ignore[arg-type]
    nobody = "192.0.2.1"  # an address that no machine has
    with (
        pytest.raises(PlayerFailed, match="failed"),
        LivePopulation(experiment, random.Random(1), host=nobody) as population,
    ):
        population.start()
    assert multiprocessing.active_children() == []
