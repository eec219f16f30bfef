"""Lookups of 64 real nodes on loopback, against stock kademlia in the same run; and what an idle node sends.

Both networks live in one process and on one core, so a lookup's time is the work of everybody it asks. While
all nodes live they take turns, a block of lookups each, for the same targets from the same nodes. Then
the same 30 % of the nodes vanish, and a few nodes look at the same moment; and when they have done so a few
times, once more. Stock nodes forget a dead contact at once and learn it again from the next reply, so
for them a second time tells what any would; and as they mostly wait, they do it together.
"""

from __future__ import annotations

import argparse
import asyncio
import hashlib
import logging
import random
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from typing import Any

from kademlia.crawling import NodeSpiderCrawl
from kademlia.network import Server
from kademlia.node import Node

from bench.workloads.workload import (
    Option,
    Row,
    RowTable,
    Workload,
    percentiles,
    rows_of,
)
from overlay import Overlay
from overlay.contact import Address, PeerId
from overlay.dht import Dht, DhtConfig
from overlay.directory import DirectoryConfig
from overlay.identity import Identity
from overlay.loops import run as run_loop
from overlay.metrics import Metrics
from overlay.transport.config import EndpointConfig
from overlay.transport.endpoint import Endpoint
from overlay.virtual import Latency, Network, nth_host

NODES = 64
WARMING = 4 * NODES
"""Lookups before anything is measured, until nodes that share lookups have met."""

LOOKUPS = 300
BLOCKS = 10
DEAD = 0.3
LOOKUPS_AT_ONCE = 12
ROUNDS = 8
IDLE_NODES = 64
IDLE_MINUTES = 10


@dataclass
class OurMember:
    endpoint: Endpoint
    dht: Dht

    @classmethod
    async def start(cls, listen: str, bootstrap: Sequence[Address]) -> OurMember:
        endpoint = await Endpoint.open(EndpointConfig(listen), Identity.create(), Metrics())
        dht = Dht(endpoint, DhtConfig())
        await dht.join(bootstrap)
        return cls(endpoint, dht)

    async def closest(self, target: bytes) -> Sequence[Any]:
        return await self.dht.closest(PeerId(target))

    async def vanish(self) -> None:
        """Stop without a goodbye."""
        await self.endpoint.close()
        self.dht.close()


@dataclass
class StockMember:
    server: Any

    @classmethod
    async def start(cls, bootstrap: Sequence[tuple[str, int]]) -> StockMember:
        server = Server()
        await server.listen(0, interface="127.0.0.1")
        if bootstrap:
            await server.bootstrap(list(bootstrap))
        return cls(server)

    @property
    def address(self) -> tuple[str, int]:
        name: tuple[str, int] = self.server.transport.get_extra_info("sockname")
        return name

    async def closest(self, target: bytes) -> Sequence[Any]:
        place, server = Node(target), self.server
        nearest = server.protocol.router.find_neighbors(place)
        crawl = NodeSpiderCrawl(server.protocol, place, nearest, server.ksize, server.alpha)
        found: Sequence[Any] = await crawl.find()
        return found

    async def vanish(self) -> None:
        self.server.stop()


DhtMember = OurMember | StockMember


@dataclass
class Times:
    """What lookups took in one network."""

    healthy: list[float] = field(default_factory=list)
    """Seconds of each, while all nodes lived."""
    work: float = 0.0
    """Seconds of the processor for all of these."""
    just_after: list[float] = field(default_factory=list)
    once_known: list[float] = field(default_factory=list)


async def _our_network() -> list[DhtMember]:
    members = [await OurMember.start("127.0.0.1:0", [])]
    while len(members) < NODES:
        known = members[-1].endpoint.contact.address
        members.append(await OurMember.start("127.0.0.1:0", [known]))
    return list(members)


async def _stock_network() -> list[DhtMember]:
    members = [await StockMember.start([])]
    while len(members) < NODES:
        members.append(await StockMember.start([members[-1].address]))
    return list(members)


async def _compare_networks() -> tuple[Times, Times]:
    ours, stock = Times(), Times()
    networks = [(ours, await _our_network()), (stock, await _stock_network())]
    for _, members in networks:
        for number in range(WARMING):
            await members[number % NODES].closest(_target("warm", number))
    for block in range(BLOCKS):
        for times, members in networks:
            await _healthy_block(times, members, block)
    await _after_deaths(ours, networks[0][1], rounds=ROUNDS)
    await _after_deaths(stock, networks[1][1], rounds=1)
    return ours, stock


async def _healthy_block(times: Times, members: list[DhtMember], block: int) -> None:
    draw = random.Random(block)
    started = time.process_time()
    for number in range(LOOKUPS // BLOCKS):
        target = _target(f"healthy {block}", number)
        times.healthy.append(await _timed(draw.choice(members), target))
    times.work += time.process_time() - started


async def _after_deaths(times: Times, members: list[DhtMember], rounds: int) -> None:
    """30 % vanish, the same in either network; some others look together, `rounds` times, and again."""
    numbers = random.Random(8).sample(range(NODES), round(DEAD * NODES))
    for number in numbers:
        await members[number].vanish()
    alive = [member for number, member in enumerate(members) if number not in numbers]
    askers = random.Random(9).sample(alive, LOOKUPS_AT_ONCE)
    times.just_after = await _timed_together(askers, "round 0")
    for number in range(1, rounds):
        await _timed_together(askers, f"round {number}")
    if rounds > 1:
        times.once_known = [await _timed(m, _target("known", n)) for n, m in enumerate(askers)]
    else:
        times.once_known = await _timed_together(askers, "known")
    for member in alive:
        await member.vanish()


async def _timed_together(askers: list[DhtMember], name: str) -> list[float]:
    timed = [_timed(member, _target(name, n)) for n, member in enumerate(askers)]
    return list(await asyncio.gather(*timed))


async def _timed(member: DhtMember, target: bytes) -> float:
    started = time.perf_counter()
    await member.closest(target)
    return time.perf_counter() - started


def _target(name: str, number: int) -> bytes:
    return hashlib.sha1(f"{name} {number}".encode()).digest()


def _idle_bytes() -> float:
    """Bytes that a node of an idle network sends in a minute, all headers of this protocol included."""
    net = Network(seed=1, latency=Latency.constant(0.02))

    async def main() -> float:
        members: list[OurMember] = []
        for number in range(IDLE_NODES):
            host = nth_host(number + 1)
            bootstrap = [members[-1].endpoint.contact.address] if members else []
            members.append(await net.spawn(host, OurMember.start(f"{host}:4000", bootstrap)))
        await asyncio.sleep(60)
        before = net.stats.sent_bytes
        await asyncio.sleep(60 * IDLE_MINUTES)
        return (net.stats.sent_bytes - before) / IDLE_NODES / IDLE_MINUTES

    return net.run(main())


def _lookups() -> Iterator[Row]:
    """Takes about a minute and a half, most of it stock kademlia waiting for the dead."""
    for noisy in ("kademlia", "rpcudp"):
        logging.getLogger(noisy).setLevel(logging.CRITICAL)
    ours, stock = run_loop(_compare_networks())
    for when, mine, theirs in (
        ("all live", ours.healthy, stock.healthy),
        ("30 % have just died", ours.just_after, stock.just_after),
        ("the dead are known", ours.once_known, stock.once_known),
    ):
        metrics = percentiles(mine, 1e3, "ms")
        others = percentiles(theirs, 1e3, "ms")
        metrics |= {f"stock {name}": value for name, value in others.items()}
        metrics["faster than stock"] = (others["p50"][0] / metrics["p50"][0], "x")
        yield from rows_of({"when": when, "nodes": NODES}, metrics)
    yield from rows_of(
        {"when": "all live", "nodes": NODES},
        {
            "work": (1e3 * ours.work / LOOKUPS, "ms/lookup"),
            "stock work": (1e3 * stock.work / LOOKUPS, "ms/lookup"),
        },
    )


# The topic directory: 40 nodes, all of them members of one topic; one that has sampled before draws
# twelve members again and again. Once with the usual shards (the topic is one), once with shards so small
# that the topic has many, as one of a few thousand members would.

MEMBERS = 40
SAMPLE = 12
SAMPLES = 150
TOPIC = "/soccer/italy"
USUAL = DirectoryConfig(ttl=8.0)
MANY_SHARDS = DirectoryConfig(ttl=8.0, split=4, merge=2, capacity=64)


def _directory() -> Iterator[Row]:
    """Samples a second and datagrams a drawn member, once warm."""
    for config, kind in ((USUAL, "one shard"), (MANY_SHARDS, "many shards")):
        rate, datagrams = run_loop(_sample(config))
        found = {"samples": (rate, "samples/s"), "datagrams": (datagrams, "datagrams/draw")}
        yield from rows_of({"shards": kind}, found)


async def _sample(config: DirectoryConfig) -> tuple[float, float]:
    async with AsyncExitStack() as stack:
        overlays: list[Overlay] = []
        bootstrap: list[str] = []
        for _ in range(MEMBERS):
            overlay = await stack.enter_async_context(
                Overlay(bootstrap=bootstrap, directory=config)
            )
            bootstrap = bootstrap or [str(overlay.contact.address)]
            overlays.append(overlay)
        await asyncio.gather(*(overlay.announce(TOPIC) for overlay in overlays))
        await asyncio.sleep(config.ttl)  # until the shards have settled
        reader = overlays[0]
        for _ in range(SAMPLES // 10):
            await reader.sample(TOPIC, SAMPLE)
        datagrams, start = _datagrams(reader), time.perf_counter()
        for _ in range(SAMPLES):
            assert len(await reader.sample(TOPIC, SAMPLE)) == SAMPLE
        seconds = time.perf_counter() - start
        datagrams = _datagrams(reader) - datagrams
    return SAMPLES / seconds, datagrams / SAMPLES / SAMPLE


def _datagrams(overlay: Overlay) -> int:
    counters = overlay.metrics.as_dict()
    return int(counters["datagrams_sent"]) + int(counters["datagrams_received"])  # type: ignore[arg-type]


PARTS: dict[str, Callable[[], Iterator[Row]]] = {
    "lookups": _lookups,
    "directory": _directory,
    "idle": lambda: iter([Row({"network": "idle"}, "sent", _idle_bytes(), "bytes/min")]),
}


def run(options: argparse.Namespace) -> Iterator[Row]:
    for part in options.parts:
        yield from PARTS[part]()


WORKLOAD = Workload(
    "dht",
    "DHT and directory",
    "Lookups of 64 real nodes on loopback, against stock kademlia in the same run; samples of the topic "
    "directory; what an idle node sends.",
    (Option("parts", list(PARTS), "which of them", choices=tuple(PARTS)),),
    run,
    (
        RowTable(
            "lookups",
            "Lookups, beside stock kademlia",
            {"when": "when", "nodes": "nodes"},
            {
                "p50 / p99 ms": "{p50:.1f} / {p99:.1f}",
                "stock p50 / p99 ms": "{stock p50:.1f} / {stock p99:.1f}",
                "times faster (p50)": "{faster than stock:.1f}",
                "CPU ms a lookup": "{work:.1f}",
                "stock CPU ms": "{stock work:.1f}",
            },
        ),
        RowTable(
            "directory",
            f"Samples of {SAMPLE} of {MEMBERS} members on loopback, one after the other",
            {"shards": "the topic is"},
            {
                "samples/s": "{samples:,.0f}",
                "datagrams a draw": "{datagrams:.2f}",
            },
            "Datagrams: requests and replies, upkeep included.",
        ),
        RowTable(
            "idle",
            f"An idle node among {IDLE_NODES} on the virtual network",
            {"network": "network"},
            {
                "bytes sent a minute": "{sent:,.0f}",
            },
        ),
    ),
    quick_seconds=130,
)
