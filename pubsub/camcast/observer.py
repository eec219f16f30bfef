"""What a process tells of events: a count of drops, with rows in the trace, and how some events came."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain, islice, starmap
from typing import TYPE_CHECKING, NamedTuple

from overlay.contact import Contact, PeerId
from overlay.metrics import Metrics
from pubsub.event import event_ids

if TYPE_CHECKING:
    from pubsub.trace import Trace

ONE = (range(1),)
"""One event, of which the number is not known."""

MOST_ROWS = 65_536
"""Rows of one drop: a gap in a peer's numbers may be of any size."""

STEPS = tuple(16**power for power in range(1, 6))
"""Of the numbers of blocks whose routes are kept, besides the last ones."""

KEPT = 4
"""Blocks that are kept of each step."""


class EventDrops:
    """The one way in which a node drops events: counted under a reason, with a row in the trace for each."""

    def __init__(self, metrics: Metrics, trace: Trace | None = None) -> None:
        self._family = metrics.family("events_dropped", "reason", "Events dropped, by reason.")
        self._trace = trace

    def add(
        self,
        reason: str,
        topic: str,
        source: bytes | None = None,
        numbers: Sequence[range] = ONE,
        peer: PeerId | None = None,
    ) -> None:
        """Drop these events, of the community of `topic`; `peer`: who they came from, or go to.

        Without a source it is not known which event it is: its row names none."""
        self._family.add(reason, sum(map(len, numbers)))
        if self._trace is not None:
            known = [None] if source is None else event_ids(source, numbers)
            for event in islice(known, MOST_ROWS):
                self._trace.record("drop", topic, event=event, peer=peer, detail=reason)


class Route(NamedTuple):
    """How a block came."""

    source: bytes
    first: int
    """With `source`: the block's first event."""
    sender: Contact | None
    """None: it was published here, or came in a subtopic's community."""
    hops: int
    at: float


class Routes:
    """How some events came to one community on this process, for a page that shows them.

    All processes keep the same sample: the last blocks, and the last of those whose first number can be
    divided by 16, by 256 and so on. So at any rate of events there are some that every member still knows
    when it is asked within the next few seconds (`pubsub.reports`)."""

    __slots__ = ("_kept", "_latest")

    def __init__(self) -> None:
        self._latest: list[tuple[bytes, int, Contact | None, int, float]] = []
        """The last ones, of which routes are made when they are asked for."""
        self._kept: list[list[Route]] = []
        """By step."""

    def add(self, source: bytes, first: int, sender: Contact | None, hops: int, at: float) -> None:
        """Keep how a block came: the fields of its `Route`."""
        latest = self._latest
        latest.append((source, first, sender, hops, at))
        if len(latest) > KEPT:
            del latest[0]
        if first % STEPS[0]:
            return
        for place, step in enumerate(STEPS):
            if first % step:
                break
            if place == len(self._kept):
                self._kept.append([])
            kept = self._kept[place]
            kept.append(Route(source, first, sender, hops, at))
            if len(kept) > KEPT:
                del kept[0]

    def all(self) -> set[Route]:
        return {*starmap(Route, self._latest), *chain.from_iterable(self._kept)}
