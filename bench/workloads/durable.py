"""Durable delivery against best effort and beside Redis streams and JetStream; and catching up.

One publisher, one archive and the subscribers, each a process, on loopback. `safe` counts until the events
are on disk, synced. The delay is from publishing to delivery, at a rate at which events go one by one.
Redis streams and JetStream do the same work in the same run, where they and their Python clients are
installed: named subscribers that acknowledge, and as many events on their way."""

from __future__ import annotations

import argparse
import itertools
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Protocol, get_args

from bench.players import Player, Players, answers, ask_all
from bench.servers import NotInstalled
from bench.systems import durable
from bench.systems.durable import DURABLE_PEERS, DurablePeer, Kind
from bench.systems.work import Published, Received, Work, reports
from bench.workloads.workload import (
    Option,
    Row,
    RowTable,
    Values,
    Workload,
    left_out,
    quantile,
    rows_of,
)

START_SECONDS = 90.0
WORK_SECONDS = 300.0
STEADY_SECONDS = 2.0
KINDS: tuple[Kind, ...] = get_args(Kind)
STORES = ("sqlite", "append files")


class Crew(Protocol):
    """Who does the work: processes that read and one that publishes, and what keeps events between them."""

    def reader(self, number: int) -> Player: ...

    def publisher(self) -> Player: ...

    def keeper_seconds(self) -> float:
        """Processor time of what keeps the events, so far."""
        ...


class NodeCrew:
    """Nodes around an archive."""

    def __init__(self, players: Players, keeper: Player, address: str, kind: Kind) -> None:
        self._players, self._keeper = players, keeper
        self._address, self._kind = address, kind

    def reader(self, number: int) -> Player:
        name = f"{self._kind} {number} {time.monotonic_ns()}"
        return self._players.start(durable.subscriber, self._kind, name, self._address)

    def publisher(self) -> Player:
        return self._players.start(durable.publisher, self._kind, self._address)

    def keeper_seconds(self) -> float:
        self._keeper.tell("cpu")
        return float(self._keeper.answer(START_SECONDS))


class ServerCrew:
    """Processes that read and publish through a server."""

    def __init__(self, players: Players, peer: DurablePeer, server: Any) -> None:
        self._players, self._peer, self._server = players, peer, server

    def reader(self, number: int) -> Player:
        # A name of its own for each: what another run's reader was given does not count for this one.
        name = f"reader-{number}-{time.monotonic_ns()}"
        return self._players.start(self._peer.read, self._server.port, name)

    def publisher(self) -> Player:
        return self._players.start(self._peer.publish, self._server.port, "publisher")

    def keeper_seconds(self) -> float:
        seconds: float = self._server.processor_seconds()
        return seconds


@contextmanager
def archived(players: Players, store: str) -> Iterator[tuple[Player, str]]:
    """An archive on a store of this kind in a directory of its own, and its address."""
    with tempfile.TemporaryDirectory(prefix="camcast-durable-") as directory:
        place = (
            f"sqlite:///{directory}/events.db" if store == "sqlite" else f"file://{directory}/log"
        )
        keeper = players.start(durable.archive, place)
        yield keeper, keeper.answer(START_SECONDS)
        keeper.end()


def deliver(crew: Crew, subscribers: int, events: int, rate: float) -> Values:
    """At full speed to the subscribers, then at a steady rate for their delay; the metrics."""
    readers = [crew.reader(number) for number in range(subscribers)]
    answers(readers, START_SECONDS)
    publisher: Player | None = None
    metrics: Values = {}
    try:
        for work in (Work(events), Work(max(int(STEADY_SECONDS * rate), 1), rate=rate)):
            ask_all(readers, work, START_SECONDS)
            # After the subscribers, which would else be given its first event.
            if publisher is None:
                publisher = crew.publisher()
                publisher.answer(START_SECONDS)
            before = crew.keeper_seconds()
            publisher.tell(work)
            published, *received = reports([publisher, *readers], WORK_SECONDS)
            keeper = crew.keeper_seconds() - before
            metrics |= _delays(received) if work.rate else _rates(published, received, keeper)
    finally:
        for player in (publisher, *readers):
            if player is not None:
                player.end()
    return metrics


def _rates(published: Published, received: list[Received], keeper: float) -> Values:
    seconds = max(one.last_at for one in received) - min(one.first_at for one in received)
    delivered = sum(one.events for one in received)
    cpu = published.cpu + keeper + sum(one.cpu for one in received)
    return {
        "safe": (published.events / published.seconds, "1/s"),
        "deliveries": (delivered / seconds, "1/s"),
        "delivered": (delivered / (published.events * len(received)), "share"),
        "cpu": (1e6 * cpu / max(delivered, 1), "us/delivery"),
    }


def _delays(received: list[Received]) -> Values:
    ordered = sorted(itertools.chain.from_iterable(one.latencies for one in received))
    return {
        "p50": (1e3 * quantile(ordered, 0.5), "ms"),
        "p99": (1e3 * quantile(ordered, 0.99), "ms"),
    }


def catch_up(players: Players, address: str, missed: int) -> float:
    """Seconds from a subscriber's return until it has had everything that it missed."""
    reader = players.start(
        durable.subscriber, "ordered", f"away {missed} {time.monotonic_ns()}", address
    )
    publisher = players.start(durable.publisher, "ordered", address)
    try:
        answers((reader, publisher), START_SECONDS)
        ask_all([reader], Work(1), START_SECONDS)  # registers, and goes away after one event
        publisher.tell(Work(1))
        reports([publisher, reader], WORK_SECONDS)
        publisher.tell(Work(missed))
        reports([publisher], WORK_SECONDS)
        ask_all([reader], Work(missed), START_SECONDS)
        [report] = reports([reader], WORK_SECONDS)
        return float(report.last_at - report.asked_at)
    finally:
        for player in (publisher, reader):
            player.end()


def run(options: argparse.Namespace) -> Iterator[Row]:
    for number in range(options.runs):
        for store, subscribers in itertools.product(options.stores, options.subscribers):
            yield from _camcast(store, subscribers, number, options)
        for name, peer in DURABLE_PEERS.items() if options.peers == "yes" else ():
            yield from _beside(name, peer, number, options)
    with Players() as players, archived(players, "sqlite") as (_, address):
        for missed in options.missed:
            seconds = catch_up(players, address, missed)
            found = {"catching up": (seconds, "s"), "caught up": (missed / seconds, "1/s")}
            yield from rows_of({"missed": missed}, found)


def _camcast(
    store: str, subscribers: int, number: int, options: argparse.Namespace
) -> Iterator[Row]:
    with Players() as players, archived(players, store) as (keeper, address):
        for kind in KINDS:
            crew = NodeCrew(players, keeper, address, kind)
            metrics = deliver(crew, subscribers, options.events, options.rate)
            what = kind if kind == "best effort" else f"durable, {kind}"
            settings: dict[str, Any] = {"subscribers": subscribers, "system": what, "store": store}
            yield from rows_of(settings, metrics, number)


def _beside(
    name: str, peer: DurablePeer, number: int, options: argparse.Namespace
) -> Iterator[Row]:
    try:
        opened = peer.open()
    except NotInstalled as missing:
        if number == 0:
            yield left_out({"system": name}, missing)
        return
    with opened as server, Players() as players:
        for subscribers in options.subscribers:
            crew = ServerCrew(players, peer, server)
            metrics = deliver(crew, subscribers, options.events, options.rate)
            settings = {"subscribers": subscribers, "system": name, "store": None}
            yield from rows_of(settings, metrics, number)


_lost: Callable[[Any], bool] = lambda rows: any(  # noqa: E731
    row.metric == "delivered"
    and row.value < 1
    and str(row.settings["system"]).startswith("durable")
    for row in rows
)

WORKLOAD = Workload(
    "durable",
    "Durable delivery",
    "Durable delivery against best effort, and beside Redis streams and JetStream, in one run; then how "
    "fast a subscriber catches up.",
    (
        Option("subscribers", [1, 4], "numbers of subscribers", quick=[4]),
        Option("stores", ["sqlite", "append files"], "the archive's stores", choices=STORES),
        Option("events", 5_000, "events published at full speed", quick=2_000),
        Option("rate", 50.0, "events/s for the delay"),
        Option("missed", [1_000, 4_000, 16_000], "events to catch up with", quick=[1_000]),
        Option("runs", 3, "runs of everything, each with its own processes", quick=1),
        Option("peers", "yes", "Redis streams and JetStream, too", choices=("no", "yes")),
    ),
    run,
    (
        RowTable(
            "delivery",
            "At full speed, and the delay one event at a time; medians of the runs",
            {"subscribers": "S", "system": "delivery", "store": "store"},
            {
                "safe or sent": "{safe:,.0f} /s",
                "delivered": "{deliveries:,.0f} /s",
                "CPU a delivery": "{cpu:.0f} us",
                "delay p50 / p99": "{p50:.1f} / {p99:.1f} ms",
            },
        ),
        RowTable(
            "catching-up",
            "A subscriber that was away",
            {"missed": "missed events"},
            {
                "seconds to catch up": "{catching up:.2f}",
                "events/s": "{caught up:,.0f}",
            },
        ),
    ),
    quick_seconds=90,
    is_wrong=_lost,
)
