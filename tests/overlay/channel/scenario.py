"""Schedules of writes, pauses, partitions and crashes on a faulty wire, and what must hold after each."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import dataclass, replace

from tests.overlay.channel.faulty_wire import SMALL, Faults, Node, Wire

CONFIG = replace(SMALL, idle_after=4.0, close_after=2.0)
"""Idle and closed so soon that both happen within a schedule."""

PATIENCE = 400.0
"""Simulated seconds in which everything must have settled after the last action."""


@dataclass(frozen=True)
class Write:
    at: float
    source: int
    target: int
    size: int


@dataclass(frozen=True)
class Cut:
    """Nothing passes from one node to another, for some time."""

    at: float
    source: int
    target: int
    seconds: float


@dataclass(frozen=True)
class Pause:
    """A node takes no messages, for some time."""

    at: float
    node: int
    seconds: float


@dataclass(frozen=True)
class Crash:
    """A node loses everything and begins anew."""

    at: float
    node: int


Action = Write | Cut | Pause | Crash


@dataclass(frozen=True)
class Scenario:
    faults: Faults
    actions: tuple[Action, ...]
    nodes: int = 2

    @property
    def end(self) -> float:
        return max((a.at + getattr(a, "seconds", 0.0) for a in self.actions), default=0.0)


class Run:
    """One scenario played to its end."""

    def __init__(self, scenario: Scenario, seed: int) -> None:
        self.wire = Wire(seed, scenario.faults, CONFIG, scenario.nodes)
        self.written: dict[bytes, tuple[Node, int, Node]] = {}
        """Accepted messages: who wrote them, in which incarnation, to whom."""
        self.crashes = 0
        for number, action in enumerate(scenario.actions):
            self._plan(number, action)
        self.wire.run(scenario.end + 0.001)
        self.settled = self.wire.run(scenario.end + PATIENCE, self._is_settled)

    def _plan(self, number: int, action: Action) -> None:
        wire = self.wire
        if isinstance(action, Write):
            wire.at(action.at, lambda: self.write(number, action))
        elif isinstance(action, Cut):
            link = (action.source, action.target)
            wire.at(action.at, lambda: wire.cut.add(link))
            wire.at(action.at + action.seconds, lambda: wire.cut.discard(link))
        elif isinstance(action, Pause):
            node = wire.nodes[action.node]
            wire.at(action.at, node.pause)
            wire.at(action.at + action.seconds, node.resume)
        else:
            wire.at(action.at, lambda: self._crash(wire.nodes[action.node]))

    def write(self, number: int, action: Write) -> None:
        source, target = self.wire.nodes[action.source], self.wire.nodes[action.target]
        head = b"%d " % number
        message = head + self.wire.random.randbytes(max(0, action.size - len(head)))
        if source.write(target, message):
            self.written[message] = (source, source.incarnation, target)

    def _crash(self, node: Node) -> None:
        self.crashes += 1
        node.begin()

    def _is_settled(self) -> bool:
        return all(
            message in source.outcomes or incarnation != source.incarnation
            for message, (source, incarnation, _) in self.written.items()
        )

    def violations(self) -> list[str]:
        """What does not hold and must."""
        wrong: list[str] = []
        handed_up: Counter[bytes] = Counter()
        for node in self.wire.nodes:
            handed_up.update(node.delivered)
        if any(count > 1 for count in handed_up.values()):
            wrong.append("a message was handed up twice")
        for node in self.wire.nodes:
            if any(m not in self.written or self.written[m][2] is not node for m in node.delivered):
                wrong.append("a node was handed a message that was not for it")
        if not self.settled:
            wrong.append("a message was neither acknowledged nor lost in the end")
        for message, (source, _, target) in self.written.items():
            outcome = source.outcomes.get(message)
            if outcome and not handed_up[message] and target.incarnation == 1:
                wrong.append("a message was acknowledged and never handed up")
            if not self.crashes and not (outcome and handed_up[message]):
                wrong.append("a message between two live nodes was lost")
        return wrong

    def leftovers(self) -> list[str]:
        """What is still kept long after the last message."""
        self.wire.run(self.wire.now + 2_000.0)
        return [
            f"{node.contact} keeps {len(node.table)} channels and {node.table.budget.used} bytes"
            for node in self.wire.nodes
            if len(node.table) or node.table.budget.used
        ]


def random_scenario(seed: int, crashes: bool) -> Scenario:
    """A scenario with up to 40 % loss in each direction."""
    rng = random.Random(seed)
    delay = rng.uniform(0.001, 0.1)
    delays = (delay, delay * rng.uniform(1, 10))
    faults = Faults(rng.uniform(0, 0.4), rng.uniform(0, 0.3), delays, (0, 0.02, 0.1, 0)[seed % 4])
    actions: list[Action] = []
    nodes = rng.choice([2, 2, 3])
    for _ in range(rng.randrange(1, 40)):
        source, target = rng.sample(range(nodes), 2)
        size = rng.choice([0, 10, 200, 1_000, 8_000])
        actions.append(Write(rng.uniform(0, 20), source, target, size))
    for _ in range(rng.randrange(4)):
        source, target = rng.sample(range(nodes), 2)
        at, seconds = rng.uniform(0, 20), rng.uniform(0.1, 15)
        actions.append(Cut(at, source, target, seconds))
        if rng.random() < 0.7:
            actions.append(Cut(at, target, source, seconds))
    for _ in range(rng.randrange(3)):
        actions.append(Pause(rng.uniform(0, 20), rng.randrange(nodes), rng.uniform(0.1, 10)))
    for _ in range(rng.randrange(1, 4) if crashes else 0):
        actions.append(Crash(rng.uniform(0, 20), rng.randrange(nodes)))
    return Scenario(faults, tuple(actions), nodes)
