"""Settings validate themselves and say what the paper's symbols come out at."""

from __future__ import annotations

import math
from typing import Any

import pytest

from bench.simulate import (
    Failure,
    Protocol,
    SimulationSettings,
    simulate_independently,
)
from overlay.errors import UsageError


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("protocol", "carrier pigeon"),
        ("tables", "round"),
        ("failure", "byzantine"),
        ("community_sizes", ()),
        ("community_sizes", (10, 0)),
        ("community_sizes", (10, 2.5)),
        ("community_sizes", (1 << 31, 5)),
        ("community_sizes", (1,) * 61),
        ("publish_level", 3),
        ("publish_level", -1),
        ("loss", 1.5),
        ("failed", -0.1),
        ("c", math.nan),
        ("p_sel", 2.0),
        ("g", -1.0),
        ("z", 0),
        ("scamp_copies", -1),
        ("clusters", 0),
    ],
)
def test_a_bad_field_is_named(name: str, value: Any) -> None:
    with pytest.raises(UsageError, match=name):
        SimulationSettings(**{name: value})


def test_a_cannot_exceed_z() -> None:
    with pytest.raises(UsageError, match="a in"):
        SimulationSettings(a=4, z=3)


def test_the_fanout_is_the_floor_and_fits_the_group() -> None:
    settings = SimulationSettings()
    assert [settings.fanout(n) for n in (1110, 1000, 300, 500, 100, 10)] == [12, 11, 10, 11, 9, 7]
    assert [settings.fanout(n) for n in (1, 2, 3)] == [0, 1, 2]
    assert SimulationSettings(c=-20).fanout(1000) == 0


def test_link_probabilities() -> None:
    assert SimulationSettings().link_probability(1000) == 0.005
    assert SimulationSettings().link_probability(3) == 1.0
    assert SimulationSettings(p_sel=0.07).link_probability(80) == 0.07


def test_what_fails_is_one_thing_or_the_other() -> None:
    stillborn, weak = (
        SimulationSettings(failed=0.3),
        SimulationSettings(failed=0.3, failure=Failure.WEAK),
    )
    assert (stillborn.stillborn, stillborn.suspicion) == (0.3, 0.0)
    assert (weak.stillborn, weak.suspicion) == (0.0, 0.3)


def test_there_cannot_be_more_clusters_than_processes() -> None:
    with pytest.raises(UsageError, match="clusters"):
        SimulationSettings(community_sizes=(5,), protocol=Protocol.HIERARCHICAL)


def test_repetitions_are_checked() -> None:
    with pytest.raises(UsageError, match="repetitions"):
        simulate_independently(SimulationSettings(), 0)
