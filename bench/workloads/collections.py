"""Collections on the virtual network: how soon elements are delivered, and what one costs in datagrams.

Whole nodes with 5 to 50 ms between them; every node adds an element in turn, ten a second. The nodes' own
upkeep is measured without elements first, and not counted.
"""

from __future__ import annotations

import argparse
import asyncio
from collections.abc import Iterator
from contextlib import AsyncExitStack
from typing import Any

from bench.workloads.workload import Option, Row, RowTable, Values, Workload, rows_of
from overlay.virtual import Latency, Network, nth_host
from pubsub import Node
from pubsub.collections import DAC, DASortedBag, DAStrongBag, DAWeakBag, Element

PAUSE = 0.1
TOPIC = "/EPFL/DSC"


def run(options: argparse.Namespace) -> Iterator[Row]:
    """Delays and datagrams of each class, and of one-of-n delivery."""
    for size in options.nodes:
        for kind in (DAWeakBag, DAStrongBag, DASortedBag):
            yield from _run(kind, size, options.elements, takes=False)
        yield from _run(DAStrongBag, size, options.elements, takes=True)


def _run(kind: type[DAC], size: int, elements: int, *, takes: bool) -> Iterator[Row]:
    network = Network(7, latency=Latency.uniform(0.005, 0.05))
    delays: list[float] = []
    datagrams = network.run(_nodes(network, kind, size, elements, takes, delays))
    settings: dict[str, Any] = {
        "collection": "one-of-n" if takes else kind.__name__,
        "nodes": size,
    }
    found: Values = {
        "delay": (1000 * sum(delays) / len(delays), "ms"),
        "longest": (1000 * max(delays), "ms"),
        "delivered": (len(delays) / (elements * (1 if takes else size)), "share"),
        "datagrams": (datagrams, "datagrams/element"),
    }
    yield from rows_of(settings, found)


async def _nodes(
    network: Network,
    kind: type[DAC],
    size: int,
    elements: int,
    takes: bool,
    delays: list[float],
) -> float:
    loop = asyncio.get_running_loop()

    def notify(element: Element) -> None:
        delays.append(loop.time() - element.data["at"])

    async with AsyncExitStack() as stack:
        collections: list[DAC] = []
        for number in range(size):
            bootstrap = [f"{nth_host(0)}:4000"] if number else []
            node = Node(listen=f"{nth_host(number)}:4000", bootstrap=bootstrap)
            await stack.enter_async_context(node)
            collection = node.collection(kind, TOPIC, keep=0)
            collections.append(await stack.enter_async_context(collection))
            await (collection.remove(notify) if takes else collection.contains(notify))
        await asyncio.sleep(20)
        idle = network.stats.sent
        await asyncio.sleep(elements * PAUSE)
        begin = network.stats.sent
        for number in range(elements):
            await collections[number % size].add({"at": loop.time(), "text": "x" * 200})
            await asyncio.sleep(PAUSE)
        busy = network.stats.sent
    return (busy - begin - (begin - idle)) / elements


WORKLOAD = Workload(
    "collections",
    "Collections",
    "Collections on whole nodes of the virtual network, 5 to 50 ms apart: how soon elements are "
    "delivered, and what one costs in datagrams.",
    (
        Option("nodes", [4, 8], "numbers of nodes", quick=[4]),
        Option("elements", 40, "elements that are added, ten a second"),
    ),
    run,
    (
        RowTable(
            "collections",
            "Whole nodes on the virtual network",
            {"collection": "collection", "nodes": "nodes"},
            {
                "mean delay ms": "{delay:.0f}",
                "longest ms": "{longest:.0f}",
                "delivered": "{delivered:.1%}",
                "datagrams an element": "{datagrams:.1f}",
            },
        ),
    ),
    quick_seconds=15,
)
