"""The compiled simulator and a plain one find the same, in every number and every round."""

from __future__ import annotations

import pytest

from bench.simulate import Failure, SimulationSettings, simulate_independently
from tests.bench.simulate import reference
from tests.bench.simulate.statistics import assert_same_mean

RUNS = 80


@pytest.mark.parametrize(
    "settings",
    [
        SimulationSettings(community_sizes=(800, 60, 10)),
        SimulationSettings(community_sizes=(300, 60, 10), failed=0.4),
        SimulationSettings(community_sizes=(300, 60, 10), failed=0.4, failure=Failure.WEAK),
        SimulationSettings(
            community_sizes=(200, 30, 4), c=-1, p_sel=0.5, a=2, z=4, publish_level=1
        ),
    ],
    ids=["paper", "stillborn", "weak", "thin"],
)
def test_both_find_the_same(settings: SimulationSettings) -> None:
    ours = simulate_independently(settings, 4 * RUNS)
    theirs = [reference.run(settings, seed) for seed in range(RUNS)]
    for level in range(len(settings.community_sizes)):
        mine = [result.communities[level] for result in ours]
        pairs = [
            ([c.alive for c in mine], [len(f.alive[level]) for f in theirs]),
            ([c.reached for c in mine], [len(f.rounds[level]) for f in theirs]),
            ([c.sent_inside for c in mine], [f.sent[level] for f in theirs]),
            ([c.sent_upward for c in mine], [f.upward[level] for f in theirs]),
            ([c.received for c in mine], [f.received[level] for f in theirs]),
        ]
        pairs += [
            (
                [sum(c.infections[:now]) for c in mine],
                [sum(at < now for at in f.rounds[level].values()) for f in theirs],
            )
            for now in (2, 3, 4, 6, 8)
        ]
        for one, other in pairs:
            assert_same_mean(one, other)
