"""Copies that leave within one turn leave together, in order, within a datagram; receipts learn of each."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable, Iterable
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from overlay.channel import OnAck
from overlay.contact import Contact
from overlay.metrics import Metrics
from overlay.virtual.stage import numbered_contact
from pubsub.camcast.event_drops import EventDrops
from pubsub.event import Copies, Gossip
from pubsub.event_link import BYTES_A_TURN, EVENTS_A_TURN, EventLink, split
from pubsub.receipt import Receipt

A, B, C = (numbered_contact(number) for number in range(3))


def gossip(number: int, size: int = 100, community: str = "/a", upward: bool = False) -> Gossip:
    body = bytes(4) + number.to_bytes(16, "big") + bytes(max(size - 20, 0))
    return Gossip(body[4:20], community, 1, upward, body, b"")


class AttachmentStub:
    """Keeps what it is given to send, and lets nobody publish while it is full."""

    copies_room = 1000

    def __init__(self) -> None:
        self.sent: list[tuple[Contact, Copies, OnAck | None]] = []
        self.is_full = False
        self.changed = asyncio.Event()
        self.waited_for: list[Contact] = []

    def send_copies(self, to: Contact, copies: Copies, on_ack: OnAck | None) -> bool:
        self.sent.append((to, copies, on_ack))
        return True

    async def writable(self, contacts: Iterable[Contact]) -> None:
        self.waited_for += contacts
        await asyncio.sleep(0)
        while self.is_full:
            await self.changed.wait()

    def ids_to(self, contact: Contact) -> list[bytes]:
        return [
            body[4:20] for to, copies, _ in self.sent if to == contact for body in copies.bodies
        ]


def run(main: Callable[[EventLink, AttachmentStub], Any]) -> None:
    async def link() -> None:
        attachment = AttachmentStub()
        drops = EventDrops(Metrics())
        await main(EventLink(attachment, drops, acknowledged=True), attachment)  # type: ignore[arg-type]

    asyncio.run(link())


GOSSIPS = st.lists(
    st.builds(
        gossip,
        st.integers(0, 2**64),
        st.integers(20, 1500),
        st.sampled_from(["/a", "/b/ü"]),
        st.booleans(),
    ),
    min_size=1,
)


@settings(deadline=None)
@given(GOSSIPS)
def test_parts_keep_the_order_fit_the_room_and_mix_nothing(gossips: list[Gossip]) -> None:
    parts = [list(part) for part in split(gossips, 1000)]
    assert [gossip for part in parts for gossip in part] == gossips
    for part in parts:
        assert len({(one.community, one.upward) for one in part}) == 1
        assert len(part) == 1 or sum(len(one.body) for one in part) <= 1000
    for part, following in itertools.pairwise(parts):
        alike = part[0].community == following[0].community
        alike = alike and part[0].upward == following[0].upward
        together = sum(len(one.body) + 16 for one in [*part, following[0]]) + 10
        assert not alike or together > 1000, "two parts that would fit one"


def test_what_is_sent_within_a_turn_leaves_together_and_is_packed_once() -> None:
    async def main(link: EventLink, attachment: AttachmentStub) -> None:
        for number in range(5):
            link.send((A, B), [gossip(number)])
        link.send((A,), [gossip(5)])
        link.send((C,), [gossip(number) for number in range(2)])
        assert not attachment.sent
        await asyncio.sleep(0)
        assert [len(copies.bodies) for _, copies, _ in attachment.sent] == [6, 5, 2]
        assert attachment.ids_to(A) == [gossip(number).id for number in range(6)]
        link.send((A, B, C), [gossip(7)])
        await asyncio.sleep(0)
        first, second, third = (copies for _, copies, _ in attachment.sent[3:])
        assert first is second is third

    run(main)


def test_much_is_handed_over_before_the_turn_ends() -> None:
    async def main(link: EventLink, attachment: AttachmentStub) -> None:
        link.send((A, B), [gossip(1, BYTES_A_TURN)])
        assert len(attachment.sent) == 2

    run(main)


def test_receipts_learn_what_became_of_each_copy() -> None:
    async def main(link: EventLink, attachment: AttachmentStub) -> None:
        receipts = [Receipt(gossip(number).id, "/a", number, ()) for number in range(3)]
        for number, receipt in enumerate(receipts):
            link.open(receipt)
            link.accepted([gossip(number)], 2)
            link.send((A, B), [gossip(number)])
            link.completed(receipt)
        assert all(receipt.all_sent and not receipt.is_settled for receipt in receipts)
        link.flush()
        (_, _, to_a), (_, _, to_b) = attachment.sent
        assert to_a is not None
        assert to_b is not None
        to_a(True)
        assert [receipt.acknowledged for receipt in receipts] == [1, 1, 1]
        assert not any(receipt.is_settled for receipt in receipts)
        to_b(False)
        assert [(receipt.acknowledged, receipt.failed) for receipt in receipts] == [(1, 1)] * 3
        assert all(receipt.is_settled for receipt in receipts)
        assert not link._receipts

    run(main)


def test_copies_for_a_suspected_member_have_failed_and_late_answers_change_nothing() -> None:
    async def main(link: EventLink, attachment: AttachmentStub) -> None:
        receipts = [Receipt(gossip(number).id, "/a", number, ()) for number in range(2)]
        for number, receipt in enumerate(receipts):
            link.open(receipt)
            link.accepted([gossip(number)], 2)
            link.send((A, B), [gossip(number)])
            link.completed(receipt)
            if number == 0:
                link.flush()
        link.suspect(A.id)
        assert [(r.acknowledged, r.failed) for r in receipts] == [(0, 1), (0, 1)]
        for late in (True, False):
            for to, _, on_ack in attachment.sent:
                if to == A:
                    assert on_ack is not None
                    on_ack(late)
        assert [(r.acknowledged, r.failed) for r in receipts] == [(0, 1), (0, 1)]
        for to, _, on_ack in attachment.sent:
            if to == B:
                assert on_ack is not None
                on_ack(True)
        assert [(r.acknowledged, r.failed) for r in receipts] == [(1, 1), (1, 1)]
        link.suspect(B.id)
        assert all(receipt.is_settled and receipt.failed == 1 for receipt in receipts)
        assert not link._receipts

    run(main)


def test_while_one_publisher_is_held_back_all_are() -> None:
    async def main(link: EventLink, attachment: AttachmentStub) -> None:
        published = 0

        async def publish(first: int) -> None:
            nonlocal published
            for number in range(first, first + 1000):
                receipt = Receipt(gossip(number).id, "/a", number, ())
                link.open(receipt)
                link.accepted([gossip(number)], 1)
                link.send((A,), [gossip(number)])
                link.completed(receipt)
                published += 1
                if link.is_pace_due:
                    await link.pace()

        attachment.is_full = True
        tasks = [asyncio.create_task(publish(10_000 * number)) for number in range(5)]
        for _ in range(50):
            await asyncio.sleep(0)
        assert published <= EVENTS_A_TURN + 5
        assert A in attachment.waited_for
        attachment.is_full = False
        attachment.changed.set()
        await asyncio.gather(*tasks)
        assert published == 5000

    run(main)
