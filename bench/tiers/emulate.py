"""The emulated tier: the real nodes on the virtual network, deterministic by seed.

A row builds one network, lets it settle, crashes what is to crash, waits until the tables are repaired, and
publishes its events one after another; then more crash, if there is more to its series. Latency is 5 to 50
ms. What the network costs is counted on the way: until all have joined, at rest, for each event; and how
long after crashes a table still names the dead. Events are also replayed over the tables
(bench.simulate.replay), if asked for.
"""

from __future__ import annotations

import asyncio
import random
import tempfile
from itertools import groupby
from pathlib import Path

from bench.experiment import Experiment
from bench.results import Measured, Result
from bench.simulate.replay import Snapshot, replay
from bench.tiers.population import Population, Turnover
from bench.traces import CommunityMembers, Observation, histories, read_trace, results_of
from overlay.virtual import Latency, Network

SETTLE_SECONDS = 15.0
"""Virtual time from the last join to the look at what nodes send at rest."""
REST_SECONDS = 10.0
"""How long that look takes; the first event is published after it. What nodes send at rest is asked of
networks with default parameters: others publish at once."""
REPAIR_SECONDS = 60.0
"""Virtual time from crashes to the next event, at least: those who keep a census have counted the living."""
REPAIRED_WITHIN = 180.0
"""How long the next event waits for the last table that names the dead, super-topic tables the last."""
LOOK_SECONDS = 1.0
"""Between two looks at whether a table still names the dead."""
IN_A_ROW = 5
"""Events that a process publishes before another one is drawn: lazy members tell by the first event of a
publisher along which links the others are to come."""
SPREAD_SECONDS = 1.0
"""Virtual time from one event to the next: a few times what an event takes. Later copies still count."""

Points = list[tuple[Experiment, list[Result]]]


def run(experiment: Experiment) -> Points:
    """Emulate an experiment: the results of each of its points; the same seed gives the same result."""
    return run_observed(experiment)[0]


def run_observed(experiment: Experiment) -> tuple[Points, list[list[Observation]]]:
    """The results, and for each point the events' histories with who was there at each publication."""
    network = Network(experiment.seed, latency=Latency.uniform(0.005, 0.050), loss=experiment.loss)
    with tempfile.TemporaryDirectory(prefix="camcast-traces-") as directory:
        population = Population(experiment, network, Path(directory))
        visit = _Visit(experiment, network, population)
        network.run(visit.run())
        rows = [row for path in population.traces() for row in read_trace(path)]
    events: list[list[Observation]] = [[] for _ in experiment.points()]
    for history, (index, members) in zip(histories(rows).values(), visit.published, strict=True):
        events[index].append((history, members))
    found: Points = []
    for index, (point, own) in enumerate(zip(experiment.points(), events, strict=True)):
        results: list[Result] = [*results_of(own), *visit.measured.get(index, ())]
        found.append((point, results))
    return found + visit.replayed, events


class _Visit:
    """One network from the first join to the last event."""

    def __init__(self, experiment: Experiment, network: Network, population: Population) -> None:
        self._experiment = experiment
        self._network = network
        self._population = population
        self._chance = random.Random(experiment.seed)
        self._rest_datagrams = self._rest_bytes = 0.0
        self.published: list[tuple[int, list[CommunityMembers]]] = []
        """For each event the index of the point that it belongs to, and who was there."""
        self.measured: dict[int, list[Measured]] = {}
        """By point, what is of no single event."""
        self.replayed: Points = []

    async def run(self) -> None:
        experiment, population = self._experiment, self._population
        points = list(enumerate(experiment.points()))
        async with population:
            await population.start()
            self._note(0, join_datagrams=self._network.stats.sent / sum(experiment.sizes))
            await asyncio.sleep(SETTLE_SECONDS)
            if experiment.failure != "churn" and not experiment.p_sel_series:
                await self._rest()
            if experiment.failure == "churn":
                async with Turnover(population, experiment.failed, self._chance):
                    await asyncio.sleep(SETTLE_SECONDS + REST_SECONDS)
                    await self._publish(points)
                return
            for failed, group in groupby(points, lambda point: point[1].failed):
                own = list(group)
                if failed:
                    await self._crash(failed, own[0][0])
                snapshot = population.snapshot()
                self._replay(own, snapshot)
                await self._publish(own)

    async def _rest(self) -> None:
        before = self._network.stats
        await asyncio.sleep(REST_SECONDS)
        after = self._network.stats
        self._rest_datagrams = (after.sent - before.sent) / REST_SECONDS
        self._rest_bytes = (after.sent_bytes - before.sent_bytes) / REST_SECONDS
        nodes = sum(self._experiment.sizes)
        uniformity = self._population.snapshot().uniformity()
        self._note(
            0,
            rest_datagrams=self._rest_datagrams / nodes,
            rest_bytes=self._rest_bytes / nodes,
            uniformity=uniformity,
        )

    async def _crash(self, failed: float, point: int) -> None:
        began = self._network.now
        self._population.crash(failed, self._chance)
        while self._network.now - began < REPAIRED_WITHIN:
            await asyncio.sleep(LOOK_SECONDS)
            if not self._population.names_the_dead():
                break
        repaired = self._network.now - began
        self._note(point, repair_seconds=repaired)
        await asyncio.sleep(max(0.0, REPAIR_SECONDS - repaired))

    def _replay(self, points: list[tuple[int, Experiment]], snapshot: Snapshot) -> None:
        if self._experiment.replays:
            for _, point in points:
                for asked in point.replayed():
                    self.replayed.append((asked, list(replay(asked, snapshot))))

    async def _publish(self, points: list[tuple[int, Experiment]]) -> None:
        """The events of the points in turn, counting who was there from its publication to its end."""
        population, stats = self._population, self._network.stats
        began, sent, sent_bytes = self._network.now, stats.sent, stats.sent_bytes
        churning = self._experiment.failure == "churn"
        before = population.members(population.snapshot())
        repetitions = points[0][1].repetitions
        for number in range(repetitions):
            for index, point in points:
                if churning:
                    before = population.members(population.snapshot())
                # The same chance draws the same publisher from the same members.
                chance = random.Random(
                    f"{self._experiment.seed}/{point.failed}/{number // IN_A_ROW}"
                )
                await population.publish(point.publish_level, point.p_sel, chance)
                await asyncio.sleep(SPREAD_SECONDS)
                self.published.append((index, population.still_there(before)))
        if len(points) == 1 and not churning and not points[0][1].failed:
            seconds, stats = self._network.now - began, self._network.stats
            datagrams = stats.sent - sent - seconds * self._rest_datagrams
            size = stats.sent_bytes - sent_bytes - seconds * self._rest_bytes
            self._note(
                points[0][0],
                event_datagrams=datagrams / repetitions,
                event_bytes=size / repetitions,
            )

    def _note(self, point: int, **metrics: float | None) -> None:
        known = {name: value for name, value in metrics.items() if value is not None}
        self.measured.setdefault(point, []).append(Measured(known))
