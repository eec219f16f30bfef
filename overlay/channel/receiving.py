"""The receiving side of a channel: duplicates, large messages, how much may come, and what to acknowledge."""

from __future__ import annotations

from collections import deque
from math import inf

from overlay.channel.config import MAX_FLIGHT, ChannelConfig
from overlay.channel.packet import (
    LAST_PART,
    MAX_SELECTIVE_BYTES,
    NO_PART,
    PART_HEAD_BYTES,
    ChannelRefused,
    decode_bundle,
)
from overlay.transport.frame import MAX_DATAGRAM, Buffer

SEGMENTS_AN_ACK = 8
"""Full segments that are acknowledged together at most; fewer than the window that a sender begins with."""

MORE_SMALL_SEGMENTS = 4
"""Of small segments, less than this many more are acknowledged together; how many depends on the session.
Many nodes receive the same events: if all acknowledged the same ones, they would do so at once."""

FULL_SEGMENTS_AN_ACK = 4
"""Full segments that are acknowledged together, where more of them are much: a sender's smallest window."""

MUCH_BYTES = 16 * 1024
"""Bytes that need an acknowledgement before `ack_delay`, unless they are fewer full segments than above."""

NOTHING: list[Buffer] = []

WITHDRAWN_KNOWN = 64
"""Withdrawn messages that are remembered, so that parts of them which come late are not kept."""


class ReceiveBudget:
    """Memory that all channels of a node share: a number of bytes, reserved and released."""

    __slots__ = ("limit", "used")

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.used = 0

    def reserve(self, size: int) -> bool:
        """False, and nothing reserved, when less than `size` is left."""
        if self.used + size > self.limit:
            return False
        self.used += size
        return True

    def release(self, size: int) -> None:
        self.used -= size


class _Partial:
    __slots__ = ("buffer", "missing", "segment_bytes")

    def __init__(self, length: int) -> None:
        self.buffer = bytearray(length)
        self.missing = length
        self.segment_bytes = 0


class Reassembly:
    """The incomplete messages of one session, each by the number of its first segment.

    A message's whole length is reserved when its first part comes, so that one that was begun can always be
    completed: parts are refused only of messages that were not.
    """

    def __init__(self, limit: int, budget: ReceiveBudget) -> None:
        """`limit`: bytes of incomplete messages of this session; `budget`: those of the node."""
        self._limit = limit
        self._budget = budget
        self._reserved = 0
        self._partials: dict[int, _Partial] = {}
        self._withdrawn: dict[int, None] = {}

    def __len__(self) -> int:
        return len(self._partials)

    def add(self, number: int, length: int, offset: int, part: Buffer) -> tuple[bytes, int] | None:
        """The message that this part completes, with the bytes of all its segments, or None.

        `ChannelRefused`, and nothing changed, when there is no memory for another message.
        """
        partial = self._partials.get(number)
        if partial is None:
            partial = self._begin(number, length)
        elif len(partial.buffer) != length:
            raise ChannelRefused("malformed")
        size = len(part)
        partial.buffer[offset : offset + size] = part
        partial.missing -= size
        partial.segment_bytes += size + PART_HEAD_BYTES
        if partial.missing > 0:
            return None
        self._end(number)
        return bytes(partial.buffer), partial.segment_bytes

    def withdraw(self, number: int) -> int:
        """A message will never be complete: drop its parts; the bytes of their segments."""
        if len(self._withdrawn) >= WITHDRAWN_KNOWN:
            del self._withdrawn[next(iter(self._withdrawn))]
        self._withdrawn[number] = None
        partial = self._partials.get(number)
        if partial is None:
            return 0
        self._end(number)
        return partial.segment_bytes

    def is_withdrawn(self, number: int) -> bool:
        return number in self._withdrawn

    def _begin(self, number: int, length: int) -> _Partial:
        if self._reserved + length > self._limit or not self._budget.reserve(length):
            raise ChannelRefused("receive_memory_full")
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
        self._withdrawn.clear()
        return dropped


class ReceiveWindow:
    """Takes each segment once, and hands its messages up at once unless paused.

    A segment counts as received only when everything it holds is handed up or kept. What is kept (while
    paused, or until a large message is complete) stays within the channel's `receive_buffer` and the node's
    `ReceiveBudget`; `limit` tells the sender to stop before that.
    """

    def __init__(self, config: ChannelConfig, budget: ReceiveBudget) -> None:
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
        """While paused: segments, and messages put together from parts (marked True)."""
        self._reassembly = Reassembly(config.receive_buffer + config.max_message, budget)

    @property
    def has_backlog(self) -> bool:
        """Whether whole messages wait to be handed up."""
        return bool(self._backlog)

    @property
    def limit(self) -> int:
        """Bytes of segments that the sender may send in the whole session; it only grows."""
        return self._received - self.held + self._buffer

    def take_bundle(self, number: int, segment: Buffer) -> list[Buffer]:
        """The messages to hand up now; `ChannelRefused` when the segment is not taken."""
        if number != self.next or self.above:
            self._check_new(number)
        messages = decode_bundle(segment)
        size = len(segment)
        if self.paused:
            self._check_room(size)
            if not self._budget.reserve(size):
                raise ChannelRefused("receive_memory_full")
            self._keep(bytes(segment), False)
            messages = []
        self._received += size
        if number == self.next and not self.above:
            self.next = number + 1
        else:
            self._mark(number)
        return messages

    def take_part(self, number: int, length: int, place: int, part: Buffer) -> list[Buffer]:
        """The message that a part completes, if it does; `ChannelRefused` when the part is not taken."""
        if number != self.next or self.above:
            self._check_new(number)
        is_last = place >= LAST_PART
        place &= ~LAST_PART
        offset = length - len(part) if is_last else place * len(part)
        if not part or length > self._max_message or not 0 <= offset <= length - len(part):
            raise ChannelRefused("malformed")
        size = len(part) + PART_HEAD_BYTES
        first = number - place
        if self._reassembly.is_withdrawn(first):
            self._received += size
            self._mark(number)
            return NOTHING
        if self.held + size > self._buffer:
            raise ChannelRefused("receive_buffer_full")
        complete = self._reassembly.add(first, length, offset, part)
        self._received += size
        self.held += size
        self._mark(number)
        if complete is None:
            return NOTHING
        message, segment_bytes = complete
        self.held -= segment_bytes
        if not self.paused:
            return [message]
        self._budget.reserve(length)
        self._keep(message, True)
        return NOTHING

    def take_rest(self, number: int, size: int, place: int, segment: Buffer) -> list[Buffer]:
        """The messages that are left of a segment of `size` bytes; `ChannelRefused` when none is taken.

        `place`: which part of a message that is withdrawn the segment was, or `NO_PART`."""
        if size > max(self._max_message, MAX_DATAGRAM) + PART_HEAD_BYTES or len(segment) > size:
            raise ChannelRefused("malformed")
        messages = self.take_bundle(number, segment)
        self._received += size - len(segment)
        if place != NO_PART:
            self.held -= self._reassembly.withdraw(number - place)
        return messages

    def resume(self) -> list[Buffer]:
        """Hand up what was kept while paused, and whatever comes from now on at once."""
        self.paused = False
        messages: list[Buffer] = []
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
            raise ChannelRefused("receive_buffer_full")

    def _check_new(self, number: int) -> None:
        ahead = number - self.next
        if ahead >= MAX_FLIGHT:
            raise ChannelRefused("beyond_window")
        if ahead < 0 or self.above >> ahead & 1:
            raise ChannelRefused("duplicate")

    def _mark(self, number: int) -> None:
        above = self.above | 1 << (number - self.next)
        run = (~above & (above + 1)).bit_length() - 1
        self.next += run
        self.above = above >> run


class Receiver:
    """Says when and what to acknowledge: at once after four full segments, after eight where datagrams are
    small, and after eight to eleven that are not full (see `together`); whatever is left after `ack_delay`.

    While a segment is missing, or came again, the sender is to know soon: at once, unless it was told
    something within the last `ack_delay`. Where datagrams are lost by chance one is missing nearly always,
    and an acknowledgement for each segment would cost nearly as much as the losses do."""

    def __init__(self, config: ChannelConfig, budget: ReceiveBudget, full_segment: int) -> None:
        """`full_segment`: bytes of a full one, if the peer's datagrams are as large as ours."""
        self.inbox = ReceiveWindow(config, budget)
        self.ack_due = False
        """An acknowledgement is to leave now."""
        self.ack_at: float | None = None
        """When one is to leave at the latest."""
        self.together = SEGMENTS_AN_ACK
        """How many small segments are acknowledged together."""
        self._delay = config.ack_delay
        few = (FULL_SEGMENTS_AN_ACK - 1) * full_segment
        self._much = max(few, min((SEGMENTS_AN_ACK - 1) * full_segment, MUCH_BYTES - 1))
        self._limit_step = config.receive_buffer // 4
        self.restart()

    def restart(self) -> None:
        """Begin a new session."""
        self.inbox.restart()
        self._told_limit = 0
        self.acknowledged(-inf)

    def tell_limit(self) -> int:
        """The limit, which is told to the sender now."""
        self._told_limit = self.inbox.limit
        return self._told_limit

    def rode(self, now: float) -> None:
        """A segment left, and the acknowledgement that is due with it. It takes an ACK to say which segments
        are missing, and that the limit has grown."""
        inbox = self.inbox
        if not inbox.above and inbox.limit - self._told_limit < self._limit_step:
            self.acknowledged(now)

    def acknowledged(self, now: float) -> None:
        """A packet left with the acknowledgement of everything that has arrived."""
        self.ack_due = False
        self.ack_at = None
        self._acked_at = now
        self._segments = self._bytes = 0
        """Not acknowledged yet."""

    def taken(self, size: int, now: float) -> None:
        """A segment of `size` bytes was taken: decide when to acknowledge it."""
        self._segments += 1
        self._bytes += size
        if self._bytes > self._much or self._segments >= self.together:
            self.ack_due = True
        elif self.inbox.above:
            self.soon(now)
        elif self.ack_at is None:
            self.ack_at = now + self._delay

    def soon(self, now: float) -> None:
        """The sender is to know what has arrived."""
        at = self._acked_at + self._delay
        if at <= now:
            self.ack_due = True
        elif self.ack_at is None or at < self.ack_at:
            self.ack_at = at

    def handle_timer(self, now: float) -> None:
        if self.ack_at is not None and now >= self.ack_at:
            self.ack_at = None
            self.ack_due = True

    def selective_bits(self) -> bytes:
        """Which segments after the first missing one have arrived; empty when none is missing."""
        above = self.inbox.above
        if not above:
            return b""
        size = min((above.bit_length() + 7) // 8, MAX_SELECTIVE_BYTES)
        return (above & (1 << 8 * size) - 1).to_bytes(size, "little")
