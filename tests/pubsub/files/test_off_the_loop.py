"""What files read, hash and write is done in threads: in order, and with errors told to whoever waits."""

from __future__ import annotations

import asyncio
import hashlib
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from overlay.virtual import Latency
from overlay.virtual.loop import VirtualLoop
from pubsub.files import FileError, FileSharing
from pubsub.files.disk import PieceFile, describe_file
from pubsub.files.storage import FileStorage
from pubsub.reliable.tasks import Tasks
from tests.pubsub.archive.test_durable_nodes import World, play
from tests.pubsub.files.test_archived_files import SIZE, make_file, receive_one, sharing
from tests.pubsub.files.test_ends_of_receiving import receive_all
from tests.pubsub.files.test_sharing import until_received

LATENCY = Latency.uniform(0.002, 0.01)
SMALL = 4096
"""Bytes that may be hashed on the loop: a manifest's id is made of fewer."""


class CountingDisk:
    """Counts what is asked of the disk, and hashed, on the event loop and in threads."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.in_threads = 0
        self.hashed_in_threads = 0
        self.on_loop: list[str] = []
        self._is_thread = False
        run, sha256 = VirtualLoop.run_in_executor, hashlib.sha256

        def in_thread(loop: VirtualLoop, executor: Any, func: Any, *arguments: Any) -> Any:
            self._is_thread = True
            try:
                return run(loop, executor, func, *arguments)
            finally:
                self._is_thread = False

        class Hash:
            def __init__(hash, data: Any = b"") -> None:
                hash.inner = sha256()
                hash.update(data)

            def update(hash, data: Any) -> None:
                if self._is_thread:
                    self.hashed_in_threads += len(data)
                elif len(data) > SMALL:
                    self.on_loop.append(f"hashed {len(data)} bytes")
                hash.inner.update(data)

            def digest(hash) -> bytes:
                return hash.inner.digest()

        patch.setattr(VirtualLoop, "run_in_executor", in_thread)
        patch.setattr(hashlib, "sha256", Hash)
        for name in "open", "read", "pread", "pwrite", "fsync", "ftruncate", "replace", "statvfs":
            patch.setattr(os, name, self._counting(name, getattr(os, name)))
        for name in "mkdir", "glob", "is_file", "exists", "stat", "unlink", "open":
            patch.setattr(Path, name, self._counting(name, getattr(Path, name)))

    def _counting(self, name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        def counting(*arguments: Any, **options: Any) -> Any:
            if self._is_thread:
                self.in_threads += 1
            else:
                self.on_loop.append(name)
            return function(*arguments, **options)

        return counting


def test_a_file_that_is_sent_keeps_no_loop_waiting_for_a_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = make_file(tmp_path)

    async def main(world: World) -> None:
        await world.node()
        sender, receiver = await sharing(world), await sharing(world)
        with monkeypatch.context() as patch:
            disk = CountingDisk(patch)
            receiving = asyncio.ensure_future(receive_all(receiver, tmp_path / "in"))
            await sender.send(source, "/videos")
            await until_received(receiver, source.stat().st_size)
            await receiver._node.close()
            (path,) = await receiving
            disk.on_loop.remove("stat")  # of this test
        assert path.read_bytes() == source.read_bytes()
        assert not disk.on_loop
        assert disk.in_threads > 30
        assert disk.hashed_in_threads > 5 * path.stat().st_size

    play(main, latency=LATENCY)


def test_a_file_that_is_archived_keeps_no_loop_waiting_for_a_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = make_file(tmp_path)

    async def main(world: World) -> None:
        await world.node()
        await world.archive("/videos")
        sender, receiver = await sharing(world), await sharing(world)
        with monkeypatch.context() as patch:
            disk = CountingDisk(patch)
            await sender.archive(source, "/videos")
            world.crash(2)
            path = await receive_one(receiver, tmp_path / "in", "late")
        assert path.read_bytes() == source.read_bytes()
        assert not disk.on_loop
        assert disk.in_threads > 30
        assert disk.hashed_in_threads > 5 * path.stat().st_size

    play(main, latency=LATENCY)


def storage(directory: Path, failed: Callable[[Exception], None]) -> FileStorage:
    source = make_file(directory)
    manifest, hashes = describe_file(source, "/videos")
    file = PieceFile(directory / "copy", manifest, write=True)
    return FileStorage(file, hashes, Tasks("test"), failed)


def test_what_is_asked_for_is_done_in_that_order(tmp_path: Path) -> None:
    failures: list[Exception] = []
    done: list[Any] = []

    async def main() -> None:
        one = storage(tmp_path, failures.append)
        for index in range(6):
            piece = content[index * 262_144 :][:262_144]
            one.write(index, piece, done.append)
            one.write(index, b"a lie", done.append)
            one.read(index, lambda data: done.append(len(data)))
        await one.run(lambda: done.append("its turn"))
        lengths = [262_144] * 5 + [SIZE - 5 * 262_144]
        assert done == [one for length in lengths for one in (True, False, length)] + ["its turn"]
        assert not failures

    content = make_file(tmp_path).read_bytes()
    asyncio.run(main())


def test_a_disk_that_fails_is_told_once_and_nothing_follows(tmp_path: Path) -> None:
    failures: list[Exception] = []
    done: list[Any] = []

    async def main() -> None:
        one = storage(tmp_path, failures.append)
        (tmp_path / "copy").unlink()
        one.read(0, done.append)
        one.read(1, done.append)
        with pytest.raises(FileError, match="copy cannot be synced"):
            await one.run(one._file.sync)
        one.read(2, done.append)
        await one.run(lambda: None)
        assert not done
        assert ["copy cannot be read" in str(failure) for failure in failures] == [True]

    asyncio.run(main())


def test_a_disk_that_fails_meanwhile_ends_receiving(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = make_file(tmp_path)

    async def main(world: World) -> None:
        await world.node()
        sender, receiver = await sharing(world), await sharing(world)
        receiving = asyncio.ensure_future(receive_all(receiver, tmp_path / "in"))
        sending = asyncio.ensure_future(sender.send(source, "/videos"))
        await until_received(receiver, 1)
        with monkeypatch.context() as patch:
            patch.setattr(PieceFile, "write", failing)
            with pytest.raises(FileError, match="the disk is gone"):
                await receiving
        sending.cancel()

    def failing(*_: Any) -> None:
        raise FileError("the disk is gone")

    play(main, latency=LATENCY)


def test_a_fault_of_our_own_ends_receiving(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Who waits for a file does not wait for ever because a task died."""

    async def main(world: World) -> None:
        await world.node()
        sender, receiver = await sharing(world), await sharing(world)
        receiving = asyncio.ensure_future(receive_all(receiver, tmp_path / "in"))
        sending = asyncio.ensure_future(sender.send(make_file(tmp_path), "/videos"))
        with monkeypatch.context() as patch:
            patch.setattr(FileSharing, "share", wrong)
            with pytest.raises(ZeroDivisionError):
                await receiving
        sending.cancel()

    share = FileSharing.share

    def wrong(sharing: FileSharing, transfer: Any, hashes: Any, pieces: Any) -> Any:
        return share(sharing, transfer, hashes, pieces) if pieces is not None else 1 // 0

    play(main, latency=LATENCY)
