"""The multicast among distributors: it reaches all, buffers empty when stable, nothing is flushed."""

from __future__ import annotations

from overlay.virtual.stage import StageConfig
from pubsub.distributors.config import DistributorConfig
from pubsub.distributors.messages import Publication, SpreadPublications
from pubsub.distributors.protocol.service_log import ServiceLog
from pubsub.reliable.runs import source_of
from tests.pubsub.distributors.theatre import DistributorActor, Theatre

NOTHING_RECENT = DistributorConfig(recent_bytes=0)


def four(seed: int, config: DistributorConfig = NOTHING_RECENT) -> Theatre:
    theatre = Theatre(seed, StageConfig(latency=(0.01, 0.02)), config)
    for _ in range(4):
        theatre.distributor()
    assert theatre.settled()
    theatre.run(config.no_gap_patience + 1.0)  # until nobody counts as a newcomer
    return theatre


def held(distributor: DistributorActor) -> int:
    return distributor.core.services["news"].log.bytes


def test_figure_6_a_message_is_taken_in_different_views() -> None:
    """m2 reaches distributor 2 alone before 1 crashes; 3 and 4 get it from 2 in the next view."""
    theatre = four(6)
    one, two, three, four_ = theatre.distributors
    source = source_of(one.contact.id, b"the run1")
    first = Publication("news", source, 1, b"m1")
    second = Publication("news", source, 2, b"m2")
    assert one.core.publish(first)
    theatre.run(2.0)
    old = one.core.view
    assert old is not None
    assert all((source, 1) in actor.taken for actor in theatre.distributors)
    two.core.receive_spread(one.contact, SpreadPublications((second,)))
    theatre.crash(one.contact)
    theatre.partition([two.contact])  # so that the view changes before 2 can forward m2
    theatre.run(8.0)
    assert (source, 2) in two.taken
    assert (source, 2) not in three.taken
    theatre.heal()
    assert theatre.settled()
    theatre.run(3.0)
    new = three.core.view
    assert new is not None
    assert {member.id for member in new.members} == {
        actor.contact.id for actor in (two, three, four_)
    }
    taken_in = {actor.contact: actor.taken_in[source, 2] for actor in (two, three, four_)}
    assert taken_in[two.contact] == old
    for actor in (three, four_):
        view = taken_in[actor.contact]
        assert view is not None
        assert view.number > old.number
        assert one.contact.id not in view


def test_a_new_view_does_not_wait_for_messages_of_the_old_one() -> None:
    """While a message cannot spread, views change all the same: nothing is flushed."""
    theatre = four(61)
    one, two, *_ = theatre.distributors

    exchange = one.core._exchange
    exchange.spread = lambda publications: None  # type: ignore[method-assign]
    exchange.receive_want = lambda sender, want: None  # type: ignore[method-assign]
    source = source_of(one.contact.id, b"the run1")
    one.core.publish(Publication("news", source, 1, b"m1"))
    before = one.core.view
    theatre.crash(two.contact)
    assert theatre.settled()
    after = one.core.view
    assert before is not None
    assert after is not None
    assert after.number > before.number
    assert held(one) > 0


def test_buffers_empty_when_messages_are_stable() -> None:
    theatre = four(7)
    publisher = theatre.publisher()
    theatre.run(1.0)
    for _ in range(50):
        publisher.core.publish(b"x" * 100)
    theatre.run(5.0)
    assert publisher.core.stable == 50
    assert [held(actor) for actor in theatre.distributors] == [0, 0, 0, 0]


def test_buffers_keep_what_an_unreachable_distributor_lacks() -> None:
    theatre = four(8)
    publisher = theatre.publisher()
    theatre.run(1.0)
    lone = next(
        actor for actor in theatre.distributors if actor.contact != publisher.core.keeper.primary
    )
    theatre.partition([lone.contact])
    for _ in range(10):
        publisher.core.publish(b"x" * 100)
    theatre.run(1.5)
    assert publisher.core.received == 10
    assert publisher.core.stable == 0
    assert min(held(actor) for actor in theatre.distributors if actor is not lone) > 0
    theatre.heal()
    theatre.run(5.0)
    assert publisher.core.stable == 10
    assert {held(actor) for actor in theatre.distributors} == {0}


def test_a_source_is_taken_in_order_however_it_arrives() -> None:
    taken: list[int] = []
    log = ServiceLog("news", 1, 1000, lambda publication: taken.append(publication.sequence))
    for number in (3, 1, 1, 5, 2, 4, 3):
        log.add(Publication("news", b"s" * 24, number, b"data"), 0.0)
    assert taken == [1, 2, 3, 4, 5]
    assert [log.at(place).sequence for place in range(log.first, log.last + 1)] == taken


def test_large_messages_are_cut_into_pieces_and_found_whole() -> None:
    log = ServiceLog("news", 1, 100)
    data = bytes(range(256)) * 2
    log.add(Publication("news", b"s" * 24, 1, data), 0.0)
    assert log.last == 6
    found = log.message(b"s" * 24, 1)
    assert found is not None
    assert found.data == data
    log.trim(lambda source, number: True, log.last + 1, 0)
    assert (log.bytes, log.first, log.last) == (0, 7, 6)


def test_a_hole_is_not_claimed_to_be_held() -> None:
    log = ServiceLog("news", 1, 100)
    for number in (1, 2, 3):
        log.add(Publication("news", b"s" * 24, number, b""), 0.0)
    log.skip(b"s" * 24, 10, 0.0)
    log.add(Publication("news", b"s" * 24, 11, b""), 0.0)
    state = log.sources[b"s" * 24]
    assert (state.low, state.high) == (11, 11)
    assert log.place_after({b"s" * 24: 1}) == 2
    assert log.place_after({b"s" * 24: 3}) == 4
    assert log.numbers_before(4) == {b"s" * 24: 10}


def test_services_are_publicised_to_all_distributors() -> None:
    theatre = four(9)
    publisher = theatre.publisher("sports")
    theatre.run(2.0)
    assert publisher.core.was_connected
    assert all("sports" in actor.core.services for actor in theatre.distributors)
    newcomer = theatre.distributor(services=())
    assert theatre.settled()
    theatre.run(2.0)
    assert "sports" in newcomer.core.services
