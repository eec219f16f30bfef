"""Shared subscriptions over several doors: which door gives a message to one of a group's members.

Doors tell each other which groups have members there, when that changes and every `BEAT_SECONDS`. Each door
computes, from a message's event id and the doors that have members, the same door as all others; that one
gives the message to one of its members. A door that was silent for `SILENT_SECONDS` has none.

So each message goes to one of the group while doors know the same of each other. While a first member comes,
or a door fails, a message may go to two members, or for up to `SILENT_SECONDS` to none. Where an archive
keeps the topic it is the archive that shares out messages of QoS 1 and 2 (`pubsub.doors.mqtt.shared`).
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any, Protocol

from overlay.context import Timer

BEAT_SECONDS = 2.0
SILENT_SECONDS = 7.0

MOST_DOORS = 1_000
"""Other doors that are remembered."""

MOST_GROUPS = 10_000
"""Groups that are believed of one door."""

_BYTES = 8


class Clock(Protocol):
    def now(self) -> float: ...

    def call_later(self, delay: float, action: Callable[[], None]) -> Timer: ...


def group_key(group: str, levels: Sequence[str]) -> bytes:
    """What doors call a group; members of one group with the same filter have the same."""
    text = "/".join((group, *levels))
    return hashlib.blake2s(text.encode(), digest_size=_BYTES).digest()


class Groups:
    """A core: the groups with members at this door, and at others."""

    def __init__(self, clock: Clock, door: bytes, tell: Callable[[list[bytes]], None]) -> None:
        """`door`: tells this door from others; `tell`: have the other doors told of these groups."""
        self._clock = clock
        self._door = door
        self._tell = tell
        self._members: Counter[bytes] = Counter()
        self._others: dict[bytes, tuple[float, frozenset[bytes]]] = {}
        """By door: when it was last heard of, and its groups."""
        self._timer: Timer | None = None

    def joined(self, key: bytes) -> None:
        self._members[key] += 1
        if self._members[key] == 1:
            self._beat()

    def left(self, key: bytes) -> None:
        self._members[key] -= 1
        if not self._members[key]:
            del self._members[key]
            self._beat()

    def _beat(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._tell(list(self._members))
        if self._members:
            self._timer = self._clock.call_later(BEAT_SECONDS, self._beat)

    def heard(self, door: Any, groups: Any) -> None:
        """What another door has said; anything else is ignored."""
        if type(door) is not bytes or door == self._door or not isinstance(groups, list):
            return
        known = frozenset(one for one in groups[:MOST_GROUPS] if type(one) is bytes)
        is_new = door not in self._others
        self._others.pop(door, None)
        self._others[door] = (self._clock.now(), known)
        if len(self._others) > MOST_DOORS:
            del self._others[next(iter(self._others))]
        if is_new and self._members:
            self._beat()  # it does not know of this one

    def is_elsewhere(self, key: bytes) -> bool:
        """Whether another door has members of the group."""
        return bool(self._doors(key))

    def _doors(self, key: bytes) -> list[bytes]:
        since = self._clock.now() - SILENT_SECONDS
        return [
            door
            for door, (heard, groups) in self._others.items()
            if heard > since and key in groups
        ]

    def is_ours(self, key: bytes, event: bytes) -> bool:
        """Whether this door is the one that gives the event to a member of the group."""
        others = self._doors(key)
        if not others:
            return True
        own = _rank(self._door, event)
        return all(own > _rank(door, event) for door in others)


def _rank(door: bytes, event: bytes) -> bytes:
    return hashlib.blake2s(door + event, digest_size=_BYTES).digest()
