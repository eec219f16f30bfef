"""What an archive may forget: by age, by count, by size; by default nothing that somebody still waits for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from overlay.errors import UsageError
from pubsub.archive.store.store import Holding, Store
from pubsub.reliable.numbers import Numbers, Span

_PAGE = 1000
PAGES = 64
"""Pages of the inventory that are looked at each time."""


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

    gone: list[Holding]
    """The events to be removed, in order; this brings the topic nearer to its limits."""
    next: Scan
    """Where to go on the next time."""

    @property
    def spans(self) -> tuple[Span, ...]:
        """The sequence numbers of the events to be removed."""
        return Numbers.of(holding.sequence for holding in self.gone).spans()


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
            return Plan([], Scan())
        gone: list[Holding] = []
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
                gone.append(holding)
            if is_done or not page:
                break
        else:
            return Plan(gone, Scan(after, stayed, stayed_bytes))
        return Plan(gone, Scan())


def _is_over(retention: Retention, count: int, size: int, age: float) -> bool:
    return (
        (retention.max_age is not None and age > retention.max_age)
        or (retention.max_count is not None and count > retention.max_count)
        or (retention.max_bytes is not None and size > retention.max_bytes)
    )
