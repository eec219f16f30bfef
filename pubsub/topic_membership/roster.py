"""Who has subscribed to a topic: entries that merge in any order to the same result, and a digest of them."""

from __future__ import annotations

import hashlib

from overlay.contact import PeerId
from pubsub.topic_membership.messages import FINGERPRINT_BYTES, Entry

_MODULUS = 1 << (8 * FINGERPRINT_BYTES)


def hashed(*parts: bytes | int) -> int:
    """A 64-bit hash. Sums of such hashes are digests that do not depend on any order."""
    text = b"".join(
        part if isinstance(part, bytes) else part.to_bytes(8, "big", signed=True) for part in parts
    )
    return int.from_bytes(hashlib.blake2b(text, digest_size=FINGERPRINT_BYTES).digest(), "big")


def as_bytes(digest: int) -> bytes:
    return (digest % _MODULUS).to_bytes(FINGERPRINT_BYTES, "big")


class Roster:
    """The participants, and for a while those who left.

    Two rosters that have seen the same entries, in whatever order and however often, are equal.
    """

    def __init__(self, most: int) -> None:
        self.joined: dict[PeerId, Entry] = {}
        """The participants, reachable or not."""
        self.digest = 0
        """Of who has joined, with their boots; those who left do not count."""
        self.revisions = 0
        """Digest of the filters that were changed."""
        self.left: dict[PeerId, tuple[Entry, float]] = {}
        """Those who left, and when this was heard."""
        self._most = most

    @property
    def is_full(self) -> bool:
        """Whether one more participant is refused."""
        return len(self.joined) >= self._most

    def get(self, peer: PeerId) -> Entry | None:
        """The entry of a participant, or of one that left."""
        entry = self.joined.get(peer)
        if entry is None and peer in self.left:
            entry = self.left[peer][0]
        return entry

    def merge(self, entry: Entry, now: float) -> bool:
        """Take an entry; False when it is no news, or there is no room for one more participant.

        Of those who left, as many are remembered as may take part; the one that left first is forgotten."""
        known = self.get(entry.id)
        if known is not None and entry.stamp <= known.stamp:
            return False
        if not entry.left and entry.id not in self.joined and self.is_full:
            return False
        self._remove(entry.id)
        if entry.left:
            self.left[entry.id] = (entry, now)
            if len(self.left) > self._most:
                del self.left[next(iter(self.left))]
        else:
            self.joined[entry.id] = entry
            self.digest += hashed(entry.id, entry.boot)
            self.revisions += _hash_of_revision(entry)
        return True

    def forget_left(self, before: float) -> list[PeerId]:
        """Forget those of whom it was heard before a time that they left."""
        old = [peer for peer, (_, heard) in self.left.items() if heard < before]
        for peer in old:
            del self.left[peer]
        return old

    def _remove(self, peer: PeerId) -> None:
        self.left.pop(peer, None)
        entry = self.joined.pop(peer, None)
        if entry is not None:
            self.digest -= hashed(entry.id, entry.boot)
            self.revisions -= _hash_of_revision(entry)


def _hash_of_revision(entry: Entry) -> int:
    return hashed(entry.id, entry.boot, entry.revision) if entry.revision else 0
