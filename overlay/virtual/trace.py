"""One number for a whole run: the hash of every datagram and what became of it."""

from __future__ import annotations

import hashlib
from array import array

_FLUSH = 8192


class Trace:
    """Folds records of numbers into a hash; two runs are the same when their hashes are.

    Numbers are kept as doubles: an IPv4 address and port (48 bits) and a size fit exactly.
    """

    def __init__(self) -> None:
        self._pending: list[float] = []
        self._digest = hashlib.blake2b(digest_size=16)

    def record(self, *numbers: float) -> None:
        pending = self._pending
        pending.extend(numbers)
        if len(pending) > _FLUSH:
            self._fold()

    def _fold(self) -> None:
        self._digest.update(array("d", self._pending).tobytes())
        self._pending.clear()

    @property
    def hash(self) -> str:
        """The hash of all records up to now, as 32 hexadecimal digits."""
        self._fold()
        return self._digest.hexdigest()
