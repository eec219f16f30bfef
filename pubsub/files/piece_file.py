"""A file read and written by pieces, and described by its manifest."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from overlay.errors import UsageError
from pubsub.files.errors import disk_errors
from pubsub.files.manifest import PIECE_BYTES, Manifest
from pubsub.files.protocol.hash_list import HashList
from pubsub.files.protocol.piece_set import PieceSet


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


def describe_file(path: Path, piece_size: int = PIECE_BYTES) -> tuple[Manifest, HashList]:
    """Read a file once, and make its manifest and the checksums of its pieces."""
    if path.exists() and not path.is_file():
        raise UsageError(f"{path} is no regular file, so it cannot be read again for each receiver")
    whole, hashes, size = hashlib.sha256(), bytearray(), 0
    try:
        with open(path, "rb", buffering=0) as file:
            while piece := _read_fully(file.fileno(), piece_size):
                whole.update(piece)
                hashes += hashlib.sha256(piece).digest()
                size += len(piece)
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror}") from None
    pieces_digest = hashlib.sha256(hashes).digest()
    manifest = Manifest(path.name, size, piece_size, whole.digest(), pieces_digest)
    return manifest, HashList(manifest, bytes(hashes))


def _read_fully(descriptor: int, size: int) -> bytes:
    """So many bytes, or fewer at the end of the file."""
    parts = []
    while size and (part := os.read(descriptor, size)):
        parts.append(part)
        size -= len(part)
    return b"".join(parts)
