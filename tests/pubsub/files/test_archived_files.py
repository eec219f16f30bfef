"""Files as durable events: an archive keeps them for receivers that are away."""

from __future__ import annotations

import asyncio
import random
from contextlib import aclosing
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from overlay.virtual import Latency
from pubsub.files import FileSharing
from pubsub.files.archived import fragment_in, fragments_of
from pubsub.files.disk import PieceFile, describe_file
from pubsub.files.exchange import Piece, PieceHashes
from pubsub.files.manifest import Manifest
from tests.pubsub.archive.test_durable_nodes import World, play

SIZE = 1_500_000


def make_file(directory: Path) -> Path:
    path = directory / "match.mp4"
    path.write_bytes(random.Random(1).randbytes(SIZE))
    return path


async def sharing(world: World, **settings: Any) -> FileSharing:
    node = await world.node(**settings)
    return await world.stack.enter_async_context(FileSharing(node))


async def receive_one(files: FileSharing, directory: Path, name: str) -> Path:
    arrivals = files.receive("/videos", directory, durable=name, since="beginning")
    async with aclosing(arrivals):
        return await anext(arrivals)


@pytest.mark.parametrize("loss", [0.0, 0.02])
def test_a_receiver_that_was_away_gets_the_file_when_its_sender_is_gone(
    tmp_path: Path, loss: float
) -> None:
    source = make_file(tmp_path)

    async def main(world: World) -> None:
        await world.node()
        await world.archive("/videos")
        sender = await sharing(world)
        transfer = await sender.archive(source, "/videos")
        assert transfer.archived == SIZE
        world.crash(2)
        path = await receive_one(await sharing(world), tmp_path / "in", "late")
        assert path.read_bytes() == source.read_bytes()

    play(main, latency=Latency.uniform(0.002, 0.01), loss=loss)


def test_a_large_file_does_not_overflow_what_channels_buffer(tmp_path: Path) -> None:
    source = tmp_path / "long.mp4"
    source.write_bytes(random.Random(2).randbytes(12_000_000))

    async def main(world: World) -> None:
        await world.node()
        archive = await world.archive("/videos")
        sender = await sharing(world)
        await sender.archive(source, "/videos")
        receiver = await sharing(world)
        path = await receive_one(receiver, tmp_path / "in", "late")
        assert path.read_bytes() == source.read_bytes()
        for node in (archive.node, sender._node, receiver._node):
            full = node.metrics.family("messages_dropped_out", "reason", "Messages not sent")
            assert full["channel_full"] == 0

    play(main, latency=Latency.uniform(0.001, 0.002))


def test_a_durable_receiver_that_crashes_goes_on_with_what_it_had(tmp_path: Path) -> None:
    source = make_file(tmp_path)

    async def main(world: World) -> None:
        await world.node()
        await world.archive("/videos")
        sender = await sharing(world)
        await sender.archive(source, "/videos")
        world.crash(2)
        first = await sharing(world)
        receiving = asyncio.ensure_future(receive_one(first, tmp_path / "in", "mine"))
        while not first.transfers or first.transfers[0].done < SIZE // 3:  # noqa: ASYNC110
            await asyncio.sleep(0.001)
        assert not receiving.done()
        world.crash(3)
        path = await receive_one(await sharing(world), tmp_path / "in", "mine")
        assert path.read_bytes() == source.read_bytes()
        receiving.cancel()

    play(main, latency=Latency.uniform(0.002, 0.01))


def test_the_fragments_of_a_file_put_it_together_again(tmp_path: Path) -> None:
    source = make_file(tmp_path)
    manifest, hashes = describe_file(source, "/videos", piece_size=100_000)
    file = PieceFile(source, manifest)
    first, *rest = fragments_of(manifest, hashes, file, b"holder")
    assert Manifest.from_data(first, "/videos") == (manifest, b"holder")
    found = [fragment_in(data) for data in rest]
    assert [one.hashes for one in found if isinstance(one, PieceHashes)] == [hashes.packed()]
    pieces = [one.data for one in found if isinstance(one, Piece)]
    assert b"".join(pieces) == source.read_bytes()


@settings(deadline=None)
@given(
    st.one_of(
        st.none(),
        st.text(max_size=5),
        st.dictionaries(
            st.sampled_from(["camcast-piece", "camcast-hashes", "other"]),
            st.one_of(
                st.none(),
                st.lists(st.one_of(st.binary(max_size=3), st.integers(), st.text(max_size=2))),
            ),
        ),
    )
)
def test_data_that_is_no_fragment_is_none(data: Any) -> None:
    fragment = fragment_in(data)
    assert fragment is None or isinstance(fragment.file, bytes)
