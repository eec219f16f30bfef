"""Files through what goes wrong: full disks, crashes, files that change, announcements that are wrong."""

from __future__ import annotations

import asyncio
import dataclasses
import os
import random
import subprocess
import sys
from contextlib import aclosing
from pathlib import Path

import pytest

from overlay.virtual import Latency
from pubsub.files import FileError, Manifest, sharing
from pubsub.files.archived import SendingRecord
from pubsub.files.disk import Arrivals, PieceFile, describe_file
from pubsub.files.manifest import HashList, PieceSet
from tests.pubsub.archive.test_durable_nodes import World, play
from tests.pubsub.files.test_archived_files import SIZE, receive_one
from tests.pubsub.files.test_archived_files import make_file as make_archived
from tests.pubsub.files.test_archived_files import sharing as sharing_on
from tests.pubsub.files.test_sharing import MEGABYTE, Hosts, make_file, network


def test_a_durable_receiver_without_room_is_told_and_loses_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = make_archived(tmp_path)

    async def main(world: World) -> None:
        await world.node()
        await world.archive("/videos")
        await (await sharing_on(world)).archive(source, "/videos")
        with monkeypatch.context() as full:
            full.setattr(Arrivals, "free_bytes", lambda self: 1000)
            with pytest.raises(FileError, match=r"no room for match\.mp4: 1,500,000 bytes"):
                await receive_one(await sharing_on(world), tmp_path / "in", "mine")
        path = await receive_one(await sharing_on(world), tmp_path / "in", "mine")
        assert path.read_bytes() == source.read_bytes()

    play(main, latency=Latency.uniform(0.002, 0.01))


def test_what_is_there_of_a_file_needs_no_room_any_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = make_file(tmp_path, 1_000_000)
    manifest, _ = describe_file(source, "/videos")
    arrivals = Arrivals(tmp_path / "in")
    file, _ = arrivals.open(manifest)
    monkeypatch.setattr(Arrivals, "free_bytes", lambda self: 300_000)
    with pytest.raises(FileError, match="no room"):
        arrivals.check_room(manifest)
    for index in range(3):
        file.write(index, source.read_bytes()[index * 262_144 :][:262_144])
    file.sync()
    arrivals.check_room(manifest)


def test_checksums_of_which_a_part_has_come_are_kept(tmp_path: Path) -> None:
    source = make_file(tmp_path, 1000)
    manifest, hashes = describe_file(source, "/videos", piece_size=100)
    arrivals = Arrivals(tmp_path / "in")
    known = HashList(manifest, hashes.packed()[: 4 * 32])
    arrivals.keep(manifest, known)
    _, again = Arrivals(tmp_path / "in").open(manifest)
    assert again.known == 4
    assert again.add(4, hashes.packed()[4 * 32 :])
    assert not again.is_complete
    assert again.check()
    assert again.is_complete


@pytest.mark.parametrize("durable", [False, True])
def test_a_file_that_changes_while_it_is_sent_is_noticed(tmp_path: Path, durable: bool) -> None:
    async def live() -> None:
        hosts = Hosts(net)
        async with hosts.stack:
            sender = await hosts.start(0)
            sending = asyncio.ensure_future(sender.send(source, "/videos"))
            files = await hosts.start(1)
            receiving = asyncio.ensure_future(anext(files.receive("/videos", tmp_path / "in")))
            while not sender.transfers:  # noqa: ASYNC110
                await asyncio.sleep(0.001)
            source.write_bytes(bytes(2 * MEGABYTE))
            with pytest.raises(FileError, match=r"match\.mp4 has changed"):
                await sending
            receiving.cancel()

    async def archived(world: World) -> None:
        await world.node()
        await world.archive("/videos")
        files = await sharing_on(world)
        sending = asyncio.ensure_future(files.archive(source, "/videos"))
        while not files.transfers:  # noqa: ASYNC110
            await asyncio.sleep(0.001)
        source.write_bytes(bytes(2 * MEGABYTE))
        with pytest.raises(FileError, match=r"match\.mp4 has changed"):
            await sending

    source = make_file(tmp_path, 2 * MEGABYTE)
    if durable:
        play(archived, latency=Latency.uniform(0.01, 0.02))
    else:
        net = network(11)
        net.run(live())


def test_a_wrong_announcement_costs_only_its_own_file(tmp_path: Path) -> None:
    source = make_file(tmp_path, MEGABYTE)
    manifest, hashes = describe_file(source, "/videos")
    wrong = dataclasses.replace(manifest, name="wrong.mp4", digest=bytes(32))
    net = network(12)

    async def main() -> None:
        hosts = Hosts(net)
        async with hosts.stack:
            sender = await hosts.start(0)
            liar = sender.begin(wrong, PieceFile(source, wrong))
            sender.share(liar, hashes, PieceSet.full(wrong.pieces))
            files = await hosts.start(1)
            arriving = asyncio.ensure_future(anext(files.receive("/videos", tmp_path / "in")))
            while not liar.finished_peers:
                await sender._node.publish(
                    "/videos", wrong.to_data(sender._runtime.contact.packed())
                )
                await asyncio.sleep(0.5)
            await sender.send(source, "/videos")
            path = await arriving
            assert path.name == "match.mp4"
            dropped = files._node.metrics.family("file_messages_dropped", "reason", "")
            assert dropped["wrong_announcement"] == 1
            assert not list((tmp_path / "in" / ".partial").glob(f"{wrong.id.hex()}*"))

    net.run(main())


def test_files_in_any_number_need_few_descriptors(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sharing, "MOST_SHARED", 3)
    net = network(13)

    async def main() -> None:
        hosts = Hosts(net)
        async with hosts.stack:
            sender = await hosts.start(0)
            files = await hosts.start(1)
            arrivals = files.receive("/videos", tmp_path / "in")
            async with aclosing(arrivals):
                before = len(os.listdir("/proc/self/fd"))
                for number in range(8):
                    source = tmp_path / f"file-{number}"
                    source.write_bytes(random.Random(number).randbytes(1000))
                    sending = asyncio.ensure_future(sender.send(source, "/videos"))
                    assert (await anext(arrivals)).name == source.name
                    await sending
                assert len(os.listdir("/proc/self/fd")) <= before + 1  # the lock of the directory
            assert len(files.transfers) == 3

    net.run(main())


def test_a_crash_while_a_file_is_given_its_name_leaves_it_whole(tmp_path: Path) -> None:
    source = make_file(tmp_path, 1000)
    manifest, hashes = describe_file(source, "/videos", piece_size=100)
    arrivals = Arrivals(tmp_path / "in")
    file, _ = arrivals.open(manifest)
    for index in range(10):
        file.write(index, source.read_bytes()[100 * index :][:100])
    arrivals.keep(manifest, hashes, "match.mp4")  # here it crashes, before the rename
    again = Arrivals(tmp_path / "in")
    assert again.finished(manifest) is None
    assert again.unfinished() == [manifest]
    file, known = again.open(manifest)
    assert file.scan(known).is_full
    assert again.finish(manifest, known).name == "match.mp4"
    assert Arrivals(tmp_path / "in").unfinished() == []
    assert Arrivals(tmp_path / "in").finished(manifest) is not None


def test_no_file_is_overwritten_whatever_its_name(tmp_path: Path) -> None:
    manifest = Manifest("match.mp4", 0, 100, bytes(32), bytes(32), "/videos")
    taken = [tmp_path / "match.mp4", tmp_path / f"match-{manifest.id.hex()[:8]}.mp4"]
    for path in taken:
        path.write_text("mine")
    arrivals = Arrivals(tmp_path)
    _, hashes = arrivals.open(manifest)
    assert arrivals.finish(manifest, hashes) not in taken
    assert [path.read_text() for path in taken] == ["mine", "mine"]


def test_a_file_that_was_archived_can_be_sent_as_well(tmp_path: Path) -> None:
    source = make_archived(tmp_path)

    async def main(world: World) -> None:
        await world.node()
        await world.archive("/videos")
        sender = await sharing_on(world)
        await sender.archive(source, "/videos")
        files = await sharing_on(world)
        arriving = asyncio.ensure_future(anext(files.receive("/videos", tmp_path / "in")))
        await sender.send(source, "/videos")
        assert (await arriving).read_bytes() == source.read_bytes()

    play(main, latency=Latency.uniform(0.002, 0.01))


def test_an_interrupted_durable_sender_goes_on_where_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sharing, "UNSAFE_PIECES", 1)
    source = make_archived(tmp_path)

    async def main(world: World) -> None:
        await world.node()
        archive = await world.archive("/videos")
        first = await sharing_on(world)
        sending = asyncio.ensure_future(first.archive(source, "/videos"))
        while not first.transfers or first.transfers[0].archived < SIZE // 2:  # noqa: ASYNC110
            await asyncio.sleep(0.001)
        sending.cancel()
        await asyncio.gather(sending, return_exceptions=True)
        manifest = first.transfers[0].manifest
        safe = SendingRecord(source, manifest, "/videos").safe
        assert 0 < safe < manifest.pieces
        assert SendingRecord(source, manifest, "/elsewhere").safe == 0
        before = archive.status()["/videos"]["last"]
        transfer = await (await sharing_on(world)).archive(source, "/videos")
        assert transfer.archived == SIZE
        sent = archive.status()["/videos"]["last"] - before
        # The manifest, the checksums, and the one piece that was on its way.
        assert sent <= 3 + manifest.pieces - safe < 2 + manifest.pieces
        assert "match.mp4.sending" not in os.listdir(tmp_path)
        path = await receive_one(await sharing_on(world), tmp_path / "in", "late")
        assert path.read_bytes() == source.read_bytes()

    play(main, latency=Latency.uniform(0.002, 0.01))


def test_two_processes_do_not_receive_into_one_directory(tmp_path: Path) -> None:
    """They took each other's files away when they gave them their names."""
    code = "import sys; from pathlib import Path; from pubsub.files.disk import Arrivals\n"
    code += "lock = Arrivals(Path(sys.argv[1])).lock(); print('in')"
    command = [sys.executable, "-c", code, str(tmp_path)]
    lock = Arrivals(tmp_path).lock()
    refused = subprocess.run(command, capture_output=True, text=True)
    lock.release()
    assert "is in use: another process receives files there" in refused.stderr
    assert subprocess.run(command, capture_output=True, text=True).stdout == "in\n"
