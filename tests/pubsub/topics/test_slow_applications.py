"""Publishers wait for an application that is slow, log or not, and what waits before it is bounded."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from overlay.virtual import Network
from pubsub.topics import Delivery, TopicConfig
from pubsub.topics.aside import AsideMessages
from pubsub.topics.config import BroadcastConfig
from tests.pubsub.topics.strong_nodes import StrongNodes, log_of
from tests.pubsub.topics.test_stable_phases import joined
from tests.pubsub.topics.test_strong_topic import play
from tests.pubsub.topics.troupe import TOPIC, Actor, Troupe, TroupeConfig

WINDOW, LIMIT = 20, 10
CONFIG = BroadcastConfig(
    window_messages=WINDOW, unfinished_messages=LIMIT, stay_away=600.0, stay_away_when_full=300.0
)


def publish_until_full(troupe: Troupe, most: int) -> int:
    published = 0
    while published < most and not troupe.actors[0].core.is_full:
        troupe.broadcast(0)
        published += 1
        troupe.run(0.5)
    return published


@pytest.mark.parametrize("order", ["none", "fifo"])
@pytest.mark.parametrize("logged", [True, False], ids=["with a log", "without"])
def test_a_publisher_waits_for_one_that_is_slow(logged: bool, order: str) -> None:
    troupe = joined(1, 3, TroupeConfig(broadcast=CONFIG, order=order), logged)  # type: ignore[arg-type]
    slow = troupe.actors[2]
    slow.is_slow = True
    published = publish_until_full(troupe, 100)
    assert WINDOW <= published <= WINDOW + LIMIT + 1
    assert len(slow.unfinished) == published
    for _ in range(12):
        slow.finish(10)
        troupe.run(1.0)
        published += publish_until_full(troupe, 100 - published)
        assert len(slow.unfinished) <= WINDOW + LIMIT + 1
    slow.finish(100)
    troupe.run(3.0)
    assert published == 100
    assert [len(actor.delivered) for actor in troupe.alive()] == [100] * 3
    assert [actor.core.held for actor in troupe.alive()] == [0] * 3
    assert troupe.actors[0].core.counts["expelled"] == 0


def test_what_a_slow_one_has_on_its_disk_is_not_sent_again_after_a_crash() -> None:
    troupe = joined(2, 2, TroupeConfig(broadcast=CONFIG), logged=True)
    troupe.actors[1].is_slow = True
    published = publish_until_full(troupe, 100)
    troupe.actors[1].finish(5)
    troupe.run(1.0)
    troupe.crash(1)
    payloads = troupe.payloads
    again = troupe.start(1, logged=True)
    troupe.run(10.0)
    assert len(again.delivered) == published - 5
    assert troupe.payloads == payloads
    assert [actor.core.held for actor in troupe.alive()] == [0, 0]


class Gate:
    """A handler that lets one message through at a time, once it is open."""

    def __init__(self) -> None:
        self.open = asyncio.Event()
        self.payloads: list[bytes] = []

    async def handle(self, delivery: Delivery) -> None:
        await self.open.wait()
        self.payloads.append(delivery.payload)


@pytest.mark.parametrize("semantics", ["reliable", "stubborn"])
def test_nothing_piles_up_before_a_slow_handler_and_nothing_is_lost(
    semantics: str, tmp_path: Path
) -> None:
    async def script(network: Network, nodes: StrongNodes) -> None:
        gate, config = Gate(), TopicConfig(CONFIG)
        one = await nodes.start(config=config)
        slow = await nodes.start(config=config, on_deliver=gate.handle, log=log_of(tmp_path, 1))
        await asyncio.sleep(3)

        async def publish() -> None:
            for number in range(200):
                await one.strong.broadcast(b"%d" % number, semantics=semantics)  # type: ignore[arg-type]

        publishing = asyncio.ensure_future(publish())
        await asyncio.sleep(60)
        assert not publishing.done()
        assert slow.strong._waiting.qsize() <= WINDOW + LIMIT + 1
        gate.open.set()
        await publishing
        await asyncio.sleep(30)
        assert sorted(gate.payloads) == sorted(b"%d" % number for number in range(200))
        assert len(one.payloads) == 200

    play(script)


def aside_of(actor: Actor, delivered: list[bytes]) -> AsideMessages:
    def deliver(delivery: Delivery) -> bool:
        delivered.append(delivery.payload)
        return True

    membership = actor.core.membership
    return AsideMessages(
        TOPIC, actor, CONFIG, membership, deliver, lambda sender, payload: None, lambda: None
    )


def test_a_stubborn_message_that_came_before_its_receiver_had_begun_is_sent_again() -> None:
    troupe = joined(3, 2)
    one, other = troupe.alive()
    delivered: list[bytes] = []
    one.aside = aside_of(one, [])
    one.aside.stubborn(b"early", [other.contact])
    troupe.run(3.0)
    other.aside = aside_of(other, delivered)
    troupe.run(60.0)
    assert delivered == [b"early"]


def test_best_effort_messages_that_a_slow_handler_has_no_room_for_are_dropped_and_counted() -> None:
    async def script(network: Network, nodes: StrongNodes) -> None:
        gate, config = Gate(), TopicConfig(CONFIG)
        one = await nodes.start(config=config)
        slow = await nodes.start(config=config, on_deliver=gate.handle)
        await asyncio.sleep(3)
        for number in range(100):
            await one.strong.broadcast(b"%d" % number, semantics="best-effort")
        await asyncio.sleep(3)
        assert slow.topics._dropped["best_effort_inbox_full"] == 100 - LIMIT
        gate.open.set()
        await asyncio.sleep(1)
        assert len(gate.payloads) == LIMIT

    play(script, loss=0.0, duplicate=0.0)
