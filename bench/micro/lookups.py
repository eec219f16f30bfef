"""Lookups of 64 real nodes on loopback, against stock kademlia in the same run; and what an idle node sends.

Both networks live in one process and on one core, so a lookup's time is the work of everybody it asks. While
all nodes live they take turns, a block of lookups each, for the same targets from the same nodes. Then
the same 30 % of the nodes vanish, and a few nodes look at the same moment; and when they have done so a few
times, once more. Stock nodes forget a dead contact at once and learn it again from the next reply, so
for them a second time tells what any would; and as they mostly wait, they do it together.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
import random
import statistics
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from kademlia.crawling import NodeSpiderCrawl
from kademlia.network import Server
from kademlia.node import Node

from bench.micro.measurement import Measurement
from overlay.contact import Address, PeerId
from overlay.dht import Dht, DhtConfig
from overlay.identity import Identity
from overlay.loops import run
from overlay.metrics import Metrics
from overlay.transport.endpoint import Endpoint, EndpointConfig
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


class Member(Protocol):
    """A node of either kind."""

    async def closest(self, target: bytes) -> Sequence[Any]: ...

    async def vanish(self) -> None:
        """Stop without a goodbye."""
        ...


@dataclass
class OurMember:
    endpoint: Endpoint
    dht: Dht

    @classmethod
    async def start(cls, listen: str, bootstrap: Sequence[Address]) -> OurMember:
        endpoint = await Endpoint.open(EndpointConfig(listen), Identity.create(), Metrics())
        dht = await Dht.start(endpoint, DhtConfig())
        await dht.join(bootstrap)
        return cls(endpoint, dht)

    async def closest(self, target: bytes) -> Sequence[Any]:
        return await self.dht.closest(PeerId(target))

    async def vanish(self) -> None:
        await self.endpoint.close()
        await self.dht.close()


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


@dataclass
class Times:
    """What lookups took in one network."""

    healthy: list[float] = field(default_factory=list)
    """Seconds of each, while all nodes lived."""
    work: float = 0.0
    """Seconds of the processor for all of these."""
    just_after: list[float] = field(default_factory=list)
    once_known: list[float] = field(default_factory=list)


async def _our_network() -> list[Member]:
    members = [await OurMember.start("127.0.0.1:0", [])]
    while len(members) < NODES:
        known = members[-1].endpoint.contact.address
        members.append(await OurMember.start("127.0.0.1:0", [known]))
    return list(members)


async def _stock_network() -> list[Member]:
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


async def _healthy_block(times: Times, members: list[Member], block: int) -> None:
    draw = random.Random(block)
    started = time.process_time()
    for number in range(LOOKUPS // BLOCKS):
        target = _target(f"healthy {block}", number)
        times.healthy.append(await _timed(draw.choice(members), target))
    times.work += time.process_time() - started


async def _after_deaths(times: Times, members: list[Member], rounds: int) -> None:
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


async def _timed_together(askers: list[Member], name: str) -> list[float]:
    timed = [_timed(member, _target(name, n)) for n, member in enumerate(askers)]
    return list(await asyncio.gather(*timed))


async def _timed(member: Member, target: bytes) -> float:
    started = time.perf_counter()
    await member.closest(target)
    return time.perf_counter() - started


def _target(name: str, number: int) -> bytes:
    return hashlib.sha1(f"{name} {number}".encode()).digest()


def _quantiles(seconds: list[float]) -> tuple[float, float]:
    ordered = sorted(seconds)
    return statistics.median(ordered), ordered[min(len(ordered) - 1, int(0.99 * len(ordered)))]


def _compare(name: str, ours: list[float], stock: list[float]) -> list[Measurement]:
    (p50, p99), (stock_p50, stock_p99) = _quantiles(ours), _quantiles(stock)
    beside = f"stock p50 {1e3 * stock_p50:.1f} ms, p99 {1e3 * stock_p99:.1f} ms"
    return [
        Measurement(f"lookup {name}, p50", 1e3 * p50, "ms", beside),
        Measurement(f"lookup {name}, p99", 1e3 * p99, "ms"),
        Measurement(
            f"lookup {name}, times faster than stock", stock_p50 / p50, "x", "ratio of p50"
        ),
    ]


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


def measure() -> list[Measurement]:
    """Takes about a minute and a half, most of it stock kademlia waiting for the dead."""
    for noisy in ("kademlia", "rpcudp"):
        logging.getLogger(noisy).setLevel(logging.CRITICAL)
    ours, stock = run(_compare_networks())
    rate, stock_rate = LOOKUPS / sum(ours.healthy), LOOKUPS / sum(stock.healthy)
    return [
        Measurement("lookups, healthy", rate, "1/s", f"stock {stock_rate:.0f}/s; {NODES} nodes"),
        *_compare("healthy", ours.healthy, stock.healthy),
        Measurement(
            "lookup healthy, times less work than stock",
            stock.work / ours.work,
            "x",
            "processor time for a lookup: "
            f"{1e3 * ours.work / LOOKUPS:.1f} ms against {1e3 * stock.work / LOOKUPS:.1f} ms",
        ),
        *_compare("just after 30 % died", ours.just_after, stock.just_after),
        *_compare("once the dead are known", ours.once_known, stock.once_known),
        Measurement("sent by an idle node", _idle_bytes(), "bytes/min", "virtual network"),
    ]


if __name__ == "__main__":
    for line in measure():
        print(f"{line.name:55} {line.value:12.2f} {line.unit:10} {line.note}")
