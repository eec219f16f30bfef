"""Attacks on whole emulated nodes, each against the defence there is and without it.

A community of honest nodes, one of which publishes an event every second. After five events the attack
begins, and goes on to the end. What is shown: the share of honest deliveries lost from then on, and how long
it took from the beginning of the attack until all events reached all honest nodes and went on to; none where
that had not happened by the end. Attackers hold the network key, where there is one, and are members of the
community unless a right keeps them out. Virtual networks by seed, so a run can be repeated.

- censor: attackers, who were good members until then, take events, and neither pass them on nor name them.
- promise: the same, who name every event at once and never send it.
- delay: the same, who pass events on ten seconds late.
- sybils: attackers of one host join in the same second, and censor.
- cold boot: a third of those who start together are attackers that censor.
- eclipse: attackers have ids next to the topic's key in the DHT, and answer there for the topic; the loss is
  that of newcomers. Ids are chosen, or drawn until one is near.
- poison: attackers push invented members into honest nodes' views.
- abuse: attackers ask every node for everything, and not to be sent anything, ten times a second.
- replay: everything that was on the wire is sent again, to its receiver and to another one.
- slots: attackers of one host open as many channels as honest nodes have places for; the loss is that of
  newcomers.
- clock: attackers whose right ended an hour ago have set their clocks back; how much of the events they get.
- amplification: a stranger asks what has the longest answers; bytes that come back for a byte that was sent.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from struct import pack
from typing import Any

from bench.workloads.workload import Option, Row, RowTable, Workload, column
from overlay.channel.config import ChannelConfig
from overlay.contact import Contact, PeerId
from overlay.dht import DhtConfig
from overlay.directory.messages import AnnounceMember as DirectoryAnnounce
from overlay.directory.messages import AnnounceReply, Query, ShardReply
from overlay.directory.tree import Shard, by_rank, fingerprint, topic_key
from overlay.errors import CamcastError
from overlay.identity import Identity
from overlay.membership.scamp.messages import Forward, ScampSubscription
from overlay.membership.structured.drawing import Drawn
from overlay.virtual import Latency, Network, nth_host
from overlay.virtual.links import Packet
from pubsub.camcast.messages import FetchBlocks, Prune
from pubsub.camcast.parameters import Parameters
from pubsub.node import Node
from pubsub.rights import Action, Grant, grant_first

TOPIC = "/t"
KEY = bytes(range(32))
BEFORE = 5
"""Events before the attack begins."""
DURING = 15
"""Events from then on; twice as many where newcomers are judged, who have to join first."""
SETTLE_SECONDS = 5.0
LATE_SECONDS = 10.0
"""An event that has not come this long after the last one was published is lost."""
NEWCOMERS = 6
JOIN_SECONDS = 8.0
"""Newcomers that are not in the community by then have lost everything."""
MOST_ASKED = 300
"""Datagrams with which a stranger asks."""
DRAWS = 512
"""Identities that each attacker draws to get near a key."""
TURNCOATS = ("censor", "promise", "delay")
"""Attacks of members that have been good ones, and so have a place in the tree by which events go."""
NOWHERE = "127.9.9.9"
ROOT = Shard(topic_key(TOPIC), 0, 0)
AUTHORITY = Identity(b"a" * 32)


@dataclass(frozen=True)
class Case:
    """One attack against one defence."""

    attack: str
    defence: str
    settings: dict[str, Any] = field(default_factory=dict)
    """Of all nodes, besides the usual ones."""
    has_rights: bool = False
    """An authority gives honest nodes the right to the topic, and attackers none."""
    with_insiders: bool = False
    """Attackers have the right as well."""


class Arena:
    """One network: honest nodes, attackers, and what reached whom."""

    def __init__(self, case: Case, options: argparse.Namespace, attackers: int) -> None:
        self.case = case
        self.honest_count: int = options.nodes
        self.attackers = attackers
        self.network = Network(options.seed, latency=Latency.uniform(0.005, 0.050))
        self.random = random.Random(options.seed)
        self.stack = AsyncExitStack()
        self.honest: list[Node] = []
        self.hostile: list[Node] = []
        self.had: list[set[int]] = []
        """The events that each honest node has had."""
        self.judged: list[set[int]] = self.had
        """Those of the nodes whose loss counts."""
        self.events = BEFORE + (2 if case.attack in ("eclipse", "slots") else 1) * DURING
        self.published = 0
        self.judged_from = BEFORE
        """The first event that counts."""
        self.figures: dict[str, float] = {}
        self._hosts = 0

    def settings(self, identity: Identity, is_honest: bool) -> dict[str, Any]:
        settings: dict[str, Any] = {"keys": [KEY], **self.case.settings}
        if self.case.has_rights:
            settings["authority"] = [AUTHORITY.public_key]
            if is_honest or self.case.with_insiders:
                both = Action.PUBLISH | Action.SUBSCRIBE
                right = grant_first(AUTHORITY, Grant(identity.public_key, both, TOPIC))
                settings["rights"] = [right.packed]
        return settings

    async def node(
        self, *, is_honest: bool = True, port: int = 4000, identity: Identity | None = None
    ) -> Node:
        """One more node, on a host of its own unless a port is given."""
        host = nth_host(self._hosts if port == 4000 else 250)
        self._hosts += port == 4000
        identity = identity or Identity(self.random.randbytes(32))
        known = [f"{nth_host(0)}:4000"] if self.honest else []
        node = Node(
            listen=f"{host}:{port}",
            bootstrap=known,
            identity=identity,
            **self.settings(identity, is_honest),
        )
        await self.stack.enter_async_context(node)
        (self.honest if is_honest else self.hostile).append(node)
        return node

    async def subscriber(self, had: list[set[int]]) -> Node:
        node = await self.node()
        await self.listen(node, had)
        return node

    async def listen(self, node: Node, had: list[set[int]]) -> None:
        events = await self.stack.enter_async_context(node.subscribe(TOPIC))
        mine: set[int] = set()
        had.append(mine)

        async def take() -> None:
            async for event in events:
                mine.add(event.data)

        task = asyncio.ensure_future(take())
        self.stack.callback(task.cancel)

    async def member(self, *, port: int = 4000) -> Node:
        """A hostile node in the community, if it is let in."""
        node = await self.node(is_honest=False, port=port)
        gate = node.attachment.gate
        if gate is not None:
            gate.own.check = lambda action, topic: None  # type: ignore[method-assign]
        await self.stack.enter_async_context(node.subscribe(TOPIC))
        return node

    async def members(self) -> list[Node]:
        return list(await asyncio.gather(*(self.member() for _ in range(self.attackers))))

    def run(self) -> None:
        self.network.run(self._live(), limit=3600)

    async def _live(self) -> None:
        attack = ATTACKS[self.case.attack]
        async with self.stack:
            await self.node()
            if self.case.attack == "cold boot":
                starting = asyncio.ensure_future(attack(self))
                await self._start(at_once=True)
                await starting
            else:
                await self._start(at_once=False)
                if self.case.attack in TURNCOATS:
                    await self.members()
                await asyncio.sleep(SETTLE_SECONDS)
            attacking: asyncio.Future[None] | None = None
            for number in range(self.events):
                if number == BEFORE and self.case.attack != "cold boot":
                    attacking = asyncio.ensure_future(attack(self))
                await self.honest[0].publish(TOPIC, number)
                self.published = number + 1
                await asyncio.sleep(1.0)
            await asyncio.sleep(LATE_SECONDS)
            if attacking is not None:
                attacking.cancel()
                if attacking.done() and not attacking.cancelled():
                    attacking.result()
            self._judge()

    async def _start(self, *, at_once: bool) -> None:
        count = self.honest_count - 1
        if at_once:
            await asyncio.gather(*(self.subscriber(self.had) for _ in range(count)))
        else:
            for _ in range(count):
                await self.subscriber(self.had)

    def _judge(self) -> None:
        numbers = range(self.judged_from, self.events)
        nodes = max(len(self.judged), 1)
        missing = {n: sum(n not in had for had in self.judged) for n in numbers}
        self.figures["lost"] = 100 * sum(missing.values()) / nodes / len(numbers)
        lossy = [number for number, count in missing.items() if count]
        if not lossy:
            self.figures["recovered"] = 0.0
        elif lossy[-1] < numbers[-1]:
            self.figures["recovered"] = lossy[-1] + 1.0 - self.judged_from


# What attackers do.


def community_of(node: Node) -> Any:
    return node._process.communities[TOPIC]


def do_censor(nodes: list[Node]) -> None:
    for node in nodes:
        community_of(node)._dissemination.spread = lambda gossip, sender: ()


async def censor(arena: Arena) -> None:
    do_censor(arena.hostile)


async def cold_boot(arena: Arena) -> None:
    do_censor(await arena.members())


async def promise(arena: Arena) -> None:
    for node in arena.hostile:
        community = community_of(node)
        community.forward = lambda to, gossip: None
        community._dissemination._receive_fetch = lambda sender, fetch, ranges: None
        community.parameters = Parameters(announce_delay=0.001)


async def delay(arena: Arena) -> None:
    for node in arena.hostile:
        community = community_of(node)
        real, later = community.forward, community.context.call_later

        def forward(to: Any, gossip: Any, real: Any = real, later: Any = later) -> None:
            later(10.0, lambda: real(to, gossip))

        community.forward = forward


async def sybils(arena: Arena) -> None:
    joining = (arena.member(port=5000 + number) for number in range(arena.attackers))
    do_censor(list(await asyncio.gather(*joining)))


def invented(count: int) -> list[Contact]:
    draw = random.Random(1)
    return [Contact(PeerId(draw.randbytes(20)), NOWHERE, 1 + port) for port in range(count)]


def lie(request: Any) -> object:
    """Invented members for who asks for the root of the topic, and a friendly word for who announces."""
    if isinstance(request, DirectoryAnnounce):
        return AnnounceReply("", True, False, 5, 0, (), b"")
    marks = {fingerprint(ROOT.topic, fake): fake for fake in invented(200)}
    order = by_rank(marks, request.salt)[request.skip : request.skip + min(request.want, 10)]
    contacts = tuple(marks[mark] for mark in order)
    return ShardReply(True, False, 0, 0, pack(f">{len(marks)}I", *marks), contacts, True, ())


def near_the_root(arena: Arena, number: int) -> Identity:
    """An identity next to the topic's key: chosen where ids are not proven, else the best of many."""
    target = int.from_bytes(ROOT.key, "big")
    if not arena.case.settings.get("keys", [KEY]):
        identity = Identity(arena.random.randbytes(32))
        identity.id = PeerId((target ^ (number + 1)).to_bytes(20, "big"))
        return identity
    drawn = (Identity(arena.random.randbytes(32)) for _ in range(DRAWS))
    return min(drawn, key=lambda one: int.from_bytes(one.id, "big") ^ target)


async def newcomer(arena: Arena, newcomers: list[set[int]]) -> None:
    """One more honest member, if it gets in."""
    try:
        node = await arena.node()
        if arena.case.attack == "eclipse" and arena.case.defence == "none":
            ask_the_nearest_only(node)
        async with asyncio.timeout(JOIN_SECONDS):
            await arena.listen(node, newcomers)
    except (TimeoutError, CamcastError):
        newcomers.append(set())  # all events are lost to it


def ask_the_nearest_only(node: Node) -> None:
    async def no_region(*_: object) -> tuple[()]:
        return ()

    node.attachment.directory._locations.region = no_region  # type: ignore[attr-defined]


async def eclipse(arena: Arena) -> None:
    if arena.case.defence == "none":
        for node in arena.honest:
            ask_the_nearest_only(node)

    async def attacker(number: int) -> None:
        node = await arena.node(is_honest=False, identity=near_the_root(arena, number))
        handlers = node.attachment.directory._peers._handlers  # type: ignore[attr-defined]
        for kind in (Query, DirectoryAnnounce):
            handlers[kind] = lambda sender, request: lie(request)

    await asyncio.gather(*map(attacker, range(arena.attackers)))
    await asyncio.sleep(5.0)
    newcomers: list[set[int]] = []

    await asyncio.gather(*(newcomer(arena, newcomers) for _ in range(NEWCOMERS)))
    arena.judged, arena.judged_from = newcomers, arena.published + 1


async def poison(arena: Arena) -> None:
    fakes = invented(1000)
    draws = arena.case.settings.get("mode") != "semi-structured"
    nodes = await arena.members()
    while True:
        for node in nodes:
            context = node.attachment.runtime.context("datagram")
            for victim in arena.honest:
                fake = arena.random.choice(fakes)
                term = arena.random.getrandbits(32)
                message: object = Forward(TOPIC, ScampSubscription(fake, term, 600.0), 0)
                if draws:
                    message = Drawn(TOPIC, 600.0, 10_000.0, True, True)
                context.send(victim.attachment.contact, message)
        await asyncio.sleep(0.2)


async def abuse(arena: Arena) -> None:
    nodes = await arena.members()
    began = arena.network.stats.sent
    source = next(iter(community_of(arena.honest[1])._dissemination._runs))
    rounds = 0
    while True:
        for node in nodes:
            context = node.attachment.runtime.context("channel")
            for victim in arena.honest:
                everything = FetchBlocks(TOPIC, source, (1, BEFORE + DURING), True)
                context.send(victim.attachment.contact, everything)
                context.send(victim.attachment.contact, Prune(TOPIC, source))
        rounds += 1
        sent = arena.network.stats.sent - began
        arena.figures["sent"] = sent / (rounds * len(nodes) * len(arena.honest) * 2)
        await asyncio.sleep(0.1)


async def replay(arena: Arena) -> None:
    """From another host, and to another node too: what one could have recorded."""
    recorded: list[Packet] = []
    with arena.network.rule(recorded.append):
        await asyncio.sleep(5.0)
    transport, _ = await asyncio.get_running_loop().create_datagram_endpoint(
        asyncio.DatagramProtocol, local_addr=(nth_host(240), 666)
    )
    try:
        others = [node.address for node in arena.honest]
        while True:
            for packet in recorded[:500]:
                other = arena.random.choice(others)
                transport.sendto(packet.data, packet.destination)
                transport.sendto(packet.data, (other.host, other.port))
            await asyncio.sleep(1.0)
    finally:
        transport.close()


async def slots(arena: Arena) -> None:
    """Each attacker keeps a channel to every honest node busy, so that none is idle and makes way for age."""
    if arena.case.defence == "none":
        for node in arena.honest:
            table = node.attachment.runtime.channels._table
            table._make_way_for = lambda sender, half_open: False  # type: ignore[method-assign]
    joining = (arena.node(is_honest=False, port=5000 + number) for number in range(arena.attackers))
    nodes = list(await asyncio.gather(*joining))
    newcomers: list[set[int]] = []

    async def hold() -> None:
        while True:
            for node in nodes:
                context = node.attachment.runtime.context("channel")
                for victim in arena.honest[: arena.honest_count]:
                    context.send(victim.attachment.contact, Prune(TOPIC, bytes(28)))
            await asyncio.sleep(1.0)

    holding = asyncio.ensure_future(hold())
    arena.stack.callback(holding.cancel)
    await asyncio.sleep(3.0)
    await asyncio.gather(*(newcomer(arena, newcomers) for _ in range(NEWCOMERS)))
    arena.judged, arena.judged_from = newcomers, arena.published + 1


async def clock(arena: Arena) -> None:
    """They take their right for good, and honest nodes do not."""
    stolen: list[set[int]] = []
    for _ in range(arena.attackers):
        identity = Identity(arena.random.randbytes(32))
        ended = Grant(identity.public_key, Action.SUBSCRIBE, TOPIC, until=int(time.time()) - 3600)
        node = await arena.node(is_honest=False, identity=identity)
        gate = node.attachment.gate
        if gate is not None:
            gate.own.check = lambda action, topic: None  # type: ignore[method-assign]
            gate.own.rights = (grant_first(AUTHORITY, ended).packed,)
        await arena.listen(node, stolen)
    first = arena.published + 2
    while True:
        await asyncio.sleep(1.0)
        since = max(arena.published - first, 1)
        got = sum(number >= first for had in stolen for number in had)
        arena.figures["stolen"] = 100 * got / since / len(stolen)


class _Stranger(asyncio.DatagramProtocol):
    """Counts the bytes that come back to one who has proven nothing."""

    def __init__(self) -> None:
        self.received = 0

    def datagram_received(self, data: bytes, address: Any) -> None:
        self.received += len(data)


async def amplification(arena: Arena) -> None:
    """The first datagrams of all kinds that were on the wire, from an address that never answers."""
    recorded: list[Packet] = []
    with arena.network.rule(recorded.append):
        await arena.subscriber([])
    loop = asyncio.get_running_loop()
    asked: list[tuple[int, _Stranger]] = []
    for number, packet in enumerate(recorded[:MOST_ASKED]):
        transport, stranger = await loop.create_datagram_endpoint(
            _Stranger, local_addr=(nth_host(240), 1000 + number)
        )
        transport.sendto(packet.data, packet.destination)
        asked.append((len(packet.data), stranger))
    await asyncio.sleep(10.0)
    arena.figures["most"] = max(stranger.received / size for size, stranger in asked)
    total = sum(stranger.received for _, stranger in asked)
    arena.figures["mean"] = total / sum(size for size, _ in asked)


ATTACKS: dict[str, Callable[[Arena], Awaitable[None]]] = {
    "censor": censor,
    "promise": promise,
    "delay": delay,
    "sybils": sybils,
    "cold boot": cold_boot,
    "eclipse": eclipse,
    "poison": poison,
    "abuse": abuse,
    "replay": replay,
    "slots": slots,
    "clock": clock,
    "amplification": amplification,
}

OPEN: dict[str, Any] = {"keys": []}
NO_REPAIR = {"parameters": Parameters(fetch_delay=1000.0)}
FEW_CHANNELS = {"channel": ChannelConfig(max_channels=32, max_half_open=16)}
SCAMP = {"mode": "semi-structured"}
CASES = (
    Case("censor", "events are named and fetched"),
    Case("censor", "none", NO_REPAIR),
    Case("promise", "others are asked in turn"),
    Case("promise", "none", NO_REPAIR),
    Case("delay", "events are named and fetched"),
    Case("delay", "none", NO_REPAIR),
    Case("sybils", "rights", has_rights=True),
    Case("sybils", "events are named and fetched"),
    Case("cold boot", "events are named and fetched"),
    Case("cold boot", "none", NO_REPAIR),
    Case("eclipse", "the region is asked; ids drawn until near"),
    Case("eclipse", "the region is asked; open, ids chosen", {**OPEN, "dht": DhtConfig()}),
    Case("eclipse", "none"),
    Case("poison", "leases, SCAMP", SCAMP),
    Case("poison", "leases and rights, SCAMP", SCAMP, has_rights=True),
    Case("poison", "leases, structured"),
    Case("abuse", "rights", has_rights=True),
    Case("abuse", "leases"),
    Case("replay", "sessions"),
    Case("replay", "none", OPEN),
    Case("slots", "blocks of addresses make way", FEW_CHANNELS),
    Case("slots", "the same, and who has shown no right", FEW_CHANNELS, has_rights=True),
    Case("slots", "none", FEW_CHANNELS),
    Case("clock", "rights end by the clocks of those who give", has_rights=True),
    Case("clock", "none"),
    Case("amplification", "sessions"),
    Case("amplification", "none", OPEN),
)
ATTACKERS = {
    "sybils": [20],
    "eclipse": [6, 24, 48],
    "poison": [2],
    "abuse": [2],
    "replay": [1],
    "slots": [10, 30],
    "clock": [2],
    "amplification": [1],
}
"""How many there are where the attack does not go by their part of the community."""


def run(options: argparse.Namespace) -> Iterator[Row]:
    """A few seconds for each case."""
    for case in CASES:
        if case.attack not in options.attacks:
            continue
        for attackers in ATTACKERS.get(case.attack, options.attackers):
            arena = Arena(case, options, attackers)
            arena.run()
            settings = {
                "attack": case.attack,
                "defence": case.defence,
                "nodes": options.nodes,
                "attackers": attackers,
            }
            for metric, value in arena.figures.items():
                yield Row("attacks", settings, metric, value)


WORKLOAD = Workload(
    "attacks",
    "Attacks",
    "What attackers among emulated nodes take from honest ones, with each defence and without it: share of"
    " deliveries lost, and time until all events reach all honest nodes again.",
    (
        Option("nodes", 16, "honest nodes of the community"),
        Option("attackers", [5, 16], "attackers, where one is not enough"),
        Option("attacks", list(ATTACKS), "which", choices=tuple(ATTACKS)),
        Option("seed", 1, "the network's"),
    ),
    run,
    (
        RowTable(
            "attacks",
            "Honest deliveries lost under attack",
            {"attack": "attack", "defence": "defence", "nodes": "honest", "attackers": "attackers"},
            (
                column("% lost", "{:.2f}", "lost"),
                column("s to recover", "{:.0f}", "recovered"),
                column("datagrams in all for a hostile message", "{:.2f}", "sent"),
                column("% of events stolen", "{:.1f}", "stolen"),
                column("bytes out a byte in, at most", "{:.2f}", "most"),
                column("in the mean", "{:.2f}", "mean"),
            ),
            "A dash under `s to recover`: events were still lost at the end of the attack, 15 s after its"
            " beginning.",
        ),
    ),
    quick_seconds=90,
)
