"""What is published in a turn leaves as one block; its receipts share what becomes of its copies."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from math import inf
from typing import Any

import pytest

from overlay.channel import OnAck, Until
from overlay.contact import Contact, PeerId
from overlay.metrics import Metrics
from overlay.turn import Turn
from overlay.virtual.stage import numbered_contact
from overlay.wire import decode
from pubsub.camcast.community import Spread
from pubsub.camcast.observer import EventDrops
from pubsub.data import pack_data
from pubsub.event import Block, Copy, Gossip, Head, make_block, read_block
from pubsub.publishing import EVENTS_A_BLOCK, Outlet, OwnRuns
from pubsub.sending import BYTES_A_TURN, EVENTS_A_TURN, BlockCarrier
from pubsub.subscription import SubscriptionError
from pubsub.topic import Topic
from tests.pubsub.playground import Playground, play

A, B, C = (numbered_contact(number) for number in range(3))
ME = PeerId(bytes(20))
TOPIC = Topic.of("/a")
ALWAYS: dict[PeerId, Until] = {one.id: Until(inf) for one in (A, B, C)}


class WaysStub:
    """Keeps what it is given to send, and lets nobody publish while it is full."""

    over_channels = True
    room = 60_000
    largest = 60_100

    def __init__(self) -> None:
        self.sent: list[tuple[Contact, bytes, OnAck | None]] = []
        self.is_full = False
        self.changed = asyncio.Event()
        self.waited_for: list[Contact] = []
        self.behind: list[Contact] = []
        self.at_once: list[bool] = []
        self.asked: list[PeerId] = []

    def ask(self, peer: PeerId) -> None:
        self.asked.append(peer)

    def send(
        self,
        to: Contact,
        data: bytes,
        on_ack: OnAck | None,
        until: Until,
        is_told: bool,
        at_once: bool,
    ) -> bool | None:
        if is_told and to in self.behind:
            return None
        self.sent.append((to, data, on_ack))
        self.at_once.append(at_once)
        return True

    async def writable(self, contacts: Iterable[Contact]) -> None:
        self.waited_for += contacts
        await asyncio.sleep(0)
        while self.is_full:
            await self.changed.wait()

    def blocks_to(self, contact: Contact) -> list[Block]:
        copies: list[Copy] = [decode(data) for to, data, _ in self.sent if to == contact]
        return [read_block(copy.block, copy.community) for copy in copies]

    def answer(self, contact: Contact, arrived: bool) -> None:
        for to, _, on_ack in self.sent:
            if to == contact:
                assert on_ack is not None
                on_ack(arrived)


class World:
    """A carrier whose blocks go to some members at once."""

    def __init__(self, members: tuple[Contact, ...] = (A, B)) -> None:
        self.ways = WaysStub()
        self.members = members
        self.carrier = BlockCarrier(
            self.ways,  # type: ignore[arg-type]
            Turn(),
            OwnRuns(ME),
            EventDrops(Metrics()),
            Metrics(),
            signer=None,
        )
        self.outlet = self.make_outlet("/a")

    def make_outlet(self, topic: str) -> Outlet:
        return Outlet(self.carrier, Topic.of(topic), self.publish, eager=False)

    def publish(self, block: Block) -> Spread:
        gossip = Gossip(block, block.topic, 1)
        self.carrier.accepted(gossip, len(self.members))
        if self.members:
            self.carrier.send(self.members, gossip, ALWAYS)
        return Spread(self.members, ())


def run(main: Callable[[World], Any], members: tuple[Contact, ...] = (A, B)) -> None:
    async def world() -> None:
        await main(World(members))

    asyncio.run(world())


def test_what_is_published_in_a_turn_leaves_as_one_block_packed_once() -> None:
    async def main(world: World) -> None:
        receipts = [world.outlet.add(pack_data(number)) for number in range(5)]
        assert not world.ways.sent
        await asyncio.sleep(0)
        (block,) = world.ways.blocks_to(A)
        assert block.data() == ((0, 1, 2, 3, 4), True)
        assert block.numbers == range(1, 6)
        assert [receipt.sequence for receipt in receipts] == [1, 2, 3, 4, 5]
        (_, to_a, _), (_, to_b, _) = world.ways.sent
        assert to_a is to_b

    run(main)


def test_an_event_alone_is_a_block_of_one_and_leaves_in_its_turn() -> None:
    async def main(world: World) -> None:
        for number in range(3):
            world.outlet.add(pack_data(number))
            await asyncio.sleep(0)
            assert len(world.ways.blocks_to(A)) == number + 1
        assert [block.count for block in world.ways.blocks_to(A)] == [1, 1, 1]
        assert [block.first for block in world.ways.blocks_to(A)] == [1, 2, 3]

    run(main)


def test_only_a_small_block_that_is_alone_in_its_turn_leaves_before_it_is_accounted_for() -> None:
    async def main(world: World) -> None:
        other = world.make_outlet("/b")
        world.outlet.add(pack_data(1))
        await asyncio.sleep(0)
        world.outlet.add(pack_data(2))
        other.add(pack_data(3))
        await asyncio.sleep(0)
        world.outlet.add(pack_data(bytes(world.ways.room)))
        await asyncio.sleep(0)
        assert world.ways.at_once == [True] * 2 + [False] * 6

    run(main)


def test_a_block_is_closed_when_it_is_full_and_numbers_go_on() -> None:
    async def main(world: World) -> None:
        for _ in range(3):
            world.outlet.add(pack_data(bytes(29_000)))
        for _ in range(2 * EVENTS_A_BLOCK):
            world.outlet.add(pack_data(None))
        world.outlet.add(pack_data(bytes(100_000)))
        await asyncio.sleep(0)
        blocks = world.ways.blocks_to(B)
        many = EVENTS_A_BLOCK
        assert [block.count for block in blocks] == [2, many, many, 1, 1]
        assert [len(block.encoded) <= 60_000 for block in blocks] == [True] * 4 + [False]
        assert [block.first for block in blocks] == [1, 3, 3 + many, 3 + 2 * many, 4 + 2 * many]

    run(main)


def test_events_with_options_of_their_own_are_blocks_of_their_own() -> None:
    async def main(world: World) -> None:
        outlet = world.outlet
        for head in (None, outlet.head(0.5, None), outlet.head(0.5, None), outlet.head(None, True)):
            outlet.add(pack_data(0), head)
        await asyncio.sleep(0)
        said = [(b.count, b.upward, b.eager) for b in world.ways.blocks_to(A)]
        assert said == [(1, None, False), (2, 0.5, False), (1, None, True)]

    run(main)


def test_topics_are_numbered_apart_and_go_on_after_they_were_left() -> None:
    async def main(world: World) -> None:
        other = world.make_outlet("/b")
        world.outlet.add(pack_data(1))
        other.add(pack_data(2))
        world.outlet.add(pack_data(3))
        await asyncio.sleep(0)
        blocks = world.ways.blocks_to(A)
        assert [(b.topic, b.first, b.count) for b in blocks] == [("/a", 1, 2), ("/b", 1, 1)]
        assert blocks[0].source != blocks[1].source
        world.outlet.end()
        again = world.make_outlet("/a")
        receipt = again.add(pack_data(4))
        assert (receipt.source, receipt.sequence) == (blocks[0].source, 3)

    run(main)


def test_receipts_of_a_block_learn_together_what_became_of_each_copy() -> None:
    async def main(world: World) -> None:
        receipts = [world.outlet.add(pack_data(number)) for number in range(3)]
        assert (receipts[1].copies, receipts[1].sent, receipts[1].targets) == (0, 0, 0)
        assert not world.ways.sent, "to ask changes nothing"
        await receipts[0].wait_sent()
        assert (receipts[1].copies, receipts[1].sent, receipts[1].targets) == (2, 2, 2)
        assert not any(receipt.is_settled for receipt in receipts)
        world.ways.answer(A, True)
        assert [receipt.acknowledged for receipt in receipts] == [1, 1, 1]
        assert not any(receipt.is_settled for receipt in receipts)
        world.ways.answer(B, False)
        assert [(receipt.acknowledged, receipt.failed) for receipt in receipts] == [(1, 1)] * 3
        assert all(receipt.is_settled for receipt in receipts)
        assert not world.carrier._open

    run(main)


def test_who_waits_for_acknowledgements_of_a_block_that_is_being_filled_is_told() -> None:
    async def main(world: World) -> None:
        receipt = world.outlet.add(pack_data(0))
        waiting = asyncio.create_task(receipt.wait_settled())
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert not waiting.done()
        assert world.ways.asked == [A.id, B.id]
        world.ways.answer(A, True)
        world.ways.answer(B, True)
        await waiting

    run(main)


def test_copies_for_a_suspected_member_have_failed_and_late_answers_change_nothing() -> None:
    async def main(world: World) -> None:
        receipts = []
        for number in range(2):
            receipts.append(world.outlet.add(pack_data(number)))
            await asyncio.sleep(0)
        world.carrier.suspect(A.id)
        assert [(r.acknowledged, r.failed) for r in receipts] == [(0, 1), (0, 1)]
        world.ways.answer(A, True)
        world.ways.answer(A, False)
        assert [(r.acknowledged, r.failed) for r in receipts] == [(0, 1), (0, 1)]
        world.ways.answer(B, True)
        assert [(r.acknowledged, r.failed) for r in receipts] == [(1, 1), (1, 1)]
        world.carrier.suspect(B.id)
        assert all(receipt.is_settled and receipt.failed == 1 for receipt in receipts)
        assert not world.carrier._open

    run(main)


def test_a_member_that_is_behind_is_only_told_unless_it_would_not_be_told_either() -> None:
    async def main(world: World) -> None:
        world.ways.behind = [A]
        receipt = world.outlet.add(pack_data(0))
        await receipt.wait_sent()
        assert (receipt.copies, receipt.sent, receipt.failed, receipt.all_sent) == (2, 1, 1, True)
        assert not world.ways.blocks_to(A)
        world.ways.answer(B, True)
        assert receipt.is_settled
        eager = world.outlet.add(pack_data(1), world.outlet.head(None, True))
        await eager.wait_sent()
        assert (eager.copies, eager.sent) == (2, 2)
        assert [block.first for block in world.ways.blocks_to(A)] == [2]
        foreign = make_block(bytes(28), 1, Head("/a", eager=False), [b"\xc0"] * 3)
        assert world.carrier.send((A, B), Gossip(foreign, "/a", 2), ALWAYS) == 1
        assert world.carrier.send((A, B), Gossip(foreign, "/", 2, upward=True), ALWAYS) == 2
        world.ways.behind = []
        assert world.carrier.send((A, B), Gossip(foreign, "/a", 2), ALWAYS) == 2
        assert world.carrier._withheld.value == 4

    run(main)


def test_much_makes_publishers_wait() -> None:
    async def main(world: World) -> None:
        foreign = make_block(bytes(28), 1, Head("/a"), [bytes(BYTES_A_TURN)])
        world.carrier.send((A, B), Gossip(foreign, "/a", 1), ALWAYS)
        assert not world.carrier.is_pace_due, "what is forwarded holds nobody back"
        world.outlet.add(pack_data(bytes(BYTES_A_TURN)))
        world.outlet.close()
        assert world.carrier.is_pace_due

    run(main)


def test_while_one_publisher_is_held_back_all_are() -> None:
    async def main(world: World) -> None:
        published = 0

        async def publish() -> None:
            nonlocal published
            for number in range(1000):
                world.outlet.add(pack_data(number))
                published += 1
                if number % 7 == 0:
                    world.outlet.close()
                if world.carrier.is_pace_due:
                    await world.carrier.pace()

        world.ways.is_full = True
        tasks = [asyncio.create_task(publish()) for _ in range(5)]
        for _ in range(50):
            await asyncio.sleep(0)
        assert published <= EVENTS_A_TURN + 5 * 8
        assert A in world.ways.waited_for
        world.ways.is_full = False
        world.ways.changed.set()
        await asyncio.gather(*tasks)
        assert published == 5000

    run(main)


def test_many_are_published_in_few_blocks_and_taken_in_lists() -> None:
    async def main(p: Playground) -> None:
        _, events = await p.subscriber("/a", queue=1000)
        publisher = await p.node()
        receipts = await publisher.publish_many("/a", range(300), wait="acked")
        assert [receipt.sequence for receipt in receipts] == list(range(1, 301))
        assert all(receipt.acknowledged == 1 for receipt in receipts)
        assert len({id(receipt._block) for receipt in receipts}) < 10
        assert len(events) == 300
        taken: list[list[int]] = []
        assert (await anext(events)).data == 0
        async for some in events.batches(max=70):
            taken.append([event.data for event in some])
            if sum(map(len, taken)) == 299:
                break
        assert [len(some) for some in taken] == [70, 70, 70, 70, 19]
        assert [number for some in taken for number in some] == list(range(1, 300))
        assert len(events) == 0
        events.end()
        assert [some async for some in events.batches()] == []
        with pytest.raises(SubscriptionError, match="max is a number of events"):
            await anext(events.batches(max=0))

    play(81, main, mode="structured")
