"""Events published one by one spread exactly as before there were blocks; events of a block share their
fate."""

from __future__ import annotations

import hashlib

import pytest

from pubsub.camcast import links
from pubsub.camcast.gossip import DisseminationFactory, EagerGossip
from pubsub.camcast.lazy import LazyGossip
from tests.pubsub.camcast.troupe import Troupe

SIZES = ((5, "/"), (12, "/d"), (40, "/d/g"))


def hierarchy(seed: int, dissemination: DisseminationFactory = EagerGossip) -> Troupe:
    troupe = Troupe(seed, event_loss=0.1, dissemination=dissemination)
    for size, topic in SIZES:
        troupe.add_many(size, topic)
    troupe.stage.run_for(10)
    return troupe


@pytest.mark.parametrize(
    ("seed", "digest"),
    [(1, "818eaf40d3334d63"), (2, "6aca769606f14f15"), (3, "64712130c8df8afd")],
)
def test_events_published_one_by_one_spread_exactly_as_before(
    seed: int, digest: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The digests are of who got each event, after how many hops, and how many copies there were, and were
    taken from the last version in which every event travelled by itself."""
    monkeypatch.setattr(links, "STALE_INTERVALS", 4)  # as it was then
    troupe = hierarchy(seed)
    actors = list(troupe.actors.values())
    said: list[object] = []
    for number in range(20):
        topic = ("/d/g", "/d")[number % 2]
        publisher = troupe.members(topic)[number if topic == "/d/g" else number % 12]
        event = publisher.publish(topic, number)
        troupe.stage.run_for(2)
        for place, actor in enumerate(actors):
            for name, ids in actor.delivered.items():
                if event in ids:
                    said.append((number, place, name, actor.hops[event], ids.count(event)))
        copies = [(t, count) for (e, t), count in troupe.copies.items() if e == event]
        said.append((number, sorted(copies)))
    assert len(said) == 760
    assert hashlib.sha256(repr(said).encode()).hexdigest()[:16] == digest


@pytest.mark.parametrize("dissemination", [EagerGossip, LazyGossip])
def test_events_of_one_block_share_their_fate(dissemination: DisseminationFactory) -> None:
    troupe = hierarchy(4, dissemination)
    publisher = troupe.members("/d/g")[7]
    for _ in range(5):
        events = publisher.publish_block("/d/g", range(60))
        troupe.stage.run_for(3)
        for topic in ("/", "/d", "/d/g"):
            receivers = [troupe.receivers(event, topic) for event in events]
            assert receivers[0] or topic != "/d/g"
            assert all(one == receivers[0] for one in receivers)
            counts = {troupe.copies.get((event, topic), 0) for event in events}
            assert len(counts) == 1
    for actor in troupe.actors.values():
        for ids in actor.delivered.values():
            assert len(ids) == len(set(ids))
