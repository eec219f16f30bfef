"""The live tier: the real nodes in real processes over UDP, read from their traces.

A row builds one network, lets it settle, kills what is to crash, waits until the tables are repaired, and
publishes its events one after another, those of a series of p_sel in turn. The processes are on this machine,
or one on each of some executors of Spark (`bench.spark.executor`). Nothing is made to be lost; events travel
over channels. Times depend on the machines and their load: nothing here is the same twice.
"""

from __future__ import annotations

import asyncio
import random
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, NamedTuple

from bench.experiment import Experiment, ExperimentError
from bench.players import Line, Players, answers, ask_all
from bench.results import Result
from bench.tiers.hierarchy import (
    GATEWAYS,
    Introductions,
    node_settings,
    tables_of,
    topics,
)
from bench.traces import CommunityMembers, Observation, histories, read_trace, results_of
from overlay.contact import Address
from overlay.session import new_key
from pubsub import Node

SETTLE_SECONDS = {"eager": 25.0, "lazy": 2.0}
"""The most that tables may take to fill after the last join, by the dissemination: lazy members fetch what
they hear of, so that tables need not have come to rest."""
REPAIR_SECONDS = 45.0
"""The most that they may take to be repaired after a crash."""
STEADY_SECONDS = 1.0
"""Gossiped tables that have not changed for this many seconds have come to rest."""
SPREAD_SECONDS = 10.0
"""The most that an event may take to spread before the next one is published."""
SILENT_SECONDS = 0.4
"""An event has spread when no copy of it has arrived anywhere for this many seconds; later copies still
count."""


def run(experiment: Experiment) -> list[tuple[Experiment, list[Result]]]:
    """Run an experiment on this machine; `ExperimentError` when loopback cannot do what it asks for."""
    return run_observed(experiment)[0]


def run_observed(
    experiment: Experiment, lines: Sequence[Line] = (), host: str = "127.0.0.1"
) -> tuple[list[tuple[Experiment, list[Result]]], list[list[Observation]]]:
    """The results, and for each point the events' histories with who was there at each publication.

    `lines`: processes on other machines that are to hold the nodes (`bench.tiers.live.hold`)."""
    observed = _observe(experiment, lines, host)
    points = zip(experiment.points(), observed, strict=True)
    return [(point, list(results_of(events))) for point, events in points], observed


def _observe(experiment: Experiment, lines: Sequence[Line], host: str) -> list[list[Observation]]:
    if experiment.loss:
        raise ExperimentError(
            f"the live tier loses nothing, so loss must be 0, not {experiment.loss:g}: "
            "use the tier emulate for a network with loss"
        )
    chance = random.Random(experiment.seed)
    with LivePopulation(experiment, chance, lines, host) as population:
        population.start()
        members = _events(experiment, population, chance)
        rows = population.close()
    events: list[Observation] = list(zip(histories(rows).values(), members, strict=True))
    points = len(experiment.points())
    return [events[point::points] for point in range(points)]


def _events(
    experiment: Experiment, population: LivePopulation, chance: random.Random
) -> list[list[CommunityMembers]]:
    population.wait_for_tables(STEADY_SECONDS, SETTLE_SECONDS[experiment.dissemination])
    if experiment.failed:
        population.crash()
        population.wait_for_repaired_tables(REPAIR_SECONDS)
    members = []
    for _ in range(experiment.repetitions):
        for point in experiment.points():
            members.append(population.members())
            population.publish(point.publish_level, point.p_sel, chance)
            population.wait_for_silence(SILENT_SECONDS, SPREAD_SECONDS)
    return members


# A process that holds nodes and does what the conductor of a live run tells it over a pipe; it ends when the
# pipe does. Every order is answered once; the first answer comes unasked, when the process is up.


class Newcomer(NamedTuple):
    """A node that is to join a community; `number` names it from then on."""

    number: int
    topic: str
    settings: dict[str, Any]


async def hold(pipe: Connection, host: str, directory: str) -> None:
    """The process's main function; its nodes listen at `host`, and their traces are in `directory`, where
    nothing else is."""
    pipe.send("ready")
    holder = Holder(host, Path(directory))
    while (order := await asyncio.to_thread(pipe.recv)) is not None:
        name, *arguments = order
        pipe.send(await getattr(holder, name)(*arguments))
        if name == "close":
            return


class Holder:
    """The nodes of this process, by number. Its methods are the orders; what they return is the answer."""

    def __init__(self, host: str, directory: Path) -> None:
        self._host = host
        self._directory = directory
        """For the traces of the nodes."""
        self._nodes: dict[int, Node] = {}
        self._topics: dict[int, str] = {}
        self._stacks: list[AsyncExitStack] = []

    async def join(self, newcomers: Sequence[Newcomer]) -> dict[int, tuple[str, str]]:
        """Start nodes, all at once; their ids and addresses, when all have joined."""
        return dict(await asyncio.gather(*map(self._join, newcomers)))

    async def publish(self, number: int, upward: float | None) -> None:
        """Publish an event from a node; answered when its copies have been sent."""
        await self._nodes[number].publish(self._topics[number], "event", upward=upward)

    async def look(self) -> dict[int, list[str]]:
        """What each node's tables hold now."""
        found = {}
        for number, node in self._nodes.items():
            _, table, supers = tables_of(node, self._topics[number])
            found[number] = [*table, *supers]
        return found

    async def settle(self, quiet: float, at_most: float) -> None:
        """Answered when no node has received a copy of an event for `quiet` seconds, or `at_most` have
        passed."""
        end, is_at_rest = time.monotonic() + at_most, _Unchanged(self._copies, quiet)
        while not is_at_rest() and time.monotonic() < end:  # noqa: ASYNC110
            await asyncio.sleep(quiet / 10)

    async def close(self) -> list[dict[str, Any]]:
        """Close all nodes and end; the rows of their traces."""
        await asyncio.gather(*(stack.aclose() for stack in self._stacks))
        return [row for path in self._directory.iterdir() for row in read_trace(path)]

    def _copies(self) -> int:
        return sum(
            node.metrics.counter("events_received", "Copies of events received.").value
            for node in self._nodes.values()
        )

    async def _join(self, newcomer: Newcomer) -> tuple[int, tuple[str, str]]:
        stack = AsyncExitStack()
        self._stacks.append(stack)
        trace = self._directory / f"{newcomer.number}.jsonl"
        node = Node(trace=trace, listen=f"{self._host}:0", **newcomer.settings)
        await stack.enter_async_context(node)
        # What arrives is read from the trace.
        await stack.enter_async_context(node.subscribe(newcomer.topic, queue=1))
        self._nodes[newcomer.number] = node
        self._topics[newcomer.number] = newcomer.topic
        return newcomer.number, (node.id.hex(), str(node.address))


# A hierarchy of communities made of real nodes in a few processes, each node in one topic.
#
# Nodes that are to crash live in a process of their own, which is killed: a crash without a goodbye.


PROCESSES = 2
"""Processes that stay; one more holds the nodes that are to crash."""
JOINS_AT_ONCE = 10
"""More of them would hold each other up, on a busy machine for minutes."""
JOIN_SECONDS = 120.0
"""The most that one of them may take."""
END_SECONDS = 30.0
"""How long a process may take to end when its nodes are closed."""
LOOK_SECONDS = 0.25
"""Between two looks at tables or counters."""


@dataclass(frozen=True, slots=True)
class LiveNode:
    """A node that has joined."""

    number: int
    level: int
    id: str
    address: str


class LivePopulation:
    """Nodes that live until the block ends; whatever happens, no process is left behind."""

    def __init__(
        self,
        experiment: Experiment,
        chance: random.Random,
        lines: Sequence[Line] = (),
        host: str = "127.0.0.1",
    ) -> None:
        """`lines`: processes that hold nodes already, wherever they are; without them, some are started here.
        `host`: this machine's address, by which they reach it."""
        self._experiment = experiment
        self._host = host
        # Nodes that others can reach have a network key, as in a deployment; on loopback they need none.
        is_alone = Address(host, 0).is_loopback
        self._keys: dict[str, Any] = {} if is_alone else {"keys": (new_key(),)}
        self.topics = topics(len(experiment.sizes))
        self._introductions = Introductions(experiment.mode)
        self._doomed = _doomed(experiment, chance)
        self._players = Players()
        self._traces = tempfile.TemporaryDirectory(prefix="camcast-traces-")
        """Also of those who are killed, and cannot clear away."""
        self._processes: list[Line] = list(lines)
        self._homes = len(lines) or PROCESSES
        self._residents: dict[int, LiveNode] = {}
        self._ever: list[set[str]] = [set() for _ in experiment.sizes]
        self._dead: set[str] = set()
        """Addresses of crashed nodes."""
        self._joined = 0

    def __enter__(self) -> LivePopulation:
        return self

    def __exit__(self, *_: object) -> None:
        self._players.kill()
        self._traces.cleanup()

    def start(self) -> None:
        """Start the processes and join everyone."""
        for _ in range(self._homes + bool(self._doomed) - len(self._processes)):
            directory = tempfile.mkdtemp(dir=self._traces.name)
            self._processes.append(self._players.start(hold, self._host, directory))
        answers(self._processes)
        # The root first, so that each community finds the one above it.
        for level, size in reversed(list(enumerate(self._experiment.sizes))):
            first = min(GATEWAYS, size)
            for _ in range(first):
                self._join(level, 1)
            for joined in range(first, size, JOINS_AT_ONCE):
                self._join(level, min(JOINS_AT_ONCE, size - joined))

    def _join(self, level: int, count: int) -> None:
        """More nodes in the community of `level`, spread over the processes."""
        settings = {
            **node_settings(self._experiment),
            "join_timeout": JOIN_SECONDS,
            **self._introductions.settings(),
            **self._keys,
        }
        joining: dict[int, list[Newcomer]] = {}
        for number in range(self._joined, self._joined + count):
            newcomer = Newcomer(number, self.topics[level], settings)
            joining.setdefault(self._home(number), []).append(newcomer)
        self._joined += count
        for home, newcomers in joining.items():
            self._processes[home].tell(("join", newcomers))
        for home in joining:
            for number, (identity, address) in self._processes[home].answer().items():
                self._residents[number] = LiveNode(number, level, identity, address)
                self._ever[level].add(identity)
                self._introductions.add(self.topics[level], address)

    def _home(self, number: int) -> int:
        return self._homes if number in self._doomed else number % self._homes

    def crash(self) -> None:
        """Kill the process of those who are to crash."""
        self._processes.pop().kill()
        for number in self._doomed:
            self._dead.add(self._residents.pop(number).address)

    def publish(self, level: int, upward: float | None, chance: random.Random) -> None:
        """Publish an event of the community of `level`, from one of its members."""
        members = [r for r in self._residents.values() if r.level == level]
        number = chance.choice(members).number
        process = self._processes[self._home(number)]
        process.tell(("publish", number, upward))
        process.answer()

    def members(self) -> list[CommunityMembers]:
        """Who is in each community now, and how large their tables are."""
        tables = self.tables()
        found = []
        for level, topic in enumerate(self.topics):
            own = {r.id: len(tables[r.id]) for r in self._residents.values() if r.level == level}
            size, ever = self._experiment.sizes[level], frozenset(self._ever[level])
            found.append(CommunityMembers(topic, size, frozenset(own), ever, own))
        return found

    def tables(self) -> dict[str, list[str]]:
        """By the id of each living node: the contacts that all its tables hold now."""
        return {
            self._residents[number].id: held
            for part in self._ask("look")
            for number, held in part.items()
        }

    def wait_for_tables(self, quiet: float, at_most: float) -> None:
        """Wait until tables that are drawn are full on average; gossiped ones, unchanged for `quiet` seconds.

        A gossiped table has no size at which it is full, and drawn ones are drawn anew all the time.
        """
        if self._experiment.mode == "structured":
            _wait(lambda: self._are_full(self.tables()), at_most)
        else:
            _wait(_Unchanged(self.tables, quiet), at_most)

    def _are_full(self, tables: dict[str, list[str]]) -> bool:
        held = [0] * len(self.topics)
        for resident in self._residents.values():
            held[resident.level] += len(tables[resident.id])
        sizes = self._experiment.sizes
        return all(
            held[level] >= sizes[level] * _full_tables(self._experiment, level)
            for level in range(len(sizes))
        )

    def wait_for_repaired_tables(self, at_most: float) -> None:
        """Wait until no table holds a crashed node."""
        _wait(lambda: not self._someone_knows_the_dead(), at_most)

    def wait_for_silence(self, quiet: float, at_most: float) -> None:
        """Wait until no copy of an event has arrived in any process for `quiet` seconds.

        The processes look themselves: to be asked again and again would disturb what is measured."""
        self._ask("settle", quiet, at_most)

    def close(self) -> list[dict[str, Any]]:
        """Close all nodes; the rows of the traces of those who lived to the end."""
        rows = [row for own in self._ask("close") for row in own]
        for process in self._processes:
            process.end(END_SECONDS)
        return rows

    def _someone_knows_the_dead(self) -> bool:
        return any(
            contact.partition("@")[2] in self._dead
            for contacts in self.tables().values()
            for contact in contacts
        )

    def _ask(self, *order: object) -> list[Any]:
        return ask_all(self._processes, order)


def _doomed(experiment: Experiment, chance: random.Random) -> set[int]:
    """The numbers of those who are to crash: a share of each community, at least one being left."""
    doomed: set[int] = set()
    for level, (size, living) in enumerate(zip(experiment.sizes, experiment.living, strict=True)):
        first = sum(experiment.sizes[level + 1 :])  # those above join before
        doomed.update(chance.sample(range(first, first + size), size - living))
    return doomed


def _full_tables(experiment: Experiment, level: int) -> int:
    """Contacts in a full topic table, floor(ln N + c) of the others, and in a full super-topic table."""
    own, above = experiment.fanout(experiment.sizes[level]), experiment.sizes[level + 1 : level + 2]
    return own + sum(min(experiment.z, others) for others in above)


def _wait(is_over: Callable[[], bool], at_most: float) -> None:
    """Look again and again until it is over, or `at_most` seconds have passed."""
    end = time.monotonic() + at_most
    while not is_over() and time.monotonic() < end:
        time.sleep(LOOK_SECONDS)


class _Unchanged:
    """Whether what is looked at has been the same for `quiet` seconds."""

    def __init__(self, look: Callable[[], Any], quiet: float) -> None:
        self._look, self._quiet = look, quiet
        self._seen, self._since = look(), time.monotonic()

    def __call__(self) -> bool:
        seen = self._look()
        if seen != self._seen:
            self._seen, self._since = seen, time.monotonic()
        return time.monotonic() - self._since >= self._quiet
