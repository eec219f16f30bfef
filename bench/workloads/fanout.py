"""One publisher and S subscriber processes on loopback: deliveries a second, delay, and cost.

The same work is done in one run by nodes of this project, by plain asyncio-dgram, and by the systems that
users would pick instead (`--peers`). Runs take turns, so that a change of the machine's speed meets all
systems alike."""

from __future__ import annotations

import argparse
import itertools
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from functools import partial
from typing import Any, get_args

from bench.players import Player, Players, answers, ask_all
from bench.servers import NotInstalled, free_port, nats_server
from bench.workloads import loss, stalls
from bench.workloads import systems as roles
from bench.workloads.systems import NodeSetting
from bench.workloads.work import LEAST_BYTES, Published, Received, Work, reports
from bench.workloads.workload import (
    Option,
    Row,
    RowTable,
    Values,
    Workload,
    left_out,
    percentiles,
)
from overlay.errors import UsageError
from overlay.membership.modes import ModeName

START_SECONDS = 90.0
WORK_SECONDS = 600.0
STEADY_SECONDS = 3.0
"""How long events are published at the steady rate."""
MOST_BYTES = 64 << 20
"""Application data of all events of a work: of large events fewer are published, since a server between
publisher and subscribers may have to keep them all for each subscriber."""
WARM_EVENTS = 2_000
"""Published before anything is measured."""
PLAIN = "plain UDP"
CAMCAST = "camcast"


USUAL = NodeSetting()


@dataclass(frozen=True)
class Way:
    """What a fan-out is done with: one of the systems and, for nodes of this project, their setting."""

    system: str
    setting: NodeSetting = USUAL

    @property
    def is_camcast(self) -> bool:
        return self.system == CAMCAST

    def settings(self) -> dict[str, Any]:
        """What names the system and its setting in the rows."""
        found: dict[str, Any] = {"system": self.system}
        if self.is_camcast:
            setting = self.setting
            found |= {
                "dissemination": setting.dissemination,
                "mode": setting.mode,
                "sealed": setting.sealed,
                "signed": setting.signed,
                "datagram_size": setting.datagram_size,
            }
        return found


@dataclass(frozen=True)
class Company:
    """The processes of one fan-out."""

    publisher: Player
    subscribers: list[Player]
    server_seconds: Callable[[], float]
    """Processor time of a server between them, so far."""


@contextmanager
def company(way: Way, subscribers: int) -> Iterator[Company]:
    """Start a system's processes; they are gone when the block ends."""
    peer = next((peer for peer in PEERS.values() if peer.name == way.system), None)
    with peer.open() if peer else nullcontext() as server, Players() as players:
        if peer:
            yield peer.start(players, subscribers, server)
        elif way.is_camcast:
            yield _nodes(players, way.setting, subscribers)
        else:
            readers = [players.start(roles.udp_subscriber) for _ in range(subscribers)]
            ports = answers(readers, START_SECONDS)
            yield _company(players.start(roles.udp_publisher, ports), readers)


def _company(
    publisher: Player, readers: list[Player], server_seconds: Callable[[], float] = lambda: 0.0
) -> Company:
    publisher.answer(START_SECONDS)
    return Company(publisher, readers, server_seconds)


def _nodes(players: Players, setting: NodeSetting, subscribers: int) -> Company:
    readers = [players.start(roles.node_subscriber, setting, None)]
    first = readers[0].answer(START_SECONDS)
    readers += [players.start(roles.node_subscriber, setting, first) for _ in range(1, subscribers)]
    answers(readers[1:], START_SECONDS)
    found = _company(players.start(roles.node_publisher, setting, first), readers)
    ask_all(readers, Work(1), START_SECONDS)  # the publisher's first event, with which it joined
    reports(readers, WORK_SECONDS)
    return found


def _zenoh(players: Players, subscribers: int, server: Any) -> Company:
    readers = [players.start(roles.zenoh_subscriber) for _ in range(subscribers)]
    places = answers(readers, START_SECONDS)
    return _company(players.start(roles.zenoh_publisher, places), readers)


def _zeromq(players: Players, subscribers: int, server: Any) -> Company:
    place = f"tcp://127.0.0.1:{free_port()}"
    publisher = players.start(roles.zeromq_publisher, place, subscribers)
    readers = [players.start(roles.zeromq_subscriber, place) for _ in range(subscribers)]
    answers(readers, START_SECONDS)
    return _company(publisher, readers)


def _nats(players: Players, subscribers: int, server: Any) -> Company:
    readers = [players.start(roles.nats_subscriber, server.port) for _ in range(subscribers)]
    answers(readers, START_SECONDS)
    publisher = players.start(roles.nats_publisher, server.port)
    return _company(publisher, readers, server.processor_seconds)


@dataclass(frozen=True)
class Peer:
    """A system that fans out like ours, as the benchmark starts it."""

    name: str
    open: Callable[[], AbstractContextManager[Any]]
    """Its server, or None where there is none; raises `NotInstalled` when it can't be had."""
    start: Callable[[Players, int, Any], Company]
    """Its processes, for this many subscribers, around the server."""


PEERS = {
    "zenoh": Peer("Zenoh", partial(roles.opened, "eclipse-zenoh", "zenoh"), _zenoh),
    "zmq": Peer("ZeroMQ", partial(roles.opened, "pyzmq", "zmq"), _zeromq),
    "nats": Peer(
        "NATS",
        partial(
            roles.opened, "nats-py", "nats", partial(nats_server, max_pending=roles.PENDING_BYTES)
        ),
        _nats,
    ),
}
"""The systems by their names on the command line."""


@dataclass(frozen=True)
class Outcome:
    """What the processes reported of one work."""

    published: Published
    received: list[Received]
    server_cpu: float
    load: float
    """Processes that wanted a processor in the minute before."""


def work_once(found: Company, work: Work) -> Outcome:
    """Have a company do one work, and collect the reports."""
    load, before = os.getloadavg()[0], found.server_seconds()
    ask_all(found.subscribers, work, START_SECONDS)
    found.publisher.tell(work)
    published, *received = reports([found.publisher, *found.subscribers], WORK_SECONDS)
    return Outcome(published, received, found.server_seconds() - before, load)


def throughput(outcome: Outcome, size: int) -> Values:
    """The metrics of a work at full speed, with their units."""
    received = sum(report.events for report in outcome.received)
    seconds = max(report.last_at for report in outcome.received) - outcome.published.began_at
    cpu = outcome.published.cpu + outcome.server_cpu + sum(r.cpu for r in outcome.received)
    sent = outcome.published.bytes_sent + sum(r.bytes_sent for r in outcome.received)
    due = outcome.published.events * len(outcome.received)
    found = {
        "events": (outcome.published.events, "events"),
        "deliveries": (received / seconds if received else 0.0, "1/s"),
        "delivered": (received / due, "share"),
        "cpu": (1e6 * cpu / max(received, 1), "us/delivery"),
        "load": (outcome.load, "processes"),
    }
    if sent:  # only our own processes count these
        copies = sum(report.copies for report in outcome.received)
        found["copies"] = (copies / max(received, 1), "copies/delivery")
        found["bytes_sent"] = (sent / max(received * size, 1), "bytes/byte")
    return found


def delay(outcome: Outcome) -> Values:
    """The metrics of a work at a steady rate."""
    return percentiles([one for r in outcome.received for one in r.latencies], 1e6, "us")


def ways(options: argparse.Namespace) -> list[Way]:
    """What is to be measured: plain UDP, the peers, and nodes in every setting that is asked for."""
    found = [Way(PLAIN)] if options.plain == "yes" else []
    found += [Way(PEERS[name].name) for name in options.peers]
    for dissemination, sealed, signed, datagram in itertools.product(
        options.dissemination, options.sealed, options.signed, options.datagram_size or [None]
    ):
        setting = NodeSetting(
            options.mode, dissemination, sealed == "yes", signed == "yes", datagram or None
        )
        found.append(Way(CAMCAST, setting))
    return found


def run(options: argparse.Namespace) -> Iterator[Row]:
    """Rows of what is asked for: the speed, unless it is one member's trouble or losses."""
    if options.stop_one:
        yield from stalls.measure(options, ways(options)[-1].setting)
    if options.loss:
        yield from loss.measure(options)
    if not (options.stop_one or options.loss) or options.speed:
        yield from _speed(options)


def _speed(options: argparse.Namespace) -> Iterator[Row]:
    """Rows of all runs; the ratios to the other systems of the same run come after each run."""
    if any(size < LEAST_BYTES for size in options.bytes):
        raise UsageError(f"an event carries the time, so it has at least {LEAST_BYTES} bytes")
    absent: set[str] = set()
    for size, subscribers in itertools.product(options.bytes, options.subscribers):
        for number in range(options.runs):
            measured: list[tuple[Way, Values]] = []
            for way in ways(options):
                if way.system in absent:
                    continue
                try:
                    metrics = _measure(way, subscribers, size, options)
                except NotInstalled as missing:
                    absent.add(way.system)
                    yield left_out({"system": way.system}, missing)
                    continue
                measured.append((way, metrics))
                own = {"subscribers": subscribers, "bytes": size} | way.settings()
                yield from _rows(own, metrics, number)
            for settings, metrics in ratios(measured):
                own = {"subscribers": subscribers, "bytes": size} | settings
                yield from _rows(own, metrics, number)


def _rows(settings: dict[str, Any], metrics: Values, number: int) -> Iterator[Row]:
    for metric, (value, unit) in metrics.items():
        note = ""
        if metric == "delivered" and value < 1:
            note = f"lost {1 - value:.2%} of the events"
        yield Row(settings, metric, value, unit, network=number, note=note)


def events_for(events: int, size: int) -> int:
    """How many events of this size are published at full speed."""
    return max(1, min(events, MOST_BYTES // size))


def _measure(way: Way, subscribers: int, size: int, options: argparse.Namespace) -> Values:
    """A fan-out with processes of its own: at full speed, then at a steady rate."""
    with company(way, subscribers) as found:
        events = events_for(options.events, size)
        work_once(found, Work(min(WARM_EVENTS, events), size))
        metrics = throughput(work_once(found, Work(events, size)), size)
        steady = Work(max(int(STEADY_SECONDS * options.rate), 1), size, options.rate)
        metrics |= delay(work_once(found, steady))
    return metrics


def ratios(
    measured: Sequence[tuple[Way, Values]],
) -> Iterator[tuple[dict[str, Any], Values]]:
    """What nodes did as multiples of what each other system did in the same run, with their settings."""
    others = [(way.system, metrics) for way, metrics in measured if not way.is_camcast]
    for way, metrics in measured:
        if way.is_camcast:
            for other, theirs in others:
                yield (
                    way.settings() | {"against": other},
                    {
                        f"{metric} ratio": (metrics[metric][0] / theirs[metric][0], "x")
                        for metric in ("deliveries", "cpu", "p50", "p99")
                        if theirs[metric][0]
                    },
                )


_KEYS = {
    "subscribers": "S",
    "bytes": "bytes",
    "system": "system",
    "dissemination": "dissemination",
    "sealed": "sealed",
    "signed": "signed",
    "datagram_size": "datagrams of",
}

WORKLOAD = Workload(
    "fanout",
    "Fan-out",
    "One publisher and S subscriber processes on loopback; nodes of this project, plain asyncio-dgram "
    "and, with "
    "--peers, other systems do the same work in one run.",
    (
        Option("peers", [], "other systems that do the same work", choices=tuple(PEERS)),
        Option("plain", "yes", "plain UDP, too: the reference of the delay", choices=("yes", "no")),
        Option("subscribers", [4, 16], "numbers of subscribers", quick=[4]),
        Option("bytes", [256], "bytes of an event's data"),
        Option("events", 100_000, "events published at full speed; 64 MiB at most", quick=10_000),
        Option("rate", 500.0, "events/s for the delay"),
        Option(
            "mode",
            "structured",
            "which membership",
            choices=get_args(ModeName),
        ),
        Option("dissemination", ["lazy"], "how events spread", choices=("lazy", "eager")),
        Option("sealed", ["no"], "datagrams sealed with a network key", choices=("no", "yes")),
        Option("signed", ["no"], "events signed by their publisher", choices=("no", "yes")),
        Option(
            "datagram_size", [], "bytes of the largest datagram; 0: what a node takes", type=int
        ),
        Option("runs", 3, "runs of everything, each with its own processes", quick=1),
        Option(
            "stop_one",
            False,
            "instead: one subscriber is stopped, killed, or does not read; what the others feel",
            quick=True,
        ),
        Option("stop_subscribers", 5, "subscribers with --stop-one"),
        Option("stop_rate", 0.0, "events/s with --stop-one; 0: as many as possible"),
        Option("brief", False, "shorter phases with --stop-one", quick=True),
        Option(
            "loss", False, "instead: on the virtual network with losses, what arrives", quick=True
        ),
        Option("losses", [0.1], "shares of the datagrams that are lost, with --loss"),
        Option("loss_latency", [5.0, 50.0], "milliseconds of a link, least and most, with --loss"),
        Option("loss_subscribers", 10, "subscribers with --loss"),
        Option("loss_bytes", 4096, "bytes of an event with --loss"),
        Option("loss_events", 500, "events with --loss", quick=200),
        Option("speed", False, "the speed, too, with --stop-one or --loss", quick=True),
    ),
    run,
    (
        RowTable(
            "speed",
            "At full speed, and the delay at the steady rate; medians of the runs",
            _KEYS,
            {
                "deliveries/s": "{deliveries:,.0f}",
                "delivered": "{delivered:.2%}",
                "CPU us": "{cpu:.1f}",
                "copies": "{copies:.2f}",
                "bytes sent a byte": "{bytes_sent:.2f}",
                "p50 / p99 us": "{p50:,.0f} / {p99:,.0f}",
                "load": "{load:.1f}",
            },
            "CPU: of all processes, a delivery. Copies: that arrive, a delivery. Bytes sent: a byte "
            "delivered.",
        ),
        RowTable(
            "ratios",
            "camcast against the others of the same run; medians of the runs",
            _KEYS | {"against": "against"},
            {
                "deliveries/s": "{deliveries ratio:.2f} x",
                "CPU": "{cpu ratio:.2f} x",
                "p50": "{p50 ratio:.2f} x",
                "p99": "{p99 ratio:.2f} x",
            },
        ),
        stalls.TABLE,
        loss.TABLE,
    ),
    quick_seconds=120,
    is_wrong=lambda rows: any(
        (row.metric == "delivered" and row.value < 1 and row.settings["system"] == CAMCAST)
        or (row.metric == "reliability" and row.value < 1)
        for row in rows
    ),
)
