"""The events that the broadcast layers share; others may be added by whoever needs them."""

from __future__ import annotations

from dataclasses import dataclass

from pubsub.broadcast.kernel import Event
from pubsub.broadcast.message import Message


@dataclass(frozen=True, slots=True)
class Broadcast(Event):
    """Down: to every member of the group, this one included."""

    message: Message


@dataclass(frozen=True, slots=True)
class Deliver(Event):
    """Up: what the member of rank `source` broadcast, as the layer below sees it."""

    source: int
    message: Message
    number: int = 0
    """Of this broadcast among those of `source`, from 1, where the layer counts them; else 0."""


@dataclass(frozen=True, slots=True)
class Send(Event):
    """Down: to one other member."""

    to: int
    message: Message


@dataclass(frozen=True, slots=True)
class Receive(Event):
    """Up: from one other member."""

    source: int
    message: Message


@dataclass(frozen=True, slots=True)
class StartDetector(Event):
    """Down: every process of the group runs, so from now on silence means a crash."""


@dataclass(frozen=True, slots=True)
class Crash(Event):
    """Up: this member has crashed, and never comes back."""

    rank: int


@dataclass(frozen=True, slots=True)
class MemberFound(Event):
    """Up, from the links: the address of this member has become known."""

    rank: int


@dataclass(frozen=True, slots=True)
class Taken(Event):
    """Down: the application is done with a message, and does not want it again after a restart."""

    source: int
    number: int
