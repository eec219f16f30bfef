"""First in, first out: one publisher's events of one topic in the order in which it published them.

An event that comes before one with a lower number is held until the missing ones have come, `wait` seconds at
most and `limit` events at most; then the missing ones are given up, and dropped as `late` if they come after
all. The first event from a publisher waits too, unless it is that publisher's first of all.
"""

from __future__ import annotations

from collections.abc import Callable

from overlay.context import Timer
from pubsub.event import Event

SOURCES = 4096
"""Publishers and topics that are followed at a time; the one silent for longest is forgotten."""

_Key = tuple[bytes, bytes, str]


class _Source:
    __slots__ = ("held", "next", "timer")

    def __init__(self) -> None:
        self.next: int | None = None
        self.held: dict[int, Event] = {}
        self.timer: Timer | None = None


class FifoOrder:
    """Takes events in any order and emits them in order; a core, given its timers."""

    def __init__(
        self,
        emit: Callable[[Event], None],
        call_later: Callable[[float, Callable[[], None]], Timer],
        late: Callable[[Event], None],
        wait: float = 0.5,
        limit: int = 1000,
    ) -> None:
        """`late`: takes the events that come after they were given up."""
        self._emit = emit
        self._call_later = call_later
        self._late = late
        self._wait = wait
        self._limit = limit
        self._sources: dict[_Key, _Source] = {}

    def push(self, event: Event) -> None:
        key = (event.publisher, event.run, event.topic)
        source = self._sources.pop(key, None) or self._new_source()
        self._sources[key] = source  # last again: the order of the dict is that of the latest news
        if source.next is None and event.sequence == 1:
            source.next = 1
        if source.next is not None and event.sequence < source.next:
            self._late(event)
            return
        source.held[event.sequence] = event
        self._release(source)
        if len(source.held) > self._limit:
            self._give_up(source)

    def close(self) -> None:
        """Emit what is held, gaps or not, and keep nothing."""
        for source in self._sources.values():
            while source.held:
                self._give_up(source)
        self._sources.clear()

    def _new_source(self) -> _Source:
        if len(self._sources) >= SOURCES:
            silent = self._sources.pop(next(iter(self._sources)))
            while silent.held:
                self._give_up(silent)
        return _Source()

    def _release(self, source: _Source) -> None:
        """Emit what is next, as far as there is no gap; a gap that remains has its time."""
        while source.next in source.held:
            assert source.next is not None
            event = source.held.pop(source.next)
            source.next += 1
            self._emit(event)
        if not source.held and source.timer is not None:
            source.timer.cancel()
            source.timer = None
        elif source.held and source.timer is None:
            source.timer = self._call_later(self._wait, lambda: self._timed_out(source))

    def _timed_out(self, source: _Source) -> None:
        source.timer = None
        self._give_up(source)

    def _give_up(self, source: _Source) -> None:
        """Go on with the lowest event that is here."""
        source.next = min(source.held)
        if source.timer is not None:
            source.timer.cancel()
            source.timer = None
        self._release(source)
