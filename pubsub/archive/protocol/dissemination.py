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
from dataclasses import InitVar, dataclass, field
from itertools import chain, takewhile
from math import inf
from typing import Any

import msgpack

from overlay.contact import Contact
from overlay.errors import UsageError
from overlay.wire import WireError
from pubsub.archive.profiles import Profile, ProfileError
from pubsub.archive.protocol.archived_event import ReadEvent
from pubsub.archive.protocol.frontier import Frontier, origin_of
from pubsub.archive.store.changes import StoredEvent
from pubsub.archive.store.gaps import EntityGap, with_gap
from pubsub.archive.store.registry import Entity
from pubsub.archive.store.store import Holding
from pubsub.event import ID_BYTES
from pubsub.reliable.numbers import Numbers, Span, spans_of
from pubsub.reliable.runs import RUN_BYTES, Reason, is_source
from pubsub.topic import Pattern, included

MOST_NAME_BYTES = 255


def is_entity_name(name: object) -> bool:
    """Whether every store can keep it as text: PostgreSQL takes no NUL, for one."""
    return (
        isinstance(name, str) and name.isprintable() and 0 < len(name.encode()) <= MOST_NAME_BYTES
    )


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
    """One life of one subscriber of a name."""

    id: bytes
    contact: Contact
    heard_at: float
    assigned: dict[int, None]
    """The events that the subscriber was notified of and has not acknowledged, in the order of that."""
    notified_at: float = 0.0
    acknowledged_to: int = 0
    """The highest number that the subscriber says it has."""
    previous: int = 0
    """The last number that the subscriber was notified of."""

    def missing(self, to: int) -> tuple[tuple[int, int], ...]:
        """What the subscriber was notified of up to this number, and has not acknowledged."""
        return spans_of(sorted(takewhile(lambda one: one <= to, self.assigned)))


@dataclass(slots=True)
class Serving:
    """The subscribers of a name that are here, and what they were sent; nothing of it outlives a restart.

    A name has one subscriber at a time, or several that share its events: each event is given to the one
    that has fewest, which acknowledges it when its application is done with it, in any order. What a
    subscriber has that leaves, or is not heard of for `DurableConfig.patience` seconds, goes to the others,
    marked as doubtful. No order is kept among them.

    Those who share a name have to be at one archive, or each would be given everything. So of several
    replicas that are in touch the one with the lowest name serves shared names, and sends subscribers away
    when a lower one comes back. While replicas are out of touch, and when subscribers go from one to another,
    events may be given twice; those are marked."""

    ordered: bool
    is_shared: bool
    cursor: int
    """Every event up to here was looked at."""
    live_from: InitVar[int]
    """Events up to this number were archived before: they come from here and nowhere else."""
    doubtful_to: int
    """Events up to this number may have been given to the application in an earlier life."""
    began: float
    """The time when this archive began to serve the name, by the replica's clock that is furthest ahead;
    seconds since 1970. Another replica may have given the application what was archived before this time."""
    whole_to: float = field(init=False)
    """Events up to this number are sent themselves; of others, which come live too, the ids."""
    sessions: dict[bytes, SubscriberSession] = field(default_factory=dict)
    offered: dict[int, tuple[bytes, int, int]] = field(default_factory=dict)
    """Notified and not done with: stream, catenation number and bytes sent, by sequence number."""
    offered_bytes: int = 0
    """Bytes sent of all `offered` events together."""
    is_reading: bool = False
    """Events are being read."""
    outstanding: dict[int, None] = field(default_factory=dict)
    """The events among `offered` that nobody has acknowledged; the dissemination table's record."""
    returned: dict[int, None] = field(default_factory=dict)
    """The outstanding events of subscribers that have left."""
    displaced: dict[bytes, str] = field(default_factory=dict)
    """The sessions from which the name was taken over lately, and the words for them."""

    def __post_init__(self, live_from: int) -> None:
        self.whole_to = inf if self.ordered or self.is_shared else live_from

    @property
    def sync(self) -> int:
        """The number up to which everything was acknowledged, without a hole."""
        return next(iter(self.outstanding)) - 1 if self.outstanding else self.cursor

    @property
    def session(self) -> SubscriberSession:
        """The subscriber that has fewest events; there has to be one."""
        sessions = self.sessions.values()
        if len(sessions) == 1:
            return next(iter(sessions))
        return min(sessions, key=lambda one: len(one.assigned))

    def join(self, id: bytes, contact: Contact, now: float, previous: int) -> SubscriberSession:
        """A subscriber is there, of which nothing was known, or once more."""
        session = self.sessions.get(id)
        if session is None:
            # All that is outstanding is the one subscriber's, where there is one at a time.
            assigned = {} if self.is_shared else self.outstanding
            session = SubscriberSession(id, contact, now, assigned, previous=previous)
            self.sessions[id] = session
        session.contact, session.heard_at = contact, now
        return session

    def leave(self, session: SubscriberSession) -> None:
        del self.sessions[session.id]
        self.returned.update(session.assigned)

    def offer(self, session: SubscriberSession, event: StoredEvent) -> None:
        """Note an event of which a subscriber is notified."""
        sequence = event.sequence
        size = len(event.body) if sequence <= self.whole_to else ID_BYTES
        self.offered[sequence] = (event.publisher, event.catenation, size)
        self.offered_bytes += size
        self.outstanding[sequence] = session.assigned[sequence] = None
        session.previous = sequence

    def offer_again(self, event: StoredEvent) -> SubscriberSession:
        """Note that an event, which was returned, goes to a subscriber: which one."""
        session = self.session
        self.returned.pop(event.sequence, None)
        session.assigned[event.sequence] = None
        session.previous = max(session.previous, event.sequence)
        return session

    def acknowledge(self, session: SubscriberSession, spans: Iterable[tuple[int, int]]) -> None:
        """Strike what a subscriber says it has; numbers that it was not sent mean nothing."""
        assigned = session.assigned
        for first, last in spans:
            session.acknowledged_to = max(session.acknowledged_to, last)
            numbers: Iterable[int] = range(first, last + 1)
            if last - first >= len(assigned):
                numbers = [one for one in assigned if first <= one <= last]
            for number in numbers:
                if number in assigned:
                    del assigned[number]
                    self.outstanding.pop(number, None)

    def strike_removed(self, spans: Sequence[Span]) -> None:
        """Nobody will have the events of these numbers: who was notified of one is not waited for."""
        removed = Numbers(most=None, spans=spans)
        waiting = (self.outstanding, self.returned, *(s.assigned for s in self.sessions.values()))
        for numbers in waiting:
            for number in [one for one in numbers if one in removed]:
                del numbers[number]

    def finish(self, done: int) -> dict[bytes, int]:
        """Strike what was offered up to this number; the highest catenation number of it, by stream."""
        last: dict[bytes, int] = {}
        offered = self.offered  # in the order of its numbers
        for sequence in list(takewhile(done.__ge__, offered)):
            stream, catenation, size = offered.pop(sequence)
            self.offered_bytes -= size
            if catenation > last.get(stream, 0):
                last[stream] = catenation
        return last


@dataclass(slots=True, eq=False)
class EntityDissemination:
    """What an archive knows of one entity."""

    name: str
    interest: Interest
    done: int
    matched_from: int
    """The number of its registration here, the paper's epoch. Events above this number have this entity among
    their destinations if they are for it; earlier ones are matched when they are read."""
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
    used_at: float | None = field(init=False, default=None)
    """When the name was last seen to be in use, here or at another replica, since this archive began."""
    told_at: float = field(init=False, default=0.0)
    """When other replicas were last told that it is."""
    is_settling: bool = field(init=False, default=False)
    """It is being looked which of the next events here `covered` covers."""
    is_waiting: bool = field(init=False, default=False)
    """The next event above `done` is for it: there is nothing to pass over."""
    serving: Serving | None = field(init=False, default=None)
    given_to: int = field(init=False, default=0)
    """Those who take events in any order may have been given events up to this number here."""
    kept_to: int = field(init=False, default=0)
    """The same, if they were here before this archive was started."""
    dropping: int = field(init=False, default=0)
    """Removals of events that it had not had, and cannot have been told of as they are being written."""
    progress: Frontier = field(init=False, default_factory=Frontier)
    """What the application got done with since other replicas were told."""

    def __post_init__(self) -> None:
        self.sync = self.granted = max(self.sync, self.done)

    @classmethod
    def kept(cls, entity: Entity, covered: bytes) -> EntityDissemination:
        """The one that the store has, with what `covered` gave; `WireError` when its interest cannot be
        read."""
        packed, matched_from, registered, began, revised = msgpack.unpackb(entity.state)
        one = cls(
            entity.name,
            Interest.unpack(packed),
            entity.done,
            matched_from,
            entity.sync,
            registered=registered,
            began=began,
            revised=revised,
        )
        one.cover(Frontier.unpack(covered))
        return one

    def state(self) -> bytes:
        """What the store keeps of it, besides how far it is."""
        times = (self.registered, self.began, self.revised)
        packed: bytes = msgpack.packb((self.interest.packed(), self.matched_from, *times))
        return packed

    def serve(self, *, ordered: bool, shared: bool, highest: int, began: float) -> Serving:
        """Begin to serve the name, to subscribers that have nothing of an earlier life."""
        self.end_serving()
        doubtful_to = max(self.sync, self.given_to, 0 if ordered else self.kept_to)
        self.serving = Serving(ordered, shared, self.done, highest, doubtful_to, began)
        return self.serving

    def end_serving(self) -> None:
        """Nobody is here any more. What they have acknowledged is forgotten beyond the sync point."""
        if self.serving is not None and not self.serving.ordered:
            self.given_to = max(self.given_to, self.serving.cursor)
        self.serving = None

    def cover(self, marks: Iterable[tuple[bytes, int]]) -> None:
        """The application is done with these, as another replica or it itself says."""
        self.is_covered_anew = self.covered.merge(marks) or self.is_covered_anew

    def finish(self, done: int) -> bool:
        """The application is done with everything up to this number; whether that is news."""
        serving = self.serving
        done = min(done, serving.sync if serving is not None else self.sync)
        if done <= self.done:
            return False
        self.done = done
        self.is_waiting = False
        self.sync = max(self.sync, done)
        if serving is not None:
            for stream, catenation in serving.finish(done).items():
                self.progress.raise_to(stream, catenation)
        return True

    def advance(self) -> bool:
        """Advance the sync point as far as the acknowledgements allow; whether it moved."""
        serving = self.serving
        if serving is None or serving.sync <= self.sync:
            return False
        self.sync = serving.sync
        return True

    @property
    def is_served(self) -> bool:
        """Whether a subscriber, or several that share the name, may be here."""
        return self.serving is not None and bool(self.serving.sessions)


def gaps_of_removed(
    entities: Mapping[str, EntityDissemination], gone: Iterable[Holding]
) -> tuple[EntityGap, ...]:
    """What entities miss when retention removes these events: the events that wait for them, and events from
    before their registration that they have yet to read. The latter are matched when they are read, so that
    no record tells whether they are for the entity."""
    unread = [one for one in entities.values() if one.done < one.matched_from]
    gaps: dict[str, list[EntityGap]] = {}
    for holding in gone:
        number = holding.sequence
        late = (one.name for one in unread if one.done < number <= one.matched_from)
        for name in {**dict.fromkeys(holding.waiting), **dict.fromkeys(late)}:
            gap = _gap(name, number, holding.publisher, holding.id, "forgotten")
            gaps[name] = with_gap(gaps.get(name, []), gap)
    return tuple(chain(*gaps.values()))


def gaps_of_lost(
    entities: Iterable[EntityDissemination],
    spans: Sequence[Span],
    named: Mapping[int, tuple[bytes, bytes]],
) -> tuple[EntityGap, ...]:
    """What entities miss when the events of these numbers cannot be read: nobody knows whom these events were
    for. `named`: by number, the stream and the id of an event, where these are known."""
    gaps: list[EntityGap] = []
    for entity in entities:
        lost = Numbers(spans=[(max(first, entity.done + 1), last) for first, last in spans])
        known = [number for number in named if number in lost]
        own: list[EntityGap] = []
        for number in known:
            own = with_gap(own, _gap(entity.name, number, *named[number], "lost"))
        for span in lost.without(Numbers.of(known)).spans():
            own = with_gap(own, EntityGap.unnamed(entity.name, span, "lost"))
        gaps += own
    return tuple(gaps)


def _gap(entity: str, number: int, stream: bytes, id: bytes, reason: Reason) -> EntityGap:
    """The gap that one event leaves."""
    span, source = Span(number, number), origin_of(stream, id)
    if not is_source(source):
        return EntityGap.unnamed(entity, span, reason)
    number = int.from_bytes(id[RUN_BYTES:], "big")
    return EntityGap(entity, span, source, number, number, reason)
