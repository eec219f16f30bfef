"""CAMCAST once more, as plainly as the paper's figure 8 reads: another opinion for the compiled one."""

from __future__ import annotations

import random
from dataclasses import dataclass

from bench.experiment import Experiment
from bench.simulate.runs import link_probability


@dataclass
class Found:
    """Rounds of first reception by process, and messages, by community."""

    rounds: list[dict[int, int]]
    alive: list[set[int]]
    sent: list[int]
    upward: list[int]
    received: list[int]


def run(experiment: Experiment, seed: int) -> Found:
    rng = random.Random(seed)
    sizes = experiment.sizes
    stillborn = experiment.failed if experiment.failure == "stillborn" else 0.0
    alive = [{p for p in range(n) if rng.random() >= stillborn} for n in sizes]
    publisher = rng.randrange(sizes[experiment.publish_level])
    alive[experiment.publish_level].add(publisher)
    none = [0] * len(sizes)
    found = Found([{} for _ in sizes], alive, none[:], none[:], none[:])
    found.rounds[experiment.publish_level][publisher] = 0
    forwarding = [(experiment.publish_level, publisher)]
    now = 0
    while forwarding:
        now += 1
        following: list[tuple[int, int]] = []
        for level, process in forwarding:
            for place, target in _targets(experiment, rng, level, process, found):
                if rng.random() < experiment.loss or target not in alive[place]:
                    continue
                found.received[place] += 1
                if target not in found.rounds[place]:
                    found.rounds[place][target] = now
                    following.append((place, target))
        forwarding = following
    return found


def _targets(
    experiment: Experiment, rng: random.Random, level: int, process: int, found: Found
) -> list[tuple[int, int]]:
    sizes = experiment.sizes
    suspicion = experiment.failed if experiment.failure == "weak" else 0.0
    steps = rng.sample(range(1, sizes[level]), experiment.fanout(sizes[level]))
    others = [(process + step) % sizes[level] for step in steps]
    inside = [target for target in others if rng.random() >= suspicion]
    found.sent[level] += len(inside)
    targets = [(level, target) for target in inside]
    if level + 1 < len(sizes) and rng.random() < link_probability(experiment, sizes[level]):
        table = rng.sample(range(sizes[level + 1]), min(experiment.z, sizes[level + 1]))
        for target in table:
            if rng.random() < experiment.a / experiment.z and rng.random() >= suspicion:
                found.upward[level] += 1
                targets.append((level + 1, target))
    return targets
