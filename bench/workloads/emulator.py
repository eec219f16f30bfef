"""What real nodes cost on the virtual network, in each mode: to join, at rest, and after a crash of 30 %.

The hierarchy of the paper's implementation, 118 nodes, or the same three levels at another size. Datagrams
are counted by what they carry. Seconds are of processor time; a node-second is one node living for one
second of virtual time.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.emulation.datagrams import DatagramCount
from bench.emulation.population import Population
from bench.experiment import Experiment
from bench.suites.settings import IMPLEMENTED, MODES
from bench.workloads.workload import Option, Row, Table, Workload, column
from overlay.virtual import Latency, Network

SETTLE_SECONDS = 120.0
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


def run(options: argparse.Namespace) -> Iterator[Row]:
    """Takes about a minute for 118 nodes in all modes."""
    for mode in options.modes:
        yield from _measure(mode, options.nodes)


def sizes_for(nodes: int) -> tuple[int, ...]:
    """Three communities, bottom first, in the proportion of the paper's implementation."""
    usual = IMPLEMENTED["sizes"]
    upper = [max(1, round(nodes * size / sum(usual))) for size in usual[1:]]
    return (nodes - sum(upper), *upper)


def _measure(mode: str, nodes: int) -> Iterator[Row]:
    experiment = Experiment(
        suite="speed",
        figure="emulator",
        tier="emulate",
        mode=mode,
        seed=1,
        balance=True,  # as nodes run by default
        **{**IMPLEMENTED, "sizes": sizes_for(nodes)},
    )
    network = Network(experiment.seed, latency=Latency.uniform(0.005, 0.050))
    count = DatagramCount()
    with tempfile.TemporaryDirectory(prefix="camcast-traces-") as directory, network.rule(count):
        population = Population(experiment, network, Path(directory))
        phases = network.run(_live(network, population, count))
    for phase in phases:
        joins = phase is phases[0]
        share = phase.nodes if joins else phase.nodes * phase.virtual
        unit = "datagrams/node" if joins else "datagrams/node-s"
        settings: dict[str, Any] = {"mode": mode, "nodes": nodes, "phase": phase.name}
        yield Row("emulator", settings, "datagrams", sum(phase.sent.values()) / share, unit)
        if not joins:
            yield Row("emulator", settings, "cpu", 1e3 * phase.processor / share, "ms/node-s")
        for kind, number in _most(phase.sent):
            own = settings | {"kind": kind}
            yield Row("emulator", own, "datagrams of a kind", number / share, unit)


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


def _most(sent: Counter[str]) -> list[tuple[str, int]]:
    """The kinds of datagrams that make most of what was sent, and the sum of the others."""
    listed = sent.most_common(SHOWN)
    others = sum(sent.values()) - sum(number for _, number in listed)
    return [*listed, ("others", others)] if others else listed


WORKLOAD = Workload(
    "emulator",
    "Emulated nodes",
    "What real nodes cost on the virtual network, in each mode: to join, at rest, and after a crash of 30 %.",
    (
        Option("nodes", sum(IMPLEMENTED["sizes"]), "how many, on three levels"),
        Option("modes", list(MODES), "which modes", choices=tuple(MODES)),
    ),
    run,
    (
        Table(
            "cost",
            "Datagrams of a node: for joining, and then a second of its life",
            {"mode": "mode", "nodes": "nodes", "phase": "phase"},
            (
                column("datagrams", "{:.1f}", "datagrams"),
                column("CPU ms a node-second", "{:.2f}", "cpu"),
            ),
        ),
        Table(
            "kinds",
            "The same by what the datagrams carry",
            {"mode": "mode", "nodes": "nodes", "phase": "phase", "kind": "datagrams with"},
            (column("datagrams", "{:.2f}", "datagrams of a kind"),),
        ),
    ),
    quick_seconds=90,
)
