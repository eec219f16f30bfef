"""Every element goes to exactly one of those who asked; and broken versions that are caught."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest

from overlay.contact import PeerId
from overlay.errors import UsageError
from overlay.virtual.stage import numbered_contact
from pubsub.collections.messages import Answer, Offer
from pubsub.collections.one_of_n import Giver, Hands, Held, OneOfNConfig, Taker
from pubsub.filters import Filter
from tests.pubsub.collections.taking import TakingRun

A, B, C = (numbered_contact(number).id for number in range(3))


@pytest.mark.parametrize("seed", range(6))
def test_each_is_taken_once_while_takers_crash_and_come(seed: int) -> None:
    run = TakingRun(seed)
    run.check_all_taken()
    run.check_taken_once()


@pytest.mark.parametrize("seed", range(6))
def test_each_is_taken_at_last_though_the_topic_was_split(seed: int) -> None:
    TakingRun(seed, partitions=True).check_all_taken()


@pytest.mark.sweep
def test_taking_over_many_schedules() -> None:
    for seed in range(6, 106):
        run = TakingRun(seed)
        run.check_all_taken()
        run.check_taken_once()
        TakingRun(seed, partitions=True).check_all_taken()


# Broken versions.


class ForgetsTheFallen(Giver):
    """Does not hand on what a taker that is gone had in hand."""

    def takers_are(self, present: Sequence[Taker], is_asked: bool) -> None:
        gone = [item for item in self._items.values() if item.holder is not None]
        holders = [item.holder for item in gone]
        for item in gone:
            item.holder = None
        super().takers_are(present, is_asked)
        for item, holder in zip(gone, holders, strict=True):
            item.holder = holder


class HandsOnTooEarly(Giver):
    """Offers everything anew whenever the view changes."""

    def takers_are(self, present: Sequence[Taker], is_asked: bool) -> None:
        for item in self._items.values():
            self._release(item)
        super().takers_are(present, is_asked)


class OffersToTwo(Giver):
    def _give(self) -> None:
        super()._give()
        for item in self._items.values():
            others = [peer for peer in self._takers if peer != item.holder]
            if item.holder is not None and others and item.number % 9 == 0:
                self._send(others[0], item.offer)


class NeverForgivesAReturn(Giver):
    """Keeps what was given back in the hands of who gave it back."""

    def answered(self, sender: PeerId, answer: Answer) -> None:
        if answer.taken:
            super().answered(sender, answer)


def is_caught(check: Callable[[], None]) -> bool:
    try:
        check()
    except AssertionError:
        return True
    return False


@pytest.mark.parametrize(
    "broken", [ForgetsTheFallen, HandsOnTooEarly, OffersToTwo, NeverForgivesAReturn]
)
def test_a_broken_giver_is_caught(broken: type[Giver]) -> None:
    runs = (TakingRun(seed, broken) for seed in range(4))
    assert any(is_caught(run.check_all_taken) or is_caught(run.check_taken_once) for run in runs)


# By hand.


class Desk:
    """A giver and what it sent."""

    def __init__(self, **config: int) -> None:
        self.sent: list[tuple[PeerId, Offer]] = []
        self.dropped: list[str] = []
        self.giver = Giver(
            1, lambda to, o: self.sent.append((to, o)), OneOfNConfig(**config), self.dropped.append
        )

    def receivers(self) -> list[PeerId]:
        return [to for to, _ in self.sent]


def test_elements_are_shared_out_evenly() -> None:
    desk = Desk()
    desk.giver.takers_are([Taker(A), Taker(B), Taker(C)], True)
    for _ in range(6):
        desk.giver.add("/t", b"", None)
    assert sorted(desk.receivers()) == sorted([A, B, C] * 2)


def test_who_has_its_hands_full_gets_no_more() -> None:
    desk = Desk(in_hand=2)
    desk.giver.takers_are([Taker(A)], True)
    for _ in range(5):
        desk.giver.add("/t", b"", None)
    assert len(desk.sent) == 2
    desk.giver.answered(A, Answer(1, 1, True))
    assert len(desk.sent) == 3
    assert desk.giver.waiting == 2


def test_only_who_wants_it_is_offered_it() -> None:
    desk = Desk()
    desk.giver.takers_are([Taker(A, Filter.parse("$ > 5")), Taker(B, Filter.parse("$ < 5"))], True)
    for data in (1, 9, 5):
        desk.giver.add("/t", b"", data)
    assert desk.receivers() == [B, A]
    assert desk.giver.waiting == 1


def test_what_was_given_back_goes_to_another_and_is_dropped_in_the_end() -> None:
    desk = Desk(most_attempts=2)
    desk.giver.takers_are([Taker(A), Taker(B)], True)
    desk.giver.add("/t", b"", None)
    first = desk.receivers()[0]
    desk.giver.answered(first, Answer(1, 1, False))
    second = desk.receivers()[1]
    assert first != second
    desk.giver.answered(second, Answer(1, 1, False))
    assert desk.dropped == ["given_back"]
    assert not desk.giver.untaken


def test_nothing_waits_when_nobody_asks_and_the_oldest_goes_when_too_much_waits() -> None:
    desk = Desk(most_waiting=3)
    desk.giver.takers_are([], False)
    desk.giver.add("/t", b"", None)
    assert not desk.giver.untaken
    desk.giver.takers_are([], True)
    for _ in range(5):
        desk.giver.add("/t", b"", None)
    assert desk.giver.waiting == 3
    assert desk.dropped == ["nobody_took_it"] * 2


def test_an_answer_of_another_life_or_from_a_stranger_changes_nothing() -> None:
    desk = Desk()
    desk.giver.takers_are([Taker(A)], True)
    desk.giver.add("/t", b"", None)
    desk.giver.answered(A, Answer(2, 1, True))
    desk.giver.answered(B, Answer(1, 1, False))
    desk.giver.answered(A, Answer(1, 77, True))
    assert desk.giver.untaken == 1
    assert desk.giver.waiting == 0


def test_an_element_offered_again_is_answered_again_and_not_worked_on_again() -> None:
    answers: list[Answer] = []
    worked: list[Held] = []
    hands = Hands(
        lambda to, answer: answers.append(answer), lambda held, offer: worked.append(held)
    )
    offer = Offer(1, 1, "/t", b"")
    hands.offered(A, offer)
    hands.offered(A, offer)
    assert len(worked) == 1
    hands.done(worked[0])
    hands.done(worked[0])
    hands.offered(A, offer)
    assert len(worked) == 1
    assert answers == [Answer(1, 1, True)] * 2


def test_an_answer_that_did_not_arrive_is_given_when_the_publisher_is_back() -> None:
    answers: list[Answer] = []
    hands = Hands(lambda to, answer: answers.append(answer), lambda held, offer: None)
    hands.offered(A, Offer(1, 1, "/t", b""))
    hands.done((A, 1, 1))
    hands.undelivered(A, answers.pop())
    hands.present_are([B])
    assert not answers
    hands.present_are([A, B])
    assert answers == [Answer(1, 1, True)]


@pytest.mark.parametrize("field", ["in_hand", "most_waiting", "most_attempts"])
def test_a_configuration_that_cannot_work_is_refused(field: str) -> None:
    with pytest.raises(UsageError, match=field):
        OneOfNConfig(**{field: 0})
