"""What holders of a file say to one another."""

from __future__ import annotations

from dataclasses import dataclass

from overlay.contact import Contact
from overlay.wire import message


@message(0x7C)
@dataclass(frozen=True, slots=True)
class Holds:
    """What the sender has of a file."""

    file: bytes
    pieces: bytes
    """A `PieceSet`, packed."""
    peers: tuple[Contact, ...]
    """Some others that have pieces of it or want them."""
    answer: bool
    """Whether the receiver is to say the same of itself."""


@message(0x7D)
@dataclass(frozen=True, slots=True)
class Wanted:
    """Asks for pieces, or for the checksums of all pieces from `hashes_from` on."""

    file: bytes
    pieces: tuple[int, ...]
    hashes_from: int | None


@message(0x7E)
@dataclass(frozen=True, slots=True)
class Piece:
    """A piece of a file."""

    file: bytes
    index: int
    data: bytes


@message(0x7F)
@dataclass(frozen=True, slots=True)
class PieceHashes:
    """Checksums of the pieces from `first` on, one after the other."""

    file: bytes
    first: int
    hashes: bytes
