"""Messages on the sending side, from being accepted until they are acknowledged or lost."""

from __future__ import annotations

from collections import deque

from overlay.channel.protocol.config import MESSAGE_OVERHEAD
from overlay.channel.protocol.packet import PacketType
from overlay.channel.protocol.segment import (
    BUNDLE_HEAD_BYTES,
    FRAGMENT_HEAD,
    LENGTH_BYTES,
    bundle_room,
    encode_bundle,
    encode_fragment,
)
from overlay.channel.protocol.state import OnAck
from overlay.errors import UsageError


class MessageTooLarge(UsageError):
    """The message exceeds the channel's `max_message`."""


class Segment:
    """A segment that was sent: never altered, only sent again."""

    __slots__ = (
        "charge",
        "count",
        "first",
        "kind",
        "number",
        "payload",
        "resent",
        "sent_at",
        "size",
        "transmission",
    )

    def __init__(self, kind: int, payload: bytes, first: int, count: int, charge: int) -> None:
        self.kind = kind
        self.payload = payload
        self.size = len(payload)
        self.first = first
        self.count = count
        self.charge = charge
        self.number = 0
        self.sent_at = 0.0
        self.transmission = 0
        self.resent = False


class SendBuffer:
    """Bounded: each message is charged its size + 64 until it is acknowledged or lost.

    Messages are numbered as they come and cut into segments as they leave. `outcomes` collects the callbacks
    of those that are acknowledged or lost, for the owner to call.
    """

    def __init__(self, max_message: int, limit: int, segment_room: int) -> None:
        self.used = 0
        self.waiting: deque[bytes] = deque()
        self.outcomes: list[tuple[OnAck, bool]] = []
        self._max_message = max_message
        self._limit = limit
        self._segment_room = segment_room
        self._whole = bundle_room(segment_room)
        self._accepted = 0
        self._callbacks: dict[int, OnAck] = {}
        self._cutting: tuple[int, bytes, int] | None = None
        self._parts: dict[int, int] = {}
        """Fragments of each large message that are not acknowledged, and one more while it is being cut."""

    def add(self, message: bytes, on_ack: OnAck | None) -> bool:
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
        self._accepted += 1
        return True

    @property
    def is_cutting(self) -> bool:
        """Whether a message was sent in part."""
        return self._cutting is not None

    @property
    def has_unsent(self) -> bool:
        return bool(self.waiting) or self._cutting is not None

    def next_segment(self) -> Segment | None:
        """As many waiting messages as fit one segment, or the next part of a large one."""
        if self._cutting is not None:
            return self._cut(*self._cutting)
        waiting = self.waiting
        if not waiting:
            return None
        first = self._accepted - len(waiting)
        if len(waiting[0]) > self._whole:
            self._parts[first] = 1
            return self._cut(first, waiting.popleft(), 0)
        room = self._segment_room - BUNDLE_HEAD_BYTES
        take = waiting.popleft
        bundle: list[bytes] = []
        while waiting:
            size = len(waiting[0]) + LENGTH_BYTES
            if size > room:
                break
            room -= size
            bundle.append(take())
        payload = encode_bundle(bundle)
        count = len(bundle)
        overhead = count * (MESSAGE_OVERHEAD - LENGTH_BYTES) - BUNDLE_HEAD_BYTES
        return Segment(PacketType.BUNDLE, payload, first, count, len(payload) + overhead)

    def _cut(self, number: int, message: bytes, offset: int) -> Segment:
        size = min(self._segment_room - FRAGMENT_HEAD.size, len(message) - offset)
        payload = encode_fragment(number, message, offset, size)
        is_last = offset + size == len(message)
        if is_last:
            self._cutting = None
        else:
            self._cutting = (number, message, offset + size)
            self._parts[number] += 1
        charge = size + (MESSAGE_OVERHEAD if is_last else 0)
        return Segment(PacketType.FRAGMENT, payload, number, 0, charge)

    def acknowledged(self, segment: Segment) -> None:
        self.used -= segment.charge
        if segment.count:
            if self._callbacks:
                for number in range(segment.first, segment.first + segment.count):
                    self._settle(number, True)
        else:
            number = segment.first
            self._parts[number] -= 1
            if not self._parts[number]:
                del self._parts[number]
                self._settle(number, True)

    def lose(self, segments: list[Segment]) -> int:
        """Give up these segments, which are all that were sent; how many messages were lost with them."""
        lost = 0
        for segment in segments:
            self.used -= segment.charge
            lost += segment.count
            for number in range(segment.first, segment.first + segment.count):
                self._settle(number, False)
        for number in self._parts:
            lost += 1
            self._settle(number, False)
        self._parts.clear()
        if self._cutting is not None:
            _, message, offset = self._cutting
            self.used -= len(message) - offset + MESSAGE_OVERHEAD
            self._cutting = None
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
        callback = self._callbacks.pop(number, None)
        if callback is not None:
            self.outcomes.append((callback, arrived))
