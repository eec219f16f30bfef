"""The live tier: real processes that are always cleared away, results in the schema of every tier."""

from __future__ import annotations

import multiprocessing
import random

import pytest

from bench import tiers
from bench.experiment import Experiment, ExperimentError
from bench.players import PlayerFailed
from bench.populations.live import LivePopulation
from bench.tiers import live

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


def test_an_event_reaches_everyone_who_is_alive_and_nobody_else(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # With c = 5 everyone sends to everyone, whether the dead have left the tables or not.
    monkeypatch.setattr(live, "REPAIR_SECONDS", 1.0)
    crashes = {"failure": "repaired", "failed": 0.4}
    experiment = Experiment(**SMALL | crashes, mode="unstructured", p_sel_series=(0.5, 1.0))  # type: ignore[arg-type]
    (half, _), (point, results) = tiers.run(experiment)
    assert (half.p_sel, point.p_sel) == (0.5, 1.0)
    assert [(r.repetition, r.community, r.processes) for r in results] == [(0, 0, 5), (0, 1, 3)]
    for result in results:
        assert result.alive == (3, 2)[result.community]
        # With c = 5 every table holds everyone, and with p_sel = 1 everyone sends upward.
        assert (result.reached, result.everyone, result.parasites) == (result.alive, 1.0, 0)
        assert result.rounds is not None
        assert result.seconds is not None
        assert result.seconds > 0
        assert result.table_entries
    assert multiprocessing.active_children() == []


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
