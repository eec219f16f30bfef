"""Collections on the virtual network: how soon elements are delivered, and what one costs in datagrams.

Whole nodes with 5 to 50 ms between them; every node adds an element in turn, ten a second. The nodes' own
upkeep is measured without elements first, and not counted.
"""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack

from bench.micro.measurement import Measurement
from overlay.virtual import Latency, Network, nth_host
from pubsub import Node
from pubsub.collections import DAC, DASortedBag, DAStrongBag, DAWeakBag, Element

SIZES = (4, 8)
ELEMENTS = 40
PAUSE = 0.1
TOPIC = "/EPFL/DSC"


def measure() -> list[Measurement]:
    """Delays and datagrams of each class, and of one-of-n delivery."""
    results: list[Measurement] = []
    for size in SIZES:
        for kind in (DAWeakBag, DAStrongBag, DASortedBag):
            results += _run(kind, size, takes=False)
        results += _run(DAStrongBag, size, takes=True)
    return results


def _run(kind: type[DAC], size: int, *, takes: bool) -> list[Measurement]:
    network = Network(7, latency=Latency.uniform(0.005, 0.05))
    delays: list[float] = []
    datagrams = network.run(_nodes(network, kind, size, takes, delays))
    what = "one-of-n" if takes else kind.__name__
    expected = ELEMENTS * (1 if takes else size)
    return [
        Measurement(
            f"{what}, {size} nodes: delay",
            1000 * sum(delays) / len(delays),
            "ms",
            f"the longest {1000 * max(delays):.0f} ms; {len(delays)} of {expected} deliveries",
        ),
        Measurement(f"{what}, {size} nodes: datagrams", datagrams, "an element"),
    ]


async def _nodes(
    network: Network, kind: type[DAC], size: int, takes: bool, delays: list[float]
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
        await asyncio.sleep(ELEMENTS * PAUSE)
        begin = network.stats.sent
        for number in range(ELEMENTS):
            await collections[number % size].add({"at": loop.time(), "text": "x" * 200})
            await asyncio.sleep(PAUSE)
        busy = network.stats.sent
    return (busy - begin - (begin - idle)) / ELEMENTS
