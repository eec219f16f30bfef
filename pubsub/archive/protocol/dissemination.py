"""What durable subscribers ask an archive for (section 4.2), and what each is yet to be sent (4.4 to 6).

A subscriber has a name in its managed topic, and asks for the topics of a pattern and for profiles over
events' data. `EntityDissemination` is the archive's side of it. Three numbers, all of the archive's own
sequence, and `done <= sync <= cursor`:

    cursor   every event up to here was looked at, and the subscriber notified of those that are for it
    sync     the sync point: the subscriber has acknowledged everything for it up to here. Only the archive
             advances it, and says so once that is on stable storage; in ordered delivery the application is
             given an event then and not before
    done     the application is done with everything up to here

A subscriber that comes back without any memory begins again after `done`: nothing that its application had
not finished is lost. What lies between `done` and `sync` may have been in the application's hands when it
crashed, and is sent again with a mark that says so. Everything above `sync` is certain to be new to it.

Events that are removed before somebody had them are *gaps*, which that one is told of.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import takewhile
from typing import TYPE_CHECKING, Any

import msgpack

from overlay.contact import Contact
from overlay.errors import UsageError
from overlay.wire import WireError
from pubsub.archive.profiles import Profile, ProfileError
from pubsub.archive.protocol.archived_event import ReadEvent
from pubsub.archive.protocol.frontier import Frontier
from pubsub.archive.store.changes import EntityGap, StoredEvent
from pubsub.reliable.numbers import Span, spans_of
from pubsub.topic import Pattern, included

if TYPE_CHECKING:
    from pubsub.archive.protocol.sharing import SharedName

MOST_NAME_BYTES = 255


def is_entity_name(name: str) -> bool:
    """Whether every store can keep it as text: PostgreSQL takes no NUL, for one."""
    return name.isprintable() and 0 < len(name.encode()) <= MOST_NAME_BYTES


EVERYTHING = Profile()

MOST_PROFILES = 64
MOST_INTEREST_BYTES = 48 * 1024
"""Bytes of an interest on the wire."""


@dataclass(frozen=True, slots=True)
class Interest:
    """What a subscriber asks for, as it is registered and kept: events of a pattern that satisfy one of its
    profiles (section 3.1)."""

    pattern: str
    """A topic or a pattern, as in `Node.subscribe`."""
    profiles: tuple[Profile, ...] = (EVERYTHING,)
    _pattern: Pattern = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_pattern", Pattern.of(self.pattern))
        ordered = {profile.packed(): profile for profile in self.profiles}
        object.__setattr__(self, "profiles", tuple(ordered[key] for key in sorted(ordered)))
        size = sum(map(len, ordered))
        if not 0 < len(ordered) <= MOST_PROFILES or size > MOST_INTEREST_BYTES:
            raise ProfileError(
                f"a durable name has 1 to {MOST_PROFILES} profiles, of {MOST_INTEREST_BYTES} bytes at most "
                f"together, and not {len(ordered)} of {size} bytes"
            )

    @property
    def is_everything(self) -> bool:
        """Whether one of the profiles has no constraints."""
        return EVERYTHING in self.profiles

    def matches(self, event: ReadEvent) -> bool:
        """Whether the event is for this subscriber; never raises."""
        return self.includes(event.block.topic, event.block.lineage) and self.selects(event)

    def includes(self, topic: str, lineage: tuple[str, ...]) -> bool:
        """Whether events of a topic with these super-topics are asked for at all."""
        pattern = self._pattern
        return included(pattern.topic.name, topic, lineage) and pattern.matches(topic)

    def selects(self, event: ReadEvent) -> bool:
        """Whether an event of a topic that is asked for satisfies a profile; never raises."""
        if self.is_everything:
            return True
        try:
            return self.selects_data(event.data())
        except WireError:
            return False

    def selects_data(self, data: Any) -> bool:
        """The same of an event's data."""
        return any(profile.matches(data) for profile in self.profiles)

    def packed(self) -> bytes:
        packed: bytes = msgpack.packb([self.pattern, [one.packed() for one in self.profiles]])
        return packed

    @classmethod
    def unpack(cls, packed: bytes) -> Interest:
        """The interest that `packed` gave; `WireError` for other bytes."""
        try:
            pattern, profiles = msgpack.unpackb(packed)
            if not isinstance(pattern, str) or not all(type(one) is bytes for one in profiles):
                raise WireError("malformed_profile")
            return cls(pattern, tuple(map(Profile.unpack, profiles[: MOST_PROFILES + 1])))
        except (ValueError, TypeError, UsageError, msgpack.UnpackException):
            raise WireError("malformed_profile") from None


class Matching:
    """Matches events one after another; made anew for each batch, as entities come, go and change."""

    def __init__(self, entities: Mapping[str, EntityDissemination]) -> None:
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
        if all(interest.is_everything for _, interest in asking):
            self._for_all[topic] = tuple(name for name, _ in asking)
        return asking


@dataclass(slots=True)
class SubscriberSession:
    """One life of a subscriber with this archive; nothing of it outlives a restart of either."""

    id: bytes
    contact: Contact
    ordered: bool
    cursor: int
    """Every event up to here was looked at."""
    live_from: int
    """Events up to this number were archived before the session: they come from here and nowhere else."""
    doubtful_to: int
    """Events up to this number may have been given to the application in an earlier life."""
    began: float
    """The time when the session began, by the replica's clock that is furthest ahead; seconds since 1970.
    Another replica may have given the application what was archived before this time."""
    heard_at: float
    notified_at: float = 0.0
    acknowledged_to: int = 0
    """The highest number that the subscriber says it has."""
    previous: int = 0
    """The last number that the subscriber was notified of."""
    offered: dict[int, tuple[bytes, int, int]] = field(default_factory=dict)
    """Notified and not done with: stream, catenation number and bytes sent, by sequence number."""
    offered_bytes: int = 0
    """Bytes sent of all `offered` events together."""
    is_reading: bool = False
    """Events above the cursor are being read."""
    outstanding: dict[int, None] = field(default_factory=dict)
    """The events among `offered` that the subscriber has not acknowledged; the dissemination table's
    record."""

    @property
    def sync(self) -> int:
        """The number up to which everything was acknowledged, without a hole."""
        return next(iter(self.outstanding)) - 1 if self.outstanding else self.cursor

    def offer(self, event: StoredEvent, size: int) -> int:
        """Note an event that the subscriber is notified of, in `size` bytes, and return the number of the
        event before it."""
        sequence = event.sequence
        previous, self.previous = self.previous, sequence
        self.offered[sequence] = (event.publisher, event.catenation, size)
        self.offered_bytes += size
        self.outstanding[sequence] = None
        return previous

    def is_sent_whole(self, sequence: int) -> bool:
        """Whether the event goes with its notification, as nobody else may bring it."""
        return self.ordered or sequence <= self.live_from

    def acknowledge(self, spans: Iterable[tuple[int, int]]) -> None:
        """Strike what the subscriber says it has; numbers that it was not sent mean nothing."""
        for first, last in spans:
            self.acknowledged_to = max(self.acknowledged_to, last)
            if last - first < len(self.outstanding):
                for sequence in range(first, last + 1):
                    self.outstanding.pop(sequence, None)
            else:
                for sequence in [one for one in self.outstanding if first <= one <= last]:
                    del self.outstanding[sequence]

    def finish(self, done: int) -> dict[bytes, int]:
        """Strike what was offered up to this number; the highest catenation number of it, by stream."""
        last: dict[bytes, int] = {}
        offered = self.offered  # in the order of its numbers
        for sequence in list(takewhile(lambda one: one <= done, offered)):
            stream, catenation, size = offered.pop(sequence)
            self.offered_bytes -= size
            if catenation > last.get(stream, 0):
                last[stream] = catenation
        return last

    def missing(self, to: int) -> tuple[tuple[int, int], ...]:
        """What the subscriber was notified of up to this number, and has not acknowledged."""
        return spans_of(takewhile(lambda one: one <= to, self.outstanding))


@dataclass(slots=True, eq=False)
class EntityDissemination:
    """What an archive knows of one entity."""

    name: str
    interest: Interest
    epoch: int
    done: int
    matched_from: int
    """Events above this number have this entity among their destinations if they are for it; earlier ones
    were archived before this archive knew of it, and are matched when they are read."""
    sync: int = 0
    granted: int = field(init=False)
    """The sync point as it is on stable storage, and may be told."""
    registered: float = field(kw_only=True)
    """When, in seconds since 1970; a removal after this time removes it."""
    began: float = field(kw_only=True)
    """It has what was archived at this time or later."""
    revised: float = field(kw_only=True)
    """Since when it has this interest, in seconds since 1970; a later interest takes its place."""
    covered: Frontier = field(init=False, default_factory=Frontier)
    """What the application is done with according to other replicas, or to itself, and `done` does not
    say: events above it, or that are not here yet."""
    is_covered_anew: bool = field(init=False, default=False)
    """`covered` has grown beyond what is on stable storage."""
    is_known_elsewhere: bool = field(init=False, default=False)
    """Other replicas have been told all of it, and need only hear of progress."""
    is_settling: bool = field(init=False, default=False)
    """It is being looked which of the next events here `covered` covers."""
    is_waiting: bool = field(init=False, default=False)
    """The next event above `done` is for it: there is nothing to pass over."""
    session: SubscriberSession | None = field(init=False, default=None)
    sharing: SharedName | None = field(init=False, default=None)
    """The consumers that share the name; there is no session then."""
    dropping: int = field(init=False, default=0)
    """Removals of events that it had not had, and cannot have been told of as they are being written."""
    progress: Frontier = field(init=False, default_factory=Frontier)
    """What the application got done with since other replicas were told."""

    def __post_init__(self) -> None:
        self.sync = self.granted = max(self.sync, self.done)

    def begin_session(
        self,
        id: bytes,
        contact: Contact,
        *,
        ordered: bool,
        highest: int,
        now: float,
        began: float,
    ) -> SubscriberSession:
        """The subscriber is there, in a life that has nothing of the one before. `began`: see
        `SubscriberSession`."""
        self.session = SubscriberSession(
            id,
            contact,
            ordered,
            cursor=self.done,
            live_from=highest,
            doubtful_to=self.sync,
            began=began,
            heard_at=now,
            previous=self.done,
        )
        return self.session

    def cover(self, marks: Iterable[tuple[bytes, int]]) -> None:
        """The application is done with these, as another replica or it itself says."""
        self.is_covered_anew = self.covered.merge(marks) or self.is_covered_anew

    def finish(self, done: int) -> bool:
        """The application is done with everything up to this number; whether that is news."""
        session = self.session
        done = min(done, session.sync if session is not None else self.sync)
        if done <= self.done:
            return False
        self.done = done
        self.is_waiting = False
        self.sync = max(self.sync, done)
        if session is not None:
            for stream, catenation in session.finish(done).items():
                self.progress.raise_to(stream, catenation)
        return True

    def advance(self) -> bool:
        """Advance the sync point as far as the acknowledgements allow; whether it moved."""
        session = self.session
        if session is None or session.sync <= self.sync:
            return False
        self.sync = session.sync
        return True

    @property
    def is_served(self) -> bool:
        """Whether a subscriber, or several that share the name, may be here."""
        return self.session is not None or (
            self.sharing is not None and bool(self.sharing.consumers)
        )

    @property
    def told_sync(self) -> int:
        """The sync point that the present session may be told."""
        return self.granted if self.session is None else min(self.session.sync, self.granted)


def gaps_of_lost(
    entities: Iterable[EntityDissemination], spans: Sequence[Span]
) -> tuple[EntityGap, ...]:
    """The gaps of numbers whose events cannot be read: nobody knows whom these events were for."""
    return tuple(
        EntityGap(entity.name, span, span.last - span.first + 1)
        for entity in entities
        for span in spans
        if span.last > entity.done
    )


def gaps_of_unread(
    entities: Iterable[EntityDissemination], spans: Sequence[Span]
) -> tuple[EntityGap, ...]:
    """The gaps of events that were archived before an entity was registered and that it has yet to read: they
    are matched when they are read, so that no record tells whether they are for it."""
    gaps = []
    for entity in entities:
        unread = [
            (max(first, entity.done + 1), min(last, entity.matched_from)) for first, last in spans
        ]
        unread = [(first, last) for first, last in unread if first <= last]
        if unread:
            count = sum(last - first + 1 for first, last in unread)
            gaps.append(EntityGap(entity.name, Span(unread[0][0], unread[-1][1]), count))
    return tuple(gaps)
