"""Whoever subscribes gets all that its sponsor receives after that, and nothing from before."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from overlay.contact import Contact, PeerId
from overlay.virtual import Network
from pubsub.topics.config import BroadcastConfig
from pubsub.topics.membership import TopicMembership
from pubsub.topics.messages import Cast, Knowledge
from pubsub.topics.state import AcknowledgedBy
from pubsub.topics.upkeep import Collecting
from tests.pubsub.topics.strong_nodes import StrongNodes
from tests.pubsub.topics.troupe import Troupe, TroupeConfig

PUBLISHER, SPONSOR, NEWCOMER = range(3)


def subscribe_behind_the_publishers_back() -> Troupe:
    """The publisher does not hear of the newcomer, and publishes; the sponsor acknowledges it."""
    troupe = Troupe(1, 3, TroupeConfig(BroadcastConfig(kept_seconds=0.01)))
    troupe.start(PUBLISHER)
    troupe.start(SPONSOR)
    troupe.run(5.0)
    troupe.broadcast(PUBLISHER, b"before")
    troupe.run(5.0)

    def of_the_newcomer(sender: int, receiver: int, message: object) -> bool:
        return {sender, receiver} == {PUBLISHER, NEWCOMER} or (
            receiver == PUBLISHER and isinstance(message, Knowledge)
        )

    troupe.holds_back = of_the_newcomer
    troupe.chance.choice = lambda near: near[1]  # type: ignore[method-assign, assignment]
    troupe.start(NEWCOMER)
    troupe.run(0.1)
    assert troupe.actors[NEWCOMER].core.membership.is_joined
    troupe.broadcast(PUBLISHER, b"after")
    return troupe


def test_what_the_sponsor_receives_later_reaches_the_newcomer_though_the_publisher_does_not_know_it() -> (
    None
):
    troupe = subscribe_behind_the_publishers_back()
    troupe.run(3.0)
    assert troupe.actors[PUBLISHER].core.held == 1
    troupe.holds_back = lambda sender, receiver, message: False
    troupe.heal()
    troupe.run(10.0)
    assert [item.payload for item in troupe.actors[NEWCOMER].delivered] == [b"after"]
    assert [actor.core.held for actor in troupe.alive()] == [0, 0, 0]


def forgets_though_others_know_other_participants(patch: pytest.MonkeyPatch) -> None:
    def rows(self: Collecting) -> list[AcknowledgedBy]:
        known = self._state.acknowledged.rows
        return [known[peer] for peer in self._state.membership.participants if peer in known]

    def told(self: Collecting, garbage: Any, digest: bytes) -> bool:
        return heard(self, garbage, self._state.membership.digest)

    heard = Collecting.told
    patch.setattr(Collecting, "_rows_that_count", rows)
    patch.setattr(Collecting, "told", told)


def test_a_publisher_that_counts_acknowledgements_of_those_who_know_more_is_found_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    forgets_though_others_know_other_participants(monkeypatch)
    troupe = subscribe_behind_the_publishers_back()
    troupe.run(3.0)
    assert troupe.actors[PUBLISHER].core.held == 0
    troupe.holds_back = lambda sender, receiver, message: False
    troupe.heal()
    troupe.run(10.0)
    assert troupe.actors[NEWCOMER].delivered == []


def test_a_newcomer_gets_nothing_from_before_and_is_told_no_gap() -> None:
    troupe = Troupe(2, 3)
    troupe.start(0)
    for _ in range(20):
        troupe.broadcast(0, b"before")
    troupe.start(1)
    troupe.run(3.0)
    for _ in range(20):
        troupe.broadcast(1, b"before")
    troupe.run(3.0)
    troupe.start(2)
    troupe.run(3.0)
    troupe.broadcast(0, b"after")
    troupe.run(3.0)
    assert [item.payload for item in troupe.actors[2].delivered] == [b"after"]
    assert not [o for o in troupe.history if o.what == "gap"]
    assert [actor.core.held for actor in troupe.alive()] == [0, 0, 0]


def test_a_newcomer_knows_what_is_from_before_its_time_and_what_is_to_come() -> None:
    troupe = Troupe(1, 3, TroupeConfig(order="fifo"))
    publisher = troupe.start(PUBLISHER).core
    troupe.start(SPONSOR)
    troupe.run(5.0)
    troupe.broadcast(PUBLISHER)
    troupe.run(5.0)
    newcomer = troupe.start(NEWCOMER)
    newcomer.is_slow = True
    troupe.run(5.0)

    def is_done(number: int) -> bool:
        me = publisher.membership
        return newcomer.core.is_done(me.me, me.run, number)

    assert is_done(1)
    assert not is_done(2)
    troupe.broadcast(PUBLISHER)
    troupe.run(1.0)
    assert len(newcomer.delivered) == 1
    assert not is_done(2)
    newcomer.finish(1)
    assert is_done(2)
    troupe.run(3.0)
    troupe.crash(NEWCOMER)
    troupe.broadcast(PUBLISHER)
    troupe.run(5.0)
    newcomer = troupe.start(NEWCOMER)
    troupe.holds_back = lambda sender, receiver, message: isinstance(message, Cast)
    troupe.run(5.0)
    assert is_done(2)
    assert not is_done(3)  # it is held for the one that returned


def test_what_is_sent_to_a_newcomer_alone_before_it_knows_that_it_has_joined_is_not_lost(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Its sponsor knows already that it takes part, and the channel says that it has the message."""
    network = Network(5)
    told: list[bytes] = []
    receive = TopicMembership.receive_knowledge

    def later(self: TopicMembership, sender: Contact, message: Knowledge) -> None:
        wait = 0.0 if self.is_joined else 1.0
        asyncio.get_running_loop().call_later(wait, receive, self, sender, message)

    async def main() -> None:
        nodes = StrongNodes(network)
        first = await nodes.start()
        monkeypatch.setattr(TopicMembership, "receive_knowledge", later)

        def direct(sender: PeerId, payload: bytes) -> None:
            told.append(payload)

        joining = asyncio.create_task(nodes.start(on_direct=direct))
        await asyncio.sleep(0.5)
        newcomer = next(p.id for p in first.strong.participants if p.id != first.strong.me)
        assert await first.strong.send(newcomer, b"for you alone")
        assert not joining.done()
        await joining
        await asyncio.sleep(1)

    network.run(main())
    assert told == [b"for you alone"]


def test_one_that_has_joined_and_asks_for_a_sponsor_again_stays_in_everybodys_view() -> None:
    """The answer to its first request came while it looked for another sponsor."""
    troupe = Troupe(1, 3, TroupeConfig())
    for number in range(3):
        troupe.start(number)
        troupe.run(2.0)
    troupe.actors[1].core.membership.subscribe(troupe.contacts[0])
    troupe.leave(2)  # whoever stays states its channels anew
    troupe.run(10.0)
    for actor in troupe.alive():
        assert len(actor.core.membership.view.members) == 2
        assert actor.core.membership.is_stable
