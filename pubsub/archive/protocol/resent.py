"""Events that their publishers sent here after they had sent them to another archive, which failed.

That archive may have stored such an event, and delivered it, and have told nobody. The time of archiving, by
which other events are marked for a subscriber that came back without a memory, is too late for it: it is the
time of the second archiving. So the archive that takes it notes it, and it is marked for everybody who is
sent it, by this replica or by one that gets it from this one.

Promised: the notes are on stable storage when the events are. They are kept as catenation numbers by stream,
which mean the same at every replica; those of one failover are next to each other, and cost one span.
"""

from __future__ import annotations

import msgpack

from pubsub.archive.protocol.frontier import begin_of
from pubsub.archive.protocol.world import ArchiveWorld
from pubsub.archive.store.changes import Change, Note
from pubsub.reliable.numbers import Numbers

RESENT = "resent/"
"""Notes of such events, a stream each."""


class Resent:
    """Those of one topic."""

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
