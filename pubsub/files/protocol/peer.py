"""Another holder of a file, as one holder sees it."""

from __future__ import annotations

from overlay.contact import Contact
from pubsub.files.protocol.piece_set import PieceSet


class Peer:
    """What it has, what it was asked for, and when it was last heard."""

    __slots__ = ("asked", "bad", "contact", "heard_at", "pieces")

    def __init__(self, contact: Contact, now: float) -> None:
        self.contact = contact
        self.heard_at = now
        self.pieces: PieceSet | None = None
        """None until it has told."""
        self.asked: dict[int, float] = {}
        """Pieces asked of it and not come yet, and since when."""
        self.bad = 0
        """Pieces from it whose checksum was wrong."""
