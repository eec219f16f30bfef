"""Frames that wait to leave, gathered into datagrams by destination."""

from __future__ import annotations

from collections import deque

from overlay.contact import Address
from overlay.frame import FRAME_HEAD_BYTES, frame_head


class Batch:
    """The frames of one datagram to be: heads and bodies in turn."""

    __slots__ = ("parts", "size", "to")

    def __init__(self, to: Address) -> None:
        self.to = to
        self.parts: list[bytes] = []
        self.size = 0

    @property
    def frames(self) -> int:
        return len(self.parts) // 2


class Outbox:
    """A bounded queue of datagrams, each of which takes frames until it leaves or is full.

    Datagrams leave in the order in which their first frames came; frames to one address keep theirs.
    """

    def __init__(self, room: int, limit: int) -> None:
        """`room`: bytes of frames in one datagram; `limit`: bytes of frames in all."""
        self.size = 0
        self._room = room
        self._limit = limit
        self._batches: deque[Batch] = deque()
        self._filling: dict[Address, Batch] = {}

    def __len__(self) -> int:
        """Datagrams that wait."""
        return len(self._batches)

    def put(self, to: Address, kind: int, body: bytes) -> bool:
        """Queue a frame that fits a datagram; False, and nothing queued, when there is no space."""
        size = FRAME_HEAD_BYTES + len(body)
        if self.size + size > self._limit:
            return False
        batch = self._filling.get(to)
        if batch is None or batch.size + size > self._room:
            batch = self._filling[to] = Batch(to)
            self._batches.append(batch)
        parts = batch.parts
        parts.append(frame_head(kind, len(body)))
        parts.append(body)
        batch.size += size
        self.size += size
        return True

    def take(self) -> Batch:
        """The datagram that waited longest, which takes no more frames from now on."""
        batch = self._batches.popleft()
        if self._filling.get(batch.to) is batch:
            del self._filling[batch.to]
        self.size -= batch.size
        return batch
