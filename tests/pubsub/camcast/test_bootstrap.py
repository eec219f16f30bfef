"""Finding super-communities: the search widens, bridges what is empty, and comes back to what is nearer."""

from __future__ import annotations

import pytest

from overlay import wire
from overlay.virtual.stage import numbered_contact
from pubsub.camcast.messages import FindSuper
from pubsub.camcast.parameters import Parameters
from pubsub.topic import Topic
from tests.pubsub.camcast.troupe import Actor, Troupe

DEEP = "/sport/soccer/italy/rome"


def super_topics(actor: Actor, topic: str) -> list[str]:
    return [t.topic.name for t in actor.process.communities[topic].super_tables.linked()]


def test_an_empty_intermediate_community_is_bridged_and_used_as_soon_as_somebody_joins_it() -> None:
    troupe = Troupe(1)
    root = troupe.add_many(4, "/")
    romans = troupe.add_many(20, DEEP)
    troupe.stage.run_for(10)
    assert all(super_topics(actor, DEEP) == ["/"] for actor in romans)
    bridged = romans[0].publish(DEEP)
    troupe.stage.run_for(5)
    assert len(troupe.receivers(bridged, "/")) == len(root)

    joiners = troupe.add_many(3, "/sport/soccer")
    troupe.wait(
        lambda: all(super_topics(actor, DEEP) == ["/sport/soccer"] for actor in romans), 120
    )
    event = romans[1].publish(DEEP)
    troupe.stage.run_for(5)
    assert len(troupe.receivers(event, "/sport/soccer")) == len(joiners)
    assert len(troupe.receivers(event, "/")) == len(root)
    copies_past_the_community = [
        place for place in troupe.upward if place[1] == "/" and troupe.upward[place] and event
    ]
    assert copies_past_the_community  # the root got it from /sport/soccer


def test_a_super_community_that_appears_later_is_found_though_nobody_was_there_before() -> None:
    troupe = Troupe(2)
    romans = troupe.add_many(10, DEEP)
    troupe.stage.run_for(20)
    assert all(super_topics(actor, DEEP) == [] for actor in romans)
    assert all(actor.process.communities[DEEP].is_ready for actor in romans)
    troupe.add("/")
    troupe.wait(lambda: all(super_topics(actor, DEEP) == ["/"] for actor in romans), 120)


def test_without_known_contacts_the_neighbourhood_is_asked() -> None:
    troupe = Troupe(3)
    troupe.add_many(3, "/soccer")
    first = troupe.add("/soccer/italy")
    troupe.stage.run_for(3)
    troupe.directory.blind["/soccer"] = None
    late = troupe.add_many(10, "/soccer/italy")
    troupe.stage.run_for(10)
    assert super_topics(first, "/soccer/italy") == ["/soccer"]
    assert all(super_topics(actor, "/soccer/italy") == ["/soccer"] for actor in late)


def test_a_question_is_handed_on_only_as_far_as_its_time_to_live() -> None:
    for ttl, found in ((0, False), (2, True)):
        troupe = Troupe(4, parameters=Parameters(search_ttl=ttl, link_interval=1000))
        troupe.directory.blind.update({"/": None, "/a": None})
        knows = troupe.add("/a", "/b")
        middle = troupe.add("/b", "/c")
        asks = troupe.add("/c", "/a/x")
        troupe.stage.run_for(5)
        search = asks.process.communities["/a/x"]
        search.membership._table[middle.contact.id] = middle.contact  # type: ignore[attr-defined]
        search.search.start()
        troupe.stage.run_for(4)
        assert (super_topics(asks, "/a/x") == ["/a"]) is found, f"ttl {ttl}"
        assert knows.process.is_in("/a")


def test_a_parent_that_is_empty_is_bridged_by_all_of_its_own_parents() -> None:
    troupe = Troupe(5)
    left, right = Topic("/left", (Topic.of("/"),)), Topic("/right", (Topic.of("/"),))
    middle = Topic("/middle", (left, right))
    bottom = Topic("/bottom", (middle,))
    troupe.add_many(2, left)
    troupe.add_many(2, right)
    publisher = troupe.add(bottom)
    troupe.wait(lambda: publisher.process.communities["/bottom"].is_ready)
    assert sorted(super_topics(publisher, "/bottom")) == ["/left", "/right"]
    event = publisher.publish(bottom)
    troupe.stage.run_for(3)
    assert len(troupe.receivers(event, left)) == len(troupe.receivers(event, right)) == 2


def test_leaving_a_topic_that_was_its_own_link_makes_a_process_look_for_another() -> None:
    troupe = Troupe(6)
    troupe.add_many(3, "/soccer")
    both = troupe.add("/soccer", "/soccer/italy")
    troupe.stage.run_for(5)
    assert super_topics(both, "/soccer/italy") == []
    both.process.leave("/soccer")
    troupe.wait(lambda: super_topics(both, "/soccer/italy") == ["/soccer"])


@pytest.mark.parametrize("topics", [("/a",) * 1000, ("/a" * 100_000,)])
def test_a_question_for_more_super_topics_than_a_topic_has_is_no_message(
    topics: tuple[str, ...],
) -> None:
    """Its topics are held against all rights of who asks, and it is handed on: a large one took seconds."""
    question = FindSuper(numbered_contact(1), 1, ("/a",), 3)
    assert wire.decode(wire.encode(question)) == question
    object.__setattr__(question, "topics", topics)
    with pytest.raises(wire.WireError):
        wire.decode(wire.encode(question))
