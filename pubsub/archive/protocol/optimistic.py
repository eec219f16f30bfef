"""Optimistic delivery (sections 5 and 8): the application is given an event as soon as it comes from
anywhere.

Events come live, by gossip, and from the archive whatever gossip has missed; duplicates are removed in this
life of the subscriber. An event is acknowledged once the application is done with it, so that a crash loses
nothing, and what was in hand then comes again. No order is kept.
"""

from __future__ import annotations

from collections import deque
from typing import Any

from pubsub.archive.protocol.archived_event import id_of, is_id_alone
from pubsub.archive.protocol.subscriber import Numbered, Subscriber

REMEMBERED = 100_000
"""Ids of events that the application was given; the oldest are forgotten, when they are long acknowledged."""


class OptimisticSubscriber(Subscriber):
    """`heard` takes what comes live; the archive is asked for the rest."""

    ordered = False

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._ids: dict[bytes, bool] = {}
        """Events given to the application, and whether it is done with them."""
        self._in_hand: deque[bytes] = deque()
        self._numbers: dict[int, bytes] = {}
        """Ids of the events above the sync point."""
        self._unnumbered: dict[bytes, None] = {}
        """Ids of events that came live, and that the archive has not told the number of."""

    def heard(self, id: bytes, event: bytes) -> None:
        """An event came live."""
        if id not in self._ids:
            self._unnumbered[id] = None
            self._give(Numbered(0, b"", 0, event, False, b""), id)

    @property
    def is_settled(self) -> bool:
        return not self._unnumbered and not self._numbers

    def done_with_next(self) -> None:
        self._ids[self._in_hand.popleft()] = True
        self._done_with_one()

    def _give(self, numbered: Numbered, id: bytes) -> None:
        self._ids[id] = False
        self._in_hand.append(id)
        while len(self._ids) > REMEMBERED and self._ids[oldest := next(iter(self._ids))]:
            del self._ids[oldest]
            self._unnumbered.pop(oldest, None)
        self._deliver(numbered)

    def position_with_next(self) -> tuple[tuple[bytes, int], ...]:
        return ()

    def _forget_numbers(self) -> None:
        self._numbers.clear()

    def _has(self, sequence: int) -> bool:
        id = self._numbers.get(sequence)
        return id is not None and id in self._ids

    def _numbered(self, numbered: Numbered) -> None:
        event = numbered.event
        if is_id_alone(event):
            self._numbers[numbered.sequence] = event
            self._unnumbered.pop(event, None)
            if event not in self._ids:
                self._ask_for([numbered.sequence])
            return
        id = id_of(event)
        self._numbers[numbered.sequence] = id
        self._unnumbered.pop(id, None)
        if id not in self._ids:
            self._give(numbered, id)

    def _received(self) -> list[int]:
        return sorted(one for one, id in self._numbers.items() if self._ids.get(id))

    def _synced(self) -> None:
        for sequence in [one for one in self._numbers if one <= self.sync]:
            del self._numbers[sequence]

    def _done_to(self) -> int:
        return self.sync
