"""The agreement on views: two phases, the coordinator's failure in the middle, joins, groups that meet."""

from __future__ import annotations

import pytest

from overlay.contact import Contact
from overlay.virtual.stage import Stage, StageConfig, numbered_contact
from pubsub.distributors.config import DistributorConfig
from pubsub.distributors.messages import Prepare, Propose, ViewHello, Vote
from pubsub.distributors.protocol.membership import Agreement, DistributorMembership
from pubsub.distributors.protocol.view import NO_BALLOT, NO_VIEW, View, ViewMember
from tests.pubsub.distributors.properties import (
    failures_leave_the_view,
    joins_enter_the_view,
    views_are_totally_ordered,
)
from tests.pubsub.distributors.theatre import Theatre
from tests.pubsub.distributors.unrest import Unrest

MEMBERS = tuple(ViewMember(numbered_contact(number), number) for number in range(1, 6))
VIEW = View((0, b"group"), 7, MEMBERS)


def ids(*numbers: int) -> list[bytes]:
    return [MEMBERS[number].id for number in numbers]


def test_a_majority_is_more_than_half_or_half_with_the_senior() -> None:
    four = View((0, b"g"), 1, MEMBERS[:4])
    assert VIEW.has_majority(ids(2, 3, 4))  # type: ignore[arg-type]
    assert not VIEW.has_majority(ids(0, 1))  # type: ignore[arg-type]
    assert four.has_majority(ids(0, 3))  # type: ignore[arg-type]
    assert not four.has_majority(ids(1, 2))  # type: ignore[arg-type]
    assert not four.has_majority([numbered_contact(9).id])


class Round:
    """The five members of a view, each with its agreement, on a stage without faults."""

    def __init__(self) -> None:
        self.stage = Stage(1, StageConfig(latency=(0.01, 0.01)))
        self.decided: list[tuple[ViewMember, ...]] = []
        self.agreements: dict[ViewMember, Agreement] = {}
        for member in MEMBERS:
            context = self.stage.context(member.contact)
            agreement = Agreement(VIEW, context, self.decided.append)
            self.agreements[member] = agreement
            self.stage.attach(member.contact, agreement.receive)


def test_the_senior_needs_two_phases_only() -> None:
    around = Round()
    seen: list[str] = []
    around.stage.observe(lambda time, a, b, message: seen.append(type(message).__name__))
    around.agreements[MEMBERS[0]].lead(MEMBERS[:4])
    around.stage.run(1.0)
    assert around.decided == [MEMBERS[:4]]
    assert "Prepare" not in seen


def test_a_view_that_may_have_been_told_is_kept_by_the_next_coordinator() -> None:
    around = Round()
    senior, second = MEMBERS[0], MEMBERS[1]
    around.agreements[senior].lead(MEMBERS[:4])
    around.stage.run(0.015)  # the others have accepted, and the senior is not told any more
    around.stage.crash(senior.contact)
    assert around.decided == []
    around.agreements[second].lead(MEMBERS[1:])
    around.stage.run(1.0)
    assert around.decided == [MEMBERS[:4]]


LARGEST = 2**64 - 1


def test_numbers_after_which_there_is_none_are_not_believed() -> None:
    """One such ballot, or view, would leave the group without a next one that can be told."""
    around = Round()
    last = (LARGEST, bytes(MEMBERS[4].id))
    for agreement in around.agreements.values():
        agreement.receive(MEMBERS[4].contact, Prepare(VIEW.group, 8, last))
        agreement.receive(
            MEMBERS[4].contact, Vote(VIEW.group, 8, VIEW.first_ballot, last, NO_BALLOT, ())
        )
    around.agreements[MEMBERS[0]].lead(MEMBERS[:4])
    around.stage.run(1.0)
    assert around.decided == [MEMBERS[:4]]

    context = around.stage.context(numbered_contact(9))
    membership = DistributorMembership(context, DistributorConfig(), lambda view: None)
    membership._found(0)
    before = membership.view
    members = (membership.me, MEMBERS[4])
    for group, number in ((before.group, LARGEST), ((-1, b"group"), 1), (before.group, -1)):
        hello = ViewHello(group, number, members, MEMBERS[4].run, False)
        membership.receive_hello(MEMBERS[4].contact, hello)
    assert membership.view == before


def test_a_view_that_nobody_heard_of_does_not_bind_the_next_coordinator() -> None:
    around = Round()
    senior, second = MEMBERS[0], MEMBERS[1]
    around.stage.partition([senior])
    around.agreements[senior].lead(MEMBERS[:4])
    around.stage.run(0.5)
    around.agreements[second].lead(MEMBERS[1:])
    around.stage.run(1.0)
    assert around.decided == [MEMBERS[1:]]
    around.stage.heal()
    around.agreements[senior].lead(MEMBERS[:4])  # its ballot is refused, it asks, and learns
    around.stage.run(1.1)
    around.agreements[senior].lead(MEMBERS[:4])
    around.stage.run(2.0)
    assert around.decided == [MEMBERS[1:]] * len(around.decided)


def test_a_minority_decides_nothing() -> None:
    around = Round()
    around.stage.partition([MEMBERS[0], MEMBERS[1]])
    for _ in range(5):
        around.agreements[MEMBERS[0]].lead(MEMBERS[:2])
        around.stage.run_for(0.5)
    assert around.decided == []


def test_the_coordinators_crash_after_telling_one_member_leaves_one_view() -> None:
    theatre = Theatre(3, StageConfig(latency=(0.01, 0.02)))
    distributors = [theatre.distributor() for _ in range(4)]
    assert theatre.settled()
    view = distributors[0].core.view
    assert view
    senior = next(one for one in distributors if one.contact == view.members[0].contact)
    newcomer = theatre.distributor(may_found=False)
    told: list[Contact] = []

    def crash_in_the_middle(time: float, sender: Contact, to: Contact, message: object) -> None:
        is_news = isinstance(message, ViewHello) and message.number == view.number + 1
        if sender == senior.contact and is_news and theatre.is_up(senior.contact):
            told.append(to)
            theatre.crash(senior.contact)

    theatre.stage.observe(crash_in_the_middle)
    theatre.run(2.0)
    assert told, "the view was never told to anybody"
    assert theatre.settled(30.0)
    views_are_totally_ordered(theatre)
    failures_leave_the_view(theatre)
    assert newcomer.core.view


@pytest.mark.parametrize("seed", [*range(6), 84])
def test_views_are_totally_ordered_in_any_unrest(seed: int) -> None:
    theatre = Unrest(seed).play()
    views_are_totally_ordered(theatre)
    if seed % 2 == 0:
        joins_enter_the_view(theatre)


@pytest.mark.sweep
@pytest.mark.parametrize("first", range(6, 206, 50))
def test_views_are_totally_ordered_in_hundreds_of_unrests(first: int) -> None:
    for seed in range(first, first + 50):
        try:
            views_are_totally_ordered(Unrest(seed).play())
        except AssertionError as error:
            error.add_note(f"in the unrest with seed {seed}")
            raise


def test_a_distributor_that_was_left_out_by_mistake_comes_back() -> None:
    theatre = Theatre(5)
    one, other, third = (theatre.distributor() for _ in range(3))
    assert theatre.settled()
    before = one.core.view
    assert before is not None
    for who in (one, third):
        theatre.suspect_falsely(who.contact, other.contact, 3.0)
    theatre.run(2.0)
    assert theatre.settled(30.0)
    after = one.core.view
    assert after is not None
    assert after.number > before.number
    assert NO_VIEW in [view for _, view in other.views]
    assert other.contact.id in after


@pytest.mark.parametrize("seed", range(3))
def test_views_come_to_rest_after_a_partition(seed: int) -> None:
    theatre = Theatre(seed)
    distributors = [theatre.distributor() for _ in range(3)]
    assert theatre.settled()
    theatre.partition([theatre.random.choice(distributors).contact])
    theatre.run(20.0)
    theatre.heal()
    assert theatre.settled(30.0)
    theatre.run(5.0)  # a suspicion that is still in the air may leave somebody out once more
    assert theatre.settled(30.0)
    at_rest = [one.core.view for one in distributors]
    theatre.run(60.0)
    assert [one.core.view for one in distributors] == at_rest


@pytest.mark.parametrize("seed", range(20))
def test_one_that_joins_is_taken_in_once(seed: int) -> None:
    theatre = Theatre(seed)
    first = theatre.distributor()
    assert theatre.settled()
    theatre.distributor()
    theatre.run(15.0)
    view = first.core.view
    assert view
    assert (view.number, len(view.members)) == (2, 2)


def test_the_suspicion_of_one_that_is_no_member_is_not_remembered() -> None:
    theatre = Theatre(9)
    one = theatre.distributor()
    assert theatre.settled()
    late = numbered_contact(2)  # the id that the next distributor will have
    one.core.membership.suspect(late.id)
    assert theatre.distributor().contact == late
    assert theatre.settled(30.0)
    at_rest = one.core.view
    theatre.run(20.0)
    assert one.core.view == at_rest


def test_groups_that_were_founded_apart_become_one() -> None:
    theatre = Theatre(6)
    distributors = [theatre.distributor() for _ in range(4)]
    theatre.partition([one.contact for one in distributors[:2]])
    theatre.run(8.0)
    groups = {one.core.view.group for one in distributors if one.core.view}
    assert len(groups) == 2
    theatre.heal()
    assert theatre.settled(30.0)
    views_are_totally_ordered(theatre)


def test_those_who_are_cut_off_for_long_go_on_and_come_back() -> None:
    theatre = Theatre(7, config=DistributorConfig(reform_after=5.0))
    distributors = [theatre.distributor() for _ in range(2)]
    assert theatre.settled()
    view = distributors[0].core.view
    assert view
    senior, junior = sorted(distributors, key=lambda one: one.contact != view.members[0].contact)
    theatre.crash(senior.contact)
    theatre.run(20.0)
    lone = junior.core.view
    assert lone is not None
    assert [member.id for member in lone.members] == [junior.contact.id]
    assert lone.group[0] == view.group[0] + 1
    theatre.distributor()
    assert theatre.settled(30.0)


def test_proposals_of_strangers_and_for_other_views_are_not_voted_on() -> None:
    theatre = Theatre(8)
    one = theatre.distributor()
    assert theatre.settled()
    view = one.core.view
    assert view
    stranger = numbered_contact(99)
    sent: list[object] = []
    theatre.stage.observe(lambda time, a, b, message: sent.append(message))
    for number in (view.number, view.number + 1, view.number + 2):
        proposal = Propose(view.group, number, (9, b"x"), (ViewMember(stranger, 1),))
        one.core.membership.receive_ballot(stranger, proposal)
    assert not any(type(message).__name__ == "Vote" for message in sent)
    assert one.core.view == view


CAME_BACK_TO_ANOTHER_VIEW = (56, 100, 160, 379, 454, 644, 725, 960)
"""Seeds in which a distributor that came back under its identity, as the same member, voted twice."""


@pytest.mark.parametrize("seed", CAME_BACK_TO_ANOTHER_VIEW)
def test_who_comes_back_under_its_identity_does_not_vote_again(seed: int) -> None:
    theatre = Unrest(seed, restarts=True).play()
    assert theatre.former
    views_are_totally_ordered(theatre)


@pytest.mark.parametrize("count", [2, 3])
def test_though_the_majority_of_a_view_restarts_at_once_there_is_one_view_of_all_again(
    count: int,
) -> None:
    theatre = Theatre(5, config=DistributorConfig(reform_after=5.0))
    for _ in range(3):
        theatre.distributor()
    assert theatre.settled()
    for one in list(theatre.distributors)[:count]:
        theatre.restart(one)
    assert theatre.settled(60.0)
    views_are_totally_ordered(theatre)
    joins_enter_the_view(theatre)


@pytest.mark.sweep
@pytest.mark.parametrize("first", range(0, 2000, 100))
def test_restarts_under_one_identity(first: int) -> None:
    for seed in range(first, first + 100):
        theatre = Unrest(seed, restarts=True).play()
        views_are_totally_ordered(theatre)


def test_who_comes_back_is_a_new_member_and_gets_everything_again() -> None:
    theatre = Theatre(3)
    distributors = [theatre.distributor() for _ in range(3)]
    assert theatre.settled()
    publisher = theatre.publisher()
    theatre.run(3.0)
    for _ in range(5):
        publisher.core.publish(b"before")
    theatre.run(2.0)
    old = distributors[1]
    theatre.restart(old)
    assert theatre.settled()
    back = theatre.distributors[-1]
    assert back.contact == old.contact
    assert back.core.membership.me != old.core.membership.me
    for _ in range(5):
        publisher.core.publish(b"after")
    theatre.run(5.0)
    assert publisher.core.stable == 10
    assert [number for _, number in back.taken] == list(range(1, 11))
