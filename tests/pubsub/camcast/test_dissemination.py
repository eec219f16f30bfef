"""What is published in a community reaches it and its super-communities, and nobody else."""

from __future__ import annotations

import pytest

from overlay.virtual.stage import StageConfig
from pubsub.camcast.parameters import Parameters
from pubsub.event import Copy, Head, make_block
from tests.pubsub.camcast.troupe import Troupe

PATH = ("/", "/soccer", "/soccer/italy")


def three_levels(seed: int, sizes: tuple[int, int, int] = (5, 10, 30)) -> Troupe:
    troupe = Troupe(seed, StageConfig(check_wire=True))
    for size, topic in zip(sizes, PATH, strict=True):
        troupe.add_many(size, topic)
    troupe.stage.run_for(10)
    return troupe


@pytest.mark.parametrize("seed", range(5))
def test_an_event_reaches_its_community_and_every_super_community(seed: int) -> None:
    troupe = three_levels(seed)
    publisher = troupe.add("/soccer/italy")
    troupe.wait(lambda: publisher.process.communities["/soccer/italy"].is_ready)
    event = publisher.publish("/soccer/italy", {"score": "1-0"})
    troupe.stage.run_for(5)
    assert [len(troupe.receivers(event, topic)) for topic in PATH] == [5, 10, 31]


def test_an_event_does_not_go_down_or_sideways() -> None:
    troupe = three_levels(1)
    french = troupe.add_many(10, "/soccer/france")
    troupe.stage.run_for(5)
    publisher = troupe.members("/soccer")[0]
    event = publisher.publish("/soccer")
    troupe.stage.run_for(5)
    assert len(troupe.receivers(event, "/soccer")) == 10
    assert len(troupe.receivers(event, "/")) == 5
    assert not troupe.receivers(event, "/soccer/italy")
    assert not any(event in ids for actor in french for ids in actor.delivered.values())


def test_each_process_delivers_and_forwards_an_event_once() -> None:
    troupe = three_levels(2)
    publisher = troupe.members("/soccer/italy")[0]
    event = publisher.publish("/soccer/italy")
    troupe.stage.run_for(5)
    for actor in troupe.actors.values():
        for ids in actor.delivered.values():
            assert ids.count(event) <= 1
    fanout = Parameters().fanout(30)
    assert troupe.copies[event, "/soccer/italy"] <= 30 * fanout


def test_the_root_only_gossips() -> None:
    troupe = three_levels(3)
    event = troupe.members("/")[0].publish("/")
    troupe.stage.run_for(5)
    assert len(troupe.receivers(event, "/")) == 5
    assert not troupe.upward


def test_a_publisher_alone_in_its_community_reaches_the_super_community() -> None:
    for seed in range(20):
        troupe = Troupe(seed)
        troupe.add_many(6, "/soccer")
        troupe.stage.run_for(5)
        publisher = troupe.add("/soccer/italy")
        troupe.wait(lambda p=publisher: p.process.communities["/soccer/italy"].is_ready)  # type: ignore[misc]
        event = publisher.publish("/soccer/italy")
        troupe.stage.run_for(2)
        assert len(troupe.receivers(event, "/soccer")) == 6, f"seed {seed}"


def test_a_publisher_may_leave_as_soon_as_another_has_its_event() -> None:
    troupe = three_levels(4)
    publisher = troupe.add("/soccer/italy")
    troupe.wait(lambda: publisher.process.communities["/soccer/italy"].is_ready)
    event = publisher.publish("/soccer/italy")
    troupe.wait(lambda: len(troupe.receivers(event, "/soccer/italy")) > 1)
    publisher.process.close()
    troupe.stage.run_for(5)
    assert [len(troupe.receivers(event, topic)) for topic in PATH] == [5, 10, 31]


def test_an_event_may_carry_its_own_probability_of_going_up() -> None:
    troupe = three_levels(5)
    publisher = troupe.members("/soccer/italy")[0]
    kept = publisher.publish("/soccer/italy", upward=0.0)
    sent = publisher.publish("/soccer/italy", upward=1.0)
    troupe.stage.run_for(5)
    assert len(troupe.receivers(kept, "/soccer/italy")) == 30
    assert not troupe.receivers(kept, "/soccer")
    assert len(troupe.receivers(sent, "/soccer")) == 10


def test_parameters_can_be_changed_while_running() -> None:
    troupe = three_levels(6)
    italians = troupe.members("/soccer/italy")
    for actor in italians:
        actor.process.communities["/soccer/italy"].parameters = Parameters(c=0)
    event = italians[0].publish("/soccer/italy")
    troupe.stage.run_for(5)
    assert troupe.copies[event, "/soccer/italy"] <= 30 * 3  # floor(ln 30) = 3


def test_a_member_of_nested_topics_hands_events_up_itself() -> None:
    troupe = Troupe(7)
    both = troupe.add("/soccer", "/soccer/italy")
    other = troupe.add("/soccer")
    troupe.stage.run_for(5)
    event = both.publish("/soccer/italy")
    troupe.stage.run_for(2)
    assert both.delivered == {"/soccer": [event], "/soccer/italy": [event]}
    assert other.delivered == {"/soccer": [event]}
    assert not both.process.communities["/soccer/italy"].super_tables.linked()


class Match: ...


class Italian: ...


class SerieA(Match, Italian): ...


class Derby(SerieA): ...


def test_an_event_of_a_class_reaches_all_of_its_bases() -> None:
    troupe = Troupe(8, StageConfig(check_wire=True))
    for topic in (Match, Italian, "/"):
        troupe.add_many(4, topic)
    troupe.stage.run_for(5)
    publisher = troupe.add(Derby)
    troupe.wait(lambda: all(c.is_ready for c in publisher.process.communities.values()))
    event = publisher.publish(Derby)
    troupe.stage.run_for(5)
    assert [len(troupe.receivers(event, topic)) for topic in (Match, Italian, "/")] == [4, 4, 4]


def test_an_event_in_a_community_that_does_not_include_it_is_dropped_and_counted() -> None:
    troupe = Troupe(9)
    member = troupe.add("/chess")
    block = make_block(member.contact.id + bytes(8), 1, Head("/soccer"), [b"\xc0"])
    member.process.receive(member.contact, Copy("/chess", False, 1, block.encoded, b""))
    assert member.drops("wrong_community") == 1
    assert member.delivered == {"/chess": []}
