"""When the application is given an event: the two kinds of a subscriber.

Ordered exactly-once delivery (sections 5 and 7): the application is given events on a sync advance only.

They come in the order of the archive's sequence numbers, hence in each publisher's order, and none comes
twice: not by repeated messages, not when the archive is restarted or another replica takes its place, nor
when that has it in another stream of its publisher. After a crash of the subscriber itself, the events that
were in the application's hands come again and are marked as doubtful, unless the application gives back a
`position` that it kept together with its results; with it none does. This is not `pubsub.reliable.order`: a
subscriber's numbers have holes, where events are for others, and only the archive knows what is missing.

Optimistic delivery (sections 5 and 8): the application is given an event as soon as it comes from anywhere.

Events come live, by gossip, and from the archive whatever gossip has missed; duplicates are removed in this
life of the subscriber. An event is acknowledged once the application is done with it, so that a crash loses
nothing, and what was in hand then comes again. No order is kept.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from itertools import islice, takewhile
from math import inf
from typing import Any

from pubsub.archive.protocol.config import GRACE
from pubsub.archive.protocol.frontier import Given, Marks, begin_of
from pubsub.archive.protocol.subscriber import DurableSubscriber, Numbered


class OrderedSubscriber(DurableSubscriber):
    """The events themselves come from the archive: a delivery waits for its word anyway."""

    ordered = True

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._held: dict[int, Numbered] = {}
        self._given = Given(self.done.marks())
        """What the application was given in this life, or is done with from an earlier one."""
        self._remembers = len(self.done) > 0
        """The application knows what it was given in earlier lives, so that nothing is doubtful."""
        self._granted: deque[Numbered] = deque()
        """Below the sync point, in order: those that the application may not be done with."""
        self._in_hand: deque[Numbered] = deque()
        """Given to the application, in order, from the first one on that it is not done with."""
        self._finished: set[tuple[bytes, int]] = set()
        """Those among them that it is done with, by origin and number: they count as done when all before
        them are."""

    def done_with(self, numbered: Numbered) -> None:
        in_hand, finished = self._in_hand, self._finished
        if not in_hand or in_hand[0] is not numbered:
            finished.add(_key(numbered))
            return
        self._done_with_first()
        while finished and in_hand and _key(in_hand[0]) in finished:
            finished.remove(_key(in_hand[0]))
            self._done_with_first()

    def _done_with_first(self) -> None:
        first = self._in_hand.popleft()
        self.done.add(first.origin, first.stream, first.catenation)
        self._done_with_one()

    def position_with(self, done: Iterable[Numbered]) -> Marks:
        finished = {*self._finished, *map(_key, done)}
        position = Given(self.done.marks())
        for one in takewhile(lambda one: _key(one) in finished, self._in_hand):
            position.add(one.origin, one.stream, one.catenation)
        return position.marks()

    def _forget_streams(self) -> None:
        super()._forget_streams()
        self._given.forget(self.floor)

    def _forget_numbers(self) -> None:
        self._held.clear()
        self._granted.clear()

    def _has(self, sequence: int) -> bool:
        return sequence in self._held

    def _numbered(self, numbered: Numbered) -> None:
        if numbered.content is None:
            self._ask_for([numbered.sequence])
        else:
            is_known = begin_of(numbered.stream) >= self.floor
            if numbered.doubtful and self._remembers and is_known:
                numbered = numbered._replace(doubtful=False)
            self._held[numbered.sequence] = numbered

    def _received(self) -> list[int]:
        return sorted(self._held)

    def _synced(self) -> None:
        held = self._held
        for sequence in sorted(one for one in held if one <= self.sync):
            numbered = held.pop(sequence)
            self._granted.append(numbered)
            if self._given.add(numbered.origin, numbered.stream, numbered.catenation):
                self._in_hand.append(numbered)
                self._deliver(numbered)
        self._invoice_soon(GRACE)

    def _done_to(self) -> int:
        granted = self._granted
        while granted and self.done.covers(granted[0].origin, granted[0].catenation):
            granted.popleft()
        return granted[0].sequence - 1 if granted else self.sync


MOST_ASKED = 256
"""Ids of events whose numbers are asked for at a time."""

REMEMBERED = 100_000
"""Ids of events that the application was given; the oldest are forgotten, when they are long acknowledged."""


class OptimisticSubscriber(DurableSubscriber):
    """`heard` takes what comes live; the archive is asked for the rest."""

    ordered = False

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._ids: dict[bytes, bool] = {}
        """Events given to the application, and whether it is done with them."""
        self._numbers: dict[int, bytes] = {}
        """Ids of the events above the sync point."""
        self._unnumbered: dict[bytes, float] = {}
        """Ids of events that came live, and that the archive has not told the number of, and when they came;
        those that were asked for are behind the others."""

    def heard(self, id: bytes) -> None:
        """An event came live."""
        if id not in self._ids:
            self._unnumbered[id] = self._context.now()
            self._give(Numbered(0, b"", 0, id, None, False, b""))

    @property
    def is_settled(self) -> bool:
        return not self._unnumbered and not self._numbers

    def done_with(self, numbered: Numbered) -> None:
        self._ids[numbered.id] = True
        self._done_with_one()

    def _give(self, numbered: Numbered) -> None:
        self._ids[numbered.id] = False
        while len(self._ids) > REMEMBERED and self._ids[oldest := next(iter(self._ids))]:
            del self._ids[oldest]
            self._unnumbered.pop(oldest, None)
        self._deliver(numbered)

    def _unnumbered_ids(self) -> tuple[bytes, ...]:
        """Each is asked for once: an event that was not published durably never gets a number."""
        before = self._context.now() - self._config.retry
        late = [id for id, at in islice(self._unnumbered.items(), MOST_ASKED) if at <= before]
        for id in late:
            del self._unnumbered[id]
            self._unnumbered[id] = inf
        return tuple(late)

    def position_with(self, done: Iterable[Numbered]) -> Marks:
        return ()

    def _forget_numbers(self) -> None:
        self._numbers.clear()

    def _has(self, sequence: int) -> bool:
        id = self._numbers.get(sequence)
        return id is not None and id in self._ids

    def _numbered(self, numbered: Numbered) -> None:
        id = numbered.id
        self._numbers[numbered.sequence] = id
        self._unnumbered.pop(id, None)
        if id in self._ids:
            return
        if numbered.content is None:
            self._ask_for([numbered.sequence])
        else:
            self._give(numbered)

    def _received(self) -> list[int]:
        return sorted(one for one, id in self._numbers.items() if self._ids.get(id))

    def _synced(self) -> None:
        for sequence in [one for one in self._numbers if one <= self.sync]:
            del self._numbers[sequence]

    def _done_to(self) -> int:
        return self.sync


class SharingSubscriber(OptimisticSubscriber):
    """One of several consumers of a name: everything comes from the archive, to one of them."""

    shared = True

    @property
    def is_settled(self) -> bool:
        """How far the name is depends on the others too."""
        return True


def _key(numbered: Numbered) -> tuple[bytes, int]:
    return numbered.origin, numbered.catenation
