"""Tiers that answer the same question give the same answer, within their intervals."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import numpy as np
import pytest

from bench import tiers
from bench.experiment import Experiment
from bench.intervals import Interval, mean_interval, wilson
from bench.results import CommunityResult, Result

SETTING = Experiment(
    suite="test",
    figure="agreement",
    tier="simulate",
    sizes=(40, 12, 6),
    c=1.0,
    g=4.0,
    a=1.0,
    z=3,
    loss=0.15,
    repetitions=400,
    seed=5,
)


NETWORKS = 3


def run(experiment: Experiment) -> list[CommunityResult]:
    return [result for _, results in tiers.run(experiment) for result in of_events(results)]


def of_events(results: Sequence[Result]) -> list[CommunityResult]:
    return [result for result in results if isinstance(result, CommunityResult)]


def mean_of(results: list[CommunityResult], community: int, field: str) -> float:
    return float(np.mean([getattr(r, field) for r in results if r.community == community]))


def shares(results: list[CommunityResult], community: int) -> np.ndarray:
    own = [r for r in results if r.community == community]
    return np.array([(r.reached or 0.0) / r.alive for r in own])


def reliability(results: list[CommunityResult], community: int) -> Interval:
    own = [r.everyone for r in results if r.community == community and r.everyone is not None]
    return wilson(sum(own), len(own))


def test_the_simulator_reaches_as_many_as_the_formula_says() -> None:
    setting = dataclasses.replace(SETTING, sizes=(1000, 100, 10), c=3.0, failed=0.2)
    simulated = run(setting)
    expected = run(dataclasses.replace(setting, tier="model"))
    for level, row in enumerate(expected):
        assert row.reached is not None
        found = mean_interval(shares(simulated, level))
        assert abs(found.value - row.reached / row.alive) < 0.05 + (found.high - found.low)


def test_the_simulator_is_as_reliable_in_every_community_as_the_formula_says() -> None:
    setting = dataclasses.replace(SETTING, sizes=(1000, 100, 10), c=3.0, failed=0.2)
    simulated = run(setting)
    for level, row in enumerate(run(dataclasses.replace(setting, tier="model"))):
        assert row.everyone is not None
        assert 0.05 < row.everyone < 0.95
        found = reliability(simulated, level)
        assert found.low - 0.03 <= row.everyone <= found.high + 0.03


def test_one_seed_gives_one_result() -> None:
    assert run(SETTING) == run(SETTING)
    emulated = dataclasses.replace(
        SETTING, tier="emulate", mode="unstructured", sizes=(8, 4, 3), repetitions=2
    )
    assert run(emulated) == run(emulated)


def test_events_of_a_series_share_one_network_on_which_more_and_more_crash() -> None:
    series = dataclasses.replace(
        SETTING,
        tier="emulate",
        mode="unstructured",
        sizes=(10, 4),
        failure="repaired",
        failed_series=(0.0, 0.5),
        p_sel_series=(0.1, 1.0),
        repetitions=6,
    )
    found = tiers.run(series)
    assert [(point.failed, point.p_sel) for point, _ in found] == [
        (0.0, 0.1),
        (0.0, 1.0),
        (0.5, 0.1),
        (0.5, 1.0),
    ]
    for point, all_results in found:
        results = of_events(all_results)
        assert [(r.repetition, r.community, r.processes) for r in results] == [
            (repetition, community, size)
            for repetition in range(6)
            for community, size in enumerate((10, 4))
        ]
        assert {r.alive for r in results if r.community == 0} == {10 - 10 * point.failed}
    sent = [sum(r.messages_upward or 0 for r in of_events(results)) for _, results in found]
    assert sent[0] < sent[1]
    assert sent[2] < sent[3]


def test_with_repaired_tables_the_living_are_the_whole_system() -> None:
    for tier in ("model", "simulate"):
        crashed = dataclasses.replace(SETTING, tier=tier, failure="repaired", failed=0.5)
        alone = dataclasses.replace(SETTING, tier=tier, sizes=(20, 6, 3))
        for ours, theirs, size in zip(run(crashed), run(alone), SETTING.sizes * 400, strict=False):
            assert dataclasses.replace(ours, processes=theirs.processes) == theirs
            assert ours.processes == size


def emulated_as_simulated(mode: str, repetitions: int, networks: int = NETWORKS) -> None:
    """Reception and reliability in every community, and messages by whoever has the event, of real nodes."""
    simulated = run(SETTING)
    shared = {"tier": "emulate", "mode": mode, "repetitions": repetitions, "balance": True}
    # Events on one network share its tables, and a member that few have in theirs misses many of them: so
    # one network says little, and reliability is compared by networks and not by events.
    each = [
        run(dataclasses.replace(SETTING, seed=seed, **shared))  # type: ignore[arg-type]
        for seed in range(1, networks + 1)
    ]
    emulated = [result for results in each for result in results]
    for level in range(len(SETTING.sizes)):
        ours = mean_interval(shares(emulated, level))
        theirs = mean_interval(shares(simulated, level))
        # Real nodes leave out those they know to have the event, so they do a little better: among six
        # members by 0.12 and 0.17, where one set of twelve networks differs from the next by 0.05.
        assert theirs.low - 0.05 <= ours.high
        assert ours.low <= theirs.high + 0.12
        # And a little more in reception is much in reliability, so no bound from above.
        by_network = [reliability(results, level).value for results in each]
        assert reliability(simulated, level).low <= mean_interval(np.array(by_network)).high
    fanout = int(np.floor(np.log(40) + 1))
    sent = mean_of(emulated, 0, "messages_inside") / mean_of(emulated, 0, "reached")
    assert fanout - 1 <= sent <= fanout + 0.01
    assert sum(r.parasites or 0 for r in emulated) == 0


def test_real_nodes_do_what_the_simulator_does() -> None:
    emulated_as_simulated("unstructured", repetitions=20)


@pytest.mark.sweep
@pytest.mark.parametrize("mode", ["semi-structured", "structured"])
def test_real_nodes_do_what_the_simulator_does_in_the_modes_with_a_dht(mode: str) -> None:
    emulated_as_simulated(mode, repetitions=10, networks=12)
