"""Ordered exactly-once delivery (sections 5 and 7): the application is given events on a sync advance only.

They come in the order of the archive's sequence numbers, hence in each publisher's order, and none comes
twice: not by repeated messages, not when the archive is restarted or another replica takes its place, nor
when that has it in another stream of its publisher. After
a crash of the subscriber itself, the events that were in the application's hands come again and are marked
as doubtful, unless the application gives back a `position` that it kept together with its results; with it
none does.
"""

from __future__ import annotations

from collections import deque
from typing import Any

from pubsub.archive.protocol.archived_event import is_id_alone
from pubsub.archive.protocol.frontier import begin_of
from pubsub.archive.protocol.given import Given
from pubsub.archive.protocol.subscriber import Numbered, Subscriber


class OrderedSubscriber(Subscriber):
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
        """Given to the application, which is not done with them."""

    def done_with_next(self) -> None:
        numbered = self._in_hand.popleft()
        self.done.add(numbered.origin, numbered.stream, numbered.catenation)
        self._done_with_one()

    def position_with_next(self) -> tuple[tuple[bytes, int], ...]:
        position = Given(self.done.marks())
        if self._in_hand:
            first = self._in_hand[0]
            position.add(first.origin, first.stream, first.catenation)
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
        if is_id_alone(numbered.event):
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
        self._invoice_soon(self._config.grace)

    def _done_to(self) -> int:
        granted = self._granted
        while granted and self.done.covers(granted[0].origin, granted[0].catenation):
            granted.popleft()
        return granted[0].sequence - 1 if granted else self.sync
