"""What an archive may forget: by age, by count, by size; by default nothing that somebody still waits for."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from overlay.errors import UsageError
from pubsub.archive.store.changes import Drop, Gap
from pubsub.archive.store.interface import Holding, Store
from pubsub.reliable.numbers import Numbers, Span

_PAGE = 1000


@dataclass(frozen=True)
class Retention:
    """Limits of a topic's inventory; None sets none. The oldest events go first."""

    max_age: float | None = None
    """Seconds since an event was archived."""
    max_count: int | None = None
    """Events."""
    max_bytes: int | None = None
    """Of the events' bodies together."""
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


def plan_drop(store: Store, topic: str, retention: Retention, now: float) -> Drop | None:
    """The change that brings a topic within its limits as far as these allow; None when nothing goes.

    `now` is in the seconds of `StoredEvent.time`. Write the change like any other."""
    if retention.is_unlimited:
        return None
    gone = Numbers(most=None)
    gaps: dict[str, Numbers] = {}
    for holding in _over_the_limits(store, topic, retention, now):
        if holding.waiting and not retention.drop_unseen:
            continue
        gone.add(holding.sequence)
        for entity in holding.waiting:
            gaps.setdefault(entity, Numbers(most=None)).add(holding.sequence)
    if not gone:
        return None
    return Drop(topic, gone.spans(), tuple(_gap(entity, gaps[entity]) for entity in sorted(gaps)))


def _over_the_limits(
    store: Store, topic: str, retention: Retention, now: float
) -> Iterator[Holding]:
    """The oldest events, as long as the inventory without them would still be over a limit.

    Those that have to stay count as if they went: limits are of the newest events, and what somebody waits
    for is kept on top of them."""
    count, size = store.count(topic), store.size(topic)
    after, page = 0, store.holdings(topic, 0, _PAGE)
    while page:
        for holding in page:
            if not _is_over(retention, count, size, now - holding.time):
                return
            yield holding
            count, size, after = count - 1, size - holding.size, holding.sequence
        page = store.holdings(topic, after, _PAGE)


def _is_over(retention: Retention, count: int, size: int, age: float) -> bool:
    return (
        (retention.max_age is not None and age > retention.max_age)
        or (retention.max_count is not None and count > retention.max_count)
        or (retention.max_bytes is not None and size > retention.max_bytes)
    )


def _gap(entity: str, sequences: Numbers) -> Gap:
    spans = sequences.spans()
    return Gap(entity, Span(spans[0].first, spans[-1].last), sequences.count)
