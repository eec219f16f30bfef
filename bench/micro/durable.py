"""Durable delivery against best effort, in one run: events a second, delay, and how fast a subscriber
catches up.

One publisher, one archive and the subscribers, each a process, on loopback; events of 256 bytes.
`published` counts until the events are safe: on disk, synced. The delay is from publishing to delivery, at
a rate at which events go one by one. Redis streams and JetStream do the same work in the same run, where they
and their Python clients are installed: named subscribers that acknowledge, the same number of events on their
way.
"""

from __future__ import annotations

from bench.durable.peers import PEERS
from bench.durable.runs import Figures, Nodes, archive, catch_up, deliver
from bench.micro.measurement import Measurement
from bench.servers import NotInstalled

EVENTS = 5_000
RATE = 50.0
RUNS = (("sqlite", 1), ("sqlite", 4), ("append files", 1))
"""Stores, and numbers of subscribers."""
MISSED = (1_000, 4_000, 16_000)
PEER_SUBSCRIBERS = (1, 4)


def measure() -> list[Measurement]:
    measurements: list[Measurement] = []
    for store, subscribers in RUNS:
        with archive(store) as keeper:
            for kind in ("best effort", "optimistic", "ordered"):
                figures = deliver(Nodes(keeper, kind), subscribers, EVENTS, RATE)
                measurements += _lines(f"{kind}, {store}, S={subscribers}", figures)
    with archive("sqlite") as keeper:
        measurements += [_caught_up(missed, catch_up(keeper, missed)) for missed in MISSED]
    for name, peer in PEERS.items():
        try:
            with peer() as crew:
                for subscribers in PEER_SUBSCRIBERS:
                    figures = deliver(crew, subscribers, EVENTS, RATE)
                    measurements += _lines(f"{name}, S={subscribers}", figures)
        except NotInstalled as missing:
            measurements.append(Measurement(name, 0.0, "events/s", f"left out: {missing}"))
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
