"""How fast real nodes run on the virtual network, in each mode: joining, and once they have joined.

The hierarchy of the paper's implementation, 118 nodes. A virtual node-second is one node living for one
second of virtual time. Seconds are of processor time.
"""

from __future__ import annotations

import asyncio
import random
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from bench.emulation.population import Population
from bench.experiment import Experiment
from bench.micro.measurement import Measurement
from bench.suites.settings import IMPLEMENTED, MODES
from overlay.virtual import Latency, Network

EVENTS = 10
EVENT_SECONDS = 2.0
"""Virtual time from one event to the next."""


@dataclass(frozen=True, slots=True)
class _Moment:
    processor: float
    virtual: float
    datagrams: int


def measure() -> list[Measurement]:
    """Takes about a minute."""
    return [measurement for mode in MODES for measurement in _measure(mode)]


def _measure(mode: str) -> list[Measurement]:
    experiment = Experiment(
        suite="micro", figure="emulator", tier="emulate", mode=mode, seed=1, **IMPLEMENTED
    )
    network = Network(experiment.seed, latency=Latency.uniform(0.005, 0.050))
    with tempfile.TemporaryDirectory(prefix="camcast-traces-") as directory:
        population = Population(experiment, network, Path(directory))
        moments = network.run(_live(network, population))
    nodes = sum(experiment.sizes)
    began, joined, ended = moments
    lived = nodes * (ended.virtual - joined.virtual)
    seconds = ended.processor - joined.processor
    sent = ended.datagrams - joined.datagrams
    return [
        Measurement(
            f"{mode}, join",
            nodes / (joined.processor - began.processor),
            "nodes/s",
            f"{joined.datagrams / nodes:.0f} datagrams a node",
        ),
        Measurement(
            f"{mode}, joined",
            lived / seconds,
            "node-seconds/s",
            f"{sent / lived:.1f} datagrams a node-second, an event every {EVENT_SECONDS:g} s",
        ),
        Measurement(f"{mode}, joined", sent / seconds, "datagrams/s"),
    ]


async def _live(network: Network, population: Population) -> list[_Moment]:
    chance = random.Random(1)
    moments = [_moment(network)]
    async with population:
        await population.start()
        moments.append(_moment(network))
        for _ in range(EVENTS):
            await population.publish(0, None, chance)
            await asyncio.sleep(EVENT_SECONDS)
        moments.append(_moment(network))
    return moments


def _moment(network: Network) -> _Moment:
    return _Moment(time.process_time(), network.now, network.stats.sent)
