"""What an archive may forget: by age, by count, by size; by default nothing that somebody still waits for."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from overlay.errors import UsageError
from pubsub.archive.store.changes import Drop, EntityGap
from pubsub.archive.store.interface import Store
from pubsub.reliable.numbers import Numbers, Span

_PAGE = 1000
PAGES = 64
"""Pages of the inventory that are looked at each time."""

EXACT_GAPS = 16
"""Ranges of numbers that one look may leave as gaps of an entity."""


@dataclass(frozen=True)
class Retention:
    """Limits of a topic's inventory; None sets none. The oldest events go first."""

    max_age: float | None = None
    """Seconds since an event was archived."""
    max_count: int | None = None
    """How many events."""
    max_bytes: int | None = None
    """Bytes of the events' bodies together."""
    drop_unseen: bool = False
    """Whether events go that a registered entity waits for; it is then told of the gap. Otherwise they stay,
    whatever the limits."""

    def __post_init__(self) -> None:
        for name in ("max_age", "max_count", "max_bytes"):
            value = getattr(self, name)
            if value is not None and not value >= 0:  # NaN neither
                raise UsageError(f"{name} of a retention is {value}, and must be 0 or more")

    @property
    def is_unlimited(self) -> bool:
        return self.max_age is None and self.max_count is None and self.max_bytes is None


@dataclass(frozen=True)
class Plan:
    """What one look at a part of the inventory found."""

    drop: Drop | None
    """The change that brings the topic nearer to its limits, to be written like any other; None for none."""
    next: Scan
    """Where to go on the next time."""


@dataclass(frozen=True)
class Scan:
    """A place in the inventory: events that have to stay may be many, and are not looked at each time."""

    after: int = 0
    """Everything up to this number has been looked at."""
    count: int = 0
    size: int = 0
    """Events and bytes of it that stayed."""

    def plan(
        self,
        store: Store,
        topic: str,
        retention: Retention,
        now: float,
        unread: Sequence[Span] = (),
        pages: int = PAGES,
    ) -> Plan:
        """Look at the next events, the oldest first, as long as the inventory would still be over a limit
        without them. `now` is in the seconds of `StoredEvent.time`. `unread`: events with these numbers are
        to be read by somebody, whatever the dissemination table says.

        Those that have to stay count as if they went: limits are of the newest events, and what somebody
        waits for is kept on top of them."""
        if retention.is_unlimited:
            return Plan(None, Scan())
        gone, gaps = Numbers(most=None), dict[str, Numbers]()
        waited_for = Numbers(spans=unread, most=None)
        count, size = store.count(topic) - self.count, store.size(topic) - self.size
        after, stayed, stayed_bytes, is_done = self.after, self.count, self.size, False
        for _ in range(pages):
            page = store.holdings(topic, after, _PAGE)
            for holding in page:
                if not _is_over(retention, count, size, now - holding.time):
                    is_done = True
                    break
                number = holding.sequence
                count, size, after = count - 1, size - holding.size, number
                if (holding.waiting or number in waited_for) and not retention.drop_unseen:
                    stayed, stayed_bytes = stayed + 1, stayed_bytes + holding.size
                    continue
                gone.add(number)
                for entity in holding.waiting:
                    gaps.setdefault(entity, Numbers(most=None)).add(number)
            if is_done or not page:
                break
        else:
            return Plan(_drop(topic, gone, gaps), Scan(after, stayed, stayed_bytes))
        return Plan(_drop(topic, gone, gaps), Scan())


def _drop(topic: str, gone: Numbers, gaps: dict[str, Numbers]) -> Drop | None:
    if not gone:
        return None
    told = tuple(gap for entity in sorted(gaps) for gap in _gaps(entity, gaps[entity]))
    return Drop(topic, gone.spans(), told)


def _is_over(retention: Retention, count: int, size: int, age: float) -> bool:
    return (
        (retention.max_age is not None and age > retention.max_age)
        or (retention.max_count is not None and count > retention.max_count)
        or (retention.max_bytes is not None and size > retention.max_bytes)
    )


def _gaps(entity: str, sequences: Numbers) -> Iterator[EntityGap]:
    """What an entity is told to have missed: numbers that were for it and no others, so that it can count
    them; beyond `EXACT_GAPS` ranges the first ones as one."""
    spans = sequences.spans()
    if len(spans) > EXACT_GAPS:
        before = spans[: len(spans) - EXACT_GAPS + 1]
        spans = spans[len(before) :]
        joined = Span(before[0].first, before[-1].last)
        yield EntityGap(entity, joined, sum(last - first + 1 for first, last in before))
    for span in spans:
        yield EntityGap(entity, span, span.last - span.first + 1)
