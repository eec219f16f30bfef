"""A network with an authority: who has no right to subscribe is sent nothing, whatever it says."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from contextlib import AsyncExitStack
from typing import Any

import pytest

from overlay.contact import Contact
from overlay.identity import Identity
from overlay.runtime import MessageHandler
from overlay.virtual import Network, nth_host
from pubsub import Node, Subscription
from pubsub.camcast.messages import AnnounceBlocks
from pubsub.event import Copy
from pubsub.gate import COMPARE_SECONDS, Gate
from pubsub.rights import (
    CLOCK_SLACK,
    NEWS_SECONDS,
    REVOCATIONS,
    Action,
    Grant,
    Right,
    RightError,
    grant_first,
    revoke,
)
from tests.pubsub.playground import MODES, received

KEYS = [bytes(range(32))]
ROOT, WRITER, READER, OTHER, MALLORY = (Identity(bytes([n]) * 32) for n in range(1, 6))


def right_of(who: Identity, actions: Action, pattern: str, until: int | None = None) -> Right:
    times = {} if until is None else {"until": until}
    return grant_first(ROOT, Grant(who.public_key, actions, pattern, **times))


TO_WRITE = right_of(WRITER, Action.PUBLISH, "/soccer/**")
TO_READ = right_of(READER, Action.SUBSCRIBE, "/soccer/**")
OTHER_READS = right_of(OTHER, Action.SUBSCRIBE, "/soccer/**")


SEEN: Counter[Node] = Counter()


def count_what_comes(node: Node) -> None:
    handlers = node.attachment.runtime._handlers

    def counting(handler: MessageHandler) -> MessageHandler:
        def receive(sender: Contact, message: Any) -> None:
            topic = message.community if isinstance(message, Copy) else message.topic
            SEEN[node] += topic.startswith("/soccer")
            handler(sender, message)

        return receive

    for kind in (Copy, AnnounceBlocks):
        handlers[kind, None] = counting(handlers[kind, None])


class Party:
    """Nodes of one network with an authority, on the virtual network."""

    def __init__(self, mode: str = "structured") -> None:
        self.mode = mode
        self.stack = AsyncExitStack()
        self.addresses: list[str] = []

    async def enter(
        self, make: Any, *arguments: Any, identity: Identity, rights: tuple[bytes, ...], **more: Any
    ) -> Any:
        """Any process of the network, on a host of its own."""
        listen = f"{nth_host(len(self.addresses))}:4000"
        settings = {"keys": tuple(KEYS), "authority": [ROOT.public_key], **more}
        settings |= {"identity": identity, "rights": rights, "listen": listen}
        if self.mode != "unstructured":
            settings["bootstrap"] = self.addresses[:1]
        self.addresses.append(listen)
        return await self.stack.enter_async_context(make(*arguments, **settings))

    async def node(self, identity: Identity, *rights: bytes, lies: bool = False) -> Node:
        """A node with these rights; one that lies uses and shows them, though they may be another's."""
        more: dict[str, Any] = {"mode": self.mode}
        if self.mode == "unstructured":
            more["gateways"] = {"/soccer": self.addresses[:2]}
        given = () if lies else rights
        node: Node = await self.enter(Node, identity=identity, rights=given, **more)
        count_what_comes(node)
        if lies:
            pretend(node.attachment.gate, rights)
        return node

    async def reader(self, node: Node, topic: str = "/soccer") -> Subscription:
        return await self.stack.enter_async_context(node.subscribe(topic))


def pretend(gate: Gate | None, rights: tuple[bytes, ...]) -> None:
    """Have a node believe that it may do everything, and show these rights."""
    assert gate is not None
    gate.own.rights = rights
    gate.own.check = lambda action, topic: None  # type: ignore[method-assign]


def play(  # type: ignore[no-untyped-def]
    main, mode: str = "structured", seed: int = 1, network: Network | None = None
) -> None:
    async def run() -> None:
        party = Party(mode)
        async with party.stack:
            await main(party)

    (network or Network(seed)).run(run())


def copies(node: Node) -> int:
    """How often a node was sent events of /soccer and below, or their numbers."""
    return SEEN[node]


@pytest.mark.parametrize(("mode", "seed"), [(mode, 1) for mode in MODES] + [("semi-structured", 7)])
def test_who_may_not_subscribe_is_sent_nothing_and_who_may_is(mode: str, seed: int) -> None:
    """Mallory is a member of the sealed network. She lies: with no right, and with that of another.

    With 7, a publisher joined through another one that may only publish, and knew no subscriber for 13 s."""

    async def main(party: Party) -> None:
        reader = await party.node(READER, TO_READ.packed)
        events = await party.reader(reader)
        mallory = await party.node(MALLORY, TO_READ.packed, lies=True)
        eve = await party.node(Identity.create(), lies=True)
        for hostile in (mallory, eve):
            await party.reader(hostile)
        writer = await party.node(WRITER, TO_WRITE.packed)
        also = right_of(OTHER, Action.PUBLISH, "/soccer/**")
        silent = await party.node(OTHER, also.packed)
        await silent.publish("/soccer", "from one who may only publish", wait="acked")
        for number in range(20):
            await writer.publish("/soccer", number, wait="acked")
            await asyncio.sleep(1)
        assert [event.data for event in await received(events, 21)][1:] == list(range(20))
        assert copies(mallory) == copies(eve) == copies(writer) == copies(silent) == 0

    play(main, mode, seed)


def test_an_honest_node_without_the_right_is_told_so() -> None:
    async def main(party: Party) -> None:
        node = await party.node(WRITER, TO_WRITE.packed)
        with pytest.raises(RightError, match="no right to subscribe on /soccer"):
            await party.reader(node)
        italy = right_of(OTHER, Action.SUBSCRIBE, "/soccer/italy/**")
        other = await party.node(OTHER, italy.packed)
        await party.reader(other, "/soccer/italy")
        with pytest.raises(RightError, match="no right to subscribe on /soccer:"):
            await party.reader(other, "/soccer/*")

    play(main)


def test_events_go_up_to_those_who_may_have_them_alone() -> None:
    """Mallory may subscribe to /soccer/italy, and is not sent what comes up to /soccer."""

    async def main(party: Party) -> None:
        events = await party.reader(await party.node(READER, TO_READ.packed))
        italy = right_of(MALLORY, Action.SUBSCRIBE, "/soccer/spain")
        mallory = await party.node(MALLORY, italy.packed, lies=True)
        await party.reader(mallory)
        writer = await party.node(WRITER, TO_WRITE.packed)
        for number in range(10):
            await writer.publish("/soccer/italy", number, wait="acked")
            await asyncio.sleep(0.5)
        assert len(await received(events, 10)) == 10
        assert copies(mallory) == 0

    play(main)


@pytest.mark.parametrize("is_honest", [True, False])
def test_a_right_to_subscribe_ends_with_its_time(is_honest: bool) -> None:
    """Also where the reader promised, while it had the right, to be a member for an hour."""

    async def main(party: Party) -> None:
        soon = int(time.time()) + 60
        short = right_of(READER, Action.SUBSCRIBE, "/soccer", soon)
        reader = await party.node(READER, short.packed)
        if not is_honest:
            reader._process.leases._promise = lambda topic: 3600.0
        events = await party.reader(reader)
        writer = await party.node(WRITER, TO_WRITE.packed)
        await writer.publish("/soccer", "before", wait="acked")
        assert [event.data for event in await received(events, 1)] == ["before"]
        lease = writer.config.parameters.lease
        await asyncio.sleep(soon - time.time() + CLOCK_SLACK + lease + 1)
        had = copies(reader)
        await writer.publish("/soccer", "after", wait="sent")
        await asyncio.sleep(5)
        assert copies(reader) == had

    play(main)


def test_a_right_that_was_taken_back_ends_within_seconds_everywhere() -> None:
    """And the one who has another right goes on."""

    async def main(party: Party) -> None:
        reader = await party.node(READER, TO_READ.packed)
        await party.reader(reader)
        other = await party.reader(await party.node(OTHER, OTHER_READS.packed))
        writer = await party.node(WRITER, TO_WRITE.packed)
        await writer.publish("/soccer", "before", wait="acked")
        operator = await party.node(Identity.create())
        await operator.revoke(revoke(TO_READ, ROOT))
        await asyncio.sleep(2)
        had = copies(reader)
        await writer.publish("/soccer", "after", wait="acked")
        assert [event.data for event in await received(other, 2)] == ["before", "after"]
        assert had >= 1
        assert copies(reader) == had

    play(main)


def test_who_was_away_learns_of_a_revocation_from_others() -> None:
    """The writer comes when the revocation was published long ago, and its publisher has gone."""

    async def main(party: Party) -> None:
        reader = await party.node(READER, TO_READ.packed)
        await party.reader(reader)
        other = await party.reader(await party.node(OTHER, OTHER_READS.packed))
        operator = await party.node(Identity.create())
        await operator.revoke(revoke(TO_READ, ROOT))
        await asyncio.sleep(2)
        await operator.close()
        writer = await party.node(WRITER, TO_WRITE.packed)
        await asyncio.sleep(COMPARE_SECONDS)
        await writer.publish("/soccer", "after", wait="acked")
        assert [event.data for event in await received(other, 1)] == ["after"]
        assert copies(reader) == 0

    play(main)


def test_a_revocation_that_all_know_is_not_handed_on_again() -> None:
    """Whoever has one may publish it, without any right: as an event it travels once."""

    async def main(party: Party) -> None:
        reader = await party.node(READER, TO_READ.packed)
        mallory = await party.node(MALLORY)
        taken = revoke(OTHER_READS, ROOT)
        await mallory.revoke(taken)
        await asyncio.sleep(5)
        assert reader.metrics.as_dict()["rights_revoked"] == 1
        assert "no_right" not in reader.metrics.as_dict()["events_dropped"]
        await asyncio.sleep(NEWS_SECONDS)
        sent = reader.metrics.as_dict()["events_sent"]
        await mallory.publish(REVOCATIONS, taken)
        await asyncio.sleep(5)
        assert reader.metrics.as_dict()["events_dropped"]["no_right"] >= 1
        assert reader.metrics.as_dict()["events_sent"] == sent

    play(main)


def test_nobody_else_can_take_a_right_back() -> None:
    async def main(party: Party) -> None:
        reader = await party.node(READER, TO_READ.packed)
        events = await party.reader(reader)
        mallory = await party.node(MALLORY, TO_READ.packed, lies=True)
        forged = revoke(TO_READ, MALLORY)
        with pytest.raises(RightError, match="not a valid revocation"):
            await mallory.revoke(forged)
        await mallory.publish("/camcast/revocations", forged, wait="acked")
        writer = await party.node(WRITER, TO_WRITE.packed)
        await asyncio.sleep(COMPARE_SECONDS)
        await writer.publish("/soccer", "still", wait="acked")
        assert [event.data for event in await received(events, 1)] == ["still"]
        assert reader.metrics.as_dict()["events_dropped"]["no_right"] >= 1  # type: ignore[index]

    play(main)
