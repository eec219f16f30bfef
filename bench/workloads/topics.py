"""Topic broadcast: throughput against participants, the shape of DACE's figure 8, and what the matrix
costs."""

from __future__ import annotations

import argparse
import asyncio
import random
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from functools import partial

from bench.report.svg import Figure, Panel, Point, Series
from bench.workloads.workload import Option, Row, RowTable, Setting, Values, Workload, rows_of
from overlay import loops
from overlay.contact import Contact, PeerId
from overlay.context import Randomness, Timer
from overlay.errors import UsageError
from overlay.failure import FailureConfig
from overlay.runtime import Runtime, RuntimeConfig
from overlay.transport.config import EndpointConfig
from overlay.virtual import Latency, Network, nth_host
from overlay.virtual.stage import Stage, numbered_contact
from overlay.wire import encode
from pubsub.reliable.runs import RUN_BYTES, Gap
from pubsub.topics import Delivery, StrongTopic, StrongTopics, TopicConfig
from pubsub.topics.broadcast import TopicBroadcast
from pubsub.topics.config import BroadcastConfig, TopicMembershipConfig
from pubsub.topics.context import Outcome
from pubsub.topics.log import TopicLog
from pubsub.topics.messages import Entry, Item, Knowledge
from pubsub.topics.messages import Row as MatrixRow
from pubsub.topics.views import StableView, TopicView

# Participants of a topic on the stage, to measure topic membership alone: messages, bytes and work.
#
# Channels take some milliseconds and lose nothing. The failure detector notices after one half to two
# seconds.


NOTICE_SECONDS = (0.5, 2.0)
ACKNOWLEDGED_SECONDS = 0.1
"""After this time a message is known to have arrived."""

FIRST_VERSION = 1
"""The version of a participant's row when it has begun and has met nobody."""


class TopicMember:
    """One participant: the context and the application of its protocol."""

    def __init__(self, company: TopicCompany, number: int) -> None:
        self._company = company
        self._stage = company.stage.context(numbered_contact(number))
        self.contact: Contact = self._stage.contact
        self.random: Randomness = self._stage.random
        self.now = self._stage.now
        self.core = TopicBroadcast(
            "/bench/matrix",
            self,
            BroadcastConfig(),
            TopicMembershipConfig(),
            self,
            TopicLog(),
            boot=number,
            run=(number + 1).to_bytes(RUN_BYTES, "big"),
        )
        company.stage.attach(self.contact, self.core.receive)

    def call_later(self, delay: float, action: Callable[[], None]) -> Timer:
        return self._stage.call_later(delay, action)

    def send(self, to: Contact, message: object) -> None:
        self._company.messages += 1
        self._company.bytes += len(encode(message))
        self._stage.send(to, message)

    def try_send(self, to: Contact, message: object, outcome: Outcome) -> bool:
        self.send(to, message)
        if to.id not in self._company.crashed:
            self._stage.call_later(ACKNOWLEDGED_SECONDS, partial(outcome, True))
        return True

    def send_datagram(self, to: Contact, message: object) -> None:
        self._stage.send(to, message)

    def watch(self, contact: Contact) -> None: ...

    def unwatch(self, contact: Contact) -> None: ...

    def joined(self) -> None: ...

    def deliver(self, item: Item, complete: int) -> None:
        self.core.finished(item)

    def gap(self, gap: Gap) -> None: ...

    def lacked(self, item: Item, by: PeerId) -> None: ...

    def view_changed(self, view: TopicView) -> None: ...

    def stable(self, view: StableView) -> None: ...

    def participant_changed(self, before: Entry | None, now: Entry) -> None: ...

    def room(self) -> None: ...


class TopicCompany:
    """Participants that know each other, and the count of what they send."""

    def __init__(self, size: int, seed: int = 1) -> None:
        self.stage = Stage(seed)
        self.messages = 0
        self.bytes = 0
        self.crashed: dict[PeerId, None] = {}
        self._chance = random.Random(seed)
        self.members = [TopicMember(self, number) for number in range(size)]
        self._introduce_all()

    def _introduce_all(self) -> None:
        """Let all know each other at once: that they join one after another is not measured."""
        for member in self.members:
            member.core.start()
        topics = [member.core.membership for member in self.members]
        entries = tuple(membership.participants[membership.me] for membership in topics)
        rows = tuple(MatrixRow(entry.id, entry.boot, FIRST_VERSION, ()) for entry in entries)
        everything = Knowledge(topics[0].topic, entries, rows, None, bytes(8), False)
        for membership in topics:
            membership.receive_knowledge(self.members[0].contact, everything)

    @property
    def is_stable(self) -> bool:
        return all(member.core.membership.is_stable for member in self.members)

    def run_until_stable(self, most_seconds: float) -> float:
        """Virtual seconds until everybody has reached the same view."""
        began = self.stage.now
        while not self.is_stable and self.stage.now - began < most_seconds:
            self.stage.run_for(0.1)
        return self.stage.now - began

    def join(self) -> None:
        """One more participant, through one that is there."""
        newcomer = TopicMember(self, len(self.members))
        newcomer.core.membership.subscribe(self.members[0].contact)
        self.members.append(newcomer)

    def crash(self) -> None:
        """The last one crashes, and the others notice."""
        crashed = self.members.pop()
        self.stage.crash(crashed.contact)
        self.crashed[crashed.contact.id] = None
        for member in self.members:
            self._notice(member, crashed.contact.id)

    def _notice(self, member: TopicMember, peer: PeerId) -> None:
        delay = self._chance.uniform(*NOTICE_SECONDS)
        self.stage.call_at(self.stage.now + delay, partial(member.core.membership.closed, peer))


IDLE_SECONDS = 10.0
MOST_SECONDS = 60.0


def measure_matrix(participants: int) -> dict[str, Values]:
    """The cost for each participant, until the view is stable again, of a second without any event, of one
    that joins, and of one that crashes.

    Kilobytes are without the headers of channels and datagrams; milliseconds, of work on this machine.
    Seconds are of virtual time until all share a stable view; that all notice a crash takes 2 of them.
    """
    company = TopicCompany(participants)
    company.run_until_stable(MOST_SECONDS)
    company.stage.run_for(5.0)
    costs: dict[str, Values] = {}
    for event in ("a second of rest", "one joins", "one crashes"):
        company.messages = company.bytes = 0
        worked = time.process_time()
        share = 1.0
        if event == "a second of rest":
            company.stage.run_for(IDLE_SECONDS)
            seconds, share = 0.0, IDLE_SECONDS
        else:
            company.join() if event == "one joins" else company.crash()
            until_noticed = 0.2 if event == "one joins" else max(NOTICE_SECONDS)
            company.stage.run_for(until_noticed)
            seconds = until_noticed + company.run_until_stable(MOST_SECONDS)
        each = share * participants
        costs[event] = {
            "messages": (company.messages / each, "messages"),
            "kilobytes": (company.bytes / 1000 / each, "kB"),
            "work": ((time.process_time() - worked) * 1000 / each, "ms"),
            "stable after": (seconds, "s"),
        }
        company.stage.run_for(5.0)
    return costs


# Topic broadcast: one participant publishes messages of 1 KiB as fast as it can, and all count what they
# get.
#
# All participants are in one process. On the virtual network every host is on a link of 100 Mbit/s, slow
# enough to lose what it cannot take: a datagram takes a host 0.2 ms, and one in a hundred is lost on its
# way. Time and datagrams are virtual, so the same seed gives the same figures on any machine. Over real UDP
# on loopback, a second is one of this process's own work, so the rate is that of a free core that does the
# work of all participants, whatever else the machine does. It falls with their number for either semantics;
# the comparison of the two, in one run, is what counts.


TOPIC = "/bench/topics"
PATIENT = FailureConfig(interval=30.0, least_timeout=90.0, most_timeout=180.0)
"""A silent participant is asked for a sign of life seldom, and suspected late: all share one core, which
among 120 of them would else be busy with the signs of life of 7,140 pairs, and none of them crashes."""

JOINING_AT_ONCE = 6

RunOn = Callable[[int, Awaitable[None]], Awaitable[None]]
"""Runs a participant's opening where it belongs: on its host, or right here."""


class Participant:
    """One participant, which counts what it is delivered."""

    def __init__(self, address: str, config: TopicConfig) -> None:
        self._address = address
        self._config = config
        self.delivered = 0
        self.runtime: Runtime
        self.topics: StrongTopics
        self.strong: StrongTopic

    async def open(self, first: Participant | None) -> None:
        config = RuntimeConfig(EndpointConfig(self._address), failure=PATIENT)
        self.runtime = await Runtime.open(config)
        self.topics = StrongTopics(self.runtime)
        known = () if first is None else (first.runtime.contact,)
        self.strong = await self.topics.join(TOPIC, self._count, known=known, config=self._config)

    def _count(self, delivery: Delivery) -> None:
        self.delivered += 1

    async def close(self) -> None:
        self.strong.abandon()
        await self.runtime.close()


async def open_participants(
    addresses: Sequence[str], run_on: RunOn, topic: TopicConfig
) -> list[Participant]:
    """Open all, some at a time, each time until they share one stable view.

    On sockets one core does the work of all: when everybody joined at once, it could not keep up with what
    newcomers tell each other, and they would send again what was only late."""
    people = [Participant(address, topic) for address in addresses]
    await run_on(0, people[0].open(None))
    for begin in range(1, len(people), JOINING_AT_ONCE):
        end = min(begin + JOINING_AT_ONCE, len(people))
        await asyncio.gather(
            *(run_on(number, people[number].open(people[0])) for number in range(begin, end))
        )
        while not _agree(people[:end]):  # noqa: ASYNC110
            await asyncio.sleep(0.2)
    return people


def _agree(people: list[Participant]) -> bool:
    first = people[0].strong.stable_view
    return (
        first is not None
        and len(first.members) == len(people)
        and all(person.strong.stable_view == first for person in people)
    )


PAYLOAD = bytes(1024)

QUIET_SECONDS = 0.5
"""An unreliable run has ended when nothing more arrived for this many seconds."""


async def measure_both(
    people: list[Participant],
    messages: int,
    datagrams: Callable[[], int],
    clock: Callable[[], float],
    pace: float = 0.0,
) -> dict[str, Values]:
    """Reliable, then best-effort; `pace`: seconds that the sender's link takes for one message to all."""
    kinds = ("reliable", "best-effort")
    return {kind: await measure(people, kind, messages, datagrams, clock, pace) for kind in kinds}


async def measure(
    people: list[Participant],
    semantics: str,
    messages: int,
    datagrams: Callable[[], int],
    clock: Callable[[], float],
    pace: float,
) -> Values:
    """Publish, and wait until every participant has acknowledged all, or nothing comes any more.

    Delivered is the share of the deliveries that were due at others; datagrams, sent by anybody, are for each
    message and receiver.
    """
    others = people[1:]
    before = [person.delivered for person in others]
    copies = sum(person.strong.core.counts["duplicates"] for person in others)
    sent = datagrams()
    began = clock()
    if semantics == "reliable":
        numbers = [await people[0].strong.broadcast(PAYLOAD) for _ in range(messages)]
        for number in numbers:  # a later one may be settled sooner
            await people[0].strong.receipt(number).wait("safe")
        ended = clock()
    else:
        for _ in range(messages):
            await people[0].strong.broadcast(PAYLOAD, semantics="best-effort")
            await asyncio.sleep(pace)
        ended = await _when_quiet(others, clock)
    received = sum(p.delivered - b for p, b in zip(others, before, strict=True))
    due = messages * len(others)
    copies = sum(person.strong.core.counts["duplicates"] for person in others) - copies
    return {
        "rate": (messages / (ended - began), "messages/s"),
        "delivered": (received / due, "share"),
        "datagrams": ((datagrams() - sent) / due, "datagrams/receiver"),
        "duplicates": (copies / due, "copies/delivery"),
    }


async def _when_quiet(others: list[Participant], clock: Callable[[], float]) -> float:
    """What the clock showed at the last delivery."""
    loop = asyncio.get_running_loop()
    last, shown, count = loop.time(), clock(), -1
    while loop.time() - last < QUIET_SECONDS:
        now = sum(person.delivered for person in others)
        if now != count:
            last, shown, count = loop.time(), clock(), now
        await asyncio.sleep(QUIET_SECONDS / 50)
    return shown


BANDWIDTH = 12_500_000.0
"""Bytes a second: the paper's Fast Ethernet."""

SLOWNESS = 2.0
"""Tenths of a millisecond that a datagram takes a host."""

LOSS = 0.01
AROUND_A_PAYLOAD = 128
"""Bytes of all headers of a datagram with one message, for the pace of the unreliable publisher."""


def run_virtual(participants: int, messages: int, seed: int = 1) -> dict[str, Values]:
    """Reliable, then unreliable, in the same topic."""
    network = Network(seed, latency=Latency.uniform(0.0002, 0.001), loss=LOSS, bandwidth=BANDWIDTH)
    hosts = [nth_host(number) for number in range(participants)]

    def run_on(number: int, opening: Awaitable[None]) -> Awaitable[None]:
        return network.spawn(hosts[number], opening)  # type: ignore[arg-type]

    async def main() -> dict[str, Values]:
        people = await open_participants([f"{host}:4000" for host in hosts], run_on, TopicConfig())
        for host in hosts:
            network.slow(host, SLOWNESS)
        pace = (participants - 1) * (len(PAYLOAD) + AROUND_A_PAYLOAD) / BANDWIDTH
        clock = asyncio.get_running_loop().time
        return await measure_both(people, messages, lambda: network.stats.sent, clock, pace)

    return network.run(main())


ONE_CORE = TopicConfig(BroadcastConfig(patience=60.0))
"""Where one core does the work of all, a message may well take longer than the 2 s after which everybody who
holds it looks after it; among 100 that would be far more work than to bring it to them."""


def run_on_sockets(participants: int, messages: int) -> dict[str, Values]:
    """Reliable, then unreliable, in the same topic."""
    return loops.run(_run_on_sockets(participants, messages))


async def _run_on_sockets(participants: int, messages: int) -> dict[str, Values]:
    async def here(number: int, opening: Awaitable[None]) -> None:
        await opening

    people = await open_participants(["127.0.0.1:0"] * participants, here, ONE_CORE)
    counters = [person.runtime.metrics.counter("datagrams_sent", "") for person in people]
    try:
        return await measure_both(
            people, messages, lambda: sum(one.value for one in counters), time.process_time
        )
    finally:
        for person in people:
            await person.close()


# The workload.

DELIVERIES = 12_000
FEWEST, MOST = 100, 2000
NETWORKS = ("virtual", "sockets")
_COLOURS = {"reliable": "structured", "best-effort": "unstructured"}
_TITLES = {"virtual": "virtual (teal: reliable)", "sockets": "real UDP (teal: reliable)"}


def messages_for(participants: int) -> int:
    """How many are published, so that runs of any size take about the same work."""
    return min(max(DELIVERIES // participants, FEWEST), MOST)


def run(options: argparse.Namespace) -> Iterator[Row]:
    if any(number < 2 for number in [*options.participants, *options.matrix]):
        raise UsageError("a topic that is measured has two participants or more")
    for network in options.networks:
        measure = run_virtual if network == "virtual" else run_on_sockets
        for number in options.participants:
            settings: dict[str, Setting] = {"network": network, "participants": number}
            for semantics, found in measure(number, messages_for(number)).items():
                yield from rows_of(settings | {"semantics": semantics}, found)
    for number in options.matrix:
        for event, cost in measure_matrix(number).items():
            yield from rows_of({"participants": number, "event": event}, cost)


def figures(rows: Sequence[Row]) -> list[Figure]:
    """Messages a second, and the share of deliveries that arrived: a panel for each network."""
    rows = [row for row in rows if "semantics" in row.settings]
    if not rows:
        return []
    title, x_label = "Topic broadcast of 1-KiB messages: reliable and best-effort", "participants"
    rates, arrived = (_panels(rows, metric) for metric in ("rate", "delivered"))
    share = "Share of deliveries that arrived"
    return [
        Figure("topic-throughput", title, "", x_label, "messages/s", rates, log_y=True),
        Figure("topic-delivered", share, "", x_label, "delivered", arrived, share=True),
    ]


def _panels(rows: Sequence[Row], metric: str) -> tuple[Panel, ...]:
    values: dict[tuple[Setting, Setting], dict[int, float]] = {}
    for row in rows:
        if row.metric == metric:
            line = values.setdefault((row.settings["network"], row.settings["semantics"]), {})
            line[int(str(row.settings["participants"]))] = row.value
    panels = []
    for network, title in _TITLES.items():
        lines = {name: values[network, name] for name in _COLOURS if (network, name) in values}
        series = []
        for name, line in lines.items():
            points = tuple(Point(x, y, y, y, 1) for x, y in sorted(line.items()))
            series.append(Series(name, _COLOURS[name], "emulate", points))
        panels += [Panel(title, tuple(series))] if lines else []
    return tuple(panels)


WORKLOAD = Workload(
    "topics",
    "Topic broadcast",
    "One participant of a topic publishes messages of 1 KiB as fast as it can, reliably and best-effort, on "
    "the virtual network and over real UDP; then what membership costs.",
    (
        Option("participants", [2, 10, 30, 60, 120], "numbers of participants", quick=[2, 10]),
        Option("networks", list(NETWORKS), "where", choices=NETWORKS),
        Option("matrix", [50, 100, 200, 400], "participants for what membership costs", quick=[50]),
    ),
    run,
    (
        RowTable(
            "throughput",
            "Messages of 1 KiB, as fast as one participant can publish them",
            {"network": "network", "participants": "participants", "semantics": "semantics"},
            {
                "messages/s": "{rate:,.0f}",
                "delivered": "{delivered:.2%}",
                "datagrams": "{datagrams:.2f}",
                "duplicates": "{duplicates:.3f}",
            },
            "Datagrams: for each message and receiver. Duplicates: for each delivery.",
        ),
        RowTable(
            "matrix",
            "What topic membership costs each participant",
            {"participants": "participants", "event": "event"},
            {
                "messages": "{messages:.1f}",
                "kB": "{kilobytes:.2f}",
                "ms of work": "{work:.1f}",
                "s until stable": "{stable after:.1f}",
            },
        ),
    ),
    quick_seconds=20,
    is_wrong=lambda rows: any(
        row.metric == "delivered" and row.settings["semantics"] == "reliable" and row.value < 1
        for row in rows
    ),
    figures=figures,
)
