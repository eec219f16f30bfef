"""Events that others have announced and that have not come: waited for a while, then fetched.

An event is usually on its way already when it is announced. So it is fetched only `delay` seconds after the
announcement, and not while earlier events of its run keep coming: then it is in the queue behind them. Each
of those who announced it is asked in turn, and twice at most, with five times `delay` to answer; then the
event is given up, and counted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from overlay.contact import Contact
from overlay.context import Context, Timer
from pubsub.camcast.event_ranges import Ranges, event_id_of, number_of
from pubsub.camcast.messages import Fetch
from pubsub.event import RUN_BYTES

MOST_MISSING = 16_384
"""Events that are waited for at a time; about 400 bytes each."""

MOST_ANNOUNCERS = 6
"""Members that are remembered to have an event."""

ROUNDS = 2
"""How often each of them is asked."""

MOST_ASKED = 1024
"""Events that are fetched at a time, so that a process that cannot keep up is not sent more than it takes."""

ANSWER_DELAYS = 5.0
"""How many times `delay` an answer may take."""


class _Missing:
    __slots__ = ("announcers", "due", "tries")

    def __init__(self, announcer: Contact, due: float) -> None:
        self.announcers = [announcer]
        self.due = due
        self.tries = 0

    @property
    def asked(self) -> Contact:
        """Who was asked last."""
        return self.announcers[(self.tries - 1) % len(self.announcers)]


class MissingEvents:
    """Those of one community on one process."""

    def __init__(
        self,
        topic: str,
        context: Context,
        delay: Callable[[], float],
        is_coming: Callable[[bytes, float], bool],
        give_up: Callable[[bytes, str], None],
    ) -> None:
        """`is_coming(event, since)`: earlier events of its run have come since then, and none after it."""
        self._topic = topic
        self._context = context
        self._delay = delay
        self._is_coming = is_coming
        self._give_up = give_up
        # Both in the order in which they are due, for all wait equally long.
        self._waiting: dict[bytes, _Missing] = {}
        self._asked: dict[bytes, _Missing] = {}
        self._timer: Timer | None = None

    def __len__(self) -> int:
        return len(self._waiting) + len(self._asked)

    def announced(self, run: bytes, numbers: Iterable[int], announcer: Contact) -> None:
        """Wait for these events, which `announcer` has and this process has not heard of."""
        due = self._context.now() + self._delay()
        for number in numbers:
            event_id = event_id_of(run, number)
            known = self._waiting.get(event_id) or self._asked.get(event_id)
            if known is not None:
                if len(known.announcers) < MOST_ANNOUNCERS and announcer not in known.announcers:
                    known.announcers.append(announcer)
            elif len(self) >= MOST_MISSING:
                self._give_up(event_id, "too_many_missing")
            else:
                self._waiting[event_id] = _Missing(announcer, due)
        self._arm()

    def came(self, event_id: bytes) -> Contact | None:
        """An event has come; whoever was asked for it last, if anybody was."""
        if self._waiting.pop(event_id, None) is not None:
            return None
        missing = self._asked.pop(event_id, None)
        return None if missing is None else missing.asked

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._waiting.clear()
        self._asked.clear()

    def _arm(self) -> None:
        if self._timer is None and len(self):
            firsts = [next(iter(queue.values()), None) for queue in (self._waiting, self._asked)]
            due = min(missing.due for missing in firsts if missing is not None)
            wait = max(due - self._context.now(), 0.0)
            self._timer = self._context.call_later(wait, self._ring)

    def _ring(self) -> None:
        self._timer = None
        now, delay = self._context.now(), self._delay()
        fetched: dict[tuple[Contact, bytes], list[int]] = {}
        for event_id in _due(self._asked, now):
            missing = self._asked.pop(event_id)
            if missing.tries >= ROUNDS * len(missing.announcers):
                self._give_up(event_id, "not_fetched")
            else:
                self._ask(event_id, missing, now + ANSWER_DELAYS * delay, fetched)
        for event_id in _due(self._waiting, now):
            missing = self._waiting.pop(event_id)
            if len(self._asked) >= MOST_ASKED or self._is_coming(event_id, now - delay):
                missing.due = now + delay
                self._waiting[event_id] = missing
            else:
                self._ask(event_id, missing, now + ANSWER_DELAYS * delay, fetched)
        for (announcer, run), numbers in fetched.items():
            for part in Ranges(sorted(numbers)).parts():
                self._context.send(announcer, Fetch(self._topic, run, part))
        self._arm()

    def _ask(
        self,
        event_id: bytes,
        missing: _Missing,
        due: float,
        fetched: dict[tuple[Contact, bytes], list[int]],
    ) -> None:
        missing.tries += 1
        missing.due = due
        self._asked[event_id] = missing
        key = (missing.asked, event_id[:RUN_BYTES])
        fetched.setdefault(key, []).append(number_of(event_id))


def _due(queue: dict[bytes, _Missing], now: float) -> list[bytes]:
    due = []
    for event_id, missing in queue.items():
        if missing.due > now:
            break
        due.append(event_id)
    return due
