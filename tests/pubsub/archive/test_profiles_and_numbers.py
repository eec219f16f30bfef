"""Several profiles of one durable name, added and removed while it is in use; numbers asked for by id."""

from __future__ import annotations

import asyncio

import pytest

from overlay.contact import Contact
from pubsub.archive.errors import DurableUsageError
from pubsub.archive.profiles import Profile, ProfileError, Tag
from pubsub.archive.protocol.dissemination import MOST_PROFILES, Interest
from pubsub.archive.protocol.messages import Invoice, Notice
from pubsub.node import Node
from tests.pubsub.archive.harness import PublisherActor, Simulation, SubscriberActor
from tests.pubsub.archive.test_durable_nodes import World, play


async def publish(node: Node, *numbers: int) -> None:
    for number in numbers:
        data = {"n": number, "even": number % 2 == 0}
        await node.publish("/soccer", data, durable=True)


async def numbers(events: object, count: int) -> list[int]:
    return [(await anext(events)).data["n"] for _ in range(count)]  # type: ignore[call-overload]


@pytest.mark.parametrize("delivery", ["ordered", "optimistic"])
def test_profiles_come_and_go_while_the_name_is_in_use(delivery: str) -> None:
    async def main(world: World) -> None:
        archive = await world.archive("/soccer")
        node, other = await world.node(), await world.node()
        async with other.subscribe(
            "/soccer",
            durable="reader",
            where=["n = 1", Profile.of("n = 2")],
            delivery=delivery,  # type: ignore[arg-type]
        ) as events:
            assert len(events.profiles) == 2
            await publish(node, 1, 2, 3, 1)
            assert sorted(await numbers(events, 3)) == [1, 1, 2]
            await events.add_profile("n = 3")
            await publish(node, 2, 3, 4)
            assert sorted(await numbers(events, 2)) == [2, 3]
            await events.remove_profile("n = 2")
            await publish(node, 2, 3)
            assert await numbers(events, 1) == [3]
            with pytest.raises(DurableUsageError, match="has not got it"):
                await events.remove_profile("n = 7")
            await asyncio.sleep(3)
            assert not len(events)
        interest = archive.topics["/soccer"].entities.all["reader"].interest
        assert interest == Interest("/soccer", (Profile.of("n = 1"), Profile.of("n = 3")))

    play(main)


def test_a_name_that_comes_back_has_all_of_its_profiles() -> None:
    async def main(world: World) -> None:
        await world.archive("/soccer")
        node, other = await world.node(), await world.node()
        wanted = ["n = 1", Profile.of(Tag("kind", "goal"))]
        async with other.subscribe("/soccer", durable="reader", where=wanted):
            pass
        await publish(node, 1, 2)
        await node.publish("/soccer", {"n": 9, "kind": "goal"}, durable=True)
        async with other.subscribe("/soccer", durable="reader", where=wanted) as events:
            assert await numbers(events, 2) == [1, 9]
            await events.remove_profile("n = 1")
            with pytest.raises(DurableUsageError, match="leave"):
                await events.remove_profile(Profile.of(Tag("kind", "goal")))

    play(main)


def test_a_name_without_conditions_can_be_narrowed() -> None:
    async def main(world: World) -> None:
        await world.archive("/soccer")
        node, other = await world.node(), await world.node()
        with pytest.raises(DurableUsageError):
            other.subscribe("/soccer", durable="reader", where=[])
        async with other.subscribe("/soccer", durable="reader") as events:
            await events.add_profile("n = 1")
            await publish(node, 2)
            assert await numbers(events, 1) == [2], "everything was asked for as well"
            await events.remove_profile(None)
            await publish(node, 2, 1)
            assert await numbers(events, 1) == [1]

    play(main)


def test_an_interest_is_bounded_and_the_same_in_any_order() -> None:
    some = [Profile.of(f"n = {number}") for number in range(MOST_PROFILES)]
    one = Interest("/soccer", tuple(some))
    assert one == Interest("/soccer", (*reversed(some), some[0]))
    assert Interest.unpack(one.packed()) == one
    with pytest.raises(ProfileError):
        Interest("/soccer", (*some, Profile.of("n = -1")))
    with pytest.raises(ProfileError):
        Interest("/soccer", ())


def test_the_number_of_an_event_that_came_live_is_asked_for_by_its_id() -> None:
    sim = Simulation(3, gossip_loss=0.0)
    sim.stage.run(1)
    reader = SubscriberActor(sim, 120, "reader", ordered=False, remembers=False)
    publisher = PublisherActor(sim, 110)
    sim.publishers, sim.subscribers = [publisher], [reader]
    sim.stage.run_for(2)
    (archive,) = sim.archives
    asked: list[bytes] = []
    lost: list[Notice] = []
    receive, invoiced = reader.core.receive_notice, archive.core.entities.receive_invoice

    def lose_first(sender: Contact, notice: Notice) -> None:
        if not asked:
            lost.append(notice)
        else:
            receive(sender, notice)

    def note(sender: Contact, invoice: Invoice) -> None:
        asked.extend(invoice.unnumbered)
        invoiced(sender, invoice)

    reader.core.receive_notice = lose_first  # type: ignore[method-assign]
    archive.core.entities.receive_invoice = note  # type: ignore[method-assign]
    publisher.publish()
    sim.stage.run_for(6)
    assert lost
    assert asked == list(sim.history.published), "once, and nothing else"
    assert archive.core.entities.all["reader"].done == archive.core.inventory.highest
    assert len(reader.deliveries) == 1
