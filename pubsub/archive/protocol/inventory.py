"""The inventory of one topic as its cores use it: numbers are given here, and read back once they are safe.

The newest events are kept in memory too, so that those who follow live cost no reading.

`Resent` notes the events that their publishers sent here after they had sent them to another archive, which
failed. That archive may have stored such an event, and delivered it, and have told nobody. The time of
archiving, by which other events are marked for a subscriber that came back without a memory, is too late
for it: it is the time of the second archiving. So the archive that takes it notes it, and it is marked for
everybody who is sent it, by this replica or by one that gets it from this one.

Promised: the notes are on stable storage when the events are. They are kept as catenation numbers by
stream, which mean the same at every replica; those of one failover are next to each other, and cost one
span.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

import msgpack

from pubsub.archive.protocol.archived_event import ReadEvent
from pubsub.archive.protocol.frontier import begin_of
from pubsub.archive.protocol.world import ArchiveWorld
from pubsub.archive.store.changes import Change, Note, StoredEvent
from pubsub.archive.store.store import Store
from pubsub.reliable.numbers import Numbers, Span

RESENT = "resent/"
"""Notes of such events, a stream each."""


class Resent:
    """The events of one topic that were sent to another archive before."""

    def __init__(self, world: ArchiveWorld) -> None:
        self._topic = world.topic
        self._numbers = {
            bytes.fromhex(key.removeprefix(RESENT)): Numbers(
                most=None, spans=msgpack.unpackb(packed)
            )
            for key, packed in world.store.notes(world.topic, RESENT).items()
        }
        self._unsaved: dict[bytes, None] = {}

    def add(self, stream: bytes, first: int, last: int) -> None:
        """Events of a stream, about to be stored, were sent to another archive before; none when `last` is
        below `first`."""
        if first <= last:
            self._numbers.setdefault(stream, Numbers(most=None)).add_span(first, last)
            self._unsaved[stream] = None

    def __bool__(self) -> bool:
        """Whether there are any."""
        return bool(self._numbers)

    def covers(self, stream: bytes, catenation: int) -> bool:
        numbers = self._numbers.get(stream)
        return numbers is not None and catenation in numbers

    def forget(self, floor: int) -> list[Change]:
        """Forget streams that began before this time; the changes that this takes."""
        gone = [stream for stream in self._numbers if begin_of(stream) < floor]
        for stream in gone:
            del self._numbers[stream]
            self._unsaved.pop(stream, None)
        return [Note(self._topic, RESENT + stream.hex(), None) for stream in gone]

    def changes(self) -> list[Change]:
        """What is to be written together with the events that were added."""
        streams, self._unsaved = self._unsaved, {}
        return [
            Note(self._topic, RESENT + stream.hex(), msgpack.packb(self._numbers[stream].spans()))
            for stream in streams
        ]


RECENT = 8192
"""Events kept in memory."""

RECENT_BYTES = 32 * 1024 * 1024

READ_AT_ONCE = 16
"""Events that are read before their size is looked at."""

Page = tuple[list[StoredEvent], int]
"""The next events above a number, as far as they are safe; and the number up to which these are all."""


class NewEvent(NamedTuple):
    """An event that is next in its stream."""

    stream: bytes
    catenation: int
    event: ReadEvent
    time: float


class Inventory:
    """Sequence numbers are given in the order of storing, each once; none is shown before it is safe."""

    def __init__(self, world: ArchiveWorld) -> None:
        self._world = world
        self._next = world.store.last_sequence(world.topic) + 1
        self.highest = self._next - 1
        """The highest number that is on stable storage."""
        self.stored = 0
        """Events stored in this life."""
        self.resent = Resent(world)
        self._recent: OrderedDict[int, StoredEvent] = OrderedDict()
        self._recent_bytes = 0

    def number(self) -> int:
        """Use up the next sequence number."""
        self._next += 1
        return self._next - 1

    def store(
        self,
        events: Sequence[NewEvent],
        destinations: Callable[[ReadEvent], tuple[str, ...]],
        also: Sequence[Change],
        then: Callable[[list[StoredEvent]], None],
    ) -> None:
        """Store events, and further changes with them; `then` is called once all of it is safe."""
        topic = self._world.topic
        stored = [
            StoredEvent(
                topic,
                self.number(),
                new.event.id,
                new.stream,
                new.catenation,
                new.time,
                new.event.encoded,
                destinations(new.event),
            )
            for new in events
        ]
        changes: list[Change] = [*stored, *also, *self.resent.changes()]
        self._world.commit(changes, lambda: self._safe(stored, then))

    def _safe(self, stored: list[StoredEvent], then: Callable[[list[StoredEvent]], None]) -> None:
        for event in stored:
            self._recent[event.sequence] = event
            self._recent_bytes += len(event.body)
        while len(self._recent) > RECENT or self._recent_bytes > RECENT_BYTES:
            _, oldest = self._recent.popitem(last=False)
            self._recent_bytes -= len(oldest.body)
        self.stored += len(stored)
        self.raise_highest(stored[-1].sequence if stored else 0)
        then(stored)

    def raise_highest(self, number: int) -> None:
        """This number, given to something that is now on stable storage, may be shown."""
        self.highest = max(self.highest, number)

    def recent(self, cursor: int, limit: int) -> Page | None:
        """The next events above a number, if they are in memory; None if they have to be read."""
        recent = self._recent
        if recent and cursor + 1 >= next(iter(recent)):
            end = min(self.highest, cursor + limit)
            return [recent[n] for n in range(cursor + 1, end + 1) if n in recent], end
        return ([], cursor) if cursor >= self.highest else None

    def after(self, cursor: int, limit: int, then: Callable[[Page], None]) -> None:
        """Read the next events above a number.

        An event that cannot be read ends the list: it is not passed over until it is repaired or given up."""
        topic, most, highest = self._world.topic, self._world.config.batch_bytes, self.highest

        def found(events: list[StoredEvent]) -> None:
            events = [event for event in events if event.sequence <= highest]
            end = events[-1].sequence if events else highest
            for span in self.damaged():
                if span.last > cursor:
                    end = min(end, max(span.first - 1, cursor))
            then(([event for event in events if event.sequence <= end], end))

        self._world.read(lambda store: store.events(topic, cursor, limit, most), found)

    def forget(self, spans: Iterable[Span]) -> None:
        """Events with these numbers have been removed."""
        for span in spans:
            for number in [one for one in self._recent if span.first <= one <= span.last]:
                self._recent_bytes -= len(self._recent.pop(number).body)

    def damaged(self) -> list[Span]:
        """See `ArchiveWorld.damaged`."""
        return self._world.damaged()

    def read(
        self, sequences: Sequence[int], room: int, then: Callable[[list[StoredEvent]], None]
    ) -> None:
        """Read the first of these events, until they have `room` bytes together; at once if they are in
        memory."""
        recent, topic = self._recent, self._world.topic
        if all(sequence in recent for sequence in sequences):
            then(_within(room, (recent[sequence] for sequence in sequences)))
            return

        def read(store: Store) -> list[StoredEvent]:
            pages = (
                store.read(topic, sequences[start : start + READ_AT_ONCE])
                for start in range(0, len(sequences), READ_AT_ONCE)
            )
            return _within(room, (event for page in pages for event in page))

        self._world.read(read, then)


def _within(room: int, events: Iterable[StoredEvent]) -> list[StoredEvent]:
    """The first of these events, until they have `room` bytes together; the last one may go beyond that."""
    taken: list[StoredEvent] = []
    for event in events:
        if room <= 0:
            break
        room -= len(event.body)
        taken.append(event)
    return taken
