"""What real nodes cost on the virtual network, in each mode: to join, at rest, after mass crashes and joins.

The hierarchy of the paper's implementation, 118 nodes, or the same three levels at another size. A run goes
through these stages, or those that are asked for:

- join: all nodes join; then, if asked for, events are published and traced;
- rest: five minutes later, for two minutes, what a node sends in a second when nothing happens;
- crash: 30 % of each community crash in the same instant;
- joins: as many new nodes as crashed join in the same instant;
- light: what a light member sends at rest, one that uses the DHT without being part of it;
- heal, only if asked for: how long after a partition events reach everyone again.

After crash and joins, the busiest second is shown, and how long it took until the traffic was back at rest.
With `--kinds` every datagram is looked into and counted by what it carries. Processor time is this
process's; a node-second is one node living for one second of virtual time.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import resource
import statistics
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.experiment import Experiment
from bench.players import allow_files
from bench.suites.built_in import COMPARED, DEFAULTS, IMPLEMENTED, MODES, variant
from bench.tiers.population import DatagramCount, Population
from bench.traces import histories, trace_rows
from bench.workloads.workload import Option, Row, RowTable, Values, Workload, rows_of
from overlay.dht import DhtConfig
from overlay.membership.modes import MODES as MODES_OF_NODES
from overlay.virtual import Latency, Network

STAGES = ("join", "rest", "crash", "joins", "light")
"""Of one network, one after another."""
HEAL = "heal"
"""Another stage, of networks of its own."""
SETTLE_SECONDS = 300.0
"""Virtual time from the last join to the first second that counts as rest: by then leases are renewed, which
all begin together, and which are a part of the traffic at rest."""
REST_SECONDS = 120.0
SHAKEN = 0.3
"""The part of all nodes that crash, and that join, in the same instant."""
WATCH_SECONDS = 120
"""How long the traffic is watched after that."""
WINDOW_SECONDS = 10
"""The traffic of one second is the mean over this many seconds, when it is compared with that at rest."""
NEAR_REST = 1.5
"""Traffic of up to this many times that at rest is taken for rest."""
LIGHT_MEMBERS = 10
CUT_SECONDS = (60.0, 600.0)
"""How long partitions last."""
HEALED_NETWORKS = 3
"""Of each length."""
TELL_SECONDS = 5.0
"""Virtual time between two lines that tell how many have joined."""
SPREAD_SECONDS = 0.5
"""Virtual time from one event to the next."""
SHOWN = 12
"""Kinds of datagrams that are listed; the others are added up."""


@dataclass(frozen=True, slots=True)
class _Phase:
    """What was sent in one part of the run, by how many nodes, and what it cost."""

    name: str
    sent: int
    kinds: Counter[str]
    nodes: int
    virtual: float
    processor: float | None
    """None for a part of the nodes: it cannot be told apart."""
    peak: float | None = None
    """Datagrams a node in the busiest second."""
    back_at_rest: float | None = None
    """Seconds until the traffic was near rest and stayed there; None: it was not, or was not watched."""

    @property
    def is_join(self) -> bool:
        return self.name == "join"


def run(options: argparse.Namespace) -> Iterator[Row]:
    """Takes about a minute for 118 nodes in all modes."""
    allow_files()  # every node writes a trace of its own
    for nodes in options.nodes:
        for mode in options.modes:
            if set(STAGES) & set(options.stages):
                yield from _Measurement(mode, nodes, options).rows()
            if HEAL in options.stages:
                yield from _healing(mode, nodes, options.seed)


def sizes_for(nodes: int) -> tuple[int, ...]:
    """Three communities, bottom first, in the proportion of the paper's implementation."""
    usual = IMPLEMENTED["sizes"]
    upper = [max(1, round(nodes * size / sum(usual))) for size in usual[1:]]
    return (nodes - sum(upper), *upper)


class _Measurement:
    """One network through its stages."""

    def __init__(self, mode: str, nodes: int, options: argparse.Namespace) -> None:
        self._settings: dict[str, Any] = {"mode": mode, "nodes": nodes}
        self._experiment = Experiment(
            suite="speed",
            figure="emulator",
            tier="emulate",
            mode=mode,
            seed=options.seed,
            balance=True,  # as nodes run by default
            **{**IMPLEMENTED, "sizes": sizes_for(nodes)},
        )
        self._stages: Sequence[str] = options.stages
        self._events: int = options.events
        self._network = Network(options.seed, latency=Latency.uniform(0.005, 0.050))
        self._count = DatagramCount() if options.kinds else None
        self._chance = random.Random(options.seed)
        self._phases: list[_Phase] = []
        self._began = (0, 0.0, 0.0)

    def rows(self) -> Iterator[Row]:
        with (
            tempfile.TemporaryDirectory(prefix="camcast-traces-") as directory,
            ExitStack() as stack,
        ):
            if self._count is not None:
                stack.enter_context(self._network.rule(self._count))
            population = Population(self._experiment, self._network, Path(directory))
            wall, processor = time.perf_counter(), time.process_time()
            self._network.run(self._live(population))
            wall, processor = time.perf_counter() - wall, time.process_time() - processor
            had = nodes_reached(population) if self._events else []
            yield from self._whole(wall, processor, had)
        for phase in self._phases:
            yield from self._rows_of(phase)

    def _whole(self, wall: float, processor: float, had: list[int]) -> Iterator[Row]:
        settings = self._settings | {"stages": " ".join(self._stages), "events": self._events}
        found: Values = {
            "wall": (wall, "s"),
            "processor": (processor, "s"),
            "memory": (_memory(), "GiB"),
        }
        if had:  # the part of the first nodes, on average over the events
            found["reached"] = (100 * statistics.mean(had) / sum(self._experiment.sizes), "%")
        yield from rows_of(settings, found)

    def _rows_of(self, phase: _Phase) -> Iterator[Row]:
        share = phase.nodes if phase.is_join else phase.nodes * phase.virtual
        unit = "datagrams/node" if phase.is_join else "datagrams/node-s"
        settings = self._settings | {"phase": phase.name}
        found: Values = {"datagrams": (phase.sent / share, unit)}
        if phase.processor is not None:
            node_seconds = phase.nodes * phase.virtual / (2 if phase.is_join else 1)
            found["cpu"] = (1e3 * phase.processor / node_seconds, "ms/node-s")
            found["each"] = (1e6 * phase.processor / max(phase.sent, 1), "us")
        if phase.peak is not None:
            found["peak"] = (phase.peak, "datagrams/node-s")
        if phase.back_at_rest is not None:
            found["back at rest"] = (phase.back_at_rest, "s")
        yield from rows_of(settings, found)
        for kind, number in _most(phase.kinds):
            own = settings | {"kind": kind}
            yield Row(own, "datagrams of a kind", number / share, unit)

    async def _live(self, population: Population) -> None:
        has_dht = any(
            name == self._experiment.mode and mode.contacts == "dht"
            for name, mode in MODES_OF_NODES.items()
        )
        self._begin()
        async with population:
            telling = asyncio.create_task(self._tell(population))
            await population.start()
            telling.cancel()
            self._end("join", population)
            if self._events:
                await self._publish(population)
            if {"rest", "crash", "joins", "light"} & set(self._stages):
                await asyncio.sleep(SETTLE_SECONDS)
                self._end(f"the next {SETTLE_SECONDS:g} s", population)
                await asyncio.sleep(REST_SECONDS)
                self._end("rest", population)
            if "crash" in self._stages:
                population.crash(SHAKEN, self._chance)
                await self._watch(f"crash of {SHAKEN:.0%}", population)
            if "joins" in self._stages:
                await self._mass_joins(population)
            if "light" in self._stages and has_dht:
                await self._light_members(population)

    async def _tell(self, population: Population) -> None:
        """Tell on stderr how the joins go on: thousands take minutes."""
        while True:
            await asyncio.sleep(TELL_SECONDS)
            self._say(f"{len(population.hosts())} have joined")

    def _say(self, what: str) -> None:
        so_far = f"{time.process_time():.0f} s of processor time, {_memory():.2f} GiB so far"
        named = f"{self._settings['mode']}, {self._settings['nodes']} nodes"
        print(f"{named}: {what}; {so_far}", file=sys.stderr, flush=True)

    async def _publish(self, population: Population) -> None:
        for _ in range(self._events):
            await population.publish(0, None, self._chance)
            await asyncio.sleep(SPREAD_SECONDS)
        self._end(f"{self._events} events", population)

    async def _mass_joins(self, population: Population) -> None:
        levels = [
            level
            for level, size in enumerate(self._experiment.sizes)
            for _ in range(round(SHAKEN * size))
        ]
        joining = asyncio.gather(*(population.join(level) for level in levels))
        await self._watch(f"joins of {SHAKEN:.0%}", population)
        await joining

    async def _light_members(self, population: Population) -> None:
        before = {host for host, _ in population.hosts()}
        for _ in range(LIGHT_MEMBERS):
            await population.join(0, dht=DhtConfig(serve=False))
        light = frozenset(host for host, _ in population.hosts() if host not in before)
        await asyncio.sleep(SETTLE_SECONDS)
        began = self._sent_by(light)
        if self._count is not None:
            self._count.take()
            self._count.only = light
        await asyncio.sleep(REST_SECONDS)
        sent = self._sent_by(light) - began
        kinds = self._kinds()
        self._phases.append(
            _Phase("rest, a light member", sent, kinds, LIGHT_MEMBERS, REST_SECONDS, None)
        )

    def _sent_by(self, hosts: Iterable[str]) -> int:
        stats = self._network.stats.hosts
        return sum(stats[host].sent for host in hosts)

    def _kinds(self) -> Counter[str]:
        return self._count.take() if self._count is not None else Counter()

    async def _watch(self, name: str, population: Population) -> None:
        """Look at the traffic second by second."""
        rest = next(phase for phase in self._phases if phase.name == "rest")
        seconds: list[int] = []
        before = self._network.stats.sent
        for _ in range(WATCH_SECONDS):
            await asyncio.sleep(1.0)
            sent = self._network.stats.sent
            seconds.append(sent - before)
            before = sent
        nodes = len(population.hosts())
        at_rest = rest.sent / rest.nodes / rest.virtual * nodes
        back = time_until_rest(seconds, NEAR_REST * at_rest)
        self._end(name, population, max(seconds) / nodes, back)

    def _begin(self) -> None:
        self._began = (self._network.stats.sent, self._network.now, time.process_time())

    def _end(
        self,
        name: str,
        population: Population,
        peak: float | None = None,
        back_at_rest: float | None = None,
    ) -> None:
        sent, began, processor = self._began
        self._begin()
        self._phases.append(
            _Phase(
                name,
                self._began[0] - sent,
                self._kinds(),
                len(population.hosts()),
                self._began[1] - began,
                self._began[2] - processor,
                peak,
                back_at_rest,
            )
        )
        self._say(f"measured: {name}")


def _memory() -> float:
    """GiB that this process has had at most."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20


def time_until_rest(seconds: Sequence[int], near_rest: float) -> float | None:
    """After how many seconds the traffic stays at `near_rest` datagrams a second or less; None: not at all.

    `seconds`: the datagrams of each second from the disturbance on."""
    last = -1
    for start in range(len(seconds) - WINDOW_SECONDS + 1):
        if sum(seconds[start : start + WINDOW_SECONDS]) > near_rest * WINDOW_SECONDS:
            last = start
    if last == len(seconds) - WINDOW_SECONDS:
        return None
    return 0.0 if last < 0 else float(last + WINDOW_SECONDS)


def _most(sent: Counter[str]) -> list[tuple[str, int]]:
    """The kinds of datagrams that make most of what was sent, and the sum of the others."""
    listed = sent.most_common(SHOWN)
    others = sum(sent.values()) - sum(number for _, number in listed)
    return [*listed, ("others", others)] if others else listed


# Partitions: how long after one has healed events reach everyone again.

BEFORE_CUT_SECONDS = 60.0
"""Virtual time from the last join to the partition."""
CUT_EVENT_SECONDS = 10.0
"""Virtual time from one event to the next while the network is cut in two."""
EVENT_SECONDS = 1.0
"""The same from the end of the partition on."""
EVENTS = 30
"""How many are published after that."""
LAST_SPREADS_SECONDS = 10.0
"""How long the last of them is given to reach everyone."""


def _healing(mode: str, nodes: int, seed: int) -> Iterator[Row]:
    """Partitions, each of a network of its own; a value is left out where one did not heal."""
    for cut in CUT_SECONDS:
        settings: dict[str, Any] = {"mode": mode, "nodes": nodes, "cut": cut}
        seeds = range(seed, seed + HEALED_NETWORKS)
        found = [seconds_until_healed(mode, sizes_for(nodes), cut, one) for one in seeds]
        healed = [seconds for seconds in found if seconds is not None]
        values: Values = {"healed": (len(healed), "networks")}
        if len(healed) == len(found):
            values["heal"] = (statistics.median(healed), "s")
            values["slowest"] = (max(healed), "s")
        yield from rows_of(settings, values)


def seconds_until_healed(
    mode: str, sizes: tuple[int, ...], cut_seconds: float, seed: int
) -> float | None:
    """From the end of a partition, the seconds after which every event that is published reaches everyone.

    Half of each community is cut off from the other half. Nodes have default settings. Events come from
    random members of the lowest community, and everyone in it and in those above is to have them. None: even
    the last event missed somebody."""
    settings = DEFAULTS | variant("shipped") | {"mode": mode, "sizes": sizes, "seed": seed}
    experiment = Experiment(suite="speed", figure="emulator", tier="emulate", **settings)
    network = Network(seed, latency=Latency.uniform(0.005, 0.050))
    with tempfile.TemporaryDirectory(prefix="camcast-traces-") as directory:
        population = Population(experiment, network, Path(directory))
        before = round(cut_seconds / CUT_EVENT_SECONDS)
        network.run(_partitioned(population, network, before, random.Random(seed)))
        reached = nodes_reached(population)[before:]
    missed = [number for number, nodes in enumerate(reached) if nodes < sum(sizes)]
    healed = missed[-1] + 1 if missed else 0
    return healed * EVENT_SECONDS if healed < EVENTS else None


async def _partitioned(
    population: Population, network: Network, before: int, chance: random.Random
) -> None:
    """Publish `before` events while the network is cut in two, and others when it is whole again."""

    async def publish(events: int, interval: float) -> None:
        for _ in range(events):
            await population.publish(0, None, chance)
            await asyncio.sleep(interval)

    async with population:
        await population.start()
        await asyncio.sleep(BEFORE_CUT_SECONDS)
        hosts = [host for host, _ in population.hosts()]  # those of each community are side by side
        network.partition(hosts[::2], hosts[1::2])
        await publish(before, CUT_EVENT_SECONDS)
        network.heal()
        await publish(EVENTS, EVENT_SECONDS)
        await asyncio.sleep(LAST_SPREADS_SECONDS)


def nodes_reached(population: Population) -> list[int]:
    """How many nodes had each event, by their traces."""
    rows = (
        row
        for path in population.traces()
        for row in trace_rows(path)
        if row["kind"] in ("publish", "receive")
    )
    return [
        sum(len(copies.had) for copies in history.communities.values())
        for history in histories(rows).values()
    ]


WORKLOAD = Workload(
    "emulator",
    "Emulated nodes",
    "What real nodes cost on the virtual network, in each mode: datagrams to join, at rest, after a crash"
    " of 30 % and after mass joins, and processor time; and how soon events reach everyone after partitions.",
    (
        Option("nodes", [118, 1000], "how many, on three levels", quick=[118]),
        Option("modes", list(MODES), "which modes", choices=tuple(COMPARED)),
        Option("stages", list(STAGES), "which parts of the run", choices=(*STAGES, HEAL)),
        Option("events", 0, "events that are published after the joins, and traced"),
        Option("kinds", False, "count datagrams by what they carry"),
        Option("seed", 1, "the network's"),
    ),
    run,
    (
        RowTable(
            "cost",
            "Datagrams of a node: for joining, and then a second of its life",
            {"mode": "mode", "nodes": "nodes", "phase": "phase"},
            {
                "datagrams": "{datagrams:.2f}",
                "busiest second": "{peak:.1f}",
                "s until rest": "{back at rest:.0f}",
                "CPU ms a node-second": "{cpu:.2f}",
                "CPU us a datagram": "{each:.0f}",
            },
            "A dash under `s until rest` beside a busiest second: the traffic was not at rest two minutes"
            " later.",
        ),
        RowTable(
            "healing",
            "After a partition: from its end on, the seconds after which every event reaches everyone",
            {"mode": "mode", "nodes": "nodes", "cut": "partition, s"},
            {
                "median, s": "{heal:.0f}",
                "slowest, s": "{slowest:.0f}",
                "networks healed": "{healed:.0f}",
            },
            "Half of each community is cut off from the other half; one event a second. A dash: some networks"
            " had not healed half a minute later.",
        ),
        RowTable(
            "whole",
            "The whole run",
            {"mode": "mode", "nodes": "nodes", "stages": "stages", "events": "events"},
            {
                "seconds": "{wall:.1f}",
                "CPU s": "{processor:.1f}",
                "GiB at most so far": "{memory:.2f}",
                "% of nodes that events reached": "{reached:.2f}",
            },
        ),
        RowTable(
            "kinds",
            "The same by what the datagrams carry",
            {"mode": "mode", "nodes": "nodes", "phase": "phase", "kind": "datagrams with"},
            {
                "datagrams": "{datagrams of a kind:.3f}",
            },
        ),
    ),
    quick_seconds=60,
)
