"""Files on the disk: read and written by pieces, and the directory where they arrive."""

from __future__ import annotations

import hashlib
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import astuple
from io import FileIO
from pathlib import Path

import msgpack

from overlay.errors import UsageError, why
from pubsub.files.manifest import (
    PIECE_BYTES,
    FileError,
    HashList,
    Manifest,
    PieceSet,
    disk_errors,
    is_file_name,
)
from pubsub.reliable.process_lock import ProcessLock

_PARTIAL = ".partial"
_BLOCK_BYTES = 512
"""In which `st_blocks` counts, whatever the disk's own blocks are."""
_naming = threading.Lock()
"""One file at a time is given its name, so that no two take the same one."""
_Kept = tuple[Manifest, HashList, str]
"""What is kept of a file; the name is empty until it is whole."""


class PieceFile:
    """A file, opened for each call, so that any number of them may be shared; `FileError` when the disk
    fails. Calls block for as long as the disk takes."""

    def __init__(self, path: Path, manifest: Manifest, *, write: bool = False) -> None:
        """`write`: make the file, with the size that it will have."""
        self.path = path
        self._manifest = manifest
        with self._opened("opened", os.O_RDWR | os.O_CREAT if write else os.O_RDONLY) as descriptor:
            if write:
                os.ftruncate(descriptor, manifest.size)

    @contextmanager
    def _opened(self, what: str, flags: int = os.O_RDONLY) -> Iterator[int]:
        with disk_errors(self.path, what):
            descriptor = os.open(self.path, flags | os.O_CLOEXEC, 0o666)
            try:
                yield descriptor
            finally:
                os.close(descriptor)

    def read(self, index: int) -> bytes:
        with self._opened("read") as descriptor:
            place = index * self._manifest.piece_size
            return os.pread(descriptor, self._manifest.length(index), place)

    def read_checked(self, index: int, hashes: HashList) -> bytes:
        """A piece to give away; `FileError` when it is not any more what was described, or arrived."""
        data = self.read(index)
        if not hashes.agrees(index, data):
            raise FileError(
                f"{self._manifest.name} has changed on the disk since its checksums were taken"
            )
        return data

    def write_checked(self, index: int, data: bytes, hashes: HashList) -> bool:
        """Write a piece if it agrees with its checksum; whether it does."""
        is_right = hashes.agrees(index, data)
        if is_right:
            self.write(index, data)
        return is_right

    def write(self, index: int, data: bytes) -> None:
        rest, place = memoryview(data), index * self._manifest.piece_size
        with self._opened("written", os.O_RDWR) as descriptor:
            while rest:
                written = os.pwrite(descriptor, rest, place)
                rest, place = rest[written:], place + written

    def sync(self) -> None:
        """Return when everything written is on stable storage."""
        with self._opened("synced") as descriptor:
            os.fsync(descriptor)

    def scan(self, hashes: HashList) -> PieceSet:
        """The pieces that are there and agree with their checksums."""
        found = PieceSet(self._manifest.pieces)
        for index in range(self._manifest.pieces):
            if hashes.agrees(index, self.read(index)):
                found.add(index)
        return found

    def has_digest(self) -> bool:
        """Whether the whole content has the manifest's checksum; synced to the disk before it is read."""
        self.sync()
        whole = hashlib.sha256()
        for index in range(self._manifest.pieces):
            whole.update(self.read(index))
        return whole.digest() == self._manifest.digest


@contextmanager
def readable(path: Path) -> Iterator[FileIO]:
    """A regular file, open to be read; `UsageError` for one that cannot be sent."""
    if path.exists() and not path.is_file():
        raise UsageError(
            f"{path} is not a regular file, so it cannot be read again for each receiver"
        )
    try:
        with open(path, "rb", buffering=0) as file:
            yield file
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {why(error)}") from None


def describe_file(
    path: Path, topic: str, piece_size: int = PIECE_BYTES
) -> tuple[Manifest, HashList]:
    """Read a file once, and make its manifest for a topic and the checksums of its pieces."""
    whole, hashes, size = hashlib.sha256(), bytearray(), 0
    with readable(path) as file:
        while piece := _read_fully(file.fileno(), piece_size):
            whole.update(piece)
            hashes += hashlib.sha256(piece).digest()
            size += len(piece)
    pieces_digest = hashlib.sha256(hashes).digest()
    manifest = Manifest(path.name, size, piece_size, whole.digest(), pieces_digest, topic)
    return manifest, HashList(manifest, bytes(hashes))


def _read_fully(descriptor: int, size: int) -> bytes:
    """Read `size` bytes, or fewer at the end of the file."""
    parts = []
    while size and (part := os.read(descriptor, size)):
        parts.append(part)
        size -= len(part)
    return b"".join(parts)


class Arrivals:
    """The directory where files arrive: under their names when they are whole, in `.partial` until then.

    Of every file the manifest and the checksums of the pieces are kept in `.partial`, and of a whole one its
    name. Which pieces of a partial file are there is found out by reading them: so nothing is believed that a
    crash may have left half written. `FileError` when the directory cannot be used."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._partial = directory / _PARTIAL
        with disk_errors(directory, "used"):
            self._partial.mkdir(parents=True, exist_ok=True)

    def lock(self) -> ProcessLock:
        """Keep other processes that receive files out of the directory; `FileError` when one is there."""
        try:
            return ProcessLock(self._partial / "receiver", "directory")
        except UsageError:
            raise FileError(
                f"{self._directory} is in use: another process receives files there"
            ) from None

    def unfinished(self) -> list[Manifest]:
        """The files that had begun to arrive; one that was about to be given its name is among them."""
        kept = filter(None, map(_read, sorted(self._partial.glob("*.manifest"))))
        return [
            manifest
            for manifest, _, name in kept
            if not name or self._path(manifest, "part").is_file()
        ]

    def finished(self, manifest: Manifest) -> tuple[PieceFile, HashList] | None:
        """A file that has arrived before, if it is still there with its size."""
        kept = _read(self._path(manifest, "manifest"))
        if kept is None or not kept[2] or self._path(manifest, "part").is_file():
            return None
        path = self._directory / kept[2]
        if not path.is_file() or path.stat().st_size != manifest.size:
            return None
        return PieceFile(path, manifest), kept[1]

    def open(self, manifest: Manifest) -> tuple[PieceFile, HashList]:
        """The place for a file that arrives, and the checksums of pieces that are known."""
        kept = _read(self._path(manifest, "manifest"))
        hashes = kept[1] if kept is not None else HashList(manifest)
        self.keep(manifest, hashes)
        return PieceFile(self._path(manifest, "part"), manifest, write=True), hashes

    def keep(self, manifest: Manifest, hashes: HashList, name: str = "") -> None:
        """Remember what can be known of a file before its content; synced when this returns."""
        path = self._path(manifest, "manifest")
        draft = path.with_suffix(".draft")
        with disk_errors(path, "written"):
            with open(draft, "wb") as file:
                file.write(msgpack.packb([*astuple(manifest), hashes.packed(), name]))
                file.flush()
                os.fsync(file.fileno())
            os.replace(draft, path)
            _sync_directory(self._partial)

    def finish(self, manifest: Manifest, hashes: HashList) -> Path:
        """Give a whole and synced file its name; another name when a different file has it.

        The name is kept first: after a crash in between, the file goes on as one that is all there."""
        with _naming:
            path = self._free_name(manifest)
            self.keep(manifest, hashes, path.name)
            with disk_errors(path, "written"):
                os.replace(self._path(manifest, "part"), path)
                _sync_directory(self._directory)
        return path

    def _free_name(self, manifest: Manifest) -> Path:
        path = wanted = self._directory / manifest.name
        number = 0
        while path.exists():
            number += 1
            more = f"-{number}" if number > 1 else ""
            path = wanted.with_stem(f"{wanted.stem}-{manifest.id.hex()[:8]}{more}")
        return path

    def remove(self, manifest: Manifest) -> None:
        """Forget a file that has not got its name, with what is there of it."""
        for kind in ("part", "manifest"):
            with disk_errors(self._path(manifest, kind), "removed"):
                self._path(manifest, kind).unlink(missing_ok=True)

    def check_room(self, manifest: Manifest) -> None:
        """`FileError` when the disk has no room for what is missing of a file."""
        part, missing = self._path(manifest, "part"), manifest.size
        with disk_errors(self._directory, "used"):
            if part.is_file():
                missing -= min(part.stat().st_blocks * _BLOCK_BYTES, manifest.size)
            free = self.free_bytes()
        if missing > free:
            raise FileError(
                f"there is no room for {manifest.name}: {missing:,} bytes are missing, and "
                f"{self._directory} has {free:,}"
            )

    def free_bytes(self) -> int:
        with disk_errors(self._directory, "used"):
            space = os.statvfs(self._directory)
            return space.f_bavail * space.f_frsize

    def _path(self, manifest: Manifest, kind: str) -> Path:
        return self._partial / f"{manifest.id.hex()}.{kind}"


def _read(path: Path) -> _Kept | None:
    """What was kept; None when there is nothing that can be read."""
    try:
        *fields, hashes, name = msgpack.unpackb(path.read_bytes())
        manifest = Manifest(*fields)
        if name and not is_file_name(name):
            return None
        return manifest, HashList(manifest, hashes), name
    except (OSError, ValueError, TypeError, UsageError, msgpack.UnpackException):
        return None


def _sync_directory(directory: Path) -> None:
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
