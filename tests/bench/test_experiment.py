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
        ("p_sel", 0.0),
        ("z", 0),
        ("a", 4.0),
        ("g", 0.5),
        ("publish_level", 3),
        ("repetitions", 0),
    ],
)
def test_what_cannot_be_run_is_refused_by_the_name_of_its_field(field: str, value: object) -> None:
    with pytest.raises(ExperimentError, match=field):
        Experiment(**{**BASE, field: value})


def test_json_and_back_is_the_same_experiment() -> None:
    experiment = Experiment(**BASE, sizes=(84, 27, 7), p_sel=0.07, a=2.0, z=4)
    assert Experiment.from_json(experiment.as_json()) == experiment


def test_the_id_is_a_digest_of_every_field() -> None:
    one, other = Experiment(**BASE, seed=1), Experiment(**BASE, seed=2)
    assert one.id != other.id
    assert one.id == Experiment(**BASE, seed=1).id == "8a591148b29ddb69b5a9"
