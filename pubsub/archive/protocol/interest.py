"""What a durable subscriber asks an archive for: topics of a pattern, and a selector over the events'
data."""

from __future__ import annotations

from dataclasses import dataclass, field

import msgpack

from overlay.errors import UsageError
from overlay.wire import WireError
from pubsub.archive.protocol.archived_event import ReadEvent
from pubsub.filters import Filter
from pubsub.topic import Pattern, included


@dataclass(frozen=True, slots=True)
class Interest:
    """A subscriber's constraint, as it is registered and kept."""

    pattern: str
    """A topic or a pattern, as in `Node.subscribe`."""
    where: str = ""
    """A condition of `pubsub.filters`; empty takes everything."""
    _pattern: Pattern = field(init=False, repr=False, compare=False)
    _filter: Filter | None = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_pattern", Pattern.of(self.pattern))
        object.__setattr__(self, "_filter", Filter(self.where) if self.where else None)

    def matches(self, event: ReadEvent) -> bool:
        """Whether the event is for this subscriber; never raises."""
        body, pattern = event.body, self._pattern
        if not included(pattern.topic.name, body.topic, body.lineage):
            return False
        if not pattern.matches(body.topic):
            return False
        if self._filter is None:
            return True
        try:
            return self._filter.matches(event.data())
        except WireError:
            return False

    def packed(self) -> bytes:
        packed: bytes = msgpack.packb([self.pattern, self.where])
        return packed

    @classmethod
    def unpack(cls, packed: bytes) -> Interest:
        """The interest that `packed` gave; `WireError` for other bytes."""
        try:
            pattern, where = msgpack.unpackb(packed)
            return cls(pattern, where)
        except (ValueError, TypeError, AttributeError, UsageError, msgpack.UnpackException):
            raise WireError("malformed_profile") from None
