"""Handing messages over to the application, in the order that was asked for, and no more than it bears.

With a log, a message is acknowledged as soon as it is on the disk; but while the application has as much
before it as it may have (it `is_behind`), only when it is done with the message, as without a log. So
publishers wait for one that is slow, and what it has before it stays within its limit and the windows of
those who publish.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from overlay.contact import Contact, PeerId
from pubsub.reliable.numbers import Numbers
from pubsub.reliable.runs import Reason
from pubsub.topics.messages import LARGEST, Item
from pubsub.topics.state import OVERHEAD, BroadcastState

Semantics = Literal["reliable", "stubborn", "best-effort"]
Order = Literal["none", "fifo"]


@dataclass(frozen=True, slots=True)
class Delivery:
    """One message. Publisher, run, semantics and number identify it."""

    publisher: PeerId
    run: bytes
    """Of the publisher: another one after it restarted without a log."""
    number: int
    """Of this message among those of the publisher in this run, from 1; each semantics counts its own."""
    payload: bytes
    semantics: Semantics = "reliable"
    only: tuple[PeerId, ...] | None = None
    """To whom alone it was directed, if it was."""
    complete: int = 0
    """Up to this number, all reliable messages of the publisher in this run were delivered here, were for
    others, or were told as a gap; it may be less than `number` without FIFO order."""


@dataclass(frozen=True, slots=True)
class Participant:
    """One that takes part in a topic, reachable or not."""

    id: PeerId
    contact: Contact
    filter: str
    """What it wants, as text that only the application reads; empty for everything."""


class Delivering:
    """What was taken and the application is not done with."""

    def __init__(
        self, state: BroadcastState, order: Order, deliver: Callable[[Item, int], None]
    ) -> None:
        self._state = state
        self.order = order
        self._deliver = deliver
        self._early: dict[bytes, dict[int, Item]] = {}
        """Messages that were not handed over yet; with FIFO order, because predecessors are missing."""
        self._unfinished: dict[bytes, dict[int, int]] = {}
        """The bytes of each message that the application is not done with, by source and number."""
        self._messages = 0
        self._bytes = 0
        self._handing_over: dict[bytes, None] = {}
        self._unwritten: dict[bytes, dict[int, None]] = {}
        """The messages among them that are not on the disk yet."""

    @property
    def is_behind(self) -> bool:
        """Whether the application has as much before it as it may have."""
        config = self._state.config
        return (
            self._messages >= config.unfinished_messages or self._bytes >= config.unfinished_bytes
        )

    def add(self, item: Item, *, is_written: bool) -> None:
        """The application is to get a message, when `hand_over` is called; one that is not on the disk yet,
        when it is `written`."""
        if not is_written:
            self._unwritten.setdefault(item.source, {})[item.number] = None
        size = OVERHEAD + len(item.payload or b"")
        self._early.setdefault(item.source, {})[item.number] = item
        unfinished = self._unfinished.setdefault(item.source, {})
        self._bytes += size - unfinished.get(item.number, 0)
        self._messages += item.number not in unfinished
        unfinished[item.number] = size

    def written(self, item: Item) -> None:
        """A message is on the disk."""
        unwritten = self._unwritten.get(item.source, {})
        unwritten.pop(item.number, None)
        if not unwritten:
            self._unwritten.pop(item.source, None)

    def waiting_for_disk(self) -> list[Item]:
        """What the application is to get as soon as it is on the disk, and lacks no predecessor."""
        return [
            self._early[source][number]
            for source, numbers in self._unwritten.items()
            for number in numbers
            if number <= self._state.taken_of(source).mark
        ]

    def finished(self, item: Item) -> None:
        unfinished = self._unfinished.get(item.source, {})
        if item.number in unfinished:
            self._bytes -= unfinished.pop(item.number)
            self._messages -= 1
        if not unfinished:
            self._unfinished.pop(item.source, None)

    def is_done(self, source: bytes, number: int) -> bool:
        """Whether no message of a source up to this number is to come: the application is done with each,
        or it was for others, from before this participant's time, or told as a gap."""
        taken = self._state.taken.get(source)
        mark = self._state.forgotten.get(source, 0) if taken is None else taken.mark
        return number <= mark and all(n > number for n in self._unfinished.get(source, ()))

    def change_order(self, order: Order) -> None:
        """Keep another order from now on; without one, what waited for its predecessors is delivered."""
        self.order = order
        self.hand_over_all()

    def hand_over(self, source: bytes) -> None:
        """Deliver what may be delivered: all, or with FIFO order what has no predecessor missing.

        The application may cause more to be ready while it is called: that comes after what is ready now.
        """
        if source in self._handing_over:
            return
        self._handing_over[source] = None
        try:
            while ready := self._ready(source):
                for number, following in zip(ready, [*ready[1:], None], strict=True):
                    item = self._early[source].pop(number)
                    self._deliver(item, self._complete(source, following))
        finally:
            del self._handing_over[source]
            if not self._early.get(source, True):
                del self._early[source]

    def _ready(self, source: bytes) -> list[int]:
        early, unwritten = self._early.get(source, {}), self._unwritten.get(source, {})
        if self.order == "none":
            return sorted(number for number in early if number not in unwritten)
        mark = min(self._state.taken_of(source).mark, min(unwritten, default=LARGEST) - 1)
        return sorted(number for number in early if number <= mark)

    def _complete(self, source: bytes, following: int | None) -> int:
        """Up to which number every message was delivered, was for others, or is gone; `following` is the
        next one that is delivered."""
        mark = self._state.taken_of(source).mark
        if following is None:
            following = min(self._early[source], default=mark + 1)
        return min(mark, following - 1)

    def hand_over_all(self) -> None:
        for source in list(self._early):
            self.hand_over(source)


OnGap = Callable[[bytes, int, int, Reason], None]
"""Source, first and last number that will never come, and why."""

KEPT_COMES = 5
"""Patiences within which those who keep what everybody else has send it to one that they did not know."""


@dataclass(frozen=True, slots=True)
class _Hole:
    """What is missing of one source."""

    since: float
    mark: int
    """Everything up to this number was here at that time."""
    highest: int
    """The highest number that was here at that time: what is missing below has been missing since."""


class Holes:
    """Messages that are known to exist, since later ones of their publisher came, and that nobody can send.

    A publisher that dies may take messages with it that nobody else has, or whose only holders died too,
    while later ones live on at others. A participant that lacks them waits, for a participant that has them
    may come back:

        with FIFO order      `hole_patience` seconds since the publisher was last within reach. Later messages
                             wait for them, so the wait is short, and ends even if the publisher is only cut
                             off.
        without an order     the same, once the publisher has left or runs again without these messages, and
                             all participants are within reach; else `stay_away`. Nothing waits for them.

    Then they are told as a gap, and count as received. What is on its way from somebody within reach comes
    long before: every holder sends it within a few times `patience`.

    What others say that everybody has, and is missing here, is waited for a little: this participant was not
    known to them when they let it go, and they send what they keep (`BroadcastConfig.kept_seconds`) when they
    have heard what it lacks.

    `on_gap` is told what is given up.
    """

    def __init__(self, state: BroadcastState, on_gap: OnGap) -> None:
        self._state = state
        self._on_gap = on_gap
        self._holes: dict[bytes, _Hole] = {}
        self._let_go: dict[bytes, tuple[Numbers, float]] = {}
        """What others have let go and is missing here, and until when it is waited for."""

    def __len__(self) -> int:
        """Sources of which something was missing when `look` was called last."""
        return len(self._holes) + len(self._let_go)

    def others_let_go(self, source: bytes, gone: Numbers) -> None:
        """Others say that everybody has these messages, some of which are missing here."""
        missing, until = self._let_go.get(source, (Numbers(), 0.0))
        for first, last in gone.without(self._state.taken_of(source)).spans():
            if missing.add_span(first, last):
                until = self._state.context.now() + KEPT_COMES * self._state.config.patience
        self._let_go[source] = (missing, until)

    def look(self, order: Order) -> None:
        """Notice what is missing, and give up what was for too long; to be called now and then."""
        within_reach = self._runs_within_reach()
        now = self._state.context.now()
        for source, (missing, until) in list(self._let_go.items()):
            if now >= until or not missing.without(self._state.taken_of(source)):
                del self._let_go[source]
                self._give_up(source, self._state.taken_of(source), missing, "forgotten")
        before, self._holes = self._holes, {}
        for source, taken in list(self._state.taken.items()):
            if not taken.span_count > 0:
                continue
            hole = before.get(source)
            if hole is None or hole.mark != taken.mark or source in within_reach:
                hole = _Hole(now, taken.mark, taken.highest)
            elif now - hole.since >= self._wait(source, order):
                self._give_up(source, taken, Numbers(hole.highest), "lost")
                if not taken.span_count > 0:
                    continue
                hole = _Hole(now, taken.mark, taken.highest)
            self._holes[source] = hole

    def _runs_within_reach(self) -> dict[bytes, None]:
        membership = self._state.membership
        entries = (membership.participants.get(peer) for peer in membership.view.members)
        return {entry.source: None for entry in entries if entry is not None}

    def _wait(self, source: bytes, order: Order) -> float:
        config, membership = self._state.config, self._state.membership
        entries = membership.participants.values()
        is_gone = all(entry.source != source for entry in entries)
        is_all_within_reach = len(membership.view.members) == len(membership.participants)
        if order == "fifo" or (is_gone and is_all_within_reach):
            return config.hole_patience
        return config.stay_away

    def _give_up(self, source: bytes, taken: Numbers, gone: Numbers, reason: Reason) -> None:
        for first, last in gone.without(taken).spans():
            taken.add_span(first, last)
            self._on_gap(source, first, last, reason)
