"""Events that others have announced and that have not come: waited for a while, then fetched.

An event is usually on its way already when it is announced. So it is fetched only `fetch_delay` after the
announcement, and not while earlier events of its run keep coming: then it is in the queue behind them. Each
of those who announced it is asked in turn, three times at most, and has five times `fetch_delay` to answer;
then the event is given up, and counted.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from itertools import islice

from overlay.contact import Contact
from overlay.context import Timer
from pubsub.camcast.dissemination import Neighbourhood
from pubsub.camcast.event_ranges import Ranges, event_id_of
from pubsub.camcast.messages import Fetch

MOST_ANNOUNCEMENTS = 4096
"""Announcements that are waited for at a time, of a thousand events at most each."""

MOST_ANNOUNCERS = 6
"""Members that are remembered to have an event."""

ROUNDS = 3
"""How often each of them is asked."""

MOST_ASKED = 1024
"""Events that are fetched at a time, so that a process that cannot keep up is not sent more than it takes."""

ANSWER_DELAYS = 5.0
"""How many times `fetch_delay` an answer may take."""

_Fetches = dict[tuple[Contact, bytes], list[int]]
"""What to fetch: by whom to ask and run, the events' numbers."""


class _Announcement:
    __slots__ = ("announcer", "due", "numbers", "run")

    def __init__(self, run: bytes, numbers: Sequence[int], announcer: Contact, due: float) -> None:
        self.run = run
        self.numbers = numbers
        self.announcer = announcer
        self.due = due


class _Asked:
    __slots__ = ("announcers", "due", "number", "run", "tries")

    def __init__(self, run: bytes, number: int, announcer: Contact) -> None:
        self.run = run
        self.number = number
        self.announcers = [announcer]
        self.tries = 0
        self.due = 0.0

    @property
    def latest(self) -> Contact:
        """Who was asked last."""
        return self.announcers[(self.tries - 1) % len(self.announcers)]


class MissingEvents:
    """Those of one community on one process."""

    def __init__(
        self, neighbourhood: Neighbourhood, is_coming: Callable[[bytes, int, float], bool]
    ) -> None:
        """`is_coming(run, number, since)`: earlier events have come since then, and none after it."""
        self._neighbourhood = neighbourhood
        self._context = neighbourhood.context
        self._is_coming = is_coming
        # Both in the order in which they are due, for all wait equally long.
        self._waiting: deque[_Announcement] = deque()
        self._asked: dict[bytes, _Asked] = {}
        self._timer: Timer | None = None

    @property
    def are_asked_for(self) -> bool:
        return bool(self._asked)

    def announced(self, run: bytes, numbers: Sequence[int], announcer: Contact) -> None:
        """Wait for these events, which `announcer` has and this process may not have."""
        if len(self._waiting) >= MOST_ANNOUNCEMENTS:
            self._neighbourhood.give_up(run, "too_many_missing")
            return
        due = self._context.now() + self._delay
        self._waiting.append(_Announcement(run, numbers, announcer, due))
        self._arm()

    def came(self, event_id: bytes) -> Contact | None:
        """An event has come; whoever was asked for it last, if anybody was."""
        asked = self._asked.pop(event_id, None)
        return None if asked is None else asked.latest

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._waiting.clear()
        self._asked.clear()

    @property
    def _delay(self) -> float:
        return self._neighbourhood.parameters.fetch_delay

    def _arm(self) -> None:
        if self._timer is not None:
            return
        due = [announcement.due for announcement in islice(self._waiting, 1)]
        due += [asked.due for asked in islice(self._asked.values(), 1)]
        if due:
            wait = max(min(due) - self._context.now(), 0.0)
            self._timer = self._context.call_later(wait, self._ring)

    def _ring(self) -> None:
        self._timer = None
        now = self._context.now()
        fetches: _Fetches = {}
        self._ask_again(now, fetches)
        for _ in range(len(self._waiting)):
            if self._waiting[0].due > now:
                break
            self._look_at(self._waiting.popleft(), now, fetches)
        for (announcer, run), numbers in fetches.items():
            for part in Ranges(sorted(numbers)).parts():
                self._context.send(announcer, Fetch(self._neighbourhood.name, run, part))
        self._arm()

    def _ask_again(self, now: float, fetches: _Fetches) -> None:
        due = []
        for event_id, asked in self._asked.items():
            if asked.due > now:
                break
            due.append(event_id)
        for event_id in due:
            asked = self._asked.pop(event_id)
            if asked.tries < ROUNDS * len(asked.announcers):
                self._ask(event_id, asked, now, fetches)
            else:
                self._neighbourhood.give_up(event_id, "not_fetched")

    def _look_at(self, announcement: _Announcement, now: float, fetches: _Fetches) -> None:
        """Ask for what has not come of an announcement, or have it wait once more."""
        run, announcer = announcement.run, announcement.announcer
        has_heard = self._neighbourhood.has_heard
        late: list[int] = []
        for number in announcement.numbers:
            event_id = event_id_of(run, number)
            if has_heard(event_id):
                continue
            asked = self._asked.get(event_id)
            if asked is not None:
                if len(asked.announcers) < MOST_ANNOUNCERS and announcer not in asked.announcers:
                    asked.announcers.append(announcer)
            elif len(self._asked) >= MOST_ASKED or self._is_coming(run, number, now - self._delay):
                late.append(number)
            else:
                self._ask(event_id, _Asked(run, number, announcer), now, fetches)
        if late:
            due = now + self._delay
            self._waiting.append(_Announcement(run, late, announcer, due))

    def _ask(self, event_id: bytes, asked: _Asked, now: float, fetches: _Fetches) -> None:
        asked.tries += 1
        asked.due = now + ANSWER_DELAYS * self._delay
        self._asked[event_id] = asked
        fetches.setdefault((asked.latest, asked.run), []).append(asked.number)
