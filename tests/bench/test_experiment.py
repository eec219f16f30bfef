"""Experiments validate themselves and are the same everywhere."""

from __future__ import annotations

from typing import Any

import pytest

from bench.experiment import Experiment, ExperimentError

BASE: dict[str, Any] = {"suite": "s", "figure": "f", "tier": "simulate"}


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("tier", "guess"),
        ("protocol", "smoke signals"),
        ("mode", "structured"),
        ("failure", "meteor"),
        ("sizes", ()),
        ("sizes", (10, 0)),
        ("loss", 1.0),
        ("failed", -0.1),
        ("failed_series", (0.3, 0.1)),
        ("failed_series", (0.3, 1.0)),
        ("p_sel_series", (0.3, 0.0)),
        ("failure", "churn"),
        ("p_sel", 0.0),
        ("z", 0),
        ("a", 4.0),
        ("g", 0.5),
        ("publish_level", 3),
        ("repetitions", 0),
        ("dissemination", "loud"),
        ("dissemination", "lazy"),
        ("balance", True),
        ("sure_links", True),
        ("network", -1),
        ("c_series", (1.0,)),
        ("loss_series", (0.1,)),
    ],
)
def test_what_cannot_be_run_is_refused_by_the_name_of_its_field(field: str, value: object) -> None:
    with pytest.raises(ExperimentError, match=field):
        Experiment(**{**BASE, field: value})


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("suite", 5),
        ("mode", 3),
        ("sizes", [10, 5]),
        ("sizes", (10, 5.0)),
        ("c", "5"),
        ("c", float("nan")),
        ("g", float("inf")),
        ("a", True),
        ("z", 3.5),
        ("z", "3"),
        ("loss", "much"),
        ("p_sel", True),
        ("p_sel_series", ("few",)),
        ("failed_series", (float("nan"),)),
        ("publish_level", 1.0),
        ("repetitions", 2.5),
        ("repetitions", 10**30),
        ("seed", 2**63),
        ("balance", 1),
        ("network", 1.0),
    ],
)
def test_a_value_of_the_wrong_type_is_named_with_its_field(field: str, value: object) -> None:
    with pytest.raises(ExperimentError, match=rf"^{field} is [^\n]+, not "):
        Experiment(**{**BASE, field: value})


def test_json_and_back_is_the_same_experiment() -> None:
    experiment = Experiment(**BASE, sizes=(84, 27, 7), p_sel=0.07, a=2.0, z=4)
    assert Experiment.from_json(experiment.as_json()) == experiment


def test_a_series_stands_for_an_experiment_of_each_value() -> None:
    experiment = Experiment(
        **BASE, failure="repaired", failed_series=(0.0, 0.5), p_sel_series=(0.1, 1.0)
    )
    points = experiment.points()
    assert [(p.failed, p.p_sel) for p in points] == [(0.0, 0.1), (0.0, 1.0), (0.5, 0.1), (0.5, 1.0)]
    assert points[2] == Experiment(**BASE, failure="repaired", failed=0.5, p_sel=0.1)
    assert points[2].points() == [points[2]]
    assert points[2].living == (500, 50, 5)


def test_the_replayed_events_of_a_point_follow_the_papers_rule_on_its_tables() -> None:
    point = Experiment(
        **{**BASE, "tier": "emulate"},
        mode="structured",
        balance=True,
        dissemination="lazy",
        sure_links=True,
        loss=0.1,
        replays=100,
        c_series=(0.0, 5.0),
        loss_series=(0.1, 0.3),
    )
    assert point.variant == "shipped"
    found = point.replayed()
    assert [(one.c, one.loss) for one in found] == [(5.0, 0.1), (0.0, 0.1), (5.0, 0.3)]
    assert {(one.tier, one.variant, one.mode) for one in found} == {
        ("replay", "improved", "structured")
    }


def test_the_id_is_a_digest_of_every_field() -> None:
    one, other = Experiment(**BASE, seed=1), Experiment(**BASE, seed=2)
    assert one.id != other.id
    assert one.id == Experiment(**BASE, seed=1).id == "5c3944d45ec43ac77d77"
