"""What the simulator reads from an experiment, and which experiments it refuses."""

from __future__ import annotations

from typing import Any

import pytest

from bench.experiment import ExperimentError
from bench.simulate import simulate
from bench.simulate.runs import link_probability
from tests.bench.simulate.asked import asked, known


@pytest.mark.parametrize(
    ("name", "value"),
    [("protocol", "pmcast"), ("sizes", (1 << 31, 5)), ("sizes", (1,) * 61)],
)
def test_what_cannot_be_simulated_is_named(name: str, value: Any) -> None:
    with pytest.raises(ExperimentError, match=name):
        simulate(asked(**{name: value}))


def test_the_fanout_is_the_floor_and_fits_the_group() -> None:
    found = [asked().fanout(n) for n in (1110, 1000, 300, 500, 100, 10)]
    assert found == [12, 11, 10, 11, 9, 7]
    assert [asked().fanout(n) for n in (1, 2, 3)] == [0, 1, 2]
    assert asked(c=-20.0).fanout(1000) == 0


def test_link_probabilities() -> None:
    assert link_probability(asked(), 1000) == 0.005
    assert link_probability(asked(), 3) == 1.0
    assert link_probability(asked(p_sel=0.07), 80) == 0.07


def test_what_fails_is_one_thing_or_the_other() -> None:
    sizes = (1000,)
    (crashed,) = simulate(asked(sizes=sizes, failed=0.3))
    (suspected,) = simulate(asked(sizes=sizes, failed=0.3, failure="weak"))
    (repaired,) = simulate(asked(sizes=sizes, failed=0.3, failure="repaired"))
    assert 600 < crashed.alive < 800
    assert suspected.alive == 1000
    assert (repaired.alive, repaired.processes) == (700, 1000)
    # Whoever is taken to be down is not sent to; who crashed unseen is.
    assert known(suspected.messages_inside) < 0.75 * 11 * 1000
    assert crashed.messages_inside == 11 * known(crashed.reached)


def test_there_are_never_more_clusters_than_processes() -> None:
    for failure in ("stillborn", "repaired"):
        (found,) = simulate(asked(sizes=(5,), protocol="hierarchical", failure=failure))
        assert found.processes == 5
