"""Durable delivery against best effort, in one run: events a second, delay, and how fast a subscriber
catches up.

One publisher, one archive and the subscribers, each a process, on loopback; events of 256 bytes.
`published` counts until the events are safe: on disk, synced. The delay is from publishing to delivery, at
a rate at which events go one by one. Redis streams and JetStream take the same events from one client,
where they are installed.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack

from bench.durable.runs import Figures, archive, catch_up, deliver
from bench.micro.measurement import Measurement
from bench.servers import JetStreamServer, NotInstalled, RedisServer
from bench.servers.windowed_client import JetStreamClient, RedisClient, WindowedClient
from overlay.loops import run

EVENTS = 5_000
RATE = 50.0
RUNS = (("sqlite", 1), ("sqlite", 4), ("append files", 1))
"""Stores, and numbers of subscribers."""
MISSED = (1_000, 4_000, 16_000)
PEER_SECONDS = 2.0
PEER_WINDOW = 2_000


def measure() -> list[Measurement]:
    measurements: list[Measurement] = []
    for store, subscribers in RUNS:
        with archive(store) as keeper:
            for kind in ("best effort", "optimistic", "ordered"):
                figures = deliver(keeper, kind, subscribers, EVENTS, RATE)
                measurements += _lines(f"{kind}, {store}, S={subscribers}", figures)
    with archive("sqlite") as keeper:
        measurements += [_caught_up(missed, catch_up(keeper, missed)) for missed in MISSED]
    for name, connect in _PEERS.items():
        measurements.append(_peer(name, connect))
    return measurements


def _lines(name: str, figures: Figures) -> list[Measurement]:
    delays = figures.delays
    median, late = delays[len(delays) // 2], delays[int(len(delays) * 0.99)]
    return [
        Measurement(f"{name}, published", figures.published, "events/s"),
        Measurement(
            f"{name}, delivered", figures.delivered, "events/s", f"{figures.cpu:.0f} us CPU each"
        ),
        Measurement(f"{name}, delay", median * 1e3, "ms", f"p99 {late * 1e3:.1f} ms"),
    ]


def _caught_up(missed: int, seconds: float) -> Measurement:
    note = f"{missed / seconds:,.0f} events/s"
    return Measurement(f"catching up with {missed:,} events", seconds, "s", note)


def _redis(stack: ExitStack) -> WindowedClient:
    return RedisClient(stack.enter_context(RedisServer("always")).port, bytes(256))


def _jetstream(stack: ExitStack) -> WindowedClient:
    return JetStreamClient(stack.enter_context(JetStreamServer()).port, bytes(256))


_PEERS: dict[str, Callable[[ExitStack], WindowedClient]] = {
    "redis streams, synced, published": _redis,
    "jetstream, not synced, published": _jetstream,
}


def _peer(name: str, connect: Callable[[ExitStack], WindowedClient]) -> Measurement:
    try:
        with ExitStack() as stack:
            rate = run(connect(stack).rate(PEER_WINDOW, PEER_SECONDS))
            return Measurement(name, rate, "events/s", f"{PEER_WINDOW} on their way")
    except NotInstalled as missing:
        return Measurement(name, 0.0, "events/s", f"left out: {missing}")
