"""Large messages put together from their fragments."""

from __future__ import annotations

from overlay.channel.protocol.budget import Budget
from overlay.channel.protocol.packet import Refused


class _Partial:
    __slots__ = ("buffer", "missing", "segment_bytes")

    def __init__(self, length: int) -> None:
        self.buffer = bytearray(length)
        self.missing = length
        self.segment_bytes = 0


class Reassembly:
    """The incomplete messages of one session.

    A message's whole length is reserved when its first fragment comes, so that one that was begun can
    always be completed: fragments are refused only of messages that were not.
    """

    def __init__(self, limit: int, budget: Budget) -> None:
        """`limit`: bytes of incomplete messages of this session; `budget`: those of the node."""
        self._limit = limit
        self._budget = budget
        self._reserved = 0
        self._partials: dict[int, _Partial] = {}

    def __len__(self) -> int:
        return len(self._partials)

    def add(
        self, number: int, length: int, offset: int, part: memoryview, segment_bytes: int
    ) -> tuple[bytes, int] | None:
        """The message that this part completes, with the bytes of all its segments, or None.

        `Refused`, and nothing changed, when there is no memory for another message.
        """
        partial = self._partials.get(number)
        if partial is None:
            partial = self._begin(number, length)
        elif len(partial.buffer) != length:
            raise Refused("malformed")
        partial.buffer[offset : offset + len(part)] = part
        partial.missing -= len(part)
        partial.segment_bytes += segment_bytes
        if partial.missing > 0:
            return None
        self._end(number)
        return bytes(partial.buffer), partial.segment_bytes

    def _begin(self, number: int, length: int) -> _Partial:
        if self._reserved + length > self._limit or not self._budget.reserve(length):
            raise Refused("receive_memory_full")
        self._reserved += length
        partial = self._partials[number] = _Partial(length)
        return partial

    def _end(self, number: int) -> None:
        length = len(self._partials.pop(number).buffer)
        self._reserved -= length
        self._budget.release(length)

    def clear(self) -> int:
        """Drop every incomplete message; the bytes of their segments."""
        dropped = sum(partial.segment_bytes for partial in self._partials.values())
        for number in list(self._partials):
            self._end(number)
        return dropped
