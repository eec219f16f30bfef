"""Members of the network without the right lie in every message of distributors' views and of strong topics.

They know who takes part, and all numbers. What they say in another's name its session does not allow, and
what they say in their own name the gate drops: views, participants, messages and elements stay as they were.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pytest

from overlay.contact import Contact
from overlay.identity import Identity
from overlay.virtual import Network
from pubsub import Node
from pubsub.collections import DAStrongSet
from pubsub.distributors import Distributor, Publisher, Subscriber
from pubsub.distributors import messages as distributing
from pubsub.distributors.protocol.view import View, ViewMember
from pubsub.rights import Action
from pubsub.topics import messages as topics
from tests.pubsub.test_service_rights import BOTH, KEEPER, TICKER, TO_SERVE
from tests.pubsub.test_subscribing_rights import (
    MALLORY,
    OTHER,
    OTHER_READS,
    READER,
    TO_READ,
    WRITER,
    Party,
    play,
    pretend,
    right_of,
)

SEEDS = [1, *(pytest.param(seed, marks=pytest.mark.sweep) for seed in range(2, 7))]
LOSS = 0.05
EVENTS = 20

Lies = Callable[[random.Random, int], Sequence[Any]]


async def lie(liar: Node, to: Sequence[Contact], lies: Lies, seed: int) -> None:
    """Say all of it, to all, ten times a second, over channels and in datagrams."""
    draw = random.Random(seed)
    attachment = liar.attachment
    for turn in range(10 * EVENTS):
        for contact in to:
            for one in lies(draw, turn):
                draw.choice([attachment.control, attachment.questions]).send(contact, one)
        await asyncio.sleep(0.1)


async def mallory_of(party: Party, shown: bytes) -> Node:
    """A member that shows the right of another, and believes that it may do everything."""
    node = await party.enter(Node, identity=MALLORY, rights=())
    pretend(node.attachment.gate, (shown,))
    return node  # type: ignore[no-any-return]


@pytest.mark.parametrize("seed", SEEDS)
def test_who_has_no_right_to_distribute_changes_no_view_and_loses_no_message(seed: int) -> None:
    network = Network(seed, loss=LOSS)

    async def main(party: Party) -> None:
        whos = [KEEPER, *(Identity(bytes([30 + number]) * 32) for number in range(2))]
        served: list[Distributor] = []
        for who in whos:
            right = right_of(who, Action.DISTRIBUTE, "/distributors/**").packed
            served.append(await party.enter(Distributor, ["ticker"], identity=who, rights=(right,)))
        for one in served:
            while one.view is None or len(one.view.members) < len(whos):
                await one.next_view()
        view = served[0].view
        assert view is not None
        mallory = await mallory_of(party, TO_SERVE.packed)
        hers = ViewMember(mallory.attachment.contact, 1)
        to_publish = right_of(WRITER, Action.PUBLISH, TICKER).packed
        to_read = right_of(READER, Action.SUBSCRIBE, TICKER).packed
        publisher = await party.enter(Publisher, identity=WRITER, rights=(to_publish,))
        subscriber = await party.enter(Subscriber, identity=READER, rights=(to_read,))

        def lies(draw: random.Random, turn: int) -> list[Any]:
            group, after, ballot = view.group, view.number + 1, (10**6 + turn, b"\xff" * 20)
            stronger = View((-turn, draw.randbytes(8)), 7, (hers,))
            newer = View(group, after + turn, (hers, *view.members[1:]))
            source = draw.choice([WRITER.id, mallory.attachment.contact.id]) + bytes(8)
            block = distributing.ServiceBlock("ticker", source, 1 + turn, (b"\x00\xa4lies",))
            return [
                *(
                    distributing.ViewHello(told.group, told.number, told.members, 1, False)
                    for told in (stronger, newer)
                ),
                distributing.ViewHello(group, 0, (), draw.getrandbits(32), False),
                distributing.ViewHello(group, view.number, (), view.members[0].run, True),
                distributing.Prepare(group, after, ballot),
                distributing.Propose(group, after, ballot, (hers,)),
                distributing.Vote(group, after, view.first_ballot, ballot, ballot, (hers,)),
                distributing.Digest(1, True, (("ticker", 2**62, False),), ()),
                distributing.Want("ticker", source, 1, 10**6),
                distributing.SpreadBlocks((block,), turn, group, view.number),
                distributing.Raise(block),
                distributing.ListServices(""),
                distributing.ClientRequest(turn, 5, "ticker", False, None, 0.0),
            ]

        async with subscriber.subscribe("ticker", semantics="no_gap") as messages:
            lying = asyncio.ensure_future(lie(mallory, [one.contact for one in served], lies, seed))
            for number in range(EVENTS):
                await publisher.publish("ticker", number)
                await asyncio.sleep(1)
            await lying
            async with asyncio.timeout(10):
                assert [(await anext(messages)).data for _ in range(EVENTS)] == list(range(EVENTS))
        assert [one.view for one in served] == [view] * len(served)
        for one in served:
            assert list(one.status()["services"]) == ["ticker"]
            refused = one.metrics.as_dict()["rights_refused"]
            assert isinstance(refused, dict)
            assert {"ViewHello", "Propose", "Vote", "SpreadBlocks", "Raise"} <= refused.keys()

    play(main, network=network)


@pytest.mark.parametrize("seed", SEEDS)
def test_who_has_no_right_to_subscribe_changes_no_participants_and_loses_no_element(
    seed: int,
) -> None:
    async def main(party: Party) -> None:
        one = await party.node(WRITER, right_of(WRITER, BOTH, "/soccer").packed)
        two = await party.node(READER, TO_READ.packed)
        three = await party.node(OTHER, OTHER_READS.packed)
        honest = [one, two, three]
        mallory = await mallory_of(party, TO_READ.packed)
        her = mallory.attachment.contact
        async with (
            one.collection(DAStrongSet, "/soccer") as first,
            two.collection(DAStrongSet, "/soccer") as second,
            three.collection(DAStrongSet, "/soccer") as third,
        ):
            await first.add("begun", wait="safe")

            def lies(draw: random.Random, turn: int) -> list[Any]:
                strong = one._collections.strong_topics.get("/soccer")
                assert strong is not None
                membership = strong.core.membership
                entries = tuple(membership.participants.values())
                numbers = tuple((entry.source, 10**6, ()) for entry in entries)
                statements = tuple(
                    (entry.id, entry.boot, 10**6 + turn, membership.digest, numbers)
                    for entry in entries
                )
                gone = tuple(replace(entry, left=True, before=()) for entry in entries)
                rows = tuple(
                    topics.Row(entry.id, entry.boot, 10**6 + turn, tuple(e.id for e in entries))
                    for entry in entries
                )
                item = topics.Item(entries[0].id, entries[0].run, 2 + turn, False, (), b"lies")
                hers = topics.Item(her.id, bytes(8), 1 + turn, False, (), b"lies")
                return [
                    topics.JoinTopic("/soccer", her, turn, bytes(8), ""),
                    topics.Knowledge("/soccer", gone, rows, None, draw.randbytes(8), True),
                    topics.Absent("/soccer"),
                    topics.Cast("/soccer", (item, hers), numbers, membership.digest),
                    topics.Received("/soccer", statements, numbers, membership.digest, True, True),
                    topics.Aside("/soccer", "direct", bytes(8), 1 + turn, b"lies"),
                ]

            to = [node.attachment.contact for node in honest]
            lying = asyncio.ensure_future(lie(mallory, to, lies, seed))
            for number in range(EVENTS):
                await (first, second, third)[number % 3].add(number)
                await asyncio.sleep(1)
            await lying
            await asyncio.sleep(5)
            expected = {"begun", *range(EVENTS)}
            assert set(first) == set(second) == set(third) == expected
            for node in honest:
                strong = node._collections.strong_topics.get("/soccer")
                assert strong is not None
                assert {p.id for p in strong.participants} == {
                    n.attachment.contact.id for n in honest
                }
                refused = node.metrics.as_dict()["rights_refused"]
                assert isinstance(refused, dict)
                assert {"Knowledge", "Cast", "Received", "Aside", "JoinTopic"} <= refused.keys()

    play(main, network=Network(seed, loss=LOSS))
