"""A community on the stage: members, a directory that knows them all, and what its graph looks like."""

from __future__ import annotations

import random
import statistics
from collections.abc import Callable, Iterable

from overlay.contact import Contact
from overlay.membership.interface import Found
from overlay.membership.scamp.config import ScampConfig
from overlay.membership.scamp.service import ScampMembership
from overlay.metrics import Metrics
from overlay.virtual.stage import Stage, StageConfig, numbered_contact

TOPIC = "/soccer/italy"


class AllKnowing:
    """A directory for tests: it knows who announced itself, and answers at once."""

    def __init__(self, seed: int) -> None:
        self.members: dict[Contact, None] = {}
        self._random = random.Random(f"{seed} directory")

    def of(self, me: Contact) -> MyDirectory:
        return MyDirectory(self, me)

    def sample(self, me: Contact, count: int) -> tuple[Contact, ...]:
        others = [contact for contact in self.members if contact != me]
        return tuple(self._random.sample(others, min(count, len(others))))

    def some(self, me: Contact, count: int) -> tuple[Contact, ...]:
        """As `sample`, but cheap: for communities of thousands."""
        members = self._listed()
        chosen = {self._random.choice(members): None for _ in range(count)} if members else {}
        chosen.pop(me, None)
        return tuple(chosen)

    def _listed(self) -> list[Contact]:
        if len(self._list) != len(self.members) or self._changed:
            self._list, self._changed = list(self.members), False
        return self._list

    _list: list[Contact] = []  # noqa: RUF012
    _changed = True

    def announce(self, me: Contact) -> None:
        self.members[me] = None
        self._changed = True

    def withdraw(self, me: Contact) -> None:
        self.members.pop(me, None)
        self._changed = True


class MyDirectory:
    """The directory as one process sees it: a `TopicDirectory`."""

    def __init__(self, all_knowing: AllKnowing, me: Contact) -> None:
        self._all = all_knowing
        self._me = me

    def announce(self, topic: str) -> None:
        self._all.announce(self._me)

    def withdraw(self, topic: str) -> None:
        self._all.withdraw(self._me)

    def contacts(self, topic: str, count: int, found: Found) -> None:
        found(self._all.some(self._me, count))

    def sample(self, topic: str, count: int, found: Found) -> None:
        found(self._all.sample(self._me, count))

    def size(self, topic: str, found: Callable[[float], None]) -> None:
        found(float(len(self._all.members)))


class Listener:
    """Follows the topic table by what it is told."""

    def __init__(self) -> None:
        self.has_joined = 0
        self.table: dict[Contact, None] = {}

    def joined(self) -> None:
        self.has_joined += 1

    def member_added(self, contact: Contact) -> None:
        assert contact not in self.table
        self.table[contact] = None

    def member_removed(self, contact: Contact) -> None:
        del self.table[contact]


class ScampCommunity:
    """Members that run SCAMP; contacts come from an all-knowing directory unless one is given."""

    def __init__(
        self, seed: int, config: ScampConfig | None = None, network: StageConfig | None = None
    ) -> None:
        self.stage = Stage(seed, network)
        self.config = config or ScampConfig()
        self.directory = AllKnowing(seed)
        self.random = random.Random(f"{seed} script")
        self.members: dict[Contact, ScampMembership] = {}
        self.listeners: dict[Contact, Listener] = {}
        self.metrics: dict[Contact, Metrics] = {}
        self._made = 0

    def join(self) -> Contact:
        contact = numbered_contact(self._made)
        self._made += 1
        self.listeners[contact], self.metrics[contact] = Listener(), Metrics()
        member = ScampMembership(
            TOPIC,
            self.stage.context(contact),
            self.directory.of(contact),
            self.listeners[contact],
            self.config,
            self.metrics[contact],
        )
        self.stage.attach(contact, member.receive)
        self.members[contact] = member
        member.start()
        return contact

    def leave(self, contact: Contact) -> None:
        """A clean goodbye; what is sent to the leaver afterwards reaches nobody."""
        self.members.pop(contact).stop()

    def crash(self, contact: Contact) -> None:
        """The directory forgets the crashed at once; a real one takes a while."""
        self.stage.crash(contact)
        self.directory.withdraw(contact)
        del self.members[contact]

    def grow(self, count: int, interval: float) -> None:
        """Let `count` processes join, one every `interval` seconds."""
        for _ in range(count):
            self.join()
            self.stage.run_for(interval)

    def anyone(self) -> Contact:
        return self.random.choice(list(self.members))

    @property
    def graph(self) -> dict[Contact, tuple[Contact, ...]]:
        return {contact: member.table for contact, member in self.members.items()}


Graph = dict[Contact, tuple[Contact, ...]]


def view_sizes(graph: Graph) -> tuple[float, float]:
    """Mean and standard deviation of the views' sizes."""
    sizes = [len(view) for view in graph.values()]
    return statistics.fmean(sizes), statistics.pstdev(sizes)


def in_degrees(graph: Graph) -> list[int]:
    counts = dict.fromkeys(graph, 0)
    for view in graph.values():
        for contact in view:
            if contact in counts:
                counts[contact] += 1
    return list(counts.values())


def reached(graph: Graph, start: Contact, fanout: int | None, source: random.Random) -> int:
    """Members that gossip from `start` reaches, each telling `fanout` random members of its view once."""
    seen, frontier = {start: None}, [start]
    while frontier:
        following = []
        for contact in frontier:
            view = [peer for peer in graph[contact]]
            chosen = view if fanout is None else source.sample(view, min(fanout, len(view)))
            for peer in chosen:
                if peer in graph and peer not in seen:
                    seen[peer] = None
                    following.append(peer)
        frontier = following
    return len(seen)


def coverage(graph: Graph, fanout: int, runs: int, seed: int) -> float:
    """The mean part of the members that gossip with this fanout reaches."""
    source = random.Random(seed)
    members = list(graph)
    return statistics.fmean(
        reached(graph, source.choice(members), fanout, source) / len(members) for _ in range(runs)
    )


def is_strongly_connected(graph: Graph) -> bool:
    """Whether gossip to whole views reaches everyone from everywhere."""
    start = next(iter(graph))
    source = random.Random(0)
    return reached(graph, start, None, source) == len(graph) == reached(
        reversed_graph(graph), start, None, source
    )


def is_connected(graph: Graph) -> bool:
    """Whether the graph is in one piece when arcs may be followed either way."""
    back = reversed_graph(graph)
    both = {contact: graph[contact] + back[contact] for contact in graph}
    return reached(both, next(iter(graph)), None, random.Random(0)) == len(graph)


def reversed_graph(graph: Graph) -> Graph:
    back: dict[Contact, list[Contact]] = {contact: [] for contact in graph}
    for contact, view in graph.items():
        for peer in view:
            if peer in back:
                back[peer].append(contact)
    return {contact: tuple(holders) for contact, holders in back.items()}


def wrong_arcs(members: dict[Contact, ScampMembership]) -> tuple[int, int]:
    """Arcs that their target does not know of, and in-view entries without an arc."""
    arcs = {(i, j) for i, member in members.items() for j in member.table if j in members}
    known = {(i, j) for j, member in members.items() for i in member.holders if i in members}
    return len(arcs - known), len(known - arcs)


def live(contacts: Iterable[Contact], community: ScampCommunity) -> list[Contact]:
    return [contact for contact in contacts if contact in community.members]
