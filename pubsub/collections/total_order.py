"""Total order: one order of all additions for all members of a stable view.

Additions carry a logical clock, higher than any that their publisher has seen, and are delivered in the
order of (clock, publisher). A member may deliver an addition once nothing before it can come any more,
that is, once every member of its stable view has announced a clock as high, and has been caught up with:
an announcement tells which additions its sender has, and counts only when those are here too. So an
addition of a publisher that crashed, which only one member got, is still delivered in its place by all.

Announcements count within one *stay* in a stable view: one that was made before both sides had come to
the view says nothing about it. An addition is *foreign* to a stay when its publisher is not in the view
and no member had it when it came to the view; it waits for the next one. What had come to a member and waits
for its disk is had: the member says so, and delivers nothing before it. A newcomer may be in a view alone,
or with newcomers alone, before it has heard those who are there: what it has of them is foreign then, and it
is not settled, unless all of them are taken for gone. Additions wait to be published until their publisher is
*settled*, having heard everybody in this stay, so that their clocks are higher than those of all that was
delivered before.

What is promised: while members crash, join and leave, but none that lives is taken for gone, any two
members deliver what both deliver in the same order. A member that has just come is no exception: it knows
which additions are from before its time, and waits for all others that those who are there have, also for
those that were held for an earlier run of it. A partition splits the view; each side goes on with an
order of its own, and what the other side published meanwhile comes after the merge, in the order of the
clocks, late: after all that was delivered before, and before all that is published in the merged view.
Nothing is delivered while the view is not stable, and nothing waits for ever: additions that somebody has
and that do not come are given up after `patience`, or twice that: it begins anew for what others tell of
meanwhile, and when this member's own disk has failed and works again. Of a peer's clock no more is believed
than there may have been additions; what is beyond is counted, and an addition there dropped. A core: it needs
each publisher's additions in their order.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from overlay.bounded import remember
from overlay.contact import PeerId
from overlay.context import CallLater, OneTimer
from pubsub.collections.config import OrderConfig
from pubsub.collections.messages import MOST_COUNTS, Announcement

FARTHEST_CLOCK = 1 << 62
"""No addition is taken beyond it."""

MOST_AHEAD = 1 << 44
"""How far an addition's clock may be ahead of that of a member that takes it."""

MOST_RAISED = 1 << 32
"""By how much one announcement may raise a clock. It is less than `MOST_AHEAD`, or one whose clock a liar
raises would run away from those who have not heard the liar."""

MOST_WAITING = 64
"""Announcements of one member that are kept until they are caught up with."""

Source = tuple[PeerId, bytes]
"""A publisher and its run."""


@dataclass(slots=True)
class _Peer:
    """What a member has announced in this stay."""

    heard: bool = False
    """It has told of all publishers."""
    clock: int = -1
    """The highest clock of an announcement that is caught up with."""
    is_new: bool = True
    """As far as is known, it has not been settled with anybody either."""
    waiting: list[Announcement] = field(default_factory=list)
    """Those that are not; one that tells only of this stay's publishers counts after a whole one."""

    def add(self, announcement: Announcement) -> None:
        self.waiting.append(announcement)
        if len(self.waiting) > MOST_WAITING:
            del self.waiting[-2]  # the latest says all that it said

    def catch_up(self, has: Callable[[Announcement], bool]) -> None:
        """Count those whose additions are here."""
        left: list[Announcement] = []
        for announcement in sorted(self.waiting, key=lambda a: (not a.whole, a.clock)):
            if (announcement.whole or self.clock >= 0) and has(announcement):
                self.clock = max(self.clock, announcement.clock)
            else:
                left.append(announcement)
        self.waiting = left


class TotalOrder:
    """One member of one topic."""

    def __init__(
        self,
        me: PeerId,
        send: Callable[[PeerId, Announcement], None],
        call_later: CallLater,
        deliver: Callable[[Any], None],
        config: OrderConfig | None = None,
        on_settled: Callable[[], None] = lambda: None,
        count: Callable[[str], None] = lambda reason: None,
        is_done: Callable[[PeerId, bytes, int], bool] = lambda publisher, run, number: False,
        is_whole: Callable[[], bool] = lambda: True,
        is_held_up: Callable[[], bool] = lambda: False,
        coming: Callable[[], Mapping[Source, int]] = dict,
    ) -> None:
        """`count` is told why something is dropped or not believed. `is_done(publisher, run, number)`: no
        addition up to this number is to come any more, be it that they were made before this member came.
        `is_whole`: all who take part, as far as is known, are in the view or taken for gone. `is_held_up`:
        additions have come to this member, and wait for its disk, which fails. `coming`: all additions that
        wait for its disk, as the last one of each source."""
        self.orders = False
        """Whether this member delivers in order; the others need its announcements even if it does not."""
        self.clock = 0
        self.late = 0
        """Additions that came after one with a higher clock had been delivered."""
        self._me = me
        self._send = send
        self._deliver = deliver
        self._config = config or OrderConfig()
        self._on_settled = on_settled
        self._count = count
        self._is_done = is_done
        self._is_whole = is_whole
        self._is_held_up = is_held_up
        self._coming_now = coming
        self._seen: dict[Source, int] = {}
        self._excused: dict[Source, int] = {}
        """Numbers up to which additions are not waited for: they will not come, or did not for too long."""
        self._is_new = True
        """It has not been settled with anybody else yet."""
        self._expects_others = True
        """While it is new, it waits for those who take part; not longer than `patience`."""
        self._foreign: list[tuple[Source, int, int, Any, int, bool]] = []
        """Source, number, clock, item, up to where the source's additions have come, and whether it is
        restored."""
        self._heap: list[tuple[int, PeerId, bytes, int, Any]] = []
        self._latest: tuple[int, PeerId, bytes, int] = (0, PeerId(bytes(20)), b"", 0)
        self._publishing: dict[int, None] = {}
        """Clocks that were given out, and whose additions are not among the received yet."""
        self._timer = OneTimer(call_later, self._announce_if_news)
        self._repeat = OneTimer(call_later, self._announce_again)
        self._idle_repeats = 0
        """How often announcements were repeated since something was delivered or given up, while something
        waits."""
        self._overdue: dict[Source, int] = {}
        """What others had, and this member not, when it had to wait for the first time since then."""
        self._begin_alone()

    def _begin_alone(self) -> None:
        """What is known of views and their members: nothing."""
        self._view = b""
        self._members: tuple[PeerId, ...] | None = None
        self._stay = 0
        self._peers: dict[PeerId, _Peer] = {}
        self._stay_of: dict[PeerId, int] = {}
        self._early: dict[PeerId, Announcement] = {}
        """The latest announcement from each member for a view that this member has not reached yet."""
        self._echoed: dict[PeerId, None] = {}
        """Who knows of this stay."""
        self._announced = -1
        self._heard_now: dict[Source, None] = {}
        """The sources whose number has risen in this stay."""
        self._claimed: dict[Source, int] = {}
        """The highest numbers that members had when they came to the view."""
        self._coming: dict[Source, int] = {}
        """Those that had come to this member then, and waited for its disk."""

    # Views.

    def unstable(self) -> None:
        """The view is changing; nothing is delivered until it is stable again."""
        self._members = None
        self._admit_foreign()

    def stable(self, view: bytes, members: tuple[PeerId, ...]) -> None:
        """This member has come to a stable view, in which it is."""
        self.unstable()
        self._stay += 1
        if view != self._view:
            self._stay_of = {}  # a member that began anew, which is another view, counts from 1 again
        self._view = view
        self._members = members
        self._peers = {member: _Peer() for member in members if member != self._me}
        self._echoed = {}
        self._heard_now = {}
        self._coming = {} if self._is_new else dict(self._coming_now())
        self._claimed = dict(self._coming)
        self._idle_repeats = 0
        early, self._early = self._early, {}
        for member, announcement in early.items():
            if member in self._peers and announcement.view == view:
                self._stay_of[member] = announcement.stay
        self._admit_foreign()
        self._announce()
        self._advance()

    @property
    def is_settled(self) -> bool:
        """The view is stable, and every member has been heard since it is."""
        return (
            self._members is not None
            and all(peer.heard for peer in self._peers.values())
            and not self._lacks_others
        )

    @property
    def _lacks_others(self) -> bool:
        """This member and all others in its view are newcomers, and have only not heard yet those who take
        part, and may have an order."""
        return (
            self._is_new
            and self._expects_others
            and all(peer.is_new for peer in self._peers.values())
            and not self._is_whole()
        )

    @property
    def waiting(self) -> int:
        """Additions that are held back."""
        return len(self._heap) + len(self._foreign)

    def begin_to_order(self) -> None:
        """From the next time that this member is settled, it delivers in order."""
        self.orders = True

    # Additions.

    def stamp(self) -> int:
        """The clock of a new addition; ask when settled. It is to be published, or `unstamp`ed."""
        self.clock += 1
        self._publishing[self.clock] = None
        return self.clock

    def unstamp(self, clock: int) -> None:
        """The addition with this clock is not going to be published."""
        self._publishing.pop(clock, None)
        self._announce_soon()
        self._advance()

    def receive(
        self,
        source: Source,
        number: int,
        clock: int,
        item: Any,
        *,
        complete: int | None = None,
        is_restored: bool = False,
    ) -> bool:
        """An addition has come, this member's own among them; False if it is dropped. `complete`: up to this
        number the source's additions have come; one source's come in order, unless this member does not
        order yet.
        `is_restored`: it is an own one of an earlier start, from a log, and others may have delivered it."""
        complete = number if complete is None else complete
        if clock > min(self.clock + MOST_AHEAD, FARTHEST_CLOCK):
            self._count("addition_clock")
            self.skip(*source, number)
            return False
        if source[0] == self._me:
            self._publishing.pop(clock, None)
        self.clock = max(self.clock, clock)
        if self._is_foreign(source, number, is_restored):
            self._foreign.append((source, number, clock, item, complete, is_restored))
            self._repeat_later()
        else:
            self._take(source, number, clock, item, complete)
            self._announce_soon()
            self._advance()
        return True

    def _is_foreign(self, source: Source, number: int, is_restored: bool) -> bool:
        if source[0] == self._me and not (is_restored and self._is_new):
            return False
        if source[0] in self._peers:
            return False
        if self._members is None and not self._is_new:
            return False
        return number > self._claimed.get(source, 0)

    def _admit_foreign(self) -> None:
        """Take those that are foreign no more."""
        foreign, self._foreign = self._foreign, []
        for waiting in foreign:
            source, number, clock, item, complete, is_restored = waiting
            if self._is_foreign(source, number, is_restored):
                self._foreign.append(waiting)
            else:
                self._take(source, number, clock, item, complete)

    def _take(self, source: Source, number: int, clock: int, item: Any, complete: int) -> None:
        if self.orders:
            heapq.heappush(self._heap, (clock, *source, number, item))
        if complete:
            self._saw(source, complete)

    def skip(self, publisher: PeerId, run: bytes, last: int) -> None:
        """The source's additions up to this number will not come."""
        self._excuse_up_to((publisher, run), last)
        self._advance()

    def _saw(self, source: Source, number: int) -> None:
        number = max(number, self._seen.pop(source, 0))
        self._seen[source] = number  # last again, so that the longest silent is first
        self._heard_now[source] = None
        if len(self._seen) > MOST_COUNTS:
            silent = next(iter(self._seen))
            del self._seen[silent]
            self._heard_now.pop(silent, None)

    # Announcements.

    def announced(self, sender: PeerId, announcement: Announcement) -> None:
        """A member's announcement has come; in any order, perhaps again."""
        if sender == self._me:
            return
        if announcement.clock > self.clock + MOST_RAISED:
            self._count("announced_clock")
            # To promise less than the sender does is safe.
            announcement = replace(announcement, clock=self.clock + MOST_RAISED)
        self.clock = max(self.clock, announcement.clock)
        peer = self._peers.get(sender)
        if self._members is None or peer is None or announcement.view != self._view:
            remember(self._early, sender, announcement, MOST_COUNTS)
            return
        if announcement.stay < self._stay_of.get(sender, 0):
            return
        is_news = announcement.stay > self._stay_of.get(sender, 0)
        self._stay_of[sender] = announcement.stay
        if announcement.echo == self._stay:
            self._echoed[sender] = None
            peer.is_new = peer.is_new and announcement.new
            peer.add(announcement)
            if announcement.whole:
                peer.heard = True
                self._claim(announcement)
        if is_news or announcement.echo != self._stay:
            self._announce_to(sender, whole=True)
        self._advance()

    def undelivered(self, peer: PeerId) -> None:
        """An announcement did not reach this member; unless it is gone, it is made again."""
        self._echoed.pop(peer, None)
        self._repeat_later()

    def _awaited(self) -> dict[Source, int]:
        """Up to where others have additions that this member waits for."""
        awaited: dict[Source, int] = {}
        for peer in self._peers.values():
            for announcement in peer.waiting:
                for publisher, run, number in announcement.counts:
                    source = (publisher, run)
                    awaited[source] = max(number, awaited.get(source, 0))
        return awaited

    def _excuse_up_to(self, source: Source, number: int) -> None:
        number = max(number, self._excused.get(source, 0))
        remember(self._excused, source, number, MOST_COUNTS)

    def _claim(self, announcement: Announcement) -> None:
        for publisher, run, number in announcement.counts:
            source = (publisher, run)
            self._claimed[source] = max(number, self._claimed.get(source, 0))
        if self._foreign:
            self._admit_foreign()

    def _announce_soon(self) -> None:
        if self._members is not None:
            self._timer.set(self._config.delay)

    def _announce_if_news(self) -> None:
        if self._members is not None and self._promise() > self._announced:
            self._announce()

    def _announce(self) -> None:
        self._announced = self._promise()
        for peer in self._peers:
            self._announce_to(peer, whole=peer not in self._echoed)
        self._repeat_later()

    def _announce_to(self, peer: PeerId, whole: bool) -> None:
        sources = self._seen if whole else self._heard_now
        has = {source: self._seen[source] for source in sources}
        for source, number in self._coming.items() if whole else ():
            has[source] = max(number, has.get(source, 0))
        counts = tuple((*source, number) for source, number in has.items())[-MOST_COUNTS:]
        echo = self._stay_of.get(peer, 0)
        self._send(
            peer,
            Announcement(
                self._view, self._stay, echo, self._promise(), whole, counts, self._is_new
            ),
        )

    def _promise(self) -> int:
        """No addition with this clock or a lower one will be published here."""
        return min(self._publishing, default=self.clock + 1) - 1

    def _repeat_later(self) -> None:
        if self._members is not None:
            self._repeat.set(self._config.repeat)

    def _announce_again(self) -> None:
        if self._members is None:
            return
        is_waiting = self.waiting or self._lacks_others
        is_idle = is_waiting and not self._is_held_up()
        self._idle_repeats = self._idle_repeats + 1 if is_idle else 0
        if self._idle_repeats == 1:
            self._overdue = self._awaited()
        if self._idle_repeats * self._config.repeat >= self._config.patience:
            self._give_up()
        if (
            self._heap
            or self._foreign
            or not self.is_settled
            or len(self._echoed) < len(self._peers)
        ):
            self._announce()
            self._advance()  # nobody says when all others are taken for gone

    def _give_up(self) -> None:
        """Wait no longer for what others have, nor for another view."""
        self._idle_repeats = 0
        self._expects_others = False
        self._coming = {}
        for source, number in self._overdue.items():
            self._excuse_up_to(source, number)
        for source, number, *_ in self._foreign:
            self._claimed[source] = max(number, self._claimed.get(source, 0))
        self._admit_foreign()
        self._advance()

    def close(self) -> None:
        """No timer is left."""
        self._members = None
        self._timer.close()
        self._repeat.close()

    # Delivery.

    def _advance(self) -> None:
        """Count the announcements that are caught up with, and deliver what nothing can precede."""
        if self._members is None:
            return
        for peer in self._peers.values():
            if peer.waiting:
                peer.catch_up(self._has)
        if not self.is_settled:
            return
        if self._is_new and self._peers:
            self._is_new = False
            self._admit_foreign()
        self._on_settled()
        if not all(self._has_up_to(*one) for one in self._coming.items()):
            return
        limit = min([peer.clock for peer in self._peers.values()] + [self._promise()])
        while self._heap and self._heap[0][0] <= limit:
            clock, publisher, run, number, item = heapq.heappop(self._heap)
            key = (clock, publisher, run, number)
            if key < self._latest:
                self.late += 1
            else:
                self._latest = key
            self._idle_repeats = 0
            self._deliver(item)

    def _has(self, announcement: Announcement) -> bool:
        if not self.orders:
            return True
        counts = announcement.counts
        return all(self._has_up_to((publisher, run), number) for publisher, run, number in counts)

    def _has_up_to(self, source: Source, number: int) -> bool:
        return (
            self._seen.get(source, 0) >= number
            or self._excused.get(source, 0) >= number
            or self._is_done(*source, number)
        )
