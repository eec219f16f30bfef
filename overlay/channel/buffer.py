"""What a channel has to send: messages that wait, bounded in bytes, and the segments that they are cut into.

Messages are numbered as they come and cut into segments as they leave. Segments that leave together and hold
parts of one message are one `SegmentRun`: a message of many parts is cut, sent and acknowledged in few
steps.

A message may have a time after which it is of no use, or must not leave any more (`Until`). From then on it
is neither sent nor sent again. If a part of it was sent, or it shared a segment with others, what is sent
again under the segment's number is the rest without the message.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from itertools import islice
from math import inf

from overlay.channel.config import MESSAGE_OVERHEAD
from overlay.channel.packet import (
    BUNDLE,
    BUNDLE_HEAD_BYTES,
    FRAGMENT,
    LAST_PART,
    LENGTH_BYTES,
    LOW,
    NO_PART,
    PART_HEAD_BYTES,
    REST,
    PacketType,
    Parts,
    bundle_layout,
    bundle_room,
    encode_bundle,
)
from overlay.errors import UsageError

OnAck = Callable[[bool], None]
"""Called exactly once: True when the peer has the message, False when that will never be known."""


_BUNDLE = int(PacketType.BUNDLE)
_bundle_head = BUNDLE.pack
_one_message = bundle_layout(1).pack
"""The beginning of a bundle of one message."""


class Until:
    """Until when messages may be sent, on the clock that the channel is told the time of.

    Many messages share one; whoever gave it may change `at`, which is looked at whenever one of them is
    about to be sent or sent again."""

    __slots__ = ("at",)

    def __init__(self, at: float) -> None:
        self.at = at


_NEVER = Until(-inf)

MOST_LOOKED_AT = 128
"""Messages that one call of `withdraw` looks at: a peer can bring about many calls, and fill the buffer."""


class MessageTooLarge(UsageError):
    """The message exceeds the channel's `max_message`."""


class SegmentRun:
    """Segments with consecutive numbers that left together: one bundle, or parts of one message."""

    __slots__ = (
        "charge",
        "first",
        "full",
        "last_size",
        "message",
        "messages",
        "parts",
        "place",
        "resent",
        "segments",
        "sent_at",
        "transmission",
        "withdrawn",
    )

    def __init__(
        self, parts: Parts, message: int, messages: int, charge: int, size: int, place: int = 0
    ) -> None:
        """`size`: bytes of all segments; one that is cut says more."""
        self.parts = parts
        """The pieces of the bundle, or the one message that is cut."""
        self.message = message
        """The number of the message, or of the first one in the bundle."""
        self.messages = messages
        """Messages in the bundle; 0 for parts of one."""
        self.charge = charge
        """Bytes that an acknowledged bundle gives back to the send buffer."""
        self.place = place
        """Which part of the message the first segment holds, counted from 0."""
        self.segments = 1
        self.full = self.last_size = size
        """Bytes of each segment but the last, and of the last one."""
        self.first = 0
        """The number of the first segment."""
        self.transmission = 0
        """The place of the first segment in the order of everything sent."""
        self.sent_at = 0.0
        self.resent = False
        self.withdrawn = False
        """Messages of it have had their time: `parts` is a bundle of what is left."""

    @property
    def size(self) -> int:
        return (self.segments - 1) * self.full + self.last_size

    def again(self, first: int, segments: int) -> SegmentRun:
        """A run of some of these segments, to be sent once more."""
        run = SegmentRun(self.parts, self.message, self.messages, self.charge, self.full)
        run.first = first
        run.segments = segments
        run.full = self.full
        is_last = first + segments == self.first + self.segments
        run.last_size = self.last_size if is_last else self.full
        if not self.messages:
            run.place = self.place + first - self.first
        run.withdrawn = self.withdrawn
        run.resent = True
        return run

    def packet(self, mine: int, theirs: int, upto: int) -> Parts:
        """The one packet of a bundle."""
        return (_bundle_head(_BUNDLE, mine, theirs, upto & LOW, self.first & LOW), *self.parts)

    def packets(self, mine: int, theirs: int, upto: int) -> list[Parts]:
        """The packets between two sessions, with the acknowledgement of this end."""
        upto &= LOW
        if self.withdrawn:
            return self._rest_packets(mine, theirs, upto)
        if self.messages:
            return [self.packet(mine, theirs, upto)]
        kind, pack = int(PacketType.FRAGMENT), FRAGMENT.pack
        payload = memoryview(self.parts[0])
        length, part, place = len(payload), self.full - PART_HEAD_BYTES, self.place
        out: list[Parts] = []
        for number in range(self.first, self.first + self.segments):
            offset = place * part
            mark = LAST_PART if offset + part >= length else 0
            head = pack(kind, mine, theirs, upto, number & LOW, length, place | mark)
            out.append((head, payload[offset : offset + part]))
            place += 1
        return out

    def _rest_packets(self, mine: int, theirs: int, upto: int) -> list[Parts]:
        out: list[Parts] = []
        for number in range(self.first, self.first + self.segments):
            is_last = number == self.first + self.segments - 1
            size = self.last_size if is_last else self.full
            place = NO_PART if self.messages else self.place + number - self.first
            head = REST.pack(PacketType.REST, mine, theirs, upto, number & LOW, size, place)
            out.append((head, *self.parts))
        return out


class SendBuffer:
    """Bounded: each message is charged its size + 64 until it is acknowledged or lost.

    `outcomes` collects the callbacks of messages that are acknowledged or lost, for the owner to call.
    """

    def __init__(self, max_message: int, limit: int, room: int) -> None:
        """`room`: bytes of the largest segment."""
        self.used = 0
        self.waiting: deque[bytes] = deque()
        self.outcomes: list[tuple[OnAck, bool]] = []
        self._max_message = max_message
        self._limit = limit
        self._room = room
        self._whole = bundle_room(room)
        self._part = room - PART_HEAD_BYTES
        self._accepted = 0
        self.expired = 0
        """Messages that had their time before they were sent, or before they had to be sent again."""
        self._callbacks: dict[int, OnAck] = {}
        self._until: dict[int, Until] = {}
        self._withdrawn: set[int] = set()
        """Large messages that have had their time, until the receiver knows."""
        self.cutting: tuple[int, bytes, int] | None = None
        """A message that was sent in part: its number, its bytes, and how many of them were sent."""
        self._parts: dict[int, int] = {}
        """Parts of each large message that are not acknowledged, and one more while it is being cut."""

    def add(self, message: bytes, on_ack: OnAck | None, until: Until | None = None) -> bool:
        """False, and nothing kept, when the buffer is full; `MessageTooLarge` when it never fits."""
        size = len(message)
        if size > self._max_message:
            raise MessageTooLarge(
                f"a message of {size} bytes exceeds max_message, {self._max_message}: "
                "send less, or configure both ends for more"
            )
        used = self.used + size + MESSAGE_OVERHEAD
        if used > self._limit:
            return False
        self.used = used
        self.waiting.append(message)
        if on_ack is not None:
            self._callbacks[self._accepted] = on_ack
        if until is not None:
            self._until[self._accepted] = until
        self._accepted += 1
        return True

    def add_alone(
        self, message: bytes, on_ack: OnAck | None, until: Until | None
    ) -> SegmentRun | None:
        """As `add`, for a message that leaves now in a bundle of its own, where nothing else waits. None, and
        nothing kept, where it does not fit."""
        size = len(message)
        used = self.used + size + MESSAGE_OVERHEAD
        if size > self._whole or used > self._limit:
            return None
        self.used = used
        number = self._accepted
        self._accepted = number + 1
        if on_ack is not None:
            self._callbacks[number] = on_ack
        if until is not None:
            self._until[number] = until
        parts: Parts = (_one_message(1, size), message)
        charge = size + MESSAGE_OVERHEAD
        return SegmentRun(parts, number, 1, charge, size + BUNDLE_HEAD_BYTES + LENGTH_BYTES)

    @property
    def was_used(self) -> bool:
        """Whether a message was ever accepted."""
        return self._accepted > 0

    @property
    def has_unsent(self) -> bool:
        return bool(self.waiting) or self.cutting is not None

    def next_run(self, most: int, now: float) -> SegmentRun | None:
        """As many waiting messages as fit one segment, or at most `most` parts of a large message."""
        if self.cutting is not None:
            if self._has_expired(self.cutting[0], now):
                return self._withdraw_rest(*self.cutting)
            return self._cut(*self.cutting, most)
        waiting, untils = self.waiting, self._until
        first = self._accepted - len(waiting)
        until = untils.get(first)
        if until is not None and until.at <= now:
            self._drop_expired(now)
            first = self._accepted - len(waiting)
        if not waiting:
            return None
        if len(waiting[0]) > self._whole:
            self._parts[first] = 1
            return self._cut(first, waiting.popleft(), 0, most)
        take = waiting.popleft
        message = take()
        size = len(message)
        if (
            not waiting
        ):  # as below, and quicker: most messages that nothing waits behind leave alone
            parts: Parts = (_one_message(1, size), message)
            charge = size + MESSAGE_OVERHEAD
            return SegmentRun(parts, first, 1, charge, size + BUNDLE_HEAD_BYTES + LENGTH_BYTES)
        bundle = [message]
        room = self._whole - size
        while waiting:
            size = len(waiting[0]) + LENGTH_BYTES
            if size > room or (untils and self._has_expired(first + len(bundle), now)):
                break
            room -= size
            bundle.append(take())
        size = self._room - room
        count = len(bundle)
        overhead = count * (MESSAGE_OVERHEAD - LENGTH_BYTES) - BUNDLE_HEAD_BYTES
        # As `encode_bundle` does, without a call: this is done for every segment.
        parts = (bundle_layout(count).pack(count, *map(len, bundle)), *bundle)
        return SegmentRun(parts, first, count, size + overhead, size)

    def _cut(self, number: int, message: bytes, offset: int, most: int) -> SegmentRun:
        part, rest = self._part, len(message) - offset
        segments = min(-(-rest // part), most)
        run = SegmentRun((message,), number, 0, 0, 0, offset // part)
        run.segments = segments
        run.full = self._room
        taken = min(segments * part, rest)
        run.last_size = taken - (segments - 1) * part + PART_HEAD_BYTES
        self._parts[number] += segments
        if taken == rest:
            self._parts[number] -= 1
            self.cutting = None
        else:
            self.cutting = (number, message, offset + taken)
        return run

    # Messages that have had their time.

    def _has_expired(self, number: int, now: float) -> bool:
        until = self._until.get(number)
        return number in self._withdrawn if until is None else until.at <= now

    def _expire(self, number: int) -> None:
        if number not in self._withdrawn:
            self.expired += 1
            self._settle(number, False)
        if number in self._parts:
            self._withdrawn.add(number)

    def _drop_expired(self, now: float) -> None:
        """Let go of waiting messages, up to the first that may be sent."""
        waiting = self.waiting
        while waiting and self._has_expired(number := self._accepted - len(waiting), now):
            self.used -= len(waiting.popleft()) + MESSAGE_OVERHEAD
            self._expire(number)

    def _withdraw_rest(self, number: int, message: bytes, offset: int) -> SegmentRun:
        """One segment in place of the parts of a message that were not sent."""
        self.cutting = None
        size, place = len(message) - offset + PART_HEAD_BYTES, offset // self._part
        run = SegmentRun(encode_bundle(()), number, 0, 0, size, place)
        run.withdrawn = True
        self._expire(number)
        return run

    def withdraw(self, is_unwanted: Callable[[bytes], bool]) -> None:
        """Let none of the next messages leave that the peer does not want: they count as expired."""
        number = self._accepted - len(self.waiting)
        for message in islice(self.waiting, MOST_LOOKED_AT):
            if is_unwanted(message):
                self._until[number] = _NEVER
            number += 1

    def withdraw_expired(self, run: SegmentRun, now: float) -> None:
        """Take messages that have had their time out of a run that is about to be sent again."""
        if run.withdrawn or not (self._until or self._withdrawn):
            return
        numbers = range(run.message, run.message + max(run.messages, 1))
        expired = [number for number in numbers if self._has_expired(number, now)]
        if not expired:
            return
        run.withdrawn = True
        left = run.parts[1:] if run.messages else ()
        kept = [bytes(m) for n, m in zip(numbers, left, strict=False) if n not in expired]
        run.parts = encode_bundle(kept)
        for number in expired:
            self._expire(number)

    def acknowledged(self, run: SegmentRun, segments: int, size: int) -> None:
        """Some segments of a run arrived, `size` bytes of them."""
        number = run.message
        if run.messages:
            self.used -= run.charge
            callbacks, untils = self._callbacks, self._until
            if callbacks or untils:
                # As `_settle` does, without a call: this is done for every message.
                for one in range(number, number + run.messages):
                    untils.pop(one, None)
                    if (callback := callbacks.pop(one, None)) is not None:
                        self.outcomes.append((callback, True))
            return
        self.used -= size - segments * PART_HEAD_BYTES
        left = self._parts[number] - segments
        if left:
            self._parts[number] = left
        else:
            del self._parts[number]
            self._withdrawn.discard(number)
            self.used -= MESSAGE_OVERHEAD
            self._settle(number, True)

    def lose(self, runs: list[tuple[SegmentRun, int, int]]) -> int:
        """Give up everything that was sent: runs, and the segments and bytes of each that did not arrive.

        Returns how many messages were lost.
        """
        lost = 0
        for run, segments, size in runs:
            self.used -= run.charge if run.messages else size - segments * PART_HEAD_BYTES
            lost += run.messages
            for number in range(run.message, run.message + run.messages):
                self._settle(number, False)
        for number in self._parts:
            lost += 1
            self.used -= MESSAGE_OVERHEAD
            self._settle(number, False)
        self._parts.clear()
        self._withdrawn.clear()
        if self.cutting is not None:
            _, message, offset = self.cutting
            self.used -= len(message) - offset
            self.cutting = None
        return lost

    def lose_waiting(self) -> int:
        """Give up the messages that were never sent; how many they were."""
        lost = len(self.waiting)
        for message in self.waiting:
            self.used -= len(message) + MESSAGE_OVERHEAD
        self.waiting.clear()
        for number in range(self._accepted - lost, self._accepted):
            self._settle(number, False)
        return lost

    def _settle(self, number: int, arrived: bool) -> None:
        self._until.pop(number, None)
        callback = self._callbacks.pop(number, None)
        if callback is not None:
            self.outcomes.append((callback, arrived))
