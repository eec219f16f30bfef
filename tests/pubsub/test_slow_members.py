"""A member that is slow, stopped or crashed slows neither publishers nor others, and gets what is kept."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Any, cast

import pytest

from overlay.channel import Channels, ChannelState
from overlay.contact import Contact
from overlay.virtual import Network, nth_host
from overlay.virtual.stage import numbered_contact
from pubsub import Node, Parameters, Subscription
from pubsub.pace import LEAST_SILENT_SECONDS, SILENT_SECONDS, Pace
from tests.pubsub.playground import Playground, play

SIZE = 4000
MEMBERS = 5
STEP = 0.1
BANDWIDTH = 4_000_000.0
"""Bytes a second of every host: what paces the publisher."""


class Crowd:
    """Five subscribers and a publisher at full speed, with what arrived in every tenth of a second."""

    def __init__(self, p: Playground, keep_bytes: int, scale: int = 1) -> None:
        """`scale`: makes events larger and links faster."""
        self.p = p
        self.scale = scale
        self.parameters = Parameters(keep_bytes=keep_bytes)
        self.subscriptions: list[Subscription] = []
        self.numbers: list[list[int]] = []
        self.arrivals: list[Counter[int]] = []
        self.published = 0
        self.pace: Counter[int] = Counter()
        self.tasks: list[asyncio.Task[None]] = []

    async def start(self, **unread: Any) -> None:
        """`unread`: options of the last member's subscription, which nobody reads then."""
        for number in range(MEMBERS):
            node = await self.p.node(parameters=self.parameters)
            is_unread = bool(unread) and number == MEMBERS - 1
            options: dict[str, Any] = unread if is_unread else {"queue": 1_000_000}
            events = await self.p.stack.enter_async_context(node.subscribe("/a", **options))
            self.subscriptions.append(events)
            self.numbers.append([])
            self.arrivals.append(Counter())
            if not is_unread:
                self.tasks.append(asyncio.create_task(self._read(number, events)))
        publisher = await self.p.node(parameters=self.parameters)
        for number in range(MEMBERS + 1):
            self.p.network.limit(nth_host(number), self.scale * BANDWIDTH)
        await publisher.publish("/a", -1)
        await asyncio.sleep(1)
        self.publishing = asyncio.create_task(self._publish(publisher))

    async def _read(self, number: int, events: Subscription) -> None:
        async for event in events:
            if event.data != -1:
                self.numbers[number].append(event.data[0])
                self.arrivals[number][self.step()] += 1

    async def _publish(self, node: Node) -> None:
        data = bytes(self.scale * SIZE)
        while True:
            self.published += 1
            self.pace[self.step()] += 1
            await node.publish("/a", [self.published - 1, data])

    def step(self) -> int:
        return int(self.p.network.now / STEP)

    def cut_off_last(self) -> None:
        """Stop the last member, as others see it."""
        others = [nth_host(number) for number in range(MEMBERS + 1) if number != MEMBERS - 1]
        self.p.network.partition([nth_host(MEMBERS - 1)], others)

    async def stop(self) -> None:
        """Publish no more, and let everything arrive."""
        self.publishing.cancel()
        await asyncio.wait([self.publishing])
        await asyncio.sleep(15)
        for task in self.tasks:
            task.cancel()
        await asyncio.wait(self.tasks)


def rate(steps: Counter[int], first: int, last: int) -> float:
    return sum(steps[step] for step in range(first, last)) / (last - first)


@pytest.mark.parametrize(("ending", "seed"), [("goes on", 71), ("is killed", 71), ("goes on", 75)])
def test_one_that_is_stopped_holds_nobody_back(ending: str, seed: int) -> None:
    async def main(p: Playground) -> None:
        crowd = Crowd(p, keep_bytes=64 * 1024 * 1024)
        await crowd.start()
        await asyncio.sleep(9)  # what filled the channels at first has arrived
        stopped = crowd.step()
        crowd.cut_off_last()
        await asyncio.sleep(2)
        if ending == "is killed":
            p.crash(MEMBERS - 1)
        p.network.heal()
        await asyncio.sleep(2)  # what it missed shares the publisher's link with what is published
        await crowd.stop()
        for steps in (crowd.pace, *crowd.arrivals[:-1]):
            before = sorted(
                rate(steps, step, step + 10) for step in range(stopped - 20, stopped - 9)
            )[5]
            # A second at a time: a tenth of a second holds only a few blocks here.
            for first in range(stopped, stopped + 10):
                assert rate(steps, first, first + 10) > 0.9 * before, (first - stopped, before)
        everyone = crowd.numbers if ending == "goes on" else crowd.numbers[:-1]
        for numbers in everyone:
            assert sorted(numbers) == list(range(crowd.published))

    play(seed, main, mode="structured", network=Network(seed))


def test_what_it_can_no_longer_get_is_counted_and_told_to_its_subscription() -> None:
    async def main(p: Playground) -> None:
        crowd = Crowd(p, keep_bytes=256 * 1024, scale=4)
        await crowd.start()
        await asyncio.sleep(3)
        crowd.cut_off_last()
        await asyncio.sleep(2)
        p.network.heal()
        await asyncio.sleep(3)
        await crowd.stop()
        late = crowd.subscriptions[-1]
        assert late.lost > 0
        assert len(crowd.numbers[-1]) + late.lost == crowd.published
        dropped = p.nodes[MEMBERS - 1].metrics.family("events_dropped", "reason", "")
        assert dropped["not_fetched"] >= late.lost
        for numbers, events in zip(crowd.numbers[:-1], crowd.subscriptions, strict=False):
            assert sorted(numbers) == list(range(crowd.published))
            assert events.lost == 0

    play(72, main, mode="structured", network=Network(72))


def test_an_application_that_does_not_read_holds_nobody_back() -> None:
    async def main(p: Playground) -> None:
        crowd = Crowd(p, keep_bytes=8 * 1024 * 1024)
        await crowd.start(queue=100)
        await asyncio.sleep(5)
        await crowd.stop()
        for numbers in crowd.numbers[:-1]:
            assert sorted(numbers) == list(range(crowd.published))
        idle = crowd.subscriptions[-1]
        assert len(idle) == 100
        assert idle.dropped == crowd.published + 1 - 100
        steps = sorted(crowd.pace)
        assert rate(crowd.pace, steps[10], steps[-1]) > 0

    play(73, main, mode="structured", network=Network(73))


class PacedMember:
    """A channel as `Pace` sees it."""

    def __init__(self, number: int) -> None:
        self.contact = numbered_contact(number)
        self.state = ChannelState.OPEN
        self.is_writable = True
        self.heard_at = 0.0
        self.patience = 0.004


class PacedMembers:
    """The channels of a node, as `Pace` sees them."""

    def __init__(self, *members: PacedMember) -> None:
        self._members = {member.contact.id: member for member in members}

    def to(self, contact: Contact) -> PacedMember:
        return self._members[contact.id]

    def on_writable(self, handler: Any) -> None: ...

    def on_state(self, handler: Any) -> None: ...


def test_one_that_was_silent_is_not_waited_for_until_it_has_caught_up() -> None:
    async def main() -> None:
        quick, stopped = PacedMember(0), PacedMember(1)
        members = [quick.contact, stopped.contact]
        pace = Pace(cast(Channels, PacedMembers(quick, stopped)))
        now = asyncio.get_running_loop().time

        async def waited() -> float:
            began = quick.heard_at = now()
            await pace.wait(members)
            return now() - began

        stopped.is_writable = False
        stopped.heard_at = now()
        assert await waited() == pytest.approx(LEAST_SILENT_SECONDS)
        assert await waited() == 0.0
        stopped.heard_at = now()  # it goes on, and has much to take
        assert await waited() == 0.0
        stopped.is_writable = True
        assert await waited() == 0.0
        stopped.is_writable = False  # it has caught up meanwhile, and is full again
        stopped.heard_at = now()
        stopped.patience = 1.0
        assert await waited() == pytest.approx(SILENT_SECONDS)

    Network(1).run(main())
