"""The structured service's rule as published: a table is drawn from the directory, and again at an interval.

**Drawing.** A size and a uniform sample come from the directory, and each member that was drawn must confirm.
A directory knows of departures late. So a member that was drawn enters the table only when it says itself
that it is one: tables hold no process that left before the drawing, and none that had crashed.

**Pace.** A table is drawn again when a part of the community has changed, and now and then when nothing has.
What a member sees of the change is a fair sample of it. A table is a uniform draw of the members, so the part
of it that leaves or crashes is the part of the community that does. A newcomer makes itself known to as many
uniformly drawn members as a table has, so the newcomers that a member meets, over its table's size, are the
part of the community that is new.

**As published**, nobody is taken into tables when it comes: only drawings bring newcomers into the tables of
those who came before. So a member draws at an interval that begins with the shortest one, and grows while
nothing changes.
"""

from __future__ import annotations

from collections.abc import Callable

from overlay.contact import Contact, PeerId
from overlay.context import Context, Randomness, Timer
from overlay.membership.config import StructuredConfig
from overlay.membership.interface import TopicDirectory
from overlay.wire import message


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


LEAST_CHANGES = 2
"""Changes that bring the next drawing forward, at least, while a table is full enough."""

SOON = (0.2, 0.6)
"""When a table is drawn after so many changes, in parts of the least time between two drawings; by chance.
Changes rarely come alone: a drawing is to follow the last of a burst, and not all members draw at once."""


GROWTH = 4
"""As published, an interval is as many times as long as the one before, if nothing changed in that."""


class DrawPace:
    """Counts changes between drawings and says when the next drawing is due."""

    __slots__ = ("_changes", "_config", "_drawn_at", "_is_due", "_members", "interval")

    def __init__(self, config: StructuredConfig, now: float) -> None:
        self._config = config
        self._drawn_at = now
        self._members = 0
        self._changes = 0
        self._is_due = False
        self.interval = config.shortest_redraw_seconds / GROWTH
        """Seconds from the last drawing to the next, as published."""

    def soonest(self, now: float) -> float:
        """The least seconds to the next drawing."""
        return max(self._drawn_at + self._config.shortest_redraw_seconds - now, 0.0)

    def drawn(self, now: float, members: int) -> None:
        """A table of as many members was drawn: count anew."""
        config = self._config
        grown = min(GROWTH * self.interval, config.longest_redraw_seconds)
        self.interval = config.shortest_redraw_seconds if self._changes else grown
        self._members, self._changes = members, 0
        self._drawn_at, self._is_due = now, False

    def changed(self, now: float, members: int, chance: Randomness) -> float | None:
        """A member came or went, and the table has this many now; the seconds to the next drawing when that
        must now be sooner."""
        self._changes += 1
        part = self._config.change * self._members
        is_full = members >= self._members - part
        if self._is_due or (self._changes < max(part, LEAST_CHANGES) and is_full):
            return None
        self._is_due = True
        shortest = self._config.shortest_redraw_seconds
        return max(shortest * chance.uniform(*SOON), self.soonest(now))


ROUNDS = 4
"""How often those who do not answer are asked, within two times `settle_seconds`. Where one datagram in ten
is lost, two questions leave one live member in thirty unheard, and four one in eight hundred."""

SPARES = 2
"""How many more than needed are drawn; they are asked if some do not answer."""

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
        self._asked = 0
        """How many of the sample were asked, the first ones first."""
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
        if not self._is_over and member.id in self._silent:
            self._confirmed[member.id] = None
            self._heard(member.id)

    def suspect(self, peer: PeerId) -> None:
        """Do not wait for a process that has crashed."""
        if not self._is_over and peer in self._silent:
            self._heard(peer)

    def _sized(self, size: float) -> None:
        if self._is_over:
            return
        self._size = max(size, 1.0)
        self._wanted = self._config.table_size(self._size)
        self._directory.sample(self._topic, self._wanted + SPARES, self._sampled)

    def _sampled(self, members: tuple[Contact, ...]) -> None:
        me = self._context.contact.id
        self._sample = tuple(member for member in members if member.id != me)
        self._silent = {member.id: member for member in self._sample[: self._wanted]}
        if not self._is_over:
            self._ask_the_silent()

    def _heard(self, peer: PeerId) -> None:
        del self._silent[peer]
        if not self._silent:
            self._ask_the_silent()

    def _ask_the_silent(self) -> None:
        """Ask those that did not answer once more; and the spare ones, where some are missing."""
        if self._timer is not None:
            self._timer.cancel()
        if self._rounds and len(self._confirmed) < self._wanted:
            self._silent |= {member.id: member for member in self._sample[self._asked :]}
        if not self._silent or self._rounds == ROUNDS:
            self._finish()
            return
        self._rounds += 1
        self._asked = self._wanted if self._rounds == 1 else len(self._sample)
        pause = 2 * self._config.settle_seconds / ROUNDS
        self._timer = self._context.call_later(pause, self._ask_the_silent)
        for member in list(self._silent.values()):
            self._ask(member, self._size)

    def _finish(self) -> None:
        for silent in self._silent.values():
            self._directory.report(self._topic, silent)
        # In the order of the sample: in that of the answers, near members would be preferred.
        members = [member for member in self._sample if member.id in self._confirmed]
        self.cancel()
        self._outcome(self._size, self._wanted, members, len(self._silent))
