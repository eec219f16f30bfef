"""Floods of hostile datagrams at one node: what each costs, and what is left of honest traffic.

The first table is of one node that is handed datagrams directly, as fast as it takes them: random bytes,
genuine datagrams that were recorded and come again from elsewhere, the same with some bytes changed, and, in
a network with a key, openings of sessions by members. The second one is of a publisher and a subscriber in
one process over UDP, while another process sends hostile datagrams from one socket of the same host: in turns
to a socket that nobody reads, and to the subscriber. So what the flooder itself takes of the processors is in
both rates, and their quotient is what the flood does to the node: the median of those of all rounds. Rates of
a second scatter by a tenth on a machine that does nothing else, and by more on others; the quotient of the
processor time that the two nodes take for an event scatters by hundredths, and leaves out what the kernel
does for the flooder. The third table is of many nodes that start at once, in one process.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import resource
import socket
import statistics
import time
from collections.abc import Iterator
from contextlib import AsyncExitStack
from multiprocessing.connection import Connection
from typing import Any

from bench.players import Player, Players
from bench.workloads.workload import Option, Row, RowTable, Workload
from overlay.contact import Address
from overlay.identity import Identity
from overlay.session.network_key import NetworkKey
from overlay.session.opening import Opening
from pubsub.node import Node

TOPIC = "/t"
KEY = bytes(range(32))
POOL = 4000
"""Datagrams of a kind that are made before the flood; they come again and again."""
MEMBERS = 400
"""Openings of members, each by an identity of its own."""
A_TURN = 200
"""Datagrams that are handed over before the node has a turn."""
HOSTILE_HOST = "127.0.0.66"
KINDS = ("random bytes", "recorded", "altered", "openings of members")
JOIN_PATIENCE = 300.0
"""Seconds that nodes which start at once are waited for."""
PART_SECONDS = 1.0
"""Of honest traffic beside a flood of somebody else, beside one of the node, and right after it."""
ALL_KINDS = "all"
FLOOD_STEP = 0.002
"""Seconds between two bursts of the flood."""


class Victim:
    """Two nodes, one of which publishes, and what came to the other."""

    def __init__(self, is_sealed: bool) -> None:
        self._keys = [KEY] if is_sealed else []
        self._stack = AsyncExitStack()
        self.taken: list[bytes] = []
        """Genuine datagrams that have come."""
        self.delivered = 0

    async def __aenter__(self) -> Victim:
        enter = self._stack.enter_async_context
        self.node = await enter(Node(keys=self._keys))
        self.endpoint: Any = self.node.attachment.runtime.endpoint
        real = self.endpoint._take

        def take(datagram: bytes, source: Any) -> None:
            if len(self.taken) < POOL:
                self.taken.append(bytes(datagram))
            real(datagram, source)

        self.endpoint.__dict__["_take"] = take
        self.friend = await enter(Node(keys=self._keys, bootstrap=[str(self.node.address)]))
        events = await enter(self.node.subscribe(TOPIC))

        async def count() -> None:
            async for _ in events:
                self.delivered += 1

        task = asyncio.ensure_future(count())
        self._stack.callback(task.cancel)
        for _ in range(300):
            await self.friend.publish(TOPIC, b"x" * 50)
            await asyncio.sleep(0.002)
        del self.endpoint.__dict__["_take"]
        return self

    async def __aexit__(self, *error: object) -> None:
        await self._stack.aclose()

    async def rate(self, seconds: float) -> tuple[float, float]:
        """Events that are published and delivered in a second, as fast as that goes; and in a second of this
        process's processor time."""
        end = time.perf_counter() + seconds
        began, before, spent = time.perf_counter(), self.delivered, time.process_time()
        while time.perf_counter() < end:
            await self.friend.publish(TOPIC, b"x" * 50)
            await asyncio.sleep(0)
        delivered = self.delivered - before
        spent = time.process_time() - spent
        return delivered / (time.perf_counter() - began), delivered / spent


def hostile(kind: str, recorded: list[bytes], chance: random.Random) -> list[bytes]:
    """Datagrams of a kind."""
    if kind == "random bytes":
        return [chance.randbytes(chance.randrange(1, 300)) for _ in range(POOL)]
    if kind == "recorded":
        return recorded
    if kind == "altered":
        return [_altered(datagram, chance) for datagram in recorded]
    openings = []
    for number in range(MEMBERS):
        opening = Opening(Address(HOSTILE_HOST, 1), 0.0, 1.0)
        opening.write(number, NetworkKey(KEY), Identity(chance.randbytes(32)), chance.randbytes(32))
        openings.append(opening.datagram)
    return openings


def _altered(datagram: bytes, chance: random.Random) -> bytes:
    changed = bytearray(datagram)
    for _ in range(chance.randrange(1, 4)):
        changed[chance.randrange(len(changed))] ^= chance.randrange(1, 256)
    return bytes(changed)


def run(options: argparse.Namespace) -> Iterator[Row]:
    """About ten seconds for each million datagrams of a kind; 150 s for the rates."""
    for is_sealed in (True, False):
        for kind in KINDS if is_sealed else KINDS[:-1]:
            yield from hand_over(is_sealed, kind, options)
    for is_sealed in (True, False):
        yield from _rates(is_sealed, options)
    for is_sealed in (True, False):
        yield from asyncio.run(_start_together(is_sealed, options.nodes))


def hand_over(is_sealed: bool, kind: str, options: argparse.Namespace) -> list[Row]:
    """What datagrams of a kind cost a node, and leave behind."""
    return asyncio.run(_hand_over(is_sealed, kind, options))


async def _hand_over(is_sealed: bool, kind: str, options: argparse.Namespace) -> list[Row]:
    chance = random.Random(options.seed)
    async with Victim(is_sealed) as victim:
        pool = hostile(kind, victim.taken, chance)
        receive = victim.endpoint.receive
        counters = victim.node.metrics.as_dict
        sent = sum(map(len, pool)) / len(pool) * options.datagrams
        before: Any = counters()
        memory, began = _memory(), time.process_time()
        for start in range(0, options.datagrams, A_TURN):
            for number in range(start, start + A_TURN):
                receive(pool[number % len(pool)], (HOSTILE_HOST, 1024 + number % 60_000))
            await asyncio.sleep(0)
        spent, grown = time.process_time() - began, _memory() - memory
        after: Any = counters()
        alive = victim.delivered
        await victim.friend.publish(TOPIC, b"still here", wait="acked")
        await asyncio.sleep(0.2)
    settings = {"network": _named(is_sealed), "datagrams": options.datagrams, "kind": kind}
    figures = {
        "cpu": 1e6 * spent / options.datagrams,
        "grown": grown,
        "back": (after["bytes_sent"] - before["bytes_sent"]) / sent,
        "works": float(victim.delivered > alive),
    }
    return [Row(settings, name, value) for name, value in figures.items()]


def _rates(is_sealed: bool, options: argparse.Namespace) -> Iterator[Row]:
    with Players() as players, socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as nobody:
        nobody.bind(("127.0.0.1", 0))
        victim = players.start(serve, is_sealed)
        address, recorded = victim.answer()
        chance = random.Random(options.seed)
        kinds = KINDS if is_sealed else KINDS[:-1]
        pools = {kind: hostile(kind, recorded, chance) for kind in kinds}
        pools[ALL_KINDS] = [datagram for pool in pools.values() for datagram in pool]
        chance.shuffle(pools[ALL_KINDS])
        for kind, pool in pools.items():
            rounds = [
                _round(victim, pool, nobody.getsockname(), address, options)
                for _ in range(options.rounds)
            ]
            settings = {"network": _named(is_sealed), "kind": kind, "rate": options.rate}
            for name in rounds[0]:
                values = [one[name] for one in rounds]
                middle = min(values) if name == "share after" else statistics.median(values)
                yield Row(settings, name, middle)
                if name == "share":
                    yield Row(settings, "least share", min(values))


def _round(
    victim: Player,
    pool: list[bytes],
    nobody: tuple[str, int],
    address: tuple[str, int],
    options: argparse.Namespace,
) -> dict[str, float]:
    """A part beside a flood of somebody else, one beside a flood of the node, and one beside none."""
    victim.tell("measure")
    _flood(pool, nobody, options.rate)
    usual, usual_a_second = victim.answer()
    victim.tell("measure")
    flooded = _flood(pool, address, options.rate)
    rate, a_second = victim.answer()
    victim.tell("measure")
    after, _ = victim.answer()
    return {
        "flooded": flooded,
        "usual": usual,
        "share": rate / usual,
        "share of time": a_second / usual_a_second,
        "share after": after / usual,
    }


def _flood(pool: list[bytes], address: tuple[str, int], rate: int) -> float:
    """Send at this rate for one part; the rate that was reached."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as out:
        began = time.perf_counter()
        sent = 0
        while (now := time.perf_counter() - began) < PART_SECONDS:
            while sent < rate * now:
                out.sendto(pool[sent % len(pool)], address)
                sent += 1
            time.sleep(FLOOD_STEP)
        return sent / (time.perf_counter() - began)


def serve(pipe: Connection, is_sealed: bool) -> None:
    """The process with the honest nodes, on asyncio's own loop."""
    asyncio.run(_serve(pipe, is_sealed))


async def _serve(pipe: Connection, is_sealed: bool) -> None:
    async with Victim(is_sealed) as victim:
        address = victim.node.address
        pipe.send(((address.host, address.port), victim.taken))
        await victim.rate(PART_SECONDS)
        while await asyncio.to_thread(pipe.recv) is not None:
            pipe.send(await victim.rate(PART_SECONDS))


async def _start_together(is_sealed: bool, count: int) -> list[Row]:
    """Nodes that start at once and name one that runs; each subscribes to one topic."""
    keys = [KEY] if is_sealed else []
    async with AsyncExitStack() as stack:
        first = await stack.enter_async_context(Node(keys=keys))

        async def start() -> Node:
            node = Node(keys=keys, bootstrap=[str(first.address)], join_timeout=JOIN_PATIENCE)
            await stack.enter_async_context(node)
            await stack.enter_async_context(node.subscribe(TOPIC))
            return node

        began, spent = time.perf_counter(), time.process_time()
        nodes = await asyncio.gather(*(start() for _ in range(count)))
        figures = {
            "joined in": time.perf_counter() - began,
            "joined cpu": time.process_time() - spent,
            "sessions": sum(len(n.status()["protection"]["sessions"]) for n in nodes) / count,
        }
    settings: dict[str, str | int] = {"network": _named(is_sealed), "nodes": count}
    return [Row(settings, name, value) for name, value in figures.items()]


def _memory() -> float:
    """MB that this process has had at most."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def _named(is_sealed: bool) -> str:
    return "sealed" if is_sealed else "open"


WORKLOAD = Workload(
    "floods",
    "Floods",
    "What hostile datagrams cost a node, what they leave behind, and what is left of honest traffic.",
    (
        Option("datagrams", 1_000_000, "hostile datagrams of each kind", quick=50_000),
        Option("rate", 20_000, "hostile datagrams a second beside honest traffic"),
        Option(
            "rounds",
            5,
            "of a second each beside somebody else's flood, one here, and none",
            quick=1,
        ),
        Option("nodes", 100, "that start at once", quick=20),
        Option("seed", 1, "of the datagrams"),
    ),
    run,
    (
        RowTable(
            "cost",
            "Hostile datagrams, handed to one node",
            {"network": "network", "kind": "kind", "datagrams": "datagrams"},
            {
                "CPU us each": "{cpu:.1f}",
                "MB more": "{grown:.1f}",
                "bytes back a byte": "{back:.3f}",
                "works afterwards": "{works:.0f}",
            },
        ),
        RowTable(
            "rate",
            "Honest events beside a flood from one address",
            {"network": "network", "kind": "kind", "rate": "datagrams/s asked for"},
            {
                "datagrams/s sent": "{flooded:,.0f}",
                "events/s, flood elsewhere": "{usual:,.0f}",
                "share of it, flooded": "{share:.2f}",
                "at worst": "{least share:.2f}",
                "share by processor time": "{share of time:.2f}",
                "right after, at worst": "{share after:.2f}",
            },
        ),
        RowTable(
            "together",
            "Nodes that start at once, in one process",
            {"network": "network", "nodes": "nodes"},
            {
                "s until all are in": "{joined in:.1f}",
                "CPU s": "{joined cpu:.1f}",
                "sessions of a node": "{sessions:.0f}",
            },
        ),
    ),
    quick_seconds=60,
)
