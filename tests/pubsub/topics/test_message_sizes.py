"""No message is larger than a channel carries, and nothing waits behind a large one."""

from __future__ import annotations

import asyncio

from overlay.channel import ChannelConfig
from overlay.virtual import Network
from overlay.virtual.stage import numbered_contact
from pubsub.reliable.runs import source_of
from pubsub.topics.messages import Aside
from tests.pubsub.topics.strong_nodes import StrongNodes
from tests.pubsub.topics.test_stable_phases import joined, payloads_at
from tests.pubsub.topics.test_strong_topic import play
from tests.pubsub.topics.troupe import Troupe, TroupeConfig

LARGEST_PAYLOAD = 1024 * 1024 - 1024
NARROW = TroupeConfig(channel=ChannelConfig(max_message=256 * 1024))


def test_a_large_message_between_small_ones_is_forwarded_after_a_partition() -> None:
    troupe = joined(1, 2)
    payloads = [bytes(20_000), bytes(LARGEST_PAYLOAD), b"tail"]
    troupe.partition([1])
    troupe.run(5.0)
    for payload in payloads:
        troupe.broadcast(0, payload)
    troupe.run(5.0)
    troupe.heal()
    troupe.run(10.0)
    assert sorted(map(len, troupe_payloads(troupe, 1))) == sorted(map(len, payloads))
    assert troupe.too_large == []
    assert [actor.core.held for actor in troupe.alive()] == [0, 0]


def troupe_payloads(troupe: Troupe, number: int) -> list[bytes]:
    return [payload or b"" for payload in payloads_at(troupe, number)]


def test_the_same_over_channels() -> None:
    async def script(network: Network, nodes: StrongNodes) -> None:
        one, other = [await nodes.start() for _ in range(2)]
        await asyncio.sleep(3)
        network.partition([one.host], [other.host])
        await asyncio.sleep(10)
        for payload in (bytes(20_000), bytes(LARGEST_PAYLOAD), b"tail"):
            await one.strong.broadcast(payload)
        network.heal()
        await one.strong.receipt(3).wait("safe")
        assert sorted(map(len, other.payloads)) == [4, 20_000, LARGEST_PAYLOAD]

    play(script, loss=0.0)


def test_one_message_that_is_too_large_for_a_peers_channel_holds_no_other_up() -> None:
    troupe = joined(2, 3, NARROW)
    troupe.partition([2])
    troupe.run(5.0)
    troupe.broadcast(0, bytes(300 * 1024))
    troupe.broadcast(0, b"after it")
    troupe.run(3.0)
    troupe.heal()
    troupe.run(10.0)
    assert payloads_at(troupe, 2) == [b"after it"]


def test_those_who_are_left_out_are_told_so_in_messages_that_a_channel_carries() -> None:
    troupe = joined(3, 2)
    absent = tuple(numbered_contact(number).id for number in range(100, 2100))
    for _ in range(40):
        troupe.broadcast(0, b"not for everybody", only=True, named=absent)
    troupe.run(5.0)
    assert troupe.too_large == []
    assert [actor.core.held for actor in troupe.alive()] == [0, 0]


def test_newcomers_are_told_of_more_than_a_channel_carries_at_once() -> None:
    troupe = Troupe(4, 20, NARROW)
    for number in range(20):
        troupe.start(number, filter=4096 * "\N{MUSICAL SYMBOL G CLEF}")
        troupe.run(0.3)
    troupe.run(8.0)
    assert troupe.too_large == []
    assert len(troupe.alive()) == 20
    assert all(actor.core.membership.is_stable for actor in troupe.alive())


def test_what_everybody_has_is_told_to_the_newcomer_alone() -> None:
    troupe = Troupe(5, 4)
    troupe.start(0)
    troupe.run(1.0)
    state = troupe.actors[0].core.state
    for run in range(4000):
        source = source_of(troupe.contacts[3].id, run.to_bytes(8, "big"))
        for numbers in (state.taken_of(source), state.mine.of(source), state.garbage_of(source)):
            numbers.update(1000, ())
    for number in range(1, 4):
        troupe.start(number)
        troupe.run(1.0)
    troupe.run(8.0)
    for actor in troupe.alive():
        assert [entry.before for entry in actor.core.membership.participants.values()] == [()] * 4
    taken = troupe.actors[3].core.state.taken
    assert {numbers.mark for numbers in taken.values()} == {1000}
    assert len(taken) == 4000


def test_acknowledgements_full_of_holes_are_told_in_pieces() -> None:
    troupe = joined(5, 2, NARROW)
    source = source_of(troupe.contacts[0].id, bytes(8))
    one, other = (actor.core.state for actor in troupe.alive())
    holes = [(number, number) for number in range(2, 60_000, 2)]
    for numbers in (one.taken_of(source), one.mine.of(source), one.garbage_of(source)):
        numbers.update(0, holes)
    troupe.suspect_wrongly(0, 1)
    troupe.run(8.0)
    assert troupe.too_large == []
    assert other.acknowledged.rows[one.me].numbers[source] == one.mine.of(source)
    assert other.garbage_of(source) == one.garbage_of(source)


def test_a_message_that_a_channel_does_not_carry_is_counted_and_not_taken() -> None:
    async def script(network: Network, nodes: StrongNodes) -> None:
        one, other = [await nodes.start() for _ in range(2)]
        message = Aside("/EPFL/DSC", "direct", bytes(8), 1, bytes(1024 * 1024))
        to, context = other.runtime.contact, one.strong.core.state.context
        assert not context.try_send(to, message, lambda arrived: None)
        assert one.runtime.metrics.as_dict()["messages_dropped_out"]["too_large"] == 1  # type: ignore[index]

    play(script, loss=0.0)
