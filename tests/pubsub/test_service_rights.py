"""A network with an authority: archives, replays, distributors and their clients need their rights."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from typing import Any

import pytest

from overlay.contact import Address
from overlay.identity import Identity
from overlay.virtual import Network, nth_host
from pubsub.archive.archive import Archive
from pubsub.archive.errors import ArchiveError, NoArchiveFound
from pubsub.archive.hand_over import request_hand_over
from pubsub.archive.protocol.dissemination import Interest
from pubsub.archive.protocol.messages import Register
from pubsub.archive.reader import ArchiveReader
from pubsub.archive.replay_policy import RECENT_SECONDS
from pubsub.camcast.messages import Goodbye
from pubsub.collections import DAStrongSet
from pubsub.distributors import Distributor, NoDistributor, Publisher, Subscriber
from pubsub.event import Copy
from pubsub.files.sharing import FileSharing
from pubsub.gate import COMPARE_SECONDS, ShowRights, TakenBack
from pubsub.introduction import ItIsMe, WhoIsThere
from pubsub.rights import CLOCK_SLACK, Action, RightError, revoke
from pubsub.secrets import GiveKey
from pubsub.topics.strong_topics import STRANGERS_SECONDS
from tests.pubsub.test_subscribing_rights import (
    MALLORY,
    OTHER,
    OTHER_READS,
    READER,
    ROOT,
    TO_READ,
    TO_WRITE,
    WRITER,
    Party,
    play,
    pretend,
    right_of,
)

KEEPER = Identity(bytes([7]) * 32)
TO_KEEP = right_of(KEEPER, Action.ARCHIVE, "/soccer/**")
BOTH = Action.PUBLISH | Action.SUBSCRIBE
OPEN_TO_ALL = {Copy, GiveKey, Goodbye, ItIsMe, ShowRights, TakenBack, WhoIsThere}
TO_SERVE = right_of(KEEPER, Action.DISTRIBUTE, "/distributors/**")


async def archive(
    party: Party, path: Path, who: Identity, *rights: bytes, lies: bool = False
) -> Archive:
    """An archive of /soccer; one that lies shows these rights, though they may be another's."""
    store = f"sqlite:///{path / who.public_key.hex()[:8]}.db"
    settings: dict[str, Any] = {"identity": who, "rights": () if lies else rights}
    if not lies:
        return await party.enter(Archive, ["/soccer"], store=store, **settings)  # type: ignore[no-any-return]
    node = await party.node(who, *rights, lies=True)
    made = Archive(["/soccer"], store=store, node=node)
    return await party.stack.enter_async_context(made)


def test_an_archive_needs_the_right_to_archive(tmp_path: Path) -> None:
    """Mallory's archive is there first, and shows the right of another: nobody takes its word."""

    async def main(party: Party) -> None:
        hostile = await archive(party, tmp_path, MALLORY, TO_KEEP.packed, lies=True)
        writer = await party.node(WRITER, TO_WRITE.packed)
        with pytest.raises(NoArchiveFound):
            await writer.publish("/soccer", "lost", durable=True, deadline=5)
        honest = await archive(party, tmp_path, KEEPER, TO_KEEP.packed)
        await honest.ready("/soccer")
        await writer.publish("/soccer", "kept", durable=True)
        assert honest.status()["/soccer"]["events"] >= 1
        assert hostile.status()["/soccer"]["events"] == 0
        with pytest.raises(RightError, match="no right to archive on /soccer"):
            await archive(party, tmp_path, OTHER)

    play(main)


def test_durable_subscribers_and_readers_need_theirs(tmp_path: Path) -> None:
    """Mallory may subscribe below, and not to what she asks for; the reader may, and may not replay."""

    async def main(party: Party) -> None:
        kept = await archive(party, tmp_path, KEEPER, TO_KEEP.packed)
        await kept.ready("/soccer")
        reader = await party.node(READER, TO_READ.packed)
        writer = await party.node(WRITER, TO_WRITE.packed)
        async with reader.subscribe("/soccer", durable="mine") as events:
            await writer.publish("/soccer", 1, durable=True)
            assert (await anext(events)).data == 1
        await asyncio.sleep(RECENT_SECONDS + 10)
        with pytest.raises(ArchiveError, match="no right to replay"):
            async with reader.subscribe("/soccer", durable="new", since="beginning"):
                pass
        both = right_of(OTHER, Action.SUBSCRIBE | Action.REPLAY, "/soccer")
        other = await party.node(OTHER, both.packed)
        async with other.subscribe("/soccer", durable="new", since="beginning") as events:
            assert (await anext(events)).data == 1
        below = right_of(MALLORY, Action.SUBSCRIBE, "/soccer/spain")
        mallory = await party.node(MALLORY, below.packed, lies=True)
        with pytest.raises(ArchiveError):
            async with mallory.subscribe("/soccer/spain", durable="mine") as events:
                await anext(events)
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(20), mallory.subscribe("/soccer", durable="hers"):
                pass

    play(main)


def test_a_right_to_replay_a_part_does_not_replay_the_rest(tmp_path: Path) -> None:
    """A name that began with what may be replayed asks for more before it has read anything."""

    async def main(party: Party) -> None:
        kept = await archive(party, tmp_path, KEEPER, TO_KEEP.packed)
        await kept.ready("/soccer")
        writer = await party.node(WRITER, TO_WRITE.packed)
        for topic in ("/soccer/italy", "/soccer/spain"):
            await writer.publish(topic, topic, durable=True)
        await asyncio.sleep(RECENT_SECONDS + 10)
        part = right_of(OTHER, Action.REPLAY, "/soccer/spain")
        other = await party.node(OTHER, OTHER_READS.packed, part.packed)
        spain = {"durable": "name", "since": "beginning"}
        async with other.subscribe("/soccer/spain", **spain):
            pass
        with pytest.raises(ArchiveError, match="no right to replay /soccer"):
            async with other.subscribe("/soccer", durable="name"):
                pass
        async with other.subscribe("/soccer/spain", **spain) as events:
            assert (await anext(events)).data == "/soccer/spain"
        async with other.subscribe("/soccer", durable="name") as events:
            await writer.publish("/soccer/italy", "new", durable=True)
            assert (await anext(events)).data == "new"

    play(main)


def test_nobody_else_has_an_archive_forget_a_durable_name(tmp_path: Path) -> None:
    """Mallory may publish on the topic and subscribe below it, which is not what the name asks for."""

    async def main(party: Party) -> None:
        kept = await archive(party, tmp_path, KEEPER, TO_KEEP.packed)
        await kept.ready("/soccer")
        reader = await party.node(READER, TO_READ.packed)
        async with reader.subscribe("/soccer", durable="mine"):
            pass
        rights = [right_of(MALLORY, Action.PUBLISH, "/soccer/**")]
        rights.append(right_of(MALLORY, Action.SUBSCRIBE, "/soccer/spain"))
        mallory = await party.node(MALLORY, *(one.packed for one in rights))
        context = mallory.attachment.runtime.context("channel")
        for pattern in ("/soccer", "/soccer/spain"):
            interest = Interest(pattern).packed()
            message = Register("/soccer", "mine", bytes(8), interest, "now", 0, True, (), True)
            context.send(kept.node.attachment.contact, message)
        await asyncio.sleep(10)
        assert list(kept.status()["/soccer"]["subscribers"]) == ["mine"]
        async with reader.subscribe("/soccer", durable="mine") as events:
            await events.leave()
        assert list(kept.status()["/soccer"]["subscribers"]) == []

    play(main)


def test_who_reads_an_archive_needs_the_right_to_replay(tmp_path: Path) -> None:
    async def main(party: Party) -> None:
        kept = await archive(party, tmp_path, KEEPER, TO_KEEP.packed)
        await kept.ready("/soccer")
        writer = await party.node(WRITER, TO_WRITE.packed)
        await writer.publish("/soccer", 1, durable=True)

        async def read(who: Identity, action: Action) -> int:
            node = await party.node(who, right_of(who, action, "/soccer").packed)
            runtime = node.attachment.runtime
            reader = ArchiveReader(runtime, "/soccer", [kept.node.attachment.contact], within=6)
            count = 0
            for stream, last in (await reader.streams()).items():
                async for page, _ in reader.pages(stream, 1, last):
                    count += page.seen
            return count

        assert await read(OTHER, Action.REPLAY) == 1
        with pytest.raises(ArchiveError):
            await read(MALLORY, Action.SUBSCRIBE)

    play(main)


def test_who_takes_part_in_a_strong_collection_needs_the_right_to_subscribe() -> None:
    async def main(party: Party) -> None:
        both = Action.PUBLISH | Action.SUBSCRIBE
        one = await party.node(WRITER, right_of(WRITER, both, "/soccer").packed)
        two = await party.node(READER, TO_READ.packed)
        mallory = await party.node(MALLORY, TO_READ.packed, lies=True)
        with pytest.raises(RightError, match="no right to subscribe"):
            (await party.node(OTHER)).collection(DAStrongSet, "/soccer")
        async with (
            one.collection(DAStrongSet, "/soccer") as first,
            two.collection(DAStrongSet, "/soccer") as second,
            mallory.collection(DAStrongSet, "/soccer") as hers,
        ):
            await asyncio.sleep(5)
            await first.add("goal")
            await asyncio.sleep(5)
            assert "goal" in second
            assert "goal" not in hers

    play(main)


@pytest.mark.parametrize("ends_by", ["revocation", "time"])
def test_who_has_lost_the_right_is_sent_no_elements_and_keeps_nobody_waiting(ends_by: str) -> None:
    """She goes on as if nothing had happened. What she says is not heard any more, so that nobody can know
    what she has: others would keep, and send her, everything for an hour."""

    async def main(party: Party) -> None:
        one = await party.node(WRITER, right_of(WRITER, BOTH, "/soccer").packed)
        until = int(time.time() + 30) if ends_by == "time" else None
        right = right_of(READER, Action.SUBSCRIBE, "/soccer", until)
        two = await party.node(READER, right.packed)
        three = await party.node(OTHER, OTHER_READS.packed)
        async with (
            one.collection(DAStrongSet, "/soccer") as first,
            two.collection(DAStrongSet, "/soccer") as hers,
            three.collection(DAStrongSet, "/soccer") as third,
        ):
            await first.add("while she may", wait="safe")
            assert "while she may" in hers
            two.attachment.gate.authority.take_back = lambda revocation: True
            if ends_by == "time":
                await asyncio.sleep(30 + CLOCK_SLACK + 1.3 * STRANGERS_SECONDS[1])
            else:
                await one.revoke(revoke(right, ROOT))
                await asyncio.sleep(2)
            for number in range(5):
                await first.add(number, wait="safe", deadline=5.0)
            assert 4 in third
            assert not {0, 1, 2, 3, 4} & set(hers)
            assert one.metrics.as_dict()["strong_held"] == 0

    play(main)


TICKER = "/distributors/main/ticker"


def test_clients_of_distributors_need_theirs() -> None:
    """Mallory may subscribe and not publish; Eve has nothing; both are members of the sealed network."""

    async def main(party: Party) -> None:
        served = await party.enter(
            Distributor, ["ticker"], identity=KEEPER, rights=(TO_SERVE.packed,)
        )
        await served.ready()
        right = right_of(WRITER, Action.PUBLISH, TICKER).packed
        publisher = await party.enter(Publisher, identity=WRITER, rights=(right,))
        granted = right_of(READER, Action.SUBSCRIBE, TICKER)
        subscriber = await party.enter(Subscriber, identity=READER, rights=(granted.packed,))
        async with subscriber.subscribe("ticker") as messages:
            await publisher.publish("ticker", 1)
            assert (await anext(messages)).data == 1
            quick = {"connect_timeout": 5.0}
            eve = await party.enter(Subscriber, identity=OTHER, rights=(), **quick)
            with pytest.raises(NoDistributor):
                async with eve.subscribe("ticker"):
                    pass
            reads = right_of(MALLORY, Action.SUBSCRIBE, TICKER).packed
            mallory = await party.enter(Publisher, identity=MALLORY, rights=(reads,), **quick)
            with pytest.raises(NoDistributor):
                await mallory.publish("ticker", "forged")
            operator = await party.node(Identity.create())
            await operator.revoke(revoke(granted, ROOT))
            await asyncio.sleep(60)
            await publisher.publish("ticker", 2)
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(5):
                    await anext(messages)

    play(main)


def test_clients_learn_from_others_that_a_distributor_has_lost_its_right() -> None:
    """Clients are in no community, and the distributor, which goes on, does not tell them."""

    async def main(party: Party) -> None:
        operator, *_ = [await party.node(Identity.create()) for _ in range(3)]
        served = await party.enter(
            Distributor, ["ticker"], identity=KEEPER, rights=(TO_SERVE.packed,)
        )
        await served.ready()
        to_publish = right_of(WRITER, Action.PUBLISH, TICKER).packed
        publisher = await party.enter(Publisher, identity=WRITER, rights=(to_publish,))
        to_read = right_of(READER, Action.SUBSCRIBE, TICKER).packed
        subscriber = await party.enter(Subscriber, identity=READER, rights=(to_read,))
        async with subscriber.subscribe("ticker") as messages:
            await publisher.publish("ticker", 1)
            assert (await anext(messages)).data == 1
            served._node.attachment.gate.authority.take_back = lambda revocation: True
            await operator.revoke(revoke(TO_SERVE, ROOT))
            await asyncio.sleep(4 * COMPARE_SECONDS)

            async def go_on() -> None:
                await publisher.publish("ticker", 2)
                await anext(messages)

            with pytest.raises(TimeoutError):
                await asyncio.wait_for(go_on(), 10)

    play(main)


def test_a_distributor_needs_the_right_to_distribute() -> None:
    """Mallory's shows the right of another: clients do not take its word."""

    async def main(party: Party) -> None:
        with pytest.raises(RightError, match="no right to distribute on /distributors/main"):
            await party.enter(Distributor, ["ticker"], identity=OTHER, rights=())
        party.addresses.clear()
        await party.node(Identity.create())
        hostile = Distributor(
            ["ticker"], listen="127.0.0.9:4000", keys=(bytes(range(32)),),
            authority=[ROOT.public_key], identity=MALLORY, bootstrap=party.addresses[:1],
        )  # fmt: skip
        hostile._node.check_right = lambda action, topic: None  # type: ignore[method-assign]
        await party.stack.enter_async_context(hostile)
        pretend(hostile._node.attachment.gate, (TO_SERVE.packed,))
        right = right_of(READER, Action.SUBSCRIBE, TICKER).packed
        party.addresses.insert(0, "127.0.0.9:4000")
        subscriber = await party.enter(
            Subscriber, identity=READER, rights=(right,), connect_timeout=5.0
        )
        with pytest.raises(NoDistributor):
            async with subscriber.subscribe("ticker"):
                pass

    play(main)


def test_who_has_a_topic_handed_over_is_an_operator_or_may_archive(tmp_path: Path) -> None:
    """Mallory is on the archive's machine, which is enough in a network without an authority."""

    async def main(party: Party) -> None:
        kept = await archive(party, tmp_path, KEEPER, TO_KEEP.packed)
        await kept.ready("/soccer")
        asked: list[tuple[Any, ...]] = []

        async def hand_over(*what: Any) -> None:
            asked.append(what)

        kept._desk._do = hand_over
        kept._desk._operators = frozenset([WRITER.id])
        at, to = kept.node.address, Address("127.0.0.1", 9)

        async def ask(who: Identity, *rights: bytes) -> None:
            runtime = (await party.node(who, *rights)).attachment.runtime
            await request_hand_over(runtime, "/soccer", at, to, 1.0)

        with pytest.raises(ArchiveError, match="no archive at"):
            await ask(MALLORY, right_of(MALLORY, BOTH, "/soccer").packed)
        assert not asked
        await ask(WRITER)
        await ask(OTHER, right_of(OTHER, Action.ARCHIVE, "/soccer").packed)
        assert asked == [("/soccer", to, 1.0)] * 2

    play(main)


def test_every_message_that_a_node_takes_has_a_rule(tmp_path: Path) -> None:
    """But for those whose contents prove who may have sent them, and who speaks for itself alone."""

    async def main(party: Party) -> None:
        everything = {who: right_of(who, Action(31), "/**").packed for who in (KEEPER, OTHER)}
        kept = await archive(party, tmp_path, KEEPER, everything[KEEPER])
        node = kept.node
        await party.stack.enter_async_context(FileSharing(node))
        await party.reader(node)
        served = await party.enter(
            Distributor, ["news"], identity=OTHER, rights=(everything[OTHER],)
        )
        await party.stack.enter_async_context(node.serve("/soccer"))
        await node.publish("/soccer", 1, durable=True)
        for one in (node, served._node):
            runtime, gate = one.attachment.runtime, one.attachment.gate
            for start in list(runtime._services.values()):
                start()
            taken = {kind for kind, _ in runtime._handlers}
            assert taken - gate._rules.keys() <= OPEN_TO_ALL
            assert len(taken) > 30

    play(main)


@pytest.mark.parametrize(
    "seed", [1, *(pytest.param(seed, marks=pytest.mark.sweep) for seed in range(2, 6))]
)
def test_elements_reach_all_others_though_a_right_was_taken_back_beyond_a_partition(
    seed: int,
) -> None:
    """She is on the other side, with one that believes in her right until the partition has healed."""
    network = Network(seed, loss=0.05)

    async def main(party: Party) -> None:
        right = right_of(WRITER, BOTH, "/soccer").packed
        one = await party.node(WRITER, right)
        two = await party.node(READER, TO_READ.packed)
        three = await party.node(OTHER, OTHER_READS.packed)
        four = await party.node(KEEPER, right_of(KEEPER, BOTH, "/soccer").packed)
        async with (
            one.collection(DAStrongSet, "/soccer") as first,
            two.collection(DAStrongSet, "/soccer") as hers,
            three.collection(DAStrongSet, "/soccer") as third,
            four.collection(DAStrongSet, "/soccer") as fourth,
        ):
            await first.add("begun", wait="safe")
            two.attachment.gate.authority.take_back = lambda revocation: True
            network.partition([nth_host(0), nth_host(2)], [nth_host(1), nth_host(3)])
            await asyncio.sleep(30)
            await one.revoke(revoke(TO_READ, ROOT))
            for number in range(5):
                await first.add(number)
                await fourth.add(10 + number)
                await asyncio.sleep(1)
            assert {10, 14} <= set(hers), "nobody there can know"
            network.heal()
            await asyncio.sleep(COMPARE_SECONDS + 15)
            await first.add("last", wait="safe", deadline=30.0)
            expected = {"begun", "last", *range(5), *range(10, 15)}
            assert set(first) == set(third) == set(fourth) == expected
            assert "last" not in hers

    play(main, network=network)
