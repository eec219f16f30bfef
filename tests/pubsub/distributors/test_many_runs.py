"""Publishers come and go by the ten thousands: what is kept and sent is bounded, and everything arrives."""

from __future__ import annotations

import pytest

from overlay.virtual.stage import StageConfig, numbered_contact
from overlay.wire import encode
from pubsub.distributors.config import DistributorConfig
from pubsub.distributors.messages import ServiceBlock, SpreadBlocks
from pubsub.distributors.protocol.distributor import MOST_ANSWERED
from pubsub.distributors.protocol.service_log import LEFT_BEHIND
from pubsub.distributors.protocol.subscription import SourceMessage
from pubsub.reliable.runs import source_of
from tests.pubsub.distributors.theatre import PublisherActor, Theatre


def publish_once(theatre: Theatre, count: int) -> list[PublisherActor]:
    """So many publishers come, publish a message each, and are gone when it is safe."""
    publishers = [theatre.publisher() for _ in range(count)]
    theatre.run(1.0)
    for one in publishers:
        one.core.publish(b"once")
    for _ in range(40):
        if all(one.core.stable == 1 for one in publishers):
            break
        theatre.run(0.5)
    for one in publishers:
        one.core.stop()
    return publishers


def test_more_publishers_than_are_remembered_are_all_served() -> None:
    theatre = Theatre(1, config=DistributorConfig(most_sources=16))
    for _ in range(2):
        theatre.distributor()
    assert theatre.settled()
    subscriber = theatre.subscriber(no_gap=True)
    theatre.run(2.0)
    for _ in range(8):
        for one in publish_once(theatre, 10):
            assert one.core.stable == 1, "a publisher was never served"
    theatre.run(5.0)
    assert len(subscriber.delivered) == 80
    assert not subscriber.gaps


def test_a_publisher_that_was_silent_while_many_others_came_goes_on() -> None:
    theatre = Theatre(2, config=DistributorConfig(most_sources=16, recent_bytes=0))
    for _ in range(2):
        theatre.distributor()
    assert theatre.settled()
    subscribers = [theatre.subscriber(no_gap=no_gap) for no_gap in (True, False)]
    old = theatre.publisher()
    theatre.run(2.0)
    for _ in range(3):
        old.core.publish(b"early")
    theatre.run(3.0)
    for _ in range(8):
        publish_once(theatre, 10)
    late = theatre.subscriber()
    theatre.run(2.0)
    for _ in range(3):
        old.core.publish(b"late")
    theatre.run(5.0)
    assert old.core.stable == 6
    for subscriber in subscribers:
        mine = [number for source, number in subscriber.delivered if source == old.core.source]
        assert mine == [1, 2, 3, 4, 5, 6]
        assert not subscriber.gaps
    assert [one.sequence for one in late.log if isinstance(one, SourceMessage)] == [4, 5, 6]
    assert not late.gaps


@pytest.mark.parametrize("loss", [0.0, 0.1])
def test_forgotten_sources_do_not_come_back_and_a_newcomer_is_served(loss: float) -> None:
    """Distributors forget apart: those that still held a source made the others take it again, for ever."""
    most = 16
    config = DistributorConfig(most_sources=most, recent_bytes=4096)
    theatre = Theatre(6, StageConfig(loss=loss), config)
    distributors = [theatre.distributor() for _ in range(3)]
    assert theatre.settled()
    subscriber = theatre.subscriber(no_gap=True)
    theatre.run(2.0)
    for _ in range(6):
        publish_once(theatre, 2 * most)
    theatre.run(20.0)
    for one in distributors:
        log = one.core.services["news"].log
        assert log.last == len(one.taken) == 12 * most, "taken more than once"
        assert len(log.sources) <= most
        assert len(log.left_behind) <= LEFT_BEHIND * most
    newcomer = theatre.publisher()
    theatre.run(3.0)
    newcomer.core.publish(b"at once")
    theatre.run(5.0)
    assert newcomer.core.stable == 1
    assert len(subscriber.delivered) == len(set(subscriber.delivered)) == 12 * most + 1
    assert not subscriber.gaps


def test_what_is_kept_and_what_travels_is_bounded_however_many_publishers_there_were() -> None:
    most = 32
    theatre = Theatre(3, config=DistributorConfig(most_sources=most, recent_bytes=4096))
    distributors = [theatre.distributor() for _ in range(2)]
    assert theatre.settled()
    subscriber = theatre.subscriber(no_gap=True)
    theatre.run(2.0)
    largest: dict[str, int] = {}

    def observe(now: float, sender: object, to: object, message: object) -> None:
        name = type(message).__name__
        largest[name] = max(largest.get(name, 0), len(encode(message)))

    theatre.stage.observe(observe)
    for _ in range(20):
        publish_once(theatre, most)
    theatre.run(5.0)
    for one in distributors:
        core, service = one.core, one.core.services["news"]
        assert len(service.log.sources) <= most
        assert len(service.log._order) <= most
        for known in (service.publishers, service.acknowledged, service.begins):
            assert len(known) <= 2 * most
        assert len(core._exchange._told) <= 2 * most
        assert len(core._exchange._behind) <= 2 * most
        claims = (core._stability._low, core._stability._high, core._stability._safe)
        assert max(map(len, claims)) <= 2 * most
    # The subscriber's distributor crashes: it finds the other one, and misses nothing.
    primary = subscriber.core.keeper.primary
    assert primary is not None
    theatre.crash(primary)
    for one in publish_once(theatre, 8):
        assert one.core.received == 1
    theatre.run(20.0)
    assert len(subscriber.delivered) == 20 * most + 8
    assert not subscriber.gaps
    assert max(largest.values()) < 64 * 1024, largest


@pytest.mark.sweep
def test_fifty_thousand_runs() -> None:
    most_kept, largest = play_runs(50_000)
    print(f"most sources kept {most_kept}, largest message {largest} bytes")


def play_runs(runs: int, at_once: int = 400) -> tuple[int, int]:
    """One message of each run; then a newcomer catches up, and a subscriber changes over."""
    theatre = Theatre(4)
    distributors = [theatre.distributor() for _ in range(3)]
    assert theatre.settled()
    subscriber = theatre.subscriber(no_gap=True)
    theatre.run(2.0)
    largest = 0

    def observe(now: float, sender: object, to: object, message: object) -> None:
        nonlocal largest
        if not isinstance(message, SpreadBlocks):
            largest = max(largest, len(encode(message)))

    unsent = [numbered_contact(number) for number in range(100_000, 100_000 + runs)]
    sources = {source_of(one.id, b"the run1"): one for one in unsent}
    kept = most_kept = 0

    def is_taken(source: bytes) -> bool:
        return any((source, 1) in actor.taken for actor in distributors)

    while unsent:
        for one in unsent[:at_once]:
            publication = ServiceBlock("news", source_of(one.id, b"the run1"), 1, (b"once",))
            to = theatre.random.choice(distributors).contact
            theatre.stage.context(one).send(to, SpreadBlocks((publication,)))
        theatre.run(0.5)
        unsent = [one for one in unsent if not is_taken(source_of(one.id, b"the run1"))]
        kept = max(len(actor.core.services["news"].log.sources) for actor in distributors)
        most_kept = max(most_kept, kept)
    theatre.stage.observe(observe)
    theatre.run(10.0)
    newcomer = theatre.distributor()
    assert theatre.settled()
    theatre.run(6.0)
    assert newcomer.core.is_ready
    primary = subscriber.core.keeper.primary
    assert primary is not None
    theatre.crash(primary)
    publisher = theatre.publisher()
    theatre.run(10.0)
    publisher.core.publish(b"after the crash")
    theatre.run(10.0)
    assert len(subscriber.delivered) == len(set(subscriber.delivered)) == runs + 1
    assert {source for source, _ in subscriber.delivered} >= set(sources)
    assert not subscriber.gaps
    assert most_kept <= 4 * theatre.config.most_sources
    assert largest < 640 * 1024
    return most_kept, largest


def test_a_subscriber_is_answered_though_very_many_publishers_are_known() -> None:
    """More than a map of the wire may have: the answer could not be sent, and nobody could subscribe."""
    theatre = Theatre(5)
    one = theatre.distributor()
    theatre.run(5.0)
    log = one.core.services["news"].log
    for number in range(20_000):
        log.begin(source_of(numbered_contact(number).id, b"the run1"), 7, theatre.stage.now)
    subscriber = theatre.subscriber()
    theatre.run(0.4)
    assert subscriber.core.was_connected
    assert len(subscriber.begins) <= 1024 < MOST_ANSWERED
