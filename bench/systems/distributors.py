"""Distributors, crowds of their subscribers, and a publisher, each in a process."""

from __future__ import annotations

import asyncio
import contextlib
import time
from contextlib import AsyncExitStack
from multiprocessing.connection import Connection
from typing import Any

from overlay import loops
from overlay.contact import Contact
from pubsub.distributors import (
    ClientConfig,
    Distributor,
    Publisher,
    ServiceSubscription,
    Subscriber,
)

SERVICE = "bench"
LOOK_SECONDS = 0.02
START_AT_ONCE = 100
"""Subscribers of one process that connect at the same time."""

PATIENT = ClientConfig(connect_within=10.0)
"""So that all of them get the first distributor, however slow the machine is while they start."""


def distributor(pipe: Connection, bootstrap: str | None, datagram: int) -> None:
    loops.run(_distribute(pipe, bootstrap, datagram))


async def _distribute(pipe: Connection, bootstrap: str | None, datagram: int) -> None:
    settings: dict[str, Any] = {"bootstrap": [bootstrap]} if bootstrap else {}
    async with Distributor([SERVICE], datagram_size=datagram, **settings) as one:
        await one.ready()
        pipe.send((one.contact.packed(), str(one.address)))
        while await asyncio.to_thread(pipe.recv) is not None:
            subscribers = one.status()["services"][SERVICE]["subscribers"]
            pipe.send((subscribers, time.process_time(), one.metrics.as_dict()))


class FirstThenAll:
    """Names one distributor, so that it has the whole crowd, and all of them from the time of its end on."""

    def __init__(self, contacts: list[Contact]) -> None:
        self.contacts = contacts
        self.names_all = False

    async def find(self) -> list[Contact]:
        return self.contacts if self.names_all else self.contacts[:1]


def crowd(pipe: Connection, contacts: list[bytes], count: int) -> None:
    loops.run(_subscribe(pipe, [Contact.unpack(one) for one in contacts], count))


async def _subscribe(pipe: Connection, contacts: list[Contact], count: int) -> None:
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


def publisher(pipe: Connection, contacts: list[bytes]) -> None:
    loops.run(_publish(pipe, [Contact.unpack(one) for one in contacts]))


async def _publish(pipe: Connection, contacts: list[Contact]) -> None:
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
