"""What subscribers get: failover, gaps with their bounds, no gaps, and what memory costs."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from overlay.virtual.stage import StageConfig, numbered_contact
from pubsub.distributors.config import ClientConfig, DistributorConfig
from pubsub.distributors.messages import ClientAction, ClientRequest, ServiceBlock, Want
from pubsub.distributors.protocol.exchange import Found
from pubsub.distributors.protocol.subscription import SourceMessage
from tests.pubsub.distributors.theatre import (
    DistributorActor,
    SubscriberActor,
    Theatre,
)

QUIET = StageConfig(latency=(0.01, 0.02))


def three(seed: int, config: DistributorConfig | None = None, **options: object) -> Theatre:
    theatre = Theatre(seed, QUIET, config, **options)  # type: ignore[arg-type]
    for _ in range(3):
        theatre.distributor()
    assert theatre.settled()
    return theatre


def primary_of(theatre: Theatre, subscriber: SubscriberActor) -> DistributorActor:
    primary = subscriber.core.keeper.primary
    return next(one for one in theatre.distributors if one.contact == primary)


def numbers(subscriber: SubscriberActor) -> list[int]:
    return [one.sequence for one in subscriber.log if isinstance(one, SourceMessage)]


def test_a_subscriber_begins_with_what_is_published_after_it_came() -> None:
    theatre = three(1)
    publisher = theatre.publisher()
    theatre.run(1.0)
    for _ in range(5):
        publisher.core.publish(b"before")
    theatre.run(2.0)
    subscriber = theatre.subscriber()
    theatre.run(1.0)
    publisher.core.publish(b"after")
    theatre.run(1.0)
    assert numbers(subscriber) == [6]
    assert subscriber.gaps == []


def test_after_a_crash_the_gap_is_reported_with_its_bounds() -> None:
    """With nothing kept beyond need, what came while the subscriber was between distributors is gone."""
    config = DistributorConfig(recent_bytes=0, subscriber_patience=1.0, no_gap_patience=2.0)
    theatre = three(2, config)
    publisher = theatre.publisher()
    subscriber = theatre.subscriber()
    theatre.run(4.0)
    for _ in range(3):
        publisher.core.publish(b"x")
    theatre.run(2.0)
    # Cut off for long, so that the others need not keep anything for it.
    theatre.partition([subscriber.contact])
    theatre.run(8.0)
    for _ in range(4):
        publisher.core.publish(b"missed")
    theatre.run(8.0)
    theatre.heal()
    theatre.run(5.0)
    publisher.core.publish(b"y")
    theatre.run(2.0)
    assert numbers(subscriber) == [1, 2, 3, 8]
    assert [(gap.first, gap.last, gap.count) for gap in subscriber.gaps] == [(4, 7, 4)]
    assert isinstance(subscriber.log[3], type(subscriber.gaps[0]))


def test_without_gaps_the_same_loses_nothing() -> None:
    theatre = three(3, DistributorConfig(recent_bytes=0, subscriber_patience=1.0))
    publisher = theatre.publisher()
    subscriber = theatre.subscriber(no_gap=True)
    theatre.run(2.0)
    for _ in range(3):
        publisher.core.publish(b"x")
    theatre.run(2.0)
    theatre.crash(primary_of(theatre, subscriber).contact)
    theatre.partition([subscriber.contact])
    theatre.run(8.0)
    for _ in range(4):
        publisher.core.publish(b"missed")
    theatre.run(8.0)
    theatre.heal()
    theatre.run(5.0)
    publisher.core.publish(b"y")
    theatre.run(5.0)
    assert numbers(subscriber) == list(range(1, 9))
    assert subscriber.gaps == []
    theatre.run(60.0)
    up = theatre.up(theatre.distributors)
    assert {one.core.services["news"].log.bytes for one in up} == {0}


def test_a_false_suspicion_ends_with_one_connection() -> None:
    theatre = three(4)
    publisher = theatre.publisher()
    subscriber = theatre.subscriber()
    theatre.run(2.0)
    old = primary_of(theatre, subscriber)
    subscriber.core.keeper.fail_over()
    theatre.run(1.0)
    new = primary_of(theatre, subscriber)
    assert new is not old
    for _ in range(20):
        publisher.core.publish(b"x")
        theatre.run(0.2)
    theatre.run(2.0)
    assert numbers(subscriber) == list(range(1, 21))
    assert subscriber.contact.id not in old.core.services["news"].fanout.subscribers
    assert subscriber.contact.id in new.core.services["news"].fanout.subscribers


def test_a_distributor_changes_its_subscribers_without_telling_anybody() -> None:
    theatre = three(5)
    theatre.run(5.0)
    told: list[object] = []
    contacts = {one.contact for one in theatre.distributors}
    theatre.stage.observe(
        lambda time, sender, to, message: (
            told.append(message)
            if sender in contacts and to in contacts and type(message).__name__ != "Hello"
            else None
        )
    )
    theatre.run(4.0)
    before = len(told)
    told.clear()
    for _ in range(20):
        theatre.subscriber()
    theatre.run(4.0)
    assert len(told) <= before + 2  # the periodic exchange, and nothing else


def test_messages_larger_than_a_datagram_arrive_whole() -> None:
    theatre = Theatre(6, StageConfig(latency=(0.01, 0.1), loss=0.1, duplicate=0.1))
    theatre.distributor()
    assert theatre.settled()
    publisher = theatre.publisher()
    subscriber = theatre.subscriber()
    theatre.run(3.0)
    sizes = [0, 1, 5_000, 100, 50_000, 7]
    for size in sizes:
        publisher.core.publish(b"z" * size)
    theatre.run(30.0)
    data = [one.data for one in subscriber.log if isinstance(one, SourceMessage)]
    assert [len(one) for one in data] == sizes


SMALL = DistributorConfig(
    recent_bytes=0, buffer_bytes=20_000, no_gap_patience=5.0, subscriber_patience=1000.0
)


def test_a_slow_subscriber_with_gaps_loses_messages_and_holds_up_nobody() -> None:
    theatre = three(7, SMALL)
    publisher = theatre.publisher()
    slow, fast = theatre.subscriber(), theatre.subscriber()
    theatre.run(2.0)
    slow.core._room = lambda: 0
    for _ in range(300):
        publisher.core.publish(b"x" * 200)
        theatre.run(0.1)
    theatre.run(5.0)
    assert publisher.core.received == 300
    assert numbers(fast) == list(range(1, 301))
    slow.core._room = lambda: 4096
    slow.core.resume()
    theatre.run(20.0)
    assert slow.gaps
    covered = sum(gap.count for gap in slow.gaps) + len(numbers(slow))
    assert covered == 300


def test_a_slow_subscriber_without_gaps_holds_back_publishers_until_it_is_given_up() -> None:
    theatre = three(8, SMALL)
    publisher = theatre.publisher()
    slow, fast = theatre.subscriber(no_gap=True), theatre.subscriber()
    theatre.run(2.0)
    slow.core._room = lambda: 0
    most = 0
    for _ in range(200):
        publisher.core.publish(b"x" * 200)
        theatre.run(0.01)
        most = max(most, *(one.core.services["news"].log.bytes for one in theatre.distributors))
    theatre.run(1.0)
    assert publisher.core.received < 200
    theatre.run(60.0)
    assert publisher.core.received == 200
    assert numbers(fast) == list(range(1, 201))
    assert most <= 3 * SMALL.buffer_bytes
    ended = [one.core.services["news"].fanout.ended for one in theatre.distributors]
    assert sum(one.get("fell_behind", 0) for one in ended) >= 1


class Archive:
    """Remembers everything."""

    def __init__(self) -> None:
        self.messages: dict[tuple[bytes, int], bytes] = {}
        self.asked = 0

    def record(self, block: ServiceBlock) -> None:
        for number, payload in enumerate(block.payloads, block.first):
            self.messages[block.source, number] = payload

    def read(self, service: str, source: bytes, first: int, last: int, found: Found) -> None:
        self.asked += 1
        result: list[bytes] = []
        for number in range(first, last + 1):
            payload = self.messages.get((source, number))
            if payload is None:
                break
            result.append(payload)
        found(result)


def test_what_distributors_no_longer_hold_comes_from_a_history() -> None:
    archive = Archive()
    config = DistributorConfig(recent_bytes=0, subscriber_patience=1.0, no_gap_patience=2.0)
    theatre = three(9, config, history=archive)
    publisher = theatre.publisher()
    subscriber = theatre.subscriber(no_gap=True)
    theatre.run(2.0)
    publisher.core.publish(b"first")
    theatre.run(2.0)
    theatre.partition([subscriber.contact])
    theatre.run(15.0)
    sizes: Sequence[int] = (10, 5000, 20)
    for size in sizes:
        publisher.core.publish(b"m" * size)
    theatre.run(15.0)
    theatre.heal()
    theatre.run(10.0)
    publisher.core.publish(b"last")
    theatre.run(5.0)
    data = [one.data for one in subscriber.log if isinstance(one, SourceMessage)]
    assert [len(one) for one in data] == [5, *sizes, 4]
    assert archive.asked
    assert subscriber.gaps == []


def test_a_subscriber_asks_the_well_known_place_when_it_knows_nobody() -> None:
    theatre = Theatre(10, QUIET, client=ClientConfig(connect_within=0.5))
    subscriber = theatre.subscriber()
    theatre.run(5.0)
    assert subscriber.core.keeper.primary is None
    theatre.distributor()
    theatre.run(10.0)
    assert subscriber.core.keeper.primary is not None


@pytest.mark.sweep
def test_five_thousand_subscribers_move_when_their_distributor_crashes() -> None:
    """In virtual time, in which nothing waits for a processor: all have moved ten seconds later."""
    theatre = Theatre(11, QUIET)
    first = theatre.distributor()
    assert theatre.settled()
    subscribers = [theatre.subscriber() for _ in range(5000)]
    publisher = theatre.publisher()
    theatre.run(5.0)
    assert len(first.core.services["news"].fanout.subscribers) == 5000
    for _ in range(2):
        theatre.distributor()
    assert theatre.settled()
    for _ in range(10):
        publisher.core.publish(b"x" * 256)
    theatre.run(5.0)
    theatre.crash(first.contact)
    theatre.run(10.0)
    assert all(one.core.keeper.primary not in (None, first.contact) for one in subscribers)
    publisher.core.publish(b"y")
    theatre.run(5.0)
    assert all(numbers(one) == list(range(1, 12)) and not one.gaps for one in subscribers)


def test_a_service_that_is_removed_at_one_distributor_is_gone_at_all_and_may_be_created_again() -> (
    None
):
    theatre = Theatre(11, StageConfig(loss=0.1, duplicate=0.1))
    distributors = [theatre.distributor(services=()) for _ in range(3)]
    assert theatre.settled()
    publisher, subscriber = theatre.publisher(), None
    theatre.run(3.0)
    subscriber = theatre.subscriber(no_gap=True)
    theatre.run(2.0)
    publisher.core.publish(b"first")
    theatre.run(2.0)
    assert len(subscriber.delivered) == 1
    removed: list[str] = []
    subscriber.core._removed = lambda: removed.append("told")
    done: list[bool] = []
    publisher.core.remove(lambda: done.append(True))
    theatre.run(5.0)
    assert done == [True]
    assert removed == ["told"]
    for one in distributors:
        assert one.core.services == {}
        assert one.core._exchange._told == {}
    late = theatre.distributor(services=())
    theatre.run(5.0)
    assert late.core.services == {}
    publisher.core.publish(b"again")
    theatre.run(8.0)
    assert all("news" in one.core.services for one in (*distributors, late))
    assert publisher.core.stable == 2


def test_a_version_of_a_service_from_a_peer_is_believed_within_reason() -> None:
    theatre = Theatre(12)
    one = theatre.distributor(services=("news",))
    theatre.run(5.0)
    one.core._hear_of_service("news", 1 << 62)
    assert one.core.services["news"].version == 1
    one.core._hear_of_service("news", 4)
    assert "news" not in one.core.services
    one.core._hear_of_service("news", 3)
    assert "news" not in one.core.services
    one.core._hear_of_service("news", 5)
    assert one.core.services["news"].version == 5


def test_a_subscriber_on_a_distributors_node_is_given_what_it_asks_for() -> None:
    theatre = three(4)
    publisher = theatre.publisher()
    theatre.run(1.0)
    publisher.core.publish(b"one")
    theatre.run(1.0)
    one, other = theatre.distributors[:2]
    one.core.services["news"].fanout.add(other.contact, 1, True, 0)
    sent: list[str] = []
    theatre.stage.observe(lambda time, sender, to, message: sent.append(type(message).__name__))
    one.core.receive_want(other.contact, Want("news", publisher.core.source, 1, 1))
    assert {"SpreadBlocks", "Recalled"} <= set(sent)


def test_a_subscriber_that_restarted_under_its_identity_is_a_new_one() -> None:
    theatre = Theatre(1)
    core = theatre.distributor().core
    assert theatre.settled()
    theatre.run(6.0)
    fanout, contact = core.services["news"].fanout, numbered_contact(900)

    def ask(number: int, action: ClientAction, no_gap: bool) -> None:
        core.receive_request(contact, ClientRequest(number, action, "news", no_gap, None, 0.0))

    before, now = 1 << 40, 5
    ask(before, ClientAction.SUBSCRIBE, no_gap=False)
    ask(now, ClientAction.SUBSCRIBE, no_gap=True)
    assert fanout.subscribers[contact.id].no_gap
    ask(before + 1, ClientAction.UNSUBSCRIBE, no_gap=False)
    ask(now - 1, ClientAction.UNSUBSCRIBE, no_gap=True)
    assert contact.id in fanout.subscribers, "late words of its earlier life, or of before it came"
    ask(now + 1, ClientAction.UNSUBSCRIBE, no_gap=True)
    assert contact.id not in fanout.subscribers
