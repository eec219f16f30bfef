"""The topic directory on real sockets: how fast it draws samples, and what one costs on the wire.

40 nodes in this process, all of them members of one topic; one of them, which has sampled before, draws
twelve members again and again. Once with the usual shards (the topic is one), once with shards so small
that the topic has many, as one of a few thousand members would.
"""

from __future__ import annotations

import asyncio
import time
from contextlib import AsyncExitStack

from bench.micro.measurement import Measurement
from overlay import Overlay
from overlay.directory import DirectoryConfig
from overlay.loops import run

NODES = 40
SAMPLE = 12
ROUNDS = 150
TOPIC = "/soccer/italy"
USUAL = DirectoryConfig(ttl=8.0)
MANY_SHARDS = DirectoryConfig(ttl=8.0, split=4, merge=2, capacity=64)


def measure() -> list[Measurement]:
    """Samples a second and datagrams a drawn member, once warm."""
    return [
        *run(_measure(USUAL, "one shard")),
        *run(_measure(MANY_SHARDS, "many shards")),
    ]


async def _measure(config: DirectoryConfig, kind: str) -> list[Measurement]:
    async with AsyncExitStack() as stack:
        overlays: list[Overlay] = []
        bootstrap: list[str] = []
        for _ in range(NODES):
            overlay = await stack.enter_async_context(
                Overlay(bootstrap=bootstrap, directory=config)
            )
            bootstrap = bootstrap or [str(overlay.contact.address)]
            overlays.append(overlay)
        await asyncio.gather(*(overlay.announce(TOPIC) for overlay in overlays))
        await asyncio.sleep(config.ttl)  # until the shards have settled
        reader = overlays[0]
        for _ in range(ROUNDS // 10):
            await reader.sample(TOPIC, SAMPLE)
        datagrams, start = _datagrams(reader), time.perf_counter()
        for _ in range(ROUNDS):
            assert len(await reader.sample(TOPIC, SAMPLE)) == SAMPLE
        seconds = time.perf_counter() - start
        datagrams = _datagrams(reader) - datagrams
    note = f"{NODES} members on loopback, samples of {SAMPLE}, one after the other"
    return [
        Measurement(f"samples, topic of {kind}", ROUNDS / seconds, "samples/s", note),
        Measurement(
            f"datagrams, topic of {kind}",
            datagrams / ROUNDS / SAMPLE,
            "a draw",
            "requests and replies, upkeep included",
        ),
    ]


def _datagrams(overlay: Overlay) -> int:
    counters = overlay.metrics.as_dict()
    return int(counters["datagrams_sent"]) + int(counters["datagrams_received"])  # type: ignore[arg-type]
