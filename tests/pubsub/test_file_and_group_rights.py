"""A network with an authority: files are given, and groups met, by those with rights on their topic alone."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing
from pathlib import Path
from typing import Any

import pytest

from overlay.errors import UsageError
from overlay.identity import Identity
from overlay.virtual import Network, nth_host
from pubsub.broadcast.group import Group
from pubsub.files import FileSharing
from pubsub.files.disk import PieceFile, describe_file
from pubsub.files.manifest import HashList, Manifest
from pubsub.rights import Action, RightError
from tests.pubsub.test_subscribing_rights import (
    KEYS,
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
    right_of,
)

BOTH = Action.PUBLISH | Action.SUBSCRIBE
MEMBERS = [f"{nth_host(number)}:4000" for number in range(3)]


async def shared(party: Party, *who: Any, **how: Any) -> FileSharing:
    return await party.stack.enter_async_context(FileSharing(await party.node(*who, **how)))


async def first(arrivals: AsyncGenerator[Path, None]) -> Path:
    async with aclosing(arrivals):
        return await anext(arrivals)


def begin(files: FileSharing, manifest: Manifest, path: Path) -> Any:
    """Have a node ask for the pieces of a file that it was not told of by an event."""
    transfer = files.begin(manifest, PieceFile(path, manifest, write=True))
    files.share(transfer, HashList(manifest), None)
    return transfer


def test_a_file_is_sent_by_those_who_may_publish_and_given_to_those_who_may_subscribe(
    tmp_path: Path,
) -> None:
    """Mallory knows the whole manifest, and finds all who have the file through the directory."""
    source = tmp_path / "match.mp4"
    source.write_bytes(bytes(range(256)) * 4000)

    async def main(party: Party) -> None:
        reader = await shared(party, READER, TO_READ.packed)
        other = await shared(party, OTHER, OTHER_READS.packed)
        mallory = await shared(party, MALLORY, TO_READ.packed, lies=True)
        writer = await shared(party, WRITER, TO_WRITE.packed)
        with pytest.raises(RightError, match="no right to publish on /soccer"):
            await reader.send(source, "/soccer")
        with pytest.raises(RightError, match="no right to subscribe on /soccer"):
            await first(writer.receive("/soccer", tmp_path / "of the writer"))
        assert not reader.transfers
        receiving = [
            asyncio.ensure_future(first(files.receive("/soccer", tmp_path / name)))
            for files, name in ((reader, "one"), (other, "two"))
        ]
        manifest, _ = describe_file(source, "/soccer")
        theft = begin(mallory, manifest, tmp_path / "stolen")
        await writer.send(source, "/soccer", receivers=2)
        for path in await asyncio.gather(*receiving):
            assert path.read_bytes() == source.read_bytes()
        await asyncio.sleep(15)
        assert theft.done == 0
        assert not theft.exchange.hashes.is_complete
        assert writer._node.metrics.as_dict()["rights_refused"]

    play(main)


def test_a_file_that_is_announced_on_another_topic_is_another_file(tmp_path: Path) -> None:
    """Mallory may read and write below /chess alone. She announces there a file of /soccer whose manifest she
    knows, and a reader of both topics takes her word: it is not given the file as one of /chess."""
    source = tmp_path / "match.mp4"
    source.write_bytes(bytes(range(256)) * 4000)
    plays_chess = right_of(READER, Action.SUBSCRIBE, "/chess").packed

    async def main(party: Party) -> None:
        mallory = await shared(party, MALLORY, right_of(MALLORY, BOTH, "/chess").packed)
        reader = await shared(party, READER, TO_READ.packed, plays_chess)
        writer = await shared(party, WRITER, TO_WRITE.packed)
        told = [
            asyncio.ensure_future(first(reader.receive(topic, tmp_path / topic[1:])))
            for topic in ("/chess", "/soccer")
        ]
        manifest, _ = describe_file(source, "/chess")
        theft = begin(mallory, manifest, tmp_path / "stolen")
        holder = mallory._runtime.contact.packed()
        await mallory._node.publish("/chess", manifest.to_data(holder), wait="acked")
        async with asyncio.timeout(60):
            await writer.send(source, "/soccer")
            assert (await told[1]).read_bytes() == source.read_bytes()
        await asyncio.sleep(15)
        assert len(reader.transfers) == 2
        assert not told[0].done()
        assert theft.done == 0
        told[0].cancel()

    play(main)


def member(rank: int, who: Identity, *rights: bytes, topic: str = "/soccer/goals") -> Group:
    return Group(
        MEMBERS,
        rank,
        "iurb",
        keys=tuple(KEYS),
        identity=who,
        topic=topic,
        authority=[ROOT.public_key],
        rights=rights,
    )


def test_a_group_is_met_by_those_who_may_publish_and_subscribe_on_its_topic() -> None:
    """Mallory holds the network key and sits at a member's address; two of three go on without her."""
    one, two = (right_of(who, BOTH, "/soccer/**").packed for who in (READER, WRITER))

    async def main() -> None:
        with pytest.raises(RightError, match="no right to subscribe on /soccer/goals"):
            async with member(0, WRITER, TO_WRITE.packed):
                pass
        hostile = Group(MEMBERS, 2, "iurb", keys=tuple(KEYS), identity=MALLORY)
        hostile._name += " on /soccer/goals"  # she names the group as the others do
        async with hostile, member(0, READER, one) as group, member(1, WRITER, two) as other:
            await other.broadcast("1:0")
            async for message in group:
                assert (message.source, message.data) == (1, "1:0")
                break
            await asyncio.sleep(15)
            assert group.missing == other.missing == [2]
            assert not hostile._inbox

    Network(1).run(main())


def test_what_a_group_with_rights_must_be_told() -> None:
    with pytest.raises(UsageError, match="give topic="):
        Group(MEMBERS, 0, authority=[ROOT.public_key])
    with pytest.raises(UsageError, match="need the network's authority"):
        Group(MEMBERS, 0, topic="/soccer")
