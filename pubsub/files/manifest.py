"""What a file is, as its sender announces it: name, size, pieces, checksums."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Any

from overlay.errors import UsageError

PIECE_BYTES = 256 * 1024
"""Of every piece but the last."""
MAX_PIECE_BYTES = 512 * 1024
MAX_PIECES = 4 * 1024 * 1024
HASH_BYTES = 32
"""SHA-256 throughout."""
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

    def __post_init__(self) -> None:
        if not is_file_name(self.name):
            raise UsageError(f"{self.name!r:.60} is no name that a file can have everywhere")
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
        """Of the content, whatever its name."""
        numbers = self.size.to_bytes(8, "big") + self.piece_size.to_bytes(8, "big")
        return hashlib.sha256(numbers + self.digest + self.pieces_digest).digest()

    def length(self, index: int) -> int:
        """Bytes of a piece."""
        return min(self.piece_size, self.size - index * self.piece_size)

    def to_data(self, holder: bytes) -> dict[str, Any]:
        """An event's data that announces the file, and a contact that has it, packed."""
        parts = (self.name, self.size, self.piece_size, self.digest, self.pieces_digest, holder)
        return {_KEY: list(parts)}

    @classmethod
    def from_data(cls, data: Any) -> tuple[Manifest, bytes] | None:
        """The manifest and the contact in an event's data; None when it announces no file."""
        parts = data.get(_KEY) if isinstance(data, dict) else None
        if not isinstance(parts, list) or len(parts) != 6:
            return None
        types = (str, int, int, bytes, bytes, bytes)
        if any(type(part) is not kind for part, kind in zip(parts, types, strict=True)):
            return None
        try:
            return cls(*parts[:5]), parts[5]
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
