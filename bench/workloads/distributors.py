"""One distributor with thousands of subscribers: deliveries, cost, memory; and how fast they move when it
is killed."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import gc
import sys
import time
import tracemalloc
from collections.abc import Iterator
from contextlib import AsyncExitStack, contextmanager
from multiprocessing.connection import Connection
from typing import Any

from bench.players import Player, Players, answers
from bench.workloads.workload import Option, Row, RowTable, Values, Workload, rows_of
from overlay.channel import ChannelConfig, Channels
from overlay.contact import Contact, PeerId
from overlay.entropy import entropy
from overlay.identity import Identity
from overlay.metrics import Metrics
from overlay.transport.config import EndpointConfig
from overlay.transport.endpoint import Endpoint
from pubsub.attach import open_runtime
from pubsub.config import NodeConfig
from pubsub.distributors import (
    ClientConfig,
    Distributor,
    Publisher,
    ServiceSubscription,
    Subscriber,
)
from pubsub.distributors.config import DistributorConfig
from pubsub.distributors.messages import ClientAction, ClientRequest
from pubsub.distributors.protocol.distributor import DistributorCore

PATIENCE = 900.0
"""Seconds: a busy machine takes its time to start thousands of subscribers."""


def measure(subscribers: int, options: argparse.Namespace) -> Values:
    """One run; the processes are gone when it returns."""
    with Players() as players:
        first, contacts = _distributors(options, players)
        _say(f"{1 + options.secondaries} distributors run")
        before = first.resident_bytes()
        share = subscribers // options.crowds
        crowds = [players.start(crowd, contacts, share) for _ in range(options.crowds)]
        answers(crowds, PATIENCE)
        _say(f"{share * options.crowds} subscribers are connected")
        subscribed, cpu, datagrams = _status(first)
        bytes_each = (first.resident_bytes() - before) / max(subscribed, 1)
        source = players.start(publisher, contacts)
        source.answer(PATIENCE)
        for one in crowds:
            one.tell(("receive", options.events))
        source.tell((options.events, options.bytes))
        began = source.answer(PATIENCE)
        received = answers(crowds, PATIENCE)
        _, cpu_after, datagrams_after = _status(first)
        arrived = sum(count for count, _, _ in received)
        seconds = max(at for _, at, _ in received) - began
        _say(f"{arrived} events came")
        moved = _fail_over(crowds, first)
        return {
            "subscribers": (subscribed, "subscribers"),
            "resident": (bytes_each, "bytes/subscriber"),
            "arrived": (arrived, "events"),
            "delivered": (arrived / (options.events * share * options.crowds), "share"),
            "deliveries": (arrived / seconds, "1/s"),
            "events": (options.events / seconds, "1/s"),
            "cpu": ((cpu_after - cpu) / max(arrived, 1) * 1e6, "us/delivery"),
            "datagrams": ((datagrams_after - datagrams) / max(arrived, 1), "datagrams/delivery"),
            "moved": (len(moved), "subscribers"),
            "half moved": (moved[len(moved) // 2] if moved else float("nan"), "s"),
            "all moved": (moved[-1] if moved else float("nan"), "s"),
        }


def _distributors(options: argparse.Namespace, players: Players) -> tuple[Player, list[Contact]]:
    first = players.start(distributor, None, options.datagram_size)
    contact, address = first.answer(PATIENCE)
    contacts = [contact]
    for _ in range(options.secondaries):
        other = players.start(distributor, address, options.datagram_size)
        contacts.append(other.answer(PATIENCE)[0])
    return first, contacts


def _status(distributor: Player) -> tuple[int, float, int]:
    """Subscribers of a distributor, its processor seconds and the datagrams that it sent, so far."""
    distributor.tell("status")
    subscribers, cpu, counters = distributor.answer(PATIENCE)
    return subscribers, cpu, int(counters["datagrams_sent"])


def _fail_over(crowds: list[Player], distributor: Player) -> list[float]:
    """Kill the distributor: seconds until each subscriber had another one, in order."""
    for one in crowds:
        one.tell(("move", 60.0))
    time.sleep(0.5)
    killed = time.monotonic()
    distributor.kill()
    return sorted(at - killed for own in answers(crowds, PATIENCE) for at in own)


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


# Memory, counted object by object in this process.


async def bytes_each_subscriber(count: int) -> float:
    """Bytes that a distributor's memory grows by for each of `count` subscribers."""
    runtime = await open_runtime(NodeConfig(listen="127.0.0.1:0"), Metrics())
    async with runtime:
        core = DistributorCore(
            runtime.context("channel"),
            runtime.context("datagram"),
            DistributorConfig(found_after=0.01),
            runtime.endpoint.max_body,
        )
        core.create(SERVICE)
        while not core.is_ready:
            core.tick()
            await asyncio.sleep(0.02)
        before = _traced()
        for number in range(count):
            request = ClientRequest(number, ClientAction.SUBSCRIBE, SERVICE, False, None, 0.0)
            core.receive_request(_somebody(number), request)
            if number % 100 == 0:
                await asyncio.sleep(0)
        await asyncio.sleep(0.2)
        assert len(core.services[SERVICE].fanout.subscribers) == count
        return (_traced() - before) / count


async def bytes_each_channel(count: int) -> float:
    """The same for channels, which a subscriber does without."""
    endpoint = await Endpoint.open(EndpointConfig("127.0.0.1:0"), Identity.create(), Metrics())
    channels = Channels(endpoint, ChannelConfig(max_channels=count, max_half_open=count))
    try:
        before = _traced()
        handles = []
        for number in range(count):
            handles.append(channels.to(_somebody(number)))
            handles[-1].ping()
            if number % 100 == 0:
                await asyncio.sleep(0)
        await asyncio.sleep(0.2)
        return (_traced() - before) / count
    finally:
        await channels.close()
        await endpoint.close()


def _somebody(number: int) -> Contact:
    """A contact of its own for each, as datagrams from outside give them; nobody listens there."""
    return Contact(PeerId(entropy().randbytes(20)), f"127.1.{number >> 8}.{number & 255}", 9)


def _traced() -> int:
    gc.collect()
    return tracemalloc.get_traced_memory()[0]


@contextmanager
def tracing() -> Iterator[None]:
    """Count what is allocated. Later benchmarks of this process would take three times as long with it."""
    tracemalloc.start()
    try:
        yield
    finally:
        tracemalloc.stop()


def run(options: argparse.Namespace) -> Iterator[Row]:
    for subscribers in options.subscribers:
        settings: dict[str, Any] = {"clients": subscribers, "bytes": options.bytes}
        for number in range(options.runs):
            yield from rows_of(settings, measure(subscribers, options), number)
    for subscribers in options.subscribers:
        for what, count in (
            ("a subscriber, counted object by object", bytes_each_subscriber),
            ("a channel, if each subscriber had one", bytes_each_channel),
        ):
            with tracing():
                size = asyncio.run(count(subscribers))
            yield Row({"what": what}, "memory", size, "bytes")


WORKLOAD = Workload(
    "distributors",
    "Distributors",
    "One distributor with thousands of light subscribers: deliveries, cost and memory; then it is "
    "killed, and the subscribers move to others.",
    (
        Option("subscribers", [5000], "numbers of subscribers", quick=[500]),
        Option("crowds", 2, "processes that the subscribers share"),
        Option("events", 100, "events that each of them gets", quick=50),
        Option("bytes", 256, "bytes of an event's data"),
        Option("datagram_size", 1400, "bytes of a distributor's datagrams"),
        Option("secondaries", 2, "distributors that are left at the end"),
        Option("runs", 1, "runs, each with its own processes"),
    ),
    run,
    (
        RowTable(
            "delivery",
            "One distributor, then without it",
            {"clients": "subscribers", "bytes": "bytes"},
            {
                "resident memory each": "{resident:,.0f} bytes",
                "delivered": "{delivered:.2%}",
                "deliveries/s": "{deliveries:,.0f}",
                "events/s to all": "{events:.1f}",
                "CPU a delivery": "{cpu:.1f} us",
                "datagrams a delivery": "{datagrams:.2f}",
                "half / all have another one after": "{half moved:.1f} / {all moved:.1f} s",
            },
            "Sending and receiving are on the same machine. CPU: of the distributor alone.",
        ),
        RowTable(
            "memory",
            "Memory of a distributor",
            {"what": "what"},
            {
                "bytes": "{memory:,.0f}",
            },
        ),
    ),
    quick_seconds=30,
    is_wrong=lambda rows: any(row.metric == "delivered" and row.value < 1 for row in rows),
)


# Distributors, crowds of their subscribers, and a publisher, each in a process.

SERVICE = "bench"
LOOK_SECONDS = 0.02
START_AT_ONCE = 100
"""Subscribers of one process that connect at the same time."""

PATIENT = ClientConfig(connect_within=10.0)
"""So that all of them get the first distributor, however slow the machine is while they start."""


async def distributor(pipe: Connection, bootstrap: str | None, datagram: int) -> None:
    settings: dict[str, Any] = {"bootstrap": [bootstrap]} if bootstrap else {}
    async with Distributor([SERVICE], datagram_size=datagram, **settings) as one:
        await one.ready()
        pipe.send((one.contact, str(one.address)))
        while await asyncio.to_thread(pipe.recv) is not None:
            subscribers = one.status()["services"][SERVICE]["subscribers"]
            pipe.send((subscribers, time.process_time(), one.metrics.as_dict()))


class FirstThenAll:
    """Names one distributor, so that it has the whole crowd, and all of them from the time of its end on."""

    def __init__(self, contacts: list[Contact]) -> None:
        self.contacts = contacts
        self.names_all = False

    async def __call__(self) -> list[Contact]:
        return self.contacts if self.names_all else self.contacts[:1]


async def crowd(pipe: Connection, contacts: list[Contact], count: int) -> None:
    async with AsyncExitStack() as stack:
        limit = asyncio.Semaphore(START_AT_ONCE)
        finder = FirstThenAll(contacts)

        async def one() -> ServiceSubscription:
            async with limit:
                subscriber = Subscriber(finder=finder, config=PATIENT, connect_timeout=600.0)
                await stack.enter_async_context(subscriber)
                subscription = subscriber.subscribe(SERVICE)
                await subscription.__aenter__()
                return subscription

        subscriptions = await asyncio.gather(*(one() for _ in range(count)))
        pipe.send("ready")
        while (order := await asyncio.to_thread(pipe.recv)) is not None:
            kind, value = order
            if kind == "receive":
                pipe.send(await _receive(subscriptions, value))
            else:
                finder.names_all = True
                pipe.send(await _move(subscriptions, contacts[0], value))


async def _receive(
    subscriptions: list[ServiceSubscription], events: int
) -> tuple[int, float, float]:
    """Wait until each subscription has `events` more messages: messages, when the last came, CPU seconds."""
    cpu = time.process_time()
    goal = events * len(subscriptions)
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(600):
            while sum(map(len, subscriptions)) < goal:  # noqa: ASYNC110
                await asyncio.sleep(LOOK_SECONDS)
    arrived, at = sum(map(len, subscriptions)), time.monotonic()
    for subscription in subscriptions:
        while len(subscription):
            await anext(subscription)
    return arrived, at, time.process_time() - cpu


async def _move(
    subscriptions: list[ServiceSubscription], victim: Contact, patience: float
) -> list[float]:
    """Wait until each has another distributor; when each had it."""
    moved: dict[ServiceSubscription, float] = {}
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(patience):
            while len(moved) < len(subscriptions):
                now = time.monotonic()
                for one in subscriptions:
                    if one not in moved and one.primary not in (None, victim.id):
                        moved[one] = now
                await asyncio.sleep(LOOK_SECONDS)
    return list(moved.values())


async def publisher(pipe: Connection, contacts: list[Contact]) -> None:
    async with Publisher(finder=FirstThenAll(contacts)) as one:
        await one.create(SERVICE)
        pipe.send("ready")
        while (order := await asyncio.to_thread(pipe.recv)) is not None:
            events, size = order
            data = b"x" * size
            began = time.monotonic()
            for _ in range(events):
                await one.publish(SERVICE, data, wait="sent")
            await one.flush(SERVICE)
            pipe.send(began)
