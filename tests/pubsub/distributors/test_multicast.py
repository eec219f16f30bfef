"""The multicast among distributors: it reaches all, buffers empty when stable, nothing is flushed."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from overlay.contact import Contact, PeerId
from overlay.virtual.stage import StageConfig
from pubsub.distributors.config import DistributorConfig
from pubsub.distributors.messages import Digest, ServiceBlock, SpreadBlocks, StreamDeliveries
from pubsub.distributors.protocol.service import Stability
from pubsub.distributors.protocol.service_log import ServiceLog
from pubsub.distributors.protocol.subscription import Reception
from pubsub.distributors.protocol.view import View, ViewMember
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
    first = ServiceBlock("news", source, 1, (b"m1",))
    second = ServiceBlock("news", source, 2, (b"m2",))
    assert one.core.publish(first)
    theatre.run(2.0)
    old = one.core.view
    assert old
    assert all((source, 1) in actor.taken for actor in theatre.distributors)
    two.core.receive_spread(one.contact, SpreadBlocks((second,)))
    theatre.crash(one.contact)
    theatre.partition([two.contact])  # so that the view changes before 2 can forward m2
    theatre.run(8.0)
    assert (source, 2) in two.taken
    assert (source, 2) not in three.taken
    theatre.heal()
    assert theatre.settled()
    theatre.run(3.0)
    new = three.core.view
    assert new
    assert {member.id for member in new.members} == {
        actor.contact.id for actor in (two, three, four_)
    }
    taken_in = {actor.contact: actor.taken_in[source, 2] for actor in (two, three, four_)}
    assert taken_in[two.contact] == old
    for actor in (three, four_):
        view = taken_in[actor.contact]
        assert view
        assert view.number > old.number
        assert one.contact.id not in view


def test_a_new_view_does_not_wait_for_messages_of_the_old_one() -> None:
    """While a message cannot spread, views change all the same: nothing is flushed."""
    theatre = four(61)
    one, two, *_ = theatre.distributors

    exchange = one.core._exchange
    exchange.spread = lambda blocks: None  # type: ignore[method-assign]
    exchange.receive_want = lambda sender, want: None  # type: ignore[method-assign]
    source = source_of(one.contact.id, b"the run1")
    one.core.publish(ServiceBlock("news", source, 1, (b"m1",)))
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


def test_a_source_whose_numbers_cannot_travel_is_not_taken() -> None:
    """Nothing of the digest that tells of it would be sent, nor any that follows."""
    theatre = four(8)
    one, other = theatre.distributors[:2]
    numbers = ((2**64 - 1, 1, 2**64 - 1, 0), (-1, 1, 5, 0), (0, 9, 5, 0), (0, 1, 5, 6))
    sources = tuple(
        ("news", source_of(other.contact.id, bytes([n]) * 8), *told)
        for n, told in enumerate(numbers)
    )
    one.core.receive_digest(other.contact, Digest(other.core.membership.me.run, True, (), sources))
    assert not one.core.services["news"].log.sources


def test_a_source_is_taken_in_order_however_it_arrives() -> None:
    taken: list[int] = []
    log = ServiceLog("news", 1, 1000, lambda block: taken.extend(block.numbers))
    for number in (3, 1, 1, 5, 2, 4, 3):
        log.add(ServiceBlock("news", b"s" * 24, number, (b"data",)), 0.0)
    assert taken == [1, 2, 3, 4, 5]
    pieces = [log.at(place) for place in range(log.first, log.last + 1)]
    assert [n for piece in pieces for n in range(piece.first, piece.last + 1)] == taken


def test_large_messages_are_cut_into_pieces_and_found_whole() -> None:
    log = ServiceLog("news", 1, 151)  # 100 bytes beside the heads
    data = bytes(range(256)) * 2
    log.add(ServiceBlock("news", b"s" * 24, 1, (data,)), 0.0)
    assert log.last == 6
    found = log.block(b"s" * 24, 1, 5, 10)
    assert found is not None
    assert found.payloads == (data,)
    log.trim(lambda source, number: True, log.last + 1, 0)
    assert (log.bytes, log.first, log.last) == (0, 7, 6)


def test_a_hole_is_not_claimed_to_be_held() -> None:
    log = ServiceLog("news", 1, 100)
    for number in (1, 2, 3):
        log.add(ServiceBlock("news", b"s" * 24, number, (b"",)), 0.0)
    log.skip(b"s" * 24, 10, 0.0)
    log.add(ServiceBlock("news", b"s" * 24, 11, (b"",)), 0.0)
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


SOURCE = b"s" * 24


def block(first: int, last: int) -> ServiceBlock:
    return ServiceBlock("news", SOURCE, first, tuple(b"%d" % n for n in range(first, last + 1)))


@given(
    st.lists(st.tuples(st.integers(1, 30), st.integers(0, 12)), max_size=25),
    st.integers(56, 90),
    st.integers(0, 400),
)
def test_blocks_that_overlap_enter_the_stream_once_and_in_order(
    stretches: list[tuple[int, int]], piece_bytes: int, keep: int
) -> None:
    taken: list[bytes] = []
    log = ServiceLog("news", 1, piece_bytes, lambda one: taken.extend(one.payloads))
    reception: list[bytes] = []
    subscriber = Reception(lambda source, number, data, lost: reception.append(data))
    known: set[int] = set()
    for first, more in stretches:
        new = not known.issuperset(range(first, first + more + 1))
        assert log.add(block(first, first + more), 0.0) is new
        known.update(range(first, first + more + 1))
        place = subscriber.expected
        pieces = tuple(log.at(one) for one in range(place, log.last + 1))
        assert all(piece.size <= piece_bytes or len(piece.payloads) == 1 for piece in pieces)
        subscriber.receive(StreamDeliveries(1, place, log.first, 1.0, pieces), 1000)
        assert subscriber.count == log.count(log.last)
        log.trim(lambda source, number: True, log.last + 1, keep)
    high = next(n for n in range(1, 50) if n not in known) - 1
    assert taken == reception == [b"%d" % n for n in range(1, high + 1)]
    low = log.source(SOURCE, 0.0).low
    held = log.block(SOURCE, low, high, 10**6)
    assert (held.payloads if held else ()) == tuple(b"%d" % n for n in range(low, high + 1))


def test_what_is_published_in_one_turn_stays_one_block_to_all_subscribers() -> None:
    theatre = four(12, DistributorConfig())
    publisher = theatre.publisher()
    subscribers = [theatre.subscriber(no_gap=bool(number % 2)) for number in range(6)]
    theatre.run(3.0)
    for number in range(20):
        publisher.core.publish(b"%d" % number)
    theatre.run(3.0)
    for actor in theatre.distributors:
        log = actor.core.services["news"].log
        assert [len(log.at(place).payloads) for place in range(log.first, log.last + 1)] == [20]
    assert {len(one.log) for one in subscribers} == {20}


def test_what_nobody_holds_is_given_up_though_others_hold_what_is_before_it() -> None:
    me, behind, ahead = (PeerId(bytes([n]) * 20) for n in (1, 2, 3))
    members = tuple(ViewMember(Contact(peer, "127.0.0.1", 1), 1) for peer in (me, behind, ahead))
    stability = Stability(me, 30.0)
    stability.change_view(View((0, b""), 1, members), 0.0)
    stability.told(behind, ("news", SOURCE), 1, 31, 31)
    stability.told(ahead, ("news", SOURCE), 46, 46, 46)
    assert stability.next_held(("news", SOURCE), 20) == 21
    assert stability.next_held(("news", SOURCE), 31) == 46
    assert stability.next_held(("news", SOURCE), 46) == 47
