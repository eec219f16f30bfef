"""What a participant must not forget when it crashes, as an interface: the protocol says what, a log says
how."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from pubsub.topic_broadcast.messages import Item
from pubsub.topic_membership.messages import Entry


class SourceNumbers(NamedTuple):
    """Which messages of a source have been received."""

    source: bytes
    mark: int
    ranges: tuple[tuple[int, int], ...]


@dataclass(frozen=True)
class Restored:
    """What a log holds when a participant starts."""

    life: int | None = None
    """None when the participant is new."""
    boot: int = 0
    entries: tuple[Entry, ...] = ()
    received: tuple[SourceNumbers, ...] = ()
    held: tuple[Item, ...] = ()
    """Those that somebody may lack."""
    unfinished: tuple[Item, ...] = ()
    """Those that the application was not done with, in the order in which they came."""


class TopicLog(Protocol):
    """Survives a crash from the moment at which `sync` calls back; before that, anything may be lost."""

    @property
    def is_durable(self) -> bool: ...

    def restore(self) -> Restored: ...

    def began(self, boot: int, life: int) -> None:
        """The participant runs in this boot; its messages are numbered in this life."""

    def took(self, item: Item, unfinished: bool) -> None:
        """A message was received or published; `unfinished` if the application gets it."""

    def finished(self, item: Item) -> None:
        """The application is done with it."""

    def collected(self, item: Item) -> None:
        """Everybody has it."""

    def knows(self, entry: Entry) -> None:
        """A participant joined, changed or left."""

    def sync(self, received: Iterable[SourceNumbers], then: Callable[[], None]) -> None:
        """Put all that was told on the disk, together with the numbers of sources that have changed; `then`
        is called when it is there, which may be at once. While the disk fails, that is later; several are
        called in the order of the calls."""

    async def close(self) -> None:
        """Nothing more will be told."""


class NoLog:
    """Forgets everything."""

    is_durable = False

    def restore(self) -> Restored:
        return Restored()

    def began(self, boot: int, life: int) -> None:
        pass

    def took(self, item: Item, unfinished: bool) -> None:
        pass

    def finished(self, item: Item) -> None:
        pass

    def collected(self, item: Item) -> None:
        pass

    def knows(self, entry: Entry) -> None:
        pass

    def sync(self, received: Iterable[SourceNumbers], then: Callable[[], None]) -> None:
        then()

    async def close(self) -> None:
        pass
