"""Which events an application was given, or is done with: once each, whichever stream brought them.

A publisher that cannot fill what an archive lacks goes on as another stream in mid-run (see
`pubsub.archive.protocol.publisher`). An event keeps its id and its catenation number then, but may be in
one stream at one replica and in another one at the next. What stays is its *origin*: its publisher and the
run, whose number begins the event's id. So events are told apart by origin and catenation number; and what
was given in each stream is, as every archive keeps a stream in order, all from its first event to its last
one. A stream that is no fork begins with all that its run had before it.
"""

from __future__ import annotations

from collections.abc import Iterable

from pubsub.archive.protocol.archived_event import id_of
from pubsub.archive.protocol.frontier import (
    RUN_BYTES,
    STREAM_BYTES,
    begin_of,
    is_fork,
    publisher_of,
    stream_of,
)
from pubsub.archive.protocol.messages import Marks

NUMBER_BYTES = 8
_KEY_BYTES = STREAM_BYTES + RUN_BYTES
_FORKED_BYTES = _KEY_BYTES + NUMBER_BYTES


def origin_of(stream: bytes, event: bytes) -> bytes:
    """An event's publisher and run; `event` is encoded, or its id alone."""
    return stream_of(publisher_of(stream), id_of(event)[:RUN_BYTES])


class Given:
    """Events, as spans of catenation numbers by origin and stream; it only grows, but for `forget`."""

    __slots__ = ("_origins",)

    def __init__(self, position: Iterable[tuple[bytes, int]] = ()) -> None:
        """`position`: what `marks` gave."""
        self._origins: dict[bytes, dict[bytes, tuple[int, int]]] = {}
        """The one that something was added to last at the end."""
        for key, last in position:
            stream, first = key[:STREAM_BYTES], 0
            origin = stream_of(publisher_of(stream), key[STREAM_BYTES:_KEY_BYTES])
            if len(key) == _FORKED_BYTES:
                first = int.from_bytes(key[-NUMBER_BYTES:], "big")
            self._origins.setdefault(origin, {})[stream] = (first, last)

    def covers(self, origin: bytes, catenation: int) -> bool:
        spans = self._origins.get(origin)
        if spans is None:
            return False
        if len(spans) > 1:
            return any(first <= catenation <= last for first, last in spans.values())
        for first, last in spans.values():  # one as a rule, and this is asked for every event
            return first <= catenation <= last
        return False

    def add(self, origin: bytes, stream: bytes, catenation: int) -> bool:
        """Whether this was news."""
        spans = self._origins.get(origin)
        if spans is None:
            spans = self._origins[origin] = {}
        span = spans.get(stream)
        is_next = span is not None and len(spans) == 1 and catenation > span[1]  # as a rule
        if not is_next and self.covers(origin, catenation):
            return False
        if span is None:
            spans[stream] = (catenation if is_fork(stream) else 0, catenation)
        elif catenation > span[1]:
            spans[stream] = (span[0], catenation)
        else:
            spans[stream] = (catenation, span[1])
        if next(reversed(self._origins)) != origin:
            self._origins[origin] = self._origins.pop(origin)
        return True

    def forget(self, floor: int) -> None:
        """Streams that began before this time bring no event any more."""
        for origin, spans in list(self._origins.items()):
            for stream in [one for one in spans if begin_of(one) < floor]:
                del spans[stream]
            if not spans:
                del self._origins[origin]

    def streams(self, most: int) -> Marks:
        """The last number of each stream, as archives understand it, of those that were added to last."""
        marks: list[tuple[bytes, int]] = []
        for spans in reversed(self._origins.values()):
            if len(marks) + len(spans) > most:
                break
            marks += [(stream, last) for stream, (_, last) in spans.items()]
        return tuple(marks)

    def marks(self) -> Marks:
        """All of it, to be kept by the application; a fork has where it begins in its key."""
        return tuple(
            (_key(origin, stream, first), last)
            for origin, spans in self._origins.items()
            for stream, (first, last) in spans.items()
        )

    def __len__(self) -> int:
        return len(self._origins)


def _key(origin: bytes, stream: bytes, first: int) -> bytes:
    key = stream + origin[-RUN_BYTES:]
    return key + first.to_bytes(NUMBER_BYTES, "big") if first else key
