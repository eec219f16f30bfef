"""What one member that is stopped, killed or does not read does to a publisher and to the other subscribers.

Parts of the fan-out's measurement: `camcast bench fanout --stop-one`. A publisher publishes all the time,
and five subscribers receive. Everybody counts in bins of 100 ms. When the rate has settled, one subscriber
gets into trouble; each bin from then on is compared with the median bin before. The least ratio before the
trouble shows how much the machine itself makes bins differ."""

from __future__ import annotations

import argparse
import asyncio
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import Any

from bench.players import Player, Players, answers
from bench.workloads.systems import TOPIC, NodeSetting, node_of
from bench.workloads.work import Events
from bench.workloads.workload import Row, RowTable

BIN_SECONDS = 0.1
START_SECONDS = 90.0
TURN_EVENTS = 16
"""A publisher at a rate publishes at most this many events in one go when it is late."""
QUEUE = 4_000_000
UNREAD_QUEUE = 1_000
"""Events that the queue of the subscriber holds whose application does not read."""


@dataclass(frozen=True)
class Plan:
    """The times of one run, in seconds after it began."""

    settle: float = 2.0
    """The first bins are not looked at."""
    trouble: float = 6.0
    """When one subscriber is stopped, or stops to read."""
    end_of_trouble: float = 12.0
    """When it is killed, or goes on."""
    end: float = 20.0
    """When the publisher stops."""
    drain: float = 4.0
    """How long subscribers go on receiving after that."""


@dataclass(frozen=True)
class WatchOrder:
    """An order: publish or receive from `began_at` of the monotonic clock on, and count in bins."""

    began_at: float
    plan: Plan
    bytes: int
    rate: float
    """Events a second; 0: as many as possible."""


class Bins:
    """Counts of what happens in each 100 ms of a run."""

    def __init__(self, began_at: float, seconds: float) -> None:
        self._began_at = began_at
        self.counts = [0] * (round(seconds / BIN_SECONDS) + 1)

    def add(self, count: int = 1) -> None:
        place = int((time.monotonic() - self._began_at) / BIN_SECONDS)
        if 0 <= place < len(self.counts):
            self.counts[place] += count


async def publisher(pipe: Connection, setting: NodeSetting, first: str) -> None:
    """Answers when its first event is published, then with its bins to a `WatchOrder`."""
    async with node_of(setting, first) as node:
        await node.publish(TOPIC, b"")
        await asyncio.sleep(setting.settling)
        pipe.send("ready")
        while (watch := await asyncio.to_thread(pipe.recv)) is not None:
            bins, events = Bins(watch.began_at, watch.plan.end), Events(watch.bytes)
            await _until(watch.began_at)
            published = 0
            while (elapsed := time.monotonic() - watch.began_at) < watch.plan.end:
                due = TURN_EVENTS
                if watch.rate:
                    due = min(due, int(watch.rate * elapsed) - published)
                    if due <= 0:
                        await asyncio.sleep(0.001)
                for _ in range(due):
                    await node.publish(TOPIC, events.new())
                    bins.add()
                    published += 1
            pipe.send(bins.counts)


async def _until(moment: float) -> None:
    await asyncio.sleep(max(0.0, moment - time.monotonic()))


async def subscriber(
    pipe: Connection, setting: NodeSetting, first: str | None, reads: bool
) -> None:
    """Answers with its address, then with its bins to a `WatchOrder`; unless it `reads`, it stops to in
    between."""
    queue = QUEUE if reads else UNREAD_QUEUE
    async with node_of(setting, first) as node, node.subscribe(TOPIC, queue=queue) as events:
        pipe.send(str(node.address))
        while (watch := await asyncio.to_thread(pipe.recv)) is not None:
            plan = watch.plan
            seconds = plan.end + plan.drain
            bins = Bins(watch.began_at, seconds)

            async def receive(bins: Bins = bins, watch: WatchOrder = watch) -> None:
                trouble = watch.began_at + watch.plan.trouble
                async for _ in events:
                    bins.add()
                    if not reads and trouble < time.monotonic() < trouble + BIN_SECONDS:
                        await _until(watch.began_at + watch.plan.end_of_trouble)

            receiving = asyncio.ensure_future(receive())
            await _until(watch.began_at + seconds)
            receiving.cancel()
            await asyncio.gather(receiving, return_exceptions=True)
            pipe.send(bins.counts)


def _nothing(player: Player) -> None:
    pass


@dataclass(frozen=True)
class Trouble:
    """What happens to one of the subscribers, and what ends it."""

    name: str
    begin: Callable[[Player], None] = _nothing
    end: Callable[[Player], None] = _nothing
    phases: tuple[str, str] = ("trouble", "after it")
    reads: bool = True

    @property
    def is_fatal(self) -> bool:
        return self.end is Player.kill


TROUBLES = (
    Trouble("stopped, then killed", Player.stop, Player.kill, ("stopped", "killed")),
    Trouble("stopped, then goes on", Player.stop, Player.go_on, ("stopped", "goes on")),
    Trouble("does not read for a while", phases=("does not read", "reads again"), reads=False),
)


@dataclass(frozen=True)
class Course:
    """The bins of one run."""

    published: list[int]
    others: list[int]
    """Deliveries of all subscribers but the one in trouble."""
    troubled: list[int] | None
    """Deliveries of that one; None when it was killed."""


def watch_one(
    trouble: Trouble, setting: NodeSetting, subscribers: int, size: int, rate: float, plan: Plan
) -> Course:
    """One run with processes of its own."""
    with Players() as players:
        first = players.start(subscriber, setting, None, True)
        address = first.answer(START_SECONDS)
        others = [first]
        for _ in range(2, subscribers):
            others.append(players.start(subscriber, setting, address, True))
            others[-1].answer(START_SECONDS)
        victim = players.start(subscriber, setting, address, trouble.reads)
        victim.answer(START_SECONDS)
        source = players.start(publisher, setting, address)
        source.answer(START_SECONDS)
        watch = WatchOrder(time.monotonic() + 0.5, plan, size, rate)
        for player in (*others, victim, source):
            player.tell(watch)
        _sleep_until(watch.began_at + plan.trouble)
        trouble.begin(victim)
        _sleep_until(watch.began_at + plan.end_of_trouble)
        trouble.end(victim)
        wait = plan.end + plan.drain + START_SECONDS
        published = source.answer(wait)
        received = answers(others, wait)
        troubled = None if trouble.is_fatal else victim.answer(wait)
        return Course(published, [sum(counts) for counts in zip(*received, strict=True)], troubled)


def _sleep_until(moment: float) -> None:
    time.sleep(max(0.0, moment - time.monotonic()))


def phases(trouble: Trouble, plan: Plan) -> Iterator[tuple[str, int, int]]:
    """The names of the phases of a run, and the bins that are wholly in each."""
    times = (plan.settle, plan.trouble, plan.end_of_trouble, plan.end)
    places = [round(moment / BIN_SECONDS) for moment in times]
    yield from zip(("before", *trouble.phases), places, places[1:], strict=False)


def summary(
    counts: Sequence[int], trouble: Trouble, plan: Plan
) -> Iterator[tuple[str, dict[str, float]]]:
    """For each phase: the mean rate, and the mean and the least bin as ratios to the median bin before."""
    usual = 0.0
    for name, begin, end in phases(trouble, plan):
        bins = counts[begin:end]
        if name == "before":
            usual = max(statistics.median(bins), 1.0)
        yield (
            name,
            {
                "rate": statistics.mean(bins) / BIN_SECONDS,
                "mean": statistics.mean(bins) / usual,
                "least": min(bins) / usual,
            },
        )


def measure(options: argparse.Namespace, setting: NodeSetting) -> Iterator[Row]:
    """Rows of each trouble: every bin, and the summaries of the phases."""
    plan = Plan(settle=1.0, trouble=2.0, end_of_trouble=4.0, end=7.0) if options.brief else Plan()
    for number in range(options.runs):
        for trouble in TROUBLES:
            size = options.bytes[0]
            course = watch_one(
                trouble, setting, options.stop_subscribers, size, options.stop_rate, plan
            )
            yield from _rows(trouble, course, plan, number, options)


def _rows(
    trouble: Trouble, course: Course, plan: Plan, number: int, options: argparse.Namespace
) -> Iterator[Row]:
    settings: dict[str, Any] = {
        "trouble": trouble.name,
        "subscribers": options.stop_subscribers,
        "bytes": options.bytes[0],
        "pace": f"{options.stop_rate:,.0f} /s" if options.stop_rate else "full speed",
    }
    for who, counts in (("published", course.published), ("delivered", course.others)):
        for place, count in enumerate(counts):
            yield Row(settings, f"{who} in 100 ms", count, "events", number, place)
        for phase, values in summary(counts, trouble, plan):
            for name, value in values.items():
                unit = "1/s" if name == "rate" else "x"
                own = settings | {"phase": phase}
                yield Row(own, f"{who} {name}", value, unit, number)
    if course.troubled is not None:
        due = sum(course.others) / (options.stop_subscribers - 1)
        own = settings | {"phase": trouble.phases[1]}
        share = sum(course.troubled) / max(due, 1)
        yield Row(own, "had by the one in trouble", share, "share", number)


TABLE = RowTable(
    "stalls",
    "One subscriber in trouble: every 100 ms against the median 100 ms before; medians of the runs",
    {
        "trouble": "one of the subscribers",
        "subscribers": "S",
        "bytes": "bytes",
        "pace": "pace",
        "phase": "phase",
    },
    {
        "published/s": "{published rate:,.0f}",
        "mean": "{published mean:.2f} x",
        "least 100 ms": "{published least:.2f} x",
        "others' deliveries/s": "{delivered rate:,.0f}",
        "their mean": "{delivered mean:.2f} x",
        "their least 100 ms": "{delivered least:.2f} x",
        "the one in trouble has had": "{had by the one in trouble:.1%}",
    },
    "The ratios before the trouble show how much the machine itself makes 100 ms differ.",
)
