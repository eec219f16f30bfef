"""What a durable subscriber asks an archive for: the topics of a pattern, and a profile over events' data."""

from __future__ import annotations

from dataclasses import dataclass, field

import msgpack

from overlay.errors import UsageError
from overlay.wire import WireError
from pubsub.archive.profiles import Profile
from pubsub.archive.protocol.archived_event import ReadEvent
from pubsub.topic import Pattern, included

EVERYTHING = Profile()


@dataclass(frozen=True, slots=True)
class Interest:
    """A subscriber's constraint, as it is registered and kept."""

    pattern: str
    """A topic or a pattern, as in `Node.subscribe`."""
    profile: Profile = EVERYTHING
    _pattern: Pattern = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_pattern", Pattern.of(self.pattern))

    def matches(self, event: ReadEvent) -> bool:
        """Whether the event is for this subscriber; never raises."""
        return self.includes(event.block.topic, event.block.lineage) and self.selects(event)

    def includes(self, topic: str, lineage: tuple[str, ...]) -> bool:
        """Whether events of a topic with these super-topics are asked for at all."""
        pattern = self._pattern
        return included(pattern.topic.name, topic, lineage) and pattern.matches(topic)

    def selects(self, event: ReadEvent) -> bool:
        """Whether an event of a topic that is asked for satisfies the profile; never raises."""
        if not self.profile.constraints:
            return True
        try:
            return self.profile.matches(event.data())
        except WireError:
            return False

    def packed(self) -> bytes:
        packed: bytes = msgpack.packb([self.pattern, self.profile.packed()])
        return packed

    @classmethod
    def unpack(cls, packed: bytes) -> Interest:
        """The interest that `packed` gave; `WireError` for other bytes."""
        try:
            pattern, profile = msgpack.unpackb(packed)
            if not isinstance(pattern, str) or not isinstance(profile, bytes):
                raise WireError("malformed_profile")
            return cls(pattern, Profile.unpack(profile))
        except (ValueError, TypeError, UsageError, msgpack.UnpackException):
            raise WireError("malformed_profile") from None
