"""Segments that were sent and not acknowledged: which are on their way, and which are lost.

A segment counts as lost when one sent after it has arrived and it had time enough to arrive itself (the idea
of RFC 8985: time, not a number of duplicates, tells loss from reordering), or when nothing is heard at all.
"""

from __future__ import annotations

from overlay.channel.protocol.packet import Refused
from overlay.channel.protocol.send_buffer import Segment


class Flight:
    """One session's numbered segments, on the sending side."""

    def __init__(self) -> None:
        self.oldest = 0
        """The first number that is not acknowledged; all below are."""
        self.next_number = 0
        self.next_transmission = 1
        self.size = 0
        """Bytes on their way; what counts as lost is not."""
        self._flying: dict[int, Segment] = {}
        """By number, in the order of their latest transmission."""
        self._lost: dict[int, Segment] = {}
        self._selective = 0
        """Bit i: segment `oldest` + i is acknowledged."""
        self._newest_arrived = 0
        """The latest transmission that is known to have arrived."""

    def __bool__(self) -> bool:
        return bool(self._flying) or bool(self._lost)

    @property
    def has_flying(self) -> bool:
        return bool(self._flying)

    @property
    def has_lost(self) -> bool:
        return bool(self._lost)

    @property
    def segments(self) -> list[Segment]:
        return [*self._flying.values(), *self._lost.values()]

    def launch(self, segment: Segment, now: float) -> None:
        """Number a new segment and count it as sent."""
        segment.number = self.next_number
        self.next_number += 1
        self._send(segment, now)

    def relaunch(self, now: float) -> Segment:
        """Take the lost segment with the lowest number and count it as sent again."""
        segment = self._lost.pop(min(self._lost))
        segment.resent = True
        self._send(segment, now)
        return segment

    def _send(self, segment: Segment, now: float) -> None:
        segment.sent_at = now
        segment.transmission = self.next_transmission
        self.next_transmission += 1
        self._flying[segment.number] = segment
        self.size += segment.size

    def acknowledge(self, upto: int, selective: int) -> list[Segment]:
        """The segments that these acknowledgements are the first to cover; `Refused` if never sent."""
        if upto + selective.bit_length() > self.next_number:
            raise Refused("malformed")
        arrived: list[Segment] = []
        oldest = self.oldest
        if upto > oldest:
            for number in range(oldest, upto):
                self._land(number, arrived)
            self._selective >>= upto - oldest
            self.oldest = upto
        elif upto < oldest:
            selective >>= oldest - upto
        fresh = selective & ~self._selective
        if fresh:
            self._selective |= fresh
            base = self.oldest
            while fresh:
                bit = fresh.bit_length() - 1
                self._land(base + bit, arrived)
                fresh ^= 1 << bit
        return arrived

    def _land(self, number: int, arrived: list[Segment]) -> None:
        segment = self._flying.pop(number, None)
        if segment is not None:
            self.size -= segment.size
        else:
            segment = self._lost.pop(number, None)
            if segment is None:
                return
        if segment.transmission > self._newest_arrived:
            self._newest_arrived = segment.transmission
        arrived.append(segment)

    def find_lost(self, now: float, patience: float) -> tuple[int, float | None]:
        """Take overtaken segments for lost: their latest transmission or 0, and when to look again."""
        latest = 0
        look_again = None
        for segment in list(self._flying.values()) if self._overtaken else ():
            if segment.transmission >= self._newest_arrived:
                break
            if segment.sent_at + patience > now:
                look_again = segment.sent_at + patience
                break
            latest = segment.transmission
            self._lose(segment)
        return latest, look_again

    @property
    def _overtaken(self) -> bool:
        for segment in self._flying.values():
            return segment.transmission < self._newest_arrived
        return False

    def lose_all(self) -> None:
        for segment in list(self._flying.values()):
            self._lose(segment)

    def _lose(self, segment: Segment) -> None:
        del self._flying[segment.number]
        self._lost[segment.number] = segment
        self.size -= segment.size
