"""What was taken back: remembered on disk, and told across partitions, restarts and skewed clocks."""

from __future__ import annotations

import asyncio
import time
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from overlay.contact import Contact
from overlay.errors import UsageError
from overlay.identity import Identity
from overlay.virtual import Network, nth_host
from pubsub import Node
from pubsub.gate import COMPARE_SECONDS, ShowRights
from pubsub.rights import CLOCK_SLACK, Action, Authority, revoke
from tests.pubsub.test_secrets import reading
from tests.pubsub.test_subscribing_rights import (
    OTHER,
    OTHER_READS,
    READER,
    ROOT,
    TO_READ,
    TO_WRITE,
    WRITER,
    Party,
    copies,
    play,
    right_of,
)


def test_a_node_that_restarts_remembers_what_was_taken_back(tmp_path: Path) -> None:
    """Nobody else knew, or all who did have gone."""
    file = tmp_path / "revocations"

    async def main(party: Party) -> None:
        keeps = {"identity": WRITER, "rights": (TO_WRITE.packed,), "revocations": file}
        first: Node = await party.enter(Node, **keeps)
        await first.revoke(revoke(TO_READ, ROOT))
        await asyncio.sleep(1.5)
        assert len(file.read_text().split()) == 1, "a crash forgets nothing"
        await first.revoke(revoke(OTHER_READS, ROOT))
        await first.close()
        party.addresses.clear()
        writer: Node = await party.enter(Node, **keeps)
        assert sorted(writer.status()["rights"]["revoked"]) == sorted(
            [TO_READ.name, OTHER_READS.name]
        )
        reader = await party.node(READER, TO_READ.packed)
        await party.reader(reader)
        for number in range(10):
            await writer.publish("/soccer", number)
            await asyncio.sleep(0.5)
        assert copies(reader) == 0

    play(main)


def test_what_does_not_count_in_the_file_is_passed_over(tmp_path: Path) -> None:
    file, clock = tmp_path / "revocations", lambda: 0.0
    good = revoke(TO_READ, ROOT)
    lines = [
        b"zz",
        good.hex().encode(),
        good.hex().encode()[:-2],
        revoke(TO_READ, OTHER).hex().encode(),
        b"\xff\xff",
    ]
    file.write_bytes(b"\n".join(lines))

    async def main(party: Party) -> None:
        node: Node = await party.enter(Node, identity=READER, rights=(), revocations=file)
        assert node.status()["rights"]["revoked"] == [TO_READ.name]

    play(main)
    assert file.read_text() == good.hex() + "\n"
    assert Authority([ROOT.public_key], clock).take_back(bytes.fromhex(file.read_text()))


def test_a_file_of_revocations_that_cannot_be_is_refused_by_name(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="revocations need the network's authority"):
        Node(revocations=tmp_path / "file")

    async def main(party: Party) -> None:
        for wrong in (tmp_path, tmp_path / "nowhere" / "file"):
            with pytest.raises(
                UsageError, match=f"revocations: {wrong} cannot be read and written"
            ):
                await party.enter(Node, identity=Identity.create(), rights=(), revocations=wrong)

    play(main)


@pytest.mark.parametrize(
    ("nodes_more", "seed"),
    [(3, 1), *(pytest.param(11, seed, marks=pytest.mark.sweep) for seed in (1, 5))],
)
def test_what_was_taken_back_beyond_a_partition_works_soon_after_it_has_healed(
    nodes_more: int, seed: int
) -> None:
    """On one side a right is taken back; its holder and a writer are on the other one.

    Those on the first side read what is sealed with the key that the writer takes then and they lack."""
    network = Network(seed)

    async def main(party: Party) -> None:
        writer = await party.node(WRITER, TO_WRITE.packed)
        operator = await party.node(OTHER, OTHER_READS.packed)
        reader = await party.node(READER, TO_READ.packed)
        others = [Identity(bytes([50 + number]) * 32) for number in range(nodes_more)]
        nodes = [operator, reader]
        for other in others:
            right = right_of(other, Action.SUBSCRIBE, "/soccer/**")
            nodes.append(await party.node(other, right.packed))
        async with AsyncExitStack() as stack:
            read = [await stack.enter_async_context(reading(node)) for node in nodes]
            await asyncio.sleep(5)
            hosts = [nth_host(number) for number in range(len(nodes) + 1)]
            network.partition(hosts[::2], hosts[1::2])
            await asyncio.sleep(60)
            await operator.revoke(revoke(TO_READ, ROOT))
            await writer.publish("/soccer", "meanwhile", encrypt=True)
            await asyncio.sleep(5)
            assert read[1] == ["meanwhile"], "nobody there can know"
            network.heal()
            await asyncio.sleep(COMPARE_SECONDS + 5)
            assert all(node.status()["rights"]["revoked"] for node in [writer, *nodes])
            had = copies(reader)
            for number in range(5):
                await writer.publish("/soccer", number, encrypt=True)
                await asyncio.sleep(1)
            await asyncio.sleep(10)
            assert copies(reader) == had
            assert read[1] == ["meanwhile"]
            for of_other in [read[0], *read[2:]]:
                assert [data for data in of_other if data != "meanwhile"] == list(range(5))

    play(main, network=network)


def hide_what_was_taken_back(node: Node) -> None:
    """Take note of no revocation and pass none on; and say to know just what the one who asks knows."""
    gate = node.attachment.gate
    assert gate is not None
    gate.authority.take_back = lambda revocation: False  # type: ignore[method-assign]

    def receive(sender: Contact, shown: ShowRights) -> None:
        if shown.wanted:
            gate._context.send(sender, ShowRights(gate.own.rights, shown.revocations, False))

    node.attachment.runtime._handlers[ShowRights, None] = receive


@pytest.mark.parametrize(
    ("many", "seed"),
    [(2, 1), *(pytest.param(4, seed, marks=pytest.mark.sweep) for seed in range(2, 5))],
)
def test_what_was_taken_back_reaches_all_though_half_of_the_members_hide_it(
    many: int, seed: int
) -> None:
    """It is taken back on one side of a partition; both sides are half honest. A turn in which a node asks
    such members alone is lost."""
    network = Network(seed, loss=0.05)

    async def main(party: Party) -> None:
        nodes = [
            await party.node(WRITER, TO_WRITE.packed),
            await party.node(OTHER, OTHER_READS.packed),
        ]
        for number in range(2 * many):
            who = Identity(bytes([50 + number]) * 32)
            right = right_of(who, Action.SUBSCRIBE, "/soccer/**")
            nodes.append(await party.node(who, right.packed))
            await party.reader(nodes[-1])
        liars = nodes[2:][:many]
        for liar in liars:
            hide_what_was_taken_back(liar)
        await asyncio.sleep(10)
        hosts = [nth_host(number) for number in range(len(nodes))]
        network.partition(hosts[::2], hosts[1::2])
        await asyncio.sleep(60)
        await nodes[1].revoke(revoke(TO_READ, ROOT))
        await asyncio.sleep(5)
        network.heal()
        await asyncio.sleep(4 * COMPARE_SECONDS)
        for node in nodes:
            if node not in liars:
                assert node.status()["rights"]["revoked"] == [TO_READ.name]

    play(main, network=network)


@pytest.mark.parametrize("ahead", [-50.0, 50.0])
def test_a_right_ends_by_the_clock_of_who_gives_give_or_take_what_the_clock_is_wrong(
    ahead: float,
) -> None:
    """Nobody says so, and the reader's own clock, which is an hour behind, does not help it."""
    network = Network(1)
    ends = 100.0

    async def main(party: Party) -> None:
        until = int(time.time() + ends)
        begin = network.now
        short = right_of(READER, Action.SUBSCRIBE, "/soccer", until)
        network.skew(nth_host(0), offset=-3600.0)
        network.skew(nth_host(1), offset=ahead)
        reader = await network.spawn(nth_host(0), party.node(READER, short.packed))
        await party.reader(reader)
        writer = await network.spawn(nth_host(1), party.node(WRITER, TO_WRITE.packed))

        async def publish(seconds: float) -> int:
            had = copies(reader)
            while network.now < begin + seconds:
                await network.spawn(nth_host(1), writer.publish("/soccer", "event"))
                await asyncio.sleep(2.0)
            return copies(reader) - had

        sure = ends + CLOCK_SLACK - ahead
        assert await publish(sure - 2 * writer.config.parameters.lease) > 10
        await publish(sure + writer.config.parameters.lease + 2)
        assert await publish(sure + 2 * writer.config.parameters.lease) == 0

    play(main, network=network)
