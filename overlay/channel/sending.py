"""The sending side of a channel: messages that wait, segments on their way, and which segments leave next.

Messages are numbered as they come and cut into segments as they leave. Segments that leave together and hold
parts of one message are one `SegmentRun`: a message of many parts is cut, sent and acknowledged in few
steps. A segment counts as lost when one sent after it has arrived and it had time enough to arrive itself
(the idea of RFC 8985: time, not a number of duplicates, tells loss from reordering), or when nothing is heard
at all.

A message may have a time after which it is of no use, or must not leave any more (`Until`). From then on it
is neither sent nor sent again. If a part of it was sent, or it shared a segment with others, what is sent
again under the segment's number is the rest without the message.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from itertools import islice
from math import inf

from overlay.channel.config import MAX_FLIGHT, MESSAGE_OVERHEAD, ChannelConfig
from overlay.channel.packet import (
    BUNDLE,
    BUNDLE_HEAD_BYTES,
    FRAGMENT,
    LENGTH_BYTES,
    LOW,
    MESSAGES,
    NO_MESSAGE,
    PART_HEAD_BYTES,
    REST,
    ChannelRefused,
    PacketType,
    Parts,
    bundle_layout,
    bundle_room,
    encode_bundle,
    segment_room,
)
from overlay.channel.recovery import CongestionWindow, RoundTrip
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

MOST_LOOKED_AT = 1024
"""Messages that one call of `withdraw` looks at."""


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
        "offset",
        "parts",
        "resent",
        "segments",
        "sent_at",
        "transmission",
        "withdrawn",
    )

    def __init__(
        self, parts: Parts, message: int, messages: int, charge: int, size: int, offset: int = 0
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
        self.offset = offset
        """Where in the message the first segment begins."""
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
            run.offset = self.offset + (first - self.first) * (self.full - PART_HEAD_BYTES)
        run.withdrawn = self.withdrawn
        run.resent = True
        return run

    def packets(self, mine: int, theirs: int, upto: int) -> list[Parts]:
        """The packets between two sessions, with the acknowledgement of this end."""
        upto &= LOW
        if self.withdrawn:
            return self._rest_packets(mine, theirs, upto)
        if self.messages:
            head = _bundle_head(_BUNDLE, mine, theirs, upto, self.first & LOW)
            return [(head, *self.parts)]
        kind, pack = int(PacketType.FRAGMENT), FRAGMENT.pack
        payload = memoryview(self.parts[0])
        message, length = self.message & MESSAGES, len(payload)
        part, offset = self.full - PART_HEAD_BYTES, self.offset
        out: list[Parts] = []
        for number in range(self.first, self.first + self.segments):
            head = pack(kind, mine, theirs, upto, number & LOW, message, length, offset)
            out.append((head, payload[offset : offset + part]))
            offset += part
        return out

    def _rest_packets(self, mine: int, theirs: int, upto: int) -> list[Parts]:
        message = NO_MESSAGE if self.messages else self.message & MESSAGES
        out: list[Parts] = []
        for number in range(self.first, self.first + self.segments):
            is_last = number == self.first + self.segments - 1
            size = self.last_size if is_last else self.full
            head = REST.pack(PacketType.REST, mine, theirs, upto, number & LOW, size, message)
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
        run = SegmentRun((message,), number, 0, 0, 0, offset)
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
        run = SegmentRun(
            encode_bundle(()), number, 0, 0, len(message) - offset + PART_HEAD_BYTES, offset
        )
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
            if self._callbacks or self._until:
                for one in range(number, number + run.messages):
                    self._settle(one, True)
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


class Flight:
    """The numbered segments of one session that were sent and not acknowledged: on their way, or lost."""

    def __init__(self) -> None:
        self.oldest = 0
        """The first number that is not acknowledged; all below are."""
        self.next_number = 0
        self.next_transmission = 1
        self.size = 0
        """Bytes on their way; what counts as lost is not."""
        self._flying: dict[int, SegmentRun] = {}
        """The run of each segment by number, in the order of their latest transmission."""
        self.lost: dict[int, SegmentRun] = {}
        """The same for those that count as lost and were not sent again."""
        self._selective = 0
        """Bit i: segment `oldest` + i is acknowledged."""
        self._newest_arrived = 0
        """The latest transmission that is known to have arrived."""

    def __bool__(self) -> bool:
        return self.size > 0 or bool(self.lost)

    def launch(self, run: SegmentRun, now: float) -> None:
        """Number the segments of a new run and count them as sent."""
        first = run.first = self.next_number
        if run.segments > 1:
            self.next_number += run.segments
            self._send(run, now)
            return
        # As `_send` does, without a call: this is done for every segment.
        self.next_number = first + 1
        run.sent_at = now
        run.transmission = self.next_transmission
        self.next_transmission += 1
        self._flying[first] = run
        self.size += run.last_size

    def relaunch(self, most: int, now: float) -> SegmentRun:
        """Take the lost segments with the lowest numbers, at most `most`, and count them as sent again."""
        lost = self.lost
        first = end = min(lost)
        whole = lost[first]
        while end - first < most and lost.get(end) is whole:
            del lost[end]
            end += 1
        run = whole.again(first, end - first)
        self._send(run, now)
        return run

    def _send(self, run: SegmentRun, now: float) -> None:
        run.sent_at = now
        run.transmission = self.next_transmission
        self.next_transmission += run.segments
        if run.segments == 1:
            self._flying[run.first] = run
            self.size += run.last_size
        else:
            self._flying.update(dict.fromkeys(range(run.first, run.first + run.segments), run))
            self.size += run.size

    def acknowledge(self, upto: int, selective: int) -> list[tuple[SegmentRun, int, int]]:
        """The runs of which segments are acknowledged for the first time, with their number and bytes.

        `ChannelRefused` when something is acknowledged that was never sent.
        """
        if upto + selective.bit_length() > self.next_number:
            raise ChannelRefused("malformed")
        arrived: list[tuple[SegmentRun, int, int]] = []
        oldest = self.oldest
        if upto > oldest:
            self._land(oldest, upto, arrived)
            self._selective >>= upto - oldest
            self.oldest = upto
        elif upto < oldest:
            selective >>= oldest - upto
        fresh = selective & ~self._selective
        if fresh:
            self._selective |= fresh
            place = self.oldest
            while fresh:
                gap = (fresh & -fresh).bit_length() - 1
                fresh >>= gap
                ones = (~fresh & (fresh + 1)).bit_length() - 1
                fresh >>= ones
                self._land(place + gap, place + gap + ones, arrived)
                place += gap + ones
        return arrived

    def _land(self, start: int, end: int, arrived: list[tuple[SegmentRun, int, int]]) -> None:
        """Take the segments from `start` to before `end` out, those of a run together."""
        flying, lost = self._flying, self.lost
        run: SegmentRun | None = None
        segments = size = 0
        for number in range(start, end):
            found = flying.pop(number, None)
            if found is None:
                found = lost.pop(number, None)
                if found is None:
                    continue
                in_flight = False
            else:
                in_flight = True
            if found is not run:
                if run is not None:
                    arrived.append((run, segments, size))
                run, segments, size = found, 0, 0
            is_last = number - found.first == found.segments - 1
            bytes_ = found.last_size if is_last else found.full
            segments += 1
            size += bytes_
            if in_flight:
                self.size -= bytes_
            transmission = found.transmission + number - found.first
            if transmission > self._newest_arrived:
                self._newest_arrived = transmission
        if run is not None:
            arrived.append((run, segments, size))

    def find_lost(self, now: float, patience: float) -> tuple[int, float | None]:
        """Take overtaken segments for lost: their latest transmission or 0, and when to look again."""
        newest, lost, look_again = self._newest_arrived, [], None
        latest = 0
        for number, run in self._flying.items():
            transmission = run.transmission + number - run.first
            if transmission >= newest:
                break
            if run.sent_at + patience > now:
                look_again = run.sent_at + patience
                break
            latest = transmission
            lost.append(number)
        for number in lost:
            self._lose(number)
        return latest, look_again

    def lose_all(self) -> None:
        for number in list(self._flying):
            self._lose(number)

    def _lose(self, number: int) -> None:
        run = self._flying.pop(number)
        self.lost[number] = run
        is_last = number - run.first == run.segments - 1
        self.size -= run.last_size if is_last else run.full

    def give_up(self) -> list[tuple[SegmentRun, int, int]]:
        """Everything that is not acknowledged, as `acknowledge` gives it; nothing is kept."""
        left: list[tuple[SegmentRun, int, int]] = []
        self._land(self.oldest, self.next_number, left)
        return left


class Transmitter:
    """Sends what is buffered as fast as the congestion window and the receiver's limit allow."""

    def __init__(self, config: ChannelConfig, max_body: int) -> None:
        self.room = segment_room(max_body)
        self.buffer = SendBuffer(config.max_message, config.send_buffer, self.room)
        self.rtt = RoundTrip(config.initial_rto, config.min_rto, config.max_rto)
        self._begin()

    def _begin(self) -> None:
        self.flight = Flight()
        self.window = CongestionWindow(self.room, MAX_FLIGHT)
        self.look_again_at: float | None = None
        """When segments that were overtaken had their time to arrive."""
        self._progress_at = 0.0
        """When something was last acknowledged, or sent with nothing before it on its way."""
        self.limit = 0
        """Bytes of segments that the receiver takes over the whole session; it only grows."""
        self._sent = 0
        """Bytes of segments sent in this session, each counted once; the receiver bounds it by its limit."""

    def restart(self) -> int:
        """Begin a new session; how many messages were sent, not acknowledged, and are lost therefore."""
        lost = self.buffer.lose(self.flight.give_up())
        self._begin()
        return lost

    @property
    def is_limited(self) -> bool:
        """Whether the receiver's limit, and nothing else, keeps messages back."""
        return not self.flight and self.buffer.has_unsent and self._sent + self.room > self.limit

    @property
    def is_finished(self) -> bool:
        """Whether every message of which anything was sent is acknowledged."""
        return not self.flight and self.buffer.cutting is None

    def next_run(self, now: float, only_finish: bool) -> SegmentRun | None:
        """The segments to send now, counted as sent; `only_finish`: no message is begun."""
        flight, room = self.flight, self.room
        free = self.window.size - flight.size
        if free <= 0:
            return None
        most = -(-free // room)
        if flight.lost:
            again = flight.relaunch(most, now)
            self.buffer.withdraw_expired(again, now)
            return again
        if only_finish and self.buffer.cutting is None:
            return None
        ahead = flight.next_number - flight.oldest
        most = min(most, (self.limit - self._sent) // room, MAX_FLIGHT - ahead)
        if most <= 0:
            return None
        run = self.buffer.next_run(most, now)
        if run is not None:
            if not flight.size:
                self._progress_at = now
            before = flight.size
            flight.launch(run, now)
            self._sent += flight.size - before
        return run

    def acknowledge(self, upto: int, selective: int, now: float) -> bool:
        """Whether anything new was acknowledged; `ChannelRefused` when it was never sent."""
        flight = self.flight
        was_full = flight.size + self.room >= self.window.size
        arrived = flight.acknowledge(upto, selective)
        if not arrived:
            return False
        self._progress_at = now
        total = 0
        newest = arrived[0][0]
        slowest: SegmentRun | None = None
        for run, segments, size in arrived:
            self.buffer.acknowledged(run, segments, size)
            total += size
            if run.transmission > newest.transmission:
                newest = run
            if not run.resent and (slowest is None or run.sent_at < slowest.sent_at):
                slowest = run
        if slowest is not None:
            # Of those that arrived, the one that took longest: where datagrams overtake each other, the
            # newest one is the quickest, and the others would be taken for lost too early. What was sent
            # again says nothing: nobody knows which of its copies arrived (Karn).
            self.rtt.sample(now - slowest.sent_at)
            self.rtt.answered()
        self.window.acknowledged(total, newest.transmission, was_full)
        self._find_lost(now)
        return True

    def is_stuck_for(self, seconds: float, now: float) -> bool:
        """Whether segments have been on their way for this long and none of them was acknowledged."""
        return bool(self.flight) and now >= self._progress_at + seconds

    def handle_timer(self, now: float) -> None:
        if self.look_again_at is not None and now >= self.look_again_at:
            self._find_lost(now)

    def _find_lost(self, now: float) -> None:
        """Have overtaken segments sent again, or set `look_again_at`."""
        latest, self.look_again_at = self.flight.find_lost(now, self.rtt.patience)
        if latest:
            self.window.lost(latest, self.flight.next_transmission)

    def time_out(self) -> None:
        """Nothing was heard for the retransmission time-out: take everything for lost."""
        flight = self.flight
        self.look_again_at = None
        if flight.size:
            self.window.timed_out(flight.size, flight.next_transmission)
            flight.lose_all()
