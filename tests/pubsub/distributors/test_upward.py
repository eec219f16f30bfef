"""What is published below is raised by the publisher's distributor, or by the others in its place."""

from __future__ import annotations

from overlay.contact import Contact
from overlay.virtual.stage import numbered_contact
from pubsub.distributors.config import DistributorConfig
from pubsub.distributors.messages import PublicationAck, Raise
from pubsub.distributors.protocol.view import NO_GROUP
from tests.pubsub.distributors.theatre import DistributorActor, Theatre

ABOVE = numbered_contact(5000)


class Below:
    """Three distributors of a lower group, and a group above of which only messages are seen."""

    def __init__(self, seed: int) -> None:
        self.theatre = Theatre(seed, config=DistributorConfig(recent_bytes=0))
        self.raised: list[tuple[Contact, Raise]] = []
        self.answers: int | None = None
        """What the group above says that it has of a source; None while it is silent."""
        self.distributors = [self.theatre.distributor() for _ in range(3)]
        assert self.theatre.settled()
        for one in self.distributors:
            self._relay(one)
        self.theatre.stage.attach(ABOVE, self._receive)
        self.publisher = self.theatre.publisher()
        self.theatre.run(3.0)

    def _relay(self, actor: DistributorActor) -> None:
        core = actor.core
        service = core.services["news"]
        service.is_relayed = True
        service.arrived_to = lambda source: core.upward.needed_after("news", source)
        core.above = lambda name: ABOVE

    def _receive(self, sender: Contact, message: object) -> None:
        assert isinstance(message, Raise)
        self.raised.append((sender, message))
        if self.answers is not None:
            answer = PublicationAck("news", message.block.source, self.answers, 0, NO_GROUP, 0)
            core = next(one.core for one in self.distributors if one.contact == sender)
            core.upward.receive_published(ABOVE, answer)

    def held(self) -> list[int]:
        logs = [one.core.services["news"].log for one in self.theatre.up(self.distributors)]
        return [log.count(log.last) - log.count(log.first - 1) for log in logs]


def test_others_raise_what_the_publishers_distributor_did_not() -> None:
    below = Below(1)
    theatre = below.theatre
    for _ in range(5):
        below.publisher.core.publish(b"up")
    theatre.run(2.0)
    primary = below.publisher.core.keeper.primary
    assert primary is not None
    assert {sender for sender, _ in below.raised} == {primary}
    assert below.held() == [5, 5, 5], "nobody lets go of what has not arrived"
    theatre.crash(primary)
    theatre.crash(below.publisher.contact)
    below.raised.clear()
    theatre.run(15.0)
    assert below.raised, "nobody took its place"
    assert all(list(message.block.numbers) == [1, 2, 3, 4, 5] for _, message in below.raised)
    below.answers = 5
    theatre.run(15.0)
    below.raised.clear()
    theatre.run(10.0)
    assert not below.raised, "what has arrived is raised again"
    assert below.held() == [0, 0]
    up = [one.core for one in theatre.up(below.distributors)]
    assert all(core.upward._arrived for core in up)
    assert up[0].remove("news")
    theatre.run(5.0)
    assert not any(core.upward._arrived or core.upward._pending for core in up)


def test_a_group_above_that_takes_nothing_holds_nothing_up() -> None:
    below = Below(2)
    below.answers = -1
    for _ in range(5):
        below.publisher.core.publish(b"up")
    below.theatre.run(15.0)
    assert any(one.core.upward.is_refused for one in below.distributors)
    count = len(below.raised)
    below.publisher.core.publish(b"more")
    below.theatre.run(5.0)
    assert len(below.raised) <= count + 3, "it is asked again and again"
