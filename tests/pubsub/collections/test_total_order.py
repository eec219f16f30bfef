"""One order for all, under crashes, joins and partitions; and broken versions that are caught."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest

from overlay.contact import PeerId
from overlay.errors import UsageError
from overlay.virtual.stage import Stage, numbered_contact
from pubsub.collections.config import OrderConfig
from pubsub.collections.messages import Announcement
from pubsub.collections.total_order import Source, TotalOrder
from tests.pubsub.collections.model_topic import is_caught
from tests.pubsub.collections.ordering import OrderRun

QUICK = range(8)
SWEEP = range(8, 128)


def check_without_partitions(seed: int, *, apart: bool = False) -> None:
    run = OrderRun(seed, apart=apart)
    run.check_all_delivered()
    run.check_publishers_order()
    run.check_one_order_for_all()


def check_with_partitions(seed: int) -> None:
    run = OrderRun(seed, partitions=True)
    run.check_all_delivered()
    run.check_publishers_order()
    run.check_one_order_in_every_view()
    run.check_one_order_after_the_last_heal()


@pytest.mark.parametrize("seed", QUICK)
def test_all_deliver_in_one_order_while_members_crash_and_join(seed: int) -> None:
    check_without_partitions(seed)


@pytest.mark.parametrize("seed", QUICK)
def test_all_deliver_in_one_order_though_newcomers_hear_each_other_first(seed: int) -> None:
    check_without_partitions(seed, apart=True)


@pytest.mark.parametrize("seed", QUICK)
def test_each_view_has_one_order_and_so_has_the_time_after_a_merge(seed: int) -> None:
    check_with_partitions(seed)


@pytest.mark.sweep
def test_one_order_over_many_schedules() -> None:
    for seed in SWEEP:
        check_without_partitions(seed)
        check_without_partitions(seed, apart=True)
        check_with_partitions(seed)


# Broken versions.


class DeliversAtOnce(TotalOrder):
    """Waits for nobody's clock."""

    def receive(self, source: Any, number: int, clock: int, item: Any) -> None:
        super().receive(source, number, clock, item)
        while self._heap:
            self._deliver(self._heap.pop(0)[-1])


class CatchesUpWithNobody(TotalOrder):
    """Takes an announcement for caught up with whatever it tells of."""

    def _has(self, announcement: Announcement) -> bool:
        return True


class BelievesOldAnnouncements(TotalOrder):
    """Counts what was announced in an earlier stay."""

    def stable(self, view: bytes, members: tuple[PeerId, ...]) -> None:
        clocks = {peer: known.clock for peer, known in self._peers.items()}
        super().stable(view, members)
        for peer, known in self._peers.items():
            known.clock = clocks.get(peer, -1)
            known.heard = peer in clocks
        self._advance()


class PromisesTooMuch(TotalOrder):
    """Announces clocks of additions that it has not published yet."""

    def _promise(self) -> int:
        return self.clock


class WaitsForNothingAtFirst(TotalOrder):
    """Does not wait, when it has just come, for what those who are there have."""

    def announced(self, sender: PeerId, announcement: Announcement) -> None:
        if self._latest[0] == 0 and announcement.whole:
            for publisher, run, number in announcement.counts:
                self._excuse_up_to((publisher, run), number)
        super().announced(sender, announcement)


class GoesOnAmongNewcomers(TotalOrder):
    """Takes a view of newcomers for all that there is."""

    @property
    def _lacks_others(self) -> bool:
        return False


class ComparesLives(TotalOrder):
    """Takes the stays of a member that began anew for earlier ones of its last life."""

    def stable(self, view: bytes, members: tuple[PeerId, ...]) -> None:
        stays = self._stay_of
        super().stable(view, members)
        self._stay_of = {peer: stays.get(peer, 0) for peer in self._peers}


@pytest.mark.parametrize(
    ("broken", "seeds"),
    [
        (DeliversAtOnce, (0, 1)),
        (CatchesUpWithNobody, range(6)),
        (PromisesTooMuch, range(6)),
        (WaitsForNothingAtFirst, (17,)),
    ],
)
def test_a_broken_order_is_caught(broken: type[TotalOrder], seeds: Iterable[int]) -> None:
    runs = (OrderRun(seed, broken) for seed in seeds)
    assert any(is_caught(run.check_one_order_for_all) for run in runs)


def test_an_order_of_newcomers_alone_is_caught() -> None:
    runs = (OrderRun(seed, GoesOnAmongNewcomers, apart=True) for seed in range(4))
    assert any(is_caught(run.check_one_order_for_all) for run in runs)


def test_taking_a_new_life_of_a_member_for_an_earlier_stay_is_caught() -> None:
    runs = (OrderRun(seed, ComparesLives) for seed in (2, 20))
    assert any(is_caught(run.check_all_delivered) for run in runs)


def test_believing_what_was_announced_in_another_stay_is_caught() -> None:
    runs = (OrderRun(seed, BelievesOldAnnouncements, partitions=True) for seed in (29, 124))
    assert any(is_caught(run.check_one_order_in_every_view) for run in runs)


def test_publishing_before_the_view_is_settled_is_caught() -> None:
    runs = (OrderRun(seed, waits_to_settle=False) for seed in (18, 24))
    assert any(is_caught(run.check_one_order_for_all) for run in runs)


OTHER = PeerId(b"o" * 20)


class Alone:
    """One member, to which the test says what the others do."""

    def __init__(self, **how: Any) -> None:
        self.stage = Stage(seed=1)
        context = self.stage.context(numbered_contact(0))
        self.me = context.contact.id
        self.given: list[str] = []
        self.told: list[Announcement] = []
        self.order = TotalOrder(
            self.me,
            lambda to, announcement: self.told.append(announcement),
            context.call_later,
            self.given.append,
            OrderConfig(patience=10.0),
            **how,
        )
        self.order.begin_to_order()


@pytest.mark.parametrize("are_gone", [True, False])
def test_a_newcomer_that_has_not_heard_the_others_is_not_settled_alone(are_gone: bool) -> None:
    is_whole = False
    member = Alone(is_whole=lambda: is_whole)
    me, order, stage, given = member.me, member.order, member.stage, member.given
    order.receive((OTHER, b"1"), 5, 40, "from before its crash")
    order.stable(b"alone", (me,))
    stage.run_for(5.0)
    assert not order.is_settled
    is_whole = are_gone
    stage.run_for(2.0)
    assert order.is_settled == are_gone
    stage.run_for(10.0)
    assert order.is_settled, "nobody waits for ever"
    assert given == ["from before its crash"]


@pytest.mark.parametrize("is_new", [True, False])
def test_newcomers_that_have_not_heard_the_others_are_not_settled_among_themselves(
    is_new: bool,
) -> None:
    member = Alone(is_whole=lambda: False)
    me, order, stage, given = member.me, member.order, member.stage, member.given
    third = PeerId(b"t" * 20)
    order.stable(b"two", (me, OTHER))
    order.announced(OTHER, Announcement(b"two", 1, 1, 5, True, (), is_new))
    order.receive((OTHER, b"1"), 1, 4, "added by the other one")
    stage.run_for(5.0)
    assert order.is_settled != is_new, "one that has been here for longer goes on with its order"
    stage.run_for(10.0)
    assert order.is_settled, "nobody waits for ever"
    assert given == ["added by the other one"]
    order.stable(b"three", (me, OTHER, third))
    order.announced(third, Announcement(b"three", 1, 2, 5, True, (), True))
    order.announced(OTHER, Announcement(b"three", 2, 2, 5, True, ()))
    assert order.is_settled


def test_a_member_whose_disk_fails_does_not_give_up_what_waits_for_the_disk() -> None:
    fails = True
    member = Alone(is_held_up=lambda: fails)
    me, order, stage, given = member.me, member.order, member.stage, member.given
    order.stable(b"view", (me, OTHER))
    order.announced(OTHER, Announcement(b"view", 1, 1, 5, True, ((OTHER, b"1", 2),)))
    order.receive((OTHER, b"1"), 1, 4, "first")
    stage.run_for(40.0)
    assert given == [], "the second one has come, and waits for the disk"
    fails = False
    stage.run_for(8.0)
    assert given == [], "the disk has only begun to work again"
    stage.run_for(5.0)
    assert given == ["first"], "nobody waits for ever"


def test_what_others_tell_of_late_has_patience_of_its_own() -> None:
    member = Alone()
    me, order, stage, given = member.me, member.order, member.stage, member.given
    third = PeerId(b"t" * 20)
    order.stable(b"two", (me, OTHER))
    order.announced(OTHER, Announcement(b"two", 1, 1, 5, True, ()))
    order.receive((OTHER, b"1"), 1, 9, "second")
    stage.run_for(11.0)  # the other one's disk fails, say
    order.announced(OTHER, Announcement(b"two", 1, 1, 20, True, ((third, b"1", 1),)))
    stage.run_for(5.0)
    assert given == [], "what it has is on its way"
    order.receive((third, b"1"), 1, 4, "first")
    assert given == ["first", "second"]
    order.announced(OTHER, Announcement(b"two", 1, 1, 30, True, ((third, b"1", 2),)))
    order.receive((OTHER, b"1"), 2, 25, "third")
    stage.run_for(25.0)
    assert given == ["first", "second", "third"], "nobody waits for ever"


def test_a_member_tells_of_what_waits_for_its_disk_and_delivers_nothing_before_it() -> None:
    gone = (PeerId(b"g" * 20), b"1")
    coming: dict[Source, int] = {}
    member = Alone(coming=lambda: coming)
    me, order, stage, given = member.me, member.order, member.stage, member.given
    order.stable(b"three", (me, OTHER, gone[0]))
    for one in (OTHER, gone[0]):
        order.announced(one, Announcement(b"three", 1, 1, 0, True, ()))
    coming[gone] = 1  # somebody who has delivered it crashes, and so does its publisher
    order.stable(b"two", (me, OTHER))
    assert member.told[-1].counts == ((*gone, 1),)
    order.announced(OTHER, Announcement(b"two", 2, 2, 9, True, ()))
    order.receive((OTHER, b"1"), 1, 5, "second")
    stage.run_for(2.0)
    assert given == []
    order.receive(gone, 1, 4, "first")
    assert given == ["first", "second"]


@pytest.mark.parametrize("field", ["delay", "repeat", "patience"])
def test_a_configuration_that_cannot_work_is_refused(field: str) -> None:
    with pytest.raises(UsageError, match=field):
        OrderConfig(**{field: 0})
