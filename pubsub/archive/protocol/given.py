"""Which events an application was given, or is done with: once each, whichever stream brought them.

A publisher that cannot fill what an archive lacks goes on as another stream in mid-life (see
`pubsub.archive.protocol.publisher`). An event keeps its id and its catenation number then, but may be in
one stream at one replica and in another one at the next. What stays is its *origin*: the stream that the
publisher's life began with, whose number begins the event's id. So events are told apart by origin and
catenation number; and what was given in each stream is, as every archive keeps a stream in order, all from
its first event to its last one.
"""

from __future__ import annotations

from collections.abc import Iterable

from overlay.contact import ID_BYTES
from pubsub.archive.protocol.archived_event import id_of
from pubsub.archive.protocol.frontier import RUN_BYTES, STREAM_BYTES, publisher_of, stream_of
from pubsub.archive.protocol.messages import Marks

NUMBER_BYTES = 8
_FORKED_BYTES = STREAM_BYTES + RUN_BYTES + NUMBER_BYTES


def origin_of(stream: bytes, event: bytes) -> bytes:
    """The stream that an event's publisher began its life with; `event` is encoded, or its id alone."""
    run = id_of(event)[:RUN_BYTES]
    return stream if stream[ID_BYTES:] == run else stream_of(publisher_of(stream), run)


class Given:
    """Events, as spans of catenation numbers by origin and stream; it only grows."""

    __slots__ = ("_origins",)

    def __init__(self, position: Iterable[tuple[bytes, int]] = ()) -> None:
        """`position`: what `marks` gave."""
        self._origins: dict[bytes, dict[bytes, tuple[int, int]]] = {}
        for key, last in position:
            stream, first = key[:STREAM_BYTES], 0
            origin = stream
            if len(key) == _FORKED_BYTES:
                origin = stream_of(publisher_of(stream), key[STREAM_BYTES:-NUMBER_BYTES])
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
            spans[stream] = (0 if stream == origin else catenation, catenation)
        elif catenation > span[1]:
            spans[stream] = (span[0], catenation)
        else:
            spans[stream] = (catenation, span[1])
        return True

    def streams(self) -> Marks:
        """The last number of each stream, as archives understand it."""
        return tuple(
            (stream, last)
            for spans in self._origins.values()
            for stream, (_, last) in spans.items()
        )

    def marks(self) -> Marks:
        """All of it, to be kept by the application; a stream that is not its own origin has that, and where
        it begins, in its key."""
        return tuple(
            (stream if stream == origin else _forked(origin, stream, first), last)
            for origin, spans in self._origins.items()
            for stream, (first, last) in spans.items()
        )

    def __len__(self) -> int:
        return len(self._origins)


def _forked(origin: bytes, stream: bytes, first: int) -> bytes:
    return stream + origin[-RUN_BYTES:] + first.to_bytes(NUMBER_BYTES, "big")
