"""What a publisher keeps: bounded in events and bytes, and no event holds up the others."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from overlay.contact import Contact
from overlay.virtual.stage import Stage, numbered_contact
from pubsub.archive.errors import NoRoom, NotSafe
from pubsub.archive.protocol.config import DurableConfig
from pubsub.archive.protocol.messages import Companion, Negotiation
from pubsub.archive.protocol.publisher import DurablePublisher
from pubsub.archive.publishing import DurablePublishing
from tests.pubsub.archive.test_durable_nodes import World, play


class Desk:
    """A publisher whose archives do what the test says: it reads what they are sent, and answers for them."""

    def __init__(self, **bounds: Any) -> None:
        self.stage = Stage(1)
        self.config = DurableConfig(**bounds)
        self.searches = 0
        self.inbox: list[tuple[Contact, Companion]] = []
        me = numbered_contact(9)
        self.core = DurablePublisher(
            self.stage.context(me),
            "/t",
            self.config,
            on_progress=lambda: None,
            on_silent=self._silent,
        )
        self.stage.attach(me, lambda sender, answer: self.core.receive(sender, answer))  # type: ignore[arg-type]
        for number in (1, 2):
            self._attach(numbered_contact(number))
        self.core.use(numbered_contact(1), b"1", 0, 1_000_000_000)

    def _attach(self, archive: Contact) -> None:
        def receive(sender: Contact, message: object) -> None:
            assert isinstance(message, Companion)
            self.inbox.append((archive, message))

        self.stage.attach(archive, receive)

    def _silent(self) -> None:
        self.searches += 1

    def answer(
        self, archive: int, safe: tuple[int, ...], missing: tuple[tuple[int, int], ...] = ()
    ) -> None:
        """An archive's word on the stream as it is now."""
        answer = Negotiation("/t", self.core.stream, safe, len(safe), missing, 0)
        self.core.receive(numbered_contact(archive), answer)

    def sent_to(self, archive: int) -> dict[int, bytes]:
        """What this archive was sent of the stream as it is now, by catenation number."""
        self.stage.run_for(0.1)
        return {
            number: event
            for to, companion in self.inbox
            if to == numbered_contact(archive) and companion.stream == self.core.stream
            for number, event in enumerate(companion.blocks, companion.first)
        }


def test_an_event_that_wants_more_copies_than_there_are_holds_up_no_other() -> None:
    desk = Desk(buffer=50)
    wanting = desk.core.add(b"wanting", copies=2)
    for _ in range(500):
        assert desk.core.has_room
        desk.answer(1, (desk.core.add(b"usual"),))
    assert desk.core.owed == 1
    assert not desk.core.is_safe(wanting, 2)
    desk.answer(1, (desk.core.last, wanting))
    assert desk.core.is_safe(wanting, 2)
    assert not desk.core.owed


def test_events_that_lack_copies_count_in_the_buffer() -> None:
    desk = Desk(buffer=50)
    for _ in range(50):
        assert desk.core.has_room
        desk.answer(1, (desk.core.add(b"wanting", copies=2),))
    assert not desk.core.has_room
    desk.answer(1, (50, 20))
    assert desk.core.has_room
    assert desk.core.owed == 30


def test_the_buffer_is_bounded_in_bytes_too() -> None:
    desk = Desk(buffer_bytes=1000)
    desk.core.add(bytes(5000))
    assert not desk.core.has_room
    desk.answer(1, (1,))
    assert desk.core.has_room
    for _ in range(10):
        assert desk.core.has_room
        desk.core.add(bytes(100))
    assert not desk.core.has_room
    desk.answer(1, (2,))
    assert desk.core.has_room


@pytest.mark.parametrize("later", [5, 300])
def test_an_event_that_lacks_copies_goes_to_the_next_archive(later: int) -> None:
    """In its place while what was published after it is kept, and behind all others otherwise."""
    desk = Desk(buffer=50, spare=10)
    wanting = desk.core.add(b"wanting", copies=2)
    for number in range(later):
        desk.core.add(b"usual%d" % number)
        desk.answer(1, (desk.core.last,))
    last = desk.core.last
    desk.core.use(numbered_contact(2), b"2", 0, 1_000_000_000)
    desk.stage.run_for(0.1)
    desk.answer(2, (0,), ((1, last),))
    sent = desk.sent_to(2)
    assert list(sent) == [*range(min(sent), min(sent) + len(sent))]
    assert list(sent.values()).count(b"wanting") == 1
    assert (sent[1] == b"wanting") if later == 5 else (sent[max(sent)] == b"wanting")
    desk.answer(2, (max(sent),))
    assert not desk.core.is_safe(wanting, 2)
    desk.answer(2, (max(sent), max(sent)))
    assert desk.core.is_safe(wanting, 2)
    assert not desk.core.owed


def test_an_archive_that_answers_and_stores_nothing_is_given_up() -> None:
    desk = Desk()
    desk.core.add(b"event")
    for _ in range(60):
        desk.stage.run_for(0.5)
        desk.answer(1, (0,))
    assert desk.searches == 1
    desk.core.use(numbered_contact(2), b"2", 0, 1_000_000_000)
    assert desk.sent_to(2) == {1: b"event"}


def test_nothing_waits_for_an_event_whose_copies_cannot_be_had() -> None:
    async def main(world: World) -> None:
        await world.archive("/soccer")
        node = await world.node(durability=DurableConfig(buffer=20))
        with pytest.raises(NotSafe):
            await node.publish("/soccer", "wanting", durable=True, copies=2, deadline=1)
        for number in range(100):
            await node.publish("/soccer", number, durable=True, deadline=3)
        for _ in range(19):
            await node.publish("/soccer", "wanting", durable=True, copies=2, wait="sent")
        await asyncio.sleep(1)
        with pytest.raises(NoRoom, match=r"20 events .* 20 of them on more replicas than"):
            await node.publish("/soccer", "one more", durable=True, deadline=1)

    play(main)


def test_waiting_for_an_event_that_got_another_number_holds_up_nobody_else() -> None:
    async def main(world: World) -> None:
        await world.archive("/soccer")
        node = await world.node()
        await node.publish("/soccer", durable=True)
        publishing = node._durable().publishers._managed["/soccer"]
        assert isinstance(publishing, DurablePublishing)
        safe: list[int] = []
        moved = {1: 9}
        publishing.core.number_of = lambda one: moved.get(one, one)  # type: ignore[method-assign]
        publishing.core.is_safe = lambda one, copies=1: one in safe  # type: ignore[method-assign]
        waits = [asyncio.ensure_future(publishing.safe(one, 2)) for one in (1, 2)]
        await asyncio.sleep(0)
        moved[1] = 10
        safe.append(2)
        publishing._progress()
        await waits[1]
        assert not waits[0].done()
        safe.append(1)
        publishing._progress()
        await waits[0]

    play(main)
