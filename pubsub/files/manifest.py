"""What a file is: name, size and checksums as its sender announces them, and which pieces are there."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from overlay.errors import CamcastError, UsageError, why

PIECE_BYTES = 256 * 1024
"""The size of every piece but the last."""
MAX_PIECE_BYTES = 512 * 1024
MAX_PIECES = 4 * 1024 * 1024
HASH_BYTES = 32
"""SHA-256 throughout."""
HASHES_A_MESSAGE = 16_384
_KEY = "camcast-file"
"""Under which an event's data has a manifest."""
_FORBIDDEN = '/\\\0<>:"|?*'


@dataclass(frozen=True, slots=True)
class Manifest:
    """Announces a file; whatever arrives of it is checked against this and nothing else."""

    name: str
    size: int
    """Bytes."""
    piece_size: int
    digest: bytes
    """The checksum of the whole content."""
    pieces_digest: bytes
    """The checksum of the checksums of all pieces, one after the other."""
    topic: str
    """Where it is announced: rights on this topic are rights on the file."""

    def __post_init__(self) -> None:
        if not is_file_name(self.name):
            raise UsageError(
                f"{self.name!r:.60} is not a name that a file can have on every system"
            )
        if self.size < 0 or not 1 <= self.piece_size <= MAX_PIECE_BYTES:
            raise UsageError(
                f"a file of {self.size} bytes in pieces of {self.piece_size} cannot be"
            )
        if self.pieces > MAX_PIECES:
            raise UsageError(f"a file has {self.pieces} pieces, and {MAX_PIECES} is the limit")
        if len(self.digest) != HASH_BYTES or len(self.pieces_digest) != HASH_BYTES:
            raise UsageError(f"a checksum of a file has {HASH_BYTES} bytes")

    @property
    def pieces(self) -> int:
        return -(-self.size // self.piece_size)

    @property
    def id(self) -> bytes:
        """Identifies the content on this topic, whatever the file's name. The same content on another topic
        is another file: nobody is given a file because it was announced again where others may read."""
        numbers = self.size.to_bytes(8, "big") + self.piece_size.to_bytes(8, "big")
        checksums = self.digest + self.pieces_digest
        return hashlib.sha256(numbers + checksums + self.topic.encode()).digest()

    def length(self, index: int) -> int:
        """Bytes of a piece."""
        return min(self.piece_size, self.size - index * self.piece_size)

    def to_data(self, holder: bytes) -> dict[str, Any]:
        """An event's data that announces the file, and a contact that has it, packed."""
        parts = (self.name, self.size, self.piece_size, self.digest, self.pieces_digest, holder)
        return {_KEY: list(parts)}

    @classmethod
    def from_data(cls, data: Any, topic: str) -> tuple[Manifest, bytes] | None:
        """The manifest and the contact in the data of a topic's event; None when it announces no file."""
        parts = data.get(_KEY) if isinstance(data, dict) else None
        if not isinstance(parts, list) or len(parts) != 6:
            return None
        types = (str, int, int, bytes, bytes, bytes)
        if any(type(part) is not kind for part, kind in zip(parts, types, strict=True)):
            return None
        try:
            return cls(*(*parts[:5], topic)), parts[5]
        except UsageError:
            return None


def is_file_name(name: str) -> bool:
    """Whether a file may be called so on any system, and only within its directory."""
    return (
        0 < len(name.encode("utf-8", "replace")) <= 200
        and name == name.strip(". ")
        and name.isprintable()
        and not any(character in _FORBIDDEN for character in name)
    )


class FileError(CamcastError):
    """A file could not be read or written, or is not what was sent."""


@contextmanager
def disk_errors(path: Path, what: str) -> Iterator[None]:
    """Turn what the disk fails with into a `FileError`: this path cannot be opened, read, written."""
    try:
        yield
    except OSError as error:
        raise FileError(f"{path} cannot be {what}: {why(error)}") from None


class HashList:
    """The checksums of a file's pieces, fetched in parts and believed once all agree with the manifest."""

    def __init__(self, manifest: Manifest, hashes: bytes = b"") -> None:
        """`hashes` of all pieces are checked here: call it in a thread when there are any."""
        self._manifest = manifest
        self._hashes = bytearray()
        self.is_complete = False
        """All are there, and agree with the manifest."""
        self.add(0, hashes)
        self.check()

    def packed(self) -> bytes:
        return bytes(self._hashes)

    @property
    def known(self) -> int:
        """How many pieces have a checksum, in order from the first."""
        return len(self._hashes) // HASH_BYTES

    @property
    def is_full(self) -> bool:
        """Whether all are there; `check` says whether they are right."""
        return self.known == self._manifest.pieces

    def add(self, first: int, hashes: bytes) -> bool:
        """Append a part, unless it is not the next one; False when it cannot be one."""
        if len(hashes) % HASH_BYTES:
            return False
        if first == self.known and not self.is_full:
            if len(self._hashes) + len(hashes) > HASH_BYTES * self._manifest.pieces:
                return False
            self._hashes += hashes
        return True

    def check(self) -> bool:
        """Whether all are there and agree with the manifest; a full list that does not is empty again. It
        hashes up to 128 MiB, so it is called in a thread."""
        if self.is_full and not self.is_complete:
            self.is_complete = hashlib.sha256(self._hashes).digest() == self._manifest.pieces_digest
            if not self.is_complete:
                self._hashes = bytearray()
        return self.is_complete

    def replace(self, others: HashList) -> None:
        """Take over a complete list in place of what was known."""
        self._hashes, self.is_complete = others._hashes, others.is_complete

    def part(self, first: int) -> bytes:
        """The checksums from the piece `first` on, as many as one message takes."""
        start = first * HASH_BYTES
        return bytes(self._hashes[start : start + HASHES_A_MESSAGE * HASH_BYTES])

    def agrees(self, index: int, data: bytes) -> bool:
        """Whether these bytes are the piece; the list must be complete."""
        start = index * HASH_BYTES
        expected = self._hashes[start : start + HASH_BYTES]
        return hashlib.sha256(data).digest() == expected


class PieceSet:
    """Which pieces of a file somebody has, one bit a piece: a set of the numbers 0 to `total - 1`."""

    __slots__ = ("_bits", "count", "total")

    def __init__(self, total: int, bits: bytes = b"") -> None:
        self.total = total
        self._bits = bytearray(bits or bytes(-(-total // 8)))
        self.count = int.from_bytes(self._bits, "big").bit_count()

    @classmethod
    def full(cls, total: int) -> PieceSet:
        bits = bytearray(b"\xff" * -(-total // 8))
        if total % 8:
            bits[-1] = (1 << total % 8) - 1
        return cls(total, bytes(bits))

    @classmethod
    def unpack(cls, total: int, packed: bytes) -> PieceSet | None:
        """The set that `packed` gave; None for bytes of another length or with bits too many."""
        if len(packed) != -(-total // 8) or (total % 8 and packed[-1] >> total % 8):
            return None
        return cls(total, packed)

    def packed(self) -> bytes:
        return bytes(self._bits)

    @property
    def is_full(self) -> bool:
        return self.count == self.total

    def add(self, index: int) -> None:
        if index not in self:
            self._bits[index >> 3] |= 1 << (index & 7)
            self.count += 1

    def __contains__(self, index: int) -> bool:
        return bool(self._bits[index >> 3] >> (index & 7) & 1)

    def missing(self) -> Iterator[int]:
        return (index for index in range(self.total) if index not in self)
