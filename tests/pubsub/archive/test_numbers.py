"""Catenation numbers on both sides: properties of the intake, and the publisher by hand."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from overlay.contact import Contact
from overlay.virtual.stage import Stage, numbered_contact
from pubsub.archive.protocol.config import DurableConfig
from pubsub.archive.protocol.frontier import (
    ComparedFrontier,
    Frontier,
    Intake,
    is_fork,
    new_stream,
)
from pubsub.archive.protocol.messages import Companion, Negotiation
from pubsub.archive.protocol.publisher import DurablePublisher

STREAM = bytes(28)
ARCHIVE, OTHER = numbered_contact(1), numbered_contact(2)


@given(
    st.integers(0, 5),
    st.lists(st.tuples(st.integers(1, 20), st.integers(0, 5)), max_size=40),
)
def test_the_intake_hands_on_each_event_once_in_order_and_without_a_gap(
    base: int, arrivals: list[tuple[int, int]]
) -> None:
    intake = Intake(Frontier())
    taken: list[bytes] = []
    came: set[int] = set()
    for offset, count in arrivals:
        numbers = range(base + offset, base + offset + count)
        came.update(numbers)
        accepted = intake.accept(STREAM, base, numbers.start, [b"%d" % n for n in numbers])
        assert accepted.first == base + len(taken) + 1 or not accepted.events
        taken += accepted.events
    assert taken == [b"%d" % number for number in range(base + 1, base + 1 + len(taken))]
    assert base + len(taken) + 1 not in came


STREAMS = [new_stream(b"p" * 20, 1_000 + number, number) for number in range(3)]


@given(st.lists(st.tuples(st.sampled_from(STREAMS), st.integers(0, 9))))
def test_frontiers_do_not_depend_on_the_order_of_what_is_merged(
    marks: list[tuple[bytes, int]],
) -> None:
    one, other = ComparedFrontier(marks), ComparedFrontier(reversed(marks))
    assert one.digest() == other.digest()
    assert not one.differing(other.packed_sums())
    assert all(one.covers(*mark) for mark in other)
    assert all(other.covers(*mark) for mark in one)


class Desk:
    """A publisher, and what it sent."""

    def __init__(self, **config: Any) -> None:
        self.stage = Stage(1)
        self.silent = 0
        self.sent: list[tuple[Contact, Companion]] = []
        self.stage.observe(self._see)
        self.core = DurablePublisher(
            self.stage.context(numbered_contact(9)),
            "/t",
            DurableConfig(**config),
            on_progress=lambda: None,
            on_silent=self._fell_silent,
        )

    def _see(self, time: float, sender: Contact, to: Contact, message: object) -> None:
        assert isinstance(message, Companion)
        self.sent.append((to, message))

    def _fell_silent(self) -> None:
        self.silent += 1

    def take(self) -> list[Companion]:
        self.stage.run_for(0.01)
        sent, self.sent = self.sent, []
        return [companion for _, companion in sent]

    def answer(self, *safe: int, missing: Any = (), sender: Contact = ARCHIVE) -> None:
        negotiation = Negotiation("/t", self.core.stream, safe, max(len(safe), 1), missing, 0)
        self.core.receive(sender, negotiation)


def test_a_nak_is_answered_with_what_is_missing() -> None:
    desk = Desk()
    desk.core.use(ARCHIVE, b"one", 0, 1_000_000_000)
    for number in range(5):
        desk.core.add(b"%d" % number)
    desk.take()
    desk.answer(1, missing=((2, 3),))
    (again,) = desk.take()
    assert (again.first, again.blocks) == (2, (b"1", b"2"))


def test_publishing_waits_while_the_buffer_is_full_and_an_ack_makes_room() -> None:
    desk = Desk(buffer=4, window=2)
    desk.core.use(ARCHIVE, b"one", 0, 1_000_000_000)
    while desk.core.has_room:
        desk.core.add(b"")
    assert desk.core.owed == 4
    assert sum(len(companion.blocks) for companion in desk.take()) == 2
    desk.answer(2)
    assert desk.core.has_room
    assert [companion.first for companion in desk.take()] == [3]


def test_an_archive_that_stays_silent_is_reported_and_the_next_gets_what_is_owed() -> None:
    desk = Desk()
    desk.core.use(ARCHIVE, b"one", 0, 1_000_000_000)
    desk.core.add(b"x")
    desk.stage.run_for(10)
    assert desk.silent == 1
    desk.take()
    desk.core.use(OTHER, b"other", 7, 1_000_000_000)
    (companion,) = desk.take()
    assert (companion.base, companion.first, companion.blocks) == (0, 1, (b"x",))


def test_an_archive_is_told_what_was_sent_to_another_one_before() -> None:
    desk = Desk()
    desk.core.use(ARCHIVE, b"one", 0, 1_000_000_000)
    desk.core.add(b"1")
    desk.core.add(b"2")
    assert {companion.resent for companion in desk.take()} == {0}
    desk.core.use(ARCHIVE, b"one", 0, 1_000_000_000)
    assert {companion.resent for companion in desk.take()} == {0}
    desk.core.use(OTHER, b"other", 0, 1_000_000_000)
    desk.core.add(b"3")
    sent = [(one.blocks, one.resent) for one in desk.take() if one.blocks]
    assert sent == [((b"1", b"2"), 2), ((b"3",), 2)]
    desk.core.use(OTHER, b"another store", 0, 1_000_000_000)
    assert {companion.resent for companion in desk.take()} == {3}


def test_a_publisher_fills_what_the_next_archive_lacks_though_it_was_safe() -> None:
    desk = Desk()
    desk.core.use(ARCHIVE, b"one", 0, 1_000_000_000)
    desk.core.add(b"x")
    desk.take()
    desk.answer(1)
    assert desk.core.is_safe(1)
    desk.core.use(OTHER, b"other", 0, 1_000_000_000)
    desk.take()
    desk.answer(0, missing=((1, 1),), sender=OTHER)
    (companion,) = desk.take()
    assert companion.blocks == (b"x",)


def test_what_every_known_replica_has_is_kept_for_one_that_nobody_knew() -> None:
    desk = Desk()
    desk.core.use(ARCHIVE, b"one", 0, 1_000_000_000)
    for number in range(4):
        desk.core.add(b"%d" % number)
    desk.take()
    desk.core.receive(ARCHIVE, Negotiation("/t", desk.core.stream, (4, 4, 4), 3))
    desk.core.add(b"4")
    stream = desk.core.stream
    desk.core.use(OTHER, b"other", 0, 1_000_000_000)
    desk.take()
    desk.answer(0, missing=((1, 4),), sender=OTHER)
    assert desk.core.stream == stream
    (companion,) = desk.take()
    assert companion.first == 1


def test_what_is_no_longer_kept_does_not_hold_up_the_rest() -> None:
    desk = Desk(spare=1)
    desk.core.use(ARCHIVE, b"one", 0, 1_000_000_000)
    for number in range(4):
        desk.core.add(b"%d" % number)
    desk.take()
    desk.answer(4)
    desk.core.add(b"4")
    stream = desk.core.stream
    desk.core.use(OTHER, b"other", 0, 1_000_000_000)
    desk.take()
    desk.answer(0, missing=((1, 4),), sender=OTHER)
    assert desk.core.stream != stream
    assert is_fork(desk.core.stream)
    (companion,) = desk.take()
    assert (companion.base, companion.first, companion.blocks) == (3, 4, (b"3", b"4"))
    desk.answer(5, sender=OTHER)
    assert desk.core.is_safe(5)


def test_a_stale_nak_changes_nothing() -> None:
    desk = Desk(spare=1)
    desk.core.use(ARCHIVE, b"one", 0, 1_000_000_000)
    for number in range(4):
        desk.core.add(b"%d" % number)
    desk.take()
    desk.answer(4)
    stream = desk.core.stream
    desk.answer(4, missing=((1, 2),))
    assert desk.core.stream == stream
    assert not desk.take()
