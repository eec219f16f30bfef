"""A community on the stage: members, a directory that knows them all, and what its graph looks like."""

from __future__ import annotations

import random
import statistics
from collections.abc import Callable, Mapping, Sequence
from typing import Generic, TypeVar

from overlay.contact import Address, Contact, PeerId
from overlay.context import Context
from overlay.membership.config import ScampConfig
from overlay.membership.gateways import Gateways
from overlay.membership.interface import Found, Membership, TopicDirectory
from overlay.membership.scamp.service import ScampMembership
from overlay.metrics import Metrics
from overlay.virtual.stage import Stage, StageConfig, numbered_contact

TOPIC = "/soccer/italy"


class AllKnowing:
    """A directory for tests: it knows who announced itself, and answers at once."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(f"{seed} directory")
        self._members: dict[Contact, None] = {}
        self._listed: list[Contact] | None = None

    def __len__(self) -> int:
        return len(self._members)

    def of(self, me: Contact) -> MyDirectory:
        return MyDirectory(self, me)

    def announce(self, member: Contact) -> None:
        self._members[member] = None
        self._listed = None

    def withdraw(self, member: Contact) -> None:
        self._members.pop(member, None)
        self._listed = None

    def sample(self, me: Contact, count: int) -> tuple[Contact, ...]:
        if self._listed is None:
            self._listed = list(self._members)
        drawn = self._random.sample(self._listed, min(count + 1, len(self._listed)))
        return tuple([contact for contact in drawn if contact != me][:count])


class MyDirectory:
    """The directory as one process sees it: a `TopicDirectory`."""

    def __init__(self, all_knowing: AllKnowing, me: Contact) -> None:
        self._all = all_knowing
        self._me = me

    def announce(self, topic: str, done: Callable[[], None] = lambda: None) -> None:
        self._all.announce(self._me)
        done()

    def withdraw(self, topic: str) -> None:
        self._all.withdraw(self._me)

    def contacts(self, topic: str, count: int, found: Found) -> None:
        found(self._all.sample(self._me, count))

    def sample(self, topic: str, count: int, found: Found) -> None:
        found(self._all.sample(self._me, count))

    def report(self, topic: str, member: Contact) -> None:
        """It knows who crashed without being told."""

    def size(self, topic: str, found: Callable[[float], None]) -> None:
        found(float(len(self._all)))


class Listener:
    """Follows the topic table by what it is told."""

    def __init__(self) -> None:
        self.has_joined = 0
        self.table: dict[Contact, None] = {}
        self.asked: dict[Contact, None] = {}

    def joined(self) -> None:
        self.has_joined += 1

    def redrawn(self) -> None:
        """The table says it all."""

    def member_asked(self, contact: Contact) -> None:
        self.asked[contact] = None

    def member_added(self, contact: Contact) -> None:
        assert contact not in self.table
        self.table[contact] = None

    def member_removed(self, contact: Contact) -> None:
        del self.table[contact]


M = TypeVar("M", bound=Membership)


class StagedCommunity(Generic[M]):
    """Members of one community, with contacts from an all-knowing directory or from `gateways` gateways."""

    def __init__(self, seed: int, network: StageConfig | None = None, gateways: int = 0) -> None:
        self.stage = Stage(seed, network)
        self.directory = AllKnowing(seed)
        self.gateways = [numbered_contact(number) for number in range(gateways)]
        self.random = random.Random(f"{seed} script")
        self.members: dict[Contact, M] = {}
        self.listeners: dict[Contact, Listener] = {}
        self.metrics = Metrics()
        self._made = 0

    def join(self) -> Contact:
        contact = numbered_contact(self._made)
        self._made += 1
        context = self.stage.context(contact)
        self.listeners[contact] = Listener()
        member = self.make(contact, context, self._directory(contact, context))
        self.stage.attach(contact, member.receive)
        self.members[contact] = member
        member.start()
        return contact

    def make(self, contact: Contact, context: Context, directory: TopicDirectory) -> M:
        """One member's service, not yet started."""
        raise NotImplementedError

    def _directory(self, contact: Contact, context: Context) -> TopicDirectory:
        if not self.gateways:
            return self.directory.of(contact)
        addresses = {gateway.address: gateway for gateway in self.gateways}

        def resolve(address: Address, answer: Callable[[Contact | None], None]) -> None:
            gateway = addresses[address]
            answer(gateway if gateway in self.members else None)

        return Gateways(context, {TOPIC: tuple(addresses)}, resolve)

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

    def crash_some(self, part: float) -> None:
        for contact in self.random.sample(list(self.members), round(part * len(self.members))):
            self.crash(contact)

    @property
    def graph(self) -> Graph:
        return graph_of(self.members)


class ScampCommunity(StagedCommunity[ScampMembership]):
    """Members that run SCAMP."""

    def __init__(
        self,
        seed: int,
        config: ScampConfig | None = None,
        network: StageConfig | None = None,
        gateways: int = 0,
        *,
        balance: bool = True,
    ) -> None:
        super().__init__(seed, network, gateways)
        self.config = config or ScampConfig()
        self._balance = balance

    def make(
        self, contact: Contact, context: Context, directory: TopicDirectory
    ) -> ScampMembership:
        listener = self.listeners[contact]
        return ScampMembership(
            TOPIC, context, directory, listener, self.config, self.metrics, balance=self._balance
        )


Graph = dict[PeerId, tuple[PeerId, ...]]
"""Who holds whom; views may name members that are gone."""


def graph_of(tables: Mapping[Contact, M]) -> Graph:
    return {
        contact.id: tuple([peer.id for peer in member.table]) for contact, member in tables.items()
    }


def view_sizes(graph: Graph) -> tuple[float, float]:
    """Mean and standard deviation of the views' sizes."""
    sizes = [len(view) for view in graph.values()]
    return statistics.fmean(sizes), statistics.pstdev(sizes)


def in_degrees(graph: Graph) -> list[int]:
    return [len(holders) for holders in reversed_graph(graph).values()]


def reached(graph: Graph, start: PeerId, fanout: int | None, source: random.Random) -> int:
    """Members that gossip from `start` reaches, each telling `fanout` random members of its view once."""
    seen, frontier = {start}, [start]
    while frontier:
        following = []
        for peer in frontier:
            view: Sequence[PeerId] = graph[peer]
            if fanout is not None and fanout < len(view):
                view = source.sample(view, fanout)
            for target in view:
                if target in graph and target not in seen:
                    seen.add(target)
                    following.append(target)
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
    start, source = next(iter(graph)), random.Random(0)
    forth = reached(graph, start, None, source)
    back = reached(reversed_graph(graph), start, None, source)
    return forth == back == len(graph)


def is_connected(graph: Graph) -> bool:
    """Whether the graph is in one piece when arcs may be followed either way."""
    back = reversed_graph(graph)
    both = {peer: graph[peer] + back[peer] for peer in graph}
    return reached(both, next(iter(graph)), None, random.Random(0)) == len(graph)


def reversed_graph(graph: Graph) -> Graph:
    back: dict[PeerId, list[PeerId]] = {peer: [] for peer in graph}
    for peer, view in graph.items():
        for target in view:
            if target in back:
                back[target].append(peer)
    return {peer: tuple(holders) for peer, holders in back.items()}


def wrong_arcs(members: dict[Contact, ScampMembership]) -> tuple[int, int]:
    """Arcs that their target does not know of, and in-view entries without an arc."""
    arcs = {(i, j) for i, member in members.items() for j in member.table if j in members}
    known = {(i, j) for j, member in members.items() for i in member.holders if i in members}
    return len(arcs - known), len(known - arcs)
