"""The other doors: which of them are there, which groups have members at which, and who inherits whose wills.

Doors tell each other which groups of shared subscriptions have members there, and which *segments* of wills
they keep (`pubsub.doors.mqtt.will_log`): when that changes, and every `BEAT_SECONDS`. A door that was silent
for `SILENT_SECONDS`, or whose node is suspected to have crashed, is gone until it is heard again.

Each door computes, from a message's event id and the doors that have members of a group, the same door as all
others: that one gives the message to one of its members. So each message goes to one of the group while doors
know the same of each other. Where an archive keeps the topic it is the archive that shares out messages of
QoS 1 and 2 (`pubsub.doors.mqtt.shared`).

In the same way one door inherits a segment of wills whose door is gone. That one may not have heard of the
segment, so those that have heard of it inherit it in turn if no door says that it has the segment: the next
one `TURN_SECONDS` later. Should two of them take it for theirs, the archive gives it to one. Until it has one
of these *orphans*, a door tells the others of it: should that door go too, they inherit the segment.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple, Protocol

from overlay.context import Timer

BEAT_SECONDS = 2.0
SILENT_SECONDS = 7.0

TURN_SECONDS = 10.0
"""How long a door has to take over a segment of wills, before it is the next one's turn."""

MOST_DOORS = 1_000
"""Other doors that are remembered."""

MOST_GROUPS = 10_000
"""Groups that are believed of one door."""

MOST_SEGMENTS = 1_000
"""Segments of wills that are believed of one door, and that wait for an heir."""

_BYTES = 8


class Clock(Protocol):
    def now(self) -> float: ...

    def call_later(self, delay: float, action: Callable[[], None]) -> Timer: ...


def group_key(group: str, levels: Sequence[str]) -> bytes:
    """What doors call a group; members of one group with the same filter have the same."""
    text = "/".join((group, *levels))
    return hashlib.blake2s(text.encode(), digest_size=_BYTES).digest()


class _Other(NamedTuple):
    """What another door has said last."""

    heard: float
    groups: frozenset[bytes]
    segments: dict[bytes, None]
    orphans: dict[bytes, None]
    keeps_wills: bool


class OtherDoors:
    """A core."""

    def __init__(
        self,
        clock: Clock,
        door: bytes,
        tell: Callable[[list[bytes], list[bytes] | None, list[bytes]], None],
        *,
        keeps_wills: bool = False,
        on_gone: Callable[[bytes, float], None] = lambda door, heard: None,
        on_inherit: Callable[[bytes], None] = lambda segment: None,
    ) -> None:
        """`door`: tells this door from others. `tell`: have the other doors told of these groups, of these
        segments, or None where this door keeps no wills, and of these orphans. `on_gone`: a door is gone,
        which was last heard then. `on_inherit`: this door is to have a segment from here on; `settled` is to
        be called when it has it, or another door does."""
        self._clock = clock
        self._door = door
        self._tell = tell
        self._keeps_wills = keeps_wills
        self._on_gone = on_gone
        self._on_inherit = on_inherit
        self._members: Counter[bytes] = Counter()
        self._segments: dict[bytes, None] = {}
        self._others: dict[bytes, _Other] = {}
        self._orphans: dict[bytes, float] = {}
        """Segments of doors that are gone, and since when."""
        self._inheriting: dict[bytes, None] = {}
        """Those that this door is about to have."""
        self._timer: Timer | None = None
        self._is_closed = False
        if keeps_wills:
            self._timer = clock.call_later(0.0, self._beat)

    # -- this door --

    def joined(self, group: bytes) -> None:
        self._members[group] += 1
        if self._members[group] == 1:
            self._beat()

    def left(self, group: bytes) -> None:
        self._members[group] -= 1
        if not self._members[group]:
            del self._members[group]
            self._beat()

    def keeps(self, segments: Iterable[bytes]) -> None:
        """The segments of wills that this door has now."""
        self._segments = dict.fromkeys(segments)
        self._beat()

    def close(self) -> None:
        """Tell and inherit nothing any more."""
        self._is_closed = True
        if self._timer is not None:
            self._timer.cancel()

    def _beat(self) -> None:
        if self._is_closed:
            return
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        segments = list(self._segments) if self._keeps_wills else None
        self._tell(list(self._members), segments, [*self._orphans, *self._inheriting])
        self._look()
        if self._members or self._keeps_wills:
            self._timer = self._clock.call_later(BEAT_SECONDS, self._beat)

    # -- others --

    def heard(self, door: Any, groups: Any, segments: Any, orphans: Any = None) -> None:
        """What another door has said; anything else is ignored."""
        if type(door) is not bytes or door == self._door or not isinstance(groups, list):
            return
        keeps_wills = isinstance(segments, list)
        is_new = door not in self._others
        self._others.pop(door, None)
        other = self._others[door] = _Other(
            self._clock.now(),
            frozenset(_known(groups, MOST_GROUPS)),
            _known(segments, MOST_SEGMENTS) if keeps_wills else {},
            _known(orphans, MOST_SEGMENTS) if isinstance(orphans, list) else {},
            keeps_wills,
        )
        for segment in other.segments:
            self._orphans.pop(segment, None)
        if len(self._others) > MOST_DOORS:
            del self._others[next(iter(self._others))]
        if is_new and (self._members or self._keeps_wills):
            self._beat()  # it does not know of this one

    def gone(self, door: bytes) -> None:
        """A door has crashed, or seems to have."""
        other = self._others.pop(door, None)
        if other is None:
            return
        for segment in (*other.segments, *other.orphans) if self._keeps_wills else ():
            is_known = segment in self._segments or segment in self._inheriting
            if not is_known and not self.is_kept(segment) and len(self._orphans) < MOST_SEGMENTS:
                self._orphans.setdefault(segment, self._clock.now())
        self._on_gone(door, other.heard)
        self._look()

    def _look(self) -> None:
        """Which doors have been silent for too long, and who inherits."""
        now = self._clock.now()
        while self._others and next(iter(self._others.values())).heard <= now - SILENT_SECONDS:
            self.gone(next(iter(self._others)))
        heirs = [door for door, other in self._others.items() if other.keeps_wills]
        for segment, since in list(self._orphans.items()):
            before = sum(_weight(door, segment) > _weight(self._door, segment) for door in heirs)
            if now - since >= before * TURN_SECONDS:
                del self._orphans[segment]
                self._inheriting[segment] = None
                self._on_inherit(segment)

    def settled(self, segment: bytes) -> None:
        """A segment that this door was to have has a door."""
        self._inheriting.pop(segment, None)

    def is_kept(self, segment: bytes) -> bool:
        """Whether another door, which is there, has the segment."""
        return any(segment in other.segments for other in self._others.values())

    def is_elsewhere(self, group: bytes) -> bool:
        """Whether another door has members of the group."""
        return bool(self._with_members(group))

    def _with_members(self, group: bytes) -> list[bytes]:
        since = self._clock.now() - SILENT_SECONDS
        return [
            door
            for door, other in self._others.items()
            if other.heard > since and group in other.groups
        ]

    def whose(self, group: bytes, event: bytes) -> bytes:
        """The door that gives the event to a member of the group; empty for this one."""
        others = self._with_members(group)
        if not others:
            return b""
        door = max((self._door, *others), key=lambda door: _weight(door, event))
        return b"" if door == self._door else door


def _known(values: list[Any], most: int) -> dict[bytes, None]:
    return dict.fromkeys(one for one in values[:most] if type(one) is bytes)


def _weight(door: bytes, what: bytes) -> bytes:
    """The door of the greatest one is the first in turn, as all doors see it."""
    return hashlib.blake2s(door + what, digest_size=_BYTES).digest()
