"""What a member must not forget when it crashes, as an interface: the layer says what, a log says how."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from pubsub.broadcast.message import Message

Then = Callable[[], None]


class Stored(NamedTuple):
    """A message in the log, as it was broadcast."""

    origin: int
    number: int
    message: Message


@dataclass(frozen=True)
class Restored:
    """What a log holds when a member starts."""

    copies: tuple[Stored, ...]
    """Those that are held for others, or not delivered yet."""

    untaken: tuple[Stored, ...]
    """Those that were delivered and that the application was not done with, in the order of delivery."""

    marks: dict[int, int]
    """By origin: up to where every message was delivered."""

    above: tuple[tuple[int, int], ...]
    """Origin and number of messages that were delivered above the mark."""


class StableLog(Protocol):
    """Survives a crash. `then` is called when what a method was told is on the disk, which may be at once;
    while the disk fails, that is later. `dropped` and `taken` may be forgotten: the one costs that a
    message is offered to others again, the other that it is delivered again."""

    def restore(self) -> Restored: ...

    def held(self, stored: Stored, then: Then) -> None:
        """The member holds this message, and is about to say so."""

    def delivered(self, origin: int, number: int, mark: int, then: Then) -> None:
        """It is about to deliver this one; all of the origin's up to `mark` are delivered now."""

    def taken(self, origin: int, number: int) -> None:
        """The application is done with it."""

    def dropped(self, origin: int, number: int) -> None:
        """Others keep it, or all have it."""
