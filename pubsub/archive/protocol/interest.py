"""What durable subscribers ask an archive for, and for which of them an event is (section 4.2).

A subscriber has a name in its managed topic, and asks for the topics of a pattern and for a profile over
events' data.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import msgpack

from overlay.errors import UsageError
from overlay.wire import WireError
from pubsub.archive.profiles import Profile
from pubsub.archive.protocol.archived_event import ReadEvent
from pubsub.topic import Pattern, included

if TYPE_CHECKING:
    from pubsub.archive.protocol.dissemination import Dissemination

MOST_NAME_BYTES = 255


def is_entity_name(name: str) -> bool:
    """Whether every store can keep it as text: PostgreSQL takes no NUL, for one."""
    return name.isprintable() and 0 < len(name.encode()) <= MOST_NAME_BYTES


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


class Matching:
    """Matches events one after another; made anew for each batch, as entities come, go and change."""

    def __init__(self, entities: Mapping[str, Dissemination]) -> None:
        self._entities = entities
        self._by_topic: dict[tuple[str, tuple[str, ...]], list[tuple[str, Interest]]] = {}
        """Those who ask for a topic; whether for all of its events, their profiles say."""
        self._for_all: dict[tuple[str, tuple[str, ...]], tuple[str, ...]] = {}
        """Their names, where none has a profile: all events of the topic are for the same ones."""

    def destinations(self, event: ReadEvent) -> tuple[str, ...]:
        """The entities that an event is for, in the order of their registration."""
        topic = (event.block.topic, event.block.lineage)
        names = self._for_all.get(topic)
        if names is not None:
            return names
        asking = self._by_topic.get(topic)
        if asking is None:
            asking = self._look_up(topic)
        return tuple(name for name, interest in asking if interest.selects(event))

    def _look_up(self, topic: tuple[str, tuple[str, ...]]) -> list[tuple[str, Interest]]:
        interests = ((name, entity.interest) for name, entity in self._entities.items())
        asking = self._by_topic[topic] = [one for one in interests if one[1].includes(*topic)]
        if not any(interest.profile.constraints for _, interest in asking):
            self._for_all[topic] = tuple(name for name, _ in asking)
        return asking
