"""What a durable subscriber asks an archive for: topics of a pattern, and a profile over the events' data."""

from __future__ import annotations

from dataclasses import dataclass, field

import msgpack

from overlay.errors import UsageError
from overlay.wire import WireError
from pubsub.archive.protocol.archived_event import ReadEvent
from pubsub.topic import Pattern, included


@dataclass(frozen=True, slots=True)
class Interest:
    """A subscriber's constraint, as it is registered and kept."""

    pattern: str
    """A topic or a pattern, as in `Node.subscribe`."""
    _pattern: Pattern = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_pattern", Pattern.of(self.pattern))

    def matches(self, event: ReadEvent) -> bool:
        body = event.body
        return included(
            self._pattern.topic.name, body.topic, body.lineage
        ) and self._pattern.matches(body.topic)

    def packed(self) -> bytes:
        packed: bytes = msgpack.packb([self.pattern])
        return packed

    @classmethod
    def unpack(cls, packed: bytes) -> Interest:
        """The interest that `packed` gave; `WireError` for other bytes."""
        try:
            (pattern,) = msgpack.unpackb(packed)
            return cls(pattern)
        except (ValueError, TypeError, UsageError, msgpack.UnpackException):
            raise WireError("malformed_profile") from None
