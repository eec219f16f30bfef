"""The sending side of a channel: which segment leaves next, and when one is sent again."""

from __future__ import annotations

from overlay.channel.protocol.config import MAX_FLIGHT, ChannelConfig
from overlay.channel.protocol.congestion import CongestionWindow
from overlay.channel.protocol.flight import Flight
from overlay.channel.protocol.rtt import RoundTrip
from overlay.channel.protocol.segment import segment_room
from overlay.channel.protocol.send_buffer import Segment, SendBuffer


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
        self._limit = 0
        self._sent = 0
        """Bytes of segments sent in this session, each counted once; the receiver bounds it by its limit."""

    def restart(self) -> int:
        """Begin a new session; how many messages were sent, not acknowledged, and are lost therefore."""
        lost = self.buffer.lose(self.flight.segments)
        self._begin()
        return lost

    @property
    def is_limited(self) -> bool:
        """Whether the receiver's limit, and nothing else, keeps messages back."""
        return not self.flight and self.buffer.has_unsent and self._sent + self.room > self._limit

    @property
    def is_idle(self) -> bool:
        """Whether there is nothing to send, whatever were allowed."""
        return not self.flight.has_lost and not self.buffer.has_unsent

    @property
    def is_finished(self) -> bool:
        """Whether every message of which anything was sent is acknowledged."""
        return not self.flight and not self.buffer.is_cutting

    def next_segment(self, now: float, only_finish: bool) -> Segment | None:
        """The segment to send now, counted as sent; `only_finish`: no message is begun."""
        flight = self.flight
        if flight.size >= self.window.size:
            return None
        if flight.has_lost:
            return flight.relaunch(now)
        if (
            (only_finish and not self.buffer.is_cutting)
            or self._sent + self.room > self._limit
            or flight.next_number - flight.oldest >= MAX_FLIGHT
        ):
            return None
        segment = self.buffer.next_segment()
        if segment is not None:
            if not flight:
                self._progress_at = now
            self._sent += segment.size
            flight.launch(segment, now)
        return segment

    def allow(self, limit: int) -> None:
        """The receiver takes `limit` bytes of segments over the whole session."""
        if limit > self._limit:
            self._limit = limit

    def acknowledge(self, upto: int, selective: int, now: float) -> bool:
        """Whether anything new was acknowledged; `Refused` when it was never sent."""
        flight = self.flight
        was_full = flight.size + self.room >= self.window.size
        arrived = flight.acknowledge(upto, selective)
        if not arrived:
            return False
        self._progress_at = now
        size = 0
        newest = arrived[0]
        for segment in arrived:
            self.buffer.acknowledged(segment)
            size += segment.size
            if segment.transmission > newest.transmission:
                newest = segment
        if not newest.resent:
            self.rtt.sample(now - newest.sent_at)
        self.rtt.answered()
        self.window.acknowledged(size, newest.transmission, was_full)
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
        if flight.has_flying:
            self.window.timed_out(flight.size, flight.next_transmission)
            flight.lose_all()
