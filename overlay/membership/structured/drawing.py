"""The structured service's rule as published: a table is drawn from the directory, and again at an interval.

**Drawing.** A size and a uniform sample come from the directory, and each member that was drawn must confirm.
A directory knows of departures late. So a member that was drawn enters the table only when it says itself
that it is one: tables hold no process that left before the drawing, and none that had crashed.

**Pace.** The faster a community changes, the more often tables are drawn. What a member sees of the change is
a fair sample of it. A table is a uniform draw of the members, so the part of it that leaves or crashes is the
part of the community that does. A newcomer makes itself known to as many uniformly drawn members as a table
has, so the newcomers that a member meets, over its table's size, are the part of the community that is new.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from overlay.contact import Contact, PeerId
from overlay.context import Context, Timer
from overlay.errors import UsageError
from overlay.membership.interface import TopicDirectory
from overlay.wire import message


@dataclass(frozen=True, slots=True)
class StructuredConfig:
    """One community's drawn tables."""

    c: float = 5.0
    """A table has floor(ln N + c) members. 0 or more."""

    shortest_redraw_seconds: float = 15.0
    """The least time between two drawings of a whole table."""

    longest_redraw_seconds: float = 300.0
    """The most time between two drawings, in a community that does not change."""

    change: float = 0.1
    """The part of the members that may change, by joining, leaving or crashing, from one drawing to the
    next: the interval is `change` / (part that changes a second). More than 0, at most 1."""

    settle_seconds: float = 1.0
    """How long a newcomer waits for members to take it into their tables before it says it has joined."""

    def __post_init__(self) -> None:
        if not 0 <= self.c < math.inf:
            raise UsageError(f"c must be 0 or more, not {self.c}")
        if not 0 < self.change <= 1:
            raise UsageError(f"change must be more than 0 and at most 1, not {self.change}")
        if not 0 < self.shortest_redraw_seconds <= self.longest_redraw_seconds < math.inf:
            raise UsageError(
                "shortest_redraw_seconds must be more than 0 and at most longest_redraw_seconds, not"
                f" {self.shortest_redraw_seconds} and {self.longest_redraw_seconds}"
            )
        if not 0 <= self.settle_seconds < math.inf:
            raise UsageError(f"settle_seconds must be 0 or more, not {self.settle_seconds}")

    def table_size(self, size: float) -> int:
        """Members of a table in a community of `size`."""
        return math.floor(math.log(max(size, 1.0)) + self.c)


@message(0x3A)
class Drawn:
    """I drew you for my table, until I draw again in `seconds`: are you a member?"""

    topic: str
    seconds: float
    size: float
    """How many members there are, as far as I know."""
    take_in: bool
    """Few hold me in their tables: take me into yours."""
    newcomer: bool
    """I was no member before."""


@message(0x3B)
class Confirm:
    """I am a member; and for `seconds`, when more than 0, you are in my table."""

    topic: str
    seconds: float


@message(0x3C)
class Farewell:
    """I leave: forget me."""

    topic: str


@message(0x3D)
class Released:
    """I drew you, or held you, and have others in my table now."""

    topic: str


SMOOTHING = 0.75
"""The weight of the latest interval in the estimated rate."""

GROWTH = 4
"""The most times that an interval is as long as the last: what was quiet once may have been so by chance."""


class DrawPace:
    """Counts changes between drawings and says when the next drawing is due."""

    __slots__ = ("_changes", "_config", "_drawn_at", "_interval", "_rate")

    def __init__(self, config: StructuredConfig, now: float) -> None:
        self._config = config
        self._drawn_at = now
        self._interval = config.shortest_redraw_seconds / GROWTH
        self._rate: float | None = None
        self._changes = 0

    @property
    def interval(self) -> float:
        """Seconds from the last drawing to the next."""
        return self._interval

    def soonest(self, now: float) -> float:
        """The least seconds to the next drawing."""
        return max(self._drawn_at + self._config.shortest_redraw_seconds - now, 0.0)

    def drawn(self, now: float, table_size: int) -> None:
        """A table was drawn: set the next interval by what changed since the last."""
        rate = self._rate_now(now, table_size)
        self._interval = self._interval_at(rate)
        self._rate, self._changes, self._drawn_at = rate, 0, now

    def next_interval(self, now: float, table_size: int) -> float:
        """Seconds from a drawing now to the next."""
        return self._interval_at(self._rate_now(now, table_size))

    def _rate_now(self, now: float, table_size: int) -> float:
        """The part of the community that changes in a second."""
        seconds = max(now - self._drawn_at, 1e-3)
        seen = self._changes / max(table_size, 1) / seconds
        return seen if self._rate is None else SMOOTHING * seen + (1 - SMOOTHING) * self._rate

    def _interval_at(self, rate: float) -> float:
        config = self._config
        longest = min(GROWTH * self._interval, config.longest_redraw_seconds)
        wanted = config.change / rate if rate > 0 else longest
        return min(max(wanted, config.shortest_redraw_seconds), longest)

    def changed(self, now: float, table_size: int) -> float | None:
        """A member came or went; the seconds to the next drawing when that must now be sooner."""
        self._changes += 1
        if self._changes <= 2 * self._config.change * max(table_size, 1):
            return None
        shortest = self._config.shortest_redraw_seconds
        if shortest >= self._interval:
            return None
        self._interval = shortest
        return self.soonest(now)


ROUNDS = 2
"""How often those who do not answer are asked."""

SPARES = 2
"""How many more than needed are drawn, for some will not answer."""

Ask = Callable[[Contact, float], None]
"""Called with a member to ask and the community's size."""

Outcome = Callable[[float, int, list[Contact], int], None]
"""Called once with the community's size, the table's size, those who confirmed, and how many did not."""


class Drawing:
    """Begins when made; `outcome` is called once, unless it is cancelled before."""

    def __init__(
        self,
        topic: str,
        context: Context,
        directory: TopicDirectory,
        config: StructuredConfig,
        ask: Ask,
        outcome: Outcome,
    ) -> None:
        self._topic = topic
        self._context = context
        self._directory = directory
        self._config = config
        self._ask = ask
        self._outcome = outcome
        self._size = 1.0
        self._wanted = 0
        self._sample: tuple[Contact, ...] = ()
        self._silent: dict[PeerId, Contact] = {}
        self._confirmed: dict[PeerId, None] = {}
        self._rounds = 0
        self._timer: Timer | None = None
        self._is_over = False
        directory.size(topic, self._sized)

    def cancel(self) -> None:
        self._is_over = True
        if self._timer is not None:
            self._timer.cancel()

    def confirmed(self, member: Contact) -> None:
        """`member` says that it is one."""
        if self._is_over or self._silent.pop(member.id, None) is None:
            return
        self._confirmed[member.id] = None
        if not self._silent:
            self._finish()

    def suspect(self, peer: PeerId) -> None:
        """Do not wait for a process that has crashed."""
        if self._silent.pop(peer, None) is not None and not self._silent and not self._is_over:
            self._finish()

    def _sized(self, size: float) -> None:
        if self._is_over:
            return
        self._size = max(size, 1.0)
        self._wanted = self._config.table_size(self._size)
        self._directory.sample(self._topic, self._wanted + SPARES, self._sampled)

    def _sampled(self, members: tuple[Contact, ...]) -> None:
        me = self._context.contact.id
        self._sample = members
        self._silent = {member.id: member for member in members if member.id != me}
        if not self._is_over:
            self._ask_the_silent()

    def _ask_the_silent(self) -> None:
        if not self._silent or self._rounds == ROUNDS:
            self._finish()
            return
        self._rounds += 1
        self._timer = self._context.call_later(self._config.settle_seconds, self._ask_the_silent)
        for member in list(self._silent.values()):
            self._ask(member, self._size)

    def _finish(self) -> None:
        for silent in self._silent.values():
            self._directory.report(self._topic, silent)
        # In the order of the sample: in that of the answers, near members would be preferred.
        members = [member for member in self._sample if member.id in self._confirmed]
        self.cancel()
        self._outcome(self._size, self._wanted, members, len(self._silent))
