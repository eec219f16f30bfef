"""A verdict flips when a parameter is broken on purpose, and what was run is taken for what was asked for."""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Callable, Iterable
from typing import Any

import pytest

from bench import tiers
from bench.aggregates import Aggregates
from bench.claims import CLAIMS, Verdict
from bench.experiment import Experiment
from bench.results import Result, table
from bench.simulate.replay import ReplayedMember, Snapshot, replay
from bench.suites import expand
from bench.suites.built_in import DEFAULT, DEFAULTS, SIMULATED, TOPOLOGIES, variant
from tests.bench.by_hand import summarise

Points = list[tuple[Experiment, list[Result]]]


def decided(name: str, found: Iterable[tuple[Experiment, Points]]) -> Verdict:
    """The verdict on a claim, from what tiers gave: rows, then aggregates, as in a run."""
    rows = [row for one, points in found for row in table(one, points, 0.0).to_pylist()]
    claim = next(claim for claim in CLAIMS if claim.name == name)
    return claim.evidence(Aggregates(summarise(rows)))


def run_broken(experiment: Experiment, broken: dict[str, Any]) -> Points:
    """What a tier gives that has other parameters than it was asked for."""
    [(_, results)] = tiers.run(dataclasses.replace(experiment, **broken))
    return [(experiment, results)]


def table_2(broken: dict[str, Any]) -> list[tuple[Experiment, Points]]:
    found = []
    for topology in TOPOLOGIES:
        root = {**SIMULATED, "sizes": topology, "publish_level": len(topology) - 1}
        found += expand("broken", "table-2", tier="simulate", protocol="broadcast", **root)
    found = [dataclasses.replace(one, repetitions=40) for one in found]
    return [(one, run_broken(one, broken)) for one in found]


def table_1(broken: dict[str, Any]) -> list[tuple[Experiment, Points]]:
    shared = {**SIMULATED, "sizes": TOPOLOGIES, "repetitions": 40}
    found = expand("broken", "table-1", tier="simulate", protocol="broadcast", **shared)
    return [(one, run_broken(one, broken)) for one in found]


@pytest.mark.parametrize(
    ("claim", "measure", "broken"),
    [("table-2", table_2, {"c": 0.0}), ("table-1-broadcast", table_1, {"loss": 0.5})],
)
def test_a_verdict_flips_when_a_parameter_is_broken(
    claim: str,
    measure: Callable[[dict[str, Any]], list[tuple[Experiment, Points]]],
    broken: dict[str, Any],
) -> None:
    assert decided(claim, measure({})).holds is True
    assert decided(claim, measure(broken)).holds is False


SIZES = (40, 15, 7)


def drawn(seed: int, chance_of: Callable[[int], float]) -> Snapshot:
    """A network whose tables are drawn: member k of a community with the weight `chance_of(k)`."""
    chance = random.Random(seed)
    communities = []
    for level, size in enumerate(SIZES):
        members = []
        for own in range(size):
            others = [other for other in range(size) if other != own]
            above = list(range(SIZES[level + 1])) if level + 1 < len(SIZES) else []
            entries = min(size - 1, 9)
            members.append(
                ReplayedMember(
                    id=f"{level}/{own}",
                    address=f"{level}/{own}",
                    size=float(size),
                    table=tuple(
                        f"{level}/{k}" for k in weighted(chance, others, chance_of, entries)
                    ),
                    supers=tuple(f"{level + 1}/{k}" for k in weighted(chance, above, chance_of, 3)),
                )
            )
        communities.append(tuple(members))
    return Snapshot(tuple(communities))


def weighted(
    chance: random.Random, among: list[int], chance_of: Callable[[int], float], count: int
) -> list[int]:
    """Drawn without repetition: the largest of u ** (1 / weight)."""
    keyed = sorted(among, key=lambda one: chance.random() ** (1 / chance_of(one)))
    return keyed[len(keyed) - min(count, len(keyed)) :]


@pytest.mark.parametrize(
    ("chance_of", "holds"),
    [(lambda k: 1.0, True), (lambda k: 0.03 if k % 3 == 0 else 1.0, False)],
    ids=["uniform", "biased"],
)
def test_a_biased_sampler_leaves_the_formula(
    chance_of: Callable[[int], float], holds: bool
) -> None:
    shared = {**DEFAULTS, "sizes": SIZES, "failure": "repaired"}
    [formula] = expand("broken", DEFAULT, tier="model", **shared)
    found: list[tuple[Experiment, Points]] = [(formula, tiers.run(formula))]
    for number in range(7):
        real = {**shared, "network": number, "mode": "structured", "replays": 4000}
        [one] = expand("broken", DEFAULT, tier="replay", **real, **variant("published"))
        found.append((one, [(one, list(replay(one, drawn(number, chance_of))))]))
    assert decided("reliability", found).holds is holds
