"""A node that answers is not a participant yet: only its own voice in the topic brings it into views."""

from __future__ import annotations

from typing import Any

import pytest

from pubsub.topics.aside import AsideMessages
from pubsub.topics.messages import Absent, Aside, JoinTopic
from tests.pubsub.topics.checks import ALWAYS
from tests.pubsub.topics.test_stable_phases import payloads_at
from tests.pubsub.topics.troupe import TOPIC, Troupe, TroupeConfig

GONE = 2
BEFORE_IT_IS_SUSPECTED, AFTER = 0.1, 10.0


def joined(seed: int, size: int, config: TroupeConfig | None = None, more: int = 0) -> Troupe:
    """A troupe in which so many have joined, and there is room for more."""
    troupe = Troupe(seed, size + more, config)
    for number in range(size):
        troupe.start(number)
    troupe.run(10.0)
    assert members(troupe, 0) == list(range(size))
    return troupe


def members(troupe: Troupe, number: int) -> list[int] | None:
    """The stable view that a participant has now."""
    membership = troupe.actors[number].core.membership
    if not membership.is_stable or membership.stable_view is None:
        return None
    ids = [contact.id for contact in troupe.contacts]
    return sorted(ids.index(member) for member in membership.stable_view.members)


def broken(troupe: Troupe) -> dict[str, list[str]]:
    found = {name: check(troupe) for name, check in ALWAYS.items()}
    return {name: wrong for name, wrong in found.items() if wrong}


@pytest.mark.parametrize("absent_answer", [True, False], ids=["answered", "unanswered"])
@pytest.mark.parametrize("down", [BEFORE_IT_IS_SUSPECTED, AFTER])
def test_a_node_that_comes_back_without_the_topic_holds_nobody_up(
    down: float, absent_answer: bool
) -> None:
    for seed in range(5):
        troupe = joined(seed, 4, TroupeConfig(absent_answer=absent_answer))
        troupe.crash(GONE)
        troupe.run(down)
        troupe.start_without_topic(GONE)
        troupe.run(10.0)
        assert [members(troupe, number) for number in (0, 1, 3)] == [[0, 1, 3]] * 3
        assert len(troupe.actors[0].core.membership.participants) == 4, "it may open the topic"
        assert broken(troupe) == {}


@pytest.mark.parametrize("absent_answer", [True, False], ids=["answered", "unanswered"])
def test_it_gets_what_it_had_not_acknowledged_when_it_opens_the_topic_after_all(
    absent_answer: bool,
) -> None:
    troupe = joined(3, 3, TroupeConfig(absent_answer=absent_answer))
    troupe.crash(GONE)
    troupe.run(AFTER)
    troupe.start_without_topic(GONE)
    troupe.run(AFTER)
    troupe.broadcast(0, b"while it was away")
    troupe.run(5.0)
    troupe.start(GONE)
    troupe.run(10.0)
    assert [members(troupe, number) for number in range(3)] == [[0, 1, 2]] * 3
    assert payloads_at(troupe, GONE) == [b"while it was away"]
    assert broken(troupe) == {}


def test_one_whose_restart_nobody_noticed_says_that_it_is_not_there() -> None:
    troupe = joined(4, 3)
    troupe.crash(GONE)
    for number in (0, 1):
        troupe.actors[number].runs.clear()
    troupe.start_without_topic(GONE)
    troupe.run(0.5)
    troupe.broadcast(0)
    troupe.run(20.0)
    assert [members(troupe, number) for number in (0, 1)] == [[0, 1]] * 2


@pytest.mark.parametrize("seed", range(5))
def test_one_that_takes_part_is_not_lost_to_an_old_word_of_its_absence(seed: int) -> None:
    troupe = joined(seed, 3)
    membership = troupe.actors[0].core.membership
    boot = membership.participants[troupe.contacts[1].id].boot
    for _ in range(3):
        troupe.actors[0].receive(troupe.contacts[1], Absent(TOPIC))
        troupe.broadcast(0, b"still for all")
        troupe.run(0.4)
    troupe.run(10.0)
    assert [members(troupe, number) for number in range(3)] == [[0, 1, 2]] * 3
    assert membership.participants[troupe.contacts[1].id].boot == boot
    assert [payloads_at(troupe, number) for number in range(3)] == [[b"still for all"] * 3] * 3
    assert broken(troupe) == {}


def test_one_of_many_that_was_doubted_is_back_soon() -> None:
    troupe = joined(5, 30)
    troupe.actors[0].receive(troupe.contacts[1], Absent(TOPIC))
    doubting, doubted = troupe.actors[0].core.membership, troupe.contacts[1].id
    assert not doubting.can_talk_to(doubted)
    troupe.run(5.0)
    assert doubting.can_talk_to(doubted)
    assert [members(troupe, number) for number in range(30)] == [list(range(30))] * 30


def test_one_that_is_opening_the_topic_stays_though_its_absence_is_told_late() -> None:
    troupe = joined(6, 3)
    troupe.crash(GONE)
    troupe.run(AFTER)
    troupe.start_without_topic(GONE)
    troupe.run(1.0)
    troupe.start(GONE)
    for _ in range(20):
        for number in (0, 1):
            troupe.actors[number].receive(troupe.contacts[GONE], Absent(TOPIC))
        troupe.run(0.02)
    troupe.run(10.0)
    assert [members(troupe, number) for number in range(3)] == [[0, 1, 2]] * 3
    assert broken(troupe) == {}


def test_a_datagram_of_before_is_not_its_voice() -> None:
    troupe = joined(7, 3, TroupeConfig(absent_answer=False))
    actor, run = troupe.actors[0], troupe.actors[GONE].core.membership.run
    heard: list[Any] = []
    aside = AsideMessages(
        TOPIC,
        actor,
        troupe.config.broadcast,
        actor.core.membership,
        lambda delivery: heard.append(delivery) is None,
        lambda sender, payload: None,
        lambda: None,
    )
    troupe.crash(GONE)
    troupe.run(AFTER)
    troupe.start_without_topic(GONE)
    troupe.run(AFTER)
    aside.receive(troupe.contacts[GONE], Aside(TOPIC, "best-effort", run, 1, b"late"))
    troupe.run(10.0)
    assert len(heard) == 1
    assert [members(troupe, number) for number in (0, 1)] == [[0, 1]] * 2


@pytest.mark.parametrize("overtakes", [False, True], ids=["in order", "goodbye comes first"])
@pytest.mark.parametrize("after", [0.0, 0.03, 0.06, 0.1])
def test_one_that_gives_up_joining_is_no_participant(after: float, overtakes: bool) -> None:
    for seed in range(5):
        troupe = joined(seed, 2, more=1)
        if overtakes:
            troupe.holds_back = lambda sender, receiver, message: isinstance(message, JoinTopic)
        newcomer = troupe.start(2)
        troupe.run(after)
        newcomer.core.leave()
        newcomer.has_left, newcomer.in_topic = True, False
        troupe.run(1.0)
        troupe.holds_back = lambda sender, receiver, message: False
        troupe.heal()
        troupe.run(10.0)
        for number in range(2):
            assert len(troupe.actors[number].core.membership.participants) == 2
            assert members(troupe, number) == [0, 1]
