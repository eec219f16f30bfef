"""The parts of one-of-n delivery by hand: who gives, who has in hand, and who has started again."""

from __future__ import annotations

from collections.abc import Callable
from unittest.mock import Mock

import pytest

from overlay.contact import PeerId
from overlay.context import Timer
from overlay.errors import UsageError
from overlay.virtual.stage import numbered_contact
from overlay.wire import MAX_STRING, encode
from pubsub.collections.messages import ElementId, ElementOffer, TakerAnswer
from pubsub.collections.one_of_n import OneOfNConfig, Sharing, Taker
from pubsub.collections.one_of_n.assigning import Assigner
from pubsub.collections.one_of_n.leases import HEARD_SECONDS, TakerLeases
from pubsub.collections.one_of_n.sharing import Sent
from pubsub.filters import Filter

A, B, C, P = (numbered_contact(number).id for number in range(4))


def element_id(number: int) -> ElementId:
    return (P, 1, number)


class Desk:
    """An assigner and what it sent."""

    def __init__(self, **config: int) -> None:
        self.sent: list[tuple[PeerId, ElementOffer]] = []
        self.dropped: list[str] = []
        self.taken: list[ElementId] = []
        self.assigner = Assigner(
            lambda to, offer: self.sent.append((to, offer)),
            self.taken.append,
            self._call_later,
            OneOfNConfig(**config),
            self._room,
            self.dropped.append,
        )
        self.rooms = 0
        self._number = 0

    def _room(self) -> None:
        self.rooms += 1

    def _call_later(self, delay: float, action: Callable[[], None]) -> Timer:
        self.later = action
        return Mock()

    def add(self, data: object = None) -> None:
        self._number += 1
        self.assigner.add(element_id(self._number), "/t", b"", data)

    def takers(self, *takers: Taker) -> None:
        """These ask, and nobody else is there."""
        self.assigner.takers_are(takers, {taker.id: 1 for taker in takers})

    def receivers(self) -> list[PeerId]:
        return [to for to, _ in self.sent]


def test_elements_are_shared_out_evenly() -> None:
    desk = Desk()
    desk.takers(Taker(A), Taker(B), Taker(C))
    for _ in range(6):
        desk.add()
    assert sorted(desk.receivers()) == sorted([A, B, C] * 2)


def test_who_has_its_hands_full_gets_no_more() -> None:
    desk = Desk(in_hand=2)
    desk.takers(Taker(A))
    for _ in range(5):
        desk.add()
    assert len(desk.sent) == 2
    desk.assigner.answered(A, TakerAnswer(element_id(1), True))
    assert len(desk.sent) == 3
    assert desk.assigner.waiting == 2
    assert desk.taken == [element_id(1)]


def test_only_who_wants_it_is_offered_it() -> None:
    desk = Desk()
    desk.takers(Taker(A, Filter.parse("$ > 5")), Taker(B, Filter.parse("$ < 5")))
    for data in (1, 9, 5):
        desk.add(data)
    assert desk.receivers() == [B, A]
    assert desk.assigner.waiting == 1


def test_what_was_given_back_goes_to_another_and_is_dropped_in_the_end() -> None:
    desk = Desk(most_attempts=2)
    desk.takers(Taker(A), Taker(B))
    desk.add()
    first = desk.receivers()[0]
    desk.assigner.answered(first, TakerAnswer(element_id(1), False))
    second = desk.receivers()[1]
    assert first != second
    desk.assigner.answered(second, TakerAnswer(element_id(1), False))
    assert desk.dropped == ["given_back"]
    assert not len(desk.assigner)


def test_what_the_only_taker_gave_back_is_offered_to_it_again_after_a_while() -> None:
    desk = Desk()
    desk.takers(Taker(A))
    desk.add()
    desk.assigner.answered(A, TakerAnswer(element_id(1), False))
    assert len(desk.sent) == 1
    desk.later()
    assert desk.receivers() == [A, A]


def test_what_one_gave_back_and_another_crashed_with_is_offered_to_the_first_again() -> None:
    desk = Desk()
    desk.takers(Taker(A), Taker(B))
    desk.add()
    first, other = (A, B) if desk.receivers() == [A] else (B, A)
    desk.assigner.answered(first, TakerAnswer(element_id(1), False))
    desk.later()
    desk.takers(Taker(first))
    desk.later()
    assert desk.receivers() == [first, other, first]


def test_one_that_stopped_asking_keeps_what_it_has_in_hand_unless_it_starts_again() -> None:
    desk = Desk()
    desk.takers(Taker(A))
    desk.add()
    desk.assigner.takers_are([Taker(B)], {A: 1, B: 1})
    assert desk.receivers() == [A]
    desk.assigner.takers_are([Taker(B)], {A: 2, B: 1})
    assert desk.receivers() == [A, B]


def test_an_offer_to_an_earlier_incarnation_is_not_taken() -> None:
    desk = Desk()
    desk.assigner.takers_are([Taker(P)], {P: 1})
    desk.add()
    desk.assigner.takers_are([Taker(P)], {P: 2})
    taker = Whole()
    taker.sharing.participants_are({A: 1, P: 2}, [], True)
    for _, offer in desk.sent:
        taker.sharing.direct(A, offer)
        assert len(taker.sharing.leases) == offer.to - 1


def test_a_giver_is_full_until_one_is_taken_and_drops_nothing() -> None:
    desk = Desk(most_waiting=3, in_hand=1)
    desk.takers(Taker(A))
    for _ in range(2):
        desk.add()
    assert not desk.assigner.is_full
    for _ in range(2):
        desk.add()
    assert desk.assigner.is_full
    desk.assigner.answered(A, TakerAnswer(element_id(1), True))
    assert desk.assigner.is_full
    assert not desk.rooms
    desk.assigner.answered(A, TakerAnswer(element_id(2), True))
    assert not desk.assigner.is_full
    assert desk.rooms == 1
    assert len(desk.assigner) == 2
    assert not desk.dropped


def test_an_answer_about_another_gift_or_from_a_stranger_changes_nothing() -> None:
    desk = Desk()
    desk.takers(Taker(A))
    desk.add()
    desk.assigner.answered(A, TakerAnswer((P, 2, 1), True))
    desk.assigner.answered(B, TakerAnswer(element_id(1), False))
    desk.assigner.answered(A, TakerAnswer(element_id(77), True))
    assert len(desk.assigner) == 1
    assert desk.assigner.waiting == 0


class Whole:
    """All of one participant's part in its second incarnation, and what it sent and told."""

    def __init__(self) -> None:
        self.told: list[ElementId] = []
        self.sent: list[tuple[PeerId, Sent]] = []
        self.sharing = Sharing(
            P,
            2,
            lambda to, message: self.sent.append((to, message)),
            lambda offer: None,
            self.told.append,
            lambda: 0.0,
            lambda delay, action: Mock(),
        )


def test_what_was_taken_from_an_earlier_incarnation_is_told_by_the_next() -> None:
    publisher = Whole()
    publisher.sharing.direct(A, TakerAnswer(element_id(1), True))
    publisher.sharing.taken(element_id(1))
    publisher.sharing.direct(A, TakerAnswer(element_id(1), True))
    publisher.sharing.direct(A, TakerAnswer(element_id(2), False))
    assert publisher.told == [element_id(1)]


def test_what_was_just_taken_is_not_given_again_when_another_asked_in_time() -> None:
    publisher, element = Whole(), (P, 2, 1)
    publisher.sharing.participants_are({A: 1, B: 1, P: 2}, [Taker(A), Taker(B)], True)
    publisher.sharing.missed(element, "/t", b"", 1)
    publisher.sharing.direct(publisher.sent[0][0], TakerAnswer(element, True))
    publisher.sharing.missed(element, "/t", b"", 1)
    assert len(publisher.sent) == 1
    assert publisher.told == [element]


def test_a_large_estate_is_told_in_parts_that_may_come_in_any_order() -> None:
    chosen, other = Whole(), Whole()
    members = {A: 1, P: 2}
    for number in range(1, 30_000):
        other.sharing.received((C, 7, number), "/t", b"\x01")
        chosen.sharing.received((C, 7, number), "/t", b"\x01")
    other.sharing.stable(b"view", members)
    parts = [message for _, message in other.sent]
    assert len(parts) > 2
    assert all(len(encode(part)) < MAX_STRING // 2 for part in parts)
    chosen.sharing.direct(A, parts[-1])
    chosen.sharing.stable(b"view", members)
    for part in parts[:-1]:
        assert not len(chosen.sharing.assigner)
        chosen.sharing.direct(A, part)
        chosen.sharing.direct(A, part)
    adopted = len(chosen.sharing.assigner)
    assert adopted == (29_999 if min(A, P) == P else 0)


class Bench:
    """Leases, and what they did."""

    def __init__(self) -> None:
        self.answers: list[TakerAnswer] = []
        self.worked: list[ElementId] = []
        self.told: list[ElementId] = []
        self.kept: list[ElementId] = []
        self.time = 0.0
        self.leases = TakerLeases(
            lambda to, answer: self.answers.append(answer),
            lambda offer: self.worked.append(offer.element_id),
            self.told.append,
            lambda offer: self.kept.append(offer.element_id),
            lambda: self.time,
            10,
        )
        self.leases.present_are({A: 1, P: 1})


def test_an_element_offered_again_is_answered_again_and_not_worked_on_again() -> None:
    bench = Bench()
    offer = ElementOffer(element_id(1), "/t", b"", 1)
    bench.leases.offered(P, offer)
    bench.leases.offered(A, offer)
    assert bench.worked == [element_id(1)]
    bench.leases.done(element_id(1))
    bench.leases.done(element_id(1))
    bench.leases.offered(A, offer)
    assert bench.worked == [element_id(1)]
    assert bench.answers == [TakerAnswer(element_id(1), True)] * 2
    assert set(bench.leases.claimed) == {element_id(1)}
    bench.leases.taken(element_id(1))
    bench.time = HEARD_SECONDS
    assert bench.leases.claimed == []


def test_all_are_told_what_was_taken_when_its_giver_cannot_be() -> None:
    bench = Bench()
    bench.leases.offered(P, ElementOffer(element_id(1), "/t", b"", 1))
    bench.leases.done(element_id(1))
    bench.leases.undelivered(P, bench.answers[0])
    assert bench.told == [element_id(1)]


def test_what_is_given_back_to_one_who_is_gone_is_for_heirs() -> None:
    bench = Bench()
    for number in (1, 2):
        bench.leases.offered(P, ElementOffer(element_id(number), "/t", b"", 1))
    bench.leases.give_back(element_id(1))
    bench.leases.undelivered(P, bench.answers[0])
    assert bench.answers == [TakerAnswer(element_id(1), False)] * 2
    assert not bench.kept
    bench.leases.present_are({A: 1})
    bench.leases.give_back(element_id(2))
    assert bench.kept == [element_id(1), element_id(2)]


def test_what_is_given_back_to_one_who_returned_without_it_is_for_heirs() -> None:
    bench = Bench()
    for number in (1, 2):
        bench.leases.offered(P, ElementOffer(element_id(number), "/t", b"", 1))
    bench.leases.give_back(element_id(1))
    bench.leases.present_are({A: 1, P: 2})
    bench.leases.give_back(element_id(2))
    assert bench.kept == [element_id(1), element_id(2)]
    assert bench.answers == [TakerAnswer(element_id(1), False), TakerAnswer(element_id(2), False)]


def test_an_offer_of_one_who_is_gone_is_not_taken() -> None:
    bench = Bench()
    bench.leases.present_are({A: 1})
    bench.leases.offered(P, ElementOffer(element_id(1), "/t", b"", 1))
    assert not bench.worked
    assert bench.answers == [TakerAnswer(element_id(1), False, unseen=True)]


@pytest.mark.parametrize(
    "field",
    [
        "in_hand",
        "most_waiting",
        "most_attempts",
        "gone_after",
        "spares",
    ],
)
def test_a_configuration_that_cannot_work_is_refused(field: str) -> None:
    with pytest.raises(UsageError, match=field):
        OneOfNConfig(**{field: -1})
