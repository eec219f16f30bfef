"""What real nodes cost on the virtual network, in each mode: to join, at rest, and after a crash of 30 %.

The hierarchy of the paper's implementation, 118 nodes, or the same three levels at another size. Datagrams
are counted by what they carry. Seconds are of processor time; a node-second is one node living for one
second of virtual time.
"""

from __future__ import annotations

import asyncio
import random
import tempfile
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from bench.emulation.datagrams import DatagramCount
from bench.emulation.population import Population
from bench.experiment import Experiment
from bench.micro.measurement import Measurement
from bench.suites.settings import IMPLEMENTED, MODES
from overlay.virtual import Latency, Network

SETTLE_SECONDS = 60.0
"""Virtual time from the last join to the first second that counts as rest."""
REST_SECONDS = 30.0
CRASHED = 0.3
REPAIR_SECONDS = 60.0
"""Virtual time from the crash until the rest is measured again."""
SHOWN = 12
"""Kinds of datagrams that are listed; the others are added up."""


@dataclass(frozen=True, slots=True)
class _Phase:
    """What was sent in one part of the run, by how many nodes, and what it cost."""

    name: str
    sent: Counter[str]
    nodes: int
    virtual: float
    processor: float


def measure(nodes: int = sum(IMPLEMENTED["sizes"])) -> list[Measurement]:
    """Takes about a minute for 118 nodes."""
    return [measurement for mode in MODES for measurement in _measure(mode, nodes)]


def sizes_for(nodes: int) -> tuple[int, ...]:
    """Three communities, bottom first, in the proportion of the paper's implementation."""
    usual = IMPLEMENTED["sizes"]
    upper = [max(1, round(nodes * size / sum(usual))) for size in usual[1:]]
    return (nodes - sum(upper), *upper)


def _measure(mode: str, nodes: int) -> list[Measurement]:
    experiment = Experiment(
        suite="micro",
        figure="emulator",
        tier="emulate",
        mode=mode,
        seed=1,
        **{**IMPLEMENTED, "sizes": sizes_for(nodes)},
    )
    network = Network(experiment.seed, latency=Latency.uniform(0.005, 0.050))
    count = DatagramCount()
    with tempfile.TemporaryDirectory(prefix="camcast-traces-") as directory, network.rule(count):
        population = Population(experiment, network, Path(directory))
        phases = network.run(_live(network, population, count))
    join, *later = phases
    found = _listed(mode, join, join.nodes, "datagrams/node")
    for phase in later:
        found += _listed(mode, phase, phase.nodes * phase.virtual, "datagrams/node-s")
        cost = 1e3 * phase.processor / (phase.nodes * phase.virtual)
        found.append(Measurement(f"{mode}, {phase.name}", cost, "CPU ms/node-s"))
    return found


async def _live(network: Network, population: Population, count: DatagramCount) -> list[_Phase]:
    chance = random.Random(1)
    phases: list[_Phase] = []
    began = [network.now, time.process_time()]

    def end_phase(name: str) -> None:
        now, processor = network.now, time.process_time()
        nodes = len(population.hosts())
        phases.append(_Phase(name, count.take(), nodes, now - began[0], processor - began[1]))
        began[:] = now, processor

    async with population:
        await population.start()
        end_phase("to join")
        await asyncio.sleep(SETTLE_SECONDS)
        end_phase(f"first {SETTLE_SECONDS:g} s")
        await asyncio.sleep(REST_SECONDS)
        end_phase("at rest")
        population.crash(CRASHED, chance)
        await asyncio.sleep(REPAIR_SECONDS)
        end_phase(f"{REPAIR_SECONDS:g} s after a crash of {CRASHED:.0%}")
        await asyncio.sleep(REST_SECONDS)
        end_phase("at rest again")
    return phases


def _listed(mode: str, phase: _Phase, share: float, unit: str) -> list[Measurement]:
    """The sum, and the kinds of datagrams that make most of it."""
    name = f"{mode}, {phase.name}"
    found = [Measurement(name, sum(phase.sent.values()) / share, unit)]
    listed = phase.sent.most_common(SHOWN)
    found += [Measurement(f"    {kind}", number / share, unit) for kind, number in listed]
    others = sum(phase.sent.values()) - sum(number for _, number in listed)
    if others:
        found.append(Measurement("    others", others / share, unit))
    return found
