"""The receiving side of a channel: duplicates, fragments, and how much the sender may send."""

from __future__ import annotations

from collections import deque

from overlay.channel.protocol.budget import Budget
from overlay.channel.protocol.config import MAX_FLIGHT, ChannelConfig
from overlay.channel.protocol.packet import Refused
from overlay.channel.protocol.reassembly import Reassembly
from overlay.channel.protocol.segment import FRAGMENT_HEAD, decode_bundle, decode_fragment


class Inbox:
    """Takes each segment once, and hands its messages up at once unless paused.

    A segment counts as received only when everything it holds is handed up or kept. What is kept (while
    paused, or until a large message is complete) stays within the channel's `receive_buffer` and the node's
    `Budget`; `limit` tells the sender to stop before that.
    """

    def __init__(self, config: ChannelConfig, budget: Budget) -> None:
        self.next = 0
        """The first number that has not been received."""
        self.above = 0
        """Bit i: segment `next` + i has been received; bit 0 never is."""
        self.paused = False
        self.held = 0
        """Bytes kept: paused, or parts of incomplete messages."""
        self._buffer = config.receive_buffer
        self._max_message = config.max_message
        self._budget = budget
        self._received = 0
        self._backlog: deque[tuple[bytes, bool]] = deque()
        """While paused: segments, and messages put together from fragments (marked True)."""
        self._reassembly = Reassembly(config.receive_buffer + config.max_message, budget)

    @property
    def has_backlog(self) -> bool:
        """Whether whole messages wait to be handed up."""
        return bool(self._backlog)

    @property
    def limit(self) -> int:
        """Bytes of segments that the sender may send in the whole session; it only grows."""
        return self._received - self.held + self._buffer

    def take_bundle(self, number: int, segment: bytes) -> list[bytes]:
        """The messages to hand up now; `Refused` when the segment is not taken."""
        if number != self.next or self.above:
            self._check_new(number)
        messages = decode_bundle(segment)
        size = len(segment)
        if self.paused:
            self._check_room(size)
            if not self._budget.reserve(size):
                raise Refused("receive_memory_full")
            self._keep(segment, False)
            messages = []
        self._received += size
        self._mark(number)
        return messages

    def take_fragment(self, number: int, segment: bytes) -> list[bytes]:
        """The message that the fragment completes, if it does; `Refused` when it is not taken."""
        self._check_new(number)
        size = len(segment)
        self._check_room(size)
        message_number, length, offset = decode_fragment(segment, self._max_message)
        part = memoryview(segment)[FRAGMENT_HEAD.size :]
        complete = self._reassembly.add(message_number, length, offset, part, size)
        self._received += size
        self.held += size
        self._mark(number)
        if complete is None:
            return []
        message, segment_bytes = complete
        self.held -= segment_bytes
        if not self.paused:
            return [message]
        self._budget.reserve(length)
        self._keep(message, True)
        return []

    def resume(self) -> list[bytes]:
        """Hand up what was kept while paused, and whatever comes from now on at once."""
        self.paused = False
        messages: list[bytes] = []
        for data, is_message in self._backlog:
            messages += [data] if is_message else decode_bundle(data)
            self._budget.release(len(data))
            self.held -= len(data)
        self._backlog.clear()
        return messages

    def restart(self) -> None:
        """Begin a new session: numbers from 0, incomplete messages dropped, complete ones kept."""
        self.next = self.above = self._received = 0
        self.held -= self._reassembly.clear()

    def discard(self) -> None:
        """Give all memory back."""
        self.restart()
        for data, _ in self._backlog:
            self._budget.release(len(data))
        self._backlog.clear()
        self.held = 0

    def _keep(self, data: bytes, is_message: bool) -> None:
        self.held += len(data)
        self._backlog.append((data, is_message))

    def _check_room(self, size: int) -> None:
        if self.held + size > self._buffer:
            raise Refused("receive_buffer_full")

    def _check_new(self, number: int) -> None:
        ahead = number - self.next
        if ahead >= MAX_FLIGHT:
            raise Refused("beyond_window")
        if ahead < 0 or self.above >> ahead & 1:
            raise Refused("duplicate")

    def _mark(self, number: int) -> None:
        if number == self.next and not self.above:
            self.next += 1
            return
        above = self.above | 1 << (number - self.next)
        run = (~above & (above + 1)).bit_length() - 1
        self.next += run
        self.above = above >> run
