"""Receiving ends when its subscription does, or raises what that raises; nothing of it goes on."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from overlay.virtual import Latency
from pubsub.archive.errors import ArchiveError
from pubsub.archive.replay_policy import ReplayPolicy
from pubsub.files import FileSharing
from pubsub.files.sharing import SEARCH_SECONDS
from tests.pubsub.archive.test_durable_nodes import World, play
from tests.pubsub.files.test_archived_files import SIZE, make_file, sharing
from tests.pubsub.files.test_sharing import until_received

LONG = 60.0


async def receive_all(files: FileSharing, directory: Path, **subscribing: Any) -> list[Path]:
    return [path async for path in files.receive("/videos", directory, **subscribing)]


async def until_arrived(files: FileSharing) -> None:
    while not files.transfers or files.transfers[0].path is None:  # noqa: ASYNC110
        await asyncio.sleep(0.01)


@pytest.mark.parametrize("subscribing", [{}, {"durable": "me", "since": "beginning"}])
def test_receiving_ends_when_the_node_is_closed(
    subscribing: dict[str, Any], tmp_path: Path
) -> None:
    source = make_file(tmp_path)

    async def main(world: World) -> None:
        await world.archive("/videos")
        sender, receiver = await sharing(world), await sharing(world)
        receiving = asyncio.ensure_future(receive_all(receiver, tmp_path / "in", **subscribing))
        if subscribing:
            await sender.archive(source, "/videos")
        else:
            await asyncio.sleep(1)
            await sender.send(source, "/videos")
        await until_arrived(receiver)
        await receiver._node.close()
        async with asyncio.timeout(LONG):
            (path,) = await receiving
        assert path.stat().st_size == SIZE
        await asyncio.sleep(SEARCH_SECONDS)
        assert not receiver.tasks

    play(main)


def test_receiving_raises_what_its_subscription_raises(tmp_path: Path) -> None:
    async def main(world: World) -> None:
        await world.node()
        receiver = await sharing(world)
        archive = await world.archive("/videos")
        subscribing = {"durable": "me", "since": "beginning"}
        receiving = asyncio.ensure_future(receive_all(receiver, tmp_path / "in", **subscribing))
        await asyncio.sleep(5)
        assert archive.topics
        world.crash(2)
        await world.archive("/videos", replay=ReplayPolicy(()))
        with pytest.raises(ArchiveError, match="another archive did not register 'me'"):
            async with asyncio.timeout(LONG):
                await receiving
        assert not receiver.tasks

    play(main)


def test_receiving_ends_when_file_sharing_does(tmp_path: Path) -> None:
    async def main(world: World) -> None:
        node = await world.node()
        async with FileSharing(node) as files:
            receiving = asyncio.ensure_future(receive_all(files, tmp_path / "in"))
            await asyncio.sleep(1)
        async with asyncio.timeout(LONG):
            assert await receiving == []
        assert node.status()["communities"] == {}

    play(main)


def test_receiving_ends_in_the_middle_of_a_file_too(tmp_path: Path) -> None:
    source = make_file(tmp_path)

    async def main(world: World) -> None:
        sender, receiver = await sharing(world), await sharing(world)
        receiving = asyncio.ensure_future(receive_all(receiver, tmp_path / "in"))
        sending = asyncio.ensure_future(sender.send(source, "/videos"))
        await until_received(receiver, 1)
        await receiver._node.close()
        async with asyncio.timeout(LONG):
            assert await receiving == []
        await asyncio.sleep(2 * SEARCH_SECONDS)
        sending.cancel()

    play(main, latency=Latency.uniform(0.002, 0.01))
