"""Attacks on whole emulated nodes, each against the defence there is and without it.

A community of honest nodes, one of which publishes an event every second. After five events the attack
begins, and goes on to the end. What is shown: the share of honest deliveries lost from then on, how long they
took, and how long it was from the beginning of the attack until all events reached all honest nodes and
went on to; none where that had not happened by the end. Attackers hold the network key, where there is one,
and are members of the community unless a right keeps them out. Virtual networks by seed, so a run can be
repeated; a figure is the mean of all seeds, or the worst.

- censor: attackers, who were good members until then, take events, and neither pass them on nor name them.
- promise: the same, who name every event at once and never send it.
- delay: the same, who pass events on ten seconds late.
- prune: the same, who also ask every member not to be sent anything, and so take the places of others.
- sybils: attackers of one host join in the same second, and censor.
- cold boot: attackers start together with the others, with ids drawn until one is near the topic's key in the
  DHT, answer there as those of `eclipse` do, and censor.
- eclipse: attackers have ids next to the topic's key in the DHT, answer there for the topic, and name nobody
  but each other in lookups; the loss is that of newcomers. Ids are chosen, or drawn until one is near.
- poison: attackers push nodes that are not in the community into honest members' tables; how much of the
  events these nodes are sent.
- fetch: attackers, who are not in the community, ask every node for everything ten times a second.
- replay: all that was on the wire is sent again from elsewhere, to its receiver and to another node; how
  much of it is taken.
- slots: attackers of one host open as many channels as honest nodes have places for; the loss is that of
  newcomers.
- clock: attackers whose right ended an hour ago have set their clocks back; how much of the events they get.
- amplification: a stranger asks what has the longest answers; bytes that come back for a byte that was sent.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import random
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from math import inf
from struct import pack
from typing import Any

from bench.workloads.arena import AUTHORITY, BEFORE, DURING, KEY, TOPIC, Arena, Attack, Case
from bench.workloads.workload import Option, Row, RowTable, Workload
from overlay.channel.buffer import Until
from overlay.channel.config import ChannelConfig
from overlay.contact import Contact, PeerId
from overlay.dht import DhtConfig
from overlay.dht.messages import FindNode, FoundNodes, join_contacts
from overlay.directory.messages import AnnounceMember as DirectoryAnnounce
from overlay.directory.messages import AnnounceReply, Query, ShardReply
from overlay.directory.region import Region
from overlay.directory.tree import Shard, by_rank, fingerprint, topic_key
from overlay.errors import CamcastError
from overlay.identity import Identity
from overlay.membership.scamp.messages import Forward, ScampSubscription
from overlay.virtual import nth_host
from overlay.virtual.links import Packet
from pubsub.camcast.messages import FetchBlocks, Prune
from pubsub.camcast.parameters import Parameters
from pubsub.node import Node
from pubsub.rights import Action, Grant, grant_first

NEWCOMERS = 6
JOIN_SECONDS = 8.0
"""Newcomers that are not in the community by then have lost everything."""
OUTSIDERS = 4
"""Nodes that are pushed into tables and are not in the community."""
MOST_ASKED = 300
"""Datagrams with which a stranger asks."""
DRAWS = 512
"""Identities that each attacker draws to get near a key."""
NOWHERE = "127.9.9.9"
ROOT = Shard(topic_key(TOPIC), 0, 0)


# What attackers do.


def community_of(node: Node) -> Any:
    return node._process.communities[TOPIC]


def do_censor(nodes: list[Node]) -> None:
    for node in nodes:
        community_of(node)._dissemination.spread = lambda gossip, sender: ()


async def censor(arena: Arena) -> None:
    do_censor(arena.hostile)


async def cold_boot(arena: Arena) -> None:
    async def attacker(number: int) -> Node:
        node = await arena.node(is_honest=False, identity=near_the_root(arena, number))
        answer_falsely(arena, node)
        await arena.stack.enter_async_context(node.subscribe(TOPIC))
        return node

    do_censor(list(await asyncio.gather(*map(attacker, range(arena.attackers)))))


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


async def newcomers(arena: Arena) -> None:
    """More honest members, as far as they get in; from now on they are judged."""
    judged: list[dict[int, float]] = []

    async def join() -> None:
        try:
            node = await arena.node()
            arena.turn_off(node)
            async with asyncio.timeout(JOIN_SECONDS):
                await arena.listen(node, judged)
        except (TimeoutError, CamcastError):
            judged.append({})  # all events are lost to it

    await asyncio.gather(*(join() for _ in range(NEWCOMERS)))
    arena.judged, arena.judged_from = judged, arena.published + 1


def answer_falsely(arena: Arena, node: Node) -> None:
    """Have an attacker say of a topic that it has invented members, and name attackers alone in lookups."""

    arena.liars.append(node.attachment.contact)

    def find(sender: Contact, request: FindNode) -> FoundNodes:
        goal = int.from_bytes(request.target, "big")
        others = [contact for contact in arena.liars if contact.id != node.id]
        others.sort(key=lambda contact: int.from_bytes(contact.id, "big") ^ goal)
        dht: Any = node.attachment.directory._peers  # type: ignore[attr-defined]
        return FoundNodes(dht.give_token(sender), join_contacts(others[: min(request.count, 20)]))

    handlers = node.attachment.directory._peers._handlers  # type: ignore[attr-defined]
    for kind in (Query, DirectoryAnnounce):
        handlers[kind] = lambda sender, request: lie(request)
    handlers[FindNode] = find


async def eclipse(arena: Arena) -> None:
    async def attacker(number: int) -> None:
        node = await arena.node(is_honest=False, identity=near_the_root(arena, number))
        answer_falsely(arena, node)

    await asyncio.gather(*map(attacker, range(arena.attackers)))
    await asyncio.sleep(5.0)
    await newcomers(arena)


def events_at(outsiders: list[Node]) -> set[tuple[Node, int]]:
    """The events that reach nodes outside the community, as they come."""
    had: set[tuple[Node, int]] = set()
    for node in outsiders:

        def note(_: str, topic: str, source: Any, numbers: Any, *__: Any, to: Any = node) -> None:
            if source is not None and topic == TOPIC:
                had.update((to, number) for run in numbers for number in run)

        node._process._drops.add = note  # type: ignore[method-assign, assignment]
    return had


async def poison(arena: Arena) -> None:
    """In SCAMP anybody may hand on a subscription; each is new by its term."""
    outsiders = [await arena.node(is_honest=False) for _ in range(OUTSIDERS)]
    had = events_at(outsiders)
    nodes = await arena.members()
    first = arena.published + 1
    while True:
        for node in nodes:
            context = node.attachment.runtime.context("datagram")
            for victim in arena.honest:
                contact = arena.random.choice(outsiders).attachment.contact
                subscription = ScampSubscription(contact, arena.random.getrandbits(32), 600.0)
                context.send(victim.attachment.contact, Forward(TOPIC, subscription, 0))
        await asyncio.sleep(0.2)
        late = sum(number > first for _, number in had)
        events = max(arena.published - first, 1)
        arena.figures["stolen"] = 100 * late / events / len(outsiders)


def source_of(arena: Arena) -> bytes:
    """The run of the publisher."""
    found: bytes = next(iter(community_of(arena.honest[1])._dissemination._runs))
    return found


async def prune(arena: Arena) -> None:
    do_censor(arena.hostile)
    source = source_of(arena)
    while True:
        for node in arena.hostile:
            context = node.attachment.runtime.context("channel")
            for victim in arena.honest:
                context.send(victim.attachment.contact, Prune(TOPIC, source))
        await asyncio.sleep(1.0)


async def fetch(arena: Arena) -> None:
    nodes = [await arena.node(is_honest=False) for _ in range(arena.attackers)]
    source = source_of(arena)
    had = events_at(nodes)
    rounds = 0
    received = [0]

    def count(packet: Packet) -> None:
        received[0] += packet.destination in addresses

    addresses = {(node.address.host, node.address.port) for node in nodes}
    with arena.network.rule(count):
        while True:
            for node in nodes:
                context = node.attachment.runtime.context("channel")
                for victim in arena.honest:
                    everything = FetchBlocks(TOPIC, source, (1, BEFORE + DURING), True)
                    context.send(victim.attachment.contact, everything)
            rounds += 1
            arena.figures["sent"] = received[0] / (rounds * len(nodes) * len(arena.honest))
            arena.figures["stolen"] = 100 * len(had) / arena.published / len(nodes)
            await asyncio.sleep(0.1)


async def replay(arena: Arena) -> None:
    """From another host, and to another node too: what one could have recorded."""
    recorded: list[Packet] = []
    with arena.network.rule(recorded.append):
        await asyncio.sleep(5.0)
    address = (nth_host(240), 666)
    transport, _ = await asyncio.get_running_loop().create_datagram_endpoint(
        _Stranger, local_addr=address
    )
    arena.stack.callback(transport.close)
    taken = [_count_taken(node, address) for node in arena.honest]
    others = [node.address for node in arena.honest]
    sent = 0
    while True:
        for packet in recorded[:500]:
            other = arena.random.choice(others)
            transport.sendto(packet.data, packet.destination)
            transport.sendto(packet.data, (other.host, other.port))
            sent += 2
        await asyncio.sleep(1.0)
        arena.figures["taken"] = 100 * sum(map(len, taken)) / sent


def _count_taken(node: Node, address: tuple[str, int]) -> list[bytes]:
    """The datagrams from an address of which a node hands frames to a protocol, as they come."""
    endpoint: Any = node.attachment.runtime.endpoint
    taken: list[bytes] = []
    real, frames = endpoint._take, endpoint._frames_in

    def take(datagram: bytes, source: Any) -> None:
        before = frames.value
        real(datagram, source)
        if source == address and frames.value > before:
            taken.append(datagram)

    endpoint.__dict__["_take"] = take
    return taken


async def slots(arena: Arena) -> None:
    """Each attacker keeps a channel to every honest node busy, so that none is idle and makes way for age."""
    joining = (arena.node(is_honest=False, port=5000 + number) for number in range(arena.attackers))
    nodes = list(await asyncio.gather(*joining))

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
    await newcomers(arena)


async def clock(arena: Arena) -> None:
    """They take their right for good, and honest nodes do not."""
    stolen: list[dict[int, float]] = []
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
        asks = await arena.node()
        arena.turn_off(asks)
        await arena.listen(asks, [])
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


# How a defence is taken from an honest node.


def no_region(node: Node) -> None:
    async def none(*_: object) -> Region:
        return Region()

    node.attachment.directory._locations.region = none  # type: ignore[attr-defined]


def strangers_are_trusted(node: Node) -> None:
    """No question is made longer, and no answer waits."""
    node.attachment.directory._peers.exchange._strangers = None  # type: ignore[attr-defined]


def no_way_made(node: Node) -> None:
    table = node.attachment.runtime.channels._table
    table._make_way_for = lambda sender, half_open: False  # type: ignore[method-assign]


def no_blame(node: Node) -> None:
    community_of(node)._dissemination._missing._is_blamed = lambda member, now: False


class _FetchOnly:
    """A context in which nobody who is asked for an event is asked for those that follow."""

    def __init__(self, context: Any) -> None:
        self._context = context

    def __getattr__(self, name: str) -> Any:
        return getattr(self._context, name)

    def send(self, to: Contact, message: Any) -> None:
        if isinstance(message, FetchBlocks):
            message = replace(message, go_on=False)
        self._context.send(to, message)


def parents_stay(node: Node) -> None:
    missing = community_of(node)._dissemination._missing
    missing._context = _FetchOnly(missing._context)


class _Believed(dict[Any, Any]):
    """Every member has promised to be one for ever."""

    def __init__(self, promise: Any) -> None:
        self._promise = promise

    def get(self, key: Any, default: Any = None) -> Any:
        return self._promise

    __missing__ = __getitem__ = get


def no_leases(node: Node) -> None:
    leases = community_of(node)._leases
    leases._until = leases._renew_before = _Believed(inf)
    leases._promises = _Believed(_Believed(Until(inf)))
    leases._end_promise = lambda peer, topic: None


ATTACKS = {
    "censor": Attack(censor, is_by_members=True),
    "promise": Attack(promise, is_by_members=True),
    "delay": Attack(delay, is_by_members=True),
    "prune": Attack(prune, is_by_members=True),
    "sybils": Attack(sybils),
    "cold boot": Attack(cold_boot, is_cold_boot=True),
    "eclipse": Attack(eclipse, is_on_newcomers=True),
    "poison": Attack(poison),
    "fetch": Attack(fetch),
    "replay": Attack(replay),
    "slots": Attack(slots, is_on_newcomers=True),
    "clock": Attack(clock),
    "amplification": Attack(amplification),
}

OPEN: dict[str, Any] = {"keys": []}
NO_REPAIR = {"parameters": Parameters(fetch_delay=1000.0)}
FEW_CHANNELS = {"channel": ChannelConfig(max_channels=32, max_half_open=16)}
SCAMP = {"mode": "semi-structured"}
FETCHED = "events are named and fetched"
CASES = (
    Case("censor", "fetched, and from whom becomes the parent"),
    Case("censor", "fetched, parents stay", turn_off=parents_stay),
    Case("censor", "none", NO_REPAIR),
    Case("promise", "who broke promises is asked last"),
    Case("promise", "all are asked in turn", turn_off=no_blame),
    Case("promise", "none", NO_REPAIR),
    Case("delay", FETCHED),
    Case("delay", "none", NO_REPAIR),
    Case("prune", FETCHED),
    Case("prune", "none", NO_REPAIR),
    Case("sybils", "rights", has_rights=True),
    Case("sybils", FETCHED),
    Case("sybils", "none", NO_REPAIR),
    Case("cold boot", "the region, disjoint paths"),
    Case("cold boot", "none", turn_off=no_region),
    Case("eclipse", "the region, disjoint paths"),
    Case("eclipse", "none", turn_off=no_region),
    Case("eclipse, ids chosen", "the region, disjoint paths", {**OPEN, "dht": DhtConfig()}),
    Case("eclipse, ids chosen", "none", {**OPEN, "dht": DhtConfig()}, turn_off=no_region),
    Case("poison", "leases", SCAMP),
    Case("poison", "none", SCAMP, turn_off=no_leases),
    Case("fetch", "leases and rights", has_rights=True),
    Case("fetch", "leases"),
    Case("fetch", "none", turn_off=no_leases),
    Case("replay", "sessions"),
    Case("replay", "none", OPEN),
    Case("slots", "blocks of addresses make way", FEW_CHANNELS),
    Case("slots", "the same, and who has shown no right", FEW_CHANNELS, has_rights=True),
    Case("slots", "none", FEW_CHANNELS, turn_off=no_way_made),
    Case("clock", "rights end by the clocks of those who give", has_rights=True),
    Case("clock", "none"),
    Case("amplification", "sessions"),
    Case("amplification", "first questions are as long as answers", OPEN),
    Case("amplification", "none", OPEN, turn_off=strangers_are_trusted),
)
ATTACKERS = {
    "sybils": [40],
    "cold boot": [7],
    "eclipse": [4, 24, 96],
    "eclipse, ids chosen": [24],
    "poison": [4],
    "fetch": [2],
    "replay": [1],
    "slots": [30],
    "clock": [2],
    "amplification": [1],
}
"""How many there are where they are not as many as honest members."""


def attack_of(case: Case) -> Attack:
    return ATTACKS[case.attack.partition(",")[0]]


def run_one(number: int, nodes: int, attackers: int, seed: int) -> dict[str, float]:
    """What one network shows of one case."""
    case = CASES[number]
    arena = Arena(attack_of(case), case, nodes, attackers, seed)
    arena.run()
    return arena.figures


def summed_up(found: Sequence[dict[str, float]]) -> dict[str, float]:
    """The figures of all seeds: the mean, or the worst."""
    figures: dict[str, float] = {}
    for metric in found[0]:
        values = [each[metric] for each in found if metric in each]
        if len(values) == len(found):  # a network that does not recover has no time to
            is_worst = metric in ("recovered", "most")
            figures[metric] = max(values) if is_worst else sum(values) / len(values)
    figures["worst"] = max(each["lost"] for each in found)
    return figures


def run(options: argparse.Namespace) -> Iterator[Row]:
    """About 8 s of processor for each case, number of attackers and seed."""
    with ProcessPoolExecutor(os.cpu_count()) as pool:
        begun = []
        for number, case in enumerate(CASES):
            if case.attack.partition(",")[0] not in options.attacks:
                continue
            for attackers in options.attackers or ATTACKERS.get(case.attack, [options.nodes]):
                found = [
                    pool.submit(run_one, number, options.nodes, attackers, seed)
                    for seed in options.seeds
                ]
                begun.append((case, attackers, found))
        for case, attackers, found in begun:
            settings = {
                "attack": case.attack,
                "defence": case.defence,
                "nodes": options.nodes,
                "attackers": attackers,
                "seeds": len(options.seeds),
            }
            for metric, value in summed_up([each.result() for each in found]).items():
                yield Row(settings, metric, value)


WORKLOAD = Workload(
    "attacks",
    "Attacks",
    "What attackers among emulated nodes take from honest ones, with each defence and without it: share of"
    " deliveries lost, their delay, and time until all events reach all honest nodes again.",
    (
        Option("nodes", 16, "honest nodes of the community"),
        Option("attackers", [], "of each attack; without it as many as its table shows", type=int),
        Option("attacks", list(ATTACKS), "which", choices=tuple(ATTACKS)),
        Option("seeds", [1, 2, 3], "of the networks", quick=[1]),
    ),
    run,
    (
        RowTable(
            "attacks",
            "Honest deliveries lost under attack",
            {"attack": "attack", "defence": "defence", "nodes": "honest", "attackers": "attackers"},
            {
                "% lost": "{lost:.1f}",
                "at worst": "{worst:.1f}",
                "s to recover": "{recovered:.0f}",
                "ms to arrive": "{delay:,.0f}",
                "datagrams back for a hostile message": "{sent:.2f}",
                "% of events stolen": "{stolen:.1f}",
                "% of repeated datagrams taken": "{taken:.1f}",
                "most bytes back for a byte": "{most:.2f}",
                "mean bytes back for a byte": "{mean:.2f}",
            },
            "A dash under `s to recover`: in one network at least, events were still lost at the end of the"
            " attack, 15 s after its beginning.",
        ),
    ),
    quick_seconds=300,
)
