"""CAMCAST once more, as plainly as the paper's figure 8 reads: another opinion for the compiled one."""

from __future__ import annotations

import random
from dataclasses import dataclass

from bench.simulate import SimulationSettings


@dataclass
class Found:
    """Rounds of first reception by process, and messages, by community."""

    rounds: list[dict[int, int]]
    alive: list[set[int]]
    sent: list[int]
    upward: list[int]
    received: list[int]


def run(settings: SimulationSettings, seed: int) -> Found:
    rng = random.Random(seed)
    sizes = settings.community_sizes
    alive = [{p for p in range(n) if rng.random() >= settings.stillborn} for n in sizes]
    publisher = rng.randrange(sizes[settings.publish_level])
    alive[settings.publish_level].add(publisher)
    none = [0] * len(sizes)
    found = Found([{} for _ in sizes], alive, none[:], none[:], none[:])
    found.rounds[settings.publish_level][publisher] = 0
    forwarding = [(settings.publish_level, publisher)]
    now = 0
    while forwarding:
        now += 1
        following: list[tuple[int, int]] = []
        for level, process in forwarding:
            for place, target in _targets(settings, rng, level, process, found):
                if rng.random() < settings.loss or target not in alive[place]:
                    continue
                found.received[place] += 1
                if target not in found.rounds[place]:
                    found.rounds[place][target] = now
                    following.append((place, target))
        forwarding = following
    return found


def _targets(
    settings: SimulationSettings, rng: random.Random, level: int, process: int, found: Found
) -> list[tuple[int, int]]:
    sizes = settings.community_sizes
    steps = rng.sample(range(1, sizes[level]), settings.fanout(sizes[level]))
    others = [(process + step) % sizes[level] for step in steps]
    inside = [target for target in others if rng.random() >= settings.suspicion]
    found.sent[level] += len(inside)
    targets = [(level, target) for target in inside]
    if level + 1 < len(sizes) and rng.random() < settings.link_probability(sizes[level]):
        table = rng.sample(range(sizes[level + 1]), min(settings.z, sizes[level + 1]))
        for target in table:
            if rng.random() < settings.a / settings.z and rng.random() >= settings.suspicion:
                found.upward[level] += 1
                targets.append((level + 1, target))
    return targets
