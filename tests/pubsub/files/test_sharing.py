"""Files between nodes on the virtual network: any interruption, one checksum."""

from __future__ import annotations

import asyncio
import random
from contextlib import AsyncExitStack, aclosing
from pathlib import Path

import pytest

from overlay.errors import UsageError
from overlay.virtual import Latency, Network, nth_host
from pubsub import Node
from pubsub.files import FileError, FileSharing, Manifest
from pubsub.files.disk import Arrivals, PieceFile, describe_file

MEGABYTE = 1_000_000


class Hosts:
    """Nodes with file sharing, one a host of a virtual network."""

    def __init__(self, net: Network) -> None:
        self.net = net
        self.stack = AsyncExitStack()
        self._first: str | None = None
        self._ports = 4000

    async def start(self, number: int) -> FileSharing:
        self._ports += 1
        bootstrap = [self._first] if self._first else []
        node = Node(listen=f"{nth_host(number)}:{self._ports}", bootstrap=bootstrap)
        await self.net.spawn(nth_host(number), self.stack.enter_async_context(node))
        self._first = self._first or str(node.address)
        return await self.stack.enter_async_context(FileSharing(node))

    async def receive_one(self, number: int, directory: Path) -> Path:
        files = await self.start(number)
        arrivals = files.receive("/videos", directory)
        async with aclosing(arrivals):
            return await anext(arrivals)


def make_file(directory: Path, size: int, seed: int = 1) -> Path:
    path = directory / "match.mp4"
    path.write_bytes(random.Random(seed).randbytes(size))
    return path


async def until_received(files: FileSharing, size: int) -> None:
    while not files.transfers or files.transfers[0].done < size:  # noqa: ASYNC110
        await asyncio.sleep(0.01)


def network(seed: int) -> Network:
    return Network(seed=seed, latency=Latency.uniform(0.002, 0.01), loss=0.01)


def test_a_file_reaches_every_receiver(tmp_path: Path) -> None:
    source = make_file(tmp_path, 16 * MEGABYTE)  # it takes longer than to find one another
    net = network(1)

    async def main() -> None:
        hosts = Hosts(net)
        async with hosts.stack:
            sender = await hosts.start(0)
            receivers = [
                asyncio.ensure_future(hosts.receive_one(n, tmp_path / f"in{n}")) for n in (1, 2, 3)
            ]
            transfer = await sender.send(source, "/videos", receivers=3)
            paths = await asyncio.gather(*receivers)
            assert transfer.finished_peers == 3
            assert transfer.given < 48 * MEGABYTE, "receivers gave nothing to one another"
            for path in paths:
                assert path.name == "match.mp4"
                assert path.read_bytes() == source.read_bytes()
                assert not list((path.parent / ".partial").glob("*.part"))

    net.run(main())


def test_a_receiver_that_crashed_goes_on_with_what_it_had(tmp_path: Path) -> None:
    source = make_file(tmp_path, 3 * MEGABYTE)
    net = network(2)

    async def main() -> None:
        hosts = Hosts(net)
        async with hosts.stack:
            sender = await hosts.start(0)
            sending = asyncio.ensure_future(sender.send(source, "/videos"))
            files = await hosts.start(1)
            listening = asyncio.ensure_future(anext(files.receive("/videos", tmp_path / "in")))
            await until_received(files, MEGABYTE)
            lacking = files.transfers[0].size - files.transfers[0].done
            net.crash(nth_host(1))
            files = await hosts.start(2)
            given = sender.transfers[0].given  # with what was on its way to the crashed one
            async with aclosing(files.receive("/videos", tmp_path / "in")) as arrivals:
                path = await anext(arrivals)
            await sending
            assert path.read_bytes() == source.read_bytes()
            again = sender.transfers[0].given - given
            piece = sender.transfers[0].manifest.piece_size  # the last one is shorter
            assert lacking <= again < lacking + piece, "it began from the beginning"
            listening.cancel()

    net.run(main())


def test_a_sender_may_stop_and_begin_anew_elsewhere(tmp_path: Path) -> None:
    source = make_file(tmp_path, 2 * MEGABYTE)
    net = network(3)

    async def main() -> None:
        hosts = Hosts(net)
        async with hosts.stack:
            await hosts.start(9)
            sender = await hosts.start(0)
            sending = asyncio.ensure_future(sender.send(source, "/videos"))
            files = await hosts.start(1)
            arriving = asyncio.ensure_future(anext(files.receive("/videos", tmp_path / "in")))
            await until_received(files, MEGABYTE // 2)
            net.crash(nth_host(0))
            another = await hosts.start(2)
            await another.send(source, "/videos")
            assert (await arriving).read_bytes() == source.read_bytes()
            assert another.transfers[0].given < 2 * MEGABYTE
            sending.cancel()

    net.run(main())


def test_a_file_that_arrived_before_is_given_away_and_not_fetched_again(tmp_path: Path) -> None:
    source = make_file(tmp_path, MEGABYTE)
    net = network(5)

    async def main() -> None:
        hosts = Hosts(net)
        async with hosts.stack:
            sender = await hosts.start(0)
            arriving = asyncio.ensure_future(hosts.receive_one(1, tmp_path / "in"))
            await sender.send(source, "/videos")
            await arriving
            net.crash(nth_host(1))
            given = sender.transfers[0].given
            again = await hosts.start(2)
            nothing = asyncio.ensure_future(anext(again.receive("/videos", tmp_path / "in")))
            await sender.send(source, "/videos", receivers=2)
            assert sender.transfers[0].given == given
            assert not nothing.done()
            assert [path.name for path in (tmp_path / "in").iterdir() if path.is_file()] == [
                "match.mp4"
            ]
            nothing.cancel()

    net.run(main())


def test_an_empty_file_arrives_too(tmp_path: Path) -> None:
    source = make_file(tmp_path, 0)
    net = network(4)

    async def main() -> None:
        hosts = Hosts(net)
        async with hosts.stack:
            sender = await hosts.start(0)
            receiving = asyncio.ensure_future(hosts.receive_one(1, tmp_path / "in"))
            await sender.send(source, "/videos")
            assert (await receiving).read_bytes() == b""

    net.run(main())


def test_what_a_disk_changed_is_noticed_at_the_end(tmp_path: Path) -> None:
    source = make_file(tmp_path, 1000)
    manifest, hashes = describe_file(source, "/videos", piece_size=100)
    file, _ = Arrivals(tmp_path / "in").open(manifest)
    for index in range(10):
        file.write(index, source.read_bytes()[100 * index : 100 * index + 100])
    assert file.has_digest()
    file.write(3, b"x")
    assert not file.has_digest()
    assert list(file.scan(hashes).missing()) == [3]


def test_an_arrived_file_replaces_no_other_one(tmp_path: Path) -> None:
    (tmp_path / "match.mp4").write_text("mine")
    manifest = Manifest("match.mp4", 0, 100, bytes(32), bytes(32), "/videos")
    arrivals = Arrivals(tmp_path)
    _, hashes = arrivals.open(manifest)
    path = arrivals.finish(manifest, hashes)
    assert path.name.startswith("match-")
    assert (tmp_path / "match.mp4").read_text() == "mine"


def test_a_failing_disk_is_reported_to_the_receiver(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = make_file(tmp_path, MEGABYTE)
    net = network(6)

    def full(file: PieceFile, index: int, data: bytes) -> None:
        raise FileError(f"{file.path} cannot be written: No space left on device")

    monkeypatch.setattr(PieceFile, "write", full)

    async def main() -> None:
        hosts = Hosts(net)
        async with hosts.stack:
            sender = await hosts.start(0)
            sending = asyncio.ensure_future(sender.send(source, "/videos"))
            with pytest.raises(FileError, match="No space left"):
                await hosts.receive_one(1, tmp_path / "in")
            sending.cancel()

    net.run(main())


def test_unfinished_files_are_found_again_and_rubbish_is_left_alone(tmp_path: Path) -> None:
    source = make_file(tmp_path, 1000)
    manifest, hashes = describe_file(source, "/videos", piece_size=100)
    arrivals = Arrivals(tmp_path / "in")
    arrivals.open(manifest)
    arrivals.keep(manifest, hashes)
    (tmp_path / "in" / ".partial" / "rubbish.manifest").write_bytes(b"\xff")
    again = Arrivals(tmp_path / "in")
    assert again.unfinished() == [manifest]
    _, known = again.open(manifest)
    assert known.is_complete


@pytest.mark.parametrize(
    "name", ["", "..", "../passwd", "a/b", "a\\b", "C:evil", ".hidden", "x" * 300, "a\0b", "tab\t"]
)
def test_a_name_that_could_leave_the_directory_is_refused(name: str) -> None:
    with pytest.raises(UsageError):
        Manifest(name, 1, 1, bytes(32), bytes(32), "/videos")
    assert (
        Manifest.from_data({"camcast-file": [name, 1, 1, bytes(32), bytes(32), b""]}, "/videos")
        is None
    )


@pytest.mark.parametrize(
    "parts",
    [
        [],
        ["name", -1, 1, bytes(32), bytes(32), b""],
        ["name", 1, 0, bytes(32), bytes(32), b""],
        ["name", 2**60, 1, bytes(32), bytes(32), b""],
        ["name", 1, 1, b"short", bytes(32), b""],
        ["name", True, 1, bytes(32), bytes(32), b""],
        "text",
        None,
    ],
)
def test_an_announcement_that_is_none_is_not_taken_for_one(parts: object) -> None:
    assert Manifest.from_data({"camcast-file": parts}, "/videos") is None
    assert Manifest.from_data(parts, "/videos") is None


@pytest.mark.parametrize("path", ["/dev/zero", "/"])
def test_what_is_no_regular_file_is_refused(path: str) -> None:
    with pytest.raises(UsageError, match=f"{path} is not a regular file"):
        describe_file(Path(path), "/videos")


def test_a_file_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="cannot be read"):
        describe_file(tmp_path / "nothing", "/videos")
    manifest = Manifest("a", 1, 1, bytes(32), bytes(32), "/videos")
    with pytest.raises(FileError, match="cannot be opened"):
        PieceFile(tmp_path / "nothing", manifest)
    (tmp_path / "a file").write_text("")
    with pytest.raises(FileError, match="cannot be used"):
        Arrivals(tmp_path / "a file")
