"""Populations of real nodes on the virtual network, for the emulated tier."""

from __future__ import annotations

import asyncio
import dataclasses
import random
from collections import Counter
from collections.abc import Sequence
from contextlib import AsyncExitStack, suppress
from pathlib import Path
from typing import Any

from bench.experiment import Experiment, left_of
from bench.simulate.replay import ReplayedMember, Snapshot
from bench.tiers.hierarchy import (
    GATEWAYS,
    Introductions,
    node_settings,
    tables_of,
    topics,
)
from bench.traces import CommunityMembers
from overlay.channel.packet import BUNDLE, ChannelRefused, PacketType, decode_bundle
from overlay.dht.messages import unpack_letter
from overlay.transport.frame import Buffer, Dropped, FrameKind, frames_at, split_frames
from overlay.virtual import Network, nth_host
from overlay.virtual.links import Packet
from overlay.wire import WireError, decode
from pubsub import Node

# What the datagrams of a virtual network carry: one name for each, and how many of each name were sent.
#
# A datagram may hold several frames and messages. It is counted once, under the first message in it, and
# under the channel's own packet (`open`, `ack`...) only where it carries no message.


PROBES = ("ask", "alive", "ask for me", "saw", "alive, light")
"""What `overlay.failure.probes` sends, by its first byte."""


def name_of(datagram: bytes) -> str:
    """The name of what an unsealed datagram carries."""
    try:
        frames = split_frames(datagram, frames_at(datagram))
    except Dropped:
        return "malformed"
    names = [_name_of_frame(kind, body) for kind, body in frames]
    messages = [name for name in names if not name.startswith("channel ")]
    return (messages or names or ["empty"])[0]


def _name_of_frame(kind: int, body: Buffer) -> str:
    try:
        if kind == FrameKind.CHANNEL:
            return _name_of_packet(body)
        if kind == FrameKind.PROBE:
            return f"probe {PROBES[body[0]]}"
        payload = unpack_letter(bytes(body)).payload if kind == FrameKind.DHT else body
        return type(decode(payload)).__name__
    except (WireError, ChannelRefused):
        return "malformed"


def _name_of_packet(packet: Buffer) -> str:
    kind = PacketType(packet[0])
    if kind is not PacketType.BUNDLE:
        return f"channel {kind.name.lower()}"
    messages = decode_bundle(packet[BUNDLE.size :])
    return type(decode(messages[0])).__name__ if messages else "channel bundle"


class DatagramCount:
    """A rule of the virtual network that counts what is sent, by name (see `Network.rule`)."""

    def __init__(self) -> None:
        self.by_name: Counter[str] = Counter()
        self.only: frozenset[str] | None = None
        """The hosts whose datagrams count; None: all."""

    def __call__(self, packet: Packet) -> None:
        if self.only is None or packet.source.host in self.only:
            self.by_name[name_of(packet.data)] += 1

    def take(self) -> Counter[str]:
        """What was counted since the last call."""
        taken, self.by_name = self.by_name, Counter()
        return taken


# A hierarchy of communities made of real nodes, each on a host of its own and in one topic.


PORT = 4000
JOINS_AT_ONCE = 40
"""Nodes that join at a time, once there is someone to join."""
PUBLISHED_JOINS_AT_ONCE = 4
JOINING_SHARE = 0.25
"""Of a large network, a quarter of those who are there join at a time."""


@dataclasses.dataclass(slots=True)
class EmulatedNode:
    """A node, where it is, and what ends it and its subscription."""

    node: Node
    host: str
    level: int
    life: AsyncExitStack
    subscription: AsyncExitStack


class Population:
    """Nodes that live until they are crashed or asked to leave, or to the end of the network's run."""

    def __init__(self, experiment: Experiment, network: Network, directory: Path) -> None:
        self._experiment = experiment
        self._network = network
        self._directory = directory
        self.topics = topics(len(experiment.sizes))
        self._residents: dict[str, EmulatedNode] = {}
        self._ever: list[set[str]] = [set() for _ in experiment.sizes]
        self._hosts = 0
        self._introductions = Introductions(experiment.mode)

    async def __aenter__(self) -> Population:
        return self

    async def __aexit__(self, *_: object) -> None:
        # To leave would cost as much as a dozen events, and nobody is left to hear the goodbyes.
        for resident in self._residents.values():
            resident.node.flush_trace()

    async def start(self) -> None:
        """Join everyone, the root community first so that each finds its super-community."""
        at_once, share = JOINS_AT_ONCE, JOINING_SHARE
        if not self._experiment.balance and self._experiment.mode != "structured":
            # Published views are made by joins alone, one after another: at once they come out smaller.
            at_once, share = PUBLISHED_JOINS_AT_ONCE, 0.0
        for level, size in reversed(list(enumerate(self._experiment.sizes))):
            first = min(GATEWAYS, size)
            for _ in range(first):
                await self.join(level)
            await self._join_many(level, size - first, at_once, share)

    async def _join_many(self, level: int, count: int, at_once: int, share: float) -> None:
        """Join `count` nodes, at any time `at_once` of them or a share of those who have joined, whatever
        is more. As soon as one has joined the next one begins: nobody waits for the slowest of a batch."""
        window = at_once
        free = asyncio.Semaphore(window)

        async def join_one() -> None:
            nonlocal window
            await self.join(level)
            free.release()
            if window < share * len(self._residents):
                window += 1
                free.release()

        async with asyncio.TaskGroup() as joins:
            for _ in range(count):
                await free.acquire()
                joins.create_task(join_one())

    async def join(self, level: int, **more: Any) -> None:
        """One more node in the community of `level`; `more`: settings of this node alone."""
        host = nth_host(self._hosts)
        self._hosts += 1
        settings = self._introductions.settings() | more
        self._introductions.add(self.topics[level], f"{host}:{PORT}")
        # On its host: a crash then takes its timers and tasks as well as its socket.
        resident = await self._network.spawn(host, self._open(host, level, settings))
        self._residents[host] = resident

    async def _open(self, host: str, level: int, settings: dict[str, Any]) -> EmulatedNode:
        life, subscription = AsyncExitStack(), AsyncExitStack()
        asked = node_settings(self._experiment) | settings
        node = Node(listen=f"{host}:{PORT}", trace=self._trace_of(host), **asked)
        await life.enter_async_context(node)
        self._ever[level].add(node.id.hex())  # events may come while it joins
        # What arrives is read from the trace, and not from the subscription.
        await subscription.enter_async_context(node.subscribe(self.topics[level], queue=1))
        return EmulatedNode(node, host, level, life, subscription)

    def crash(self, share: float, chance: random.Random) -> None:
        """Crash until a share of each community is down, at least one process of each being left."""
        for level, size in enumerate(self._experiment.sizes):
            hosts = [host for host, r in self._residents.items() if r.level == level]
            for host in chance.sample(hosts, max(0, len(hosts) - left_of(size, share))):
                self.crash_one(host)
        # Newcomers are told of the living.
        self._introductions = Introductions(self._experiment.mode)
        for host, resident in self._residents.items():
            self._introductions.add(self.topics[resident.level], f"{host}:{PORT}")

    def crash_one(self, host: str) -> None:
        self._residents.pop(host).node.flush_trace()
        self._network.crash(host)

    async def leave(self, host: str) -> None:
        """Let a node go with a goodbye."""
        resident = self._residents.pop(host)
        await resident.subscription.aclose()
        await resident.life.aclose()

    async def move(self, host: str, level: int) -> None:
        """Have a node leave its topic and join another; while it does, it is in no community."""
        resident = self._residents.pop(host)
        await resident.subscription.aclose()
        self._ever[level].add(resident.node.id.hex())
        joining = resident.node.subscribe(self.topics[level], queue=1)
        await resident.subscription.enter_async_context(joining)
        resident.level = level
        self._residents[host] = resident

    def hosts(self) -> list[tuple[str, int]]:
        """Every live node's host and level."""
        return [(host, resident.level) for host, resident in self._residents.items()]

    def changing(self) -> list[tuple[str, int]]:
        """Host and level of every live node that may go: newcomers are told of the others by address."""
        named = self._introductions.names
        return [(h, r.level) for h, r in self._residents.items() if not named(f"{h}:{PORT}")]

    async def publish(self, level: int, p_sel: float | None, chance: random.Random) -> None:
        """Publish an event of the community of `level`, from one of its members."""
        members = [r for r in self._residents.values() if r.level == level]
        await chance.choice(members).node.publish(self.topics[level], "event", upward=p_sel)

    def snapshot(self) -> Snapshot:
        """What everyone who lives knows now."""
        communities: list[list[ReplayedMember]] = [[] for _ in self.topics]
        for resident in self._residents.values():
            size, table, supers = tables_of(resident.node, self.topics[resident.level])
            name, address = resident.node.id.hex(), str(resident.node.address)
            member = ReplayedMember(name, address, size, _addresses(table), _addresses(supers))
            communities[resident.level].append(member)
        return Snapshot(tuple(map(tuple, communities)))

    def members(self, snapshot: Snapshot) -> list[CommunityMembers]:
        """Who is in each community, and how large their tables are."""
        return [
            CommunityMembers(
                topic,
                size,
                frozenset(member.id for member in community),
                frozenset(ever),
                {member.id: len(member.table) + len(member.supers) for member in community},
            )
            for topic, size, ever, community in zip(
                self.topics, self._experiment.sizes, self._ever, snapshot.communities, strict=True
            )
        ]

    def names_the_dead(self) -> bool:
        """Whether any table of a live node has one that is not."""
        communities = self.snapshot().communities
        alive = {member.address for community in communities for member in community}
        return any(
            other not in alive
            for community in communities
            for member in community
            for other in (*member.table, *member.supers)
        )

    def still_there(self, before: Sequence[CommunityMembers]) -> list[CommunityMembers]:
        """The communities as they were, without those who have gone since."""
        now = frozenset(resident.node.id.hex() for resident in self._residents.values())
        return [
            dataclasses.replace(old, alive=old.alive & now, ever=frozenset(ever))
            for old, ever in zip(before, self._ever, strict=True)
        ]

    def traces(self) -> list[Path]:
        return [self._trace_of(nth_host(number)) for number in range(self._hosts)]

    def _trace_of(self, host: str) -> Path:
        return self._directory / f"{host}.jsonl"


def _addresses(contacts: Sequence[str]) -> tuple[str, ...]:
    return tuple(contact.partition("@")[2] for contact in contacts)


# Continuous churn: processes come, go with a goodbye, crash, or change their topic, at a steady rate.
#
# The first node and the gateways stay, as newcomers know nobody else.


CRASH_SHARE = 0.5
"""Half of those who go crash; the others say goodbye."""
MOVE_SHARE = 0.25
"""Of the changes below the root, this share are changes of topic: a process joins the super-topic instead of
its own."""


class Turnover:
    """While the block runs, `rate` of all processes a second are replaced by new ones of their community."""

    def __init__(self, population: Population, rate: float, chance: random.Random) -> None:
        self._population = population
        self._rate = rate
        self._chance = chance
        self._task: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Turnover:
        if self._rate:
            self._task = asyncio.create_task(self._replace(), name="turnover")
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._task is not None:
            self._task.cancel()
            with suppress(asyncio.CancelledError):
                await self._task

    async def _replace(self) -> None:
        population, chance = self._population, self._chance
        root = len(population.topics) - 1
        while True:
            hosts = population.changing()
            await asyncio.sleep(1 / (self._rate * len(hosts)))
            host, level = chance.choice(hosts)
            if level < root and chance.random() < MOVE_SHARE:
                await population.move(host, level + 1)
                # Its new community stays as large as it was.
                host = chance.choice([other for other, own in hosts if own == level + 1])
            if chance.random() < CRASH_SHARE:
                population.crash_one(host)
            else:
                await population.leave(host)
            await population.join(level)
