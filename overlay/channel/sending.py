"""The sending side of a channel: segments on their way, and which segments leave next.

A segment counts as lost when one sent after it has arrived and it had time enough to arrive itself (the idea
of RFC 8985: time, not a number of duplicates, tells loss from reordering), or when nothing is heard at all.
What waits to be sent is in `overlay.channel.buffer`.
"""

from __future__ import annotations

from overlay.channel.buffer import OnAck, SegmentRun, SendBuffer, Until
from overlay.channel.config import MAX_FLIGHT, ChannelConfig
from overlay.channel.packet import ChannelRefused, segment_room
from overlay.channel.recovery import CongestionWindow, RoundTrip


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

    def send_alone(
        self, message: bytes, on_ack: OnAck | None, until: Until | None, now: float
    ) -> SegmentRun | None:
        """Take a message and count it as sent; None, and nothing taken, if it or anything else must wait."""
        buffer, flight, room = self.buffer, self.flight, self.room
        if (
            buffer.waiting
            or flight.lost
            or buffer.cutting
            or flight.size >= self.window.size
            or self._sent + room > self.limit
            or flight.next_number - flight.oldest >= MAX_FLIGHT
            or (until is not None and until.at <= now)
        ):
            return None
        run = buffer.add_alone(message, on_ack, until)
        if run is not None:
            if not flight.size:
                self._progress_at = now
            flight.launch(run, now)
            self._sent += run.last_size
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
