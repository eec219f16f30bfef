"""Events over stored tables: by the rule of real nodes, as the simulator has it, as the nodes themselves
do."""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Sequence

import numpy as np
import pytest

from bench import tiers
from bench.experiment import Experiment
from bench.results import WHOLE, CommunityResult, Measured
from bench.simulate.replay import (
    LAST_ROUND,
    REACHED,
    SENT_UPWARD,
    ReplayedMember,
    Snapshot,
    replay,
    run_events,
)
from bench.simulate.tables import SCAMP_COPIES, scamp_views
from bench.suites.built_in import variant

ASKED = Experiment(
    suite="test",
    figure="replay",
    tier="replay",
    mode="structured",
    sizes=(40, 12, 6),
    c=1.0,
    g=4.0,
    a=1.0,
    z=3,
    loss=0.1,
    replays=4000,
    seed=5,
)


def names(sizes: Sequence[int]) -> list[list[str]]:
    return [[f"{level}.{number}" for number in range(size)] for level, size in enumerate(sizes)]


def uniform(experiment: Experiment, seed: int) -> Snapshot:
    """Tables as the formulas have them: drawn uniformly, of floor(ln N + c) and of z."""
    chance = random.Random(seed)
    found = names(experiment.sizes)
    communities = []
    for level, own in enumerate(found):
        above = found[level + 1] if level + 1 < len(found) else []
        fanout = int(np.floor(np.log(len(own)) + experiment.c))
        communities.append(
            tuple(
                ReplayedMember(
                    name,
                    name,
                    len(own),
                    tuple(chance.sample([o for o in own if o != name], min(fanout, len(own) - 1))),
                    tuple(chance.sample(above, min(experiment.z, len(above)))),
                )
                for name in own
            )
        )
    return Snapshot(tuple(communities))


def value(found: list[Measured], community: int, metric: str) -> float:
    return next(one.metrics[metric] for one in found if one.community == community)


def test_over_uniform_tables_it_is_the_simulator() -> None:
    networks = [
        replay(dataclasses.replace(ASKED, replays=500, seed=seed), uniform(ASKED, seed))
        for seed in range(40)
    ]
    simulated = tiers.run(
        dataclasses.replace(ASKED, tier="simulate", mode="uniform", repetitions=2000, replays=0)
    )[0][1]
    for level in range(3):
        own = [r for r in simulated if isinstance(r, CommunityResult) and r.community == level]
        theirs = np.mean([(r.reached or 0) / r.alive for r in own])
        ours = np.mean([value(found, level, "reception") for found in networks])
        # Real nodes leave out whom an event came from, so they do a little better.
        assert -0.02 < ours - theirs < 0.08
        upward = np.mean([r.messages_upward for r in own])
        assert np.mean([value(f, level, "messages_upward") for f in networks]) == pytest.approx(
            upward, rel=0.15, abs=0.05
        )


def test_along_a_ring_an_event_takes_a_hop_for_each_process() -> None:
    [own] = names((9,))
    ring = tuple(ReplayedMember(n, n, 9, (own[(i + 1) % 9],), ()) for i, n in enumerate(own))
    asked = dataclasses.replace(ASKED, sizes=(9,), loss=0.0, replays=20)
    counts = run_events(asked, Snapshot((ring,)))
    assert (counts[:, 0, REACHED] == 9).all()
    assert (counts[:, 0, LAST_ROUND] == 8).all()


def test_whoever_is_down_gets_nothing_and_a_link_finds_another() -> None:
    below = ReplayedMember("0.0", "0.0", 1, (), ("gone", "1.0"))
    above = ReplayedMember("1.0", "1.0", 2, ("gone",), ())
    asked = dataclasses.replace(ASKED, sizes=(1, 2), loss=0.0, a=1.0, z=3, p_sel=1.0, replays=2000)
    found = replay(asked, Snapshot(((below,), (above,))))
    counts = run_events(asked, Snapshot(((below,), (above,))))
    # Both entries are drawn with 1/3: nothing with 4/9; and if only the dead one, then the other instead.
    assert value(found, 1, "reliability") == pytest.approx(5 / 9, abs=0.04)
    assert counts[:, 0, SENT_UPWARD].max() == 2
    assert value(found, WHOLE, "reception") == pytest.approx((1 + 5 / 9) / 2, abs=0.02)


def test_the_same_seed_gives_the_same_events_and_another_network_others() -> None:
    tables = uniform(ASKED, 1)
    assert replay(ASKED, tables) == replay(ASKED, tables)
    other = dataclasses.replace(ASKED, network=1)
    assert replay(ASKED, tables) != replay(other, tables)


def test_uniformity_is_one_for_uniform_draws() -> None:
    big = dataclasses.replace(ASKED, sizes=(400, 12, 6), c=4.0)
    drawn = [uniform(big, seed).uniformity() or 0.0 for seed in range(5)]
    assert 0.8 < np.mean(drawn) < 1.2
    [own] = names((50,))
    star = tuple(ReplayedMember(n, n, 50, (own[0],) if n != own[0] else (own[1],), ()) for n in own)
    assert (Snapshot((star,)).uniformity() or 0.0) > 10


def emulated(seed: int) -> tuple[list[CommunityResult], list[Measured]]:
    """One published SCAMP network: its emulated events, and those replayed over its tables."""
    asked = Experiment(
        suite="test",
        figure="replay",
        tier="emulate",
        mode="unstructured",
        sizes=(48,),
        c=1.0,
        repetitions=12,
        replays=4000,
        seed=seed,
        **variant("published"),
    )
    found = {point.tier: results for point, results in tiers.run(asked)}
    events = [r for r in found["emulate"] if isinstance(r, CommunityResult)]
    return events, [r for r in found["replay"] if isinstance(r, Measured)]


def test_published_scamp_is_the_same_emulated_replayed_and_simulated() -> None:
    """View sizes, messages and reception; with the simulator's SCAMP without its c, all of it differs."""
    networks = [emulated(seed) for seed in range(3)]
    entries = np.mean([value(replayed, 0, "table_entries") for _, replayed in networks])
    views = [
        np.diff(scamp_views(48, SCAMP_COPIES, np.uint64(seed))[0]).mean() for seed in range(99)
    ]
    assert SCAMP_COPIES == 1
    assert abs(entries - np.mean(views)) < 3 * np.std(views)
    assert entries > 1.3 * np.log(48)  # about ln N without its c
    for events, replayed in networks:
        own = [(event.reached or 0) / event.alive for event in events]
        assert value(replayed, 0, "reception") == pytest.approx(np.mean(own), abs=0.05)
        sent = np.mean([event.messages_inside for event in events])
        assert value(replayed, 0, "messages_inside") == pytest.approx(sent, rel=0.1)
    simulated = tiers.run(
        Experiment(
            suite="test",
            figure="replay",
            tier="simulate",
            mode="unstructured",
            sizes=(48,),
            c=1.0,
            repetitions=1000,
        )
    )[0][1]
    own = [r for r in simulated if isinstance(r, CommunityResult)]
    reached = np.mean([(r.reached or 0) / r.alive for r in own])
    ours = np.mean([value(replayed, 0, "reception") for _, replayed in networks])
    assert ours == pytest.approx(reached, abs=0.05)
    everyone = np.mean([r.everyone for r in own])
    reliable = np.mean([value(replayed, 0, "reliability") for _, replayed in networks])
    assert abs(reliable - everyone) < 0.3
