"""Repair: blocks are kept for those who were only told of them, and events that do not come are fetched.

An event is usually on its way already when it is announced. So it is fetched only `fetch_delay` after the
announcement. While other events of its source keep coming it is waited for longer, five times as long: it is
in the queue behind them, or was lost on the way and is being sent again. Behind a queue it waits for as long
as earlier events come.
Each of those who announced it is asked in turn, three times at most, and has five times `fetch_delay` to
answer; then the event is given up, and counted. All of this is done for ranges of numbers at a time.

Who named an event and did not send it when asked has broken a promise. For a minute it is asked after all
others: its announcements wait for theirs, and are given up for theirs where there is no room for more; and it
makes way among those who are remembered to have an event. At most half of what is fetched at a time is asked
of those who broke promises. So members that only promise cost a community a wait for each of them, and not
for each event.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Sequence
from heapq import heapify, heappop, heappush
from itertools import islice
from math import inf
from typing import TYPE_CHECKING

from overlay.bounded import remember
from overlay.contact import Contact, PeerId
from overlay.context import Timer
from pubsub.camcast.heard import Ranges
from pubsub.camcast.messages import FetchBlocks
from pubsub.event import MOST_EVENTS, Gossip

if TYPE_CHECKING:
    from pubsub.camcast.community import Community

MOST_ANNOUNCEMENTS = 4096
"""Ranges of announced events that are waited for at a time."""

MOST_ANNOUNCERS = 6
"""Members that are remembered to have an event."""

ROUNDS = 3
"""How often each of them is asked."""

MOST_ASKED = 8_192
"""Events that are fetched at a time: a process that cannot keep up is not sent more than it takes, and those
who serve it have time for others."""

MOST_QUESTIONS = 4096
"""Ranges in which they are fetched."""

MOST_SKIPPED = 2**20
"""Events before one that came, of which it is believed that its sender has them; those before are lost."""

MOST_LOST = 2**32
"""As many of them are counted: who says more has not published them."""

COMING_DELAYS = 3.0
"""While earlier events of a source have come within this many times `fetch_delay`, later ones are on their
way: a slow link announces many events before it has brought them."""

ANSWER_DELAYS = 5.0
"""How many times `fetch_delay` an answer may take."""

BLAME_SECONDS = 60.0
"""For how long a broken promise counts."""

MOST_BLAMED = 256
"""Members of whom it is remembered."""

_BYTES_AROUND_AN_EVENT = 256

_Fetches = dict[tuple[Contact, bytes], list[range]]
"""What to fetch: by whom to ask and source, the events' numbers."""


class _KeptSource:
    """Blocks of one source by their first number."""

    __slots__ = ("firsts", "gossips")

    def __init__(self) -> None:
        self.firsts: list[int] = []
        self.gossips: list[Gossip] = []

    def insert(self, gossip: Gossip) -> None:
        place = bisect_left(self.firsts, gossip.block.first)
        self.firsts.insert(place, gossip.block.first)
        self.gossips.insert(place, gossip)

    def with_any_of(self, numbers: range) -> list[Gossip]:
        low = bisect_left(self.firsts, numbers.start - MOST_EVENTS)
        high = bisect_left(self.firsts, numbers.stop)
        return [g for g in self.gossips[low:high] if g.block.first + g.block.count > numbers.start]


class KeptBlocks:
    """The latest blocks, by source: those of the last `seconds`, as far as they fit half of `limit` bytes.

    They are let go in halves, so that keeping one costs next to nothing."""

    __slots__ = ("_bytes", "_half", "_new", "_old", "_seconds", "_since")

    def __init__(self, limit: int, seconds: float) -> None:
        self._half = limit // 2
        self._seconds = seconds
        self._new: dict[bytes, _KeptSource] = {}
        self._old: dict[bytes, _KeptSource] = {}
        self._bytes = 0
        self._since = 0.0

    def __len__(self) -> int:
        kept = (*self._new.values(), *self._old.values())
        return sum(len(source.gossips) for source in kept)

    def add(self, gossip: Gossip, now: float) -> None:
        if self._bytes > self._half or now > self._since + self._seconds:
            self._old, self._new = self._new, {}
            self._bytes = 0
            self._since = now
        block = gossip.block
        kept = self._new.get(block.source)
        if kept is None:
            kept = self._new[block.source] = _KeptSource()
        if not kept.firsts or block.first > kept.firsts[-1]:
            kept.firsts.append(block.first)
            kept.gossips.append(gossip)
        else:
            kept.insert(gossip)
        self._bytes += len(block.encoded) + len(block.signature) + _BYTES_AROUND_AN_EVENT

    def resize(self, limit: int, seconds: float) -> None:
        """Keep to other bounds from the next block on."""
        self._half = limit // 2
        self._seconds = seconds

    def with_any_of(self, source: bytes, numbers: range) -> list[Gossip]:
        """The kept blocks that hold any of these events of a source."""
        found: list[Gossip] = []
        for half in (self._old, self._new):
            kept = half.get(source)
            if kept is not None:
                found += kept.with_any_of(numbers)
        return found


class _Announcement:
    __slots__ = ("announcer", "due", "number", "numbers", "since", "source")

    def __init__(
        self,
        source: bytes,
        numbers: range,
        announcer: Contact,
        since: float,
        due: float,
        number: int,
    ) -> None:
        self.source = source
        self.numbers = numbers
        self.announcer = announcer
        self.since = since
        self.due = due
        self.number = number

    def __lt__(self, other: _Announcement) -> bool:
        """Whether it is looked at before another one."""
        return (self.due, self.number) < (other.due, other.number)


class _Asked:
    """Events of a source, of consecutive numbers, that somebody was asked for."""

    __slots__ = ("announcers", "due", "go_on", "latest", "numbers", "source", "tries")

    def __init__(self, source: bytes, numbers: range, announcers: list[Contact]) -> None:
        self.source = source
        self.numbers = numbers
        self.announcers = announcers
        """The next to be asked first."""
        self.latest = announcers[0]
        """Who was asked last."""
        self.go_on = False
        """Whether that member was asked to go on with the events that follow."""
        self.tries = 0
        self.due = 0.0


class MissingEvents:
    """The events that were announced to one process in one community and have not come."""

    def __init__(self, community: Community, latest: Callable[[bytes], tuple[float, int]]) -> None:
        """`latest(source)`: when the source's latest event came, and its number."""
        self._community = community
        self._context = community.context
        self._latest = latest
        self._waiting: list[_Announcement] = []
        """A heap: the one that is due first is first."""
        self._numbered = 0
        self.asked: dict[_Asked, None] = {}
        """In the order in which they are due, for all wait equally long."""
        self._by_source: dict[bytes, list[_Asked]] = {}
        """The same as above, in the order of their numbers, which do not overlap."""
        self._asked_events = 0
        self._blamed: dict[PeerId, float] = {}
        """Until when a broken promise of a member counts."""
        self._broken = community.metrics.counter(
            "promises_broken", "Times that a member named events and did not send them in time."
        )
        self._makes_way_at = -inf
        """When announcements may next be given up for others."""
        self._timer: Timer | None = None
        self._rings_at = 0.0

    def announced(self, source: bytes, numbers: range, announcer: Contact) -> None:
        """Wait for these events, which `announcer` has and this process may not have."""
        self._wait_for(source, numbers, announcer, self._delay)

    def skipped(self, source: bytes, numbers: range, sender: Contact) -> None:
        """Wait for these events, of which `sender` has sent later ones.

        That takes longer: most likely they are lost on the way and being sent again."""
        believed = numbers.stop - MOST_SKIPPED
        if numbers.start < believed:
            lost = range(max(numbers.start, believed - MOST_LOST), believed)
            self._community.lose(source, (lost,), "too_many_missing")
            numbers = range(believed, numbers.stop)
        self._wait_for(source, numbers, sender, ANSWER_DELAYS * self._delay)

    def _wait_for(self, source: bytes, numbers: range, holder: Contact, seconds: float) -> None:
        now = self._context.now()
        if len(self._waiting) >= MOST_ANNOUNCEMENTS and not self._make_way_for(holder, now):
            self._community.lose(source, (numbers,), "too_many_missing")
            return
        self._push(source, numbers, holder, now, now + seconds)
        self._arm()

    def _make_way_for(self, holder: Contact, now: float) -> bool:
        """Give up what those announced who broke promises, for one who did not; whether there is room now.

        It takes a look at everything, and so is not done again within `fetch_delay`."""
        if now < self._makes_way_at or self._is_blamed(holder, now):
            return False
        self._makes_way_at = now + self._delay
        before, self._waiting = self._waiting, []
        for one in before:
            if not self._is_blamed(one.announcer, now):
                self._waiting.append(one)
            elif missing := self._community.missing(one.source, one.numbers):
                self._community.lose(one.source, missing, "too_many_missing")
        heapify(self._waiting)
        return len(self._waiting) < len(before)

    def _push(
        self, source: bytes, numbers: range, holder: Contact, since: float, due: float
    ) -> None:
        self._numbered += 1
        heappush(self._waiting, _Announcement(source, numbers, holder, since, due, self._numbered))

    def came(self, source: bytes, numbers: range) -> Contact | None:
        """Events have come; returns the member that was asked for any of them last and is to go on with those
        that follow, None if none was."""
        asked_for = self._overlapping(source, numbers)
        latest: Contact | None = None
        for asked in asked_for:
            if asked.go_on:
                latest = asked.latest
            rest = self._community.missing(source, asked.numbers)
            if not rest:
                self._remove(asked)
        return latest

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._waiting.clear()
        self.asked.clear()
        self._by_source.clear()

    @property
    def _delay(self) -> float:
        return self._community.parameters.fetch_delay

    def _arm(self) -> None:
        due = [announcement.due for announcement in self._waiting[:1]]
        due += [asked.due for asked in islice(self.asked, 1)]
        if not due or (self._timer is not None and self._rings_at <= min(due)):
            return
        if self._timer is not None:
            self._timer.cancel()
        self._rings_at = min(due)
        wait = max(self._rings_at - self._context.now(), 0.0)
        self._timer = self._context.call_later(wait, self._ring)

    def _ring(self) -> None:
        self._timer = None
        now = self._context.now()
        fetches: _Fetches = {}
        self._ask_again(now, fetches)
        while self._waiting and self._waiting[0].due <= now:
            self._look_at(heappop(self._waiting), now, fetches)
        for (announcer, source), numbers in fetches.items():
            numbers.sort(key=lambda stretch: stretch.start)
            go_on = not self._flows(source, now)
            for part in Ranges(numbers).parts():
                fetch = FetchBlocks(self._community.name, source, part, go_on)
                self._context.send(announcer, fetch)
        self._arm()

    def _ask_again(self, now: float, fetches: _Fetches) -> None:
        due = []
        for asked in self.asked:
            if asked.due > now:
                break
            due.append(asked)
        for asked in due:
            self._remove(asked)
            missing = self._community.missing(asked.source, asked.numbers)
            if missing:
                self._blame(asked.latest, now)
            if asked.tries >= ROUNDS * len(asked.announcers):
                if missing:
                    self._community.lose(asked.source, missing, "not_fetched")
                continue
            # Each list is its own: who announces a part need not have the rest.
            others = [one for one in asked.announcers if one != asked.latest]
            others.sort(key=lambda one: self._is_blamed(one, now))
            for numbers in missing:
                again = _Asked(asked.source, numbers, [*others, asked.latest])
                again.tries = asked.tries
                self._ask(again, now, fetches)

    def _look_at(self, announcement: _Announcement, now: float, fetches: _Fetches) -> None:
        """Ask for what has not come of an announcement; what cannot be asked for yet waits once more."""
        source, announcer = announcement.source, announcement.announcer
        late: list[range] = []
        is_blamed = self._is_blamed(announcer, now)
        is_doubtful = is_blamed and now < announcement.since + ANSWER_DELAYS * self._delay
        share = 2 if is_blamed else 1
        for missing in self._community.missing(source, announcement.numbers):
            for numbers in self._not_asked_for(source, missing, announcer):
                room = MOST_ASKED // share - self._asked_events
                is_full = room <= 0 or len(self.asked) >= MOST_QUESTIONS // share
                waits = is_doubtful or self._is_coming(announcement, numbers.start, now)
                if is_full or waits:
                    late.append(numbers)
                    continue
                if len(numbers) > room:
                    late.append(range(numbers.start + room, numbers.stop))
                    numbers = range(numbers.start, numbers.start + room)
                self._ask(_Asked(source, numbers, [announcer]), now, fetches)
        if late:
            # One entry, whatever the number of gaps: they are looked at anew.
            whole = range(late[0].start, late[-1].stop)
            again = now + (ANSWER_DELAYS if is_blamed else 1.0) * self._delay
            self._push(source, whole, announcer, announcement.since, again)

    def _blame(self, member: Contact, now: float) -> None:
        remember(self._blamed, member.id, now + BLAME_SECONDS, MOST_BLAMED)
        self._broken.value += 1

    def _is_blamed(self, member: Contact, now: float) -> bool:
        return self._blamed.get(member.id, now) > now

    def _flows(self, source: bytes, now: float) -> bool:
        """Whether events of the source have come of late."""
        return self._latest(source)[0] > now - COMING_DELAYS * self._delay

    def _is_coming(self, announcement: _Announcement, number: int, now: float) -> bool:
        """Whether an event is likely on its way: in the queue behind earlier ones, or lost and being sent
        again, which is not believed for long."""
        if not self._flows(announcement.source, now):
            return False
        is_behind = number > self._latest(announcement.source)[1]
        return is_behind or now < announcement.since + ANSWER_DELAYS * self._delay

    def _not_asked_for(self, source: bytes, numbers: range, announcer: Contact) -> Sequence[range]:
        """Those that nobody was asked for; `announcer` has the others too, and may be asked next."""
        result: list[range] = []
        start = numbers.start
        for asked in self._overlapping(source, numbers):
            self._add_announcer(asked, announcer)
            if start < asked.numbers.start:
                result.append(range(start, asked.numbers.start))
            start = asked.numbers.stop
        if start < numbers.stop:
            result.append(range(start, numbers.stop))
        return result

    def _add_announcer(self, asked: _Asked, announcer: Contact) -> None:
        announcers, now = asked.announcers, self._context.now()
        if announcer in announcers:
            return
        if len(announcers) >= MOST_ANNOUNCERS:
            if self._is_blamed(announcer, now):
                return
            worse = [one for one in announcers if self._is_blamed(one, now)]
            if not worse:
                return
            announcers.remove(worse[-1])
        announcers.append(announcer)

    def _overlapping(self, source: bytes, numbers: range) -> list[_Asked]:
        asked_for = self._by_source.get(source)
        if asked_for is None:
            return []
        low = bisect_right(asked_for, numbers.start, key=lambda asked: asked.numbers.stop)
        high = bisect_left(asked_for, numbers.stop, key=lambda asked: asked.numbers.start)
        return asked_for[low:high]

    def _ask(self, asked: _Asked, now: float, fetches: _Fetches) -> None:
        asked.tries += 1
        asked.latest = asked.announcers[0]
        asked.go_on = not self._flows(asked.source, now)
        asked.due = now + ANSWER_DELAYS * self._delay
        self.asked[asked] = None
        self._asked_events += len(asked.numbers)
        asked_for = self._by_source.setdefault(asked.source, [])
        asked_for.insert(
            bisect_left(asked_for, asked.numbers.start, key=lambda one: one.numbers.start), asked
        )
        fetches.setdefault((asked.latest, asked.source), []).append(asked.numbers)

    def _remove(self, asked: _Asked) -> None:
        del self.asked[asked]
        self._asked_events -= len(asked.numbers)
        asked_for = self._by_source[asked.source]
        asked_for.remove(asked)
        if not asked_for:
            del self._by_source[asked.source]
