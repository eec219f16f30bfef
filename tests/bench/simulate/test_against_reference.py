"""The compiled simulator and a plain one find the same, in every number and every round."""

from __future__ import annotations

import pytest

from bench.experiment import Experiment
from bench.simulate.randomness import derived
from bench.simulate.runs import run_communities
from tests.bench.simulate import reference
from tests.bench.simulate.asked import asked
from tests.bench.simulate.statistics import assert_same_mean

RUNS = 80


@pytest.mark.parametrize(
    "experiment",
    [
        asked(sizes=(800, 60, 10)),
        asked(sizes=(300, 60, 10), failed=0.4),
        asked(sizes=(300, 60, 10), failed=0.4, failure="weak"),
        asked(sizes=(200, 30, 4), c=-1, p_sel=0.5, a=2, z=4, publish_level=1),
    ],
    ids=["paper", "stillborn", "weak", "thin"],
)
def test_both_find_the_same(experiment: Experiment) -> None:
    sizes = experiment.sizes
    ours = [run_communities(experiment, sizes, derived(0, number)) for number in range(4 * RUNS)]
    theirs = [reference.run(experiment, seed) for seed in range(RUNS)]
    for level in range(len(sizes)):
        mine = [runs[level] for runs in ours]
        pairs = [
            ([c.alive for c in mine], [len(f.alive[level]) for f in theirs]),
            ([sum(c.infections) for c in mine], [len(f.rounds[level]) for f in theirs]),
            ([c.sent for c in mine], [f.sent[level] for f in theirs]),
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
