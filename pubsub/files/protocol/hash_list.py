"""The checksums of a file's pieces, fetched in parts and believed once all agree with the manifest."""

from __future__ import annotations

import hashlib

from pubsub.files.manifest import HASH_BYTES, Manifest

HASHES_A_MESSAGE = 16_384


class HashList:
    """Empty, growing, or complete and checked."""

    def __init__(self, manifest: Manifest, hashes: bytes = b"") -> None:
        self._manifest = manifest
        self._hashes = bytearray()
        self.is_complete = False
        self.add(0, hashes)

    def packed(self) -> bytes:
        return bytes(self._hashes)

    @property
    def known(self) -> int:
        """How many pieces have a checksum, in order from the first."""
        return len(self._hashes) // HASH_BYTES

    def add(self, first: int, hashes: bytes) -> bool:
        """Append a part, unless it is not the next one; False when it cannot be one, or when the whole does
        not agree with the manifest: the list is empty again then."""
        if len(hashes) % HASH_BYTES or len(hashes) > HASH_BYTES * self._manifest.pieces:
            return False
        if first != self.known or self.is_complete:
            return True
        self._hashes += hashes
        if self.known < self._manifest.pieces:
            return True
        self.is_complete = hashlib.sha256(self._hashes).digest() == self._manifest.pieces_digest
        if not self.is_complete:
            self._hashes.clear()
        return self.is_complete

    def replace(self, hashes: bytes) -> None:
        """All of them, in place of what was known; they must agree with the manifest."""
        self._hashes.clear()
        self.add(0, hashes)

    def part(self, first: int) -> bytes:
        """As many checksums as a message takes, from the piece `first` on."""
        start = first * HASH_BYTES
        return bytes(self._hashes[start : start + HASHES_A_MESSAGE * HASH_BYTES])

    def agrees(self, index: int, data: bytes) -> bool:
        """Whether these bytes are the piece; the list must be complete."""
        start = index * HASH_BYTES
        expected = self._hashes[start : start + HASH_BYTES]
        return hashlib.sha256(data).digest() == expected
